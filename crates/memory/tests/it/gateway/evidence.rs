//! Evidence: kept in files, found by reference, checked when it is read.

use std::fs;

use consign_memory::{Caller, MemoryService, tools};
use consign_scm::{Batch, NewCommit, NewRepo, Patch, PatchFormat, Provider, Records, Stream};
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

/// A gateway that knows three commits: one whose change is here, one whose change could not be fetched.
async fn repository() -> (Desk, MemoryService, Patch) {
    let desk = Desk::new().await;
    let service = desk.service.clone().with_scm(desk.store.clone());
    let repo = NewRepo {
        provider: Provider::Git,
        url: "/srv/r".to_owned(),
        project_key: None,
        default_branch: None,
    };
    let repo_id = desk.store.add_repo(&repo).await.unwrap().repo_id;
    let commit = |commit_sha: &str| NewCommit {
        commit_sha: commit_sha.to_owned(),
        author_raw: "a".to_owned(),
        ts: None,
        message: "m".to_owned(),
        is_merge: false,
        bulk_reason: None,
        meta_json: json!({}),
    };
    let batch = Batch {
        repo_id,
        stream: Stream::Git,
        from: None,
        to: json!({}),
        records: Records::Commits(["abc1234", "abc1235", "abc1236"].map(commit).to_vec()),
    };
    desk.store.record(&batch).await.unwrap();
    let here = Patch {
        repo_id,
        rev_or_sha: "abc1234".to_owned(),
        uri: Some("scm/p/change.diff".to_owned()),
        sha256: "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824".to_owned(),
        size_bytes: Some(5),
        format: PatchFormat::Diff,
        degrade_reason: None,
        error: None,
    };
    let missing = Patch {
        rev_or_sha: "abc1235".to_owned(),
        uri: None,
        sha256: "0".repeat(64),
        ..here.clone()
    };
    for patch in [&here, &missing] {
        desk.store.put_patch(patch).await.unwrap();
    }
    (desk, service, here)
}

/// Facts 3.9: the change of a commit is found by its source and hash, and checked when it is read.
#[tokio::test]
async fn the_change_of_a_commit_is_read_as_evidence() {
    let (desk, service, here) = repository().await;
    let read = async |uri: &str| {
        let (arguments, caller) = (json!({"uri": uri}), Caller::anonymous());
        let answer = tools::call(&service, "evidence_read", arguments, &caller).await;
        answer.body
    };
    let file = desk.path().join("artifacts/scm/p/change.diff");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, "hello").unwrap();
    let (repo_id, sha, other) = (here.repo_id, &*here.sha256, "0".repeat(64));
    let whole = format!("memory://patch_blobs/git/{repo_id}:abc1234/{sha}");
    let number = async |sha: &str| {
        let found = desk.store.patch(repo_id, sha).await.unwrap();
        found.unwrap().blob_id
    };
    let (number, missing) = (number("abc1234").await, number("abc1235").await);
    for uri in [
        whole.clone(),
        whole.replace(sha, &sha.to_uppercase()),
        format!("memory://patch_blobs/sha256/{sha}"),
        format!("memory://patch_blobs/blob_id/{number}"),
        format!("memory://patch_blobs/git/{repo_id}:abc1234"),
    ] {
        let answer = read(&uri).await;
        assert_eq!(answer["content"], "hello", "{uri}: {answer}");
        assert_eq!(answer["verified"], true, "{uri}");
        assert_eq!(answer["source_id"], format!("{repo_id}:abc1234"));
    }
    for (uri, code) in [
        (whole.replace(sha, &other), "CHECKSUM_MISMATCH"),
        (whole.replace("abc1234", "abc1236"), "CHECKSUM_MISMATCH"),
        (whole.replace("/git/", "/svn/"), "CHECKSUM_MISMATCH"),
        (
            format!("memory://patch_blobs/git/{repo_id}:abc1236/{other}"),
            "NOT_FOUND",
        ),
        (
            format!("memory://patch_blobs/git/{repo_id}:abc1235/{other}"),
            "ARTIFACT_NOT_FOUND",
        ),
        (format!("memory://patch_blobs/sha256/{other}"), "NOT_FOUND"),
        (
            format!("memory://patch_blobs/blob_id/{missing}"),
            "ARTIFACT_NOT_FOUND",
        ),
        ("memory://patch_blobs/blob_id/99".to_owned(), "NOT_FOUND"),
        ("memory://patch_blobs/blob_id/x".to_owned(), "NOT_FOUND"),
        ("memory://patch_blobs/git/x/y/z/u".to_owned(), "INVALID_URI"),
    ] {
        let answer = read(&uri).await;
        assert_eq!(answer["error_code"], code, "{uri}: {answer}");
    }
    // Another account of the change does not make the first one unreadable.
    let newer = Patch {
        sha256: "1".repeat(64),
        ..here.clone()
    };
    desk.store.put_patch(&newer).await.unwrap();
    assert_eq!(read(&whole).await["content"], "hello");
    fs::write(&file, "hellO").unwrap();
    assert_eq!(read(&whole).await["error_code"], "CHECKSUM_MISMATCH");
    fs::remove_file(&file).unwrap();
    assert_eq!(read(&whole).await["error_code"], "ARTIFACT_NOT_FOUND");
}
