//! `memory_store` while the memory server is not well.

use std::time::{Duration, Instant};

use consign_memory::{Caller, OutboxStatus, payload_sha, tools};
use serde_json::{Value, json};

use crate::support::{Fixture, ServerMode, told};

/// The seed's manual test. The row is in the final space, not in the one that was asked for.
#[tokio::test]
async fn the_seeds_manual_test_defers() {
    let fixture = Fixture::new().await;
    fixture.server.behave(ServerMode::Down);
    let arguments = json!({"payload_md": "test", "target_space": "team:test"});
    let answer = fixture.call("memory_store", arguments).await;
    assert_eq!(answer["action"], "deferred", "{answer}");
    let row = fixture.row(&answer["outbox_id"]).await;
    assert_eq!(row.target_space, "private:unknown");
    let sha = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
    assert_eq!(row.payload_sha, sha);
    assert_eq!(row.status, OutboxStatus::Pending);
    assert_eq!(row.retry_count, 0);
}

#[tokio::test]
async fn what_cannot_be_stored_now_is_deferred_with_its_audit() {
    let fixture = Fixture::new().await;
    fixture.set_policy(json!({})).await;
    fixture.make_user("alice").await;
    fixture.server.behave(ServerMode::Status(503));
    let answer = fixture
        .call(
            "memory_store",
            json!({
                "payload_md": "x", "target_space": "team:p", "actor_user_id": "alice",
                "evidence_refs": ["mr://project/123"], "kind": "PITFALL", "meta_json": {"a": 1},
            }),
        )
        .await;
    let (outbox_id, correlation_id) = (&answer["outbox_id"], &answer["correlation_id"]);
    assert!(outbox_id.is_i64(), "{answer}");
    assert_eq!(answer["ok"], false);
    assert_eq!(answer["action"], "deferred");
    assert_eq!(answer["space_written"], Value::Null);
    assert_eq!(answer["memory_id"], Value::Null);
    assert_eq!(answer["evidence_refs"], json!(["mr://project/123"]));
    let message = answer["message"].as_str().unwrap();
    assert!(message.contains("503"), "names the cause: {message}");
    assert!(!message.contains("sk-secret"), "without secrets: {message}");

    let audits = fixture.audits().await;
    assert_eq!(audits.len(), 1, "one audit per request");
    let audit = &audits[0];
    let reason = format!("openmemory_write_failed:api_error_503:outbox:{outbox_id}");
    assert_eq!(told(audit), format!("redirect {reason} redirected"));
    let about = &audit.evidence_refs_json;
    assert_eq!(&about["outbox_id"], outbox_id);
    assert_eq!(about["intended_action"], "allow");
    assert_eq!(&about["extra"]["correlation_id"], correlation_id);
    assert_eq!(about["extra"]["error_code"], "api_error_503");
    assert_eq!(about["gateway_event"]["decision"]["reason"], json!(reason));
    assert_eq!(&about["gateway_event"]["outbox_id"], outbox_id);
    assert!(!about.to_string().contains("sk-secret"));

    let row = fixture.row(outbox_id).await;
    assert_eq!(row.target_space, "team:p");
    assert_eq!(row.payload_sha, payload_sha("x"));
    assert_eq!(row.correlation_id.as_deref(), correlation_id.as_str());
    let last_error = row.last_error.unwrap();
    assert!(last_error.starts_with("api_error: 503 - "), "{last_error}");
}

/// Nobody is held hostage by a server that does not answer, however many there are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hanging_server_costs_no_more_than_the_budget() {
    let budget = Duration::from_secs(3);
    let fixture = Fixture::with(|options| options.gateway_budget_ms = 3_000).await;
    fixture.open_team().await;
    fixture.server.behave(ServerMode::Hang);
    let calls = (0..50).map(|n| {
        let service = fixture.service.clone();
        let arguments = json!({"payload_md": format!("text {n}"), "target_space": "team:p"});
        tokio::spawn(async move {
            let since = Instant::now();
            let caller = Caller::anonymous();
            let answer = tools::call(&service, "memory_store", arguments, &caller);
            (answer.await.body, since.elapsed())
        })
    });
    let mut slowest = Duration::ZERO;
    for call in calls.collect::<Vec<_>>() {
        let (answer, took) = call.await.unwrap();
        assert_eq!(answer["action"], "deferred", "{answer}");
        slowest = slowest.max(took);
    }
    // Far less than the sum of fifty budgets, on a machine that has other things to do.
    eprintln!("the slowest of 50 took {slowest:?} of {budget:?}");
    assert!(slowest < budget * 2, "{slowest:?}");
    assert_eq!(fixture.rows().await.len(), 50);
}

