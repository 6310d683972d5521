//! JSON read strictly: every number as it was written, no key twice, not too deep.
//!
//! `serde_json::Value` keeps the last of two equal keys and turns amounts into floating point. A
//! digest over such a value would call different orders equal, so requests are read with this.

use std::{collections::BTreeSet, fmt};

use serde::{
    Deserializer as _,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;
use unicode_normalization::UnicodeNormalization;

mod number;

pub use number::Number;

/// How deep lists and objects may be within each other.
pub const DEPTH_MAX: usize = 32;

/// How much of a name is told, and of how many: what a text of a megabyte can make us write about
/// it must not be a gigabyte.
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
    /// Text, as written but for its escapes.
    Text(String),
    /// A list.
    List(Vec<Json>),
    /// An object: its members in the order they came.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// The member of this name; none if there is none, or if this is no object.
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

/// Why a text is not accepted as JSON.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JsonError {
    /// It is not JSON: a mistake of form, `NaN`, bytes that are no UTF-8.
    #[error("not valid JSON: {0}")]
    Syntax(String),
    /// Lists and objects are too deep in each other.
    #[error("lists and objects are more than {DEPTH_MAX} deep in each other")]
    TooDeep,
    /// A number whose exponent nobody means.
    #[error("the number at {0} has an exponent beyond {exponent}", exponent = number::EXPONENT_MAX)]
    Exponent(String),
    /// A text that no database keeps.
    #[error("the text at {0} holds U+0000")]
    Nul(String),
}

/// What was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// The value.
    pub root: Json,
    /// The paths of members whose name came more than once, such as `risk_constraints.max_dd`.
    /// Names are the same that are the same after NFC; the first 16 are told. Not empty: refuse the
    /// document.
    pub repeats: Vec<String>,
}

/// Reads JSON.
pub fn parse(text: &[u8]) -> Result<Document, JsonError> {
    let raw: &RawValue = serde_json::from_slice(text).map_err(syntax)?;
    let mut reader = Reader::default();
    let root = reader.value(raw.get(), 0)?;
    Ok(Document {
        root,
        repeats: reader.repeats,
    })
}

/// The same, for what a store is given: no name twice, and what is wrong in words.
pub fn parse_strict(text: &str) -> Result<Json, String> {
    let document = parse(text.as_bytes()).map_err(|error| error.to_string())?;
    match document.repeats.first() {
        Some(path) => Err(format!("{path} comes more than once")),
        None => Ok(document.root),
    }
}

/// The message tells the place and the kind of mistake; values never stand in it.
fn syntax(error: serde_json::Error) -> JsonError {
    JsonError::Syntax(error.to_string())
}

#[derive(Default)]
struct Reader {
    /// The names and positions that lead to the value being read.
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

    /// Where we are, for people.
    fn place(&self) -> String {
        match self.path.as_slice() {
            [] => "the top".to_owned(),
            path => path.join(".").replace('\0', "\u{FFFD}"),
        }
    }
}

/// The members of an object with their values unread.
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
