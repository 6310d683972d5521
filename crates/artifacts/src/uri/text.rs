//! The small words of the grammar.

/// 64 hex digits, of either case.
pub fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// An id: digits alone, no leading zero, and it fits a column.
pub(super) fn decimal(text: &str) -> Option<i64> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    let is_padded = text.len() > 1 && text.starts_with('0');
    (is_plain && !is_padded)
        .then(|| text.parse().ok())
        .flatten()
}

/// Characters to encode in a segment and in logs.
fn must_be_encoded(character: char) -> bool {
    matches!(character, '/' | '\\' | '%' | '?' | '#')
        || character.is_whitespace()
        || character.is_control()
}

/// A text as one segment of a path.
pub(super) fn encoded(text: &str) -> String {
    let mut segment = String::with_capacity(text.len());
    for character in text.chars() {
        if must_be_encoded(character) {
            let mut bytes = [0; 4];
            for byte in character.encode_utf8(&mut bytes).bytes() {
                segment.push_str(&format!("%{byte:02X}"));
            }
        } else {
            segment.push(character);
        }
    }
    segment
}

/// The text of a segment; none if it is not encoded as it must be, or cannot be shown.
pub(super) fn decoded(segment: &str) -> Option<String> {
    let is_plain = |character: char| character == '%' || !must_be_encoded(character);
    if !segment.chars().all(is_plain) {
        return None;
    }
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digit = |byte: Option<u8>| (byte? as char).to_digit(16);
            let (high, low) = (digit(rest.next())?, digit(rest.next())?);
            bytes.push((high * 16 + low) as u8);
        } else {
            bytes.push(byte);
        }
    }
    let text = String::from_utf8(bytes).ok()?;
    (!text.chars().any(char::is_control)).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded() {
        let table = [
            ("1:abc", "1:abc"),
            ("a/b", "a%2Fb"),
            ("50% ?#\\", "50%25%20%3F%23%5C"),
            ("é:ü", "é:ü"),
            ("\u{2003}", "%E2%80%83"),
        ];
        for (text, segment) in table {
            assert_eq!(encoded(text), segment);
            assert_eq!(decoded(segment).as_deref(), Some(text));
        }
        for malformed in ["%", "%2", "%zz", "a/b", "a b", "%FF", "%0A", "%+1"] {
            assert_eq!(decoded(malformed), None, "{malformed:?}");
        }
    }

    #[test]
    fn ids_are_plain_decimals() {
        for (text, id) in [("0", 0), ("7", 7), ("9223372036854775807", i64::MAX)] {
            assert_eq!(decimal(text), Some(id));
        }
        let malformed = [
            "",
            "-1",
            "+5",
            " 7",
            "1_000",
            "007",
            "00",
            "9223372036854775808",
            "١٢",
        ];
        for text in malformed {
            assert_eq!(decimal(text), None, "{text:?}");
        }
    }
}
