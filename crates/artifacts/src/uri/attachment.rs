//! `memory://attachments/<attachment_id>/<sha256>`.

use std::fmt;

use serde::Serialize;

use super::{
    UriType, parse_uri,
    text::{decimal, is_sha256},
};

const ROOM: &str = "attachments";

/// Evidence that is attached to an item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AttachmentUri {
    /// Which attachment.
    pub attachment_id: i64,
    /// Its hash, in lower case.
    pub sha256: String,
}

/// In its canonical form.
impl fmt::Display for AttachmentUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (id, sha256) = (self.attachment_id, &self.sha256);
        write!(f, "memory://{ROOM}/{id}/{sha256}")
    }
}

/// Why something is not the URI of an attachment, in the order of the checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttachmentUriError {
    /// Another scheme.
    NotMemory,
    /// Other evidence.
    NotAttachments,
    /// Parts are missing, or there is a query.
    Malformed,
    /// There are more parts, as there once were.
    LegacyFormat,
    /// The id is not a plain number.
    InvalidId,
    /// The hash is not 64 hex digits.
    InvalidSha256,
}

impl AttachmentUriError {
    /// The code.
    pub fn code(self) -> &'static str {
        match self {
            Self::NotMemory => "E_NOT_MEMORY",
            Self::NotAttachments => "E_NOT_ATTACHMENTS",
            Self::Malformed => "E_MALFORMED",
            Self::LegacyFormat => "E_LEGACY_FORMAT",
            Self::InvalidId => "E_INVALID_ID",
            Self::InvalidSha256 => "E_INVALID_SHA256",
        }
    }
}

impl fmt::Display for AttachmentUriError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotMemory => "the scheme is not memory",
            Self::NotAttachments => "it does not begin with memory://attachments/",
            Self::Malformed => "it must be memory://attachments/<attachment_id>/<sha256>",
            Self::LegacyFormat => "a namespace before the id is no longer used",
            Self::InvalidId => "the id must be a number without sign and leading zeros",
            Self::InvalidSha256 => "the hash must be 64 hex digits",
        })
    }
}

impl std::error::Error for AttachmentUriError {}

/// Reads the URI of an attachment; why not, by code.
pub fn parse_attachment_evidence_uri_strict(
    uri: &str,
) -> Result<AttachmentUri, AttachmentUriError> {
    use AttachmentUriError as Refused;
    let parsed = parse_uri(uri);
    if parsed.uri_type != UriType::Memory {
        return Err(Refused::NotMemory);
    }
    let segments: Vec<&str> = parsed.path.trim_matches('/').split('/').collect();
    let (id, sha256) = match segments[..] {
        [ROOM, id, sha256] if !parsed.has_query => (id, sha256),
        [ROOM] | [ROOM, _] | [ROOM, _, _] => return Err(Refused::Malformed),
        [ROOM, ..] => return Err(Refused::LegacyFormat),
        _ => return Err(Refused::NotAttachments),
    };
    let attachment_id = decimal(id).ok_or(Refused::InvalidId)?;
    if !is_sha256(sha256) {
        return Err(Refused::InvalidSha256);
    }
    let sha256 = sha256.to_ascii_lowercase();
    Ok(AttachmentUri {
        attachment_id,
        sha256,
    })
}

/// Reads the URI of an attachment.
pub fn parse_attachment_evidence_uri(uri: &str) -> Option<AttachmentUri> {
    parse_attachment_evidence_uri_strict(uri).ok()
}

/// The URI of an attachment.
pub fn build_attachment_evidence_uri(
    attachment_id: i64,
    sha256: &str,
) -> Result<String, AttachmentUriError> {
    if attachment_id < 0 {
        return Err(AttachmentUriError::InvalidId);
    }
    let sha256 = sha256.trim().to_ascii_lowercase();
    if !is_sha256(&sha256) {
        return Err(AttachmentUriError::InvalidSha256);
    }
    let uri = AttachmentUri {
        attachment_id,
        sha256,
    };
    Ok(uri.to_string())
}
