//! Masks secrets in the text of brokers: beside those that [`consign_redact::text`] finds, the secrets of
//! the settings, the client's key, and whole documents, which may be the order itself.

use consign_redact::MASK;

/// Maximum length of a failure's message.
pub const MESSAGE_CHARS_MAX: usize = 512;

/// Only this much of a text is scanned after our own secrets are masked. Stored text is far
/// shorter, and a broker may send much.
const READ_BYTES_MAX: usize = 4 * 1024;

/// Shorter values would match ordinary words; no real secret is that short.
const SECRET_CHARS_MIN: usize = 4;

/// Makes foreign text safe to store and show: no secrets, no whole documents, one line, short.
///
/// A broker may echo the request, including credentials and the order. So JSON objects and lists
/// become `{…}` and `[…]`: callers extract what they need first.
#[derive(Clone, Default)]
pub struct Masker {
    /// Our own secrets, longest first: one may be a part of another.
    secrets: Vec<String>,
}

impl std::fmt::Debug for Masker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Masker({} secrets)", self.secrets.len())
    }
}

impl Masker {
    /// Masks these values in addition to recognisable secrets.
    pub fn new(secrets: impl IntoIterator<Item = String>) -> Self {
        let mut secrets: Vec<String> = secrets
            .into_iter()
            .filter(|secret| is_maskable(secret))
            .collect();
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Self { secrets }
    }

    /// The masked text, at most 512 characters. `also` is masked too: the client's key.
    pub fn mask(&self, text: &str, also: &[&str]) -> String {
        let mut text = text.to_owned();
        let also = also.iter().copied().filter(|secret| is_maskable(secret));
        for secret in self.secrets.iter().map(String::as_str).chain(also) {
            text = text.replace(secret, MASK);
        }
        let text = consign_redact::text(&without_documents(beginning(&text)));
        shortened(&text.replace(char::is_control, " "))
    }
}

fn is_maskable(secret: &str) -> bool {
    secret.chars().count() >= SECRET_CHARS_MIN
}

/// The scanned part of a long text, up to a blank: half a word may be half a secret, which no
/// pattern matches.
fn beginning(text: &str) -> &str {
    if text.len() <= READ_BYTES_MAX {
        return text;
    }
    let head = &text[..text.floor_char_boundary(READ_BYTES_MAX)];
    head.rfind(char::is_whitespace)
        .map_or(head, |at| &head[..at])
}

/// Replaces objects and lists by `{…}` and `[…]`. An unterminated one extends to the end of the
/// text.
fn without_documents(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut depth = 0_usize;
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if depth == 0
            && let Some(after) = rest.strip_prefix(MASK)
        {
            out.push_str(MASK);
            rest = after;
            continue;
        }
        rest = &rest[c.len_utf8()..];
        match c {
            '{' | '[' => {
                if depth == 0 {
                    out.push(c);
                    out.push('…');
                }
                depth += 1;
            }
            '}' | ']' if depth > 0 => {
                depth -= 1;
                if depth == 0 {
                    out.push(c);
                }
            }
            c if depth == 0 => out.push(c),
            _ => {}
        }
    }
    out
}

