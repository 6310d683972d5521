//! References to evidence, as audits keep them.

use std::fmt;

use serde_json::{Map, Value, json};

use super::{
    AttachmentUri, PatchUri, build_attachment_evidence_uri, build_evidence_uri,
    parse_attachment_evidence_uri, parse_attachment_evidence_uri_strict, parse_evidence_uri,
    text::is_sha256,
};

/// Why a reference cannot be relied on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefError {
    /// The field that is in the way.
    pub field: &'static str,
    /// What is wrong with it.
    pub why: String,
}

impl RefError {
    fn new(field: &'static str, why: impl Into<String>) -> Self {
        let why = why.into();
        Self { field, why }
    }
}

impl fmt::Display for RefError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.field, self.why)
    }
}

impl std::error::Error for RefError {}

/// A reference to a change.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PatchRef {
    /// `git`, `svn` and so on.
    pub source_type: String,
    /// `<repo>:<revision>`.
    pub source_id: String,
    /// The hash of the change.
    pub sha256: String,
    /// Its size.
    pub size_bytes: Option<i64>,
    /// Anything else; laid over the rest.
    pub extra: Map<String, Value>,
}

impl PatchRef {
    /// As audits keep it.
    pub fn to_value(&self) -> Result<Value, RefError> {
        let sha256 = self.sha256.trim().to_ascii_lowercase();
        if sha256.is_empty() {
            return Err(RefError::new("sha256", "is missing"));
        }
        let source_type = self.source_type.trim().to_ascii_lowercase();
        let source_id = self.source_id.trim();
        let artifact_uri = build_evidence_uri(&source_type, source_id, &sha256);
        let mut value = json!({
            "artifact_uri": artifact_uri, "sha256": sha256, "source_id": source_id,
            "source_type": source_type, "kind": "patch",
        });
        lay_over(&mut value, self.size_bytes, &self.extra);
        Ok(value)
    }
}

/// A reference to an attachment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AttachmentRef {
    /// Which one.
    pub attachment_id: i64,
    /// Its hash.
    pub sha256: String,
    /// Its kind.
    pub kind: String,
    /// The item it is attached to.
    pub item_id: Option<i64>,
    /// Its size.
    pub size_bytes: Option<i64>,
    /// Anything else; laid over the rest.
    pub extra: Map<String, Value>,
}

impl AttachmentRef {
    /// As audits keep it.
    pub fn to_value(&self) -> Result<Value, RefError> {
        let artifact_uri = build_attachment_evidence_uri(self.attachment_id, &self.sha256)
            .map_err(|error| RefError::new("artifact_uri", error.to_string()))?;
        let mut value = json!({
            "artifact_uri": artifact_uri, "sha256": self.sha256.trim().to_ascii_lowercase(),
            "attachment_id": self.attachment_id, "kind": self.kind,
        });
        if let Some(item_id) = self.item_id {
            value["item_id"] = json!(item_id);
        }
        lay_over(&mut value, self.size_bytes, &self.extra);
        Ok(value)
    }
}

fn lay_over(value: &mut Value, size_bytes: Option<i64>, extra: &Map<String, Value>) {
    if let Some(size_bytes) = size_bytes {
        value["size_bytes"] = json!(size_bytes);
    }
    for (name, field) in extra {
        value[name] = field.clone();
    }
}

/// All references of an audit; lists that are empty are left out, `extra` is laid over the whole.
pub fn build_evidence_refs_json(
    patches: &[Value],
    attachments: &[Value],
    extra: &Map<String, Value>,
) -> Map<String, Value> {
    let mut refs = Map::new();
    for (name, list) in [("patches", patches), ("attachments", attachments)] {
        if !list.is_empty() {
            refs.insert(name.to_owned(), json!(list));
        }
    }
    refs.extend(extra.clone());
    refs
}

