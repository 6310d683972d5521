//! What plain SQL may do to the logbook, and what it may not.

use std::time::Duration;

use consign_kernel::{MessageId, prelude::*};
use consign_memory::{Action, AuditEnd, AuditStatus, Logbook, NewAudit, NewMemory, payload_sha};
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

/// Only the record: what its audits become is up to plain SQL.
async fn record_erasure(sql: &mut sqlx::SqliteConnection, id: MessageId) {
    let record = format!(
        "INSERT INTO audit (at, actor, action, queue, message_id, reason) \
         VALUES (0, 'ada', 'erase', 'memory', {id}, 'test'); \
         INSERT INTO erasure (message_id, queue, at, actor, reason, digest) \
         VALUES ({id}, 'memory', 0, 'ada', 'test', randomblob(32))"
    );
    execute(sql, &record).await.unwrap();
}

/// Of audits about what was erased, and of no others.
pub(super) async fn an_erasure_removes_error_texts_only(bench: &SqliteFixture) {
    let store = &bench.store;
    let mut sql = bench.connect().await;
    let mut rows = Vec::new();
    for text in ["erased", "other"] {
        let memory = NewMemory {
            target_space: "team:p".into(),
            payload_md: text.into(),
            ..NewMemory::default()
        };
        let id = store.enqueue_memory(&memory).await.unwrap().outbox_id;
        store
            .claim_outbox("w1", 1, Duration::from_secs(60))
            .await
            .unwrap();
        assert!(store.ack_sent(id, "w1", Some("mem-1")).await.unwrap());
        rows.push((text, id));
    }
    // Audits about each row, about each text without a row, and about another row of the erased text.
    let document = json!({
        "memory_id": "mem-1", "extra": {"last_error": "no", "error_message": "no", "error_code": "x"},
        "gateway_event": {"extra": {"last_error": "no", "error_message": "no", "error_code": "x"}},
    });
    let mut audits = Vec::new();
    let [(erased, id), (other, other_id)] = rows[..] else {
        unreachable!("two rows");
    };
    for (text, outbox_id) in [
        (erased, json!(id)),
        (erased, json!(null)),
        (other, json!(other_id)),
        (other, json!(null)),
        (erased, json!(other_id)),
    ] {
        let mut audit = NewAudit {
            payload_sha: Some(payload_sha(text)),
            evidence_refs_json: document.clone(),
            status: AuditStatus::Failed,
            ..pending("corr-1")
        };
        audit.evidence_refs_json["outbox_id"] = outbox_id;
        audits.push(store.insert_audit(&audit).await.unwrap());
    }
    record_erasure(&mut sql, id).await;
    const CLEARED: &str = "evidence_refs_json = json_remove(evidence_refs_json, '$.extra.last_error', \
        '$.extra.error_message', '$.gateway_event.extra.last_error', '$.gateway_event.extra.error_message')";
    for (nth, audit) in audits.iter().enumerate() {
        for beside in [
            "",
            "updated_at = 7, ",
            "action = 'reject', ",
            "reason = 'x', ",
            "status = 'success', ",
        ] {
            let statement =
                format!("UPDATE write_audit SET {beside}{CLEARED} WHERE audit_id = {audit}");
            let done = execute(&mut sql, &format!("BEGIN; {statement}; ROLLBACK")).await;
            if done.is_err() {
                execute(&mut sql, "ROLLBACK").await.unwrap();
            }
            assert_eq!(
                done.is_ok(),
                beside.is_empty() && nth < 2,
                "{nth}: {statement}: {done:?}"
            );
        }
        let more = format!(
            "UPDATE write_audit SET evidence_refs_json = json_remove(evidence_refs_json, '$.extra.error_code') \
             WHERE audit_id = {audit}"
        );
        execute(&mut sql, &more).await.expect_err(&more);
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
async fn an_audit_of_an_erased_memory_loses_error_texts_only() {
    an_erasure_removes_error_texts_only(&bench().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_plain_sql_puts_into_the_queue_is_named_unless_it_is_a_memory() {
    plain_sql_is_seen(&bench().await).await;
}
