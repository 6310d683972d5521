//! The port to what is known of repositories.
//!
//! `consign-scm-store` implements it; the cases in its tests are the rules. Every operation is
//! one transaction, and none touches anything but `scm.*`, the namespace [`crate::NAMESPACE`] of
//! `logbook.kv` and, for [`ScmLedger::note`], `logbook.items` and `logbook.events`.

use async_trait::async_trait;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use crate::{
    Change, End, LedgerError, NewCommit, NewMergeRequest, NewRepo, NewReview, NewRevision, Patch,
    Repo, Step, Stop, Stream,
};

type Result<T> = std::result::Result<T, LedgerError>;

/// Records of one repository, with the watermark that says they are there.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// The repository.
    pub repo_id: i64,
    /// Whose watermark moves.
    pub stream: Stream,
    /// The watermark as it was read; absent: there was none.
    pub from: Option<Value>,
    /// The watermark as it will be.
    pub to: Value,
    /// What was found.
    pub records: Records,
}

/// What was found, in the order of history: the first is the oldest.
#[derive(Clone, Debug, PartialEq)]
pub enum Records {
    /// Of Git or GitLab.
    Commits(Vec<NewCommit>),
    /// Of Subversion.
    Revisions(Vec<NewRevision>),
    /// Of GitLab.
    MergeRequests(Vec<NewMergeRequest>),
    /// Of GitLab. Their merge requests are known.
    Reviews(Vec<NewReview>),
}

/// What became of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Recorded {
    /// Records that were not known.
    pub written: u64,
    /// Records that were known, and stayed or, as merge requests, were brought up to date.
    pub known: u64,
}

/// A commit or revision whose change is not here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingPatch {
    /// Its position in the repository's history, see [`Change::position`].
    pub position: i64,
    /// The commit or revision.
    pub rev_or_sha: String,
    /// How often it could not be fetched.
    pub attempts: u32,
    /// Why not, the last time.
    pub error: Option<String>,
}

/// The change of a commit or revision, as it is known.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PatchState {
    /// Its number.
    pub blob_id: i64,
    /// `<repo_id>:<rev_or_sha>`.
    pub source_id: String,
    /// `git` or `svn`.
    pub source_type: String,
    /// Where it is among the artifacts; absent: it is not.
    pub uri: Option<String>,
    /// `memory://patch_blobs/…`; absent while it is not here.
    pub evidence_uri: Option<String>,
    /// The hash of what is kept.
    pub sha256: String,
    /// How large it is.
    pub size_bytes: Option<i64>,
    /// `diff`, `diffstat` or `ministat`.
    pub format: String,
    /// `materialize_status`, `materialize_error`, `attempts`, `degraded`, `degrade_reason` and so on.
    pub meta_json: Value,
}

/// How a repository stands.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RepoStatus {
    /// The repository.
    #[serde(flatten)]
    pub repo: Repo,
    /// Commits or revisions that are known.
    pub changes: u64,
    /// The position of the last of them.
    pub last_position: Option<i64>,
    /// When the last of them was made.
    pub last_change_at: Option<Timestamp>,
    /// Those that wait for the gateway: behind its cursor.
    pub unconsumed: u64,
    /// Where the gateway's cursor is.
    pub consumed_position: i64,
    /// Changes that could not be fetched so far.
    pub patches_failed: u64,
    /// Changes that are here.
    pub patches_here: u64,
    /// The watermarks, by their keys.
    pub watermarks: serde_json::Map<String, Value>,
    /// When one of them moved last, by the database's clock. A synchronisation that stopped halfway
    /// moves them too.
    pub watermarks_moved_at: Option<Timestamp>,
    /// When a synchronisation last came to its end.
    pub synced_at: Option<Timestamp>,
    /// Why the last one did not.
    pub sync_stopped: Option<Stop>,
    /// When everything had last become memories.
    pub consumed_at: Option<Timestamp>,
    /// Why the last consumption stopped; its code is the reason.
    pub consume_stopped: Option<Stop>,
}

/// What is known of repositories.
#[async_trait]
pub trait ScmLedger: Send + Sync {
    /// Makes a repository known. The same type and URL is the same repository: it is answered, and
    /// takes over a project or branch that is given.
    async fn add_repo(&self, repo: &NewRepo) -> Result<Repo>;

    /// The repositories, oldest first.
    async fn repos(&self) -> Result<Vec<Repo>>;

    /// A repository.
    async fn repo(&self, repo_id: i64) -> Result<Option<Repo>>;

    /// A watermark as it is stored.
    async fn watermark(&self, repo_id: i64, stream: Stream) -> Result<Option<Value>>;

    /// Writes records and moves the watermark, both or neither. Refused with [`LedgerError::Moved`]
    /// when the watermark is no longer what the batch was made from. Records of one repository are
    /// written by one transaction at a time, so that a position that can be seen is never followed by
    /// a smaller one. What is known already stays as it is, except that merge requests take over a
    /// newer state. Texts never hold U+0000 when they come here.
    async fn record(&self, batch: &Batch) -> Result<Recorded>;

    /// Commits or revisions whose change was never asked for, after a position, in the order of history.
    async fn unmaterialized(
        &self,
        repo_id: i64,
        after: i64,
        limit: u32,
    ) -> Result<Vec<PendingPatch>>;

    /// Commits or revisions whose change could not be fetched so far: what failed least often first, the
    /// oldest first of each; after so many attempts and a position.
    async fn failed_patches(
        &self,
        repo_id: i64,
        after: (u32, i64),
        limit: u32,
    ) -> Result<Vec<PendingPatch>>;

    /// Writes down a change that was fetched, or that it could not be. A change that is here stays:
    /// a failure does not replace it. `attempts` counts the failures. The row of a failure becomes the
    /// row of the change once it is fetched (T57).
    async fn put_patch(&self, patch: &Patch) -> Result<i64>;

    /// The change of a commit or revision.
    async fn patch(&self, repo_id: i64, rev_or_sha: &str) -> Result<Option<PatchState>>;

    /// The change with this hash, if it is here; for evidence that is asked for by its hash.
    async fn patch_by_sha(&self, sha256: &str) -> Result<Option<PatchState>>;

    /// The change with this number, here or not.
    async fn patch_by_id(&self, blob_id: i64) -> Result<Option<PatchState>>;

    /// Writes down how a step ended. One that was not stopped ends what is told about an earlier one
    /// that was; only a complete one counts as complete.
    async fn ended(&self, repo_id: i64, step: Step, end: &End) -> Result<()>;

    /// Notes what a synchronisation has to say, as an event of the repository's item (made when it is
    /// missing: type `scm_repo`, `scope_json` = `{"repo_id": …}`).
    async fn note(&self, repo_id: i64, event_type: &str, payload: &Value) -> Result<()>;

    /// Commits or revisions after a position, in the order of history.
    async fn changes(&self, repo_id: i64, after: i64, limit: u32) -> Result<Vec<Change>>;

    /// How the repositories stand.
    async fn status(&self) -> Result<Vec<RepoStatus>>;
}
