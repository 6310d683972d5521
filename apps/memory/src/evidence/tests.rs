use super::*;
use crate::{policy::EvidenceMode, uri::check_evidence_refs_json};

const S: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

fn v2(items: Value) -> Evidence {
    normalize(items.as_array().unwrap(), &[])
}

fn v1(uris: &[&str]) -> Evidence {
    let uris: Vec<String> = uris.iter().map(|uri| (*uri).to_owned()).collect();
    normalize(&[], &uris)
}

#[test]
fn both_ways_to_name_evidence_become_one() {
    let both = normalize(&[json!({"uri": "u2"})], &["u1".to_owned()]);
    assert_eq!((both.source.as_str(), both.uris()), ("v2", vec!["u2"]));
    let mapped = v1(&["u1", "", "u3"]);
    assert_eq!(
        (mapped.source.as_str(), mapped.uris()),
        ("v1_mapped", vec!["u1", "u3"])
    );
    let legacy = json!({"uri": "u1", "sha256": "", "_source": "evidence_refs_legacy"});
    assert_eq!(mapped.to_values()[0], legacy);
    let empty = v1(&[""]);
    assert_eq!(
        (empty.source.as_str(), empty.is_present()),
        ("v1_mapped", false)
    );
    assert_eq!(normalize(&[], &[]).source.as_str(), "none");
    // What is no object is evidence all the same, and strict projects refuse it.
    assert_eq!(v2(json!(["u", 7])).uris(), ["u", ""]);
}

#[test]
fn a_summary_shows_the_first_few() {
    let many = v1(&["1", "2", "3", "4", "5", "6"]);
    let summary = json!({"count": 6, "has_strong": false, "uris": ["1", "2", "3", "4", "5"]});
    assert_eq!(many.summary(), summary);
    let strong = v2(json!([{"uri": "a"}, {"uri": "b", "sha256": S}]));
    assert_eq!(strong.summary()["has_strong"], true);
    let none = json!({"count": 0, "has_strong": false, "uris": []});
    assert_eq!(Evidence::default().summary(), none);
}

/// The reference also takes `memory://patch_blobs/git/<sha256>` for a change, although its
/// logbook cannot read it: here there is one grammar.
#[test]
fn evidence_is_sorted_by_its_uri() {
    let table = [
        (format!("memory://patch_blobs/git/1:abc/{S}"), "patches"),
        (format!("memory://attachments/12/{S}"), "attachments"),
        (format!("memory://patch_blobs/git/{S}"), "external"),
        (
            "memory://patch_blobs/git/1:abc/short".to_owned(),
            "external",
        ),
        (format!("memory://patch_blobs/git/1 a/{S}"), "external"),
        (format!("memory://attachments/ns/1/{S}"), "external"),
        (format!("memory://attachments/-1/{S}"), "external"),
        (format!("memory://docs/a.md/{S}"), "external"),
        ("git://x".to_owned(), "external"),
        (String::new(), "external"),
    ];
    for (uri, list) in table {
        let lists = classify(&v2(json!([{"uri": uri}]))).lists();
        assert_eq!(lists.keys().collect::<Vec<_>>(), [list], "{uri}");
    }
}

/// The source of a change is in its URI, so that what the strict check lets through can also be
/// recorded.
#[test]
fn the_source_of_a_change_is_read_from_its_uri() {
    let upper = S.to_uppercase();
    let evidence = v2(json!([
        {"uri": format!("MEMORY://patch_blobs/GIT/1:abc/{upper}"), "sha256": S, "source_id": "other",
         "git_commit": "abc", "kind": "patch"},
        {"uri": format!("memory://attachments/12/{S}"), "sha256": upper, "source_type": "artifact"},
        {"uri": "https://x", "sha256": S, "mr": "MR-1", "svn_rev": 7, "title": "t", "event_id": null},
    ]));
    let classified = classify(&evidence);
    let uri = format!("memory://patch_blobs/git/1:abc/{S}");
    let patch = json!({"artifact_uri": uri, "sha256": S, "source_id": "1:abc", "source_type": "git",
        "kind": "patch"});
    assert_eq!(classified.patches, [patch]);
    let uri = format!("memory://attachments/12/{S}");
    let attachment = json!({"artifact_uri": uri, "sha256": S, "attachment_id": 12,
        "source_type": "artifact"});
    assert_eq!(classified.attachments, [attachment]);
    let external = json!({"uri": "https://x", "sha256": S, "mr": "MR-1", "svn_rev": 7});
    assert_eq!(classified.external, [external]);
    assert_eq!(check_strict(&evidence).errors, Vec::<String>::new());
    let refs = Value::Object(classified.lists());
    assert_eq!(check_evidence_refs_json(&refs), Ok(()));
}

