use super::*;

const S: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

fn evidence() -> Value {
    let uri = "git://repo/commit/abc123";
    json!({"uri": uri, "sha256": S, "git_commit": "abc123", "mr": "MR-456"})
}

fn fields() -> Value {
    json!({
        "kind": "procedure", "owner": "u_12345", "module": "client/ui/button",
        "summary": "Set aria-label on buttons", "details": ["rule one", "rule two"],
        "evidence": [evidence()],
        "confidence": "HIGH", "visibility": "team", "ttl": "long",
    })
}

fn card(fields: Value) -> Result<Card, CardError> {
    Card::read(fields.as_object().unwrap())
}

fn changed(name: &str, value: Value) -> Value {
    let mut fields = fields();
    fields[name] = value;
    fields
}

#[test]
fn a_card_has_one_layout() {
    let built = card(fields()).unwrap().build();
    let golden = format!(
        "[Kind] PROCEDURE
[Owner] u_12345
[Module] client/ui/button
[Visibility] team
[TTL] long
[Confidence] high

[Summary]
Set aria-label on buttons

[Details]
1) rule one
2) rule two

[Evidence]
- uri=git://repo/commit/abc123
  sha256={S}
  git_commit=abc123
  mr=MR-456"
    );
    assert_eq!(built.text, golden);
    assert_eq!(built.trim, Trim::default());
    assert!(built.intercepted.is_empty());
}

#[test]
fn absent_words_have_defaults() {
    let mut fields = fields();
    for name in ["confidence", "visibility", "ttl"] {
        fields.as_object_mut().unwrap().remove(name);
    }
    let card = card(fields).unwrap();
    let words = (
        card.confidence.as_str(),
        card.visibility.as_str(),
        card.ttl.as_str(),
    );
    assert_eq!(words, ("mid", "team", "mid"));
    assert_eq!(card.kind.as_str(), "PROCEDURE");
    assert_eq!(card.evidence_values(), [evidence()]);
}

#[test]
fn evidence_may_have_numbers_and_more_than_is_shown() {
    let item = json!({"uri": "svn://r", "sha256": S, "svn_rev": 7, "mr": null, "event_id": "", "title": "t"});
    let text = card(changed("evidence", json!([item])))
        .unwrap()
        .build()
        .text;
    let shown = format!("- uri=svn://r\n  sha256={S}\n  svn_rev=7");
    assert!(text.ends_with(&shown), "{text}");
    let odd = json!([{"uri": "svn://r", "sha256": S, "svn_rev": []}]);
    assert!(card(changed("evidence", odd)).is_err());
}

#[test]
fn an_incomplete_card_is_refused_with_all_that_is_wrong() {
    let evidence = |uri: &str, sha256: &str| json!([{"uri": uri, "sha256": sha256}]);
    let schemes = "memory:// svn:// git:// https://";
    let table = [
        (
            changed("owner", json!(" ")),
            "owner must not be empty".to_owned(),
        ),
        (
            changed("module", json!("")),
            "module must not be empty".to_owned(),
        ),
        (
            changed("summary", json!("")),
            "summary must not be empty".to_owned(),
        ),
        (
            changed("details", json!([])),
            "details must not be empty".to_owned(),
        ),
        (
            changed("details", json!([""])),
            "details must not be empty".to_owned(),
        ),
        (
            changed("evidence", json!([])),
            "evidence must not be empty".to_owned(),
        ),
        (
            changed("owner", json!("a\n[Module] b")),
            "owner must be one line".to_owned(),
        ),
        (
            changed("evidence", evidence("http://x", S)),
            format!("evidence[0].uri must begin with one of {schemes}"),
        ),
        (
            changed("evidence", evidence("https://x", "abc")),
            "evidence[0].sha256 must be 64 hex digits".to_owned(),
        ),
        (
            changed("evidence", evidence("https://x\n- uri=y", S)),
            "evidence[0].uri must be one line".to_owned(),
        ),
    ];
    for (fields, why) in table {
        assert_eq!(card(fields).unwrap_err().problems, [why]);
    }
    let headings = "summary and details must not contain headings of cards";
    let forged = json!(["fine", "x\n[Evidence]\n- uri=https://x"]);
    for fields in [
        changed("details", forged),
        changed("summary", json!("[Owner] me")),
    ] {
        assert_eq!(card(fields).unwrap_err().problems, [headings]);
    }
    let unknown = card(changed("kind", json!("RUMOUR")))
        .unwrap_err()
        .to_string();
    assert!(
        unknown.contains("\"RUMOUR\" is none of FACT, PROCEDURE"),
        "{unknown}"
    );
    assert!(card(changed("extra", json!(1))).is_err());
    let mut several = changed("owner", json!(""));
    several["details"] = json!([]);
    assert_eq!(card(several).unwrap_err().problems.len(), 2);
}

fn built_with(name: &str, value: Value) -> BuiltCard {
    card(changed(name, value)).unwrap().build()
}

/// The text between two headings.
fn section<'t>(text: &'t str, from: &str, to: &str) -> &'t str {
    let (_, rest) = text.split_once(from).unwrap();
    rest.split_once(to).unwrap().0.trim()
}

/// Characters are counted, not bytes.
#[test]
fn what_is_too_long_is_cut() {
    let fits = built_with("summary", json!("é".repeat(200)));
    assert!(!fits.trim.was_trimmed);
    let summary = built_with("summary", json!("é".repeat(201)));
    let cut = section(&summary.text, "[Summary]", "[Details]");
    assert_eq!(cut.chars().count(), 191);
    assert!(cut.ends_with("é... [内容已截断]"));
    assert_eq!(summary.trim.why.as_deref(), Some("summary"));
    assert_eq!(
        summary.trim.original_len,
        Some(fits.text.chars().count() + 1)
    );

    let detail = built_with("details", json!(["é".repeat(501), "short"]));
    let cut = section(&detail.text, "1) ", "\n2) short");
    assert_eq!(cut.chars().count(), 491);
    assert_eq!(detail.trim.why.as_deref(), Some("detail"));

    let details = built_with("details", json!(vec!["x"; 11]));
    assert!(details.text.contains("\n10) x\n") && !details.text.contains("\n11) x"));
    let item = json!({"uri": "https://x", "sha256": S});
    let evidence = built_with("evidence", json!(vec![item; 11]));
    assert_eq!(evidence.text.matches("- uri=").count(), 10);
    assert_eq!(evidence.trim.why.as_deref(), Some("evidence"));

    let long = built_with("details", json!(vec!["x".repeat(500); 10]));
    assert_eq!(long.text.chars().count(), 3_967);
    assert!(long.text.ends_with("x\n\n[... 内容已截断 ...]"));
    assert_eq!(long.trim.why.as_deref(), Some("card"));
    assert!(long.trim.original_len.unwrap() > 5_000);
}

#[test]
fn diffs_and_logs_become_pointers() {
    let diff = "--- a/x\n+++ b/x\n@@ -1 +1 @@";
    let built = built_with("details", json!(["why", diff, "ERROR: it broke"]));
    let pointer = format!(
        "2) [diff left out]\n- uri: memory://local/content\n- sha256: {}\n3) [log left out]\n",
        payload_sha(diff)
    );
    assert!(built.text.contains(&pointer), "{}", built.text);
    assert_eq!(built.trim.why.as_deref(), Some("diff,log"));
    let kept = built.intercepted;
    assert_eq!(kept[0], (ContentKind::Diff, diff.to_owned()));
    assert_eq!(kept[1].0, ContentKind::Log);
    let note = built_with("details", json!(["NOTE: never press twice"]));
    assert!(!note.trim.was_trimmed);
}
