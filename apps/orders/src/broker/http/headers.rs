//! Text in headers and addresses.

use std::fmt::Write;

use reqwest::header::HeaderValue;

/// Text as a header's value. What a header cannot carry is written as `%XX`, and the percent sign
/// too: two different keys never become the same value.
pub(super) fn value(text: &str) -> HeaderValue {
    let is_plain = |c: char| matches!(c, '!'..='~') && !matches!(c, '"' | '%');
    HeaderValue::from_str(&encoded(text, is_plain)).expect("invariant: printable ASCII")
}

/// Text as one part of a path.
pub(super) fn path_part(text: &str) -> String {
    encoded(text, |c| {
        c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | '~')
    })
}

fn encoded(text: &str, is_plain: impl Fn(char) -> bool) -> String {
    let mut encoded = String::with_capacity(text.len());
    for c in text.chars() {
        if is_plain(c) {
            encoded.push(c);
            continue;
        }
        for byte in c.encode_utf8(&mut [0; 4]).bytes() {
            write!(encoded, "%{byte:02X}").expect("invariant: writing to a string does not fail");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_keys_stay_different_and_cannot_leave_their_place() {
        for (text, in_header, in_path) in [
            ("me/key-00000001", "me/key-00000001", "me%2Fkey-00000001"),
            (
                "me/a b\r\nc: d",
                "me/a%20b%0D%0Ac:%20d",
                "me%2Fa%20b%0D%0Ac%3A%20d",
            ),
            (
                "me/Grüße%20",
                "me/Gr%C3%BC%C3%9Fe%2520",
                "me%2FGr%C3%BC%C3%9Fe%2520",
            ),
            ("../x?y#z", "../x?y#z", "..%2Fx%3Fy%23z"),
        ] {
            assert_eq!(value(text).to_str().unwrap(), in_header);
            assert_eq!(path_part(text), in_path);
        }
    }
}
