//! The ledger of repositories in PostgreSQL, over the functions and tables in `migrations/`.

mod batch;
mod rows;

use async_trait::async_trait;
use consign_kernel::migrations;
use consign_postgres::{
    Component, PostgresStore,
    extension::{Statement, Use, rows as columns, sqlstate, state_of},
};
use consign_scm::{
    Batch, BatchResult, Change, End, LedgerError, NewRepo, Patch, PatchState, PendingPatch, Repo,
    RepoStatus, ScmLedger, Step, Stream,
};
use serde_json::Value;
use sqlx::{postgres::PgRow, types::Json};

use super::ScmStore;

/// The component `scm` of a PostgreSQL database.
pub const POSTGRES_COMPONENT: Component = Component {
    migrations: migrations!["scm" requires ["memory"];
        (1, "scm", "postgres/migrations/0001_scm.sql"),
        (2, "roles", "postgres/migrations/0002_roles.sql"),
    ],
    checks: &[("repositories", include_str!("postgres/sql/doctor.sql"))],
};

/// SQLSTATE: another process synchronises the same repository.
const WATERMARK_MOVED: &str = "CN010";
const UNKNOWN_REPO: &str = "CN011";

type Result<T> = std::result::Result<T, LedgerError>;

#[async_trait]
impl ScmLedger for ScmStore<PostgresStore> {
    async fn add_repo(&self, repo: &NewRepo) -> Result<Repo> {
        let statement = sqlx::query("SELECT * FROM scm.add_repo($1, $2, $3, $4)")
            .bind(repo.provider.as_str())
            .bind(&repo.url)
            .bind(&repo.project_key)
            .bind(&repo.default_branch);
        let found = fetch(&self.0, ANY, statement).await?;
        let row = columns::only(&found).map_err(unreadable)?;
        rows::repo(row).map_err(unreadable)
    }

    async fn repos(&self) -> Result<Vec<Repo>> {
        let statement = sqlx::query("SELECT * FROM scm.repos ORDER BY repo_id");
        all(&fetch(&self.0, ANY, statement).await?, rows::repo)
    }

    async fn repo(&self, repo_id: i64) -> Result<Option<Repo>> {
        let statement = sqlx::query("SELECT * FROM scm.repos WHERE repo_id = $1").bind(repo_id);
        first(&fetch(&self.0, ANY, statement).await?, rows::repo)
    }

    async fn watermark(&self, repo_id: i64, stream: Stream) -> Result<Option<Value>> {
        let statement = sqlx::query("SELECT scm.watermark($1) AS value").bind(stream.key(repo_id));
        let found = fetch(&self.0, ANY, statement).await?;
        let row = columns::only(&found).map_err(unreadable)?;
        let value: Option<Json<Value>> = columns::column(row, "value").map_err(unreadable)?;
        Ok(value.map(|Json(value)| value))
    }

    async fn record(&self, batch: &Batch) -> Result<BatchResult> {
        let key = batch.stream.key(batch.repo_id);
        let about = CallSubject {
            repo_id: batch.repo_id,
            key: &key,
        };
        let found = fetch(&self.0, about, batch::statement(batch, &key)).await?;
        let row = columns::only(&found).map_err(unreadable)?;
        Ok(BatchResult {
            written: columns::count(row, "written").map_err(unreadable)?,
            known: columns::count(row, "known").map_err(unreadable)?,
        })
    }

    async fn unmaterialized(
        &self,
        repo_id: i64,
        after: i64,
        limit: u32,
    ) -> Result<Vec<PendingPatch>> {
        let statement = sqlx::query(include_str!("postgres/sql/unmaterialized.sql"))
            .bind(repo_id)
            .bind(after)
            .bind(i64::from(limit));
        all(&fetch(&self.0, ANY, statement).await?, rows::pending)
    }

    async fn failed_patches(
        &self,
        repo_id: i64,
        (attempts, position): (u32, i64),
        limit: u32,
    ) -> Result<Vec<PendingPatch>> {
        let statement = sqlx::query(include_str!("postgres/sql/failed_patches.sql"))
            .bind(repo_id)
            .bind(i64::from(attempts))
            .bind(position)
            .bind(i64::from(limit));
        all(&fetch(&self.0, ANY, statement).await?, rows::pending)
    }

    async fn put_patch(&self, patch: &Patch) -> Result<i64> {
        let sql = "SELECT scm.put_patch($1, $2, $3, $4, $5, $6, $7, $8) AS blob_id";
        let statement = sqlx::query(sql)
            .bind(patch.repo_id)
            .bind(&patch.rev_or_sha)
            .bind(&patch.uri)
            .bind(&patch.sha256)
            .bind(patch.size_bytes)
            .bind(patch.format.as_str())
            .bind(&patch.degrade_reason)
            .bind(&patch.error);
        let found = fetch(&self.0, CallSubject::repo(patch.repo_id), statement).await?;
        let row = columns::only(&found).map_err(unreadable)?;
        columns::column(row, "blob_id").map_err(unreadable)
    }