/// The reference silently puts the URI's hash in the place of the caller's.
#[test]
fn a_hash_that_is_not_the_uris_is_flagged() {
    let other = "0".repeat(64);
    let uri = format!("memory://attachments/12/{S}");
    let evidence = v2(json!([{"uri": uri, "sha256": other}]));
    let classified = classify(&evidence);
    let attachment = json!({"artifact_uri": uri, "sha256": S, "attachment_id": 12,
        "sha256_given": other, "sha256_mismatch": true});
    assert_eq!(classified.attachments, [attachment]);
    assert_eq!(classified.mismatches, [0]);
    let report = check_strict(&evidence);
    assert_eq!(
        report.errors,
        [format!("EVIDENCE_SHA256_MISMATCH:evidence[0]:{uri}")]
    );
}

#[test]
fn strict_projects_want_a_hash_for_each_piece() {
    let mut evidence = v2(json!([
        {"sha256": S}, {"uri": "u1"}, {"uri": "u2", "sha256": "short"}, {"uri": "u3", "sha256": S},
    ]));
    evidence.items.extend(v1(&["u4"]).items);
    let report = check_strict(&evidence);
    assert_eq!(
        report.errors,
        [
            "EVIDENCE_MISSING_URI:evidence[0]",
            "EVIDENCE_MISSING_SHA256:evidence[1]:u1",
            "EVIDENCE_INVALID_SHA256:evidence[2]:short...",
        ]
    );
    assert_eq!(
        report.warnings,
        ["EVIDENCE_LEGACY_NO_SHA256:evidence[4]:u4"]
    );
    let reason = "EVIDENCE_VALIDATION_FAILED:EVIDENCE_MISSING_URI";
    assert_eq!(report.reason().as_deref(), Some(reason));
    assert_eq!(report.to_value()["is_valid"], false);

    // Mere URIs are not rejected.
    let report = check_strict(&v1(&["u4"]));
    assert_eq!((report.reason(), report.warnings.len()), (None, 1));
    // Nobody can say of an object that it was a mere URI.
    let forged = v2(json!([{"uri": "u", "_source": "evidence_refs_legacy"}]));
    let reason = "EVIDENCE_VALIDATION_FAILED:EVIDENCE_MISSING_SHA256";
    assert_eq!(check_strict(&forged).reason().as_deref(), Some(reason));
    assert_eq!(forged.to_values(), [json!({"uri": "u"})]);
    let long = v2(json!([{"uri": "u", "sha256": "0123456789abcdefXYZ"}]));
    let shown = "EVIDENCE_INVALID_SHA256:evidence[0]:0123456789abcdef...";
    assert_eq!(check_strict(&long).errors, [shown]);
}

#[test]
fn who_decides_whether_references_are_checked() {
    use EvidenceMode::{Compat, Strict};
    let table = [
        (Strict, true, false, Some(false), (true, "strict_enforced")),
        (
            Strict,
            false,
            true,
            Some(false),
            (false, "strict_caller_override"),
        ),
        (Strict, false, true, None, (true, "strict_env_override")),
        (Strict, false, false, None, (false, "strict_env_override")),
        (
            Compat,
            true,
            false,
            Some(true),
            (true, "compat_caller_override"),
        ),
        (Compat, true, true, None, (true, "compat_default")),
        (Compat, true, false, None, (false, "compat_default")),
    ];
    for (mode, is_enforced, configured, caller, (is_on, reason)) in table {
        let resolved = resolve_validate_refs(mode, is_enforced, configured, caller);
        assert_eq!(resolved, ValidateRefs { is_on, reason });
    }
}

/// What is kept identifies a URI that held credentials without holding them.
#[test]
fn credentials_are_masked_and_the_given_text_is_hashed() {
    let given = "https://user:hunter2@host/x";
    let sha = payload_sha(given);
    let objects = [json!({
        "uri": format!(" {given} "), "title": "see //u:hunter2@h", "sha256": "",
        "more": {"source": ["ftp://u:hunter2@h"]},
    })];
    let refs = [given.to_owned(), "https://host/plain".to_owned()];
    for evidence in [normalize(&objects, &[]), normalize(&[], &refs)] {
        let item = &evidence.items[0];
        assert_eq!(item.uri(), "https://[REDACTED]@host/x");
        assert_eq!(item.to_value()["uri_sha256"], json!(sha));
        let external = &classify(&evidence).external[0];
        assert_eq!(external["uri_sha256"], json!(sha));
        let text = json!([evidence.to_values(), external, evidence.summary()]).to_string();
        assert!(!text.contains("hunter2"), "{text}");
    }
    let plain = &normalize(&[], &refs).items[1];
    assert_eq!(plain.to_value().get("uri_sha256"), None);
    // What was masked once is the same evidence when it is handed in again.
    let again = normalize(&normalize(&objects, &[]).to_values(), &[]);
    assert_eq!(again.items[0].to_value()["uri_sha256"], json!(sha));
}
