#![doc = include_str!("../README.md")]

mod error;
mod ledger;
mod record;
mod watermark;

pub use error::{LedgerError, ScmError};
pub use ledger::{Batch, PatchState, PendingPatch, Recorded, Records, RepoStatus, ScmLedger};
pub use record::{
    Change, NewCommit, NewMergeRequest, NewRepo, NewReview, NewRevision, Patch, PatchFormat,
    Provider, Repo,
};
pub use watermark::{NAMESPACE, Stream, Watermark};
