//! U+0000, which PostgreSQL cannot keep: refused by the gateway, whatever the store is.

use consign_memory::{Caller, StoreRequest};
use serde_json::{Map, json};

use crate::support::Fixture;

#[tokio::test]
async fn an_argument_with_nul_is_refused_by_its_name() {
    let fixture = Fixture::new().await;
    fixture.open_team().await;
    let table = [
        ("memory_store", "payload_md", json!({"payload_md": "a\0b"})),
        (
            "memory_store",
            "target_space",
            json!({"payload_md": "x", "target_space": "team:\0"}),
        ),
        (
            "memory_store",
            "meta_json",
            json!({"payload_md": "x", "meta_json": {"a": ["b", {"c": "\0"}]}}),
        ),
        (
            "memory_store",
            "meta_json",
            json!({"payload_md": "x", "meta_json": {"a": {"\0": 1}}}),
        ),
        ("memory_query", "query", json!({"query": "a\0b"})),
        (
            "memory_query",
            "spaces",
            json!({"query": "a", "spaces": ["team:p", "\0"]}),
        ),
        (
            "logbook_set_kv",
            "value_json",
            json!({"namespace": "n", "key": "k", "value_json": {"a": "\0"}}),
        ),
        (
            "logbook_create_item",
            "title",
            json!({"item_type": "task", "title": "\0"}),
        ),
    ];
    for (tool, name, arguments) in table {
        let answer = fixture.call(tool, arguments).await;
        assert_eq!(answer["error_code"], "INVALID_PARAMETER", "{answer}");
        let expected = format!("{name} must not contain U+0000");
        assert_eq!(answer["message"], json!(expected), "{answer}");
        assert_eq!(answer["details"]["parameter"], json!(name), "{answer}");
    }
    assert_eq!(fixture.server.stores(), 0);
    let audits = fixture.audits().await;
    let has_nul = |audit| format!("{audit:?}").contains("\\0");
    assert!(!audits.iter().any(has_nul), "{audits:?}");
}

/// Those who do not come through a tool are refused as well.
#[tokio::test]
async fn a_request_with_nul_is_refused_too() {
    let fixture = Fixture::new().await;
    fixture.open_team().await;
    let good = StoreRequest {
        payload_md: Some("x".to_owned()),
        target_space: Some("team:p".to_owned()),
        ..StoreRequest::default()
    };
    let mut meta_json = Map::new();
    meta_json.insert("a".to_owned(), json!("\0"));
    let table = [
        StoreRequest {
            payload_md: Some("\0".to_owned()),
            ..good.clone()
        },
        StoreRequest {
            meta_json,
            ..good.clone()
        },
        StoreRequest {
            evidence_refs: vec!["git://\0".to_owned()],
            ..good.clone()
        },
        StoreRequest {
            evidence: vec![json!({"uri": "git://\0"})],
            ..good.clone()
        },
    ];
    for request in table {
        let answer = fixture.service.store(request, &Caller::anonymous()).await;
        assert_eq!(answer.error_code, Some("INVALID_PARAMETER"), "{answer:?}");
        assert_eq!(answer.action, "reject");
    }
    assert_eq!(fixture.server.stores(), 0);
    let answer = fixture.service.store(good, &Caller::anonymous()).await;
    assert!(answer.ok, "{answer:?}");
}
