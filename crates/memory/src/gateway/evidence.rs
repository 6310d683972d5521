//! Evidence: texts kept in files, named by their hashes.

use serde_json::Value;

use super::MemoryService;
use crate::tools::{Arguments, Refusal, wrong};

/// Evidence to keep, as it was asked for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct EvidenceUpload {
    content: String,
    content_type: String,
    title: Option<String>,
    actor_user_id: Option<String>,
    project_key: Option<String>,
    item_id: Option<i64>,
}

impl EvidenceUpload {
    pub(crate) fn take(arguments: &mut Arguments) -> Result<Self, Refusal> {
        Ok(Self {
            content: arguments.required("content")?,
            content_type: arguments.named("content_type")?,
            title: arguments.text("title")?,
            actor_user_id: arguments.text("actor_user_id")?,
            project_key: arguments.text("project_key")?,
            item_id: arguments.whole("item_id")?,
        })
    }
}

/// Evidence to read, as it was asked for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct EvidenceRead {
    uri: String,
    is_base64: bool,
    max_bytes: Option<u64>,
    include_content: bool,
    verify_sha256: bool,
}

impl EvidenceRead {
    pub(crate) fn take(arguments: &mut Arguments) -> Result<Self, Refusal> {
        let is_base64 = match arguments.text("encoding")?.as_deref() {
            None | Some("utf-8" | "utf8") => false,
            Some("base64") => true,
            Some(_) => return Err(wrong("encoding", "must be utf-8 or base64")),
        };
        let max_bytes = match arguments.whole("max_bytes")? {
            None => None,
            Some(most) => match u64::try_from(most) {
                Ok(most) => Some(most),
                Err(_) => return Err(wrong("max_bytes", "must not be negative")),
            },
        };
        Ok(Self {
            uri: arguments.named("uri")?,
            is_base64,
            max_bytes,
            include_content: arguments.flag("include_content")?.unwrap_or(true),
            verify_sha256: arguments.flag("verify_sha256")?.unwrap_or(true),
        })
    }
}

impl MemoryService {
    /// Keeps evidence.
    pub(crate) async fn evidence_upload(&self, request: EvidenceUpload) -> Result<Value, Refusal> {
        let _ = request;
        Err(Refusal::new("NOT_IMPLEMENTED", "not yet"))
    }

    /// Reads evidence.
    pub(crate) async fn evidence_read(&self, request: EvidenceRead) -> Result<Value, Refusal> {
        let _ = request;
        Err(Refusal::new("NOT_IMPLEMENTED", "not yet"))
    }
}
