//! Evidence: texts kept in files, named by their hashes.

mod patches;

use base64::{Engine, engine::general_purpose::STANDARD};
use consign_artifacts::{ArtifactError, Artifacts, sha256_of};
use consign_scm::PatchState;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tracing::warn;

use super::{MemoryService, refused};
use crate::{
    Attachment, Caller, NewAttachment, NewItem, payload_sha,
    tools::{Arguments, Refusal, wrong},
    uri::{
        UriType, is_patch_blob_evidence_uri, normalize_to_artifact_key,
        parse_attachment_evidence_uri_strict, parse_uri,
    },
};

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

/// What evidence may be, and how its files end.
const CONTENT_TYPES: [(&str, &str); 11] = [
    ("text/plain", "txt"),
    ("text/markdown", "md"),
    ("text/x-diff", "diff"),
    ("text/x-patch", "patch"),
    ("application/json", "json"),
    ("application/xml", "xml"),
    ("text/xml", "xml"),
    ("text/html", "html"),
    ("text/csv", "csv"),
    ("text/yaml", "yaml"),
    ("application/x-yaml", "yaml"),
];

/// The largest file that is read; evidence from elsewhere may be larger than what is uploaded.
const READ_BYTES_MAX: u64 = 64 << 20;

impl MemoryService {
    /// Keeps evidence: the file first, then what points to it.
    pub(crate) async fn evidence_upload(
        &self,
        request: EvidenceUpload,
        caller: &Caller,
    ) -> Result<Value, Refusal> {
        self.check_actor(caller, request.actor_user_id.as_deref())?;
        let ext = extension(&request.content_type)?;
        let (size_bytes, bytes_max) = (
            request.content.len(),
            self.options().evidence_max_size_bytes,
        );
        if size_bytes > bytes_max {
            let why = format!("the content has {size_bytes} bytes; {bytes_max} are allowed");
            let details = json!({"size_bytes": size_bytes, "max_size_bytes": bytes_max});
            return Err(Refusal::new("EVIDENCE_SIZE_LIMIT_EXCEEDED", why).with_details(details));
        }
        let project = request.project_key.as_deref();
        let project = project.unwrap_or(&self.options().project_key).to_owned();
        if !is_plain(&project) {
            let why = "must be letters, digits, dots, dashes and underscores";
            return Err(wrong("project_key", why));
        }
        let sha256 = payload_sha(&request.content);
        let key = format!(
            "attachments/evidence/{project}/{}/{sha256}.{ext}",
            &sha256[..2]
        );
        let bytes = request.content.clone().into_bytes();
        let put = self.artifacts().put(&key, bytes, &sha256).await;
        put.map_err(|error| unwritten(&error))?;
        let item_id = self.item_of(&request, &project).await?;
        let mut meta_json = Map::new();
        meta_json.insert("content_type".to_owned(), json!(request.content_type));
        let beside = [
            ("title", &request.title),
            ("actor_user_id", &request.actor_user_id),
        ];
        for (name, value) in beside {
            if let Some(value) = value {
                meta_json.insert(name.to_owned(), json!(value));
            }
        }
        let attachment = NewAttachment {
            item_id,
            kind: "evidence".to_owned(),
            uri: key.clone(),
            sha256: sha256.clone(),
            size_bytes: i64::try_from(size_bytes).ok(),
            meta_json,
        };
        let attached = self.logbook().attach(&attachment).await.map_err(refused)?;
        let Some(attachment_id) = attached else {
            let why = format!("there is no item {item_id}");
            return Err(Refusal::new("EVIDENCE_ITEM_REQUIRED", why));
        };
        let uri = format!("memory://attachments/{attachment_id}/{sha256}");
        let mut evidence = json!({
            "uri": uri, "sha256": sha256, "source_type": "artifact",
            "source_id": format!("artifact:{attachment_id}"), "timestamp": Timestamp::now(),
        });
        if let Some(title) = &request.title {
            evidence["title"] = json!(title);
        }
        Ok(json!({
            "ok": true, "item_id": item_id, "attachment_id": attachment_id, "sha256": sha256,
            "artifact_uri": key, "size_bytes": size_bytes, "content_type": request.content_type,
            "evidence": evidence,
        }))
    }

