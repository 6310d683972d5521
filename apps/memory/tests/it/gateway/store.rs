//! `memory_store` while the memory server is well.

use std::sync::{Arc, atomic::Ordering};

use consign_memory::{
    AuditStatus, Caller, Correlation, EmbeddedBackend, MemoryService, payload_sha, tools,
};
use serde_json::{Value, json};

use crate::support::{Fixture, ServerMode, told};

const S: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// Without settings the team's space is closed, and the memory is kept for its writer.
#[tokio::test]
async fn a_closed_team_space_sends_memories_to_their_writers() {
    let fixture = Fixture::new().await;
    fixture.make_user("alice").await;
    let answer = fixture
        .call(
            "memory_store",
            json!({"payload_md": "x", "target_space": "team:p", "actor_user_id": "alice"}),
        )
        .await;
    assert_eq!(answer["ok"], true, "{answer}");
    assert_eq!(answer["action"], "redirect");
    assert_eq!(answer["reason"], "policy:team_write_disabled");
    let message = answer["message"].as_str().unwrap();
    assert!(
        message.starts_with("stored in private:alice instead of team:p: ")
            && message.contains("team_write_enabled"),
        "{message}"
    );
    assert_eq!(answer["space_written"], "private:alice");
    assert_eq!(
        fixture.told().await,
        ["redirect policy:team_write_disabled success"]
    );
    assert_eq!(
        fixture.server.kept()[0].memory.target_space,
        "private:alice"
    );
}

/// One audit from pending to success, nothing in the outbox.
#[tokio::test]
async fn what_is_allowed_is_stored_with_one_audit() {
    let fixture = Fixture::new().await;
    fixture.set_policy(json!({})).await;
    fixture.make_user("alice").await;
    let answer = fixture
        .call(
            "memory_store",
            json!({
                "payload_md": "# Test\n", "target_space": "team:p", "actor_user_id": "alice",
                "kind": "DECISION", "meta_json": {"module": "ui"}, "item_id": 7,
                "evidence_refs": ["git://r/c/1"],
            }),
        )
        .await;
    let correlation_id = answer["correlation_id"].as_str().unwrap().to_owned();
    assert!(
        Correlation::parse(&correlation_id).is_some(),
        "{correlation_id}"
    );
    let expected = json!({
        "ok": true, "action": "allow", "reason": "policy:policy_passed", "space_written": "team:p", "memory_id": "mem-1",
        "outbox_id": null, "correlation_id": correlation_id, "evidence_refs": ["git://r/c/1"],
        "message": null,
    });
    assert_eq!(answer, expected);

    let audits = fixture.audits().await;
    assert_eq!(audits.len(), 1);
    let audit = &audits[0];
    assert_eq!(told(audit), "allow policy:policy_passed success");
    assert!(audit.updated_at.is_some(), "it was pending");
    assert_eq!(audit.correlation_id.as_ref(), Some(&correlation_id));
    assert_eq!(audit.actor_user_id.as_deref(), Some("alice"));
    assert_eq!(audit.target_space, "team:p");
    assert_eq!(audit.payload_sha, Some(payload_sha("# Test\n")));
    let about = &audit.evidence_refs_json;
    assert_eq!(about["memory_id"], "mem-1");
    assert_eq!(about["source"], "gateway");
    assert_eq!(about["payload_sha"], payload_sha("# Test\n"));
    assert_eq!(about["correlation_id"], correlation_id);
    assert_eq!(about["extra"]["correlation_id"], correlation_id);
    assert_eq!(about["gateway_event"]["memory_id"], "mem-1");
    assert_eq!(about["gateway_event"]["requested_space"], "team:p");
    assert_eq!(about["external"], json!([{"uri": "git://r/c/1"}]));
    assert_eq!(fixture.rows().await, []);

    let kept = &fixture.server.kept()[0].memory;
    assert_eq!(kept.actor_user_id.as_deref(), Some("alice"));
    assert_eq!(kept.kind.as_deref(), Some("DECISION"));
    assert_eq!(kept.item_id, Some(7));
    assert_eq!(kept.meta_json["module"], "ui");
    assert_eq!(kept.evidence.len(), 1);
}

/// What goes nowhere is refused, with one audit and no call.
#[tokio::test]
async fn an_unknown_kind_of_space_is_refused() {
    let fixture = Fixture::new().await;
    for space in ["public:x", "p", "Team:x"] {
        let arguments = json!({"payload_md": "x", "target_space": space});
        let answer = fixture.call("memory_store", arguments).await;
        assert_eq!(answer["ok"], false);
        assert_eq!(answer["action"], "reject", "{answer}");
        assert_eq!(answer["space_written"], Value::Null);
        assert_eq!(answer["memory_id"], Value::Null);
        assert_eq!(answer["outbox_id"], Value::Null);
        assert_eq!(answer["error_code"], "POLICY_REJECT");
        assert_eq!(answer["reason"], "policy:unknown_space_type");
    }
    assert_eq!(
        fixture.told().await,
        ["reject policy:unknown_space_type failed"; 3]
    );
    assert_eq!(fixture.server.stores(), 0);
}

