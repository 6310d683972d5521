//! `memory_update` and `memory_delete`.

use std::sync::Arc;

use consign_memory::{Caller, EmbeddedBackend, MemoryService, tools};
use serde_json::{Value, json};

use crate::support::{Fixture, ServerMode};

fn bound(actor: &str) -> Caller {
    Caller {
        actor: Some(actor.to_owned()),
        is_authenticated: true,
        ..Caller::default()
    }
}

/// The gateway over its own database, and the one over a memory server.
fn gateways(fixture: &Fixture) -> [MemoryService; 2] {
    let backend = Arc::new(EmbeddedBackend::new(fixture.store.clone()));
    let embedded = MemoryService::new(fixture.store.clone(), backend, fixture.options.clone());
    [embedded, fixture.service.clone()]
}

async fn call(service: &MemoryService, caller: &Caller, tool: &str, arguments: Value) -> Value {
    tools::call(service, tool, arguments, caller).await.body
}

/// The texts that a caller finds.
async fn texts(service: &MemoryService, caller: &Caller) -> Vec<String> {
    let found = call(service, caller, "memory_list", json!({})).await;
    let results = found["results"]
        .as_array()
        .unwrap_or_else(|| panic!("{found}"));
    let texts = results
        .iter()
        .map(|item| item["text"].as_str().unwrap().to_owned());
    texts.collect()
}

#[tokio::test]
async fn a_newer_version_replaces_the_old_one() {
    let fixture = Fixture::new().await;
    let alice = bound("alice");
    for service in gateways(&fixture) {
        let before = fixture.audits().await.len();
        let store = json!({
            "payload_md": "deploys on tuesdays", "target_space": "private:alice", "kind": "PROCEDURE",
            "meta_json": {"pr": 7}, "evidence_refs": ["https://x.example/1"],
        });
        let old = call(&service, &alice, "memory_store", store).await;
        let update = json!({"id": old["memory_id"], "payload_md": "deploys on fridays"});
        let new = call(&service, &alice, "memory_update", update.clone()).await;
        assert_eq!(new["action"], "allow", "{new}");
        assert_eq!(new["supersedes"], old["memory_id"]);
        assert_ne!(new["memory_id"], old["memory_id"]);
        let read = call(
            &service,
            &alice,
            "memory_get",
            json!({"id": new["memory_id"]}),
        )
        .await;
        let memory = &read["memory"];
        assert_eq!(memory["supersedes"], old["memory_id"], "{read}");
        assert_eq!(
            memory["kind"], "PROCEDURE",
            "what was not given is as it was"
        );
        assert_eq!(memory["meta"], json!({"pr": 7}));
        assert_eq!(memory["evidence"][0]["uri"], "https://x.example/1");
        assert_eq!(texts(&service, &alice).await, ["deploys on fridays"]);
        // The old one is named, or gone.
        let was = call(
            &service,
            &alice,
            "memory_get",
            json!({"id": old["memory_id"]}),
        )
        .await;
        let is_replaced = was["memory"]["superseded_by"] == new["memory_id"];
        assert!(is_replaced || was["error_code"] == "NOT_FOUND", "{was}");
        // It cannot be replaced twice, nor by itself, nor by somebody else.
        let twice = call(&service, &alice, "memory_update", update.clone()).await;
        assert_eq!(twice["action"], "reject", "{twice}");
        let same = json!({"id": new["memory_id"], "payload_md": "deploys on fridays"});
        let same = call(&service, &alice, "memory_update", same).await;
        assert_eq!(same["error_code"], "INVALID_PARAMETER", "{same}");
        let others = json!({"id": new["memory_id"], "payload_md": "never"});
        let others = call(&service, &bound("bob"), "memory_update", others).await;
        assert_eq!(others["error_code"], "NOT_FOUND", "{others}");
        assert_eq!(texts(&service, &alice).await, ["deploys on fridays"]);
        let audits = fixture.audits().await;
        assert_eq!(audits.len(), before + 5, "one for each request");
        let extra = &audits[before + 1].evidence_refs_json["extra"];
        assert_eq!(extra["supersedes"], old["memory_id"], "{extra}");
        let id = json!({"id": new["memory_id"]});
        assert_eq!(
            call(&service, &alice, "memory_delete", id).await["ok"],
            true
        );
    }
}

