//! Credentials in URIs are kept nowhere.

use std::sync::Arc;

use consign_memory::{Caller, Embedded, MemoryService, tools};
use serde_json::{Value, json};

use crate::support::{Desk, Manner, also_on_postgres};

/// Every way to write it that is tried.
const URIS: [&str; 9] = [
    "https://user:hunter2@host/x",
    "HTTPS://user:hunter2%40x@host",
    "//user:hunter2@host/x",
    "ftp://user:hunter2@host/x",
    "svn+ssh://user:hunter2@host/x",
    "postgres://user:hunter2@host/db",
    "https://hunter2@host",
    "https://host/x?access_token=hunter2",
    "https://a:hunter2@h1/x and https://b:hunter2@h2/y",
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
    let desk = Desk::new().await;
    desk.open_team().await;
    let answer = desk.call("memory_store", store("stored")).await;
    tells_nothing(&answer, "allow");
    let kept = desk.server.kept();
    assert!(!format!("{kept:?}").contains("hunter2"), "{kept:?}");
    let refs = json!({"payload_md": "by refs", "target_space": "team:p", "evidence_refs": URIS});
    tells_nothing(&desk.call("memory_store", refs).await, "allow");
    let backend = Arc::new(Embedded::new(desk.store.clone()));
    let embedded = MemoryService::new(desk.store.clone(), backend, desk.options.clone());
    let caller = Caller::anonymous();
    let answer = tools::call(&embedded, "memory_store", store("kept"), &caller).await;
    tells_nothing(&answer.body, "allow");
    desk.server.behave(Manner::Down);
    let answer = desk.call("memory_store", store("deferred")).await;
    tells_nothing(&answer, "deferred");
    desk.set_policy(json!({"evidence_mode": "strict"})).await;
    let answer = desk.call("memory_store", store("rejected")).await;
    tells_nothing(&answer, "reject");
    desk.holds_nowhere("hunter2").await;
}

#[tokio::test]
async fn facts_hold_no_credentials() {
    let desk = Desk::new().await;
    let item = json!({"item_type": "task", "title": URIS[0], "scope_json": {"at": URIS}});
    let item = desk.call("logbook_create_item", item).await;
    let item_id = &item["item_id"];
    for (number, uri) in URIS.iter().enumerate() {
        let attachment = json!({
            "item_id": item_id, "kind": "log", "uri": uri, "sha256": format!("{number:064x}"),
            "meta_json": {"from": [uri]},
        });
        let answer = desk.call("logbook_attach", attachment).await;
        assert_eq!(answer["ok"], true, "{answer}");
    }
    let event = json!({
        "item_id": item_id, "event_type": "note", "source": URIS[0],
        "payload_json": {"seen": URIS, URIS[1]: {"deep": [URIS[2]]}},
    });
    let value = json!({"namespace": "links", "key": "all", "value_json": URIS});
    let upload = json!({"content": "x", "content_type": "text/plain", "title": URIS[0]});
    for (tool, arguments) in [
        ("logbook_add_event", event),
        ("logbook_set_kv", value),
        ("evidence_upload", upload),
    ] {
        let answer = desk.call(tool, arguments).await;
        assert_eq!(answer["ok"], true, "{answer}");
    }
    desk.holds_nowhere("hunter2").await;
}

also_on_postgres! {
    memories_and_their_audits_hold_no_credentials
    facts_hold_no_credentials
}
