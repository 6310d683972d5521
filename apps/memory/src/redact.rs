//! Messages without secrets.
//!
//! Errors quote what others said: addresses with passwords in them, headers, settings. None of that may
//! reach an answer, an audit or a log. Better a word too many is hidden than one too few.

use serde_json::Value;

use crate::uri::{MASK as HIDDEN, mask_credentials, names_secret};

/// How tokens of well-known services begin.
const TOKEN_BEGINNINGS: [&str; 6] = ["glpat-", "ghp_", "gho_", "github_pat_", "xoxb-", "xoxp-"];
/// Addresses that are hidden whole: what follows the host may hold a password too.
const DSN_SCHEMES: [&str; 2] = ["postgres", "postgresql"];
/// Words after which a token follows.
const AUTH_SCHEMES: [&str; 2] = ["bearer", "basic"];

/// A message without secrets.
pub fn text(message: &str) -> String {
    let message = mask_credentials(message);
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

/// A document without secrets: texts as [`text`], and whatever stands under the name of one.
pub fn json(value: &mut Value) {
    match value {
        Value::String(message) => *message = text(message),
        Value::Array(items) => items.iter_mut().for_each(json),
        Value::Object(fields) => {
            for (name, field) in fields {
                match names_secret(name) && !field.is_null() {
                    true => *field = Value::from(HIDDEN),
                    false => json(field),
                }
            }
        }
        _ => {}
    }
}

/// The word that a text begins with, and what follows.
fn split_word(text: &str) -> (&str, &str) {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    text.split_at(text.find(|c| !is_part(c)).unwrap_or(text.len()))
}

/// What is shown of a word and the secret that it is or that follows it, and what comes then.
fn without_secret<'t>(word: &str, after: &'t str) -> Option<(String, &'t str)> {
    let lower = word.to_ascii_lowercase();
    if let Some(address) = after.strip_prefix("://") {
        return without_address(word, &lower, address);
    }
    if TOKEN_BEGINNINGS
        .iter()
        .any(|beginning| lower.starts_with(beginning))
    {
        return Some((HIDDEN.to_owned(), after));
    }
    if AUTH_SCHEMES.contains(&lower.as_str()) {
        let (blanks, value) = split_blanks(after);
        // "A bearer token is missing" gives nothing away.
        let is_prose = names_secret(split_word(value).0);
        let (value, after) = split_value(value, &[',', ';', '"', '\'']);
        let is_secret = !blanks.is_empty() && !value.is_empty() && !is_prose;
        return is_secret.then(|| (format!("{word}{blanks}{HIDDEN}"), after));
    }
    names_secret(word).then(|| assigned(word, after)).flatten()
}

/// The address of a database, hidden whole.
fn without_address<'t>(word: &str, scheme: &str, address: &'t str) -> Option<(String, &'t str)> {
    if !DSN_SCHEMES.contains(&scheme) {
        return None;
    }
    let (_, after) = split_value(address, &['"', '\'', '`', '>', ')']);
    Some((format!("{word}://{HIDDEN}"), after))
}

/// `name=value`, `name: value`, `"name": "value"` without the value.
fn assigned<'t>(word: &str, after: &'t str) -> Option<(String, &'t str)> {
    let is_quote = |c: char| c == '"' || c == '\'' || c == '\\';
    let value = after.trim_start_matches(is_quote).trim_start_matches(' ');
    let value = value.strip_prefix(['=', ':'])?;
    let value = value.trim_start_matches(' ').trim_start_matches(is_quote);
    let kept = &after[..after.len() - value.len()];
    let (first, rest) = split_word(value);
    let value = match AUTH_SCHEMES.contains(&first.to_ascii_lowercase().as_str()) {
        true => rest.trim_start_matches(' '),
        false => value,
    };
    let (value, after) = split_value(value, &['"', '\'', '\\', ',', ';', '&', '}', ')']);
    (!value.is_empty()).then(|| (format!("{word}{kept}{HIDDEN}"), after))
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

    /// Facts section 7: bearer tokens, DSNs, assignments, users in addresses, tokens of services.
    #[test]
    fn messages_tell_no_secrets() {
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

    #[test]
    fn documents_tell_no_secrets() {
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
}
