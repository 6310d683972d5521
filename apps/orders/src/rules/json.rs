//! Strict JSON: numbers as written, no repeated names, bounded depth.
//!
//! `serde_json::Value` keeps the last of two equal names and turns amounts into floating point. A
//! digest over such a value would treat different orders as equal.

use std::{collections::BTreeSet, fmt};

use serde::{
    Deserializer as _,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;
use unicode_normalization::UnicodeNormalization;

mod number;

pub use number::Number;

/// Maximum nesting of lists and objects.
pub const DEPTH_MAX: usize = 32;

/// Bounds the names in errors, and their number: a body of a megabyte must not produce an error of
/// a gigabyte.
const NAME_CHARS_MAX: usize = 64;
const REPEATS_MAX: usize = 16;

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number, as written.
    Number(Number),
    /// Text as written, unescaped.
    Text(String),
    /// A list.
    List(Vec<Json>),
    /// An object: its members in document order.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// The member of this name; `None` if it is absent or this is not an object.
    pub fn get(&self, name: &str) -> Option<&Json> {
        let Self::Object(members) = self else {
            return None;
        };
        let (_, value) = members.iter().find(|(key, _)| key == name)?;
        Some(value)
    }

    /// The text, if it is one.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// Why a text is rejected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JsonError {
    /// Not JSON: a syntax error, `NaN`, or invalid UTF-8.
    #[error("not valid JSON: {0}")]
    Syntax(String),
    /// Nested too deeply.
    #[error("lists and objects are nested more than {DEPTH_MAX} deep")]
    TooDeep,
    /// A number with an exponent out of bounds.
    #[error("the number at {0} has an exponent beyond {exponent}", exponent = number::EXPONENT_MAX)]
    Exponent(String),
    /// Text with U+0000, which PostgreSQL cannot store.
    #[error("the text at {0} contains U+0000")]
    Nul(String),
}

/// A parsed document.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// The value.
    pub root: Json,
    /// The paths of repeated names, such as `risk_constraints.max_dd`. Names are compared after
    /// NFC; at most 16 are listed. A document with repeats must be rejected.
    pub repeats: Vec<String>,
}

/// Parses JSON.
pub fn parse(text: &[u8]) -> Result<Document, JsonError> {
    let raw: &RawValue = serde_json::from_slice(text).map_err(syntax)?;
    let mut reader = Reader::default();
    let root = reader.value(raw.get(), 0)?;
    Ok(Document {
        root,
        repeats: reader.repeats,
    })
}

/// Parses JSON and rejects repeated names, with the error as text.
pub fn parse_strict(text: &str) -> Result<Json, String> {
    let document = parse(text.as_bytes()).map_err(|error| error.to_string())?;
    match document.repeats.first() {
        Some(path) => Err(format!("{path} occurs more than once")),
        None => Ok(document.root),
    }
}

/// Position and kind of the error; never contains values.
fn syntax(error: serde_json::Error) -> JsonError {
    JsonError::Syntax(error.to_string())
}

#[derive(Default)]
struct Reader {
    /// Names and indexes that lead to the current value.
    path: Vec<String>,
    repeats: Vec<String>,
}

impl Reader {
    fn value(&mut self, raw: &str, depth: usize) -> Result<Json, JsonError> {
        let is_nested = raw.starts_with(['{', '[']);
        if is_nested && depth == DEPTH_MAX {
            return Err(JsonError::TooDeep);
        }
        match raw.as_bytes().first() {
            Some(b'{') => self.object(raw, depth),
            Some(b'[') => self.list(raw, depth),
            Some(b'"') => Ok(Json::Text(self.text(raw)?)),
            Some(b't') => Ok(Json::Bool(true)),
            Some(b'f') => Ok(Json::Bool(false)),
            Some(b'n') => Ok(Json::Null),
            _ => {
                let number = Number::parse(raw);
                Ok(Json::Number(
                    number.ok_or_else(|| JsonError::Exponent(self.place()))?,
                ))
            }
        }
    }

    fn text(&self, raw: &str) -> Result<String, JsonError> {
        let text: String = serde_json::from_str(raw).map_err(syntax)?;
        if text.contains('\0') {
            return Err(JsonError::Nul(self.place()));
        }
        Ok(text)
    }

    fn list(&mut self, raw: &str, depth: usize) -> Result<Json, JsonError> {
        let items: Vec<&RawValue> = serde_json::from_str(raw).map_err(syntax)?;
        let mut list = Vec::with_capacity(items.len());
        for (index, item) in items.into_iter().enumerate() {
            self.path.push(index.to_string());
            list.push(self.value(item.get(), depth + 1)?);
            self.path.pop();
        }
        Ok(Json::List(list))
    }

    fn object(&mut self, raw: &str, depth: usize) -> Result<Json, JsonError> {
        let mut deserializer = serde_json::Deserializer::from_str(raw);
        let members = deserializer.deserialize_map(Members).map_err(syntax)?;
        let mut names = BTreeSet::new();
        let mut object = Vec::with_capacity(members.len());
        for (name, value) in members {
            self.path.push(name.chars().take(NAME_CHARS_MAX).collect());
            if name.contains('\0') {
                return Err(JsonError::Nul(self.place()));
            }
            let is_repeat = !names.insert(name.nfc().collect::<String>());
            if is_repeat && self.repeats.len() < REPEATS_MAX {
                self.repeats.push(self.place());
            }
            object.push((name, self.value(value.get(), depth + 1)?));
            self.path.pop();
        }
        Ok(Json::Object(object))
    }

    /// The current path, for errors.
    fn place(&self) -> String {
        match self.path.as_slice() {
            [] => "the top level".to_owned(),
            path => path.join(".").replace('\0', "\u{FFFD}"),
        }
    }
}

/// The members of an object, values unparsed.
struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Vec<(String, &'de RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(members)
    }
}

#[cfg(test)]
mod tests;
