//! Credentials in URIs are kept nowhere.

use std::sync::Arc;

use consign_memory::{Caller, EmbeddedBackend, MemoryService, tools};
use serde_json::{Value, json};

use crate::support::{Fixture, ServerMode, also_on_postgres};

/// Every way to write it that is tried.
const URIS: [&str; 16] = [
    "https://user:hunter2@host/x",
    "HTTPS://user:hunter2%40x@host",
    "//user:hunter2@host/x",
    "ftp://user:hunter2@host/x",
    "svn+ssh://user:hunter2@host/x",
    "postgres://user:hunter2@host/db",
    "https://hunter2@host",
    "https://host/x?access_token=hunter2",
    "https://a:hunter2@h1/x and https://b:hunter2@h2/y",
    "https://user:hunter2'w@host/x",
    "https://user:a hunter2@host/x",
    "https://user:a\"hunter2>`@host/x",
    "https://h/go?next=https%3A%2F%2Fu:hunter2@h2",
    "https://h/go?next=https%253A%252F%252Fu%253Ahunter2%2540h2",
    "https://h/x?token=aa'hunter2",
    "https://h/x?pass=hunter2&pw=hunter2&client_secret[]=hunter2",
];

fn store(text: &str) -> Value {
    let evidence = |uri: &&str| json!({"uri": uri, "source_id": uri, "title": uri});
    let objects: Vec<Value> = URIS.iter().map(evidence).collect();
    let fields: Vec<Value> = URIS.iter().map(|uri| json!({"at": uri})).collect();
    json!({
        "payload_md": text, "target_space": "team:p", "evidence": objects,
        "meta_json": {"links": fields, URIS[0]: true},
    })
}

fn tells_nothing(answer: &Value, action: &str) {
    assert_eq!(answer["action"], action, "{answer}");
    assert!(!answer.to_string().contains("hunter2"), "{answer}");
}

#[tokio::test]
async fn memories_and_their_audits_hold_no_credentials() {
    let fixture = Fixture::new().await;
    fixture.open_team().await;
    let answer = fixture.call("memory_store", store("stored")).await;
    tells_nothing(&answer, "allow");
    let kept = fixture.server.kept();
    assert!(!format!("{kept:?}").contains("hunter2"), "{kept:?}");
    let refs = json!({"payload_md": "by refs", "target_space": "team:p", "evidence_refs": URIS});
    tells_nothing(&fixture.call("memory_store", refs).await, "allow");
    let backend = Arc::new(EmbeddedBackend::new(fixture.store.clone()));
    let embedded = MemoryService::new(fixture.store.clone(), backend, fixture.options.clone());
    let caller = Caller::anonymous();
    let answer = tools::call(&embedded, "memory_store", store("kept"), &caller).await;
    tells_nothing(&answer.body, "allow");
    fixture.server.behave(ServerMode::Down);
    let answer = fixture.call("memory_store", store("deferred")).await;
    tells_nothing(&answer, "deferred");
    fixture.set_policy(json!({"evidence_mode": "strict"})).await;
    let answer = fixture.call("memory_store", store("rejected")).await;
    tells_nothing(&answer, "reject");
    fixture.holds_nowhere("hunter2").await;
}

#[tokio::test]
async fn facts_hold_no_credentials() {
    let fixture = Fixture::new().await;
    let item = json!({
        "item_type": "task", "title": URIS[0], "scope_json": {"at": URIS}, "status": URIS[0],
    });
    let item = fixture.call("logbook_create_item", item).await;
    let item_id = &item["item_id"];
    for (number, uri) in URIS.iter().enumerate() {
        let attachment = json!({
            "item_id": item_id, "kind": "log", "uri": uri, "sha256": format!("{number:064x}"),
            "meta_json": {"from": [uri]},
        });
        let answer = fixture.call("logbook_attach", attachment).await;
        assert_eq!(answer["ok"], true, "{answer}");
    }
    let event = json!({
        "item_id": item_id, "event_type": "note", "source": URIS[0],
        "status_from": URIS[0], "status_to": URIS[1],
        "payload_json": {"seen": URIS, URIS[1]: {"deep": [URIS[2]]}},
    });
    let value = json!({"namespace": "links", "key": "all", "value_json": URIS});
    let upload = json!({"content": "x", "content_type": "text/plain", "title": URIS[0]});
    for (tool, arguments) in [
        ("logbook_add_event", event),
        ("logbook_set_kv", value),
        ("evidence_upload", upload),
    ] {
        let answer = fixture.call(tool, arguments).await;
        assert_eq!(answer["ok"], true, "{answer}");
        assert!(!answer.to_string().contains("hunter2"), "{answer}");
    }
    fixture.holds_nowhere("hunter2").await;
}

/// Names of values are refused rather than masked: masked, two of them could become one.
#[tokio::test]
async fn names_of_values_hold_no_credentials() {
    let fixture = Fixture::new().await;
    for (namespace, key) in [("links", URIS[0]), (URIS[9], "all")] {
        let value = json!({"namespace": namespace, "key": key, "value_json": 1});
        let answer = fixture.call("logbook_set_kv", value).await;
        assert_eq!(answer["error_code"], "INVALID_PARAMETER", "{answer}");
        assert!(!answer.to_string().contains("hunter2"), "{answer}");
    }
    fixture.holds_nowhere("hunter2").await;
}

/// What is refused is quoted in the answer, without credentials.
#[tokio::test]
async fn refusals_quote_no_credentials() {
    let fixture = Fixture::new().await;
    for uri in URIS {
        let text = "x";
        for (tool, arguments) in [
            ("memory_get", json!({"id": uri})),
            ("memory_update", json!({"id": uri, "payload_md": text})),
            ("memory_delete", json!({"id": uri})),
            ("memory_store", json!({"payload_md": text, uri: 1})),
            ("memory_list", json!({uri: 1})),
            ("evidence_read", json!({"uri": uri})),
            (uri, json!({})),
        ] {
            let answer = fixture.call(tool, arguments).await;
            assert_eq!(answer["ok"], false, "{answer}");
            assert!(!answer.to_string().contains("hunter2"), "{tool}: {answer}");
        }
    }
    fixture.holds_nowhere("hunter2").await;
}

also_on_postgres! {
    memories_and_their_audits_hold_no_credentials
    facts_hold_no_credentials
    names_of_values_hold_no_credentials
    refusals_quote_no_credentials
}