/// Strict projects want hashes, in private spaces too; mere references are let through.
#[tokio::test]
async fn strict_projects_refuse_evidence_without_a_hash() {
    let fixture = Fixture::new().await;
    fixture.set_policy(json!({"evidence_mode": "strict"})).await;
    let store = |evidence: Value, refs: Value| {
        let arguments = json!({
            "payload_md": "x", "target_space": "private:alice", "evidence": evidence,
            "evidence_refs": refs,
        });
        fixture.call("memory_store", arguments)
    };
    let answer = store(json!([{"uri": "git://r"}]), json!([])).await;
    assert_eq!(answer["action"], "reject", "{answer}");
    assert_eq!(answer["error_code"], "EVIDENCE_VALIDATION_FAILED");
    let message = answer["message"].as_str().unwrap();
    assert!(
        message.contains("EVIDENCE_MISSING_SHA256:evidence[0]:git://r"),
        "{message}"
    );
    assert_eq!(fixture.server.stores(), 0);
    // A patch whose source is in its URI only is recorded as well as checked.
    let patch = format!("memory://patch_blobs/git/1:abc/{S}");
    let answer = store(json!([{"uri": patch, "sha256": S}]), json!([])).await;
    assert_eq!(answer["action"], "allow", "{answer}");
    let answer = store(json!([]), json!(["git://r"])).await;
    assert_eq!(
        answer["message"],
        "dedup_hit: the same text is stored in this space already"
    );
    let told = fixture.told().await;
    let expected = [
        "reject EVIDENCE_VALIDATION_FAILED:EVIDENCE_MISSING_SHA256 failed",
        "allow policy:private_space success",
        "allow dedup_hit success",
    ];
    assert_eq!(told, expected);
    let audits = fixture.audits().await;
    let warnings = &audits[2].evidence_refs_json["gateway_event"]["evidence_validation"];
    assert_eq!(
        warnings["compat_warnings"],
        json!(["EVIDENCE_LEGACY_NO_SHA256:evidence[0]:git://r"])
    );
    let event = &audits[1].evidence_refs_json["gateway_event"];
    assert_eq!(
        event["validation"]["validate_refs_reason"],
        "strict_enforced"
    );
}

/// The same text in the same final space is stored once, directly too.
#[tokio::test]
async fn the_same_memory_is_stored_once() {
    let fixture = Fixture::new().await;
    let first = fixture.remember("x").await;
    assert_eq!(first["space_written"], "private:unknown");
    let second = fixture.remember("x").await;
    // A repeat is answered as the first request was.
    for name in ["ok", "action", "reason", "memory_id", "space_written"] {
        assert_eq!(second[name], first[name], "{name}: {second}");
    }
    assert_eq!(second["action"], "redirect");
    assert!(second["message"].as_str().unwrap().starts_with("dedup_hit"));
    let elsewhere = json!({"payload_md": "x", "target_space": "private:bob"});
    let elsewhere = fixture.call("memory_store", elsewhere).await;
    assert_eq!(elsewhere["memory_id"], "mem-2");
    assert_eq!(fixture.server.writes(), 2);
    let expected = [
        "redirect policy:team_write_disabled success",
        "allow dedup_hit success",
        "allow policy:private_space success",
    ];
    assert_eq!(fixture.told().await, expected);
}

/// What was kept here before there was a memory server is not at the server.
#[tokio::test]
async fn a_memory_of_another_backend_is_not_taken_for_stored() {
    let fixture = Fixture::new().await;
    let arguments = json!({"payload_md": "x", "target_space": "private:bob"});
    let embedded = Arc::new(EmbeddedBackend::new(fixture.store.clone()));
    let before = MemoryService::new(fixture.store.clone(), embedded, fixture.options.clone());
    let caller = Caller::anonymous();
    let kept = tools::call(&before, "memory_store", arguments.clone(), &caller).await;
    assert!(kept.ok, "{kept:?}");
    for message in [Value::Null, json!("dedup_hit")] {
        let moved = fixture.call("memory_store", arguments.clone()).await;
        assert_eq!(moved["memory_id"], "mem-1", "{moved}");
        let said = moved["message"]
            .as_str()
            .and_then(|it| it.split(':').next());
        assert_eq!(json!(said), message);
    }
    assert_eq!(fixture.server.writes(), 1);
    let back = tools::call(&before, "memory_store", arguments, &caller).await;
    assert_eq!(back.body["memory_id"], kept.body["memory_id"]);
}