/// The policy decides about a newer version as about the first; it is never stored elsewhere.
#[tokio::test]
async fn a_newer_version_stays_where_the_old_one_is() {
    let fixture = Fixture::new().await;
    fixture.open_team().await;
    for service in gateways(&fixture) {
        let nobody = Caller::anonymous();
        let store = json!({"payload_md": "team text", "target_space": "team:p"});
        let old = call(&service, &nobody, "memory_store", store).await;
        assert_eq!(old["action"], "allow", "{old}");
        let update = json!({"id": old["memory_id"], "payload_md": "x".repeat(1_300)});
        let refused = call(&service, &nobody, "memory_update", update).await;
        assert_eq!(refused["action"], "reject", "{refused}");
        assert_eq!(refused["reason"], "policy:exceeds_max_chars:1300>1200");
        assert_eq!(texts(&service, &nobody).await, ["team text"]);
    }
}

/// What could not be replaced at once is replaced by the delivery from the outbox.
#[tokio::test]
async fn a_deferred_version_replaces_the_old_one_when_it_is_delivered() {
    let fixture = Fixture::new().await;
    fixture.hurry().await;
    let store = json!({"payload_md": "one", "target_space": "private:bob"});
    let old = fixture.call("memory_store", store).await;
    // The answer is lost after the new version was stored: the old one is there still.
    fixture.server.behave(ServerMode::LoseOneAnswer);
    let update = json!({"id": old["memory_id"], "payload_md": "two"});
    let late = fixture.call("memory_update", update.clone()).await;
    if late["action"] != "deferred" {
        // The lost answer was that of the reading.
        assert_eq!(late["error_code"], "OPENMEMORY_UNAVAILABLE", "{late}");
    }
    fixture.server.behave(ServerMode::FailFor("two"));
    let late = fixture.call("memory_update", update).await;
    assert_eq!(late["action"], "deferred", "{late}");
    fixture.server.behave(ServerMode::Well);
    let is_replaced = || async {
        let kept = fixture.server.kept();
        kept.len() == 1 && kept[0].memory.payload_md == "two"
    };
    fixture
        .work_until("the new version is there alone", is_replaced)
        .await;
    assert_eq!(
        fixture.server.kept()[0].memory.supersedes.as_deref(),
        old["memory_id"].as_str()
    );
}

