//! `memory_query`.

use consign_memory::{
    Caller, EmbeddedBackend, MemoryService, NewCandidate, NewEvent, NewItem, tools,
};
use serde_json::{Map, Value, json};

use crate::support::{Fixture, ServerMode};

async fn candidate(fixture: &Fixture, space: &str, title: &str) {
    let candidate = NewCandidate {
        source_type: "git".to_owned(),
        source_id: "1:abc".to_owned(),
        pipeline_version: "1".to_owned(),
        space: space.to_owned(),
        kind: "PITFALL".to_owned(),
        title: title.to_owned(),
        content_md: "the borealis release breaks on Tuesdays".to_owned(),
        confidence: "high".to_owned(),
        evidence_refs_json: json!({}),
        promote_suggested: false,
    };
    fixture.store.add_candidate(&candidate).await.unwrap();
}

async fn event(fixture: &Fixture, space: &str) {
    let item = NewItem {
        item_type: "task".to_owned(),
        title: "release".to_owned(),
        project_key: None,
        scope_json: Map::new(),
        status: "open".to_owned(),
        owner_user_id: None,
    };
    let item_id = fixture.store.create_item(&item).await.unwrap();
    let payload = json!({"space": space, "note": "borealis was rolled back"});
    let event = NewEvent {
        item_id,
        event_type: "note".to_owned(),
        status_from: None,
        status_to: None,
        payload_json: payload.as_object().unwrap().clone(),
        actor_user_id: None,
        source: "tool".to_owned(),
    };
    fixture.store.add_event(&event).await.unwrap();
}

fn sorted(answer: &Value, field: &str) -> Vec<String> {
    let results = answer["results"].as_array().unwrap();
    let values = results
        .iter()
        .map(|hit| hit[field].as_str().unwrap().to_owned());
    let mut values: Vec<String> = values.collect();
    values.sort();
    values
}

/// Every result has these fields and no others.
#[track_caller]
fn is_one_shape(answer: &Value) {
    const FIELDS: [&str; 9] = [
        "actor",
        "created_at",
        "evidence",
        "id",
        "kind",
        "meta",
        "score",
        "space",
        "text",
    ];
    for result in answer["results"].as_array().unwrap() {
        let mut fields: Vec<&String> = result.as_object().unwrap().keys().collect();
        fields.sort();
        assert_eq!(fields, FIELDS, "{result}");
    }
}

/// Only what is in the spaces that were asked for, whatever the memory server finds.
#[tokio::test]
async fn returns_results_of_the_requested_spaces_only() {
    let fixture = Fixture::new().await;
    for space in ["private:alice", "private:bob"] {
        let arguments = json!({"payload_md": "borealis", "target_space": space});
        fixture.call("memory_store", arguments).await;
    }
    let query = json!({"query": "borealis", "spaces": ["private:alice"]});
    let answer = fixture.call("memory_query", query).await;
    assert_eq!(answer["ok"], true, "{answer}");
    assert_eq!(answer["degraded"], false);
    assert_eq!(answer["message"], Value::Null);
    assert_eq!(answer["total"], 1);
    assert_eq!(sorted(&answer, "space"), ["private:alice"]);
    assert_eq!(answer["source"], "fake");
}

/// What a caller's first call stored without naming a space, their second finds without naming one.
#[tokio::test]
async fn a_search_without_spaces_looks_where_the_caller_writes() {
    let fixture = Fixture::new().await;
    fixture.make_user("alice").await;
    let bound = Caller {
        actor: Some("bob".to_owned()),
        is_authenticated: true,
        ..Caller::default()
    };
    let nobody = Caller::anonymous();
    for (caller, actor, spaces) in [
        (&nobody, Value::Null, json!(["team:p", "private:unknown"])),
        (&nobody, json!("alice"), json!(["team:p", "private:alice"])),
        (
            &nobody,
            json!("eve"),
            json!(["team:p", "private:eve", "private:unknown"]),
        ),
        (&bound, Value::Null, json!(["team:p", "private:bob"])),
        (&bound, json!("bob"), json!(["team:p", "private:bob"])),
    ] {
        let text = format!("borealis of {actor} {caller:?}");
        let store = json!({"payload_md": text, "actor_user_id": actor});
        let stored = fixture.call_as(caller, "memory_store", store).await;
        assert_eq!(stored["action"], "redirect", "{stored}");
        let query = json!({"query": text, "actor_user_id": actor});
        let found = fixture.call_as(caller, "memory_query", query).await;
        assert_eq!(found["spaces_searched"], spaces, "{found}");
        assert_eq!(found["results"][0]["id"], stored["memory_id"], "{found}");
    }
    let posing = json!({"query": "x", "actor_user_id": "alice"});
    let refused = fixture.call_as(&bound, "memory_query", posing).await;
    assert_eq!(refused["error_code"], "ACTOR_MISMATCH", "{refused}");
}

