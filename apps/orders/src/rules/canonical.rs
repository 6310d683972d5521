//! Canonical form of JSON.
//!
//! Members sorted by code point, text in NFC and unescaped, numbers in one normal form
//! ([`Number::normal`](crate::json::Number::normal)), no white space. Lists keep their order, and
//! no defaults are filled in: a member that is `null` or has a default differs from an absent one.

use unicode_normalization::{UnicodeNormalization, is_nfc};

use crate::json::Json;

/// The canonical text of a value.
pub fn canonical(value: &Json) -> String {
    let mut out = String::new();
    write(&mut out, value, &[]);
    out
}

/// The canonical text without some members of the top object.
pub fn canonical_without(value: &Json, dropped: &[&str]) -> String {
    let mut out = String::new();
    write(&mut out, value, dropped);
    out
}

fn write(out: &mut String, value: &Json, dropped: &[&str]) {
    match value {
        Json::Null => out.push_str("null"),
        Json::Bool(true) => out.push_str("true"),
        Json::Bool(false) => out.push_str("false"),
        Json::Number(number) => out.push_str(&number.normal()),
        Json::Text(text) => write_text(out, &nfc(text)),
        Json::List(items) => {
            write_all(out, ['[', ']'], items, |out, item| write(out, item, &[]));
        }
        Json::Object(members) => {
            let mut members: Vec<(String, &Json)> = members
                .iter()
                .filter(|(name, _)| !dropped.contains(&name.as_str()))
                .map(|(name, value)| (nfc(name), value))
                .collect();
            // UTF-8 sorts by code point; UTF-16 would not beyond the first plane.
            members.sort_by(|(a, _), (b, _)| a.cmp(b));
            write_all(out, ['{', '}'], &members, |out, (name, value)| {
                write_text(out, name);
                out.push(':');
                write(out, value, &[]);
            });
        }
    }
}

fn write_all<T>(
    out: &mut String,
    [open, close]: [char; 2],
    items: &[T],
    mut write_one: impl FnMut(&mut String, &T),
) {
    out.push(open);
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        write_one(out, item);
    }
    out.push(close);
}

/// Escapes only what JSON demands: quotes, backslashes and control characters.
fn write_text(out: &mut String, text: &str) {
    out.push_str(&serde_json::Value::from(text).to_string());
}

fn nfc(text: &str) -> String {
    if is_nfc(text) {
        return text.to_owned();
    }
    text.nfc().collect()
}

#[cfg(test)]
mod tests;
