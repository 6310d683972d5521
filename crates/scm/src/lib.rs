#![doc = include_str!("../README.md")]

mod error;
mod hooks;
mod ledger;
mod materialize;
mod options;
mod record;
mod retry;
mod source;
mod svn;
mod watermark;

pub use error::{LedgerError, ScmError};
pub use hooks::{NoHooks, Point, Progress, SyncHooks};
pub use ledger::{Batch, PatchState, PendingPatch, Recorded, Records, RepoStatus, ScmLedger};
pub use materialize::PatchWriter;
pub use options::{Credential, Diffs, Mode, Secret, SourceOptions, SyncOptions};
pub use record::{
    Change, NewCommit, NewMergeRequest, NewRepo, NewReview, NewRevision, Patch, PatchFormat,
    Provider, Repo,
};
pub use retry::{Retry, Wait};
pub use source::{Found, Note, Outlet, Place, Source};
pub use svn::SvnSource;
pub use watermark::{NAMESPACE, Stream, Watermark};
