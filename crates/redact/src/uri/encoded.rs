//! A URI inside of another, encoded once or more often: `?next=https%3A%2F%2Fuser%3Apassword%40host`.

use super::{Extent, MASK, ends_authority};

/// The length of one of these characters, written as `%2f`, `%252f` and so on; `text` is in lower case.
pub(super) fn stripped(text: &str, codes: &[&str]) -> Option<usize> {
    let mut rest = text.strip_prefix('%')?;
    while let Some(deeper) = rest.strip_prefix("25") {
        rest = deeper;
    }
    let code = codes.iter().find(|code| rest.starts_with(**code))?;
    Some(text.len() - rest.len() + code.len())
}

/// Whether there is an encoded `://` anywhere.
pub(super) fn has_uri(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let mut places = lower.match_indices([':', '%']);
    places.any(|(at, _)| authority_begins(&lower[at..]).is_some())
}

/// How long the `://` is that a text begins with, where some of it is encoded.
fn authority_begins(text: &str) -> Option<usize> {
    const SLASHES: [&str; 2] = ["2f", "5c"];
    if let Some(after) = text.strip_prefix(':') {
        let one = stripped(after, &SLASHES)?;
        let two = stripped(&after[one..], &SLASHES)?;
        return Some(1 + one + two);
    }
    let mut at = stripped(text, &["3a"])?;
    for _ in 0..2 {
        at += match text.as_bytes().get(at)? {
            b'/' | b'\\' => 1,
            _ => stripped(&text[at..], &SLASHES)?,
        };
    }
    Some(at)
}

pub(super) fn mask_users(text: &str, extent: Extent) -> String {
    // Of the same length: only ASCII changes.
    let lower = text.to_ascii_lowercase();
    let mut masked = String::with_capacity(text.len());
    let mut copied = 0;
    for (found, _) in lower.match_indices([':', '%']) {
        let Some(length) = authority_begins(&lower[found..]).filter(|_| found >= copied) else {
            continue;
        };
        let begins = found + length;
        if let Some(at) = user_ends(&lower[begins..], extent) {
            masked.push_str(&text[copied..begins]);
            masked.push_str(MASK);
            copied = begins + at;
        }
    }
    masked.push_str(&text[copied..]);
    masked
}

/// Where the last `@` of an authority is.
fn user_ends(authority: &str, extent: Extent) -> Option<usize> {
    let mut user_ends = None;
    for (at, c) in authority.char_indices() {
        let rest = &authority[at..];
        let is_end = ends_authority(c) || extent.ends(c) || c == '&';
        if is_end || stripped(rest, &["2f", "5c", "3f", "23"]).is_some() {
            break;
        }
        if c == '@' || stripped(rest, &["40"]).is_some() {
            user_ends = Some(at);
        }
    }
    user_ends
}
