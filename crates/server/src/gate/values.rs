//! How many values a JSON text holds, without building them.

use crate::problem::{Problem, codes};

/// Most values of a body, payloads aside. An object of seven bytes takes hundreds once it is built.
pub(crate) const VALUES_MAX: usize = 100_000;

/// Rejects a text of too many values before anything is built of it.
pub fn check(text: &[u8]) -> Result<(), Problem> {
    let values = count(text);
    if values <= VALUES_MAX {
        return Ok(());
    }
    let detail = format!("body has {values} values; maximum {VALUES_MAX}");
    Err(Problem::new(codes::BODY_TOO_LARGE, detail).with("values_max", VALUES_MAX))
}

/// An upper bound: every list and object has one value more than it has commas, or none.
fn count(text: &[u8]) -> usize {
    let (mut values, mut is_string, mut is_escaped) = (1, false, false);
    for byte in text {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_string => is_escaped = true,
            b'"' => is_string = !is_string,
            b',' | b'[' | b'{' if !is_string => values += 1,
            _ => {}
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_count_as_one_whatever_they_hold() {
        for (text, values) in [
            ("0", 1),
            ("[1,2]", 3),
            (r#"{"a":{"b":[]},"c":0}"#, 5),
            (r#""[,{\",[\\\"""#, 1),
            (r#"["\\",[1]]"#, 4),
        ] {
            assert_eq!(count(text.as_bytes()), values, "{text}");
        }
    }

    #[test]
    fn refuses_one_value_too_many() {
        let list = |values: usize| format!("[{}0]", "0,".repeat(values - 2));
        assert!(check(list(VALUES_MAX).as_bytes()).is_ok());
        let refused = check(list(VALUES_MAX + 1).as_bytes()).unwrap_err();
        assert!(
            refused.detail.contains("100001 values; maximum 100000"),
            "{}",
            refused.detail
        );
    }
}