/// A backend that knows nothing of filters changes nothing about what they mean.
#[tokio::test]
async fn filters_are_applied_whatever_the_backend_makes_of_them() {
    let fixture = Fixture::new().await;
    fixture.make_user("alice").await;
    let memories = [
        json!({"payload_md": "borealis one", "kind": "DECISION", "meta_json": {"module": "ui"}}),
        json!({"payload_md": "borealis two", "kind": "PITFALL", "actor_user_id": "alice"}),
        // Values of the caller's own are not taken for the gateway's.
        json!({"payload_md": "borealis three", "meta_json": {"kind": "DECISION", "actor_user_id": "alice"}}),
    ];
    for mut memory in memories {
        memory["target_space"] = json!("private:bob");
        let stored = fixture.call("memory_store", memory).await;
        assert_eq!(stored["ok"], true, "{stored}");
    }
    for (filters, found) in [
        (
            json!({}),
            &["borealis one", "borealis three", "borealis two"][..],
        ),
        (json!({"kind": "DECISION"}), &["borealis one"]),
        (json!({"kind": "decision"}), &[]),
        (json!({"actor_user_id": "alice"}), &["borealis two"]),
        (json!({"actor": "alice"}), &["borealis two"]),
        (json!({"module": "ui"}), &["borealis one"]),
        (json!({"module": "db"}), &[]),
        (
            json!({"kind": "DECISION", "module": "ui"}),
            &["borealis one"],
        ),
        (json!({"kind": "PITFALL", "module": "ui"}), &[]),
    ] {
        let query = json!({"query": "borealis", "spaces": ["private:bob"], "filters": filters});
        let answer = fixture.call("memory_query", query).await;
        assert_eq!(sorted(&answer, "text"), found, "{filters}");
    }
    for filters in [json!({"kind": 7}), json!({"since": "yesterday"}), json!([])] {
        let query = json!({"query": "borealis", "filters": filters});
        let answer = fixture.call("memory_query", query).await;
        assert_eq!(answer["error_code"], "INVALID_PARAMETER", "{filters}");
    }
}

/// The logbook answers instead, in the same spaces, and says that it does.
#[tokio::test]
async fn the_logbook_answers_when_the_memory_server_does_not() {
    let fixture = Fixture::new().await;
    for space in ["team:p", "private:bob"] {
        candidate(&fixture, space, "releases").await;
        event(&fixture, space).await;
    }
    for manner in [
        ServerMode::Down,
        ServerMode::Hang,
        ServerMode::Status(500),
        ServerMode::Status(404),
    ] {
        fixture.server.behave(manner);
        let answer = fixture
            .call("memory_query", json!({"query": "borealis"}))
            .await;
        assert_eq!(answer["ok"], true, "{answer}");
        assert_eq!(answer["degraded"], true);
        assert_eq!(answer["total"], 2, "a candidate and an event: {answer}");
        assert_eq!(sorted(&answer, "space"), ["team:p", "team:p"]);
        assert_eq!(answer["source"], "logbook_fallback");
        is_one_shape(&answer);
        let query = json!({"query": "borealis", "filters": {"kind": "PITFALL"}});
        let pitfalls = fixture.call("memory_query", query).await;
        assert_eq!(
            sorted(&pitfalls, "kind"),
            ["PITFALL"],
            "filters hold here too"
        );
        let message = answer["message"].as_str().unwrap();
        assert!(message.contains("rely on them less"), "{message}");
        assert!(!message.contains("sk-secret"), "{message}");
    }
    // Nothing in a query is a wildcard.
    let answer = fixture.call("memory_query", json!({"query": "%"})).await;
    assert_eq!((&answer["ok"], &answer["total"]), (&json!(true), &json!(0)));
}