#[tokio::test]
async fn a_removed_memory_is_gone_and_may_be_stored_again() {
    let fixture = Fixture::new().await;
    let alice = bound("alice");
    for service in gateways(&fixture) {
        let before = fixture.audits().await.len();
        let store = json!({"payload_md": "a secret", "target_space": "private:alice"});
        let first = call(&service, &alice, "memory_store", store.clone()).await;
        let id = json!({"id": first["memory_id"]});
        let hidden = call(&service, &bound("bob"), "memory_delete", id.clone()).await;
        assert_eq!(hidden["error_code"], "NOT_FOUND", "{hidden}");
        assert_eq!(hidden["action"], "reject", "{hidden}");
        let deleted = call(&service, &alice, "memory_delete", id.clone()).await;
        assert_eq!(deleted["ok"], true, "{deleted}");
        assert_eq!(
            (&deleted["action"], &deleted["space"]),
            (&json!("allow"), &json!("private:alice"))
        );
        assert_eq!(texts(&service, &alice).await, [""; 0]);
        let twice = call(&service, &alice, "memory_delete", id).await;
        assert_eq!(twice["error_code"], "NOT_FOUND", "{twice}");
        let again = call(&service, &alice, "memory_store", store).await;
        assert_eq!(again["action"], "allow", "{again}");
        assert_ne!(again["memory_id"], first["memory_id"], "{again}");
        let said = again["message"].as_str().unwrap_or_default();
        assert!(!said.starts_with("dedup_hit"), "{again}");
        assert_eq!(texts(&service, &alice).await, ["a secret"]);
        let told: Vec<String> = fixture.told().await.split_off(before);
        let expected = [
            "allow policy:private_space success",
            "reject memory_delete:not_found failed",
            "allow memory_delete success",
            "reject memory_delete:not_found failed",
            "allow policy:private_space success",
        ];
        assert_eq!(told, expected);
        let audit = &fixture.audits().await[before + 2];
        assert_eq!(audit.actor_user_id.as_deref(), Some("alice"));
        assert_eq!(audit.target_space, "private:alice");
        let extra = &audit.evidence_refs_json["extra"];
        assert_eq!(extra["deleted_memory_id"], first["memory_id"], "{extra}");
        let id = json!({"id": again["memory_id"]});
        assert_eq!(
            call(&service, &alice, "memory_delete", id).await["ok"],
            true
        );
    }
}

/// Whoever may not write to a shared space does not remove from it.
#[tokio::test]
async fn shared_memories_are_removed_by_those_who_may_write_there() {
    let fixture = Fixture::new().await;
    fixture.make_user("alice").await;
    for service in gateways(&fixture) {
        let policy = json!({"allowlist_users": ["alice"]});
        let mut open = policy.clone();
        open["require_evidence"] = json!(false);
        fixture.set_policy(open).await;
        let nobody = Caller::anonymous();
        let store =
            json!({"payload_md": "team text", "target_space": "team:p", "actor_user_id": "alice"});
        let stored = call(&service, &nobody, "memory_store", store).await;
        assert_eq!(stored["action"], "allow", "{stored}");
        // Evidence, kinds and lengths do not matter for what goes.
        fixture.set_policy(policy).await;
        let delete = |actor: Value| json!({"id": stored["memory_id"], "actor_user_id": actor});
        for (caller, actor, code) in [
            (&nobody, Value::Null, "POLICY_REJECT"),
            (&nobody, json!("eve"), "ACTOR_UNKNOWN"),
            (&bound("bob"), Value::Null, "POLICY_REJECT"),
            (&bound("bob"), json!("alice"), "ACTOR_MISMATCH"),
        ] {
            let refused = call(&service, caller, "memory_delete", delete(actor)).await;
            assert_eq!(refused["error_code"], code, "{refused}");
            assert!(refused["reason"].is_string(), "{refused}");
        }
        let deleted = call(&service, &nobody, "memory_delete", delete(json!("alice"))).await;
        assert_eq!(deleted["ok"], true, "{deleted}");
    }
}

/// A memory server that is away removes nothing, and the one audit says so.
#[tokio::test]
async fn what_could_not_be_removed_is_there_and_audited() {
    let fixture = Fixture::new().await;
    let stored = fixture
        .call(
            "memory_store",
            json!({"payload_md": "x", "target_space": "private:bob"}),
        )
        .await;
    let id = json!({"id": stored["memory_id"]});
    fixture.server.behave(ServerMode::Down);
    let away = fixture.call("memory_delete", id.clone()).await;
    assert_eq!(away["error_code"], "OPENMEMORY_UNAVAILABLE", "{away}");
    assert_eq!(away["action"], "error", "{away}");
    let told = fixture.told().await;
    assert_eq!(told[1], "reject memory_delete:unavailable failed");
    fixture.server.behave(ServerMode::Well);
    fixture.break_writes("write_audit").await;
    let unaudited = fixture.call("memory_delete", id.clone()).await;
    assert_eq!(unaudited["error_code"], "AUDIT_WRITE_FAILED", "{unaudited}");
    assert_eq!(fixture.server.kept().len(), 1);
    fixture.mend("write_audit").await;
    assert_eq!(fixture.call("memory_delete", id).await["ok"], true);
    assert_eq!(fixture.server.kept().len(), 0);
    let missing = fixture.call("memory_delete", json!({})).await;
    assert_eq!(
        missing["error_code"], "MISSING_REQUIRED_PARAMETER",
        "{missing}"
    );
    assert_eq!(missing["action"], "reject", "{missing}");
}

