//! Arguments as received, and problems of their text.

use consign_kernel::{PayloadError, exact_value};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::Refusal;

/// A problem of the JSON text that a [`Value`] does not show: a repeated name, or a number that
/// would be rounded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArgumentFault {
    place: String,
    why: String,
}

impl ArgumentFault {
    /// The first problem in the JSON text of arguments. Invalid JSON is reported by its parser.
    pub fn find(arguments: &str) -> Option<Self> {
        let PayloadError {
            place,
            why,
            is_syntax,
        } = exact_value(arguments).err()?;
        (!is_syntax).then_some(Self { place, why })
    }

    /// The rejection of the affected argument.
    pub(super) fn refusal(self) -> Refusal {
        let Self { place, why } = self;
        let name = place.split(['.', '[']).next().unwrap_or_default();
        let (name, place) = if name.is_empty() {
            ("arguments", format!("arguments{place}"))
        } else {
            (name, place.clone())
        };
        Refusal::new("INVALID_PARAMETER", format!("{place} {why}"))
            .with_details(json!({"parameter": name}))
    }
}

/// The arguments of a tool call.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolArguments {
    /// The parsed value.
    pub value: Value,
    /// Why they are rejected anyway.
    pub fault: Option<ArgumentFault>,
}

impl ToolArguments {
    /// Parses a JSON text.
    pub fn parse(text: &str) -> serde_json::Result<Self> {
        Ok(Self {
            value: serde_json::from_str(text)?,
            fault: ArgumentFault::find(text),
        })
    }
}

/// From a program: nothing was lost.
impl From<Value> for ToolArguments {
    fn from(value: Value) -> Self {
        Self { value, fault: None }
    }
}

impl From<Map<String, Value>> for ToolArguments {
    fn from(fields: Map<String, Value>) -> Self {
        Value::Object(fields).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_names_its_argument_and_its_place() {
        for (text, name, begins) in [
            (
                r#"{"x": {"n": [0.12345678901234567890]}}"#,
                "x",
                "x.n[0] is a number",
            ),
            (r#"{"x": 1, "x": 1}"#, "x", "x is a duplicate name"),
            (
                r#"{"a b": 1, "a b": 1}"#,
                "arguments",
                "arguments[\"a b\"] is a duplicate",
            ),
        ] {
            let refusal = ArgumentFault::find(text).unwrap().refusal();
            assert_eq!(refusal.code, "INVALID_PARAMETER");
            assert_eq!(refusal.details, Some(json!({"parameter": name})), "{text}");
            assert!(refusal.message.starts_with(begins), "{}", refusal.message);
        }
        assert_eq!(ArgumentFault::find("{"), None);
        assert_eq!(
            ArgumentFault::find(r#"{"x": [1.5, 18446744073709551615]}"#),
            None
        );
    }
}
