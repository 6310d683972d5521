//! Evidence: kept in files, found by reference, checked when it is read.

use std::fs;

use serde_json::{Value, json};

use crate::support::Desk;

async fn upload(desk: &Desk, content: &str) -> Value {
    let arguments = json!({"content": content, "content_type": "text/markdown", "title": "notes"});
    desk.call("evidence_upload", arguments).await
}

#[tokio::test]
async fn what_is_uploaded_can_be_read_and_cited() {
    let desk = Desk::new().await;
    desk.set_policy(json!({"evidence_mode": "strict"})).await;
    let answer = upload(&desk, "hello").await;
    assert_eq!(answer["ok"], true, "{answer}");
    let sha = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
    assert_eq!(answer["sha256"], sha);
    assert_eq!(answer["size_bytes"], 5);
    let uri = format!("memory://attachments/{}/{sha}", answer["attachment_id"]);
    assert_eq!(answer["evidence"]["uri"], json!(uri));
    assert_eq!(answer["evidence"]["title"], "notes");

    let read = desk.call("evidence_read", json!({"uri": uri})).await;
    assert_eq!(read["content"], "hello", "{read}");
    assert_eq!(read["verified"], true);
    assert_eq!(read["content_type"], "text/markdown");
    assert_eq!(read["item_id"], answer["item_id"]);
    let read = desk
        .call("evidence_read", json!({"uri": uri, "encoding": "base64"}))
        .await;
    assert_eq!(read["content"], "aGVsbG8=");
    let read = desk
        .call(
            "evidence_read",
            json!({"uri": uri, "include_content": false}),
        )
        .await;
    assert_eq!(read.get("content"), None);
    let by_key = json!({"uri": answer["artifact_uri"]});
    assert_eq!(desk.call("evidence_read", by_key).await["content"], "hello");

    // It is enough for a strict project.
    let arguments = json!({
        "payload_md": "x", "target_space": "team:p", "evidence": [answer["evidence"]],
    });
    let stored = desk.call("memory_store", arguments).await;
    assert_eq!(stored["action"], "allow", "{stored}");
    let audit = &desk.audits().await[0].evidence_refs_json;
    assert_eq!(audit["attachments"][0]["artifact_uri"], json!(uri));
}

#[tokio::test]
async fn what_is_not_allowed_is_not_kept() {
    let desk = Desk::with(|options| options.evidence_max_size_bytes = 4).await;
    let table = [
        (
            json!({"content": "hello", "content_type": "text/plain"}),
            "EVIDENCE_SIZE_LIMIT_EXCEEDED",
        ),
        (
            json!({"content": "x", "content_type": "application/octet-stream"}),
            "EVIDENCE_CONTENT_TYPE_NOT_ALLOWED",
        ),
        (
            json!({"content": "x", "content_type": "text/plain", "project_key": "../up"}),
            "INVALID_PARAMETER",
        ),
        (
            json!({"content": "x", "content_type": "text/plain", "item_id": 99}),
            "EVIDENCE_ITEM_REQUIRED",
        ),
        (json!({"content": "x"}), "MISSING_REQUIRED_PARAMETER"),
    ];
    for (arguments, code) in table {
        let answer = desk.call("evidence_upload", arguments).await;
        assert_eq!(answer["error_code"], code, "{answer}");
    }
    assert!(!desk.path().join("up").exists());
}

/// T43, T44: a reference leads to what it names, and nowhere else.
#[tokio::test]
async fn what_is_not_what_its_reference_says_is_not_read() {
    let desk = Desk::new().await;
    let answer = upload(&desk, "hello").await;
    let id = answer["attachment_id"].as_i64().unwrap();
    let (sha, other) = (answer["sha256"].as_str().unwrap(), "0".repeat(64));
    fs::write(desk.path().join("secret"), "x").unwrap();
    let table = [
        (
            format!("memory://attachments/{id}/{other}"),
            "CHECKSUM_MISMATCH",
        ),
        (
            format!("memory://attachments/{}/{sha}", id + 1),
            "NOT_FOUND",
        ),
        (format!("memory://attachments/-1/{sha}"), "INVALID_URI"),
        (format!("memory://attachments/ns/1/{sha}"), "INVALID_URI"),
        (
            format!("memory://patch_blobs/git/1:a/{sha}"),
            "NOT_IMPLEMENTED",
        ),
        ("../secret".to_owned(), "INVALID_URI"),
        ("file:///etc/passwd".to_owned(), "INVALID_URI"),
        ("attachments/none".to_owned(), "ARTIFACT_NOT_FOUND"),
    ];
    for (uri, code) in table {
        let answer = desk.call("evidence_read", json!({"uri": uri})).await;
        assert_eq!(answer["error_code"], code, "{uri}: {answer}");
    }
    let uri = format!("memory://attachments/{id}/{sha}");
    let small = desk
        .call("evidence_read", json!({"uri": uri, "max_bytes": 4}))
        .await;
    assert_eq!(small["error_code"], "PAYLOAD_TOO_LARGE", "{small}");
    let file = desk
        .path()
        .join("artifacts")
        .join(answer["artifact_uri"].as_str().unwrap());
    fs::write(&file, "hellO").unwrap();
    let damaged = desk.call("evidence_read", json!({"uri": uri})).await;
    assert_eq!(damaged["error_code"], "CHECKSUM_MISMATCH", "{damaged}");
    assert_eq!(upload(&desk, "hello").await["ok"], true);
    let mended = desk.call("evidence_read", json!({"uri": uri})).await;
    assert_eq!(mended["content"], "hello");
}