    async fn patch(&self, repo_id: i64, rev_or_sha: &str) -> Result<Option<PatchState>> {
        // Of several versions the newest; a stored one first.
        let sql = "SELECT p.* FROM scm.repos r
                   JOIN scm.patch_blobs p ON p.source_type = r.repo_type AND p.source_id = r.repo_id || ':' || $2
                   WHERE r.repo_id = $1 ORDER BY p.uri IS NULL, p.blob_id DESC LIMIT 1";
        let statement = sqlx::query(sql).bind(repo_id).bind(rev_or_sha);
        first(&fetch(&self.0, ANY, statement).await?, rows::patch)
    }

    async fn patch_by_sha(&self, sha256: &str) -> Result<Option<PatchState>> {
        let sql = "SELECT * FROM scm.patch_blobs WHERE sha256 = lower($1) AND uri IS NOT NULL
                   ORDER BY blob_id LIMIT 1";
        let statement = sqlx::query(sql).bind(sha256);
        first(&fetch(&self.0, ANY, statement).await?, rows::patch)
    }

    async fn patch_by_id(&self, blob_id: i64) -> Result<Option<PatchState>> {
        let sql = "SELECT * FROM scm.patch_blobs WHERE blob_id = $1";
        let statement = sqlx::query(sql).bind(blob_id);
        first(&fetch(&self.0, ANY, statement).await?, rows::patch)
    }

    async fn ended(&self, repo_id: i64, step: Step, end: &End) -> Result<()> {
        let (code, message) = end.trouble().unzip();
        let sql = match step {
            Step::Sync => "SELECT scm.sync_ended($1, $2, $3, $4)",
            Step::Consume => "SELECT scm.consume_ended($1, $2, $3, $4)",
        };
        let statement = sqlx::query(sql)
            .bind(repo_id)
            .bind(*end == End::Complete)
            .bind(code)
            .bind(message);
        let ended = fetch(&self.0, CallSubject::repo(repo_id), statement).await;
        ended.map(drop)
    }

    async fn note(&self, repo_id: i64, event_type: &str, payload: &Value) -> Result<()> {
        let statement = sqlx::query("SELECT scm.note($1, $2, $3)")
            .bind(repo_id)
            .bind(event_type)
            .bind(Json(payload));
        let noted = fetch(&self.0, CallSubject::repo(repo_id), statement).await;
        noted.map(drop)
    }

    async fn changes(&self, repo_id: i64, after: i64, limit: u32) -> Result<Vec<Change>> {
        let statement = sqlx::query(include_str!("postgres/sql/changes.sql"))
            .bind(repo_id)
            .bind(after)
            .bind(i64::from(limit));
        all(&fetch(&self.0, ANY, statement).await?, rows::change)
    }

    async fn status(&self) -> Result<Vec<RepoStatus>> {
        let statement = sqlx::query("SELECT * FROM scm.status()");
        all(&fetch(&self.0, ANY, statement).await?, rows::status)
    }
}

/// The repository and watermark of a call, for errors.
#[derive(Clone, Copy)]
struct CallSubject<'a> {
    repo_id: i64,
    key: &'a str,
}

/// A call without a repository.
const ANY: CallSubject<'_> = CallSubject::repo(0);

impl CallSubject<'_> {
    const fn repo(repo_id: i64) -> Self {
        Self { repo_id, key: "" }
    }
}

/// Runs one statement and maps its errors.
async fn fetch(
    store: &PostgresStore,
    about: CallSubject<'_>,
    statement: Statement<'_>,
) -> Result<Vec<PgRow>> {
    let rows = store.rows(Use::Request, statement).await;
    rows.map_err(|error| ledger_error(about, &error))
}

fn all<T>(rows: &[PgRow], read: fn(&PgRow) -> consign_kernel::Result<T>) -> Result<Vec<T>> {
    let read: consign_kernel::Result<Vec<T>> = rows.iter().map(read).collect();
    read.map_err(unreadable)
}

fn first<T>(rows: &[PgRow], read: fn(&PgRow) -> consign_kernel::Result<T>) -> Result<Option<T>> {
    rows.first().map(read).transpose().map_err(unreadable)
}

fn ledger_error(about: CallSubject<'_>, error: &sqlx::Error) -> LedgerError {
    let why = || match error.as_database_error() {
        Some(error) => error.message().to_owned(),
        None => error.to_string(),
    };
    match state_of(error) {
        Some(WATERMARK_MOVED) => LedgerError::Moved {
            repo_id: about.repo_id,
            key: about.key.to_owned(),
        },
        Some(UNKNOWN_REPO) => LedgerError::UnknownRepo(about.repo_id),
        // Unrepresentable values, violated constraints, trigger rejections, and rows or index
        // entries that are too large.
        Some(sqlstate::INVALID_INPUT | sqlstate::TOO_MUCH | sqlstate::RAISED) => {
            LedgerError::Refused(why())
        }
        Some(code) if code.starts_with("22") || code.starts_with("23") => {
            LedgerError::Refused(why())
        }
        _ => LedgerError::Unavailable(why()),
    }
}

/// A row that no version of this program writes.
fn unreadable(error: consign_kernel::Error) -> LedgerError {
    LedgerError::Unavailable(error.to_string())
}
