//! The port for the history of repositories.
//!
//! `consign-scm-app` implements it; the cases in its tests are the rules. Every operation is one
//! transaction, and none writes outside of `scm.*`, the namespace [`crate::NAMESPACE`] of
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

/// Records of one repository, with the watermark behind them.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// The repository.
    pub repo_id: i64,
    /// The stream whose watermark moves.
    pub stream: Stream,
    /// The watermark when it was read; `None`: there was none.
    pub from: Option<Value>,
    /// The new watermark.
    pub to: Value,
    /// The records.
    pub records: Records,
}

/// Records in the order of history: the first is the oldest.
#[derive(Clone, Debug, PartialEq)]
pub enum Records {
    /// Of Git or GitLab.
    Commits(Vec<NewCommit>),
    /// Of Subversion.
    Revisions(Vec<NewRevision>),
    /// Of GitLab.
    MergeRequests(Vec<NewMergeRequest>),
    /// Of GitLab. Their merge requests are stored.
    Reviews(Vec<NewReview>),
}

/// Result of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BatchResult {
    /// New records.
    pub written: u64,
    /// Records that existed; unchanged or, for merge requests, updated.
    pub known: u64,
}

/// A commit or revision whose change is not stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingPatch {
    /// Its position in the repository's history, see [`Change::position`].
    pub position: i64,
    /// The commit or revision.
    pub rev_or_sha: String,
    /// Failed attempts to fetch it.
    pub attempts: u32,
    /// The last failure.
    pub error: Option<String>,
}

/// The change of a commit or revision.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PatchState {
    /// Its id.
    pub blob_id: i64,
    /// `<repo_id>:<rev_or_sha>`.
    pub source_id: String,
    /// `git` or `svn`.
    pub source_type: String,
    /// Its artifact; `None`: not stored.
    pub uri: Option<String>,
    /// `memory://patch_blobs/…`; `None` while it is not stored.
    pub evidence_uri: Option<String>,
    /// Hash of the stored content.
    pub sha256: String,
    /// Size of the stored content.
    pub size_bytes: Option<i64>,
    /// `diff`, `diffstat` or `ministat`.
    pub format: String,
    /// `materialize_status`, `materialize_error`, `attempts`, `degraded`, `degrade_reason` and so on.
    pub meta_json: Value,
}

/// Status of a repository.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RepoStatus {
    /// The repository.
    #[serde(flatten)]
    pub repo: Repo,
    /// Stored commits or revisions.
    pub changes: u64,
    /// The position of the last of them.
    pub last_position: Option<i64>,
    /// Time of the last of them.
    pub last_change_at: Option<Timestamp>,
    /// Those after the gateway's cursor.
    pub unconsumed: u64,
    /// The gateway's cursor.
    pub consumed_position: i64,
    /// Changes that could not be fetched.
    pub patches_failed: u64,
    /// Stored changes.
    pub patches_here: u64,
    /// The watermarks, by their keys.
    pub watermarks: serde_json::Map<String, Value>,
    /// When one of them moved last, by the database's clock. An interrupted synchronisation moves
    /// them too.
    pub watermarks_moved_at: Option<Timestamp>,
    /// When a synchronisation last completed.
    pub synced_at: Option<Timestamp>,
    /// Why the last one stopped.
    pub sync_stopped: Option<Stop>,
    /// When consumption last completed.
    pub consumed_at: Option<Timestamp>,
    /// Why the last consumption stopped; its code is the reason.
    pub consume_stopped: Option<Stop>,
}

/// Store operations for repositories.
#[async_trait]
pub trait ScmLedger: Send + Sync {
    /// Adds a repository. The same type and URL is the same repository: it is returned, with a
    /// project or branch updated if set.
    async fn add_repo(&self, repo: &NewRepo) -> Result<Repo>;

    /// The repositories, oldest first.
    async fn repos(&self) -> Result<Vec<Repo>>;

    /// A repository.
    async fn repo(&self, repo_id: i64) -> Result<Option<Repo>>;

    /// The stored watermark.
    async fn watermark(&self, repo_id: i64, stream: Stream) -> Result<Option<Value>>;

    /// Writes records and moves the watermark, both or neither. Fails with [`LedgerError::Moved`]
    /// if the watermark changed since the batch was read. Records of one repository are written by
    /// one transaction at a time, so that a visible position is never followed by a smaller one.
    /// Existing records do not change, except that merge requests take a newer state. Texts never
    /// contain U+0000.
    async fn record(&self, batch: &Batch) -> Result<BatchResult>;

    /// Commits or revisions whose change was never fetched, after a position, in the order of
    /// history.
    async fn unmaterialized(
        &self,
        repo_id: i64,
        after: i64,
        limit: u32,
    ) -> Result<Vec<PendingPatch>>;

    /// Commits or revisions whose change could not be fetched: fewest failures first, then oldest
    /// first; after so many attempts and a position.
    async fn failed_patches(
        &self,
        repo_id: i64,
        after: (u32, i64),
        limit: u32,
    ) -> Result<Vec<PendingPatch>>;

    /// Stores a fetched change, or the failure. A failure does not replace a stored change.
    /// `attempts` counts the failures. The row of a failure becomes the row of the change once it
    /// is fetched.
    async fn put_patch(&self, patch: &Patch) -> Result<i64>;

    /// The change of a commit or revision.
    async fn patch(&self, repo_id: i64, rev_or_sha: &str) -> Result<Option<PatchState>>;

    /// The stored change with this hash; for evidence that is requested by its hash.
    async fn patch_by_sha(&self, sha256: &str) -> Result<Option<PatchState>>;

    /// The change with this id, stored or not.
    async fn patch_by_id(&self, blob_id: i64) -> Result<Option<PatchState>>;

    /// Records how a step ended. A step that was not stopped clears an earlier stop; only a
    /// complete one counts as complete.
    async fn ended(&self, repo_id: i64, step: Step, end: &End) -> Result<()>;

    /// Records a note as an event of the repository's item (created if missing: type `scm_repo`,
    /// `scope_json` = `{"repo_id": …}`).
    async fn note(&self, repo_id: i64, event_type: &str, payload: &Value) -> Result<()>;

    /// Commits or revisions after a position, in the order of history.
    async fn changes(&self, repo_id: i64, after: i64, limit: u32) -> Result<Vec<Change>>;

    /// Status of the repositories.
    async fn status(&self) -> Result<Vec<RepoStatus>>;
}
