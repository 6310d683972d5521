//! `evidence_upload`.

use consign_artifacts::ArtifactError;
use consign_kernel::{Certainty, Error};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tracing::warn;

use super::{super::refused, MemoryService, closed};
use crate::{
    Action, AuditStatus, Caller, Correlation, KeptEvidence, NewAttachment, NewAudit, NewEvidence,
    NewItem,
    audit_json::{AuditFacts, Operation},
    payload_sha,
    policy::{self, Decision, Policy, PolicyInput},
    tools::{Arguments, Refusal, wrong},
    uri::mask_credentials,
};

/// Evidence to keep.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct EvidenceUpload {
    content: String,
    content_type: String,
    title: Option<String>,
    actor_user_id: Option<String>,
    project_key: Option<String>,
    item_id: Option<i64>,
    target_space: Option<String>,
}

impl EvidenceUpload {
    pub(crate) fn take(arguments: &mut Arguments) -> Result<Self, Refusal> {
        let request = Self {
            content: arguments.required("content")?,
            content_type: arguments.named("content_type")?,
            title: arguments.text("title")?,
            actor_user_id: arguments.text("actor_user_id")?,
            project_key: arguments.text("project_key")?,
            item_id: arguments.whole("item_id")?,
            target_space: arguments.text("target_space")?,
        };
        if request.item_id.is_some() && request.target_space.is_some() {
            let why = "excludes item_id: evidence belongs to the space of its item";
            return Err(wrong("target_space", why));
        }
        Ok(request)
    }
}

