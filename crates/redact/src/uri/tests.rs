use serde_json::json;

use super::*;

/// A text, and the same without credentials. `logbook.masked` is tried with these, too.
const TABLE: &str = include_str!("table.txt");

fn table() -> impl Iterator<Item = (&'static str, &'static str)> {
    let lines = TABLE.lines().filter(|line| !line.starts_with("--"));
    lines.map(|line| line.split_once(" => ").unwrap_or((line, line)))
}

#[test]
fn credentials_in_uris_are_masked() {
    for (text, masked) in table() {
        assert_eq!(mask_credentials(text), masked, "{text}");
        assert_eq!(mask_credentials(masked), masked, "twice: {text}");
    }
}

#[test]
fn documents_are_masked_to_the_last_text() {
    let mut document = json!({
        "uri": "https://u:p@h", "n": 1, "list": [{"deep": "//u:p@h"}, null, true],
        "https://u:p@h/x": "plain",
    });
    mask_credentials_in(&mut document);
    let masked = json!({
        "uri": "https://[REDACTED]@h", "n": 1, "list": [{"deep": "//[REDACTED]@h"}, null, true],
        "https://[REDACTED]@h/x": "plain",
    });
    assert_eq!(document, masked);
}

/// Texts come from strangers: what looks like very many URIs takes no longer than other texts.
#[test]
fn long_texts_take_their_length() {
    for piece in [
        "://a:b/",
        "http:",
        "/",
        "%3a%2f%2f",
        "a:b@",
        "?token=",
        "http:a:b ",
        "://a:b ",
        "%25",
        "?a;",
        "%3a%2f%2fu@",
        "%3ftoken%3d",
    ] {
        let mut text = piece.repeat((256 << 10) / piece.len());
        text.push('@');
        let begun = std::time::Instant::now();
        mask_credentials(&text);
        assert!(begun.elapsed().as_secs() < 20, "{piece}");
    }
}
