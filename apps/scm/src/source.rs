//! The trait of a source: a source reads, [`crate::sync`] writes.
//!
//! A source does not use the ledger. It reads a [`Stream`] from a position on and returns the
//! records, oldest first, with the position behind them; a later run continues from that position.
//! Positions are opaque to all other code.

use async_trait::async_trait;
use serde_json::{Map, Value};
use tokio::sync::mpsc;

use crate::{PatchWriter, Records, ScmError, Stream, Watermark};

/// The position in a watermark, see [`Watermark::place`].
pub type SourcePosition = Map<String, Value>;

/// Records and the position behind them: written together or not at all.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceBatch {
    /// Oldest first, at most [`crate::SourceOptions::batch_records_max`]. May be empty, if only the
    /// position changes.
    pub records: Records,
    /// The position once they are written.
    pub place: SourcePosition,
    /// Number of records after these, if known. For progress reports.
    pub remaining: Option<u64>,
    /// Notes on the batch. Written before the records; after a crash perhaps twice.
    pub notes: Vec<Note>,
}

/// An event of the repository.
#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    /// `scm_history_rewritten` and so on.
    pub event_type: &'static str,
    /// Details. Never credentials.
    pub payload: Value,
}

/// Channel from a source to the ledger. It holds few batches: the source reads the next batch while
/// the ledger writes.
#[derive(Clone, Debug)]
pub struct BatchSender(mpsc::Sender<SourceBatch>);

impl BatchSender {
    /// An outlet and its receiver.
    pub fn new(batches_max: usize) -> (Self, mpsc::Receiver<SourceBatch>) {
        let (sender, receiver) = mpsc::channel(batches_max);
        (Self(sender), receiver)
    }

    /// Sends a batch. Fails with [`ScmError::Stopped`] when the receiver is closed: the source ends
    /// with that error.
    pub async fn send(&self, found: SourceBatch) -> Result<(), ScmError> {
        self.0.send(found).await.map_err(|_| ScmError::Stopped)
    }
}

/// A readable repository.
///
/// Every method may be dropped while it runs, and then leaves no process behind (`kill_on_drop`).
/// Network failures are [`ScmError::Network`]; `prepare` and `read` retry them with
/// [`crate::Retry`], `diff` and `diffstat` leave that to the caller. Errors, notes and logs of a
/// source never contain credentials.
#[async_trait]
pub trait Source: Send + Sync {
    /// Its name for errors: URL or path, without credentials.
    fn name(&self) -> &str;

    /// Its streams, in reading order.
    fn streams(&self) -> &[Stream];

    /// Preparation before any read, such as updating a mirror.
    async fn prepare(&self) -> Result<(), ScmError> {
        Ok(())
    }

    /// Reads a stream from a position to its end. Records that are read again are harmless: the
    /// ledger ignores them.
    ///
    /// A position is sent only with or after everything before it, so that the watermark never
    /// exceeds what is written. An empty repository sends nothing.
    async fn read(
        &self,
        stream: Stream,
        from: &Watermark,
        to: &BatchSender,
    ) -> Result<(), ScmError>;

    /// Writes the change of a commit or revision as a unified diff. Continues beyond the writer's
    /// limit, so that it can count.
    async fn diff(&self, rev_or_sha: &str, to: &mut PatchWriter) -> Result<(), ScmError>;

    /// Writes the changed files and their line counts: instead of a diff that is too large.
    async fn diffstat(&self, rev_or_sha: &str, to: &mut PatchWriter) -> Result<(), ScmError>;
}