/// Two equal requests at once: the second waits for the first, and finds it stored.
#[tokio::test]
async fn equal_requests_at_once_store_one_memory() {
    let fixture = Fixture::with(|options| options.gateway_budget_ms = 20_000).await;
    fixture.open_team().await;
    fixture.server.behave(ServerMode::Wait);
    let both = async {
        tokio::join!(fixture.remember("x"), fixture.remember("x"), async {
            let is_there = || async { fixture.server.stores() == 1 };
            consign_testkit::eventually("the first one is there", crate::support::SOON, is_there)
                .await;
            fixture.server.release();
        })
    };
    let (one, two, ()) = both.await;
    assert_eq!(one["memory_id"], "mem-1", "{one}");
    assert_eq!(two["memory_id"], "mem-1", "{two}");
    assert_eq!(fixture.server.stores.load(Ordering::SeqCst), 1);
    let mut told = fixture.told().await;
    told.sort();
    let expected = [
        "allow dedup_hit success",
        "allow policy:policy_passed success",
    ];
    assert_eq!(told, expected);
}

/// What cannot be audited is not done.
#[tokio::test]
async fn without_an_audit_nothing_is_stored() {
    let fixture = Fixture::new().await;
    fixture.open_team().await;
    fixture.break_writes("write_audit").await;
    let answer = fixture.remember("x").await;
    assert_eq!(answer["ok"], false);
    assert_eq!(answer["action"], "error");
    assert_eq!(answer["error_code"], "AUDIT_WRITE_FAILED", "{answer}");
    assert_eq!(answer["context"]["target_space"], "team:p");
    assert_eq!(answer["context"]["payload_sha"], payload_sha("x"));
    assert!(answer["context"]["timestamp"].is_string());
    assert_eq!(fixture.server.stores(), 0);
    assert_eq!(fixture.rows().await, []);
    // Not even a refusal goes unaudited.
    let arguments = json!({"payload_md": "x", "target_space": "public:x"});
    let answer = fixture.call("memory_store", arguments).await;
    assert_eq!(answer["error_code"], "AUDIT_WRITE_FAILED");
}

/// The memory is stored, and the answer says so, although its audit could not be ended.
#[tokio::test]
async fn a_stored_memory_is_stored_whatever_becomes_of_its_audit() {
    let fixture = Fixture::new().await;
    fixture.open_team().await;
    fixture.break_updates("write_audit").await;
    let answer = fixture.remember("x").await;
    assert_eq!(answer["ok"], true, "{answer}");
    assert_eq!(answer["memory_id"], "mem-1");
    let message = answer["message"].as_str().unwrap();
    assert!(
        message.contains(answer["correlation_id"].as_str().unwrap()),
        "{message}"
    );
    assert_eq!(fixture.audits().await[0].status, AuditStatus::Pending);
}

/// A client that hangs up does not leave an audit without an end.
#[tokio::test]
async fn a_request_goes_on_when_its_client_is_gone() {
    let fixture = Fixture::with(|options| options.gateway_budget_ms = 20_000).await;
    fixture.open_team().await;
    fixture.server.behave(ServerMode::Wait);
    tokio::select! {
        answer = fixture.remember("x") => panic!("answered: {answer}"),
        () = consign_testkit::eventually("it is on its way", crate::support::SOON, || async {
            fixture.server.stores() == 1
        }) => {}
    }
    // Whoever ends the process waits for it.
    let mut finished = std::pin::pin!(fixture.service.finished());
    let is_pending = std::future::poll_fn(|context| {
        std::task::Poll::Ready(finished.as_mut().poll(context).is_pending())
    });
    assert!(is_pending.await);
    fixture.server.release();
    finished.await;
    let told = fixture.told().await;
    assert_eq!(told, ["allow policy:policy_passed success"]);
    fixture.service.finished().await;
}

/// A defect in a backend is told, and its audit ends.
#[tokio::test]
async fn a_panic_ends_with_an_answer_and_an_audit() {
    let fixture = Fixture::new().await;
    fixture.open_team().await;
    fixture.server.behave(ServerMode::Panic);
    let answer = fixture.remember("x").await;
    assert_eq!(answer["action"], "error", "{answer}");
    assert_eq!(answer["error_code"], "INTERNAL_ERROR");
    assert_eq!(fixture.told().await, ["reject internal_error failed"]);
}

