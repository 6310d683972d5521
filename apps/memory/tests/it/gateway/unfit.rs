//! Requests that are none: refused, and audited like every other.

use consign_memory::{Caller, tools};
use serde_json::{Value, json};

use crate::support::Fixture;

const INVALID: &str = "INVALID_PARAMETER";
const MISSING: &str = "MISSING_REQUIRED_PARAMETER";
const TEAM: &str = "team:p";

/// Asks, and checks the one audit that this adds: the code of the answer, the argument that the
/// reason names, the space.
async fn is_audited(fixture: &Fixture, arguments: Value, (code, name, space): (&str, &str, &str)) {
    let before = fixture.audits().await.len();
    let answer = fixture.call("memory_store", arguments.clone()).await;
    assert_eq!(answer["error_code"], code, "{arguments}: {answer}");
    assert_eq!(answer["retryable"], false, "{answer}");
    assert_eq!(answer["action"], "reject", "{answer}");
    let told = format!("invalid_parameter:{name}");
    assert_eq!(answer["reason"], told, "{answer}");
    assert_eq!(answer["ok"], false, "{answer}");
    assert_eq!(answer["success"], false, "{answer}");
    let audits = fixture.audits().await;
    assert_eq!(audits.len(), before + 1, "{arguments}");
    let audit = audits.last().unwrap();
    let reason = format!("reject invalid_parameter:{name} failed");
    assert_eq!(crate::support::told(audit), reason, "{arguments}");
    assert_eq!(audit.target_space, space, "{arguments}");
    let id = answer["correlation_id"].as_str();
    assert_eq!(audit.correlation_id.as_deref(), id, "{arguments}");
    let told = &audit.evidence_refs_json;
    assert_eq!(told["extra"]["correlation_id"], answer["correlation_id"]);
    assert_eq!(told["gateway_event"]["operation"], "memory_store");
    let message = told["extra"]["last_error"].as_str().unwrap();
    assert!(
        !message.is_empty() && !message.contains('\0'),
        "{message:?}"
    );
}

/// What a text says and a value does not keep is refused with its place, and audited.
#[tokio::test]
async fn numbers_that_would_be_rounded_and_duplicate_names_are_refused() {
    let fixture = Fixture::new().await;
    let caller = Caller::anonymous();
    for (tool, text, place) in [
        (
            "logbook_set_kv",
            r#"{"namespace": "n", "key": "k", "value_json": {"d": 0.12345678901234567890}}"#,
            "value_json.d is a number that would be rounded",
        ),
        (
            "logbook_set_kv",
            r#"{"namespace": "n", "key": "k", "value_json": {"m": [100000000000000000.01]}}"#,
            "value_json.m[0] is a number that would be rounded",
        ),
        (
            "memory_store",
            r#"{"payload_md": "a", "payload_md": "b"}"#,
            "payload_md is a duplicate name",
        ),
        (
            "memory_store",
            r#"{"payload_md": "a", "meta_json": {"d": 0.1, "d": 0.2}}"#,
            "meta_json.d is a duplicate name",
        ),
    ] {
        let before = fixture.audits().await.len();
        let given = tools::ToolArguments::parse(text).unwrap();
        let answer = tools::call(&fixture.service, tool, given, &caller)
            .await
            .body;
        assert_eq!(answer["error_code"], INVALID, "{text}: {answer}");
        let message = answer["message"].as_str().unwrap();
        assert!(message.starts_with(place), "{message}");
        let is_audited = fixture.audits().await.len() > before;
        assert_eq!(is_audited, tool == "memory_store", "{text}");
    }
    let kept = json!({"namespace": "n", "key": "k"});
    let kept = fixture.call("logbook_get_kv", kept).await;
    assert_eq!(kept["found"], false, "{kept}");
    assert_eq!(fixture.server.stores(), 0);
}

/// One final audit for whatever reached the tool.
#[tokio::test]
async fn arguments_that_are_none_are_audited_once() {
    let fixture = Fixture::with(|options| options.payload_max_bytes = 100).await;
    let private = json!({"target_space": "private:ada"});
    let both = json!({"payload_md": "x", "card": {}});
    let made_up = json!({"payload_md": "x", "a b\u{0}": 1});
    for (arguments, expected) in [
        (json!({}), (MISSING, "payload_md", TEAM)),
        (private, (MISSING, "payload_md", "private:ada")),
        (json!([]), (INVALID, "arguments", TEAM)),
        (json!({"payload_md": 7}), (INVALID, "payload_md", TEAM)),
        (
            json!({"payload_md": "x".repeat(101)}),
            (INVALID, "payload_md", TEAM),
        ),
        (both, (INVALID, "card", TEAM)),
        (json!({"card": {"kind": "NONE"}}), (INVALID, "card", TEAM)),
        (
            json!({"payload_md": "x", "evidence": "u"}),
            (INVALID, "evidence", TEAM),
        ),
        (
            json!({"payload_md": "x", "payload": 1}),
            (INVALID, "payload", TEAM),
        ),
        (made_up, (INVALID, "unknown", TEAM)),
    ] {
        is_audited(&fixture, arguments, expected).await;
    }
    assert_eq!(fixture.server.stores(), 0);
    // They are writes that did not succeed, and the report's equations hold.
    let report = fixture.service.report().await;
    assert_eq!(report["total_writes"], 10, "{report}");
    assert_eq!(report["success_rate"], 0.0, "{report}");
}

