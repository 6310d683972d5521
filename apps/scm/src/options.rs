//! Options of a synchronisation.

use std::{path::PathBuf, time::Duration};

pub use consign_redact::Secret;
use serde::{Deserialize, Serialize};

use crate::{Reach, Retry};

/// Options of a source.
#[derive(Clone, Debug)]
pub struct SourceOptions {
    /// Folder of the mirrors of remote Git repositories.
    pub mirrors_root: PathBuf,
    /// Allowed addresses and folders. Set it where others add repositories.
    pub reach: Reach,
    /// Credential at the source.
    pub credential: Option<Credential>,
    /// Additional trusted certificate authority.
    pub ca_file: Option<PathBuf>,
    /// Maximum records per batch.
    pub batch_records_max: usize,
    /// Maximum silence before a source counts as unreachable.
    pub silence_max: Duration,
    /// Retries of an unreachable source.
    pub retry: Retry,
}

impl SourceOptions {
    /// Defaults for everything but the folder.
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

/// A credential. Passed to programs by environment or standard input, never in URLs or arguments.
#[derive(Clone, Debug)]
pub struct Credential {
    /// `None` for tokens: `oauth2` for Git, unused by GitLab.
    pub user: Option<String>,
    /// A password or token.
    pub secret: Secret,
}

/// Handling of a record that the database rejects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// The synchronisation stops; the watermark stays before it.
    #[default]
    Strict,
    /// It is skipped, counted and recorded as an event; the watermark moves past it.
    BestEffort,
}

/// When changes are fetched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Diffs {
    /// By [`crate::Synchronizer::materialize`].
    #[default]
    Later,
    /// While synchronising. A failed one is left for later.
    Now,
}

/// Options of a synchronisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncOptions {
    /// Handling of a record that the database rejects.
    pub mode: Mode,
    /// When changes are fetched.
    pub diffs: Diffs,
    /// A larger change is stored as statistics.
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
