//! The arguments of a tool, taken one by one; the rest is unknown.

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::Refusal;

/// The arguments of a call.
pub(crate) struct Arguments {
    fields: Map<String, Value>,
    /// The first argument with U+0000, which PostgreSQL cannot store.
    has_nul: Option<String>,
}

type ArgumentResult<T> = Result<T, Refusal>;

impl Arguments {
    pub(crate) fn new(fields: Map<String, Value>) -> Self {
        let has_nul = fields
            .iter()
            .find(|(name, value)| name.contains('\0') || has_nul(value));
        Self {
            has_nul: has_nul.map(|(name, _)| name.replace('\0', "")),
            fields,
        }
    }

    /// A text without taking it.
    pub(crate) fn peek(&self, name: &str) -> Option<&str> {
        self.fields.get(name).and_then(Value::as_str)
    }

    /// Any value; null counts as absent.
    pub(crate) fn value(&mut self, name: &str) -> Option<Value> {
        self.fields.remove(name).filter(|value| !value.is_null())
    }

    pub(crate) fn text(&mut self, name: &str) -> ArgumentResult<Option<String>> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(mistyped(name, &other, "a text")),
        }
    }

    /// A required text, possibly empty.
    pub(crate) fn required(&mut self, name: &str) -> ArgumentResult<String> {
        self.text(name)?.ok_or_else(|| missing(name))
    }

    /// A required text that is not empty.
    pub(crate) fn named(&mut self, name: &str) -> ArgumentResult<String> {
        let text = self.required(name)?;
        if text.trim().is_empty() {
            Err(wrong(name, "is empty; give a text"))
        } else {
            Ok(text)
        }
    }

    pub(crate) fn flag(&mut self, name: &str) -> ArgumentResult<Option<bool>> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(flag)),
            Some(other) => Err(mistyped(name, &other, "true or false")),
        }
    }

    pub(crate) fn whole(&mut self, name: &str) -> ArgumentResult<Option<i64>> {
        let Some(value) = self.value(name) else {
            return Ok(None);
        };
        let whole = value.as_i64();
        whole
            .map(Some)
            .ok_or_else(|| mistyped(name, &value, "a whole number"))
    }

    /// A limit with its maximum.
    pub(crate) fn limit(&mut self, name: &str, default: u32, most: u32) -> ArgumentResult<u32> {
        let Some(limit) = self.whole(name)? else {
            return Ok(default);
        };
        match u32::try_from(limit) {
            Ok(limit) if (1..=most).contains(&limit) => Ok(limit),
            _ => Err(wrong(name, &format!("is {limit}; must be 1 to {most}"))),
        }
    }

    pub(crate) fn object(&mut self, name: &str) -> ArgumentResult<Option<Map<String, Value>>> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::Object(fields)) => Ok(Some(fields)),
            Some(other) => Err(mistyped(name, &other, "an object")),
        }
    }

    pub(crate) fn list(&mut self, name: &str) -> ArgumentResult<Vec<Value>> {
        match self.value(name) {
            None => Ok(Vec::new()),
            Some(Value::Array(values)) => Ok(values),
            Some(other) => Err(mistyped(name, &other, "a list")),
        }
    }

    pub(crate) fn texts(&mut self, name: &str) -> ArgumentResult<Vec<String>> {
        let texts = self.list(name)?.into_iter().map(|value| match value {
            Value::String(text) => Ok(text),
            other => Err(mistyped(name, &other, "a list of texts")),
        });
        texts.collect()
    }

    /// A time with a zone.
    pub(crate) fn time(&mut self, name: &str) -> ArgumentResult<Option<Timestamp>> {
        let Some(text) = self.text(name)? else {
            return Ok(None);
        };
        let time = text.parse().map(Some);
        time.map_err(|_| {
            let text = consign_kernel::quoted(&text);
            let why =
                format!("is {text}; must be a time with a zone, such as 2026-01-30T10:00:00Z");
            wrong(name, &why)
        })
    }

    /// All arguments that were not taken.
    pub(crate) fn rest(self) -> Map<String, Value> {
        self.fields
    }

    /// Rejects arguments that were not taken: a misspelt name must not be ignored.
    pub(crate) fn end(self) -> ArgumentResult<()> {
        if let Some(name) = &self.has_nul {
            return Err(wrong(name, NUL));
        }
        let Some(name) = self.fields.keys().next() else {
            return Ok(());
        };
        Err(wrong(name, "is not an argument of this tool"))
    }
}

