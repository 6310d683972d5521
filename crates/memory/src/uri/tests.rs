use serde_json::{Map, Value, json};

use super::*;

const S: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// `S` and `S^` stand for the hash in lower and upper case.
fn with_hash(text: &str) -> String {
    text.replace("S^", &S.to_uppercase())
        .replace("/S", &format!("/{S}"))
}

#[track_caller]
fn check(uri: &str, expected: (&str, &str, UriType, &str)) {
    let (scheme, path, uri_type, netloc) = expected;
    let parsed = parse_uri(&with_hash(uri));
    assert_eq!(parsed.scheme.as_deref().unwrap_or("-"), scheme, "{uri}");
    assert_eq!(parsed.path, with_hash(path), "{uri}");
    assert_eq!(parsed.uri_type, uri_type, "{uri}");
    assert_eq!(parsed.netloc.as_deref().unwrap_or("-"), netloc, "{uri}");
    let is_local = matches!(
        uri_type,
        UriType::File | UriType::Artifact | UriType::Memory
    );
    assert_eq!(
        (parsed.is_local(), parsed.is_remote()),
        (is_local, !is_local),
        "{uri}"
    );
    assert_eq!(parsed.raw, with_hash(uri).trim());
}

/// Facts 3.1.
#[test]
fn physical_uris_are_taken_apart() {
    use UriType::{File, Ftp, Gs, Http, S3};
    check(
        "file:///home/user/file.txt",
        ("file", "/home/user/file.txt", File, "-"),
    );
    check(
        "file:///C:/Users/test/file.txt",
        ("file", "C:/Users/test/file.txt", File, "-"),
    );
    check(
        "  file:///path/to/file.txt  ",
        ("file", "/path/to/file.txt", File, "-"),
    );
    let web = "http://example.com/path/file.txt";
    check(web, ("http", "/path/file.txt", Http, "example.com"));
    check("HTTPS://Ex.com/A", ("https", "/A", Http, "Ex.com"));
    let object = "s3://my-bucket/path/to/object.txt";
    check(
        object,
        ("s3", "my-bucket/path/to/object.txt", S3, "my-bucket"),
    );
    check("s3://bucket", ("s3", "bucket", S3, "bucket"));
    check(
        "s3://bucket/key?versionId=1",
        ("s3", "bucket/key", S3, "bucket"),
    );
    check("gs://b/folder/f.json", ("gs", "b/folder/f.json", Gs, "b"));
    let ftp = "ftp://ftp.example.com/pub/file.zip";
    check(ftp, ("ftp", "/pub/file.zip", Ftp, "ftp.example.com"));
}

/// Facts 3.1.
#[test]
fn artifacts_evidence_and_strangers_are_taken_apart() {
    use UriType::{Artifact, Memory, Unknown};
    let path = "scm/repo-001/git/patch.diff";
    check(path, ("-", path, Artifact, "-"));
    let artifact = "artifact://scm/repo/test.diff";
    check(
        artifact,
        ("artifact", "scm/repo/test.diff", Artifact, "scm"),
    );
    check(
        "artifact://test.diff",
        ("artifact", "test.diff", Artifact, "test.diff"),
    );
    check("artifact:///abs/x", ("artifact", "abs/x", Artifact, "-"));
    check("1:abc", ("-", "1:abc", Artifact, "-"));
    check("", ("-", "", Artifact, "-"));
    check("mr://project/123", ("mr", "/123", Unknown, "project"));
    check(
        "git://repo/commit/abc",
        ("git", "/commit/abc", Unknown, "repo"),
    );
    check(
        "svn://repo/trunk@100",
        ("svn", "/trunk@100", Unknown, "repo"),
    );
    check("commit:abc123", ("commit", "abc123", Unknown, "-"));
    check("git:1:abc", ("git", "1:abc", Unknown, "-"));
    let patch = "memory://patch_blobs/git/1:abc123/S";
    check(
        patch,
        (
            "memory",
            "patch_blobs/git/1:abc123/S",
            Memory,
            "patch_blobs",
        ),
    );
    let document = "memory://docs/contracts/evidence_packet.md/S";
    check(
        document,
        (
            "memory",
            "docs/contracts/evidence_packet.md/S",
            Memory,
            "docs",
        ),
    );
    check(
        "MEMORY://attachments/1/S",
        ("memory", "attachments/1/S", Memory, "attachments"),
    );
    let query = "memory://patch_blobs/git/1:abc?x=1/S";
    check(
        query,
        ("memory", "patch_blobs/git/1:abc", Memory, "patch_blobs"),
    );
}

