//! Masking of secrets in messages.
//!
//! Errors quote addresses with passwords, headers and settings, which must not reach an answer, an audit
//! or a log. In doubt a word is masked.

use std::borrow::Cow;

use serde_json::Value;

use crate::{MASK, mask_credentials, names_secret};

/// Prefixes of the tokens of well-known services.
const TOKEN_PREFIXES: [&str; 6] = ["glpat-", "ghp_", "gho_", "github_pat_", "xoxb-", "xoxp-"];
/// Prefix of JSON web tokens, which have three parts separated by dots.
const JWT_PREFIX: &str = "eyJ";
/// Prefix of keys and certificates in PEM.
const PEM_PREFIX: &str = "-----BEGIN";
/// Addresses that are masked whole: parameters after the host may hold a password too.
const DSN_SCHEMES: [&str; 2] = ["postgres", "postgresql"];
/// Words that a token follows.
const AUTH_SCHEMES: [&str; 2] = ["bearer", "basic"];
/// Headers whose values reach to the end of the line.
const LINES: [&str; 2] = ["authorization", "cookie"];

/// Masks the secrets of a message.
pub fn text(message: &str) -> String {
    let message = match message.find(PEM_PREFIX) {
        Some(at) => Cow::Owned(format!("{}{MASK}", &message[..at])),
        None => Cow::Borrowed(message),
    };
    let message = mask_credentials(&message);
    let mut shown = String::with_capacity(message.len());
    let mut rest = &*message;
    while let Some(first) = rest.chars().next() {
        let (word, after) = split_word(rest);
        if word.is_empty() {
            shown.push(first);
            rest = &rest[first.len_utf8()..];
        } else if let Some((kept, after)) = without_secret(word, after) {
            shown.push_str(&kept);
            rest = after;
        } else {
            shown.push_str(word);
            rest = after;
        }
    }
    shown
}

/// Masks the secrets of a document: texts as [`text`] does, and the values of fields named like secrets.
pub fn json(value: &mut Value) {
    match value {
        Value::String(message) => *message = text(message),
        Value::Array(items) => items.iter_mut().for_each(json),
        Value::Object(fields) => {
            for (name, field) in fields {
                if names_secret(name) && !field.is_null() {
                    *field = Value::from(MASK);
                } else {
                    json(field);
                }
            }
        }
        _ => {}
    }
}

/// The first word, and the rest.
fn split_word(text: &str) -> (&str, &str) {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    text.split_at(text.find(|c| !is_part(c)).unwrap_or(text.len()))
}

/// A word masked, or with the secret after it masked, and the rest.
fn without_secret<'t>(word: &str, after: &'t str) -> Option<(String, &'t str)> {
    let lower = word.to_ascii_lowercase();
    if let Some(address) = after.strip_prefix("://") {
        return without_address(word, &lower, address);
    }
    if TOKEN_PREFIXES
        .iter()
        .any(|prefix| lower.starts_with(prefix))
    {
        return Some((MASK.to_owned(), after));
    }
    if let Some(at) = word.find(JWT_PREFIX)
        && let Some(after) = after_jwt(after)
    {
        return Some((format!("{}{MASK}", &word[..at]), after));
    }
    if AUTH_SCHEMES.iter().any(|scheme| lower.ends_with(scheme)) {
        let (blanks, value) = split_blanks(after);
        // "A bearer token is missing" holds no secret.
        let next = split_word(value).0;
        let is_prose = names_secret(next) && next.chars().all(char::is_alphabetic);
        let (value, after) = split_value(value, &[',', ';', '"', '\'']);
        let is_secret = !blanks.is_empty() && !value.is_empty() && !is_prose;
        return is_secret.then(|| (format!("{word}{blanks}{MASK}"), after));
    }
    let name = word.trim_end_matches(|c: char| c.is_ascii_digit());
    let is_secret = names_secret(name) || holds_secret(name);
    is_secret.then(|| assigned(word, after)).flatten()
}

/// `token_id`, `apiKeyOld`: one or two words inside the name that name a secret. Linear in its length.
fn holds_secret(name: &str) -> bool {
    let bytes = name.as_bytes();
    let (mut before, mut start) = (0, 0);
    for at in 1..bytes.len() {
        let is_separator = matches!(bytes[at], b'_' | b'-');
        let is_hump = bytes[at - 1].is_ascii_lowercase() && bytes[at].is_ascii_uppercase();
        if !is_separator && !is_hump {
            continue;
        }
        if names_secret(&name[start..at]) || names_secret(&name[before..at]) {
            return true;
        }
        (before, start) = (start, at + usize::from(is_separator));
    }
    false
}

