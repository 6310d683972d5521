//! Cursor of a repository's consumption.

use consign_kernel::Result;
use consign_scm::{Provider, Repo};
use serde_json::{Value, json};

use crate::MemoryService;

/// Namespace of cursors.
pub const NAMESPACE: &str = "gateway.consume";

fn key(repo: &Repo) -> String {
    format!("scm_consume:{}", repo.repo_id)
}

/// Field of the cursor: the number of a revision, or the serial number of a commit.
fn field(repo: &Repo) -> &'static str {
    match repo.provider {
        Provider::Svn => "last_processed_rev",
        Provider::Git | Provider::Gitlab => "last_processed_id",
    }
}

/// The position of the last change that became a memory; 0 before the first.
pub async fn position(service: &MemoryService, repo: &Repo) -> Result<i64> {
    let value = service.logbook().get_kv(NAMESPACE, &key(repo)).await?;
    let number = |value: &Value| value.get(field(repo)).and_then(Value::as_i64);
    Ok(value.as_ref().and_then(number).unwrap_or_default())
}

/// Sets the cursor: changes after this position become memories again.
pub async fn rewind(service: &MemoryService, repo: &Repo, to: i64) -> Result<()> {
    let value = json!({field(repo): to});
    let logbook = service.logbook();
    logbook.set_kv(NAMESPACE, &key(repo), &value).await
}

/// Audit field that moves the cursor when the audit ends successfully.
pub(super) fn step(repo: &Repo, from: i64, to: i64) -> Value {
    json!({"repo_id": repo.repo_id, "field": field(repo), "from": from, "to": to})
}