/// Facts 3.1.
#[test]
fn families_are_told_apart() {
    use UriClass::{ArtifactKey, EvidenceUri, PhysicalUri};
    let table = [
        ("memory://docs/x", EvidenceUri, false),
        ("s3://b/k", PhysicalUri, false),
        ("https://h/p", PhysicalUri, false),
        ("a/b", ArtifactKey, true),
        ("artifact://a", ArtifactKey, true),
        // No keys, and yet of that family.
        ("custom://x", ArtifactKey, false),
        ("git:1:abc", ArtifactKey, false),
    ];
    for (uri, class, is_key) in table {
        assert_eq!(classify_uri_type(uri), class, "{uri}");
        assert_eq!(parse_uri(uri).is_artifact_key(), is_key, "{uri}");
    }
    let physical = |uri| {
        let physical = parse_physical_uri(uri)?;
        Some((
            physical.scheme,
            physical.bucket.unwrap_or_default(),
            physical.key,
        ))
    };
    let table = [
        (
            "s3://my-bucket/engram/scm/1.diff",
            "s3",
            "my-bucket",
            "engram/scm/1.diff",
        ),
        ("s3://b", "s3", "b", ""),
        ("file:///mnt/artifacts/x", "file", "", "/mnt/artifacts/x"),
        ("https://h/p", "https", "", "/p"),
    ];
    for (uri, scheme, bucket, key) in table {
        let expected = (scheme.to_owned(), bucket.to_owned(), key.to_owned());
        assert_eq!(physical(uri), Some(expected));
    }
    assert_eq!(physical("scm/1/a.diff"), None);
    assert_eq!(physical("memory://docs/x"), None);
}

/// Facts 3.2 and 3.3.
#[test]
fn changes_have_uris() {
    let built = build_evidence_uri("GIT ", " 1:abc ", &format!(" {}", S.to_uppercase()));
    assert_eq!(built, with_hash("memory://patch_blobs/git/1:abc/S"));
    let of = build_evidence_uri_of("svn", 2, "1234", S);
    assert_eq!(of, with_hash("memory://patch_blobs/svn/2:1234/S"));

    let upper = S.to_uppercase();
    let read = |uri: &str| parse_evidence_uri(&with_hash(uri));
    let table = [
        ("memory://patch_blobs/git/1:abc123/S", "git", "1:abc123", S),
        (
            "memory://patch_blobs/git/1:abc123/sha256hash",
            "git",
            "1:abc123",
            "sha256hash",
        ),
        (
            "memory://patch_blobs/svn/2:1234/S^",
            "svn",
            "2:1234",
            upper.as_str(),
        ),
        // The reference reads the id of `git/a/b/<sha>` as `a` in one place and as `a/b` in another;
        // here it is encoded.
        ("memory://patch_blobs/git/a%2Fb/S", "git", "a/b", S),
    ];
    for (uri, source_type, source_id, sha256) in table {
        let patch = read(uri).expect(uri);
        assert_eq!(patch.source_type, source_type);
        assert_eq!(patch.source_id, source_id);
        assert_eq!(patch.sha256, sha256);
        assert_eq!(patch.is_strong(), sha256.len() == 64);
        assert_eq!(read(&patch.to_string()).unwrap().source_id, source_id);
    }
    let none = [
        // T41: the reference ignores what follows, or takes the wrong part for the hash.
        "memory://patch_blobs/git/1:abc/S/extra",
        "memory://patch_blobs/git/a/b/S",
        "memory://patch_blobs/git/1:abc123",
        "memory://patch_blobs/sha256/S",
        "memory://patch_blobs/blob_id/5",
        "memory://attachments/1/S",
        "https://x/patch_blobs/a/b/c",
        "memory://patch_blobs/git/1 a/S",
        "memory://patch_blobs/git//S",
        "memory://patch_blobs/git/../S",
        "memory://patch_blobs/git/a%2F..%2Fb/S",
        "memory://patch_blobs/git/1:a%zz/S",
        "memory://patch_blobs/g!t/1:a/S",
        "memory://patch_blobs/git/1:a/S?x",
    ];
    for uri in none {
        assert_eq!(read(uri), None, "{uri}");
    }
    assert!(is_patch_blob_evidence_uri("memory://patch_blobs/blob_id/5"));
    assert!(!is_patch_blob_evidence_uri("memory://patch_blobs_other/5"));
    assert!(!is_patch_blob_evidence_uri("https://patch_blobs/git"));
}

