//! Observers of a synchronisation.

use async_trait::async_trait;

use crate::Stream;

/// A point where a test can stop a synchronisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Point {
    /// The source is prepared, nothing is written.
    AfterFetch,
    /// A batch is written, its watermark moved.
    AfterBatch,
    /// A change is on disk, but not in the ledger.
    BeforePatch,
    /// A change is in the ledger.
    AfterPatch,
}

impl Point {
    /// The name: `after-fetch` and so on.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AfterFetch => "after-fetch",
            Self::AfterBatch => "after-batch",
            Self::BeforePatch => "before-patch",
            Self::AfterPatch => "after-patch",
        }
    }
}

/// Progress of a synchronisation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The stream being read; `None` while changes are fetched.
    pub stream: Option<Stream>,
    /// Completed records or changes, including stored and skipped ones.
    pub done: u64,
    /// Total, if it is known.
    pub total: Option<u64>,
}

/// Observer of a synchronisation. The defaults do nothing.
#[async_trait]
pub trait SyncHooks: Send + Sync {
    /// A point was reached; the synchronisation continues when this returns.
    async fn reached(&self, _point: Point) {}

    /// Progress report.
    fn progressed(&self, _progress: Progress) {}
}

/// No observer.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHooks;

impl SyncHooks for NoHooks {}
