//! Words for the full-text index of SQLite.

use serde_json::{Map, Value};

/// Maximum words of a query; more add cost without better results.
const WORDS_MAX: usize = 64;

/// The text with blanks around every character of a script without spaces; `None` if there is none,
/// and the text is indexed as it is.
pub(super) fn split_words(text: &str) -> Option<String> {
    if !text.contains(is_unspaced) {
        return None;
    }
    let mut split = String::with_capacity(text.len() * 2);
    for c in text.chars() {
        if is_unspaced(c) {
            split.extend([' ', c, ' ']);
        } else {
            split.push(c);
        }
    }
    Some(split)
}

/// The words of a query in FTS5 syntax, each quoted, so that nothing is an operator. A word that is
/// split is a phrase.
pub(super) fn words(query: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in query.split(|c: char| !(c.is_alphanumeric() || is_unspaced(c))) {
        let word = word.to_lowercase();
        let quoted = format!("\"{}\"", split_words(&word).unwrap_or(word.clone()).trim());
        if !word.is_empty() && words.len() < WORDS_MAX && !words.contains(&quoted) {
            words.push(quoted);
        }
    }
    words
}

/// The search text of an event: its type and the strings of its payload, one per line; as the view
/// `event_text`.
pub(super) fn event_text(event_type: &str, payload: &Map<String, Value>) -> String {
    let mut text = event_type.to_owned();
    let mut values: Vec<&Value> = payload
        .iter()
        .filter(|(key, value)| !(*key == "space" && value.is_string()))
        .map(|(_, value)| value)
        .collect();
    while let Some(value) = values.pop() {
        match value {
            Value::String(line) => {
                text.push('\n');
                text.push_str(line);
            }
            Value::Array(items) => values.extend(items),
            Value::Object(fields) => values.extend(fields.values()),
            _ => {}
        }
    }
    text
}

/// Thai, Lao, Khmer, CJK and its radicals, kana, hangul.
fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{0E00}'..='\u{0EFF}' | '\u{1780}'..='\u{17FF}' | '\u{2E80}'..='\u{2FDF}'
        | '\u{3005}'..='\u{3007}' | '\u{3021}'..='\u{302F}' | '\u{3031}'..='\u{9FFF}'
        | '\u{AC00}'..='\u{D7AF}' | '\u{F900}'..='\u{FAFF}' | '\u{20000}'..='\u{3FFFF}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_query_is_an_operator() {
        for (query, expected) in [
            ("", &[][..]),
            (" \t\0", &[]),
            ("* - ( ) \" _ %", &[]),
            ("Lease lease", &["\"lease\""]),
            (
                "a AND b* NEAR(c)",
                &["\"a\"", "\"and\"", "\"b\"", "\"near\"", "\"c\""],
            ),
            ("say \"no\"", &["\"say\"", "\"no\""]),
            ("title:x", &["\"title\"", "\"x\""]),
            ("租约 过期x", &["\"租  约\"", "\"过  期 x\""]),
        ] {
            assert_eq!(words(query), expected, "{query:?}");
        }
        let many: Vec<String> = (0..100).map(|n| format!("w{n}")).collect();
        assert_eq!(words(&many.join(" ")).len(), WORDS_MAX);
    }

    #[test]
    fn scripts_without_spaces_are_split() {
        assert_eq!(split_words("plain text"), None);
        assert_eq!(split_words("a租约b").as_deref(), Some("a 租  约 b"));
    }
}