/// Facts 3.4. The last row of ids is what the reference accepts and we do not.
#[test]
fn attachments_have_uris() {
    let read = |uri: &str| parse_attachment_evidence_uri_strict(&with_hash(uri));
    let fine = [
        "memory://attachments/12345/S",
        "memory://attachments/12345/S^",
        "memory://attachments/12345/S/",
        "memory:///attachments/12345/S",
    ];
    for uri in fine {
        let attachment = read(uri).unwrap();
        assert_eq!(
            (attachment.attachment_id, attachment.sha256.as_str()),
            (12345, S)
        );
        assert_eq!(attachment.to_string(), with_hash(fine[0]));
    }
    assert_eq!(read("memory://attachments/0/S").unwrap().attachment_id, 0);

    let hash =
        |text: &str, count: usize| format!("memory://attachments/123/{}", text.repeat(count));
    let (short, long, odd) = (hash("a", 63), hash("a", 65), hash("g", 64));
    let table = [
        ("memory://attachments/namespace/123/S", "E_LEGACY_FORMAT"),
        ("memory://attachments/a/b/c/S", "E_LEGACY_FORMAT"),
        ("memory://attachments/abc/S", "E_INVALID_ID"),
        ("memory://attachments/12.34/S", "E_INVALID_ID"),
        ("memory://attachments/id_123/S", "E_INVALID_ID"),
        ("memory://attachments//S", "E_INVALID_ID"),
        ("memory://attachments/123/short", "E_INVALID_SHA256"),
        (&short, "E_INVALID_SHA256"),
        (&long, "E_INVALID_SHA256"),
        (&odd, "E_INVALID_SHA256"),
        ("memory://attachments/123", "E_MALFORMED"),
        ("memory://attachments", "E_MALFORMED"),
        ("memory://attachments/1/S?x=1", "E_MALFORMED"),
        ("memory://patch_blobs/git/1:a/S", "E_NOT_ATTACHMENTS"),
        ("memory://docs/x/S", "E_NOT_ATTACHMENTS"),
        ("https://e/attachments/1/S", "E_NOT_MEMORY"),
        ("attachments/1/S", "E_NOT_MEMORY"),
        ("memory://attachments/-123/S", "E_INVALID_ID"),
        ("memory://attachments/+5/S", "E_INVALID_ID"),
        ("memory://attachments/ 7 /S", "E_INVALID_ID"),
        ("memory://attachments/1_000/S", "E_INVALID_ID"),
        ("memory://attachments/007/S", "E_INVALID_ID"),
        ("memory://attachments/١٢/S", "E_INVALID_ID"),
        (
            "memory://attachments/12345678901234567890/S",
            "E_INVALID_ID",
        ),
    ];
    for (uri, code) in table {
        assert_eq!(read(uri).unwrap_err().code(), code, "{uri}");
        assert_eq!(parse_attachment_evidence_uri(&with_hash(uri)), None);
    }

    let built = build_attachment_evidence_uri(5, &format!(" {} ", S.to_uppercase())).unwrap();
    assert_eq!(built, with_hash("memory://attachments/5/S"));
    assert!(build_attachment_evidence_uri(-1, S).is_err());
    assert!(build_attachment_evidence_uri(5, "short").is_err());
}

fn patch_ref() -> Value {
    let patch = PatchRef {
        source_type: "git".to_owned(),
        source_id: "1:abc".to_owned(),
        sha256: S.to_uppercase(),
        size_bytes: Some(9),
        ..PatchRef::default()
    };
    patch.to_value().unwrap()
}

fn attachment_ref() -> Value {
    let attachment = AttachmentRef {
        attachment_id: 5,
        sha256: S.to_owned(),
        kind: "log".to_owned(),
        item_id: Some(3),
        ..AttachmentRef::default()
    };
    attachment.to_value().unwrap()
}

