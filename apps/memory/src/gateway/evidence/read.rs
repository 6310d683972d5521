//! Reading evidence.

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

/// The largest file that is read; evidence from elsewhere may be larger than what is uploaded.
const READ_BYTES_MAX: u64 = 64 << 20;

/// Where evidence is.
pub(super) struct Place {
    /// The key as it is written where it was found.
    pub(super) uri: String,
    /// The same in the one spelling that each file has.
    pub(super) key: String,
    pub(super) sha256: Option<String>,
    pub(super) attachment: Option<Attachment>,
    pub(super) patch: Option<PatchState>,
}

impl MemoryService {
    /// Reads evidence, and checks that it is what its reference says.
    pub(crate) async fn evidence_read(
        &self,
        request: EvidenceRead,
        caller: &Caller,
    ) -> Result<Value, Refusal> {
        let place = self.place(&request.uri, caller).await?;
        let bytes_max = request
            .max_bytes
            .unwrap_or(READ_BYTES_MAX)
            .min(READ_BYTES_MAX);
        let bytes = self.artifacts().get(&place.uri, bytes_max).await;
        let bytes = bytes.map_err(|error| unread(&error, &request.uri))?;
        let sha256 = sha256_of(&bytes);
        if let Some(expected) = &place.sha256
            && request.verify_sha256
            && *expected != sha256
        {
            return Err(mismatch(&request.uri, expected, &sha256));
        }
        let mut body = json!({
            "ok": true, "uri": request.uri, "artifact_uri": place.key, "sha256": sha256,
            "size_bytes": bytes.len(), "verified": request.verify_sha256 && place.sha256.is_some(),
        });
        if let Some(attachment) = &place.attachment {
            body["attachment_id"] = json!(attachment.attachment_id);
            body["item_id"] = json!(attachment.item_id);
            body["content_type"] = json!(attachment.meta_json.get("content_type"));
        }
        if let Some(patch) = &place.patch {
            body["source_type"] = json!(patch.source_type);
            body["source_id"] = json!(patch.source_id);
            body["format"] = json!(patch.format);
            body["degrade_reason"] = json!(patch.meta_json.get("degrade_reason"));
        }
        if request.include_content {
            let (encoding, content) = match request.is_base64 {
                true => ("base64", STANDARD.encode(&bytes)),
                false => match String::from_utf8(bytes) {
                    Ok(text) => ("utf-8", text),
                    Err(_) => return Err(wrong("encoding", "must be base64: it is no text")),
                },
            };
            body["encoding"] = json!(encoding);
            body["content"] = json!(content);
        }
        Ok(body)
    }

    /// Where the bytes of a reference are, and what they must hash to.
    async fn place(&self, uri: &str, caller: &Caller) -> Result<Place, Refusal> {
        if parse_uri(uri).uri_type != UriType::Memory {
            let key = normalize_to_artifact_key(uri).map_err(|why| no_key(&why))?;
            self.check_file(caller, &key).await?;
            return Ok(Place {
                uri: uri.to_owned(),
                key,
                sha256: None,
                attachment: None,
                patch: None,
            });
        }
        if is_patch_blob_evidence_uri(uri) {
            return self.patch_place(uri).await;
        }
        let parsed = parse_attachment_evidence_uri_strict(uri).map_err(|why| {
            let details = json!({"uri": uri, "code": why.code()});
            Refusal::new("INVALID_URI", why.to_string()).with_details(details)
        })?;
        let found = self.logbook().attachment(parsed.attachment_id).await;
        let Some(attachment) = found.map_err(refused)? else {
            let why = format!("there is no attachment {}", parsed.attachment_id);
            return Err(Refusal::new("NOT_FOUND", why));
        };
        // Before anything is said about it.
        if !self.may_see(caller, attachment.space.as_deref()) {
            return Err(closed());
        }
        // T44: the reference names the content, not only its number.
        if !attachment.sha256.eq_ignore_ascii_case(&parsed.sha256) {
            return Err(mismatch(uri, &parsed.sha256, &attachment.sha256));
        }
        let key = kept_here(&attachment.uri)?;
        Ok(Place {
            uri: attachment.uri.clone(),
            key,
            sha256: Some(parsed.sha256),
            attachment: Some(attachment),
            patch: None,
        })
    }
}

/// The key of what is kept under a URI, if that is among the artifacts.
pub(super) fn kept_here(uri: &str) -> Result<String, Refusal> {
    normalize_to_artifact_key(uri).map_err(|why| match why {
        KeyError::NotArtifact(_) => {
            let why = format!("it is kept elsewhere: {uri}");
            Refusal::new("ARTIFACT_NOT_FOUND", why)
        }
        why => no_key(&why),
    })
}

fn no_key(why: &KeyError) -> Refusal {
    let code = match why {
        KeyError::Escapes(_) => "PATH_TRAVERSAL_ERROR",
        _ => "INVALID_URI",
    };
    Refusal::new(code, why.to_string())
}

fn unread(error: &ArtifactError, uri: &str) -> Refusal {
    match error {
        ArtifactError::Outside(key) => {
            let why = format!("{key:?} leads out of the artifacts");
            Refusal::new("PATH_TRAVERSAL_ERROR", why)
        }
        ArtifactError::Missing => {
            let why = format!("there is no file for {uri}");
            Refusal::new("ARTIFACT_NOT_FOUND", why)
        }
        ArtifactError::TooLarge { size_bytes } => {
            let why = format!("it has {size_bytes} bytes or more");
            let details = json!({"size_bytes": size_bytes});
            Refusal::new("PAYLOAD_TOO_LARGE", why).with_details(details)
        }
        ArtifactError::Io(error) => {
            warn!(%error, "evidence could not be read");
            Refusal::new("ARTIFACT_READ_ERROR", "the file could not be read").retryable()
        }
    }
}
