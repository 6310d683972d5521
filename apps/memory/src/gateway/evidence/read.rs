//! `evidence_read`.

use base64::{Engine, engine::general_purpose::STANDARD};
use consign_artifacts::{ArtifactError, sha256_of};
use consign_scm::PatchState;
use serde_json::{Value, json};
use tracing::warn;

use super::{super::refused, MemoryService, closed, mismatch};
use crate::{
    Attachment, Caller,
    tools::{Arguments, Refusal, wrong},
    uri::{
        KeyError, UriType, is_patch_blob_evidence_uri, normalize_to_artifact_key,
        parse_attachment_evidence_uri_strict, parse_uri,
    },
};

/// Evidence to read.
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
            Some(other) => {
                let why = format!(
                    "is {}; must be utf-8 or base64",
                    consign_kernel::quoted(other)
                );
                return Err(wrong("encoding", &why));
            }
        };
        let max_bytes = match arguments.whole("max_bytes")? {
            None => None,
            Some(most) => match u64::try_from(most) {
                Ok(most) => Some(most),
                Err(_) => {
                    return Err(wrong(
                        "max_bytes",
                        &format!("is {most}; must not be negative"),
                    ));
                }
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

/// Largest file that is read; patches may be larger than uploads.
const READ_BYTES_MAX: u64 = 64 << 20;

/// The file of a reference.
pub(super) struct EvidenceLocation {
    /// The key as stored.
    pub(super) uri: String,
    /// The normalized key.
    pub(super) key: String,
    pub(super) sha256: Option<String>,
    pub(super) attachment: Option<Attachment>,
    pub(super) patch: Option<PatchState>,
}

impl MemoryService {
    /// Reads evidence, and verifies its hash.
    pub(crate) async fn evidence_read(
        &self,
        request: EvidenceRead,
        caller: &Caller,
    ) -> Result<Value, Refusal> {
        let location = self.locate(&request.uri, caller).await?;
        let bytes_max = request
            .max_bytes
            .unwrap_or(READ_BYTES_MAX)
            .min(READ_BYTES_MAX);
        let bytes = self.artifacts().get(&location.uri, bytes_max).await;
        let bytes = bytes.map_err(|error| read_refusal(&error, &request.uri, bytes_max))?;
        let sha256 = sha256_of(&bytes);
        if let Some(expected) = &location.sha256
            && request.verify_sha256
            && *expected != sha256
        {
            return Err(mismatch(&request.uri, expected, &sha256));
        }
        let mut body = json!({
            "ok": true, "uri": request.uri, "artifact_uri": location.key, "sha256": sha256,
            "size_bytes": bytes.len(), "verified": request.verify_sha256 && location.sha256.is_some(),
        });
        if let Some(attachment) = &location.attachment {
            body["attachment_id"] = json!(attachment.attachment_id);
            body["item_id"] = json!(attachment.item_id);
            body["content_type"] = json!(attachment.meta_json.get("content_type"));
        }
        if let Some(patch) = &location.patch {
            body["source_type"] = json!(patch.source_type);
            body["source_id"] = json!(patch.source_id);
            body["format"] = json!(patch.format);
            body["degrade_reason"] = json!(patch.meta_json.get("degrade_reason"));
        }
        if request.include_content {
            let (encoding, content) = if request.is_base64 {
                ("base64", STANDARD.encode(&bytes))
            } else {
                match String::from_utf8(bytes) {
                    Ok(text) => ("utf-8", text),
                    Err(_) => return Err(wrong("encoding", "must be base64: it is no text")),
                }
            };
            body["encoding"] = json!(encoding);
            body["content"] = json!(content);
        }
        Ok(body)
    }

    /// The file of a reference, and its expected hash.
    async fn locate(&self, uri: &str, caller: &Caller) -> Result<EvidenceLocation, Refusal> {
        if parse_uri(uri).uri_type != UriType::Memory {
            let key = normalize_to_artifact_key(uri).map_err(|why| key_refusal(&why))?;
            self.check_file(caller, &key).await?;
            return Ok(EvidenceLocation {
                uri: uri.to_owned(),
                key,
                sha256: None,
                attachment: None,
                patch: None,
            });
        }
        if is_patch_blob_evidence_uri(uri) {
            return self.locate_patch(uri).await;
        }
        let parsed = parse_attachment_evidence_uri_strict(uri).map_err(|why| {
            let details = json!({"uri": uri, "code": why.code()});
            Refusal::new("INVALID_URI", why.to_string()).with_details(details)
        })?;
        let found = self.logbook().attachment(parsed.attachment_id).await;
        let Some(attachment) = found.map_err(refused)? else {
            let why = format!("attachment {} does not exist", parsed.attachment_id);
            return Err(Refusal::new("NOT_FOUND", why));
        };
        // Checked before the answer reveals anything about it.
        if !self.may_see(caller, attachment.space.as_deref()) {
            return Err(closed());
        }
        // The reference has to name the content, not only the id.
        if !attachment.sha256.eq_ignore_ascii_case(&parsed.sha256) {
            return Err(mismatch(uri, &parsed.sha256, &attachment.sha256));
        }
        let key = artifact_key(&attachment.uri)?;
        Ok(EvidenceLocation {
            uri: attachment.uri.clone(),
            key,
            sha256: Some(parsed.sha256),
            attachment: Some(attachment),
            patch: None,
        })
    }
}

/// The artifact key of a stored URI.
pub(super) fn artifact_key(uri: &str) -> Result<String, Refusal> {
    normalize_to_artifact_key(uri).map_err(|why| match why {
        KeyError::NotArtifact(_) => {
            let why = format!("{uri} is not in this gateway's artifact store");
            Refusal::new("ARTIFACT_NOT_FOUND", why)
        }
        why => key_refusal(&why),
    })
}

fn key_refusal(why: &KeyError) -> Refusal {
    let code = match why {
        KeyError::Escapes(_) => "PATH_TRAVERSAL_ERROR",
        _ => "INVALID_URI",
    };
    Refusal::new(code, why.to_string())
}

fn read_refusal(error: &ArtifactError, uri: &str, bytes_max: u64) -> Refusal {
    match error {
        ArtifactError::Outside(key) => {
            let why = format!("artifact key {key:?} is outside the artifact folder");
            Refusal::new("PATH_TRAVERSAL_ERROR", why)
        }
        ArtifactError::Missing => {
            let why = format!("file for {uri} does not exist");
            Refusal::new("ARTIFACT_NOT_FOUND", why)
        }
        ArtifactError::TooLarge { size_bytes } => {
            let why = format!("it has {size_bytes} bytes or more; maximum is {bytes_max}");
            let details = json!({"size_bytes": size_bytes});
            Refusal::new("PAYLOAD_TOO_LARGE", why).with_details(details)
        }
        ArtifactError::Io(error) => {
            warn!(%error, "evidence could not be read");
            Refusal::new("ARTIFACT_READ_ERROR", "the file could not be read").retryable()
        }
    }
}