/// The name of a request comes from the transport, if it is one.
#[tokio::test]
async fn a_request_has_one_name_everywhere() {
    let fixture = Fixture::new().await;
    let named = Caller::anonymous().in_request("corr-a1b2c3d4e5f67890");
    let arguments = json!({"payload_md": "x"});
    let answer = fixture
        .call_as(&named, "memory_store", arguments.clone())
        .await;
    assert_eq!(answer["correlation_id"], "corr-a1b2c3d4e5f67890");
    let audit = &fixture.audits().await[0];
    assert_eq!(
        audit.correlation_id.as_deref(),
        Some("corr-a1b2c3d4e5f67890")
    );
    let misnamed = Caller::anonymous().in_request("corr-test");
    let answer = fixture.call_as(&misnamed, "memory_store", arguments).await;
    assert_ne!(answer["correlation_id"], "corr-test");
}

/// The fields of a card instead of a text.
#[tokio::test]
async fn a_card_becomes_a_memory() {
    let fixture = Fixture::new().await;
    fixture.set_policy(json!({"max_chars": 4000})).await;
    let diff = "diff --git a/x b/x\n@@ -1 +1 @@\n-a\n+b";
    let card = json!({
        "kind": "PROCEDURE", "owner": "u_12345", "module": "client/ui/button",
        "summary": "Set aria-label on buttons", "details": ["rule one", diff],
        "evidence": [{"uri": "git://repo/commit/abc123", "sha256": S}],
    });
    let arguments = json!({"card": card, "target_space": "team:p"});
    let answer = fixture.call("memory_store", arguments).await;
    assert_eq!(answer["action"], "allow", "{answer}");
    let kept = &fixture.server.kept()[0].memory;
    assert!(
        kept.payload_md
            .starts_with("[Kind] PROCEDURE\n[Owner] u_12345\n")
    );
    assert!(!kept.payload_md.contains("@@ -1"), "a diff is no memory");
    assert_eq!(kept.kind.as_deref(), Some("PROCEDURE"));
    assert_eq!(
        kept.evidence.len(),
        1,
        "the card's evidence is the memory's"
    );
    let audit = &fixture.audits().await[0].evidence_refs_json;
    assert_eq!(audit["gateway_event"]["trim"]["was_trimmed"], true);
    let report = fixture.call("reliability_report", json!({})).await;
    assert_eq!(
        report["content_intercept_stats"]["diff_reject_count"], 1,
        "{report}"
    );
    let both = json!({"card": {}, "payload_md": "x"});
    let answer = fixture.call("memory_store", both).await;
    assert_eq!(answer["error_code"], "INVALID_PARAMETER");
}

/// What could never be deferred is refused while there is somebody to tell.
#[tokio::test]
async fn what_cannot_be_kept_is_refused_at_once() {
    let fixture = Fixture::with(|options| options.payload_max_bytes = 1_000).await;
    let long = "x".repeat(1_001);
    let deep = (0..200).fold(json!(0), |value, _| json!([value]));
    let table = [
        (json!({"payload_md": long}), "INVALID_PARAMETER"),
        (
            json!({"payload_md": "x", "target_space": " "}),
            "INVALID_PARAMETER",
        ),
        (
            json!({"payload_md": "x", "target_space": format!("team:{}", "p".repeat(300))}),
            "INVALID_PARAMETER",
        ),
        (
            json!({"payload_md": "x", "meta_json": {"a": deep}}),
            "OUTBOX_VALIDATION_FAILED",
        ),
        (
            json!({"payload_md": "x", "meta_json": {"a": "y".repeat(70_000)}}),
            "OUTBOX_VALIDATION_FAILED",
        ),
    ];
    for (arguments, code) in table {
        let answer = fixture.call("memory_store", arguments).await;
        assert_eq!(answer["error_code"], code, "{answer}");
        assert_eq!(answer["action"], "reject");
    }
    assert_eq!(fixture.server.stores(), 0);
}

/// An empty text is a text; none is not.
#[tokio::test]
async fn a_text_is_needed_but_may_be_empty() {
    let fixture = Fixture::new().await;
    let answer = fixture.call("memory_store", json!({})).await;
    assert_eq!(answer["error_code"], "MISSING_REQUIRED_PARAMETER");
    assert_eq!(answer["retryable"], false);
    let answer = fixture
        .call("memory_store", json!({"payload_md": ""}))
        .await;
    assert_eq!(answer["action"], "redirect");
    let audits = fixture.audits().await;
    assert_eq!(audits[1].payload_sha.as_deref(), Some(S));
}

crate::support::also_on_postgres! {
    a_closed_team_space_sends_memories_to_their_writers
    what_is_allowed_is_stored_with_one_audit
    the_same_memory_is_stored_once
    equal_requests_at_once_store_one_memory
    without_an_audit_nothing_is_stored
    a_stored_memory_is_stored_whatever_becomes_of_its_audit
    a_request_goes_on_when_its_client_is_gone
    a_panic_ends_with_an_answer_and_an_audit
}
