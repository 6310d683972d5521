//! How far a repository's changes have become memories.

use consign_kernel::Result;
use consign_scm::{Provider, Repo};
use serde_json::{Value, json};

use crate::MemoryService;

/// Where cursors are kept.
pub const NAMESPACE: &str = "gateway.consume";

fn key(repo: &Repo) -> String {
    format!("scm_consume:{}", repo.repo_id)
}

/// The number of a revision, or the serial number of a commit.
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

/// Sets the cursor: what comes after this position becomes memories again.
pub async fn rewind(service: &MemoryService, repo: &Repo, to: i64) -> Result<()> {
    let value = json!({field(repo): to});
    let logbook = service.logbook();
    logbook.set_kv(NAMESPACE, &key(repo), &value).await
}

/// What an audit says that moves the cursor when it ends well.
pub(super) fn step(repo: &Repo, from: i64, to: i64) -> Value {
    json!({"repo_id": repo.repo_id, "field": field(repo), "from": from, "to": to})
}
