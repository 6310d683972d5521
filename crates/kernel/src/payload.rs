//! What makes two payloads the same payload.

use serde_json::{Number, Value};

/// Whether two payloads mean the same: object keys in any order, numbers compared by value.
///
/// PostgreSQL compares `jsonb` this way (`1` equals `1.0`); every store must agree, or a repeated
/// key would be a replay in one and a conflict in the other.
pub fn same_payload(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => same_number(a, b),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_payload(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter()
                    .all(|(key, a)| b.get(key).is_some_and(|b| same_payload(a, b)))
        }
        _ => a == b,
    }
}

fn same_number(a: &Number, b: &Number) -> bool {
    match (integer(a), integer(b)) {
        (Some(a), Some(b)) => a == b,
        // Squeezing a large integer through f64 would call different numbers the same.
        (Some(whole), None) => is_exactly(b, whole),
        (None, Some(whole)) => is_exactly(a, whole),
        (None, None) => a.as_f64() == b.as_f64(),
    }
}

fn integer(number: &Number) -> Option<i128> {
    number
        .as_i64()
        .map(i128::from)
        .or_else(|| number.as_u64().map(i128::from))
}

fn is_exactly(float: &Number, whole: i128) -> bool {
    float
        .as_f64()
        .is_some_and(|float| float.fract() == 0.0 && float as i128 == whole)
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
    fn numbers_compare_by_value_and_objects_by_content() {
        assert!(same_payload(
            &json!({"a": 1, "b": [2.0]}),
            &json!({"b": [2], "a": 1.0})
        ));
        assert!(!same_payload(&json!({"a": 1}), &json!({"a": "1"})));
        assert!(!same_payload(&json!([1, 2]), &json!([2, 1])));
        assert!(!same_payload(&json!({"a": null}), &json!({})));
        let (a, b) = (
            json!(9_007_199_254_740_993_i64),
            json!(9_007_199_254_740_992_i64),
        );
        assert!(
            !same_payload(&a, &b),
            "integers are not squeezed through f64"
        );
    }

    #[test]
    fn depth_counts_lists_and_objects() {
        assert!(!deeper_than(&json!(1), 0));
        assert!(!deeper_than(&json!([{"a": 1}]), 2));
        assert!(deeper_than(&json!([{"a": [1]}]), 2));
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