/// The server hangs with one memory; an equal request does not wait longer than its own budget.
#[tokio::test]
async fn an_equal_request_does_not_wait_for_ever() {
    let fixture = Fixture::new().await;
    fixture.open_team().await;
    fixture.server.behave(ServerMode::Hang);
    let (one, two) = tokio::join!(fixture.remember("x"), fixture.remember("x"));
    assert_eq!(
        (&one["action"], &two["action"]),
        (&json!("deferred"), &json!("deferred"))
    );
    assert_eq!(
        one["outbox_id"], two["outbox_id"],
        "the same memory waits once"
    );
    assert_eq!(fixture.rows().await.len(), 1);
    assert_eq!(fixture.audits().await.len(), 2);
}

/// A request for what waits already is told which row it is.
#[tokio::test]
async fn what_waits_already_is_not_enqueued_again() {
    let fixture = Fixture::new().await;
    fixture.open_team().await;
    fixture.server.behave(ServerMode::Down);
    let first = fixture.remember("x").await;
    assert_eq!(first.get("error_code"), None);
    let second = fixture.remember("x").await;
    assert_eq!(second["action"], "deferred");
    assert_eq!(second["outbox_id"], first["outbox_id"]);
    assert_eq!(second["error_code"], "OUTBOX_DEDUP_HIT");
    assert_ne!(second["correlation_id"], first["correlation_id"]);
    assert_eq!(fixture.rows().await.len(), 1);
}

/// 4xx: trying again would not help, so nothing is kept, and the caller knows.
#[tokio::test]
async fn what_the_server_refuses_is_not_kept() {
    let fixture = Fixture::new().await;
    fixture.open_team().await;
    let table = [
        (400, "rejected this memory"),
        (413, "rejected this memory"),
        (401, "rejected the gateway's credentials"),
    ];
    for (status, who) in table {
        fixture.server.behave(ServerMode::Status(status));
        let answer = fixture.remember(&format!("text {status}")).await;
        assert_eq!(answer["action"], "error", "{answer}");
        assert_eq!(answer["error_code"], "OPENMEMORY_REFUSED");
        assert_eq!(answer["retryable"], false);
        let message = answer["message"].as_str().unwrap();
        assert!(
            message.contains(who) && message.contains("nothing was enqueued"),
            "{message}"
        );
    }
    assert_eq!(fixture.rows().await, []);
    for (told, (status, _)) in fixture.told().await.iter().zip(table) {
        assert!(told.starts_with("reject "), "{told}");
        assert!(
            told.ends_with(&format!(":client_error:{status} failed")),
            "{told}"
        );
    }
    // 408 and 429 are about time, not about the memory.
    for status in [408, 429] {
        fixture.server.behave(ServerMode::Status(status));
        let answer = fixture.remember(&format!("text {status}")).await;
        assert_eq!(answer["action"], "deferred", "{answer}");
    }
}

/// Every other failure is deferred, under the word for it.
#[tokio::test]
async fn every_failure_has_its_code() {
    let fixture = Fixture::new().await;
    fixture.open_team().await;
    let table = [
        (ServerMode::Down, "connection_error", false),
        (ServerMode::Hang, "connection_error", true),
        (ServerMode::Merge, "openmemory_error", true),
        (ServerMode::Status(500), "api_error_500", true),
    ];
    for (manner, word, _) in table {
        fixture.server.behave(manner);
        let answer = fixture.remember(&format!("{manner:?}")).await;
        let reason = format!(
            "openmemory_write_failed:{word}:outbox:{}",
            answer["outbox_id"]
        );
        let audit = fixture.audits().await.pop().unwrap();
        assert_eq!(audit.reason, Some(reason));
    }
}

/// Neither stored nor kept is never called deferred, and the audit does not hang.
#[tokio::test]
async fn what_can_be_neither_stored_nor_kept_is_an_error() {
    let fixture = Fixture::new().await;
    fixture.open_team().await;
    fixture.server.behave(ServerMode::Down);
    fixture.break_writes("message").await;
    let answer = fixture.remember("x").await;
    assert_eq!(answer["action"], "error", "{answer}");
    assert_eq!(answer["error_code"], "OUTBOX_ENQUEUE_FAILED");
    assert_eq!(answer["outbox_id"], Value::Null);
    assert_eq!(answer["context"]["target_space"], "team:p");
    assert_eq!(answer["context"]["payload_sha"], payload_sha("x"));
    assert!(answer["context"]["timestamp"].is_string());
    assert_eq!(
        fixture.told().await,
        ["reject OUTBOX_ENQUEUE_FAILED failed"]
    );
    let audit = &fixture.audits().await[0];
    assert_eq!(audit.evidence_refs_json.get("outbox_id"), None);
    assert_eq!(fixture.rows().await, []);
}

crate::support::also_on_postgres! {
    what_cannot_be_stored_now_is_deferred_with_its_audit
    a_hanging_server_costs_no_more_than_the_budget
    what_waits_already_is_not_enqueued_again
    what_can_be_neither_stored_nor_kept_is_an_error
}
