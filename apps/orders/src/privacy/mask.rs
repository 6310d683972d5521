//! Taking secrets out of text that somebody else wrote.

/// How long a message about a failure may be.
pub const MESSAGE_CHARS_MAX: usize = 512;

const MASK: &str = "***";

/// So much of a text is looked at once secrets of our own are out. What is kept is far shorter, and
/// a broker may send much.
const READ_BYTES_MAX: usize = 4 * 1024;

/// Shorter ones would be found in ordinary words; no secret worth the name is that short.
const SECRET_CHARS_MIN: usize = 4;

/// Names whose values nobody may see, wherever they stand in a longer name.
const NAMES: &[&str] = &[
    "secret",
    "password",
    "passwd",
    "pwd",
    "passphrase",
    "token",
    "api_key",
    "api-key",
    "apikey",
    "access_key",
    "access-key",
    "accesskey",
    "private_key",
    "private-key",
    "signature",
    "credential",
];

/// Headers whose values go on to the end of the line.
const LINES: &[&str] = &["authorization", "cookie"];

/// Schemes that stand before a credential without a sign between.
const SCHEMES: &[&str] = &["bearer ", "basic "];

/// Makes text from outside fit to be kept and shown: without secrets, without whole documents, on
/// one line, and short.
///
/// A broker may repeat what it was sent, credentials and order included. So JSON objects and lists
/// become `{…}` and `[…]`: whoever wants what is in them takes it out before.
#[derive(Clone, Default)]
pub struct Masker {
    /// Secrets of our own, longest first: one may be a part of another.
    secrets: Vec<String>,
}

impl std::fmt::Debug for Masker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Masker({} secrets)", self.secrets.len())
    }
}

impl Masker {
    /// Masks these, beside what looks like a secret anyway.
    pub fn new(secrets: impl IntoIterator<Item = String>) -> Self {
        let mut secrets: Vec<String> = secrets
            .into_iter()
            .filter(|secret| is_maskable(secret))
            .collect();
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Self { secrets }
    }

    /// The text without secrets, at most 512 characters. `also` is masked too: the client's key.
    pub fn mask(&self, text: &str, also: &[&str]) -> String {
        let mut text = text.to_owned();
        let also = also.iter().copied().filter(|secret| is_maskable(secret));
        for secret in self.secrets.iter().map(String::as_str).chain(also) {
            text = text.replace(secret, MASK);
        }
        let text = without_private_keys(beginning(&text));
        let text = without_documents(&text);
        let text = without_named_values(&text);
        let text = without_words(&text);
        shortened(&text)
    }
}

fn is_maskable(secret: &str) -> bool {
    secret.chars().count() >= SECRET_CHARS_MIN
}

/// The part of a long text that is looked at, up to a blank: half a word may be half a secret, which
/// is not known by its half.
fn beginning(text: &str) -> &str {
    if text.len() <= READ_BYTES_MAX {
        return text;
    }
    let head = &text[..text.floor_char_boundary(READ_BYTES_MAX)];
    head.rfind(char::is_whitespace)
        .map_or(head, |at| &head[..at])
}

/// A PEM block and whatever follows it.
fn without_private_keys(text: &str) -> String {
    match text.find("-----BEGIN") {
        Some(at) => format!("{}{MASK}", &text[..at]),
        None => text.to_owned(),
    }
}

