//! Checks of JSON values that travel beside a payload: headers and results.

use serde::{Deserialize, Deserializer, de};
use serde_json::{Map, Value, value::RawValue};

use super::{PayloadError, exact_value};
use crate::{HEADERS_BYTES_MAX, PAYLOAD_DEPTH_MAX};

/// White space and escapes do not count as headers; a text this long is refused unread.
const TEXT_MAX: usize = 4 * HEADERS_BYTES_MAX;

/// Reads the headers of a message; refuses a name that comes twice, and a number that a [`Value`]
/// would round.
///
/// For `#[serde(deserialize_with)]`, from `serde_json` only, as [`Payload`](super::Payload).
pub fn exact_headers<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Map<String, Value>, D::Error> {
    let raw = Box::<RawValue>::deserialize(deserializer)?;
    read_headers(raw.get()).map_err(de::Error::custom)
}

fn read_headers(text: &str) -> Result<Map<String, Value>, PayloadError> {
    let refuse = |place: String, why: &str| PayloadError {
        place,
        why: why.to_owned(),
        is_syntax: false,
    };
    if text.len() > TEXT_MAX {
        let why = format!("are over {HEADERS_BYTES_MAX} bytes");
        return Err(refuse(String::new(), &why));
    }
    match exact_value(text)? {
        Value::Object(headers) => Ok(headers),
        _ => Err(refuse(String::new(), "must be an object")),
    }
}

/// Whether `value` is nested more than `levels` deep.
pub(crate) fn deeper_than(value: &Value, levels: usize) -> bool {
    let inside = |value: &Value| levels == 0 || deeper_than(value, levels - 1);
    match value {
        Value::Array(items) => items.iter().any(inside),
        Value::Object(map) => map.values().any(inside),
        _ => false,
    }
}

/// `value`, or its JSON as text if it is nested too deeply to be read back.
pub(crate) fn shallow(value: Value) -> Value {
    if deeper_than(&value, PAYLOAD_DEPTH_MAX) {
        Value::String(value.to_string())
    } else {
        value
    }
}

/// A stored result for showing: as text where it cannot be read as JSON, or is nested too deeply.
///
/// [`Report::bounded`](crate::Report::bounded) keeps no such result, but SQL can write any.
pub fn stored_result(text: &str) -> Value {
    let as_text = |_| Value::String(text.to_owned());
    serde_json::from_str(text).map_or_else(as_text, shallow)
}

/// Whether any string or object key in `value` contains U+0000, which PostgreSQL cannot store.
pub(crate) fn contains_nul(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(items) => items.iter().any(contains_nul),
        Value::Object(map) => map
            .iter()
            .any(|(key, value)| key.contains('\0') || contains_nul(value)),
        _ => false,
    }
}

/// `value` with every U+0000 replaced by U+FFFD.
pub(crate) fn without_nul(value: Value) -> Value {
    if !contains_nul(&value) {
        return value;
    }
    let clean = |text: String| text.replace('\0', "\u{FFFD}");
    match value {
        Value::String(text) => Value::String(clean(text)),
        Value::Array(items) => items.into_iter().map(without_nul).collect(),
        Value::Object(map) => map
            .into_iter()
            .map(|(key, value)| (clean(key), without_nul(value)))
            .collect(),
        other => other,
    }
}

/// Length of the compact JSON text of `value`.
pub(crate) fn json_bytes(value: &impl serde::Serialize) -> usize {
    struct Counter(usize);
    impl std::io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    serde_json::to_writer(&mut counter, value).expect("invariant: JSON values serialise");
    counter.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn headers_are_read_exactly_or_not_at_all() {
        let text = r#"{"a":1.50,"b":[0.1,-7,18446744073709551615,1e300],"c":"x"}"#;
        let expected = json!({"a": 1.5, "b": [0.1, -7, u64::MAX, 1e300], "c": "x"});
        assert_eq!(Value::Object(read_headers(text).unwrap()), expected);
        for (text, place) in [
            (r#"{"n":12345678901234567890123}"#, "n"),
            (r#"{"n":[0.12345678901234567890]}"#, "n[0]"),
            (r#"{"n":1e400}"#, "n"),
            (r#"{"a":{"n":1,"n":1}}"#, "a.n"),
            ("[]", ""),
        ] {
            assert_eq!(read_headers(text).unwrap_err().place, place, "{text}");
        }
        let blank = |bytes: usize| format!("{{{}}}", " ".repeat(bytes - 2));
        assert!(read_headers(&blank(TEXT_MAX)).is_ok());
        let refused = read_headers(&blank(TEXT_MAX + 1)).unwrap_err();
        assert!(refused.why.contains("65536 bytes"), "{}", refused.why);
    }

    #[test]
    fn depth_counts_lists_and_objects() {
        assert!(!deeper_than(&json!(1), 0));
        assert!(!deeper_than(&json!([{"a": 1}]), 2));
        assert!(deeper_than(&json!([{"a": [1]}]), 2));
    }

    #[test]
    fn a_result_that_is_too_deep_is_text() {
        let nested = |levels: usize| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
        for levels in [0, 1, PAYLOAD_DEPTH_MAX, 101, 127, 128, 10_000] {
            let text = nested(levels);
            let shown = stored_result(&text);
            match levels {
                0..=PAYLOAD_DEPTH_MAX => assert_eq!(shown.to_string(), text),
                _ => assert_eq!(shown, Value::String(text)),
            }
        }
    }

    #[test]
    fn nul_is_found_in_keys_and_values_at_any_depth() {
        assert!(contains_nul(&json!({"a": [{"b": "x\u{0}"}]})));
        assert!(contains_nul(&json!({"a\u{0}": 1})));
        assert!(!contains_nul(&json!({"a": "\\u0000"})));
        assert_eq!(
            without_nul(json!({"a\u{0}": ["\u{0}"]})),
            json!({"a\u{FFFD}": ["\u{FFFD}"]})
        );
    }
}