fn shortened(text: &str) -> String {
    let text = text.trim();
    if text.chars().count() <= MESSAGE_CHARS_MAX {
        return text.to_owned();
    }
    let kept = text.chars().take(MESSAGE_CHARS_MAX - 1);
    kept.chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masker() -> Masker {
        Masker::new([
            "hunter22".to_owned(),
            "hunter22-long".to_owned(),
            "x".to_owned(),
        ])
    }

    #[test]
    fn secrets_in_broker_messages_are_masked() {
        let table = [
            ("nothing to hide: x = 1", "nothing to hide: x = 1"),
            ("key hunter22 refused", "key [REDACTED] refused"),
            ("key hunter22-long refused", "key [REDACTED] refused"),
            ("password=abc&user=b", "password=[REDACTED]&user=b"),
            ("Password : abc, user b", "Password : [REDACTED], user b"),
            (
                "broker_api_secret=abc def",
                "broker_api_secret=[REDACTED] def",
            ),
            ("token_id=abc def", "token_id=[REDACTED] def"),
            ("X-Api-Key: abc", "X-Api-Key: [REDACTED]"),
            ("secretKey: 'a b' c", "secretKey: '[REDACTED]' c"),
            (
                "\"access_token\": \"a,b\", c",
                "\"access_token\": \"[REDACTED]\", c",
            ),
            (
                "\\\"token\\\":\\\"abc\\\" c",
                "\\\"token\\\":\\\"[REDACTED]\\\" c",
            ),
            (
                "Authorization: Bearer abc.def\nnext",
                "Authorization: [REDACTED] next",
            ),
            (
                "proxy-authorization: Digest a=\"b\", c",
                "proxy-authorization: [REDACTED]",
            ),
            ("sent bearer abc.def to", "sent bearer [REDACTED] to"),
            ("sent Basic YWJj=, no", "sent Basic [REDACTED], no"),
            (
                "https://me:pw@host/p?a failed",
                "https://[REDACTED]@host/p?a failed",
            ),
            ("https://host/a@b failed", "https://host/a@b failed"),
            ("jwt eyJhbGci.eyJzdWIi.c2ln end", "jwt [REDACTED] end"),
            ("-----BEGIN PRIVATE KEY-----\nMII", "[REDACTED]"),
            ("got {\"qty\": {\"a\": 1}} back", "got {…} back"),
            ("got [1, [2]] and {", "got […] and {…"),
            ("a stray } and ]", "a stray } and ]"),
            ("line\r\nforged\u{0}", "line  forged"),
            ("the token is wrong", "the token is wrong"),
            ("token=", "token="),
            (
                "Grüße: 数量 token=數量 好",
                "Grüße: 数量 token=[REDACTED] 好",
            ),
        ];
        for (text, expected) in table {
            assert_eq!(masker().mask(text, &[]), expected, "{text:?}");
        }
    }

    #[test]
    fn the_key_of_a_client_is_masked_on_request() {
        let masked = masker().mask("duplicate ClOrdID 01JABCXYZ, said it", &["01JABCXYZ", ""]);
        assert_eq!(masked, "duplicate ClOrdID [REDACTED], said it");
    }

    /// A secret at the place of the cut must not be shown by half.
    #[test]
    fn text_is_masked_before_it_is_truncated() {
        let long = "é".repeat(600);
        let cut = masker().mask(&long, &[]);
        assert_eq!(cut.chars().count(), MESSAGE_CHARS_MAX);
        assert!(cut.ends_with("é…"), "{cut}");
        let exact = "é".repeat(MESSAGE_CHARS_MAX);
        assert_eq!(masker().mask(&exact, &[]), exact);
        let at_the_cut = format!("{}hunter22", "a".repeat(MESSAGE_CHARS_MAX - 4));
        assert!(!masker().mask(&at_the_cut, &[]).contains("hun"));
    }

    #[test]
    fn a_cut_never_shows_half_a_secret() {
        let filler = format!("{{{}}}", "a b ".repeat(READ_BYTES_MAX / 4 - 8));
        for tail in [
            "https://me:hidden@host/p",
            "eyJhidden.eyJzdWIi.c2ln",
            "hunter22",
        ] {
            for shift in 0..40 {
                let text = format!("{}{filler} {tail} end", "x".repeat(shift));
                let masked = masker().mask(&text, &[]);
                for word in ["hid", "hun"] {
                    assert!(!masked.contains(word), "{masked}");
                }
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_masked_without_panic_and_short(text in ".{0,700}") {
            let masked = masker().mask(&text, &[]);
            proptest::prop_assert!(masked.chars().count() <= MESSAGE_CHARS_MAX);
            proptest::prop_assert!(!masked.contains(char::is_control));
        }

        #[test]
        fn a_configured_secret_never_remains(before in "\\PC{0,40}", after in "\\PC{0,40}") {
            let masked = masker().mask(&format!("{before}hunter22{after}"), &[]);
            proptest::prop_assert!(!masked.contains("hunter22"), "{}", masked);
        }
    }
}
