//! Masking of rail messages: bounded, one line, without account numbers, addresses and secrets.
//!
//! `consign.payment_masked` does the same in PostgreSQL, step by step. [`VECTORS`] is used to test both.

use std::sync::LazyLock;

use regex::{Regex, RegexBuilder};

/// Maximum characters of a stored error message.
pub(crate) const SHOWN_CHARS_MAX: usize = 500;
/// Maximum characters of a stored code.
const CODE_CHARS_MAX: usize = 128;
/// Only this much text is searched.
const SEARCHED_CHARS_MAX: usize = 2_000;
/// Maximum remainder of a masked number at the cut.
const TORN_CHARS_MAX: usize = 24;

/// What is masked, in this order, and its replacement.
static MASKS: LazyLock<[(Regex, &str); 9]> = LazyLock::new(|| {
    let word = r#"[^ \t\r\n"',;]"#;
    let quoted = r#""[^"]*"?|'[^']*'?"#;
    let secret = "token|secret|passw(?:or)?d|passphrase|pwd|api[ _-]?key|(?-u:\\b)pin";
    [
        // A header with any scheme: the whole line.
        (
            insensitive(r#"(authorization[\\"']*[ \t]*[:=])[^\r\n]*"#),
            "$1 ***",
        ),
        (insensitive(&format!(r"(bearer)[ \t]+{word}+")), "$1 ***"),
        // A named value in JSON (also nested as text), as a parameter, quoted or not.
        (
            insensitive(&format!(
                r#"({secret})([\\"']*[ \t]*[:=][ \t]*)(?:\\"(?:[^"\\]|\\[^"])*(?:\\")?|"(?:[^"\\]|\\.)*"?|'[^']*'?|[^ \t\r\n"',;&]+)"#
            )),
            "$1$2***",
        ),
        // A name followed by a value that is not a plain word.
        (
            insensitive(&format!(
                r#"(?-u:\b)(basic|{secret})[ \t]+(?:{quoted}|(?:[0-9]|[^ \t\r\n"',;:=0-9]{word}*[0-9=]){word}*)"#
            )),
            "$1 ***",
        ),
        (
            insensitive(r#"[^ \t\r\n@"'<>]+@[^ \t\r\n@"'<>]+"#),
            "***@***",
        ),
        // An IBAN with letters after its first four characters; others are digits, see below.
        (
            exact(
                r"(?-u:\b)([A-Z]{2}[0-9]{2})(?:[ -]?[A-Z0-9]{4}){2,7}(?:[ -]?[A-Z0-9]{1,3})?(?-u:\b)",
            ),
            "$1***",
        ),
        // Twelve digits or more, in groups or not; eight or more in a row.
        (
            exact(r"(?:[0-9][ -]?){8,}([0-9][ -]?[0-9][ -]?[0-9][ -]?[0-9])"),
            "***$1",
        ),
        (exact(r"[0-9]{4,}([0-9]{4})"), "***$1"),
        (exact(BLANKS), " "),
    ]
});
/// Blanks and control characters.
const BLANKS: &str = r"[\x00-\x20\x7f\x{80}-\x{9f}\x{2028}\x{2029}]+";

fn insensitive(pattern: &str) -> Regex {
    let regex = RegexBuilder::new(pattern).case_insensitive(true).build();
    regex.expect("invariant: the pattern is a constant")
}

fn exact(pattern: &str) -> Regex {
    Regex::new(pattern).expect("invariant: the pattern is a constant")
}

/// `text` as it is stored and logged: at most 500 characters.
pub fn shown(text: &str) -> String {
    let searched = cut(text, SEARCHED_CHARS_MAX);
    let is_torn = searched.len() < text.len();
    let mut line = searched.to_owned();
    for (index, (mask, instead)) in MASKS.iter().enumerate() {
        if is_torn && index == MASKS.len() - 1 {
            let kept = line.chars().count().saturating_sub(TORN_CHARS_MAX);
            line.truncate(cut(&line, kept).len());
        }
        line = mask.replace_all(&line, *instead).into_owned();
    }
    let line = line.trim_matches(' ');
    if line.chars().count() <= SHOWN_CHARS_MAX {
        return line.to_owned();
    }
    format!("{}…", cut(line, SHOWN_CHARS_MAX - 1))
}

/// A code as it is stored: masked like a message, at most 128 characters.
pub fn shown_code(code: &str) -> String {
    cut(&shown(code), CODE_CHARS_MAX).to_owned()
}

/// At most `chars_max` characters.
pub(crate) fn cut(text: &str, chars_max: usize) -> &str {
    let end = text.char_indices().nth(chars_max);
    end.map_or(text, |(index, _)| &text[..index])
}

/// Input and masked output, for the tests of both implementations.
#[doc(hidden)]
#[rustfmt::skip]
pub const VECTORS: &[(&str, &str)] = &[
    ("", ""),
    ("no route to the rail", "no route to the rail"),
    ("503 after 30000 ms at 2026-11-16 03:00:00", "503 after 30000 ms at 2026-11-16 03:00:00"),
    ("two\nlines\tand\u{7}bell ", "two lines and bell"),
    // Numbers of accounts and cards keep their last digits.
    ("no such account 260971234567", "no such account ***4567"),
    ("account 1234567 closed", "account 1234567 closed"),
    ("account 12345678 closed", "account ***5678 closed"),
    ("card 4111111111111234 refused", "card ***1234 refused"),
    ("card 4111 1111 1111 1234 refused", "card ***1234 refused"),
    ("card 4111-1111-1111-1234 refused", "card ***1234 refused"),
    ("card 3782 822463 10005 refused", "card ***0005 refused"),
    ("ERR_260971234567", "ERR_***4567"),
    // IBANs keep their country and check digits.
    ("IBAN DE89370400440532013000 unknown", "IBAN DE89*** unknown"),
    ("IBAN DE89 3704 0044 0532 0130 00 unknown", "IBAN DE89*** unknown"),
    ("IBAN GB29-NWBK-6016-1331-9268-19, unknown", "IBAN GB29***, unknown"),
    ("iban gb29 nwbk 6016 1331 9268 19 unknown", "iban gb29 nwbk ***68 19 unknown"),
    ("NO9386011117947", "NO93***"),
    // Addresses.
    ("write to ada@example.org", "write to ***@***"),
    ("GET https://me:secret@rail.example/pay failed", "GET ***@*** failed"),
    // Secrets.
    ("Authorization: Bearer abc.def", "Authorization: ***"),
    ("Authorization: Token x", "Authorization: ***"),
    ("proxy-authorization=ApiKey a b c\nthen 503", "proxy-authorization= *** then 503"),
    ("{\"Authorization\": \"Basic YWJj\"}", "{\"Authorization\": ***"),
    ("authorization was refused", "authorization was refused"),
    ("got bearer abc.def twice", "got bearer *** twice"),
    ("token=abc&x=1", "token=***&x=1"),
    ("{\"token\":\"abc\",\"n\":1}", "{\"token\":***,\"n\":1}"),
    ("password=hunter2 was wrong", "password=*** was wrong"),
    ("password: \"hunter two three\" was wrong", "password: *** was wrong"),
    ("password='hunter two' was wrong", "password=*** was wrong"),
    ("{\"password\":\"a \\\"quoted\\\" one\",\"n\":1}", "{\"password\":***,\"n\":1}"),
    ("body {\\\"passwd\\\":\\\"hunter two\\\",\\\"n\\\":1}", "body {\\\"passwd\\\":***,\\\"n\\\":1}"),
    ("api_key: abc, api key = def", "api_key: ***, api key = ***"),
    ("wrong password hunter2, sorry", "wrong password ***, sorry"),
    ("wrong password \"hunter two\", sorry", "wrong password ***, sorry"),
    ("pin 1234 is wrong", "pin *** is wrong"),
    ("the token expired", "the token expired"),
    ("shopping: 3", "shopping: 3"),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Bounded and masked.
    #[test]
    fn personal_data_is_masked() {
        for (text, expected) in VECTORS {
            assert_eq!(shown(text), *expected, "{text}");
        }
    }

    #[test]
    fn long_texts_are_cut_at_a_character() {
        let cut = shown(&"ä".repeat(10_000));
        assert_eq!(cut.chars().count(), SHOWN_CHARS_MAX);
        assert!(cut.ends_with('…'));
        assert_eq!(shown(&"x".repeat(SHOWN_CHARS_MAX)).len(), SHOWN_CHARS_MAX);
        assert_eq!(shown_code(&"E".repeat(500)).len(), CODE_CHARS_MAX);
    }

    /// A number across the place where the text is cut is as secret as any other.
    #[test]
    fn a_cut_never_shows_part_of_a_number() {
        let text = format!("{}4111 1111 11{}", " ".repeat(1_988), "11 1234");
        assert_eq!(shown(&text), "");
        let text = format!("a{}4111 1111 11{}", " ".repeat(1_987), "11 1234");
        assert_eq!(shown(&text), "a");
    }
}