/// The rest after the second and third part of a JSON web token.
fn after_jwt(after: &str) -> Option<&str> {
    let (_, after) = split_word(after.strip_prefix('.')?);
    let (_, after) = split_word(after.strip_prefix('.')?);
    Some(after)
}

/// The address of a database, masked whole.
fn without_address<'t>(word: &str, scheme: &str, address: &'t str) -> Option<(String, &'t str)> {
    if !DSN_SCHEMES.contains(&scheme) {
        return None;
    }
    let (_, after) = split_value(address, &['"', '\'', '`', '>', ')']);
    Some((format!("{word}://{MASK}"), after))
}

/// `name=value`, `name: value`, `"name": "value"` with the value masked.
fn assigned<'t>(word: &str, after: &'t str) -> Option<(String, &'t str)> {
    let is_quote = |c: char| c == '"' || c == '\'' || c == '\\';
    let value = after.trim_start_matches(is_quote).trim_start_matches(' ');
    let value = value.strip_prefix(['=', ':'])?;
    let value = value.trim_start_matches([' ', '=']);
    let is_line = || {
        let lower = word.to_ascii_lowercase();
        LINES.iter().any(|name| lower.ends_with(name))
    };
    let unescaped = value.trim_start_matches('\\');
    let (value, length) = if let Some(inner) = unescaped.strip_prefix(['"', '\'']) {
        let quote = unescaped.as_bytes()[0];
        let is_escaped = unescaped.len() < value.len();
        (inner, quoted_length(inner, quote, is_escaped))
    } else if is_line() {
        (value, value.find(['\r', '\n']).unwrap_or(value.len()))
    } else {
        let (first, rest) = split_word(value);
        let is_scheme = AUTH_SCHEMES.contains(&first.to_ascii_lowercase().as_str());
        let token = if is_scheme {
            rest.trim_start_matches(' ')
        } else {
            value
        };
        let (_, after) = split_value(token, &['"', '\'', ',', ';', '&', '}', ')', '>']);
        (value, value.len() - after.len())
    };
    let kept = &after[..after.len() - value.len()];
    (length > 0).then(|| (format!("{word}{kept}{MASK}"), &value[length..]))
}

/// How long a text in quotes is; one that does not end goes to the end. In a document within a document
/// the quotes themselves are escaped.
fn quoted_length(text: &str, quote: u8, is_escaped: bool) -> usize {
    let mut bytes = text.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        if byte == quote {
            let ends = if is_escaped {
                text[..at].trim_end_matches('\\').len()
            } else {
                at
            };
            return ends;
        }
        if byte == b'\\' && !is_escaped {
            bytes.next();
        }
    }
    text.len()
}

fn split_blanks(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c| c != ' ').unwrap_or(text.len()))
}