/// Objects and lists as `{…}` and `[…]`. One that does not end goes to the end of the text.
fn without_documents(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut depth = 0_usize;
    for c in text.chars() {
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

/// `password=x`, `"api_key": "x"`, `Authorization: Bearer x`, `bearer x`.
fn without_named_values(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        let (copied_to, go_on_at) = match named_value(&lower, at) {
            Ok((value_at, value_end)) => (value_at, value_end),
            Err(next) => (next, next),
        };
        out.push_str(&text[at..copied_to]);
        if go_on_at > copied_to {
            out.push_str(MASK);
        }
        at = go_on_at;
    }
    out
}

/// Where the value is of a secret's name that begins at `at`; if there is none, where to look next.
fn named_value(lower: &str, at: usize) -> Result<(usize, usize), usize> {
    let rest = &lower[at..];
    let next = at + rest.chars().next().map_or(1, char::len_utf8);
    if let Some(scheme) = SCHEMES.iter().find(|scheme| rest.starts_with(**scheme)) {
        let value = rest[scheme.len()..].trim_start();
        let start = lower.len() - value.len();
        return match value.is_empty() {
            true => Err(next),
            false => Ok((start, start + word_end(value))),
        };
    }
    let is_line = LINES.iter().find(|name| rest.starts_with(**name));
    let name = is_line.or_else(|| NAMES.iter().find(|name| rest.starts_with(**name)));
    let name = name.ok_or(next)?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let after = rest[name.len()..].trim_start_matches(is_name);
    // Names further on in the same word have the same after them. Its end may be that of a scheme.
    let scheme_max = SCHEMES.iter().map(|scheme| scheme.len()).max();
    let word_end_at = lower.len() - after.len();
    let without_value = next.max(word_end_at.saturating_sub(scheme_max.unwrap_or(0)));
    let after = after.trim_start_matches(['"', '\'', '\\', ' ']);
    let value = after.strip_prefix([':', '=']).ok_or(without_value)?;
    let value = value.trim_start_matches([' ', '=']);
    let quote = value
        .chars()
        .find(|c| *c != '\\')
        .filter(|c| matches!(c, '"' | '\''));
    let inner = value.trim_start_matches(['"', '\'', '\\']);
    let start = lower.len() - inner.len();
    let length = match quote {
        Some(quote) => inner.find(quote).unwrap_or(inner.len()),
        None if is_line.is_some() => inner.find(['\r', '\n']).unwrap_or(inner.len()),
        None => word_end(inner),
    };
    match length {
        0 => Err(without_value),
        length => Ok((start, start + length)),
    }
}

/// Where a word ends that may hold anything a credential may.
fn word_end(text: &str) -> usize {
    let ends = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ',' | ';' | '&' | ')' | '>');
    text.find(ends).unwrap_or(text.len())
}

