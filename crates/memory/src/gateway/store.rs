//! Storing a memory.

use serde::Serialize;
use serde_json::{Map, Value};

use super::MemoryService;
use crate::{
    Caller,
    tools::{Arguments, Refusal, missing},
};

/// A memory to store, as it was asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoreRequest {
    /// The text; absent if there is a card.
    pub payload_md: Option<String>,
    /// The fields of a memory card, instead of a text.
    pub card: Option<Map<String, Value>>,
    /// Where it should go; absent: to the team.
    pub target_space: Option<String>,
    /// Kept with it.
    pub meta_json: Map<String, Value>,
    /// `PROCEDURE`, `DECISION` and so on.
    pub kind: Option<String>,
    /// References to evidence, version 1.
    pub evidence_refs: Vec<String>,
    /// Evidence, version 2.
    pub evidence: Vec<Value>,
    /// Whether it is one of very many.
    pub is_bulk: bool,
    /// The item it is about.
    pub item_id: Option<i64>,
    /// Who stores it.
    pub actor_user_id: Option<String>,
}

impl StoreRequest {
    pub(crate) fn take(arguments: &mut Arguments) -> Result<Self, Refusal> {
        let request = Self {
            payload_md: arguments.text("payload_md")?,
            card: arguments.object("card")?,
            target_space: arguments.text("target_space")?,
            meta_json: arguments.object("meta_json")?.unwrap_or_default(),
            kind: arguments.text("kind")?,
            evidence_refs: arguments.texts("evidence_refs")?,
            evidence: arguments.list("evidence")?,
            is_bulk: arguments.flag("is_bulk")?.unwrap_or(false),
            item_id: arguments.whole("item_id")?,
            actor_user_id: arguments.text("actor_user_id")?,
        };
        if request.payload_md.is_none() && request.card.is_none() {
            return Err(missing("payload_md"));
        }
        Ok(request)
    }
}

/// What became of it. Every field is always there, but for those of errors.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StoreAnswer {
    /// Whether it is stored.
    pub ok: bool,
    /// `allow`, `redirect`, `deferred`, `reject` or `error`.
    pub action: &'static str,
    /// Where it is stored.
    pub space_written: Option<String>,
    /// Under what.
    pub memory_id: Option<String>,
    /// The row of the outbox it waits in.
    pub outbox_id: Option<i64>,
    /// The request's name.
    pub correlation_id: String,
    /// The references that came with it.
    pub evidence_refs: Vec<String>,
    /// For people.
    pub message: Option<String>,
    /// What went wrong, for programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_code: Option<&'static str>,
    /// Whether the same request may go well later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retryable: Option<bool>,
    /// What it was about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<Value>,
}

impl MemoryService {
    /// Stores a memory.
    pub async fn store(&self, request: StoreRequest, caller: &Caller) -> StoreAnswer {
        let _ = caller;
        StoreAnswer {
            ok: false,
            action: "error",
            space_written: None,
            memory_id: None,
            outbox_id: None,
            correlation_id: String::new(),
            evidence_refs: request.evidence_refs,
            message: None,
            error_code: Some("EXECUTION_FAILED"),
            retryable: Some(false),
            context: None,
        }
    }
}
