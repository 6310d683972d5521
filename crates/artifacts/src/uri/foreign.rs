//! URIs of strangers: whatever text comes, nothing panics, and what is built is read back.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// Parts that URIs are made of, and parts that break them.
const PARTS: [&str; 26] = [
    "memory://",
    "patch_blobs",
    "attachments",
    "artifact://",
    "file://",
    "https://",
    "s3://",
    "scm/",
    "git",
    "svn",
    "/",
    "//",
    "..",
    "%2F",
    "%2f..",
    "%00",
    ":",
    "@",
    "?",
    "#",
    "token=",
    "&",
    "\\",
    "1",
    "-1",
    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
];

fn text() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        5 => proptest::sample::select(&PARTS[..]).prop_map(str::to_owned),
        1 => any::<String>(),
    ];
    proptest::collection::vec(part, 0..12).prop_map(|parts| parts.concat())
}

fn reference() -> impl Strategy<Value = Value> {
    let name = proptest::sample::select(vec![
        "artifact_uri",
        "sha256",
        "source_id",
        "source_type",
        "kind",
        "attachment_id",
        "uri",
    ]);
    let value = prop_oneof![
        text().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        Just(Value::Null),
        Just(json!([{}])),
    ];
    proptest::collection::btree_map(name.prop_map(str::to_owned), value, 0..7)
        .prop_map(|fields| Value::Object(fields.into_iter().collect()))
}

proptest! {
    #[test]
    fn no_key_leads_out_of_the_folder(text in text()) {
        if let Ok(key) = normalize_to_artifact_key(&text) {
            prop_assert!(!key.starts_with('/'), "{key:?}");
            prop_assert!(!key.split('/').any(|part| part == ".."), "{key:?}");
        }
        parse_uri(&text);
        parse_physical_uri(&text);
        classify_uri_type(&text);
        parse_source_id(&text);
        try_convert_to_artifact_key(&text, &[]);
    }

    #[test]
    fn what_is_read_as_evidence_is_written_the_same(text in text()) {
        if let Some(read) = parse_attachment_evidence_uri(&text) {
            let written = build_attachment_evidence_uri(read.attachment_id, &read.sha256);
            prop_assert_eq!(parse_attachment_evidence_uri(&written.unwrap()), Some(read));
        }
        parse_evidence_uri(&text);
        parse_scm_artifact_path(&text);
    }

    #[test]
    fn what_is_written_as_evidence_is_read_back(
        source_id in "[a-z0-9:_ü -]{1,9}[a-z0-9](/[a-z0-9:_ü%-]{1,9}){0,3}",
        id in 1..i64::MAX,
        sha in "[0-9a-f]{64}",
    ) {
        let written = build_evidence_uri("git", &source_id, &sha);
        let read = parse_evidence_uri(&written);
        prop_assert!(read.is_some(), "{written}");
        let written = build_attachment_evidence_uri(id, &sha).unwrap();
        prop_assert_eq!(parse_attachment_evidence_uri(&written).map(|read| read.attachment_id), Some(id));
    }

    #[test]
    fn masking_twice_is_masking_once(text in text(), password in "[a-z]{12}") {
        let masked = mask_credentials(&text).into_owned();
        prop_assert_eq!(mask_credentials(&masked), masked.as_str());
        let held = format!("https://u:{password}@h.example/x?token={password}");
        let masked = mask_credentials(&held);
        prop_assert!(!masked.contains(&password), "{masked}");
    }

    #[test]
    fn references_are_refused_or_taken(reference in reference()) {
        let list = json!({"patches": [reference.clone()], "attachments": [reference.clone()]});
        drop(check_evidence_refs_json(&list));
        drop(check_evidence_refs_json(&reference));
        drop(validate_evidence_ref(&reference));
    }
}