/// Whether a reference to a change or an attachment can be relied on: its URI can be read and agrees
/// with the fields beside it. Returns the first problem.
pub fn validate_evidence_ref(reference: &Value) -> Result<(), RefError> {
    let Some(fields) = reference.as_object() else {
        return Err(RefError::new("reference", "must be an object"));
    };
    let artifact_uri = present(fields, "artifact_uri")?;
    let sha256 = present(fields, "sha256")?;
    let attachment = parse_attachment_evidence_uri(artifact_uri);
    let source_id = match attachment {
        Some(_) => None,
        None => Some(present(fields, "source_id")?),
    };
    if sha256.len() != 64 {
        return Err(RefError::new("sha256", "must have 64 digits"));
    }
    if !is_sha256(sha256) {
        return Err(RefError::new("sha256", "must be hex digits"));
    }
    if !artifact_uri.starts_with("memory://") {
        return Err(RefError::new("artifact_uri", "must begin with memory://"));
    }
    match (attachment, source_id) {
        (Some(uri), _) => agrees_with_attachment(fields, &uri, sha256),
        (None, source_id) => {
            let source_id = source_id.unwrap_or_default();
            if !source_id.contains(':') {
                return Err(RefError::new("source_id", "must contain a colon"));
            }
            let uri = parse_evidence_uri(artifact_uri)
                .ok_or_else(|| RefError::new("artifact_uri", "cannot be read"))?;
            agrees_with_patch(fields, &uri, sha256, source_id)
        }
    }
}

fn present<'r>(fields: &'r Map<String, Value>, name: &'static str) -> Result<&'r str, RefError> {
    match fields.get(name) {
        None | Some(Value::Null) => Err(RefError::new(name, "is missing")),
        Some(Value::String(text)) if text.is_empty() => Err(RefError::new(name, "is missing")),
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(RefError::new(name, "must be a string")),
    }
}

fn agrees_with_attachment(
    fields: &Map<String, Value>,
    uri: &AttachmentUri,
    sha256: &str,
) -> Result<(), RefError> {
    same_hash(sha256, &uri.sha256)?;
    match fields.get("attachment_id") {
        Some(id) if id.as_i64() != Some(uri.attachment_id) => Err(RefError::new(
            "attachment_id",
            "is not that of artifact_uri",
        )),
        _ => Ok(()),
    }
}

fn agrees_with_patch(
    fields: &Map<String, Value>,
    uri: &PatchUri,
    sha256: &str,
    source_id: &str,
) -> Result<(), RefError> {
    same_hash(sha256, &uri.sha256)?;
    // Rows name their source with its type in front, URIs without.
    let typed = source_id.split_once(':').filter(|(source_type, _)| {
        let has_type = source_type.eq_ignore_ascii_case(&uri.source_type);
        has_type && !uri.source_id.starts_with(source_type)
    });
    let bare = typed.map_or(source_id, |(_, rest)| rest);
    if bare != uri.source_id {
        return Err(RefError::new("source_id", "is not that of artifact_uri"));
    }
    match fields.get("source_type").and_then(Value::as_str) {
        Some(source_type) if !source_type.eq_ignore_ascii_case(&uri.source_type) => {
            Err(RefError::new("source_type", "is not that of artifact_uri"))
        }
        _ => Ok(()),
    }
}

fn same_hash(sha256: &str, of_uri: &str) -> Result<(), RefError> {
    if sha256.eq_ignore_ascii_case(of_uri) {
        Ok(())
    } else {
        Err(RefError::new("sha256", "is not that of artifact_uri"))
    }
}

/// Everything that is wrong with the references of an audit.
pub fn check_evidence_refs_json(refs: &Value) -> Result<(), Vec<String>> {
    let Some(fields) = refs.as_object() else {
        return Err(vec!["evidence_refs_json must be an object".to_owned()]);
    };
    let mut problems = Vec::new();
    let mut each = |name: &str, check: &dyn Fn(&Value) -> Result<(), String>| {
        let list = match fields.get(name) {
            None => return,
            Some(Value::Array(list)) => list,
            Some(_) => return problems.push(format!("{name} must be a list")),
        };
        for (index, item) in list.iter().enumerate() {
            if let Err(why) = check(item) {
                problems.push(format!("{name}[{index}]: {why}"));
            }
        }
    };
    each("patches", &|item| {
        validate_evidence_ref(item).map_err(|error| error.to_string())
    });
    each("attachments", &check_attachment);
    each("external", &|item| match item["uri"].as_str() {
        Some(uri) if !uri.is_empty() => Ok(()),
        _ => Err("uri is missing".to_owned()),
    });
    if problems.is_empty() {
        Ok(())
    } else {
        Err(problems)
    }
}

fn check_attachment(item: &Value) -> Result<(), String> {
    let artifact_uri = item["artifact_uri"].as_str().unwrap_or_default();
    if !artifact_uri.is_empty() {
        parse_attachment_evidence_uri_strict(artifact_uri)
            .map_err(|error| format!("{}: {error}", error.code()))?;
    }
    validate_evidence_ref(item).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
