//! What is known of repositories: the port of the synchronisation over the functions and tables of the
//! migrations 0026 and 0027.

mod patches;
mod read;
mod record;

use async_trait::async_trait;
use consign_scm::{
    Batch, Change, End, LedgerError, NewRepo, Patch, PatchState, PendingPatch, Recorded, Repo,
    RepoStatus, ScmLedger, Step, Stream,
};
use serde_json::Value;
use sqlx::postgres::PgRow;

use crate::{
    PostgresStore,
    error::{sqlstate, state_of},
    pools::Use,
    store::Statement,
};

type Result<T> = std::result::Result<T, LedgerError>;

#[async_trait]
impl ScmLedger for PostgresStore {
    async fn add_repo(&self, repo: &NewRepo) -> Result<Repo> {
        self.add_repo_impl(repo).await
    }
    async fn repos(&self) -> Result<Vec<Repo>> {
        self.repos_impl().await
    }
    async fn repo(&self, repo_id: i64) -> Result<Option<Repo>> {
        self.repo_impl(repo_id).await
    }
    async fn watermark(&self, repo_id: i64, stream: Stream) -> Result<Option<Value>> {
        self.watermark_impl(repo_id, stream).await
    }
    async fn record(&self, batch: &Batch) -> Result<Recorded> {
        self.record_impl(batch).await
    }
    async fn unmaterialized(
        &self,
        repo_id: i64,
        after: i64,
        limit: u32,
    ) -> Result<Vec<PendingPatch>> {
        self.unmaterialized_impl(repo_id, after, limit).await
    }

    async fn failed_patches(
        &self,
        repo_id: i64,
        after: (u32, i64),
        limit: u32,
    ) -> Result<Vec<PendingPatch>> {
        self.failed_patches_impl(repo_id, after, limit).await
    }
    async fn put_patch(&self, patch: &Patch) -> Result<i64> {
        self.put_patch_impl(patch).await
    }
    async fn patch(&self, repo_id: i64, rev_or_sha: &str) -> Result<Option<PatchState>> {
        self.patch_impl(repo_id, rev_or_sha).await
    }
    async fn patch_by_sha(&self, sha256: &str) -> Result<Option<PatchState>> {
        self.patch_by_sha_impl(sha256).await
    }
    async fn patch_by_id(&self, blob_id: i64) -> Result<Option<PatchState>> {
        self.patch_by_id_impl(blob_id).await
    }
    async fn ended(&self, repo_id: i64, step: Step, end: &End) -> Result<()> {
        self.ended_impl(repo_id, step, end).await
    }
    async fn note(&self, repo_id: i64, event_type: &str, payload: &Value) -> Result<()> {
        self.note_impl(repo_id, event_type, payload).await
    }
    async fn changes(&self, repo_id: i64, after: i64, limit: u32) -> Result<Vec<Change>> {
        self.changes_impl(repo_id, after, limit).await
    }
    async fn status(&self) -> Result<Vec<RepoStatus>> {
        self.status_impl().await
    }
}

/// Which watermark of which repository a call is about.
#[derive(Clone, Copy)]
struct About<'a> {
    repo_id: i64,
    key: &'a str,
}

impl PostgresStore {
    /// Runs one statement about a repository, turning failures into the ledger's errors.
    async fn ask(&self, about: About<'_>, statement: Statement<'_>) -> Result<Vec<PgRow>> {
        let rows = self.rows(Use::Request, statement).await;
        rows.map_err(|error| ledger_error(about, &error))
    }

    /// The same for what is about no repository in particular.
    async fn look(&self, statement: Statement<'_>) -> Result<Vec<PgRow>> {
        let about = About {
            repo_id: 0,
            key: "",
        };
        self.ask(about, statement).await
    }
}

fn ledger_error(about: About<'_>, error: &sqlx::Error) -> LedgerError {
    let why = || match error.as_database_error() {
        Some(error) => error.message().to_owned(),
        None => error.to_string(),
    };
    match state_of(error) {
        Some(sqlstate::WATERMARK_MOVED) => LedgerError::Moved {
            repo_id: about.repo_id,
            key: about.key.to_owned(),
        },
        Some(sqlstate::UNKNOWN_REPO) => LedgerError::UnknownRepo(about.repo_id),
        // What cannot be represented, breaks a constraint, is refused by a trigger, or is too much for
        // a row or an index.
        Some(sqlstate::INVALID_INPUT | sqlstate::TOO_MUCH | sqlstate::RAISED) => {
            LedgerError::Refused(why())
        }
        Some(code) if code.starts_with("22") || code.starts_with("23") => {
            LedgerError::Refused(why())
        }
        _ => LedgerError::Unavailable(why()),
    }
}

/// A row that no version of this program makes.
fn unreadable(error: consign_kernel::Error) -> LedgerError {
    LedgerError::Unavailable(error.to_string())
}
