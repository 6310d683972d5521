//! Whoever watches a synchronisation.

use async_trait::async_trait;

use crate::Stream;

/// A place where a test may stop a synchronisation for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Point {
    /// The source is prepared, nothing is written.
    AfterFetch,
    /// A batch is written, its watermark moved.
    AfterBatch,
    /// A change is on disk, the ledger does not know it.
    BeforePatch,
    /// The ledger knows a change.
    AfterPatch,
}

impl Point {
    /// As it is written: `after-fetch` and so on.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AfterFetch => "after-fetch",
            Self::AfterBatch => "after-batch",
            Self::BeforePatch => "before-patch",
            Self::AfterPatch => "after-patch",
        }
    }
}

/// How far it has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// What is being read; absent while changes are fetched.
    pub stream: Option<Stream>,
    /// Records or changes that are done, those that were known or skipped included.
    pub done: u64,
    /// How many there are in all, if that is known.
    pub total: Option<u64>,
}

/// Whoever watches a synchronisation. By default nobody does.
#[async_trait]
pub trait SyncHooks: Send + Sync {
    /// A place was reached; it goes on when this returns.
    async fn reached(&self, _point: Point) {}

    /// It has come so far.
    fn progressed(&self, _progress: Progress) {}
}

/// Nobody.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHooks;

impl SyncHooks for NoHooks {}
