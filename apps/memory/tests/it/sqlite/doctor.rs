//! Doctor's findings about memories that bypassed the store.

use consign_kernel::prelude::*;
use consign_memory::payload_sha;
use serde_json::json;

use super::bench;

/// A text under another's hash would keep that one out, or be taken for stored.
#[tokio::test(flavor = "multi_thread")]
async fn a_memory_under_another_hash_is_found() {
    let bench = bench().await;
    let mut sql = bench.connect().await;
    for (id, hashed) in [(1, "text"), (2, "another")] {
        let sha = payload_sha(hashed);
        let payload = json!({
            "target_space": "team:p", "payload_sha": sha, "payload_md": "text",
        });
        sqlx::query(
            "INSERT INTO message (id, queue, key, created_at, headers, payload) \
             VALUES (?1, 'memory', ?2, 0, '{}', ?3)",
        )
        .bind(id)
        .bind(format!("team:p#{sha}"))
        .bind(payload.to_string())
        .execute(&mut sql)
        .await
        .unwrap();
    }
    let findings = bench.store.doctor().await.unwrap();
    let unfit: Vec<i64> = findings
        .iter()
        .filter(|finding| finding.code == "memory_unfit")
        .flat_map(|finding| finding.ids.iter().map(|id| id.0))
        .collect();
    assert_eq!(unfit, [2], "{findings:#?}");
}
