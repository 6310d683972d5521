//! Step 1: the request in one validated shape. Reads nothing but the request and the options.

use serde_json::{Map, Value};

use super::StoreRequest;
use crate::{
    MemoryOptions,
    card::{Card, Trim},
    evidence::{self, Evidence},
    payload_sha,
    tools::{NUL, has_nul},
    uri::mask_credentials_in_fields,
};

/// Longest name of a space, a kind or a user. The key of a message holds a space and a hash.
const NAME_BYTES_MAX: usize = 200;
/// Longest parameter name that a reason repeats.
const PARAMETER_CHARS_MAX: usize = 40;

/// A validated request.
#[derive(Clone, Debug)]
pub(super) struct StoreInput {
    pub(super) text: String,
    pub(super) trim: Trim,
    /// The requested space; the team's if the request names none.
    pub(super) space: String,
    pub(super) kind: Option<String>,
    pub(super) evidence: Evidence,
    pub(super) meta_json: Map<String, Value>,
    pub(super) is_bulk: bool,
    pub(super) item_id: Option<i64>,
    /// The actor that the request claims.
    pub(super) actor: Option<String>,
    pub(super) supersedes: Option<String>,
}

/// A request that can never be stored as it is.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct InvalidRequest {
    pub(super) code: &'static str,
    /// The audit's reason.
    pub(super) reason: String,
    pub(super) message: String,
    pub(super) payload_sha: Option<String>,
    /// The field at fault and the space, if the request was decided before.
    pub(super) field: Option<Box<(&'static str, String)>>,
}

impl InvalidRequest {
    pub(super) fn parameter(name: &str, message: impl Into<String>) -> Self {
        Self {
            code: "INVALID_PARAMETER",
            reason: invalid_parameter(name),
            message: message.into(),
            payload_sha: None,
            field: None,
        }
    }
}

/// The reason of an invalid parameter. Names that a caller made up are not repeated in audits.
pub(super) fn invalid_parameter(name: &str) -> String {
    let is_name = name.chars().count() <= PARAMETER_CHARS_MAX
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let name = if is_name { name } else { "unknown" };
    format!("invalid_parameter:{name}")
}

pub(super) fn parse(
    mut request: StoreRequest,
    options: &MemoryOptions,
) -> Result<StoreInput, InvalidRequest> {
    let (text, trim) = take_text(&mut request)?;
    let bytes_max = options.payload_max_bytes;
    if text.len() > bytes_max {
        let message = format!("payload_md is over {bytes_max} bytes");
        return Err(InvalidRequest {
            payload_sha: Some(payload_sha(&text)),
            ..InvalidRequest::parameter("payload_md", message)
        });
    }
    if let Some(name) = parameter_with_nul(&text, &request) {
        return Err(InvalidRequest::parameter(name, format!("{name} {NUL}")));
    }
    mask_credentials_in_fields(&mut request.meta_json);
    let input = StoreInput {
        text,
        trim,
        space: request.target_space.unwrap_or_else(|| options.team_space()),
        kind: request.kind,
        evidence: evidence::normalize(&request.evidence, &request.evidence_refs),
        meta_json: request.meta_json,
        is_bulk: request.is_bulk,
        item_id: request.item_id,
        actor: request.actor_user_id,
        supersedes: request.supersedes,
    };
    if input.space.trim().is_empty() {
        let message = "target_space must not be empty";
        return Err(InvalidRequest::parameter("target_space", message));
    }
    for (name, value) in [
        ("target_space", Some(&input.space)),
        ("kind", input.kind.as_ref()),
        ("actor_user_id", input.actor.as_ref()),
    ] {
        if !value.is_none_or(|value| is_plain(value)) {
            let message = format!("{name} must be one line of at most {NAME_BYTES_MAX} bytes");
            return Err(InvalidRequest::parameter(name, message));
        }
    }
    Ok(StoreInput {
        actor: input.actor.filter(|actor| !actor.is_empty()),
        ..input
    })
}

/// The text, or the text built from the card, whose kind and evidence are defaults of the request.
fn take_text(request: &mut StoreRequest) -> Result<(String, Trim), InvalidRequest> {
    let text = request.payload_md.take();
    // Clients whose schema demands payload_md send an empty one beside a card.
    let text = text.filter(|text| !text.is_empty() || request.card.is_none());
    match (text, request.card.take()) {
        (Some(_), Some(_)) => {
            let message = "payload_md and card exclude each other";
            Err(InvalidRequest::parameter("card", message))
        }
        (Some(text), None) => Ok((text, Trim::default())),
        (None, None) => {
            let message = "payload_md is missing";
            Err(InvalidRequest::parameter("payload_md", message))
        }
        (None, Some(fields)) => {
            let card = Card::read(&fields)
                .map_err(|why| InvalidRequest::parameter("card", format!("card: {why}")))?;
            if request.evidence.is_empty() && request.evidence_refs.is_empty() {
                request.evidence = card.evidence_values();
            }
            let kind = || card.kind.as_str().to_owned();
            request.kind.get_or_insert_with(kind);
            let built = card.build();
            Ok((built.text, built.trim))
        }
    }
}

/// The parameter with a NUL character, which PostgreSQL cannot store. Names are checked by [`is_plain`].
fn parameter_with_nul(text: &str, request: &StoreRequest) -> Option<&'static str> {
    let holds_nul = |text: &str| text.contains('\0');
    let mut meta = request.meta_json.iter();
    if holds_nul(text) {
        Some("payload_md")
    } else if meta.any(|(name, value)| holds_nul(name) || has_nul(value)) {
        Some("meta_json")
    } else if request.evidence_refs.iter().any(|uri| holds_nul(uri)) {
        Some("evidence_refs")
    } else {
        request.evidence.iter().any(has_nul).then_some("evidence")
    }
}

/// Whether a value can be a name: short, and one line.
pub(super) fn is_plain(name: &str) -> bool {
    name.len() <= NAME_BYTES_MAX && !name.chars().any(char::is_control)
}