/// Up to white space or one of `ends`.
fn split_value<'t>(text: &'t str, ends: &[char]) -> (&'t str, &'t str) {
    let is_end = |c: char| c.is_whitespace() || ends.contains(&c);
    text.split_at(text.find(is_end).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Bearer tokens, DSNs, assignments, users in addresses, tokens of services.
    #[test]
    fn masks_secrets_in_messages() {
        let table = [
            (
                "Authorization: Bearer abc.def-1",
                "Authorization: [REDACTED]",
            ),
            (
                "sent bearer  abc123, refused",
                "sent bearer  [REDACTED], refused",
            ),
            ("a bearer token is missing", "a bearer token is missing"),
            ("Basic dXNlcjpwYXNz", "Basic [REDACTED]"),
            (
                "cannot reach postgres://u:p@h/db?x=1.",
                "cannot reach postgres://[REDACTED]",
            ),
            (
                "dsn 'postgresql://u:p%40@h:5432/db' refused",
                "dsn 'postgresql://[REDACTED]' refused",
            ),
            ("POSTGRES://h/db?password=x y", "POSTGRES://[REDACTED]"),
            (
                "GET https://u:p@host/a?b=1 failed",
                "GET https://[REDACTED]@host/a?b=1 failed",
            ),
            ("https://token@host", "https://[REDACTED]@host"),
            ("https://u:p@ss@host/x", "https://[REDACTED]@host/x"),
            ("https://host/a@b", "https://host/a@b"),
            (
                "https://h/?access_token=abc&x=1",
                "https://h/?access_token=[REDACTED]&x=1",
            ),
            ("password=hunter2; next", "password=[REDACTED]; next"),
            ("PASSWORD = 'hunter2'", "PASSWORD = '[REDACTED]'"),
            (
                r#"{"api_key": "abc", "n": 1}"#,
                r#"{"api_key": "[REDACTED]", "n": 1}"#,
            ),
            (r#"{\"token\":\"abc\"}"#, r#"{\"token\":\"[REDACTED]\"}"#),
            ("x-api-key: abc", "x-api-key: [REDACTED]"),
            ("OPENMEMORY_API_KEY=abc", "OPENMEMORY_API_KEY=[REDACTED]"),
            (
                "with glpat-abcDEF123_x, and ghp_abc",
                "with [REDACTED], and [REDACTED]",
            ),
            (
                "authToken=abc dbpassword: x",
                "authToken=[REDACTED] dbpassword: [REDACTED]",
            ),
            ("password=", "password="),
            ("the token expired", "the token expired"),
            ("api_error: 503 - busy", "api_error: 503 - busy"),
            (
                "memory_id=mem-1, outbox_id=7",
                "memory_id=mem-1, outbox_id=7",
            ),
            ("monkey=1 tokenizer=2", "monkey=1 tokenizer=2"),
            ("überall: ä://ö", "überall: ä://ö"),
            ("", ""),
        ];
        for (message, shown) in table {
            assert_eq!(text(message), shown);
        }
    }

    /// Values in quotes, headers, and tokens that have no name.
    #[test]
    fn messages_show_no_part_of_a_secret() {
        let table = [
            ("key: -----BEGIN PRIVATE KEY-----\nMII", "key: [REDACTED]"),
            ("jwt eyJhbGci.eyJzdWIi.c2ln end", "jwt [REDACTED] end"),
            ("xeyJhbGci.eyJzdWIi.c2ln.", "x[REDACTED]."),
            ("eyJ. is no token", "eyJ. is no token"),
            ("secretKey: 'a b' c", "secretKey: '[REDACTED]' c"),
            (
                r#"{"password":"a \"quoted\" one","n":1}"#,
                r#"{"password":"[REDACTED]","n":1}"#,
            ),
            (
                r#"{\"passwd\":\"hunter two\",\"n\":1}"#,
                r#"{\"passwd\":\"[REDACTED]\",\"n\":1}"#,
            ),
            ("password=\"\" next", "password=\"\" next"),
            ("password2=a\\b next", "password2=[REDACTED] next"),
            (
                "proxy-authorization: Digest a=\"b\", c\nnext",
                "proxy-authorization: [REDACTED]\nnext",
            ),
            ("tokenbearer abc.def x", "tokenbearer [REDACTED] x"),
            ("token_id=abc c", "token_id=[REDACTED] c"),
            ("my-api-key-old: abc c", "my-api-key-old: [REDACTED] c"),
            ("tokenId=abc c", "tokenId=[REDACTED] c"),
            ("apiKeyOld: abc c", "apiKeyOld: [REDACTED] c"),
            ("bearer prod-token is wrong", "bearer [REDACTED] is wrong"),
        ];
        for (message, shown) in table {
            assert_eq!(text(message), shown);
        }
    }

    #[test]
    fn masks_secrets_in_documents() {
        let mut document = json!({
            "admin_key": "k", "Governance-Admin-Key": ["k"], "password": null, "tokens": {"a": 1},
            "payload_sha": "abc", "details": [{"url": "https://u:p@h"}], "count": 7,
        });
        json(&mut document);
        let shown = json!({
            "admin_key": "[REDACTED]", "Governance-Admin-Key": "[REDACTED]", "password": null,
            "tokens": "[REDACTED]", "payload_sha": "abc",
            "details": [{"url": "https://[REDACTED]@h"}], "count": 7,
        });
        assert_eq!(document, shown);
    }

    /// Another program may answer at length: no text takes longer than others of its length.
    #[test]
    fn long_messages_take_their_length() {
        for piece in [
            "token",
            "token ",
            "token=",
            "token\\",
            "token='",
            "bearer ",
            "basic",
            "\"",
            "eyJ.",
            "eyJ.a",
            "authorization-",
            "authorization:\n",
            "postgres://",
        ] {
            let long = piece.repeat(256 * 1024 / piece.len());
            let started = std::time::Instant::now();
            text(&long);
            let took = started.elapsed();
            assert!(
                took < std::time::Duration::from_secs(5),
                "{piece:?}: {took:?}"
            );
        }
    }
}