/// Accepted content types, and the extension of their files.
pub(crate) const CONTENT_TYPES: [(&str, &str); 11] = [
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

/// The file of an upload.
struct File {
    key: String,
    sha256: String,
    content: String,
}

impl MemoryService {
    /// Keeps evidence: the file first, then the rows that point to it.
    pub(crate) async fn evidence_upload(
        &self,
        request: EvidenceUpload,
        caller: &Caller,
    ) -> Result<Value, Refusal> {
        self.check_actor(caller, request.actor_user_id.as_deref())?;
        let file = self.file(&request)?;
        let decision = self.evidence_space(&request, caller).await?;
        let bytes = || file.content.clone().into_bytes();
        let put = self.artifacts().put(&file.key, bytes(), &file.sha256).await;
        let is_new = put.map_err(|error| unwritten(&error))?;
        let evidence = self.evidence(&request, &file, &decision, caller);
        let kept = match self.logbook().keep_evidence(&evidence).await {
            Ok(Some(kept)) => kept,
            refusal => {
                let error = refusal.err();
                let certainty = error.as_ref().map(Error::certainty);
                // If the result is unknown, the rows may exist and need the file.
                if is_new && certainty != Some(Certainty::Unknown) {
                    self.remove_file(&file).await;
                }
                let gone = || no_item(request.item_id.unwrap_or_default());
                return Err(error.map_or_else(gone, refused));
            }
        };
        // A concurrent upload of the same content that was refused may have removed the file.
        let put = self.artifacts().put(&file.key, bytes(), &file.sha256).await;
        put.map_err(|error| unwritten(&error))?;
        Ok(answer(&request, &file, &decision, kept))
    }

    /// Validates the upload.
    fn file(&self, request: &EvidenceUpload) -> Result<File, Refusal> {
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
        let project = self.project_of(request);
        if !is_plain(project) {
            let why = "must be letters, digits, dots, dashes and underscores";
            return Err(wrong("project_key", why));
        }
        let sha256 = payload_sha(&request.content);
        let key = format!(
            "attachments/evidence/{project}/{}/{sha256}.{ext}",
            &sha256[..2]
        );
        Ok(File {
            key,
            sha256,
            content: request.content.clone(),
        })
    }

    fn project_of<'r>(&'r self, request: &'r EvidenceUpload) -> &'r str {
        let project = request.project_key.as_deref();
        project.unwrap_or(&self.options().project_key)
    }

    /// The space of the evidence: its item's, or that of a memory by the same caller.
    async fn evidence_space(
        &self,
        request: &EvidenceUpload,
        caller: &Caller,
    ) -> Result<Decision, Refusal> {
        if let Some(item_id) = request.item_id {
            let item = self.logbook().item(item_id).await.map_err(refused)?;
            let space = item.ok_or_else(|| no_item(item_id))?.space();
            if !self.may_see(caller, space.as_deref()) {
                return Err(closed());
            }
            let space = space.unwrap_or_else(|| self.options().team_space());
            return Ok(Decision {
                action: Action::Allow,
                reason: "item".to_owned(),
                final_space: Some(space),
            });
        }
        let options = self.options();
        let project = self.project_of(request);
        let team = if project == options.project_key {
            options.team_space()
        } else {
            format!("team:{project}")
        };
        let settings = self.logbook().settings(&options.project_key).await;
        let settings = settings.map_err(refused)?;
        let spaces = options
            .spaces()
            .map_err(|why| wrong("target_space", &why))?;
        let bound = caller.actor.as_deref().filter(|_| caller.is_bound());
        let decision = policy::decide(&PolicyInput {
            target_space: request.target_space.as_deref().unwrap_or(&team),
            actor: bound.or(request.actor_user_id.as_deref()),
            is_actor_bound: bound.is_some(),
            is_authenticated: caller.is_authenticated,
            // The rules about kinds, lengths and evidence are for memories.
            kind: None,
            has_evidence: true,
            payload_md: "",
            is_bulk: false,
            team_write_enabled: settings.team_write_enabled,
            policy: &Policy::read(&settings.policy_json),
            spaces: &spaces,
        });
        match (&decision.final_space, decision.reason.as_str()) {
            (Some(_), _) => Ok(decision),
            (None, "private_space_of_another") => Err(closed()),
            (None, _) => {
                let why = "must be team:<name>, private:<user> or org:<name>";
                Err(wrong("target_space", why))
            }
        }
    }

    fn evidence(
        &self,
        request: &EvidenceUpload,
        file: &File,
        decision: &Decision,
        caller: &Caller,
    ) -> NewEvidence {
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
        let title = request.title.clone().filter(|title| !title.is_empty());
        let item = NewItem {
            item_type: "evidence".to_owned(),
            title: title.unwrap_or_else(|| "evidence".to_owned()),
            project_key: Some(self.project_of(request).to_owned()),
            scope_json: Map::from_iter([("space".to_owned(), json!(decision.final_space))]),
            status: "open".to_owned(),
            owner_user_id: None,
        };
        NewEvidence {
            item: request.item_id.is_none().then_some(item),
            attachment: NewAttachment {
                item_id: request.item_id.unwrap_or_default(),
                kind: "evidence".to_owned(),
                uri: file.key.clone(),
                sha256: file.sha256.clone(),
                size_bytes: i64::try_from(file.content.len()).ok(),
                meta_json,
            },
            audit: self.evidence_audit(request, file, decision, caller),
        }
    }

    /// The audit, without the ids of item and attachment, which the store adds.
    fn evidence_audit(
        &self,
        request: &EvidenceUpload,
        file: &File,
        decision: &Decision,
        caller: &Caller,
    ) -> NewAudit {
        let given = caller.correlation_id.as_deref().unwrap_or_default();
        let correlation = Correlation::parse_or_new(given);
        let bound = caller.actor.as_deref().filter(|_| caller.is_bound());
        let actor = bound.or(request.actor_user_id.as_deref());
        let final_space = decision.final_space.clone();
        let requested = request.target_space.clone().or(final_space.clone());
        let mut audit = AuditFacts {
            actor_user_id: actor.map(str::to_owned),
            final_space,
            action: decision.action,
            reason: format!("evidence_upload:{}", decision.reason),
            payload_sha: Some(file.sha256.clone()),
            ..AuditFacts::new(
                Operation::EvidenceUpload,
                &correlation,
                requested.unwrap_or_default(),
            )
        };
        audit.note("artifact_uri", file.key.as_str());
        audit.note("content_type", request.content_type.as_str());
        audit.note("size_bytes", file.content.len());
        audit.audit(AuditStatus::Success)
    }

    /// Removes the file of a refused upload, unless another upload needs it. A concurrent upload of the
    /// same content checks for the file after its rows are written; this checks for rows after the
    /// removal.
    async fn remove_file(&self, file: &File) {
        if let Err(error) = self.artifacts().remove(&file.key).await {
            warn!(%error, key = file.key, "the file of refused evidence could not be removed");
            return;
        }
        let is_wanted = match self.attachments_of(&file.key).await {
            Ok(attached) => !attached.is_empty(),
            Err(_) => true,
        };
        if is_wanted {
            let bytes = file.content.clone().into_bytes();
            if let Err(error) = self.artifacts().put(&file.key, bytes, &file.sha256).await {
                warn!(%error, key = file.key, "the file of evidence could not be restored");
            }
        }
    }
}

fn answer(
    request: &EvidenceUpload,
    file: &File,
    decision: &Decision,
    KeptEvidence {
        item_id,
        attachment_id,
    }: KeptEvidence,
) -> Value {
    let sha256 = &file.sha256;
    let uri = format!("memory://attachments/{attachment_id}/{sha256}");
    let mut evidence = json!({
        "uri": uri, "sha256": sha256, "source_type": "artifact",
        "source_id": format!("artifact:{attachment_id}"), "timestamp": Timestamp::now(),
    });
    if let Some(title) = &request.title {
        evidence["title"] = json!(mask_credentials(title));
    }
    json!({
        "ok": true, "item_id": item_id, "attachment_id": attachment_id, "sha256": sha256,
        "artifact_uri": file.key, "size_bytes": file.content.len(),
        "content_type": request.content_type, "space_written": decision.final_space,
        "reason": decision.reason, "evidence": evidence,
    })
}

fn no_item(item_id: i64) -> Refusal {
    let why = format!("item {item_id} does not exist");
    Refusal::new("EVIDENCE_ITEM_REQUIRED", why)
}

fn extension(content_type: &str) -> Result<&'static str, Refusal> {
    // Parameters such as charset are ignored: the content came as JSON.
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

/// Whether a name is a valid folder name on every platform.
fn is_plain(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    !name.is_empty() && name.len() <= 128 && !name.starts_with('.') && name.chars().all(plain)
}

fn unwritten(error: &ArtifactError) -> Refusal {
    warn!(?error, "evidence could not be written");
    Refusal::new("EVIDENCE_WRITE_FAILED", "the evidence could not be written").retryable()
}