/// A name that could not be written down does not keep the request from being audited.
#[tokio::test]
async fn names_that_are_none_are_audited_once() {
    let fixture = Fixture::new().await;
    let name = "n".repeat(201);
    for (argument, value, space) in [
        ("target_space", "", TEAM),
        ("target_space", name.as_str(), TEAM),
        ("target_space", "team:\nx", TEAM),
        ("target_space", "team:\0", TEAM),
        ("kind", "a\tb", TEAM),
        ("actor_user_id", name.as_str(), TEAM),
        ("actor_user_id", "a\0", TEAM),
    ] {
        let mut arguments = json!({"payload_md": "x"});
        arguments[argument] = json!(value);
        is_audited(&fixture, arguments, (INVALID, argument, space)).await;
    }
    let elsewhere = json!({"payload_md": "x", "kind": "a\tb", "target_space": "team:x"});
    is_audited(&fixture, elsewhere, (INVALID, "kind", "team:x")).await;
    assert_eq!(fixture.server.stores(), 0);
}

/// The audit says whose token it was, and which text was too long.
#[tokio::test]
async fn the_audit_has_what_could_be_read() {
    let fixture = Fixture::with(|options| options.payload_max_bytes = 3).await;
    let ada = Caller {
        actor: Some("ada".to_owned()),
        is_authenticated: true,
        ..Caller::default()
    };
    let request = json!({"payload_md": "test", "actor_user_id": "bob"});
    fixture.call_as(&ada, "memory_store", request).await;
    fixture
        .call("memory_store", json!({"actor_user_id": "bob"}))
        .await;
    let audits = fixture.audits().await;
    let actors: Vec<_> = audits
        .iter()
        .map(|audit| audit.actor_user_id.as_deref())
        .collect();
    assert_eq!(actors, [Some("ada"), Some("bob")]);
    let sha = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
    assert_eq!(audits[0].payload_sha.as_deref(), Some(sha));
    assert_eq!(audits[0].evidence_refs_json["payload_sha"], sha);
    assert_eq!(audits[1].payload_sha, None);
}

/// What the outbox could never hold is refused before anybody is asked, with its audit.
#[tokio::test]
async fn what_could_not_be_kept_is_audited() {
    let fixture = Fixture::new().await;
    let meta: Value = (0..100).map(|n| json!(format!("{n:01000}"))).collect();
    let request = json!({
        "payload_md": "x", "target_space": "private:ada", "meta_json": {"much": meta},
    });
    let answer = fixture.call("memory_store", request).await;
    assert_eq!(answer["error_code"], "OUTBOX_VALIDATION_FAILED", "{answer}");
    assert_eq!(answer["action"], "reject", "{answer}");
    let audits = fixture.audits().await;
    let context = &answer["context"];
    assert_eq!(context["field"], "meta_json", "{answer}");
    assert_eq!(context["target_space"], "private:ada", "{answer}");
    assert_eq!(context["payload_sha"], json!(audits[0].payload_sha));
    assert!(context["timestamp"].is_string(), "{answer}");
    let message = "meta_json: the message's headers are over 65536 bytes";
    assert_eq!(answer["message"], message);
    let piece = |n: u32| json!({"uri": format!("{n:01000}")});
    let evidence: Vec<Value> = (0..100).map(piece).collect();
    let request = json!({"payload_md": "y", "evidence": evidence});
    let answer = fixture.call("memory_store", request).await;
    assert_eq!(answer["context"]["field"], "evidence", "{answer}");
    let told = fixture.told().await;
    assert_eq!(told, ["reject OUTBOX_VALIDATION_FAILED failed"; 2]);
    assert_eq!(audits[0].target_space, "private:ada");
    assert!(audits[0].payload_sha.is_some());
    assert_eq!(fixture.server.stores(), 0);
}

/// Numbers that JSON readers round are refused, not changed.
#[tokio::test]
async fn a_number_that_would_be_rounded_is_refused() {
    let fixture = Fixture::new().await;
    let request = |number: &str| {
        let text = format!(
            r#"{{"payload_md": "x", "target_space": "private:ada", "meta_json": {{"n": [{number}]}}}}"#
        );
        tools::ToolArguments::parse(&text).unwrap()
    };
    let refused = fixture
        .call("memory_store", request("18446744073709551616"))
        .await;
    assert_eq!(refused["error_code"], "INVALID_PARAMETER", "{refused}");
    assert_eq!(refused["details"]["parameter"], "meta_json");
    let kept = fixture
        .call("memory_store", request("18446744073709551615"))
        .await;
    assert_eq!(kept["ok"], true, "{kept}");
    let told = fixture.told().await;
    let told: Vec<&str> = told.iter().map(String::as_str).collect();
    let expected = [
        "reject invalid_parameter:meta_json failed",
        "allow policy:private_space success",
    ];
    assert_eq!(told, expected);
}

/// Nothing was done and nothing will be: the refusal stands when it cannot be audited.
#[tokio::test]
async fn a_refusal_stands_without_its_audit() {
    let fixture = Fixture::new().await;
    fixture.break_writes("write_audit").await;
    let answer = fixture.call("memory_store", json!({})).await;
    assert_eq!(
        answer["error_code"], "MISSING_REQUIRED_PARAMETER",
        "{answer}"
    );
}
