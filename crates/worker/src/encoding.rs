//! Keys as text that every transport can carry.

use std::fmt::Write;

/// `text` with whatever a header cannot carry written as `%XX`, and `also` as well.
///
/// A percent sign is written so too: two different keys never become the same text. These are the
/// rules by which CloudEvents puts attributes into HTTP headers.
pub fn printable(text: &str, also: &[char]) -> String {
    let mut printable = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '!'..='~') && !matches!(c, '"' | '%') && !also.contains(&c) {
            printable.push(c);
        } else {
            push_encoded(&mut printable, c);
        }
    }
    printable
}

/// `text` as one component of a URL.
pub fn url_component(text: &str) -> String {
    let mut component = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | '~') {
            component.push(c);
        } else {
            push_encoded(&mut component, c);
        }
    }
    component
}

fn push_encoded(text: &mut String, c: char) {
    for byte in c.encode_utf8(&mut [0; 4]).bytes() {
        write!(text, "%{byte:02X}").expect("invariant: writing to a string does not fail");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_keys_stay_different() {
        let table = [
            ("order-7", "order-7"),
            ("Grüße", "Gr%C3%BC%C3%9Fe"),
            ("Gr%C3%BC%C3%9Fe", "Gr%25C3%25BC%25C3%259Fe"),
            ("a b\r\nc: d", "a%20b%0D%0Ac:%20d"),
            ("say \"x\"", "say%20%22x%22"),
            ("\u{7f}", "%7F"),
        ];
        for (key, expected) in table {
            assert_eq!(printable(key, &[]), expected, "{key:?}");
        }
        assert_eq!(printable("a.b\\", &['.', '\\']), "a%2Eb%5C");
    }

    #[test]
    fn a_component_cannot_leave_its_place() {
        assert_eq!(url_component("../a?b#c&d/é"), "..%2Fa%3Fb%23c%26d%2F%C3%A9");
    }
}
