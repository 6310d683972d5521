//! The gateway's operations by name: one function for every transport.

mod arguments;
mod facts;
mod raw_arguments;
mod schema;

use metrics::counter;
use serde_json::{Map, Value, json};

pub(crate) use self::arguments::{Arguments, NUL, has_nul, missing, wrong};
pub use self::{
    raw_arguments::{ArgumentFault, ToolArguments},
    schema::{ToolInfo, find, list, offered},
};
use crate::{
    Caller, Correlation, MemoryService,
    gateway::{
        DeleteRequest, EvidenceRead, EvidenceUpload, GovernanceUpdate, ListRequest, QueryRequest,
        RequestOutline, SpacesRequest, StoreRequest, UpdateRequest,
    },
    metrics::CALLS_TOTAL,
    uri::{mask_credentials, mask_credentials_in},
};

/// Why a tool call failed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Refusal {
    pub(crate) code: &'static str,
    pub(crate) message: String,
    pub(crate) is_retryable: bool,
    /// The audit's reason, if there is an audit.
    pub(crate) reason: Option<String>,
    pub(crate) details: Option<Value>,
}

impl Refusal {
    pub(crate) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            is_retryable: false,
            reason: None,
            details: None,
        }
    }

    pub(crate) fn with_details(self, details: Value) -> Self {
        Self {
            details: Some(details),
            ..self
        }
    }

    pub(crate) fn retryable(self) -> Self {
        Self {
            is_retryable: true,
            ..self
        }
    }

    fn body(self) -> Value {
        // Rejected values are quoted, and may be a URI with a password.
        let message = mask_credentials(&self.message);
        let mut body = json!({
            "ok": false, "error_code": self.code, "message": message,
            "retryable": self.is_retryable,
        });
        if let Some(reason) = self.reason {
            body["reason"] = json!(reason);
        }
        if let Some(mut details) = self.details {
            mask_credentials_in(&mut details);
            body["details"] = details;
        }
        body
    }
}

/// A tool's answer.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolAnswer {
    /// Whether the call succeeded. Not for deferred and rejected memories.
    pub ok: bool,
    /// The correlation id, also in the body.
    pub correlation_id: String,
    /// The body: always an object with `ok` and `correlation_id`.
    pub body: Value,
}

impl ToolAnswer {
    /// The error code, if the call failed.
    pub fn error_code(&self) -> Option<&str> {
        self.body.get("error_code").and_then(Value::as_str)
    }

    /// The message for people.
    pub fn message(&self) -> Option<&str> {
        self.body.get("message").and_then(Value::as_str)
    }
}

/// Calls a tool. Every failure is a JSON answer.
pub async fn call(
    service: &MemoryService,
    name: &str,
    arguments: impl Into<ToolArguments>,
    caller: &Caller,
) -> ToolAnswer {
    let ToolArguments { value, fault } = arguments.into();
    let given = caller.correlation_id.as_deref().unwrap_or_default();
    let correlation_id = String::from(Correlation::parse_or_new(given));
    let caller = caller.clone().in_request(&correlation_id);
    let known = find(service.options(), name);
    let fields = match (value, fault) {
        (value, Some(fault)) => Err((value, fault.refusal())),
        (Value::Object(fields), None) => Ok(fields),
        (Value::Null, None) => Ok(Map::new()),
        (value, None) => Err((value, wrong("arguments", "must be an object"))),
    };
    let answer = match (known, fields) {
        (None, _) => Err(unknown(service, name)),
        (Some(_), Ok(fields)) => dispatch(service, name, fields, &caller).await,
        (Some(tool), Err((value, refusal))) => {
            Err(unfit(service, tool.name, &value, refusal, &caller).await)
        }
    };
    let mut body = answer.unwrap_or_else(|refusal| {
        let is_decided = !refusal.is_retryable;
        let mut body = refusal.body();
        if known.is_some_and(answers_with_action) {
            body["action"] = json!(if is_decided { "reject" } else { "error" });
        }
        body
    });
    body["correlation_id"] = json!(correlation_id);
    let ok = body["ok"] == json!(true);
    if !ok {
        body["success"] = json!(false);
    }
    let tool = known.map_or("unknown", |tool| tool.name);
    let outcome = if ok { "ok" } else { "not_ok" };
    counter!(CALLS_TOTAL, "tool" => tool, "outcome" => outcome).increment(1);
    ToolAnswer {
        ok,
        correlation_id,
        body,
    }
}

