//! Evidence: kept in files, found by reference, checked when it is read.

use std::{fs, path::Path};

use consign_memory::{Caller, ItemFilter, MemoryService, tools};
use consign_scm::{Batch, NewCommit, NewRepo, Patch, PatchFormat, Provider, Records, Stream};
use serde_json::{Value, json};

use crate::support::{Fixture, also_on_postgres};

async fn upload(fixture: &Fixture, content: &str) -> Value {
    let arguments = json!({"content": content, "content_type": "text/markdown", "title": "notes"});
    fixture.call("evidence_upload", arguments).await
}

#[tokio::test]
async fn what_is_uploaded_can_be_read_and_cited() {
    let fixture = Fixture::new().await;
    fixture.set_policy(json!({"evidence_mode": "strict"})).await;
    let answer = upload(&fixture, "hello").await;
    assert_eq!(answer["ok"], true, "{answer}");
    let sha = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
    assert_eq!(answer["sha256"], sha);
    assert_eq!(answer["size_bytes"], 5);
    let uri = format!("memory://attachments/{}/{sha}", answer["attachment_id"]);
    assert_eq!(answer["evidence"]["uri"], json!(uri));
    assert_eq!(answer["evidence"]["title"], "notes");

    let read = fixture.call("evidence_read", json!({"uri": uri})).await;
    assert_eq!(read["content"], "hello", "{read}");
    assert_eq!(read["verified"], true);
    assert_eq!(read["content_type"], "text/markdown");
    assert_eq!(read["item_id"], answer["item_id"]);
    let read = fixture
        .call("evidence_read", json!({"uri": uri, "encoding": "base64"}))
        .await;
    assert_eq!(read["content"], "aGVsbG8=");
    let read = fixture
        .call(
            "evidence_read",
            json!({"uri": uri, "include_content": false}),
        )
        .await;
    assert_eq!(read.get("content"), None);
    let by_key = json!({"uri": answer["artifact_uri"]});
    assert_eq!(
        fixture.call("evidence_read", by_key).await["content"],
        "hello"
    );

    // It is enough for a strict project.
    let arguments = json!({
        "payload_md": "x", "target_space": "team:p", "evidence": [answer["evidence"]],
    });
    let stored = fixture.call("memory_store", arguments).await;
    assert_eq!(stored["action"], "allow", "{stored}");
    let audit = fixture.audits().await.pop().unwrap();
    let audit = audit.evidence_refs_json;
    assert_eq!(audit["attachments"][0]["artifact_uri"], json!(uri));
}

#[tokio::test]
async fn what_is_not_allowed_is_not_kept() {
    let fixture = Fixture::with(|options| options.evidence_max_size_bytes = 4).await;
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
        let answer = fixture.call("evidence_upload", arguments).await;
        assert_eq!(answer["error_code"], code, "{answer}");
    }
    assert!(!fixture.path().join("up").exists());
    assert!(
        !fixture.path().join("artifacts").exists(),
        "no file is left"
    );
}

/// What is refused by the database leaves no file, unless the same text is somebody's evidence.
#[tokio::test]
async fn a_refused_upload_takes_its_file_back() {
    let fixture = Fixture::new().await;
    let upload = json!({"content": "hello", "content_type": "text/plain"});
    fixture.break_writes("attachments").await;
    let answer = fixture.call("evidence_upload", upload.clone()).await;
    assert_eq!(answer["ok"], false, "{answer}");
    assert_eq!(files(&fixture), 0, "{answer}");
    let items = fixture
        .store
        .items(&ItemFilter::default(), 10)
        .await
        .unwrap();
    assert_eq!(items, [], "nor an item");
    fixture.mend("attachments").await;
    let kept = fixture.call("evidence_upload", upload.clone()).await;
    assert_eq!(kept["ok"], true, "{kept}");
    fixture.break_writes("attachments").await;
    let answer = fixture.call("evidence_upload", upload).await;
    assert_eq!(answer["ok"], false, "{answer}");
    assert_eq!(files(&fixture), 1, "it is somebody's evidence");
}

/// How many files are among the artifacts.
fn files(fixture: &Fixture) -> usize {
    fn count(folder: &Path) -> usize {
        let Ok(entries) = fs::read_dir(folder) else {
            return 0;
        };
        let paths = entries.map(|entry| entry.unwrap().path());
        paths
            .map(|path| if path.is_dir() { count(&path) } else { 1 })
            .sum()
    }
    count(&fixture.path().join("artifacts"))
}

/// The name of a file may hold what begins a query elsewhere.
#[tokio::test]
async fn the_whole_key_names_the_file() {
    let fixture = Fixture::new().await;
    let folder = fixture.path().join("artifacts/scm");
    fs::create_dir_all(&folder).unwrap();
    for name in ["a", "a?b=c", "C#.md"] {
        fs::write(folder.join(name), name).unwrap();
    }
    for uri in ["scm/a", "scm/a?b=c", "scm/C#.md", "artifact://scm/C#.md"] {
        let read = fixture.call("evidence_read", json!({"uri": uri})).await;
        let name = uri.rsplit('/').next().unwrap();
        assert_eq!(read["content"], name, "{uri}: {read}");
    }
}

