//! What a setting may be.

use consign_server::listen_address;
use serde_json::Value;

/// What a setting may be.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Text.
    Text,
    /// Text that is never shown.
    Secret,
    /// An address that may hold a password.
    Url,
    /// Where to listen.
    Address,
    /// True or false.
    Flag,
    /// A whole number in a range.
    Whole(u64, u64),
    /// A number in a range.
    Number(f64, f64),
    /// A decimal number, as text or as a number.
    Decimal,
    /// One of a few words.
    Word(&'static [&'static str]),
    /// A list of texts.
    Texts,
    /// A list of whole numbers.
    Wholes,
    /// A list of numbers.
    Numbers,
    /// Whatever its reader accepts: the settings of a sink.
    Any,
}

impl Kind {
    /// Rejects a value of another kind, with an error text.
    pub fn check(self, value: &Value) -> Result<(), String> {
        if self.fits(value) {
            return Ok(());
        }
        match self {
            // Even a secret of the wrong kind is one.
            Self::Secret => Err("expected text".to_owned()),
            _ => Err(format!("expected {}, found {}", self.words(), found(value))),
        }
    }

    fn fits(self, value: &Value) -> bool {
        match (self, value) {
            (Self::Any, value) => !value.is_null(),
            (Self::Text | Self::Secret | Self::Url, Value::String(_))
            | (Self::Flag, Value::Bool(_)) => true,
            (Self::Address, Value::String(text)) => listen_address(text).is_ok(),
            (Self::Whole(min, max), Value::Number(number)) => number
                .as_u64()
                .is_some_and(|number| (min..=max).contains(&number)),
            (Self::Number(min, max), Value::Number(number)) => number
                .as_f64()
                .is_some_and(|number| (min..=max).contains(&number)),
            (Self::Decimal, Value::String(_) | Value::Number(_)) => true,
            (Self::Word(words), Value::String(word)) => words.contains(&word.as_str()),
            (Self::Texts, Value::Array(items)) => items.iter().all(Value::is_string),
            (Self::Wholes, Value::Array(items)) => items.iter().all(Value::is_u64),
            (Self::Numbers, Value::Array(items)) => items.iter().all(Value::is_number),
            _ => false,
        }
    }

    /// What is expected, for people.
    pub fn words(self) -> String {
        match self {
            Self::Text | Self::Secret => "text".into(),
            Self::Url => "an address".into(),
            Self::Address => {
                "an address and a port, such as \"127.0.0.1:8787\" or \"localhost:8787\"".into()
            }
            Self::Flag => "true or false".into(),
            Self::Whole(min, u64::MAX) => format!("a whole number of at least {min}"),
            Self::Whole(min, max) => format!("a whole number from {min} to {max}"),
            Self::Number(min, max) if max == f64::MAX => format!("a number of at least {min}"),
            Self::Number(min, max) => format!("a number from {min} to {max}"),
            Self::Decimal => "a decimal number, such as \"0.01\"".into(),
            Self::Word(words) => {
                let quoted: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
                quoted.join(" or ")
            }
            Self::Texts => "a list of texts".into(),
            Self::Wholes => "a list of whole numbers".into(),
            Self::Numbers => "a list of numbers".into(),
            Self::Any => "a value".into(),
        }
    }

    /// The value of a variable's text; what fits no kind stays text and is rejected later.
    pub fn parse(self, text: &str) -> Value {
        let trimmed = text.trim();
        let as_json = || serde_json::from_str::<Value>(trimmed).ok();
        let scalar = |value: &Value| !value.is_null() && !value.is_string();
        match self {
            Self::Text
            | Self::Secret
            | Self::Url
            | Self::Address
            | Self::Decimal
            | Self::Word(_) => text.into(),
            Self::Flag => flag(trimmed).map_or_else(|| text.into(), Value::Bool),
            Self::Whole(..) | Self::Number(..) | Self::Any => {
                as_json().filter(scalar).unwrap_or_else(|| text.into())
            }
            Self::Texts | Self::Wholes | Self::Numbers => {
                as_json().filter(Value::is_array).unwrap_or_else(|| {
                    let part = |part: &str| match self {
                        Self::Texts => part.trim().into(),
                        _ => Self::Any.parse(part),
                    };
                    let parts = trimmed.split(',').filter(|part| !part.trim().is_empty());
                    parts.map(part).collect()
                })
            }
        }
    }
}

/// A switch as people write it in variables.
fn flag(text: &str) -> Option<bool> {
    match text.to_lowercase().as_str() {
        "true" | "1" | "yes" | "on" => Some(true),
        "false" | "0" | "no" | "off" => Some(false),
        _ => None,
    }
}

/// What was found, without repeating anything that may be a secret.
fn found(value: &Value) -> String {
    match value {
        Value::Null => "nothing".into(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) if text.chars().count() <= 40 => format!("{text:?}"),
        Value::String(_) => "a long text".into(),
        Value::Array(_) => "a list that does not fit".into(),
        Value::Object(_) => "a table".into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_variable_is_read_as_what_its_setting_is() {
        let check = |kind: Kind, text: &str, expected: Value| {
            assert_eq!(kind.parse(text), expected, "{text}");
        };
        check(Kind::Text, "42", json!("42"));
        check(Kind::Whole(0, 9), " 4 ", json!(4));
        check(Kind::Whole(0, 9), "four", json!("four"));
        check(Kind::Flag, "true", json!(true));
        check(Kind::Flag, "False", json!(false));
        check(Kind::Flag, "1", json!(true));
        check(Kind::Flag, "maybe", json!("maybe"));
        check(Kind::Texts, "a, b", json!(["a", "b"]));
        check(Kind::Texts, r#"["a,b"]"#, json!(["a,b"]));
        check(Kind::Wholes, "5,30", json!([5, 30]));
        check(Kind::Wholes, "[5, 30]", json!([5, 30]));
        check(Kind::Numbers, "5, 0.5,20", json!([5, 0.5, 20]));
        check(Kind::Numbers, "[5,10,20]", json!([5, 10, 20]));
        check(Kind::Secret, "7", json!("7"));
        check(Kind::Any, "250", json!(250));
        check(Kind::Any, "http://x", json!("http://x"));
    }

    #[test]
    fn what_does_not_fit_is_refused_in_words() {
        let error_of = |kind: Kind, value: Value| kind.check(&value).unwrap_err();
        assert_eq!(
            error_of(Kind::Whole(1, 10), json!(0)),
            "expected a whole number from 1 to 10, found 0"
        );
        assert_eq!(
            error_of(Kind::Word(&["text", "json"]), json!("xml")),
            r#"expected "text" or "json", found "xml""#
        );
        assert_eq!(
            error_of(Kind::Text, json!({})),
            "expected text, found a table"
        );
        assert!(Kind::Number(0.0, 1.0).check(&json!(1)).is_ok());
        assert!(Kind::Wholes.check(&json!([1, "x"])).is_err());
    }
}
