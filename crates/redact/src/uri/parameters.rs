//! `?access_token=…` and its like, without the value.

use super::{Extent, MASK, PARAMETER_WORDS, encoded::stripped, ends_uri, names_secret};

/// The characters before a parameter: `?`, `&`, `;` and `#`, encoded.
const SEPARATORS: [&str; 4] = ["3f", "26", "3b", "23"];

fn separates(c: char) -> bool {
    matches!(c, '?' | '&' | ';' | '#')
}

pub(super) fn mask(text: &str, extent: Extent) -> String {
    // Of the same length: only ASCII changes.
    let lower = text.to_ascii_lowercase();
    let mut masked = String::with_capacity(text.len());
    let (mut copied, mut at) = (0, 0);
    while let Some(found) = lower[at..].find(|c| separates(c) || c == '%') {
        let separator = match lower.as_bytes()[at + found] {
            b'%' => stripped(&lower[at + found..], &SEPARATORS),
            _ => Some(1),
        };
        at += found + separator.unwrap_or(1);
        if separator.is_none() {
            continue;
        }
        let Some((name, equals)) = name(&lower[at..], extent) else {
            continue;
        };
        if names_secret_parameter(&text[at..at + name]) {
            let begins = at + name + equals;
            let ends = begins + value(&lower[begins..], equals > 1, extent);
            if ends > begins {
                masked.push_str(&text[copied..begins]);
                masked.push_str(MASK);
                copied = ends;
            }
            at = ends;
        }
    }
    masked.push_str(&text[copied..]);
    masked
}

/// The lengths of the name that a text begins with and of the `=` after it.
fn name(text: &str, extent: Extent) -> Option<(usize, usize)> {
    for (at, c) in text.char_indices() {
        if separates(c) || extent.ends(c) {
            return None;
        }
        let equals = match c {
            '=' => Some(1),
            '%' if stripped(&text[at..], &SEPARATORS).is_some() => return None,
            '%' => stripped(&text[at..], &["3d"]),
            _ => None,
        };
        if let Some(equals) = equals {
            return Some((at, equals));
        }
    }
    None
}

/// Whether a parameter of this name is a secret: `token`, `token[]`, `user[password]`.
fn names_secret_parameter(name: &str) -> bool {
    let mut plain = String::with_capacity(name.len());
    let (lower, mut at) = (name.to_ascii_lowercase(), 0);
    const CODES: [(&str, char); 5] = [
        ("5b", '['),
        ("5d", ']'),
        ("5f", '_'),
        ("2d", '-'),
        ("2e", '.'),
    ];
    while let Some(c) = lower[at..].chars().next() {
        let encoded = CODES
            .iter()
            .find_map(|(code, c)| Some((stripped(&lower[at..], &[*code])?, *c)));
        let (length, c) = encoded.unwrap_or((c.len_utf8(), c));
        plain.push(c);
        at += length;
    }
    let is_secret = |part: &str| {
        let last = part.rsplit(['-', '_', '.']).next().unwrap_or_default();
        names_secret(part) || PARAMETER_WORDS.contains(&last)
    };
    plain.split(['[', ']']).any(is_secret)
}

/// How long the value is that a text begins with.
fn value(text: &str, is_encoded: bool, extent: Extent) -> usize {
    let ends = |(at, c): &(usize, char)| {
        let rest = &text[at + c.len_utf8()..];
        match c {
            '&' | '#' => true,
            ';' => is_encoded || name(rest, extent).is_some(),
            '%' => is_encoded && stripped(&text[*at..], &["26", "23", "3b"]).is_some(),
            '\\' => extent == Extent::Prose && rest.starts_with(['"', '\'', '`']),
            '"' | '\'' | '<' | '>' | '`' => extent.ends(*c) && closes(rest),
            c => extent.ends(*c),
        }
    };
    let end = text.char_indices().find(ends);
    end.map_or(text.len(), |(at, _)| at)
}

/// Whether a quote before this closes a string, and is no part of a value.
fn closes(rest: &str) -> bool {
    let next = rest.chars().next();
    next.is_none_or(|c| ends_uri(c) || matches!(c, ',' | ';' | ':' | '.' | ')' | ']' | '}' | '\\'))
}
