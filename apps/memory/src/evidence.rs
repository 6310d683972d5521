//! The evidence of a memory.
//!
//! A request has either `evidence_refs`, a list of URIs (version 1), or `evidence`, a list of objects
//! with hashes (version 2). Both become [`Evidence`].

mod classify;
mod strict;

pub use self::{
    classify::{ClassifiedEvidence, classify},
    strict::{StrictReport, ValidateRefs, check_strict, resolve_validate_refs},
};

use serde_json::{Map, Value, json};

use crate::{
    payload_sha,
    uri::{mask_credentials, mask_credentials_in_fields},
};

/// Marks an item that was given as a URI. Callers cannot set it: it excuses a missing hash.
const LEGACY_MARK: &str = "evidence_refs_legacy";
const MARK_FIELD: &str = "_source";
/// SHA-256 of a URI whose credentials were masked: it still identifies the URI.
const GIVEN_FIELD: &str = "uri_sha256";
/// URIs in a summary.
const SHOWN_URIS: usize = 5;

/// The version in which evidence was given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EvidenceSource {
    /// Objects.
    V2,
    /// URIs.
    V1Mapped,
    /// No evidence.
    #[default]
    None,
}

impl EvidenceSource {
    /// The value in audits.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V2 => "v2",
            Self::V1Mapped => "v1_mapped",
            Self::None => "none",
        }
    }
}

/// One piece of evidence.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EvidenceItem {
    fields: Map<String, Value>,
    is_legacy: bool,
}

impl EvidenceItem {
    fn of_uri(uri: &str) -> Self {
        let fields = [
            ("uri".to_owned(), json!(uri)),
            ("sha256".to_owned(), json!("")),
        ];
        Self {
            fields: masked(Map::from_iter(fields)),
            is_legacy: true,
        }
    }

    fn of_value(value: &Value) -> Self {
        let mut fields = match value {
            Value::Object(fields) => fields.clone(),
            Value::String(uri) => Map::from_iter([("uri".to_owned(), json!(uri))]),
            _ => Map::new(),
        };
        fields.remove(MARK_FIELD);
        Self {
            fields: masked(fields),
            is_legacy: false,
        }
    }

    /// The URI; empty if absent.
    pub fn uri(&self) -> &str {
        let uri = self.fields.get("uri").and_then(Value::as_str);
        uri.unwrap_or_default().trim()
    }

    /// The hash; empty if absent.
    pub fn sha256(&self) -> &str {
        let sha256 = self.fields.get("sha256").and_then(Value::as_str);
        sha256.unwrap_or_default().trim()
    }

    /// Whether it was given as a URI.
    pub fn is_legacy(&self) -> bool {
        self.is_legacy
    }

    /// The value that the memory server stores.
    pub fn to_value(&self) -> Value {
        let mut fields = self.fields.clone();
        if self.is_legacy {
            fields.insert(MARK_FIELD.to_owned(), json!(LEGACY_MARK));
        }
        Value::Object(fields)
    }

    /// A field that is neither null nor empty.
    fn given(&self, name: &str) -> Option<&Value> {
        let value = self.fields.get(name)?;
        let is_empty = value.is_null() || value.as_str().is_some_and(str::is_empty);
        (!is_empty).then_some(value)
    }
}

/// Masks credentials.
fn masked(mut fields: Map<String, Value>) -> Map<String, Value> {
    let given = fields.get("uri").and_then(Value::as_str).map(str::trim);
    let given = given.filter(|uri| mask_credentials(uri) != *uri);
    let given = given.map(payload_sha);
    mask_credentials_in_fields(&mut fields);
    if let Some(sha256) = given {
        fields.insert(GIVEN_FIELD.to_owned(), json!(sha256));
    }
    fields
}

/// All evidence of a memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evidence {
    /// The items.
    pub items: Vec<EvidenceItem>,
    /// The version in which it was given.
    pub source: EvidenceSource,
}

/// The evidence of a request, credentials masked. Objects take precedence over URIs; empty URIs are left
/// out.
pub fn normalize(evidence: &[Value], evidence_refs: &[String]) -> Evidence {
    if !evidence.is_empty() {
        return Evidence {
            items: evidence.iter().map(EvidenceItem::of_value).collect(),
            source: EvidenceSource::V2,
        };
    }
    if evidence_refs.is_empty() {
        return Evidence::default();
    }
    let named = evidence_refs.iter().filter(|uri| !uri.is_empty());
    Evidence {
        items: named.map(|uri| EvidenceItem::of_uri(uri)).collect(),
        source: EvidenceSource::V1Mapped,
    }
}

impl Evidence {
    /// Whether there is any.
    pub fn is_present(&self) -> bool {
        !self.items.is_empty()
    }

    /// Every URI, as audits keep them under `refs`.
    pub fn uris(&self) -> Vec<&str> {
        self.items.iter().map(EvidenceItem::uri).collect()
    }

    /// The value that the memory server stores.
    pub fn to_values(&self) -> Vec<Value> {
        self.items.iter().map(EvidenceItem::to_value).collect()
    }

    /// `{count, has_strong, uris}`: number of items, whether any has a hash, and the first few URIs.
    pub fn summary(&self) -> Value {
        let has_strong = self.items.iter().any(|item| !item.sha256().is_empty());
        let uris: Vec<&str> = self.uris().into_iter().take(SHOWN_URIS).collect();
        json!({"count": self.items.len(), "has_strong": has_strong, "uris": uris})
    }
}

#[cfg(test)]
mod tests;