/// The DELETE arrived and its answer did not: the audit says that the memory may be gone, and the
/// repeat finds out.
#[tokio::test]
async fn a_removal_whose_answer_was_lost_is_audited_by_the_repeat() {
    let fixture = Fixture::new().await;
    let alice = bound("alice");
    let service = &fixture.service;
    let store = json!({"payload_md": "a secret", "target_space": "private:alice"});
    let stored = call(service, &alice, "memory_store", store).await;
    let id = json!({"id": stored["memory_id"]});
    fixture.server.behave(ServerMode::LoseDeletes);
    let lost = call(service, &alice, "memory_delete", id.clone()).await;
    assert_eq!(lost["error_code"], "OPENMEMORY_UNAVAILABLE", "{lost}");
    let said = lost["message"].as_str().unwrap();
    assert!(said.contains("may be removed"), "{said}");
    fixture.server.behave(ServerMode::Well);
    let audit = fixture.audits().await.pop().unwrap();
    let extra = &audit.evidence_refs_json["extra"];
    assert_eq!(extra["may_be_removed"], true, "{extra}");
    let hidden = call(service, &bound("bob"), "memory_delete", id.clone()).await;
    assert_eq!(hidden["error_code"], "NOT_FOUND", "{hidden}");
    let repeat = call(service, &alice, "memory_delete", id.clone()).await;
    assert_eq!(repeat["ok"], true, "{repeat}");
    assert_eq!(repeat["memory_id"], stored["memory_id"], "{repeat}");
    assert_eq!(repeat["space"], "private:alice", "{repeat}");
    let audit = fixture.audits().await.pop().unwrap();
    assert_eq!(crate::support::told(&audit), "allow memory_delete success");
    assert_eq!(audit.target_space, "private:alice");
    let extra = &audit.evidence_refs_json["extra"];
    assert_eq!(extra["deleted_memory_id"], stored["memory_id"], "{extra}");
    // A memory that was never removed is none.
    let other = call(service, &alice, "memory_delete", json!({"id": "mem-99"})).await;
    assert_eq!(other["error_code"], "NOT_FOUND", "{other}");
}

/// An update of what cannot be read is refused, and audited as every request is.
#[tokio::test]
async fn an_update_of_what_cannot_be_read_is_audited() {
    let fixture = Fixture::new().await;
    let store = json!({"payload_md": "x", "target_space": "private:bob"});
    let stored = fixture.call("memory_store", store).await;
    fixture.server.behave(ServerMode::Down);
    let update = json!({"id": stored["memory_id"], "payload_md": "y"});
    let away = fixture.call("memory_update", update).await;
    assert_eq!(away["error_code"], "OPENMEMORY_UNAVAILABLE", "{away}");
    assert_eq!(away["action"], "error", "{away}");
    assert_eq!(away["reason"], "memory_update:unavailable", "{away}");
    let told = fixture.told().await;
    assert_eq!(told[1..], ["reject memory_update:unavailable failed"]);
}

crate::support::also_on_postgres! {
    a_removal_whose_answer_was_lost_is_audited_by_the_repeat
    an_update_of_what_cannot_be_read_is_audited
    a_newer_version_replaces_the_old_one
    a_removed_memory_is_gone_and_may_be_stored_again
    shared_memories_are_removed_by_those_who_may_write_there
}
