//! The tools of the logbook, the outbox and the report.

use consign_memory::{Caller, tools};
use serde_json::{Value, json};

use crate::support::{Fixture, ServerMode};

#[tokio::test]
async fn items_events_attachments_and_values() {
    let fixture = Fixture::new().await;
    let item = json!({"item_type": "task", "title": "release", "scope_json": {"a": 1}});
    let item_id = fixture.call("logbook_create_item", item).await["item_id"].clone();
    let event = json!({
        "item_id": item_id, "event_type": "done", "status_to": "closed",
        "payload_json": {"note": "it went well"},
    });
    let answer = fixture.call("logbook_add_event", event).await;
    assert!(answer["event_id"].is_i64(), "{answer}");
    let items = fixture
        .call("logbook_query_items", json!({"item_type": "task"}))
        .await;
    assert_eq!(items["items"][0]["status"], "closed");
    assert_eq!(items["items"][0]["project_key"], "p");
    let events = fixture
        .call("logbook_query_events", json!({"item_id": item_id}))
        .await;
    assert_eq!(events["total"], 1);
    assert_eq!(events["events"][0]["source"], "tool");
    let sha = "A".repeat(64);
    let attachment = json!({"item_id": item_id, "kind": "log", "uri": "s3://b/k", "sha256": sha});
    let attached = fixture.call("logbook_attach", attachment).await;
    let uri = format!(
        "memory://attachments/{}/{}",
        attached["attachment_id"],
        "a".repeat(64)
    );
    assert_eq!(attached["evidence_uri"], json!(uri), "{attached}");
    let list = fixture
        .call("logbook_list_attachments", json!({"item_id": item_id}))
        .await;
    assert_eq!(list["total"], 1);
    // It is kept elsewhere.
    let read = fixture.call("evidence_read", json!({"uri": uri})).await;
    assert_eq!(read["error_code"], "ARTIFACT_NOT_FOUND");

    let key = json!({"namespace": "n", "key": "k"});
    let absent = fixture.call("logbook_get_kv", key.clone()).await;
    assert_eq!(
        (&absent["found"], &absent["value_json"]),
        (&json!(false), &Value::Null)
    );
    let set = json!({"namespace": "n", "key": "k", "value_json": [1, {"a": "b"}]});
    assert_eq!(fixture.call("logbook_set_kv", set).await["ok"], true);
    let found = fixture.call("logbook_get_kv", key).await;
    assert_eq!(
        (&found["found"], &found["value_json"]),
        (&json!(true), &json!([1, {"a": "b"}]))
    );
}

#[tokio::test]
async fn rejects_invalid_arguments_by_name() {
    let fixture = Fixture::new().await;
    let sha = "a".repeat(64);
    let table = [
        (
            "logbook_create_item",
            json!({"title": "x"}),
            "MISSING_REQUIRED_PARAMETER",
        ),
        (
            "logbook_create_item",
            json!({"item_type": "", "title": "x"}),
            "INVALID_PARAMETER",
        ),
        (
            "logbook_create_item",
            json!({"item_type": "a", "title": "x", "owner_user_id": "nobody"}),
            "INVALID_PARAMETER",
        ),
        (
            "logbook_add_event",
            json!({"item_id": 99, "event_type": "a"}),
            "NOT_FOUND",
        ),
        (
            "logbook_add_event",
            json!({"event_type": "a"}),
            "MISSING_REQUIRED_PARAMETER",
        ),
        (
            "logbook_attach",
            json!({"item_id": 99, "kind": "a", "uri": "u", "sha256": sha}),
            "NOT_FOUND",
        ),
        (
            "logbook_attach",
            json!({"item_id": 99, "kind": "a", "uri": "u", "sha256": "short"}),
            "INVALID_PARAMETER",
        ),
        (
            "logbook_set_kv",
            json!({"namespace": "n", "key": "k"}),
            "MISSING_REQUIRED_PARAMETER",
        ),
        (
            "logbook_query_events",
            json!({"since": "yesterday"}),
            "INVALID_PARAMETER",
        ),
        (
            "outbox_status",
            json!({"status": "lost"}),
            "INVALID_PARAMETER",
        ),
        ("outbox_status", json!({"outbox_id": 99}), "NOT_FOUND"),
        (
            "reliability_report",
            json!({"for": "me"}),
            "INVALID_PARAMETER",
        ),
        ("nope", json!({}), "UNKNOWN_TOOL"),
        ("memory_store", json!("x"), "INVALID_PARAMETER"),
    ];
    for (tool, arguments, code) in table {
        let answer = fixture.call(tool, arguments).await;
        assert_eq!(answer["error_code"], code, "{tool}: {answer}");
    }
}

/// Every tool that is announced can be called, takes what its schema requires, and says so.
#[tokio::test]
async fn every_announced_tool_answers() {
    let fixture = Fixture::new().await;
    for tool in tools::list() {
        let answer = fixture.call(tool.name, json!({})).await;
        assert_ne!(answer["error_code"], "UNKNOWN_TOOL", "{}", tool.name);
        let required = tool.input_schema["required"].as_array().unwrap();
        if let Some(first) = required.first() {
            assert_eq!(
                answer["error_code"], "MISSING_REQUIRED_PARAMETER",
                "{}",
                tool.name
            );
            let properties = &tool.input_schema["properties"];
            assert!(properties.get(first.as_str().unwrap()).is_some());
        }
        let misspelt = json!({"no_such_argument": 1});
        let answer = fixture.call(tool.name, misspelt).await;
        assert_eq!(answer["ok"], false, "{}", tool.name);
    }
}

#[tokio::test]
async fn the_outbox_shows_what_waits_but_not_what_is_private() {
    let fixture = Fixture::new().await;
    fixture.server.behave(ServerMode::Down);
    for space in ["private:alice", "private:bob"] {
        let arguments = json!({"payload_md": format!("of {space}"), "target_space": space});
        fixture.call("memory_store", arguments).await;
    }
    let all = fixture
        .call("outbox_status", json!({"status": "pending"}))
        .await;
    assert_eq!(all["total"], 2, "{all}");
    assert_eq!(all["rows"][0].get("payload_md"), None);
    assert!(all["rows"][0]["outbox_id"].is_i64());
    let alice = Caller {
        actor: Some("alice".to_owned()),
        is_authenticated: true,
        ..Caller::default()
    };
    let own = fixture.call_as(&alice, "outbox_status", json!({})).await;
    assert_eq!(own["total"], 1, "{own}");
    assert_eq!(own["rows"][0]["target_space"], "private:alice");
}

#[tokio::test]
async fn the_report_adds_up() {
    let fixture = Fixture::new().await;
    fixture.open_team().await;
    fixture.remember("one").await;
    fixture.remember("one").await;
    fixture.server.behave(ServerMode::Down);
    fixture.remember("two").await;
    fixture.remember("two").await;
    fixture
        .call(
            "memory_store",
            json!({"payload_md": "x", "target_space": "public:x"}),
        )
        .await;
    let report = fixture.call("reliability_report", json!({})).await;
    assert_eq!(report["ok"], true, "{report}");
    assert_eq!(report["total_writes"], 5);
    assert_eq!(report["success_rate"], 0.4);
    assert_eq!(report["outbox_stats"]["by_status"]["pending"], 1);
    let reasons = &report["audit_stats"]["by_reason"];
    assert_eq!(reasons["openmemory_write_failed"], 2);
    assert_eq!(reasons["dedup_hit"], 1);
    assert_eq!(report["invariants"]["redirects_match_outbox"], true);
    assert_eq!(report["audit_stats"]["pending"], 0);
}
