//! The database and the parser agree about which evidence can be found (T41).

use consign_memory::uri::{parse_attachment_evidence_uri, parse_evidence_uri};
use serde_json::json;
use sqlx::types::Json;

use super::Desk;

#[tokio::test]
async fn evidence_is_read_as_by_the_parser() {
    let mut desk = Desk::open().await;
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
                .fetch_one(&mut desk.connection)
                .await
                .unwrap();
            assert_eq!(found, expected, "{list}: {uri:?}");
        }
    }
}
