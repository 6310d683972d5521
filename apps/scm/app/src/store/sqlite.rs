//! The ledger of repositories in SQLite; the tables are in `migrations/0001_scm.sql`.

mod check;
mod component;
mod doctor;
mod patches;
mod read;
mod record;
mod work;

use std::result::Result as StdResult;

use async_trait::async_trait;
use consign_kernel::Error;
use consign_scm::{
    Batch, BatchResult, Change, End, LedgerError, NewRepo, Patch, PatchState, PendingPatch, Repo,
    RepoStatus, ScmLedger, Step, Stream,
};
use consign_sqlite::{
    SqliteStore,
    extension::{snapshot, write},
};
use serde_json::Value;

use super::ScmStore;

use work::ScmWork;

pub(crate) use component::ScmComponent;

type Result<T> = StdResult<T, LedgerError>;

/// Result of an operation, or the ledger's error.
type Answer<T> = consign_sqlite::extension::Result<Result<T>>;

#[async_trait]
impl ScmLedger for ScmStore<SqliteStore> {
    async fn add_repo(&self, repo: &NewRepo) -> Result<Repo> {
        let added = async {
            write!(self.0, "add a repository", (repo), |work| async {
                ScmWork(work).add_repo(&repo).await
            })
        };
        added.await.map_err(ledger_error)
    }

    async fn repos(&self) -> Result<Vec<Repo>> {
        let read =
            async { snapshot!(self.0, "list repositories", |tx| read::repos(&mut tx, None)) };
        read.await.map_err(ledger_error)
    }

    async fn repo(&self, repo_id: i64) -> Result<Option<Repo>> {
        let read = async {
            snapshot!(self.0, "read a repository", |tx| read::repos(
                &mut tx,
                Some(repo_id)
            ))
        };
        let found = read.await.map_err(ledger_error)?;
        Ok(found.into_iter().next())
    }

    async fn watermark(&self, repo_id: i64, stream: Stream) -> Result<Option<Value>> {
        let read = async {
            snapshot!(self.0, "read a watermark", |tx| read::watermark(
                &mut tx,
                &stream.key(repo_id)
            ))
        };
        read.await.map_err(ledger_error)
    }

    async fn record(&self, batch: &Batch) -> Result<BatchResult> {
        let recorded = async {
            write!(self.0, "record a batch", (batch), |work| async {
                ScmWork(work).record_batch(&batch).await
            })
        };
        recorded.await.map_err(ledger_error)?
    }

    async fn unmaterialized(
        &self,
        repo_id: i64,
        after: i64,
        limit: u32,
    ) -> Result<Vec<PendingPatch>> {
        let read = async {
            snapshot!(
                self.0,
                "list missing changes",
                |tx| patches::unmaterialized(&mut tx, repo_id, after, limit)
            )
        };
        read.await.map_err(ledger_error)
    }

    async fn failed_patches(
        &self,
        repo_id: i64,
        after: (u32, i64),
        limit: u32,
    ) -> Result<Vec<PendingPatch>> {
        let read = async {
            snapshot!(self.0, "list failed changes", |tx| patches::failed(
                &mut tx, repo_id, after, limit
            ))
        };
        read.await.map_err(ledger_error)
    }

    async fn put_patch(&self, patch: &Patch) -> Result<i64> {
        let put = async {
            write!(self.0, "store a change", (patch), |work| async {
                ScmWork(work).put_patch(&patch).await
            })
        };
        put.await.map_err(ledger_error)?
    }

    async fn patch(&self, repo_id: i64, rev_or_sha: &str) -> Result<Option<PatchState>> {
        let read = async {
            snapshot!(self.0, "read a change", |tx| patches::versions(
                &mut tx, repo_id, rev_or_sha
            ))
        };
        let found = read.await.map_err(ledger_error)?;
        Ok(found.into_iter().next())
    }

    async fn patch_by_sha(&self, sha256: &str) -> Result<Option<PatchState>> {
        let read = async {
            snapshot!(self.0, "find a change", |tx| patches::by_sha(
                &mut tx, sha256
            ))
        };
        read.await.map_err(ledger_error)
    }

    async fn patch_by_id(&self, blob_id: i64) -> Result<Option<PatchState>> {
        let read = async {
            snapshot!(self.0, "find a change", |tx| patches::by_id(
                &mut tx, blob_id
            ))
        };
        read.await.map_err(ledger_error)
    }

    async fn ended(&self, repo_id: i64, step: Step, end: &End) -> Result<()> {
        let ended = async {
            write!(self.0, "record how a step ended", (end), |work| async {
                ScmWork(work).step_ended(repo_id, step, &end).await
            })
        };
        ended.await.map_err(ledger_error)?
    }

    async fn note(&self, repo_id: i64, event_type: &str, payload: &Value) -> Result<()> {
        let noted = async {
            write!(
                self.0,
                "note an event",
                (event_type, payload),
                |work| async { ScmWork(work).note(repo_id, &event_type, &payload).await }
            )
        };
        noted.await.map_err(ledger_error)?
    }

    async fn changes(&self, repo_id: i64, after: i64, limit: u32) -> Result<Vec<Change>> {
        let read = async {
            snapshot!(self.0, "read the history of a repository", |tx| {
                read::changes(&mut tx, repo_id, after, limit)
            })
        };
        read.await.map_err(ledger_error)
    }

    async fn status(&self) -> Result<Vec<RepoStatus>> {
        let read = async {
            snapshot!(
                self.0,
                "read the status of repositories",
                |tx| read::status(&mut tx)
            )
        };
        read.await.map_err(ledger_error)
    }
}

fn ledger_error(error: Error) -> LedgerError {
    if matches!(error, Error::InvalidInput { .. }) {
        return LedgerError::Refused(error.to_string());
    }
    let mut why = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(error) = source {
        why = format!("{why}: {error}");
        source = error.source();
    }
    LedgerError::Unavailable(why)
}
