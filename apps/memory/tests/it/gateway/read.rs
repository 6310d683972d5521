//! Reading memories without searching: `memory_get`, `memory_list`, `memory_spaces`.

use std::sync::Arc;

use consign_memory::{Caller, EmbeddedBackend, MemoryService, ToolSet, tools};
use serde_json::{Value, json};

use crate::support::{Fixture, ServerMode};

/// A gateway that keeps memories in its own database.
fn embedded(fixture: &Fixture) -> MemoryService {
    let backend = Arc::new(EmbeddedBackend::new(fixture.store.clone()));
    MemoryService::new(fixture.store.clone(), backend, fixture.options.clone())
}

async fn call(service: &MemoryService, caller: &Caller, tool: &str, arguments: Value) -> Value {
    tools::call(service, tool, arguments, caller).await.body
}

fn bound(actor: &str) -> Caller {
    Caller {
        actor: Some(actor.to_owned()),
        is_authenticated: true,
        ..Caller::default()
    }
}

/// What was stored is read back as it was stored, and only by those who may.
#[tokio::test]
async fn a_memory_is_read_by_its_id() {
    let fixture = Fixture::new().await;
    let (alice, bob) = (bound("alice"), bound("bob"));
    for service in [embedded(&fixture), fixture.service.clone()] {
        let store = json!({
            "payload_md": "borealis", "target_space": "private:alice", "kind": "FACT",
            "meta_json": {"pr": 7}, "evidence_refs": ["https://x.example/1"],
        });
        let stored = call(&service, &alice, "memory_store", store).await;
        let id = json!({"id": stored["memory_id"]});
        let read = call(&service, &alice, "memory_get", id.clone()).await;
        assert_eq!(read["ok"], true, "{read}");
        let memory = &read["memory"];
        assert_eq!(memory["id"], stored["memory_id"]);
        assert_eq!(memory["text"], "borealis");
        assert_eq!(memory["space"], "private:alice");
        assert_eq!(
            (&memory["kind"], &memory["actor"]),
            (&json!("FACT"), &json!("alice"))
        );
        assert_eq!(memory["meta"], json!({"pr": 7}));
        assert_eq!(memory["evidence"][0]["uri"], "https://x.example/1");
        let hidden = call(&service, &bob, "memory_get", id).await;
        let absent = call(&service, &bob, "memory_get", json!({"id": "mem_0"})).await;
        for answer in [&hidden, &absent] {
            assert_eq!(answer["error_code"], "NOT_FOUND", "{answer}");
            assert_eq!(answer["success"], false, "{answer}");
        }
    }
    assert_eq!(fixture.audits().await.len(), 2, "reading is not audited");
    fixture.server.behave(ServerMode::Down);
    let away = fixture.call("memory_get", json!({"id": "mem-1"})).await;
    assert_eq!(away["error_code"], "OPENMEMORY_UNAVAILABLE", "{away}");
    assert_eq!(away["retryable"], true);
}