fn bound(actor: &str) -> Caller {
    Caller {
        actor: Some(actor.to_owned()),
        is_authenticated: true,
        ..Caller::default()
    }
}

/// What somebody uploads while the team's space is closed is theirs.
async fn hers(fixture: &Fixture, ada: &Caller) -> Value {
    let upload = json!({"content": "hers", "content_type": "text/plain"});
    let hers = fixture.call_as(ada, "evidence_upload", upload).await;
    assert_eq!(hers["space_written"], "private:ada", "{hers}");
    hers
}

#[track_caller]
fn is_forbidden(answer: &Value) {
    assert_eq!(answer["error_code"], "SPACE_FORBIDDEN", "{answer}");
    assert_eq!(answer.get("content"), None);
}

/// Evidence belongs to the space of its item, by whatever name it is asked for.
#[tokio::test]
async fn evidence_follows_the_space_of_its_item() {
    let fixture = Fixture::new().await;
    let (ada, bob) = (bound("ada"), bound("bob"));
    let hers = hers(&fixture, &ada).await;
    let audit = fixture.audits().await.pop().unwrap();
    assert_eq!(audit.target_space, "private:ada");
    let reason = "evidence_upload:team_write_disabled";
    assert_eq!(audit.reason.as_deref(), Some(reason));
    let known = &audit.evidence_refs_json;
    for name in ["item_id", "attachment_id"] {
        assert_eq!(known[name], hers[name], "{known}");
        assert_eq!(known["gateway_event"][name], hers[name], "{known}");
    }
    let (uri, key) = (&hers["evidence"]["uri"], &hers["artifact_uri"]);
    let spelled = format!("./{}", key.as_str().unwrap().replace('/', "//"));
    for uri in [uri, key, &json!(spelled)] {
        let arguments = json!({"uri": uri});
        let read = fixture
            .call_as(&ada, "evidence_read", arguments.clone())
            .await;
        assert_eq!(read["content"], "hers", "{read}");
        is_forbidden(&fixture.call_as(&bob, "evidence_read", arguments).await);
    }
    // The same text as his own evidence is his.
    let upload = json!({"content": "hers", "content_type": "text/plain"});
    let his = fixture
        .call_as(&bob, "evidence_upload", upload.clone())
        .await;
    assert_eq!(his["space_written"], "private:bob", "{his}");
    let read = json!({"uri": key});
    let read = fixture.call_as(&bob, "evidence_read", read).await;
    assert_eq!(read["content"], "hers", "{read}");
    is_forbidden(
        &fixture
            .call_as(&bob, "evidence_read", json!({"uri": uri}))
            .await,
    );
    // What goes to the team is the team's.
    fixture.open_team().await;
    let teams = fixture.call_as(&ada, "evidence_upload", upload).await;
    assert_eq!(teams["space_written"], "team:p", "{teams}");
    let read = json!({"uri": teams["evidence"]["uri"]});
    let read = fixture.call_as(&bob, "evidence_read", read).await;
    assert_eq!(read["content"], "hers", "{read}");
}

/// Nor is it reached by naming it, or seen in a list.
#[tokio::test]
async fn what_belongs_to_a_closed_space_is_neither_named_nor_listed() {
    let fixture = Fixture::new().await;
    let (ada, bob) = (bound("ada"), bound("bob"));
    let hers = hers(&fixture, &ada).await;
    let item = json!({"item_type": "task", "title": "his", "scope_json": {"space": "private:bob"}});
    let his = fixture.call_as(&bob, "logbook_create_item", item).await;
    let spelled = format!("./{}", hers["artifact_uri"].as_str().unwrap());
    for (item_id, uri) in [
        (&his["item_id"], &hers["artifact_uri"]),
        (&his["item_id"], &json!(spelled)),
        (&hers["item_id"], &json!("attachments/other")),
    ] {
        let attach = json!({
            "item_id": item_id, "kind": "evidence", "uri": uri, "sha256": hers["sha256"],
        });
        is_forbidden(&fixture.call_as(&bob, "logbook_attach", attach).await);
    }
    let upload = |more: Value| {
        let mut upload = json!({"content": "x", "content_type": "text/plain"});
        upload
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        upload
    };
    let into_hers = upload(json!({"item_id": hers["item_id"]}));
    is_forbidden(&fixture.call_as(&bob, "evidence_upload", into_hers).await);
    let to_her = upload(json!({"target_space": "private:ada"}));
    is_forbidden(&fixture.call_as(&bob, "evidence_upload", to_her).await);
    let nowhere = upload(json!({"target_space": "nowhere"}));
    let answer = fixture.call_as(&bob, "evidence_upload", nowhere).await;
    assert_eq!(answer["error_code"], "INVALID_PARAMETER", "{answer}");
    let event = json!({"item_id": hers["item_id"], "event_type": "note"});
    is_forbidden(
        &fixture
            .call_as(&bob, "logbook_add_event", event.clone())
            .await,
    );
    let answer = fixture.call_as(&ada, "logbook_add_event", event).await;
    assert_eq!(answer["ok"], true, "{answer}");
    for (tool, caller, total) in [
        ("logbook_list_attachments", &bob, 0),
        ("logbook_list_attachments", &ada, 1),
        ("logbook_query_items", &bob, 1),
        ("logbook_query_items", &ada, 1),
        ("logbook_query_events", &bob, 0),
        ("logbook_query_events", &ada, 1),
    ] {
        let listed = fixture.call_as(caller, tool, json!({})).await;
        assert_eq!(listed["total"], total, "{tool}: {listed}");
    }
    // Without the memory server she finds what happened, and nobody else does.
    for (space, total) in [("team:p", 0), ("private:ada", 1)] {
        let spaces = [space.to_owned()];
        let found = fixture.store.search_logbook("note", &spaces, 10).await;
        assert_eq!(found.unwrap().len(), total, "{space}");
    }
}