/// Credentials in addresses, and JSON web tokens; control characters become blanks.
fn without_words(text: &str) -> String {
    let text: String = text.replace(char::is_control, " ");
    let words = text.split(' ').map(|word| {
        if let Some((before, after)) = word.split_once("://")
            && let Some((_, host)) = authority(after)
        {
            return format!("{before}://{MASK}@{host}");
        }
        match word.find("eyJ") {
            Some(at) if word[at..].matches('.').count() >= 2 => format!("{}{MASK}", &word[..at]),
            _ => word.to_owned(),
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// The credentials of an address and what follows them; none without credentials.
fn authority(after_scheme: &str) -> Option<(&str, &str)> {
    let end = after_scheme
        .find(['/', '?', '#'])
        .unwrap_or(after_scheme.len());
    let at = after_scheme[..end].rfind('@')?;
    Some((&after_scheme[..at], &after_scheme[at + 1..]))
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

    /// O-22, CO-52, facts A15.
    #[test]
    fn o22_secrets_are_taken_out_of_what_brokers_say() {
        let table = [
            ("nothing to hide: x = 1", "nothing to hide: x = 1"),
            ("key hunter22 refused", "key *** refused"),
            ("key hunter22-long refused", "key *** refused"),
            ("password=abc&user=b", "password=***&user=b"),
            ("Password : abc, user b", "Password : ***, user b"),
            ("broker_api_secret=abc def", "broker_api_secret=*** def"),
            ("X-Api-Key: abc", "X-Api-Key: ***"),
            ("secretKey: 'a b' c", "secretKey: '***' c"),
            (
                "\"access_token\": \"a,b\", c",
                "\"access_token\": \"***\", c",
            ),
            ("\\\"token\\\":\\\"abc\\\" c", "\\\"token\\\":\\\"***\" c"),
            (
                "Authorization: Bearer abc.def\nnext",
                "Authorization: *** next",
            ),
            (
                "proxy-authorization: Digest a=\"b\", c",
                "proxy-authorization: ***",
            ),
            ("sent bearer abc.def to", "sent bearer *** to"),
            ("sent Basic YWJj=, no", "sent Basic ***, no"),
            (
                "https://me:pw@host/p?a failed",
                "https://***@host/p?a failed",
            ),
            ("https://host/a@b failed", "https://host/a@b failed"),
            ("jwt eyJhbGci.eyJzdWIi.c2ln end", "jwt *** end"),
            ("-----BEGIN PRIVATE KEY-----\nMII", "***"),
            ("got {\"qty\": {\"a\": 1}} back", "got {…} back"),
            ("got [1, [2]] and {", "got […] and {…"),
            ("a stray } and ]", "a stray } and ]"),
            ("line\r\nforged\u{0}", "line  forged"),
            ("the token is wrong", "the token is wrong"),
            ("token=", "token="),
            ("Grüße: 数量 token=數量 好", "Grüße: 数量 token=*** 好"),
        ];
        for (text, expected) in table {
            assert_eq!(masker().mask(text, &[]), expected, "{text:?}");
        }
    }

    #[test]
    fn the_key_of_a_client_is_masked_on_request() {
        let masked = masker().mask("duplicate ClOrdID 01JABCXYZ, said it", &["01JABCXYZ", ""]);
        assert_eq!(masked, "duplicate ClOrdID ***, said it");
    }

    /// A secret at the place of the cut must not be shown by half.
    #[test]
    fn co52_text_is_cut_by_characters_after_it_was_masked() {
        let long = "é".repeat(600);
        let cut = masker().mask(&long, &[]);
        assert_eq!(cut.chars().count(), MESSAGE_CHARS_MAX);
        assert!(cut.ends_with("é…"), "{cut}");
        let exact = "é".repeat(MESSAGE_CHARS_MAX);
        assert_eq!(masker().mask(&exact, &[]), exact);
        let at_the_cut = format!("{}hunter22", "a".repeat(MESSAGE_CHARS_MAX - 4));
        assert!(!masker().mask(&at_the_cut, &[]).contains("hun"));
    }

    /// A broker that answers at length must not keep a worker busy: each of these took minutes when
    /// every name was followed to the end of its word.
    #[test]
    fn long_texts_are_masked_in_no_time() {
        let started = std::time::Instant::now();
        for part in [
            "token",
            "token ",
            "token=",
            "bearer ",
            "\"",
            "{",
            "eyJ.",
            "authorization-",
        ] {
            let long = part.repeat(256 * 1024 / part.len());
            without_named_values(&long);
            masker().mask(&long, &[]);
        }
        let took = started.elapsed();
        assert!(took < std::time::Duration::from_secs(20), "{took:?}");
    }

    #[test]
    fn what_a_long_text_is_cut_through_is_not_shown_by_half() {
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

    #[test]
    fn a_scheme_at_the_end_of_a_name_is_seen() {
        assert_eq!(
            masker().mask("tokenbearer abc.def x", &[]),
            "tokenbearer *** x"
        );
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_masked_without_panic_and_short(text in ".{0,700}") {
            let masked = masker().mask(&text, &[]);
            proptest::prop_assert!(masked.chars().count() <= MESSAGE_CHARS_MAX);
            proptest::prop_assert!(!masked.contains(char::is_control));
        }

        #[test]
        fn a_known_secret_never_remains(before in "\\PC{0,40}", after in "\\PC{0,40}") {
            let masked = masker().mask(&format!("{before}hunter22{after}"), &[]);
            proptest::prop_assert!(!masked.contains("hunter22"), "{}", masked);
        }
    }
}
