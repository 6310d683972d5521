//! Payloads: JSON documents, kept exactly.
//!
//! Numbers are decimals of any size and never pass through floating point; texts are kept code
//! point by code point; an object holds each name once; the order of names and white space are not
//! kept. A payload is its canonical text, so that every store holds and every sink sends the same
//! bytes. PostgreSQL's `jsonb` draws the same distinctions, which a test of the PostgreSQL store
//! checks against a server.

mod canonical;
mod error;
mod exact;
mod number;
mod value;

use std::{
    borrow::Cow,
    collections::BTreeMap,
    fmt,
    hash::{Hash, Hasher},
    str::FromStr,
};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de, de::DeserializeOwned, ser};
use serde_json::{Value, value::RawValue};
use sha2::{Digest, Sha256};

pub(crate) use self::value::{contains_nul, deeper_than, json_bytes, shallow, without_nul};
use self::{canonical::canonical, error::Fault};
pub use self::{
    error::PayloadError,
    exact::exact_value,
    value::{exact_headers, stored_result},
};
use crate::{PAYLOAD_BYTES_MAX, hex};

/// What a message delivers: a JSON document as its canonical text.
///
/// The text has its names sorted, no white space, and numbers as PostgreSQL's `numeric` prints
/// them: no exponent, the scale kept. Two payloads are equal when `jsonb` calls them equal: numbers
/// by value, names in any order.
#[derive(Clone)]
pub struct Payload {
    text: Box<str>,
    /// Why no store can keep it: a [`Value`] may hold what a payload must not, and is refused when
    /// it is enqueued.
    refusal: Option<Box<PayloadError>>,
}

impl Payload {
    /// Reads a JSON text.
    pub fn parse(text: &str) -> Result<Self, PayloadError> {
        Self::parse_within(text, PAYLOAD_BYTES_MAX)
    }

    /// The same, refused where its canonical text is longer than `bytes_max`. Eight bytes such as
    /// `1e131071` can be 128 KiB written out; what is too long is not built.
    pub fn parse_within(text: &str, bytes_max: usize) -> Result<Self, PayloadError> {
        match canonical(text, bytes_max) {
            Ok(canonical) => Ok(Self {
                text: canonical.into(),
                refusal: None,
            }),
            Err(located) if located.fault == Fault::Syntax => Err(not_json(text)),
            Err(located) => Err(located.into_error()),
        }
    }

    /// The payload of a Rust value. Raw JSON in it ([`RawValue`], another payload) stays exact.
    pub fn of(value: &impl Serialize) -> Result<Self, PayloadError> {
        let text = serde_json::to_string(value).map_err(|error| PayloadError {
            place: String::new(),
            why: format!("cannot be written as JSON: {error}"),
            is_syntax: false,
        })?;
        Self::parse(&text)
    }

    /// The same, never failing: a value that no store can keep (U+0000 in a text, too deep, too
    /// long) makes a payload whose enqueue is refused.
    pub fn deferred(value: &impl Serialize) -> Self {
        Self::of(value).unwrap_or_else(|error| Self {
            text: serde_json::to_string(value).unwrap_or_default().into(),
            refusal: Some(Box::new(error)),
        })
    }

    /// The canonical text: what stores keep and sinks send.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Reads the document into a Rust value. A [`Value`] turns numbers that are no 64-bit integer
    /// into floating point, so read amounts into something else.
    pub fn read<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        serde_json::from_str(&self.text)
    }

    /// The members of an object by their names; none if it is none.
    pub fn members(&self) -> Option<BTreeMap<String, Self>> {
        if !self.text.starts_with('{') {
            return None;
        }
        // Parts of a canonical text are canonical.
        let member = |(name, raw): (String, &RawValue)| {
            let text = raw.get().into();
            let refusal = None;
            (name, Self { text, refusal })
        };
        let members: BTreeMap<String, &RawValue> = serde_json::from_str(&self.text).ok()?;
        Some(members.into_iter().map(member).collect())
    }

    /// The text of a JSON string; none if it is none.
    pub fn text(&self) -> Option<String> {
        self.text.starts_with('"').then(|| self.read().ok())?
    }

    /// Why no store can keep it, if that is so.
    pub(crate) fn refusal(&self) -> Option<&PayloadError> {
        self.refusal.as_deref()
    }

    /// SHA-256 of what equal payloads have in common: a store keeps it when the payload itself is gone.
    pub fn digest(&self) -> [u8; 32] {
        Sha256::digest(self.identity().as_bytes()).into()
    }

    /// The digest in lower-case hex.
    pub fn digest_hex(&self) -> String {
        hex(&self.digest())
    }

    /// A text that is the same for all payloads that are equal: without the zeros that end a
    /// fraction.
    fn identity(&self) -> Cow<'_, str> {
        if !self.text.contains('.') {
            return Cow::Borrowed(&self.text);
        }
        let mut identity = String::with_capacity(self.text.len());
        let mut rest = &*self.text;
        // A number begins outside of texts only, so texts are copied whole.
        while let Some(at) = rest.find(|c: char| c == '"' || c.is_ascii_digit()) {
            identity.push_str(&rest[..at]);
            rest = &rest[at..];
            let end = if rest.starts_with('"') {
                end_of_string(rest)
            } else {
                let is_number = |c: char| c.is_ascii_digit() || c == '.';
                rest.find(|c| !is_number(c)).unwrap_or(rest.len())
            };
            let token = &rest[..end];
            let is_fraction = !token.starts_with('"') && token.contains('.');
            identity.push_str(if is_fraction {
                token.trim_end_matches('0').trim_end_matches('.')
            } else {
                token
            });
            rest = &rest[end..];
        }
        identity.push_str(rest);
        Cow::Owned(identity)
    }
}

/// Where the text that `json` begins with ends, its closing quote included.
fn end_of_string(json: &str) -> usize {
    let mut is_escaped = false;
    let is_end = |(_, byte): &(usize, u8)| {
        let is_end = *byte == b'"' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        is_end
    };
    let end = json.bytes().enumerate().skip(1).find(is_end);
    end.map_or(json.len(), |(at, _)| at + 1)
}

/// The parser's words for a mistake of form, with line and column.
fn not_json(text: &str) -> PayloadError {
    let why = match serde_json::from_str::<de::IgnoredAny>(text) {
        Err(error) => error.to_string(),
        Ok(_) => "is not JSON".to_owned(),
    };
    PayloadError {
        place: String::new(),
        why,
        is_syntax: true,
    }
}

/// As [`Payload::deferred`].
impl From<Value> for Payload {
    fn from(value: Value) -> Self {
        Self::deferred(&value)
    }
}

impl FromStr for Payload {
    type Err = PayloadError;

    fn from_str(text: &str) -> Result<Self, PayloadError> {
        Self::parse(text)
    }
}

impl PartialEq for Payload {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text || self.identity() == other.identity()
    }
}

impl Eq for Payload {}

impl PartialEq<Value> for Payload {
    fn eq(&self, other: &Value) -> bool {
        let other = Self::deferred(other);
        *self == other
    }
}

impl Hash for Payload {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.identity().hash(state);
    }
}

impl fmt::Display for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Payload({})", self.text)
    }
}

impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(&self.text).map_err(ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

/// From `serde_json` only; not inside flattened, untagged or internally tagged types, which turn
/// numbers into floating point before they reach it.
impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Self::parse(raw.get()).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod foreign;
#[cfg(test)]
mod tests;