/// Why text with U+0000 is rejected: PostgreSQL cannot store it, and both stores must accept the
/// same.
pub(crate) const NUL: &str = "must not contain U+0000";

/// Whether it contains U+0000.
pub(crate) fn has_nul(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(values) => values.iter().any(has_nul),
        Value::Object(fields) => {
            let mut fields = fields.iter();
            fields.any(|(name, value)| name.contains('\0') || has_nul(value))
        }
        _ => false,
    }
}

pub(crate) fn missing(name: &str) -> Refusal {
    Refusal::new("MISSING_REQUIRED_PARAMETER", format!("{name} is missing"))
        .with_details(serde_json::json!({"parameter": name}))
}

pub(crate) fn wrong(name: &str, why: &str) -> Refusal {
    Refusal::new("INVALID_PARAMETER", format!("{name} {why}"))
        .with_details(serde_json::json!({"parameter": name}))
}

/// An argument of another type. Texts, lists and objects may be contents and are not repeated.
fn mistyped(name: &str, value: &Value, expected: &str) -> Refusal {
    let given = match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(_) => "a text".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    };
    wrong(name, &format!("is {given}; must be {expected}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn arguments(value: Value) -> Arguments {
        let Value::Object(fields) = value else {
            panic!("an object")
        };
        Arguments::new(fields)
    }

    #[test]
    fn arguments_are_what_they_must_be() {
        let mut good = arguments(json!({
            "text": "", "flag": true, "whole": -3, "limit": 5, "object": {}, "texts": ["a"], "null": null,
        }));
        assert_eq!(good.required("text").unwrap(), "");
        assert_eq!(good.flag("flag").unwrap(), Some(true));
        assert_eq!(good.whole("whole").unwrap(), Some(-3));
        assert_eq!(good.limit("limit", 10, 100).unwrap(), 5);
        assert_eq!(good.limit("absent", 10, 100).unwrap(), 10);
        assert_eq!(good.object("object").unwrap(), Some(Map::new()));
        assert_eq!(good.texts("texts").unwrap(), ["a"]);
        assert_eq!(good.text("null").unwrap(), None);
        good.end().unwrap();
    }

    #[test]
    fn what_they_must_not_be_is_named() {
        type Take = fn(&mut Arguments) -> Result<(), Refusal>;
        let table: [(Value, Take, &str); 8] = [
            (
                json!({}),
                |a| a.required("x").map(drop),
                "MISSING_REQUIRED_PARAMETER",
            ),
            (
                json!({"x": null}),
                |a| a.required("x").map(drop),
                "MISSING_REQUIRED_PARAMETER",
            ),
            (
                json!({"x": 1}),
                |a| a.text("x").map(drop),
                "INVALID_PARAMETER",
            ),
            (
                json!({"x": " "}),
                |a| a.named("x").map(drop),
                "INVALID_PARAMETER",
            ),
            (
                json!({"x": 1.5}),
                |a| a.whole("x").map(drop),
                "INVALID_PARAMETER",
            ),
            (
                json!({"x": 0}),
                |a| a.limit("x", 1, 9).map(drop),
                "INVALID_PARAMETER",
            ),
            (
                json!({"x": [1]}),
                |a| a.texts("x").map(drop),
                "INVALID_PARAMETER",
            ),
            (
                json!({"x": []}),
                |a| a.object("x").map(drop),
                "INVALID_PARAMETER",
            ),
        ];
        for (index, (value, take, code)) in table.into_iter().enumerate() {
            let refusal = take(&mut arguments(value)).unwrap_err();
            assert_eq!(refusal.code, code, "case {index}");
            assert!(refusal.message.starts_with('x'), "{}", refusal.message);
        }
        let refusal = arguments(json!({"payload": "x"})).end().unwrap_err();
        assert_eq!(refusal.message, "payload is not an argument of this tool");
    }
}