/// Pages, filters and spaces of a list; others' private spaces are not in it.
#[tokio::test]
async fn memories_are_listed_page_by_page() {
    let fixture = Fixture::new().await;
    let service = embedded(&fixture);
    let (alice, bob) = (bound("alice"), bound("bob"));
    for n in 0..5 {
        let kind = if n % 2 == 0 { "FACT" } else { "DECISION" };
        let store = json!({"payload_md": format!("text {n}"), "kind": kind});
        call(&service, &alice, "memory_store", store).await;
    }
    call(
        &service,
        &bob,
        "memory_store",
        json!({"payload_md": "of bob"}),
    )
    .await;
    let mut texts = Vec::new();
    let mut cursor = Value::Null;
    loop {
        let page = json!({"limit": 2, "cursor": cursor});
        let page = call(&service, &alice, "memory_list", page).await;
        assert_eq!(page["ok"], true, "{page}");
        assert_eq!(page["spaces_searched"], json!(["team:p", "private:alice"]));
        for item in page["results"].as_array().unwrap() {
            texts.push(item["text"].as_str().unwrap().to_owned());
        }
        cursor = page["next_cursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(texts, ["text 4", "text 3", "text 2", "text 1", "text 0"]);
    for (arguments, total) in [
        (json!({"kind": "DECISION"}), 2),
        (json!({"actor": "alice"}), 5),
        (json!({"actor": "bob"}), 0),
        (json!({"since": "2020-01-01T00:00:00Z"}), 5),
        (json!({"until": "2020-01-01T00:00:00Z"}), 0),
        (json!({"spaces": ["team:p"]}), 0),
    ] {
        let page = call(&service, &alice, "memory_list", arguments.clone()).await;
        assert_eq!(page["total"], total, "{arguments}: {page}");
    }
    for (arguments, code) in [
        (json!({"spaces": ["private:bob"]}), "SPACE_FORBIDDEN"),
        (json!({"cursor": "nonsense"}), "INVALID_PARAMETER"),
        (json!({"since": "monday"}), "INVALID_PARAMETER"),
        (json!({"limit": 101}), "INVALID_PARAMETER"),
        (json!({"actor_user_id": "bob"}), "ACTOR_MISMATCH"),
    ] {
        let page = call(&service, &alice, "memory_list", arguments.clone()).await;
        assert_eq!(page["error_code"], code, "{arguments}: {page}");
    }
}

/// A caller sees shared spaces and their own, whoever asks.
#[tokio::test]
async fn private_spaces_of_others_are_not_listed() {
    let fixture = Fixture::new().await;
    fixture.open_team().await;
    for space in [
        "team:p",
        "team:q",
        "org:shared",
        "private:alice",
        "private:bob",
    ] {
        let store = json!({"payload_md": space, "target_space": space});
        assert_eq!(fixture.call("memory_store", store).await["ok"], true);
    }
    fixture.make_user("alice").await;
    for (caller, actor, expected) in [
        (
            bound("alice"),
            Value::Null,
            &["org:shared", "private:alice", "team:p", "team:q"][..],
        ),
        (
            Caller::anonymous(),
            json!("alice"),
            &["org:shared", "private:alice", "team:p", "team:q"],
        ),
        (
            Caller::anonymous(),
            Value::Null,
            &["org:shared", "private:unknown", "team:p", "team:q"],
        ),
    ] {
        let asked = json!({"actor_user_id": actor});
        let answer = fixture.call_as(&caller, "memory_spaces", asked).await;
        let spaces = answer["spaces"].as_array().unwrap().iter();
        let mut names: Vec<&str> = spaces.map(|it| it["space"].as_str().unwrap()).collect();
        names.sort_unstable();
        assert_eq!(names, expected, "{answer}");
        assert_eq!(answer["default_space"], "team:p");
        assert_eq!(answer["team_write_enabled"], true);
        let own = answer["private_space"].as_str().unwrap();
        assert!(expected.contains(&own), "{answer}");
    }
}

/// What is not offered is not there.
#[tokio::test]
async fn a_small_set_of_tools_has_no_others() {
    let fixture = Fixture::with(|options| options.tool_set = ToolSet::Memory).await;
    let kv = json!({"namespace": "a", "key": "b"});
    let answer = fixture.call("logbook_get_kv", kv).await;
    assert_eq!(answer["error_code"], "UNKNOWN_TOOL", "{answer}");
    let names = answer["details"]["available_tools"].as_array().unwrap();
    assert!(names.contains(&json!("memory_store")), "{answer}");
    assert!(!names.contains(&json!("evidence_upload")), "{answer}");
    assert_eq!(fixture.call("memory_spaces", json!({})).await["ok"], true);
}

crate::support::also_on_postgres! {
    a_memory_is_read_by_its_id
    memories_are_listed_page_by_page
    private_spaces_of_others_are_not_listed
}
