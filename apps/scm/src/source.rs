//! The seam between what is synchronised and how: a source reads, [`crate::sync`] writes.
//!
//! A source knows nothing of the ledger. It reads a [`Stream`] from a place on and hands over what it
//! finds, oldest first, with the place behind it; whoever resumes gets that place back, whatever is
//! in it. Places are opaque to everybody else.

use async_trait::async_trait;
use serde_json::{Map, Value};
use tokio::sync::mpsc;

use crate::{PatchWriter, Records, ScmError, Stream, Watermark};

/// The place a watermark stands for, see [`Watermark::place`].
pub type Place = Map<String, Value>;

/// Some records and the place behind them: written together or not at all.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Oldest first, at most as many as [`crate::SourceOptions::batch_records_max`]. May be empty, if
    /// there is only a place to write down.
    pub records: Records,
    /// Where to go on once they are written.
    pub place: Place,
    /// How many records come after these, if that is known. For whoever watches.
    pub remaining: Option<u64>,
    /// What there is to say about it. Written before the records; after a crash perhaps twice.
    pub notes: Vec<Note>,
}

/// Something worth an event of the repository.
#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    /// `scm_history_rewritten` and so on.
    pub event_type: &'static str,
    /// Its details. Never credentials.
    pub payload: Value,
}

/// Where a source puts what it finds. Holds few batches: a source waits for the ledger, and works on
/// the next batch while the ledger writes.
#[derive(Clone, Debug)]
pub struct Outlet(mpsc::Sender<Found>);

impl Outlet {
    /// An outlet and its other end.
    pub fn new(batches_max: usize) -> (Self, mpsc::Receiver<Found>) {
        let (sender, receiver) = mpsc::channel(batches_max);
        (Self(sender), receiver)
    }

    /// Hands over a batch. Fails with [`ScmError::Stopped`] when nobody wants more: the source ends
    /// with that error.
    pub async fn send(&self, found: Found) -> Result<(), ScmError> {
        self.0.send(found).await.map_err(|_| ScmError::Stopped)
    }
}

/// A repository that can be read.
///
/// Every method may be dropped while it runs, and then leaves no process behind (`kill_on_drop`).
/// Network failures are [`ScmError::Network`]; `prepare` and `read` repeat what failed so with
/// [`crate::Retry`] before they give up, `diff` and `diffstat` do not: whoever calls them does.
/// Nothing that a source says (errors, notes, logs) holds credentials.
#[async_trait]
pub trait Source: Send + Sync {
    /// Which one, for errors: its URL or path, without credentials.
    fn name(&self) -> &str;

    /// What it can be asked for, in this order.
    fn streams(&self) -> &[Stream];

    /// What comes before any reading, such as bringing a mirror up to date.
    async fn prepare(&self) -> Result<(), ScmError> {
        Ok(())
    }

    /// Reads a stream from a place on until there is nothing more. Records that are found again (the
    /// place was in the middle of something) do no harm: the ledger knows them.
    ///
    /// A place is handed over only with or after everything before it, so that the watermark never
    /// says more than is written. A repository without any record hands over nothing.
    async fn read(&self, stream: Stream, from: &Watermark, to: &Outlet) -> Result<(), ScmError>;

    /// Writes the change of a commit or revision, as a unified diff. Goes on writing when the writer
    /// has enough: it counts.
    async fn diff(&self, rev_or_sha: &str, to: &mut PatchWriter) -> Result<(), ScmError>;

    /// Writes which files a commit or revision changed, and how much: instead of a diff that is too
    /// large.
    async fn diffstat(&self, rev_or_sha: &str, to: &mut PatchWriter) -> Result<(), ScmError>;
}
