#![doc = include_str!("../README.md")]

mod derive;
mod environment;
mod error;
mod git;
mod gitlab;
mod hooks;
mod hunks;
mod ledger;
mod materialize;
mod open;
mod options;
mod reach;
mod record;
mod retry;
mod source;
mod step;
mod svn;
mod sync;
mod watermark;

pub use error::{LedgerError, ScmError};
pub use git::GitSource;
pub use gitlab::GitlabSource;
pub use hooks::{NoHooks, Point, Progress, SyncHooks};
pub use ledger::{Batch, BatchResult, PatchState, PendingPatch, Records, RepoStatus, ScmLedger};
pub use materialize::{MaterializeReport, PatchWriter};
pub use open::open;
pub use options::{Credential, Diffs, Mode, Secret, SourceOptions, SyncOptions};
pub use reach::Reach;
pub use record::{
    Change, NewCommit, NewMergeRequest, NewRepo, NewReview, NewRevision, Patch, PatchFormat,
    Provider, Repo,
};
pub use retry::{Retry, Wait};
pub use source::{BatchSender, Note, Source, SourceBatch, SourcePosition};
pub use step::{End, Step, Stop};
pub use svn::SvnSource;
pub use sync::{SyncReport, Synchronizer};
pub use watermark::{NAMESPACE, Stream, Watermark};
