//! Values in the texts of errors.

/// Longest text of a value that an error repeats, in characters.
const CHARS_MAX: usize = 64;

/// A value for the text of an error: in quotes, with control characters escaped, so that it cannot steer a
/// terminal or a log, and cut after 64 characters.
///
/// Not for secrets and payloads: their errors name the field only.
pub fn quoted(text: &str) -> String {
    match text.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(quoted("a\u{1b}[2J\n\"b"), r#""a\u{1b}[2J\n\"b""#);
    }

    #[test]
    fn a_long_text_is_cut_at_a_character() {
        assert_eq!(quoted(&"é".repeat(64)), format!("{:?}", "é".repeat(64)));
        assert_eq!(quoted(&"é".repeat(65)), format!("{:?}…", "é".repeat(64)));
    }
}
