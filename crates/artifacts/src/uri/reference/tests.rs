use super::*;

const S: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// `S` is the hash.
fn with_hash(text: &str) -> String {
    text.replace("/S", &format!("/{S}"))
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

/// The URI is read, and attachments can be referred to.
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
