//! The gateway's operations by name, as agents call them: one function for every transport.

mod arguments;
mod facts;
mod given;
mod schema;

use metrics::counter;
use serde_json::{Map, Value, json};

pub(crate) use self::arguments::{Arguments, NUL, has_nul, missing, wrong};
pub use self::{
    given::{ArgumentFault, GivenArguments},
    schema::{ToolInfo, find, list, offered},
};
use crate::{
    Caller, Correlation, MemoryService,
    gateway::{
        DeleteRequest, EvidenceRead, EvidenceUpload, GovernanceUpdate, ListRequest, QueryRequest,
        Sketch, SpacesRequest, StoreRequest, UpdateRequest,
    },
    metrics::CALLS_TOTAL,
    uri::{mask_credentials, mask_credentials_in},
};

/// Why a tool did not do what it was asked.
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
        // What is refused is quoted, and may be a URI with a password.
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

/// What a tool answers.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolAnswer {
    /// Whether it did what it was asked. A deferred memory did not; nor did a refused one.
    pub ok: bool,
    /// The request's name, also in the body.
    pub correlation_id: String,
    /// Everything there is to say: always an object with `ok` and `correlation_id`.
    pub body: Value,
}

impl ToolAnswer {
    /// The code of what went wrong, if anything did.
    pub fn error_code(&self) -> Option<&str> {
        self.body.get("error_code").and_then(Value::as_str)
    }

    /// What it says to people.
    pub fn message(&self) -> Option<&str> {
        self.body.get("message").and_then(Value::as_str)
    }
}

/// Calls a tool. Whatever happens there is an answer, and it is JSON.
pub async fn call(
    service: &MemoryService,
    name: &str,
    arguments: impl Into<GivenArguments>,
    caller: &Caller,
) -> ToolAnswer {
    let GivenArguments { value, fault } = arguments.into();
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

/// Refuses arguments that no tool can take, with the audit that the tool's refusals have.
async fn unfit(
    service: &MemoryService,
    tool: &str,
    value: &Value,
    refusal: Refusal,
    caller: &Caller,
) -> Refusal {
    match tool {
        "memory_store" | "memory_update" | "memory_delete" => {
            let sketch = value.as_object().map(Sketch::of_fields);
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

/// Whether every answer of a tool says what was decided, refusals of malformed requests too.
fn answers_with_action(tool: &ToolInfo) -> bool {
    let properties = tool.output_schema.get("properties");
    properties.is_some_and(|properties| properties.get("action").is_some())
}

fn unknown(service: &MemoryService, name: &str) -> Refusal {
    let names: Vec<&str> = offered(service.options()).map(|tool| tool.name).collect();
    Refusal::new("UNKNOWN_TOOL", format!("there is no tool {name:?}"))
        .with_details(json!({"tool": name, "available_tools": names}))
}

type Answer = Result<Value, Refusal>;

/// Stores a memory. What is no request for that is refused, and audited all the same.
async fn store(service: &MemoryService, fields: Map<String, Value>, caller: &Caller) -> Answer {
    let sketch = Sketch::of_fields(&fields);
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

/// The tools for memories but for the one that stores.
async fn memories(
    service: &MemoryService,
    name: &str,
    fields: Map<String, Value>,
    caller: &Caller,
) -> Answer {
    let sketch = Sketch::of_fields(&fields);
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
