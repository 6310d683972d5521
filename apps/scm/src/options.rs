//! How to synchronise.

use std::{path::PathBuf, time::Duration};

pub use consign_outbound::Secret;
use serde::{Deserialize, Serialize};

use crate::{Reach, Retry};

/// What a source needs to know besides its repository.
#[derive(Clone, Debug)]
pub struct SourceOptions {
    /// Where mirrors of remote Git repositories are kept.
    pub mirrors_root: PathBuf,
    /// What may be read. Whoever reads what others added sets it.
    pub reach: Reach,
    /// Who we are there.
    pub credential: Option<Credential>,
    /// A certificate authority to trust besides the system's.
    pub ca_file: Option<PathBuf>,
    /// How many records are handed over at once.
    pub batch_records_max: usize,
    /// How long a source may say nothing before it counts as unreachable.
    pub silence_max: Duration,
    /// What to do when it is.
    pub retry: Retry,
}

impl SourceOptions {
    /// With defaults for everything but the folder.
    pub fn new(mirrors_root: impl Into<PathBuf>) -> Self {
        Self {
            mirrors_root: mirrors_root.into(),
            reach: Reach::anywhere(),
            credential: None,
            ca_file: None,
            batch_records_max: 1000,
            silence_max: Duration::from_secs(60),
            retry: Retry::default(),
        }
    }
}

/// A name and what proves it. Given to programs by environment or standard input, never in URLs or
/// arguments.
#[derive(Clone, Debug)]
pub struct Credential {
    /// Absent for tokens: Git is told `oauth2`, GitLab needs none.
    pub user: Option<String>,
    /// A password or token.
    pub secret: Secret,
}

/// What becomes of a record that the database refuses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// It ends the synchronisation; the watermark stays before it.
    #[default]
    Strict,
    /// It is skipped, counted and noted as an event; the watermark moves past it.
    BestEffort,
}

/// When the changes themselves are fetched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Diffs {
    /// By [`crate::Synchronizer::materialize`].
    #[default]
    Later,
    /// While synchronising. One that cannot be fetched is left for later.
    Now,
}

/// How to synchronise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncOptions {
    /// What becomes of a record that the database refuses.
    pub mode: Mode,
    /// When the changes themselves are fetched.
    pub diffs: Diffs,
    /// A larger change is kept as a list of what it touches.
    pub diff_bytes_max: u64,
}

impl Default for SyncOptions {
    fn default() -> Self {
        Self {
            mode: Mode::Strict,
            diffs: Diffs::Later,
            diff_bytes_max: 10 << 20,
        }
    }
}