also_on_postgres! {
    a_refused_upload_takes_its_file_back
    evidence_follows_the_space_of_its_item
    what_belongs_to_a_closed_space_is_neither_named_nor_listed
}

/// A reference leads to what it names, and nowhere else.
#[tokio::test]
async fn rejects_content_that_differs_from_its_reference() {
    let fixture = Fixture::new().await;
    let answer = upload(&fixture, "hello").await;
    let id = answer["attachment_id"].as_i64().unwrap();
    let (sha, other) = (answer["sha256"].as_str().unwrap(), "0".repeat(64));
    fs::write(fixture.path().join("secret"), "x").unwrap();
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
        ("../secret".to_owned(), "PATH_TRAVERSAL_ERROR"),
        ("artifact://a/../../x".to_owned(), "PATH_TRAVERSAL_ERROR"),
        ("file:///etc/passwd".to_owned(), "INVALID_URI"),
        ("attachments/none".to_owned(), "ARTIFACT_NOT_FOUND"),
    ];
    for (uri, code) in table {
        let answer = fixture.call("evidence_read", json!({"uri": uri})).await;
        assert_eq!(answer["error_code"], code, "{uri}: {answer}");
    }
    let uri = format!("memory://attachments/{id}/{sha}");
    let small = fixture
        .call("evidence_read", json!({"uri": uri, "max_bytes": 4}))
        .await;
    assert_eq!(small["error_code"], "PAYLOAD_TOO_LARGE", "{small}");
    let file = fixture
        .path()
        .join("artifacts")
        .join(answer["artifact_uri"].as_str().unwrap());
    fs::write(&file, "hellO").unwrap();
    let damaged = fixture.call("evidence_read", json!({"uri": uri})).await;
    assert_eq!(damaged["error_code"], "CHECKSUM_MISMATCH", "{damaged}");
    assert_eq!(upload(&fixture, "hello").await["ok"], true);
    let mended = fixture.call("evidence_read", json!({"uri": uri})).await;
    assert_eq!(mended["content"], "hello");
}

/// A gateway that knows three commits: one whose change is here, one whose change could not be fetched.
async fn repository() -> (Fixture, MemoryService, Patch) {
    let fixture = Fixture::new().await;
    let service = fixture.service.clone().with_scm(fixture.scm.clone());
    let repo = NewRepo {
        provider: Provider::Git,
        url: "/srv/r".to_owned(),
        project_key: None,
        default_branch: None,
    };
    let repo_id = fixture.scm.add_repo(&repo).await.unwrap().repo_id;
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
    fixture.scm.record(&batch).await.unwrap();
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
        fixture.scm.put_patch(patch).await.unwrap();
    }
    (fixture, service, here)
}

/// The change of a commit is found by its source and hash, and checked when it is read.
#[tokio::test]
async fn the_change_of_a_commit_is_read_as_evidence() {
    let (fixture, service, here) = repository().await;
    let read = async |uri: &str| {
        let (arguments, caller) = (json!({"uri": uri}), Caller::anonymous());
        let answer = tools::call(&service, "evidence_read", arguments, &caller).await;
        answer.body
    };
    let file = fixture.path().join("artifacts/scm/p/change.diff");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, "hello").unwrap();
    let (repo_id, sha, other) = (here.repo_id, &*here.sha256, "0".repeat(64));
    let whole = format!("memory://patch_blobs/git/{repo_id}:abc1234/{sha}");
    let number = async |sha: &str| {
        let found = fixture.scm.patch(repo_id, sha).await.unwrap();
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
    fixture.scm.put_patch(&newer).await.unwrap();
    assert_eq!(read(&whole).await["content"], "hello");
    fs::write(&file, "hellO").unwrap();
    assert_eq!(read(&whole).await["error_code"], "CHECKSUM_MISMATCH");
    fs::remove_file(&file).unwrap();
    assert_eq!(read(&whole).await["error_code"], "ARTIFACT_NOT_FOUND");
}
