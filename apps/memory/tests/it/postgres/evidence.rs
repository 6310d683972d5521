//! The database and the parser agree about which evidence can be found.

use consign_memory::uri::{mask_credentials, parse_attachment_evidence_uri, parse_evidence_uri};
use serde_json::json;
use sqlx::types::Json;

use super::Fixture;

#[tokio::test]
async fn evidence_is_read_as_by_the_parser() {
    let mut fixture = Fixture::open().await;
    let sha = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let upper = sha.to_uppercase();
    let uris = [
        format!("memory://patch_blobs/git/1:abc/{sha}"),
        format!("MEMORY://patch_blobs/svn/2:1234/{upper}"),
        format!("  memory://patch_blobs/git/1:abc/{sha}/ "),
        format!("memory:///patch_blobs/git/1:abc/{sha}"),
        format!("memory://patch_blobs/git/a%2Fb/{sha}"),
        format!("memory://patch_blobs/git/a%zz/{sha}"),
        format!("memory://patch_blobs/git/a/b/{sha}"),
        format!("memory://patch_blobs/git/../{sha}"),
        format!("memory://patch_blobs/git/1:abc/{sha}?x=1"),
        format!("memory://patch_blobs/git/1:abc?x=1/{sha}"),
        format!("memory://patch_blobs/git/{sha}"),
        format!("memory://patch_blobs/g t/1:abc/{sha}"),
        "memory://patch_blobs/git/1:abc/short".to_owned(),
        format!("https://patch_blobs/git/1:abc/{sha}"),
        format!("memory://attachments/7/{sha}"),
        format!("memory://attachments/0/{upper}/"),
        format!("memory:///attachments/12345/{sha}"),
        format!("memory://attachments/07/{sha}"),
        format!("memory://attachments/-7/{sha}"),
        format!("memory://attachments/1_000/{sha}"),
        format!("memory://attachments/ns/7/{sha}"),
        format!("memory://attachments//{sha}"),
        "memory://attachments/7".to_owned(),
        format!("attachments/7/{sha}"),
        String::new(),
    ];
    for uri in &uris {
        let is_patch = parse_evidence_uri(uri).is_some_and(|patch| patch.is_strong());
        let is_attachment = parse_attachment_evidence_uri(uri).is_some();
        for (list, expected) in [("patches", is_patch), ("attachments", is_attachment)] {
            let document = json!({list: [{"artifact_uri": uri}]});
            let found: bool = sqlx::query_scalar("SELECT logbook.has_sound_evidence($1)")
                .bind(Json(document))
                .fetch_one(&mut fixture.connection)
                .await
                .unwrap();
            assert_eq!(found, expected, "{list}: {uri:?}");
        }
    }
}

/// What comes in by SQL is masked as the gateway masks what comes in by it.
#[tokio::test]
async fn credentials_are_masked_as_by_the_gateway() {
    let mut fixture = Fixture::open().await;
    let table = include_str!("../../../../../crates/redact/src/uri/table.txt");
    for line in table.lines().filter(|line| !line.starts_with("--")) {
        let (text, expected) = line.split_once(" => ").unwrap_or((line, line));
        assert_eq!(mask_credentials(text), expected);
        for text in [text, expected] {
            let masked: String = sqlx::query_scalar("SELECT logbook.masked($1::text)")
                .bind(text)
                .fetch_one(&mut fixture.connection)
                .await
                .unwrap();
            assert_eq!(masked, expected, "{text}");
        }
    }
    let masked = fixture
        .value("SELECT logbook.masked('{\"a\": [{\"b\": \"//u:p@h\"}, null], \"n\": 1.50}'::jsonb)::text")
        .await;
    let expected = "{\"a\": [{\"b\": \"//[REDACTED]@h\"}, null], \"n\": 1.50}";
    assert_eq!(masked.as_deref(), Some(expected));
}

/// The seed's primitives write nothing else than the gateway.
#[tokio::test]
async fn what_sql_writes_holds_no_credentials() {
    let mut fixture = Fixture::open().await;
    fixture.run(
        "SELECT logbook.enqueue_memory('text', 'team:p', NULL, 'failed at https://u:hunter2@h');
         SELECT count(*) FROM logbook.claim_outbox('w', 1, 60);
         SELECT logbook.fail_retry(outbox_id, 'w', 'https://u:hunter2@h says no', now())
             FROM logbook.outbox_memory;",
    )
    .await;
    let error = fixture
        .value("SELECT last_error FROM logbook.outbox_memory")
        .await;
    assert_eq!(error.as_deref(), Some("https://[REDACTED]@h says no"));
    let headers = fixture
        .value("SELECT headers::text FROM consign.message")
        .await;
    let headers = headers.unwrap();
    assert!(headers.contains("https://[REDACTED]@h"), "{headers}");
}