/// Rejects arguments that no tool accepts, with the audit of the tool's rejections.
async fn unfit(
    service: &MemoryService,
    tool: &str,
    value: &Value,
    refusal: Refusal,
    caller: &Caller,
) -> Refusal {
    match tool {
        "memory_store" | "memory_update" | "memory_delete" => {
            let sketch = value.as_object().map(RequestOutline::of_fields);
            let sketch = sketch.unwrap_or_default();
            service.refused_store(sketch, refusal, caller).await
        }
        "governance_update" => {
            let claimed = value.get("actor_user_id").and_then(Value::as_str);
            service.refused_update(claimed, caller).await;
            refusal
        }
        _ => refusal,
    }
}

/// Whether every answer of a tool has an action, including rejections of malformed requests.
fn answers_with_action(tool: &ToolInfo) -> bool {
    let properties = tool.output_schema.get("properties");
    properties.is_some_and(|properties| properties.get("action").is_some())
}

fn unknown(service: &MemoryService, name: &str) -> Refusal {
    let names: Vec<&str> = offered(service.options()).map(|tool| tool.name).collect();
    Refusal::new("UNKNOWN_TOOL", format!("unknown tool {name:?}"))
        .with_details(json!({"tool": name, "available_tools": names}))
}

type Answer = Result<Value, Refusal>;

/// Stores a memory. Invalid requests are rejected and audited too.
async fn store(service: &MemoryService, fields: Map<String, Value>, caller: &Caller) -> Answer {
    let sketch = RequestOutline::of_fields(&fields);
    let mut arguments = Arguments::new(fields);
    let request = StoreRequest::take(&mut arguments);
    match request.and_then(|request| arguments.end().map(|()| request)) {
        Ok(request) => Ok(json!(service.store(request, caller).await)),
        Err(refusal) => Err(service.refused_store(sketch, refusal, caller).await),
    }
}

async fn dispatch(
    service: &MemoryService,
    name: &str,
    fields: Map<String, Value>,
    caller: &Caller,
) -> Answer {
    if name == "memory_store" {
        return store(service, fields, caller).await;
    }
    if name.starts_with("memory_") {
        return memories(service, name, fields, caller).await;
    }
    let mut arguments = Arguments::new(fields);
    let taken = &mut arguments;
    match name {
        "reliability_report" => {
            arguments.end()?;
            Ok(service.report().await)
        }
        "governance_get" => {
            arguments.end()?;
            service.governance_get().await
        }
        "governance_update" => {
            let claimed = taken.peek("actor_user_id").map(str::to_owned);
            let request = GovernanceUpdate::take(taken).and_then(|request| {
                arguments.end()?;
                Ok(request)
            });
            match request {
                Ok(request) => service.governance_update(request, caller).await,
                Err(refusal) => {
                    let claimed = claimed.as_deref();
                    service.refused_update(claimed, caller).await;
                    Err(refusal)
                }
            }
        }
        "evidence_upload" => {
            let request = EvidenceUpload::take(taken)?;
            arguments.end()?;
            service.evidence_upload(request, caller).await
        }
        "evidence_read" => {
            let request = EvidenceRead::take(taken)?;
            arguments.end()?;
            service.evidence_read(request, caller).await
        }
        _ => facts::dispatch(service, name, arguments, caller).await,
    }
}

/// The tools for memories except `memory_store`.
async fn memories(
    service: &MemoryService,
    name: &str,
    fields: Map<String, Value>,
    caller: &Caller,
) -> Answer {
    let sketch = RequestOutline::of_fields(&fields);
    let mut arguments = Arguments::new(fields);
    let taken = &mut arguments;
    match name {
        "memory_query" => {
            let request = QueryRequest::take(taken)?;
            arguments.end()?;
            service.query(request, caller).await
        }
        "memory_get" => {
            let id = taken.named("id")?;
            arguments.end()?;
            service.get(&id, caller).await
        }
        "memory_list" => {
            let request = ListRequest::take(taken)?;
            arguments.end()?;
            service.list(request, caller).await
        }
        "memory_spaces" => {
            let request = SpacesRequest::take(taken)?;
            arguments.end()?;
            service.memory_spaces(request, caller).await
        }
        "memory_update" => {
            let request = UpdateRequest::take(taken);
            match request.and_then(|request| arguments.end().map(|()| request)) {
                Ok(request) => service.update(request, caller).await,
                Err(refusal) => Err(service.refused_store(sketch, refusal, caller).await),
            }
        }
        "memory_delete" => {
            let request = DeleteRequest::take(taken);
            match request.and_then(|request| arguments.end().map(|()| request)) {
                Ok(request) => service.delete(request, caller).await,
                Err(refusal) => Err(service.refused_store(sketch, refusal, caller).await),
            }
        }
        _ => Err(unknown(service, name)),
    }
}