/// Nobody can answer.
#[tokio::test]
async fn returns_both_reasons_when_server_and_logbook_fail() {
    let fixture = Fixture::new().await;
    fixture.server.behave(ServerMode::Down);
    fixture.sql("DROP TABLE knowledge_candidates").await;
    let answer = fixture
        .call("memory_query", json!({"query": "borealis"}))
        .await;
    assert_eq!(answer["ok"], false, "{answer}");
    assert_eq!(answer["degraded"], true);
    assert_eq!(answer["results"], json!([]));
    assert_eq!(answer["error_code"], "QUERY_FAILED");
    let message = answer["message"].as_str().unwrap();
    assert!(
        message.contains("connection refused") && message.contains("logbook"),
        "{message}"
    );
}

#[tokio::test]
async fn questions_without_words_are_refused() {
    let fixture = Fixture::new().await;
    let table = [
        (json!({}), "MISSING_REQUIRED_PARAMETER"),
        (json!({"query": " "}), "INVALID_PARAMETER"),
        (json!({"query": "x", "top_k": 0}), "INVALID_PARAMETER"),
        (json!({"query": "x", "spaces": [""]}), "INVALID_PARAMETER"),
        (json!({"query": "x", "limit": 3}), "INVALID_PARAMETER"),
    ];
    for (arguments, code) in table {
        let answer = fixture.call("memory_query", arguments).await;
        assert_eq!(answer["error_code"], code, "{answer}");
    }
}

/// The embedded backend needs nothing but the database.
#[tokio::test]
async fn memories_kept_in_the_database_are_found_by_their_words() {
    let fixture = Fixture::new().await;
    fixture.open_team().await;
    let backend = EmbeddedBackend::new(fixture.store.clone());
    let backend = std::sync::Arc::new(backend);
    let service = MemoryService::new(fixture.store.clone(), backend, fixture.options.clone());
    let call = |tool: &'static str, arguments: Value| {
        let service = service.clone();
        async move {
            let caller = consign_memory::Caller::anonymous();
            tools::call(&service, tool, arguments, &caller).await.body
        }
    };
    let text = "The borealis release runs on Tuesdays";
    let arguments = json!({
        "payload_md": text, "target_space": "team:p", "kind": "DECISION",
        "meta_json": {"module": "ui"},
    });
    let stored = call("memory_store", arguments).await;
    assert_eq!(stored["action"], "allow", "{stored}");
    let memory_id = stored["memory_id"].as_str().unwrap();
    let again = call(
        "memory_store",
        json!({"payload_md": text, "target_space": "team:p"}),
    )
    .await;
    assert_eq!(again["memory_id"], memory_id);
    let found = call(
        "memory_query",
        json!({"query": "when is the borealis release"}),
    )
    .await;
    assert_eq!(found["degraded"], false, "{found}");
    assert_eq!(found["results"][0]["id"], memory_id);
    assert_eq!(found["results"][0]["text"], text);
    assert_eq!(found["source"], "embedded");
    is_one_shape(&found);
    for (filters, total) in [
        (json!({"kind": "DECISION"}), 1),
        (json!({"kind": "PITFALL"}), 0),
        (json!({"module": "ui", "kind": "DECISION"}), 1),
        (json!({"module": "db"}), 0),
    ] {
        let query = json!({"query": "borealis", "filters": filters});
        assert_eq!(
            call("memory_query", query).await["total"],
            total,
            "{filters}"
        );
    }
    let nowhere = json!({"query": "borealis", "spaces": ["private:bob"]});
    assert_eq!(call("memory_query", nowhere).await["total"], 0);
}

crate::support::also_on_postgres! {
    a_search_without_spaces_looks_where_the_caller_writes
    returns_results_of_the_requested_spaces_only
    the_logbook_answers_when_the_memory_server_does_not
    memories_kept_in_the_database_are_found_by_their_words
}