/// Facts 3.5.
#[test]
fn references_are_built() {
    let uri = with_hash("memory://patch_blobs/git/1:abc/S");
    let expected = json!({"artifact_uri": uri, "sha256": S, "source_id": "1:abc", "source_type": "git",
        "kind": "patch", "size_bytes": 9});
    assert_eq!(patch_ref(), expected);
    let uri = with_hash("memory://attachments/5/S");
    let expected =
        json!({"artifact_uri": uri, "sha256": S, "attachment_id": 5, "kind": "log", "item_id": 3});
    assert_eq!(attachment_ref(), expected);
    assert!(PatchRef::default().to_value().is_err());
    let overwritten = PatchRef {
        sha256: S.to_owned(),
        extra: json!({"kind": "stat"}).as_object().cloned().unwrap(),
        ..PatchRef::default()
    };
    assert_eq!(overwritten.to_value().unwrap()["kind"], "stat");

    let none = build_evidence_refs_json(&[], &[], &Map::new());
    assert!(none.is_empty());
    let extra = json!({"outbox_id": 7}).as_object().cloned().unwrap();
    let refs = Value::Object(build_evidence_refs_json(&[patch_ref()], &[], &extra));
    assert_eq!(refs, json!({"patches": [patch_ref()], "outbox_id": 7}));
}

/// Facts 3.5, with T24: the URI is read, and attachments can be referred to.
#[test]
fn references_are_checked_against_their_uri() {
    let changed = |name: &str, value: Value| {
        let mut reference = patch_ref();
        reference[name] = value;
        reference
    };
    assert_eq!(validate_evidence_ref(&patch_ref()), Ok(()));
    assert_eq!(validate_evidence_ref(&attachment_ref()), Ok(()));
    assert_eq!(
        validate_evidence_ref(&changed("source_id", json!("git:1:abc"))),
        Ok(())
    );
    let upper = json!({"artifact_uri": "memory://x", "sha256": S.to_uppercase(), "source_id": ":"});
    let mut other_attachment = attachment_ref();
    other_attachment["attachment_id"] = json!(6);
    let table = [
        (json!({"sha256": S}), "artifact_uri is missing"),
        (
            json!({"artifact_uri": "memory://x", "sha256": S}),
            "source_id is missing",
        ),
        (
            changed("sha256", json!("abc")),
            "sha256 must have 64 digits",
        ),
        (
            changed("sha256", json!("g".repeat(64))),
            "sha256 must be hex digits",
        ),
        (
            changed("artifact_uri", json!("https://x")),
            "artifact_uri must begin with memory://",
        ),
        (
            changed("source_id", json!("1a")),
            "source_id must contain a colon",
        ),
        // The reference calls this valid.
        (upper, "artifact_uri cannot be read"),
        (
            changed("sha256", json!("0".repeat(64))),
            "sha256 is not that of artifact_uri",
        ),
        (
            changed("source_id", json!("2:abc")),
            "source_id is not that of artifact_uri",
        ),
        (
            changed("source_type", json!("svn")),
            "source_type is not that of artifact_uri",
        ),
        (
            other_attachment,
            "attachment_id is not that of artifact_uri",
        ),
        (changed("sha256", json!(7)), "sha256 must be a string"),
        (changed("sha256", json!("")), "sha256 is missing"),
        (json!("memory://x"), "reference must be an object"),
    ];
    for (reference, why) in table {
        let error = validate_evidence_ref(&reference).unwrap_err();
        assert_eq!(error.to_string(), why, "{reference}");
    }
}

/// Facts 3.5, the structural check.
#[test]
fn all_references_of_an_audit_are_checked() {
    assert_eq!(check_evidence_refs_json(&json!({})), Ok(()));
    let fine = json!({"patches": [patch_ref()], "attachments": [attachment_ref()],
        "external": [{"uri": "https://x"}], "outbox_id": 7});
    assert_eq!(check_evidence_refs_json(&fine), Ok(()));
    let mut other_hash = attachment_ref();
    other_hash["sha256"] = json!("0".repeat(64));
    let legacy = json!({"artifact_uri": with_hash("memory://attachments/n/1/S"), "sha256": S});
    let wrong = json!({"patches": ["x"], "attachments": [other_hash, legacy, {}],
        "external": [{"uri": ""}, 7]});
    let problems = check_evidence_refs_json(&wrong).unwrap_err();
    assert_eq!(
        problems,
        [
            "patches[0]: reference must be an object",
            "attachments[0]: sha256 is not that of artifact_uri",
            "attachments[1]: E_LEGACY_FORMAT: a namespace before the id is no longer used",
            "attachments[2]: artifact_uri is missing",
            "external[0]: uri is missing",
            "external[1]: uri is missing",
        ]
    );
    assert!(check_evidence_refs_json(&json!([])).is_err());
    assert!(check_evidence_refs_json(&json!({"patches": {}})).is_err());
}