    /// The item that the evidence belongs to; a new one if none was named.
    async fn item_of(&self, request: &EvidenceUpload, project: &str) -> Result<i64, Refusal> {
        if let Some(item_id) = request.item_id {
            return Ok(item_id);
        }
        let title = request.title.clone();
        let item = NewItem {
            item_type: "evidence".to_owned(),
            title: title.unwrap_or_else(|| "evidence".to_owned()),
            project_key: Some(project.to_owned()),
            scope_json: Map::new(),
            status: "open".to_owned(),
            owner_user_id: None,
        };
        self.logbook().create_item(&item).await.map_err(refused)
    }

    /// Reads evidence, and checks that it is what its reference says.
    pub(crate) async fn evidence_read(&self, request: EvidenceRead) -> Result<Value, Refusal> {
        let place = self.place(&request.uri).await?;
        let bytes_max = request
            .max_bytes
            .unwrap_or(READ_BYTES_MAX)
            .min(READ_BYTES_MAX);
        let bytes = self.artifacts().get(&place.key, bytes_max).await;
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
    async fn place(&self, uri: &str) -> Result<Place, Refusal> {
        let invalid = |why: String| Refusal::new("INVALID_URI", why);
        if parse_uri(uri).uri_type != UriType::Memory {
            let key = normalize_to_artifact_key(uri);
            return Ok(Place {
                key: key.map_err(|why| invalid(why.to_string()))?,
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
            invalid(why.to_string()).with_details(details)
        })?;
        let found = self.logbook().attachment(parsed.attachment_id).await;
        let Some(attachment) = found.map_err(refused)? else {
            let why = format!("there is no attachment {}", parsed.attachment_id);
            return Err(Refusal::new("NOT_FOUND", why));
        };
        // T44: the reference names the content, not only its number.
        if !attachment.sha256.eq_ignore_ascii_case(&parsed.sha256) {
            return Err(mismatch(uri, &parsed.sha256, &attachment.sha256));
        }
        let Ok(key) = normalize_to_artifact_key(&attachment.uri) else {
            let why = format!("it is kept elsewhere: {}", attachment.uri);
            return Err(Refusal::new("ARTIFACT_NOT_FOUND", why));
        };
        Ok(Place {
            key,
            sha256: Some(parsed.sha256),
            attachment: Some(attachment),
            patch: None,
        })
    }

    fn artifacts(&self) -> Artifacts {
        Artifacts::new(&self.options().artifacts_root)
    }
}

struct Place {
    key: String,
    sha256: Option<String>,
    attachment: Option<Attachment>,
    patch: Option<PatchState>,
}

fn extension(content_type: &str) -> Result<&'static str, Refusal> {
    // Parameters such as a charset do not matter: texts come as JSON.
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    let known = CONTENT_TYPES.iter();
    let mut known = known.filter(|(name, _)| name.eq_ignore_ascii_case(essence));
    match known.next() {
        Some((_, ext)) => Ok(ext),
        None => {
            let names: Vec<&str> = CONTENT_TYPES.iter().map(|(name, _)| *name).collect();
            let why = format!("{content_type:?} is not allowed");
            let details = json!({"allowed": names});
            Err(Refusal::new("EVIDENCE_CONTENT_TYPE_NOT_ALLOWED", why).with_details(details))
        }
    }
}

/// A name that can be a folder anywhere.
fn is_plain(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    !name.is_empty() && name.len() <= 128 && !name.starts_with('.') && name.chars().all(plain)
}

fn mismatch(uri: &str, expected: &str, actual: &str) -> Refusal {
    let details = json!({"uri": uri, "expected_sha256": expected, "actual_sha256": actual});
    let why = "the content is not what the reference says";
    Refusal::new("CHECKSUM_MISMATCH", why).with_details(details)
}

fn unwritten(error: &ArtifactError) -> Refusal {
    warn!(?error, "evidence could not be written");
    Refusal::new("EVIDENCE_WRITE_FAILED", "the evidence could not be written").retryable()
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
