//! What plain SQL may do to the logbook, and what it may not.

use consign_kernel::prelude::*;
use consign_memory::{Action, AuditEnd, AuditStatus, Logbook, NewAudit, payload_sha};
use serde_json::json;

use super::{bench, execute};
use crate::harness::SqliteFixture;

fn pending(correlation_id: &str) -> NewAudit {
    NewAudit {
        actor_user_id: Some("alice".into()),
        target_space: "team:p".into(),
        action: Action::Allow,
        reason: Some("policy:policy_passed".into()),
        payload_sha: Some(payload_sha("test")),
        evidence_refs_json: json!({}),
        correlation_id: Some(correlation_id.into()),
        status: AuditStatus::Pending,
    }
}

/// An audit ends once, and is never removed or replaced.
pub(super) async fn an_audit_ends_once(bench: &SqliteFixture) {
    let id = bench.store.insert_audit(&pending("corr-1")).await.unwrap();
    let mut sql = bench.connect().await;
    for statement in [
        "DELETE FROM write_audit",
        "UPDATE write_audit SET status = 'success', target_space = 'team:q'",
        "UPDATE write_audit SET status = 'success', payload_sha = 'x'",
        "UPDATE write_audit SET status = 'success', actor_user_id = 'bob'",
        "UPDATE write_audit SET status = 'success', correlation_id = 'corr-2'",
        "UPDATE write_audit SET status = 'success', created_at = 0",
        "UPDATE write_audit SET status = 'success', audit_id = 7",
        "UPDATE write_audit SET reason = 'x'",
        "INSERT OR REPLACE INTO write_audit (created_at, target_space, action, correlation_id, status) \
         VALUES (0, 'team:p', 'allow', 'corr-1', 'pending')",
    ] {
        let refused = execute(&mut sql, statement).await.expect_err(statement);
        assert!(refused.contains("write_audit: "), "{statement}: {refused}");
    }
    let end = AuditEnd {
        status: AuditStatus::Success,
        action: None,
        reason: None,
        patch: json!({"memory_id": "mem-1"}),
    };
    assert!(bench.store.finalize_audit("corr-1", &end).await.unwrap());
    let replacing = format!(
        "INSERT OR REPLACE INTO write_audit (audit_id, created_at, target_space, action) \
         VALUES ({id}, 0, 'team:p', 'allow')"
    );
    for statement in [
        "DELETE FROM write_audit",
        "UPDATE write_audit SET status = 'failed'",
        "UPDATE write_audit SET status = 'pending'",
        "UPDATE write_audit SET reason = 'x'",
        "UPDATE write_audit SET evidence_refs_json = '{}'",
        &replacing,
    ] {
        let refused = execute(&mut sql, statement).await.expect_err(statement);
        assert!(refused.contains("write_audit: "), "{statement}: {refused}");
    }
}

/// Whatever plain SQL puts into the queue is named, unless it is a memory under its own key.
async fn plain_sql_is_seen(bench: &SqliteFixture) {
    let sha = payload_sha("test");
    let mut sql = bench.connect().await;
    let good = json!({"target_space": "team:p", "payload_sha": sha, "payload_md": "test"});
    let key = format!("team:p#{sha}");
    let without = |name: &str| {
        let mut payload = good.clone();
        payload.as_object_mut().unwrap().remove(name);
        payload.to_string()
    };
    let with = |name: &str, value: &str| {
        let mut payload = good.clone();
        payload[name] = value.into();
        payload.to_string()
    };
    let numbered = json!({"target_space": 7, "payload_sha": sha, "payload_md": "test"}).to_string();
    let textless =
        json!({"target_space": "team:p", "payload_sha": sha, "payload_md": 7}).to_string();
    for (key, payload) in [
        (Some(key.as_str()), without("target_space")),
        (Some(&key), without("payload_sha")),
        (Some(&key), without("payload_md")),
        (Some(&key), with("target_space", "team:q")),
        (
            Some(&format!("team:p#{}", sha.to_uppercase())),
            with("payload_sha", &sha.to_uppercase()),
        ),
        (
            Some(&format!("team:p#{}", &sha[1..])),
            with("payload_sha", &sha[1..]),
        ),
        (Some(&format!("#{sha}")), with("target_space", "")),
        (Some(&format!("7#{sha}")), numbered),
        (Some(&key), textless),
        (Some(&key), with("more", "text")),
        (Some(&key), "7".into()),
        (Some(&key), "no json".into()),
        (Some(&sha), good.to_string()),
        (None, good.to_string()),
    ] {
        let bench = super::bench().await;
        insert(&mut bench.connect().await, key, &payload)
            .await
            .unwrap();
        assert!(is_unfit(&bench).await, "{key:?} {payload}");
    }
    let grouped = format!(
        "INSERT INTO message (queue, key, \"group\", created_at, headers, payload) \
         VALUES ('memory', '{key}', 'g', 0, '{{}}', '{good}')"
    );
    let other = super::bench().await;
    execute(&mut other.connect().await, &grouped).await.unwrap();
    assert!(is_unfit(&other).await, "a group");
    insert(&mut sql, Some(&key), &good.to_string())
        .await
        .unwrap();
    assert!(!is_unfit(bench).await, "a memory");
}

async fn is_unfit(bench: &SqliteFixture) -> bool {
    let findings = bench.store.doctor().await.unwrap();
    findings
        .iter()
        .any(|finding| finding.code == "memory_unfit")
}

async fn insert(
    sql: &mut sqlx::SqliteConnection,
    key: Option<&str>,
    payload: &str,
) -> Result<(), String> {
    let statement = "INSERT INTO message (queue, key, created_at, headers, payload) \
                     VALUES ('memory', ?1, 0, '{}', ?2)";
    let written = sqlx::query(statement)
        .bind(key)
        .bind(payload)
        .execute(sql)
        .await;
    written.map(drop).map_err(|error| error.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_audit_that_ended_is_out_of_reach_of_plain_sql() {
    an_audit_ends_once(&bench().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_plain_sql_puts_into_the_queue_is_named_unless_it_is_a_memory() {
    plain_sql_is_seen(&bench().await).await;
}
