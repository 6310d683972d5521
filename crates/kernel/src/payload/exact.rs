//! Whether a [`Value`] keeps a JSON text exactly.

use std::collections::BTreeSet;

use serde::de::IgnoredAny;
use serde_json::Value;

use super::{
    Payload, PayloadError, end_of_string,
    error::{Fault, FaultAt},
    not_json,
};

/// A double written out has at most so many bytes; a longer number is none.
const NUMBER_BYTES_MAX: usize = 2_048;

/// The parser of values goes no deeper.
const DEPTH_MAX: usize = 127;

/// Reads a JSON text into a [`Value`]; refuses a name that comes twice, and a number that the value
/// would round, with its place.
pub fn exact_value(text: &str) -> Result<Value, PayloadError> {
    let is_json = serde_json::from_str::<IgnoredAny>(text).is_ok();
    if !is_json {
        return Err(not_json(text));
    }
    let mut scanner = Scanner {
        rest: text,
        depth: 0,
    };
    scanner.value().map_err(FaultAt::into_error)?;
    serde_json::from_str(text).map_err(|error| PayloadError {
        place: String::new(),
        why: error.to_string(),
        is_syntax: true,
    })
}

/// Walks over a text that is JSON.
struct Scanner<'t> {
    rest: &'t str,
    depth: usize,
}

impl<'t> Scanner<'t> {
    /// The next character that is no white space, which stays.
    fn peek(&mut self) -> Option<u8> {
        self.rest = self.rest.trim_ascii_start();
        self.rest.as_bytes().first().copied()
    }

    fn take(&mut self, length: usize) -> &'t str {
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        taken
    }

    fn value(&mut self) -> Result<(), FaultAt> {
        match self.peek() {
            Some(b'{') => self.nested(Self::members),
            Some(b'[') => self.nested(Self::elements),
            Some(b'"') => {
                self.take(end_of_string(self.rest));
                Ok(())
            }
            _ => {
                let end = self.rest.find(|c: char| !is_part_of_word(c));
                let word = self.take(end.unwrap_or(self.rest.len()));
                if is_kept(word) {
                    Ok(())
                } else {
                    Err(Fault::Rounded.into())
                }
            }
        }
    }

    fn nested(&mut self, read: impl Fn(&mut Self) -> Result<(), FaultAt>) -> Result<(), FaultAt> {
        if self.depth == DEPTH_MAX {
            return Err(Fault::TooDeep.into());
        }
        self.depth += 1;
        read(self)?;
        self.depth -= 1;
        Ok(())
    }

    fn members(&mut self) -> Result<(), FaultAt> {
        let mut names = BTreeSet::new();
        self.take(1);
        while let Some(byte) = self.peek() {
            match byte {
                b'}' => break,
                b',' => {
                    self.take(1);
                }
                _ => {
                    let name = self.take(end_of_string(self.rest));
                    let inside = |fault: FaultAt| fault.in_member(&name[1..name.len() - 1]);
                    // Two spellings are one name.
                    let read: String = serde_json::from_str(name).unwrap_or_default();
                    if !names.insert(read) {
                        return Err(inside(Fault::DuplicateName.into()));
                    }
                    self.peek();
                    self.take(1);
                    self.value().map_err(inside)?;
                }
            }
        }
        self.take(1);
        Ok(())
    }

    fn elements(&mut self) -> Result<(), FaultAt> {
        let mut index = 0;
        self.take(1);
        while let Some(byte) = self.peek() {
            match byte {
                b']' => break,
                b',' => {
                    self.take(1);
                }
                _ => {
                    self.value().map_err(|fault| fault.in_element(index))?;
                    index += 1;
                }
            }
        }
        self.take(1);
        Ok(())
    }
}

fn is_part_of_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '+' | '.')
}

/// Whether a number stays what it is in a [`Value`]; `true`, `false` and `null` do.
fn is_kept(word: &str) -> bool {
    let is_number = word.starts_with(|c: char| c == '-' || c.is_ascii_digit());
    // Most numbers are small and whole.
    let is_small = word.len() < 16 && word.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number || is_small {
        return true;
    }
    let exact = Payload::parse_within(word, NUMBER_BYTES_MAX);
    exact.is_ok_and(|exact| serde_json::from_str::<Value>(word).is_ok_and(|read| exact == read))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_value_does_not_keep_is_refused_with_its_place() {
        for text in [
            "1",
            " [ ] ",
            r#"{"a": 1.50, "b": [0.1, -7, 18446744073709551615, 1e300, -0.0], "c": {"a": null}, "d": {}}"#,
            r#"["a\"b", "{\"n\":1,\"n\":1}", true, false, [[]], "\u0000"]"#,
        ] {
            let value: Value = serde_json::from_str(text).unwrap();
            assert_eq!(exact_value(text).unwrap(), value, "{text}");
        }
        for (text, place, why) in [
            (r#"{"d": 0.12345678901234567890}"#, "d", "rounded"),
            (r#"{"m": 100000000000000000.01}"#, "m", "rounded"),
            (
                r#"{"a": [0, {"n": 18446744073709551616}]}"#,
                "a[1].n",
                "rounded",
            ),
            ("[1, -9223372036854775809]", "[1]", "rounded"),
            ("1e-400", "", "rounded"),
            (r#"{"n": 1e400}"#, "n", "rounded"),
            ("1e99999999", "", "rounded"),
            (r#"{"a": {"n": 1, "n": 1}}"#, "a.n", "duplicate"),
            (
                r#"{"a": 1, "b": 2, "\u0061": 3}"#,
                "[\"\\u0061\"]",
                "duplicate",
            ),
            (r#"[{"a": 1, "a": 1}]"#, "[0].a", "duplicate"),
        ] {
            let refused = exact_value(text).unwrap_err();
            assert_eq!(refused.place, place, "{text}");
            assert!(refused.why.contains(why), "{text}: {}", refused.why);
        }
        assert!(exact_value("{").unwrap_err().is_syntax);
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(exact_value(&nested(127)).is_ok());
        let refused = exact_value(&nested(100_000)).unwrap_err();
        assert!(refused.why.contains("deep"), "{}", refused.why);
    }
}
