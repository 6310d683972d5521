//! Routes of the most used tools: the body has the tool's arguments, the answer is the tool's.

use axum::{
    Extension, Json,
    extract::{Request, State},
    http::StatusCode,
    response::Response,
};
use consign_server::apps::{Caller, Problem, check_type, codes, json_answer, parse, whole};
use serde_json::{Map, Value, json};

use super::{MemoryHttp, agent::Agent, errors::refused, wire::Greeting};
use crate::{
    Correlation, GateRequest,
    tools::{ArgumentFault, ToolAnswer, ToolArguments},
};

/// Routes that call a tool.
pub(super) const TOOLS: &[(&str, &str)] = &[
    ("/memory/store", "memory_store"),
    ("/memory/query", "memory_query"),
    ("/memory/get", "memory_get"),
    ("/memory/list", "memory_list"),
    ("/memory/update", "memory_update"),
    ("/memory/delete", "memory_delete"),
    ("/memory/spaces", "memory_spaces"),
    ("/governance/settings/update", "governance_update"),
];

/// Store a memory
///
/// Arguments and answer of the tool `memory_store`: `action` is `allow`, `redirect`, `deferred`,
/// `reject` or `error`.
#[utoipa::path(
    post, path = "/memory/store", operation_id = "store_memory", tag = "memory",
    request_body = Object,
    responses((status = 200, description = "The result", body = Object)),
)]
pub(super) async fn store(
    http: State<MemoryHttp>,
    caller: Extension<Caller>,
    correlation: Extension<Correlation>,
    request: Request,
) -> Response {
    call("memory_store", http, caller, correlation, Some(request)).await
}

/// Search memories
///
/// Arguments and answer of the tool `memory_query`. `degraded`: the memory server was unavailable
/// and the logbook was searched instead.
#[utoipa::path(
    post, path = "/memory/query", operation_id = "query_memories", tag = "memory",
    request_body = Object,
    responses((status = 200, description = "The memories found", body = Object)),
)]
pub(super) async fn query(
    http: State<MemoryHttp>,
    caller: Extension<Caller>,
    correlation: Extension<Correlation>,
    request: Request,
) -> Response {
    call("memory_query", http, caller, correlation, Some(request)).await
}

/// Read a memory by its id
///
/// Arguments and answer of the tool `memory_get`. Another user's private memory is not found.
#[utoipa::path(
    post, path = "/memory/get", operation_id = "get_memory", tag = "memory",
    request_body = Object,
    responses((status = 200, description = "The memory", body = Object)),
)]
pub(super) async fn get(
    http: State<MemoryHttp>,
    caller: Extension<Caller>,
    correlation: Extension<Correlation>,
    request: Request,
) -> Response {
    call("memory_get", http, caller, correlation, Some(request)).await
}

/// List memories, newest first
///
/// Arguments and answer of the tool `memory_list`; `next_cursor` continues the list.
#[utoipa::path(
    post, path = "/memory/list", operation_id = "list_memories", tag = "memory",
    request_body = Object,
    responses((status = 200, description = "A page of memories", body = Object)),
)]
pub(super) async fn list(
    http: State<MemoryHttp>,
    caller: Extension<Caller>,
    correlation: Extension<Correlation>,
    request: Request,
) -> Response {
    call("memory_list", http, caller, correlation, Some(request)).await
}

/// Replace a memory by a newer version
///
/// Arguments and answer of the tool `memory_update`; the answer is that of `memory_store`.
#[utoipa::path(
    post, path = "/memory/update", operation_id = "update_memory", tag = "memory",
    request_body = Object,
    responses((status = 200, description = "The result", body = Object)),
)]
pub(super) async fn update(
    http: State<MemoryHttp>,
    caller: Extension<Caller>,
    correlation: Extension<Correlation>,
    request: Request,
) -> Response {
    call("memory_update", http, caller, correlation, Some(request)).await
}

/// Delete a memory
///
/// Arguments and answer of the tool `memory_delete`. Another user's private memory is not found.
#[utoipa::path(
    post, path = "/memory/delete", operation_id = "delete_memory", tag = "memory",
    request_body = Object,
    responses((status = 200, description = "The result", body = Object)),
)]
pub(super) async fn delete(
    http: State<MemoryHttp>,
    caller: Extension<Caller>,
    correlation: Extension<Correlation>,
    request: Request,
) -> Response {
    call("memory_delete", http, caller, correlation, Some(request)).await
}

/// List the spaces of a caller
///
/// Arguments and answer of the tool `memory_spaces`. Private spaces of other users are not
/// included.
#[utoipa::path(
    post, path = "/memory/spaces", operation_id = "list_memory_spaces", tag = "memory",
    request_body = Object,
    responses((status = 200, description = "The spaces", body = Object)),
)]
pub(super) async fn spaces(
    http: State<MemoryHttp>,
    caller: Extension<Caller>,
    correlation: Extension<Correlation>,
    request: Request,
) -> Response {
    call("memory_spaces", http, caller, correlation, Some(request)).await
}

/// Show the reliability report
#[utoipa::path(
    get, path = "/reliability/report", operation_id = "reliability_report", tag = "memory",
    responses((status = 200, description = "The report", body = Object)),
)]
pub(super) async fn report(
    http: State<MemoryHttp>,
    caller: Extension<Caller>,
    correlation: Extension<Correlation>,
) -> Response {
    call("reliability_report", http, caller, correlation, None).await
}

/// Check the gate
///
/// Tries what can be tried without storing anything. In mode `FULL` every capability must work,
/// except those in `skip`, in the settings (`skip_<capability>`) or in the environment; a
/// capability that was not tried for another reason counts as missing. The capabilities are
/// `openmemory`, `audit`, `outbox`, `memory_query`, `reconcile` and `degradation`, which only
/// `consign verify --full` tries.
#[utoipa::path(
    post, path = "/reliability/gate", operation_id = "reliability_gate", tag = "memory",
    request_body = Object,
    responses((status = 200, description = "Whether the gate passes, and what is missing", body = Object)),
)]
pub(super) async fn gate(
    State(http): State<MemoryHttp>,
    Extension(correlation): Extension<Correlation>,
    request: Request,
) -> Response {
    let checks = async {
        let gateway = http.gateway()?;
        let (headers, bytes) = whole(request).await?;
        check_type(&headers, "application/json")?;
        let request: GateRequest = parse(&bytes)?;
        let answer = gateway.service.gate(&request).await;
        answer.map_err(|why| Problem::new(codes::INVALID_INPUT, why))
    };
    match checks.await {
        Ok(mut answer) => {
            answer["correlation_id"] = json!(correlation);
            json_answer(StatusCode::OK, &answer)
        }
        Err(problem) => refused(problem, &correlation),
    }
}

/// Show the memory settings of the project
#[utoipa::path(
    get, path = "/governance/settings", operation_id = "memory_settings", tag = "memory",
    responses((status = 200, description = "The settings", body = Object)),
)]
pub(super) async fn settings(
    http: State<MemoryHttp>,
    caller: Extension<Caller>,
    correlation: Extension<Correlation>,
) -> Response {
    call("governance_get", http, caller, correlation, None).await
}

/// Change the memory settings of the project
///
/// Arguments and answer of the tool `governance_update`. Requires the admin key, a token with the
/// scope `operator`, or a token of a user in `allowlist_users`; otherwise `action` is `reject`.
#[utoipa::path(
    post, path = "/governance/settings/update", operation_id = "change_memory_settings",
    tag = "memory",
    request_body = Object,
    responses((status = 200, description = "The result", body = Object)),
)]
pub(super) async fn change_settings(
    http: State<MemoryHttp>,
    caller: Extension<Caller>,
    correlation: Extension<Correlation>,
    request: Request,
) -> Response {
    let tool = "governance_update";
    call(tool, http, caller, correlation, Some(request)).await
}

async fn call(
    tool: &str,
    State(http): State<MemoryHttp>,
    Extension(caller): Extension<Caller>,
    Extension(correlation): Extension<Correlation>,
    request: Option<Request>,
) -> Response {
    let called = async {
        let gateway = http.gateway()?;
        let arguments = match request {
            None => Map::new().into(),
            Some(request) => {
                let (headers, bytes) = whole(request).await?;
                check_type(&headers, "application/json")?;
                let fields = parse::<Map<String, Value>>(&bytes)?;
                let text = std::str::from_utf8(&bytes).unwrap_or_default();
                ToolArguments {
                    fault: ArgumentFault::find(text),
                    ..fields.into()
                }
            }
        };
        let agent = Agent::of(&caller);
        let answer = agent.call(&gateway.service, tool, arguments, &correlation);
        Ok(answer.await)
    };
    match called.await {
        Ok(answer) => json_answer(status(&answer), &answer.body),
        Err(problem) => refused(problem, &correlation),
    }
}

/// A decision is an answer; a failed decision is an HTTP error.
fn status(answer: &ToolAnswer) -> StatusCode {
    let is_retryable = answer.body["retryable"] == true;
    let is_decided = answer.body["action"].is_string() && answer.body["action"] != "error";
    match answer.error_code() {
        _ if answer.ok => StatusCode::OK,
        Some("MISSING_REQUIRED_PARAMETER" | "INVALID_PARAMETER" | "OUTBOX_VALIDATION_FAILED") => {
            StatusCode::BAD_REQUEST
        }
        Some("SCOPE_MISSING") => StatusCode::FORBIDDEN,
        Some("NOT_FOUND") => StatusCode::NOT_FOUND,
        _ if is_decided => StatusCode::OK,
        Some("OPENMEMORY_REFUSED") => StatusCode::BAD_GATEWAY,
        Some("SPACE_FORBIDDEN" | "ACTOR_MISMATCH") => StatusCode::FORBIDDEN,
        Some("PAYLOAD_TOO_LARGE") => StatusCode::PAYLOAD_TOO_LARGE,
        _ if is_retryable => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// Show that the memory gateway answers
///
/// Does not use the database; `/readyz` does.
#[utoipa::path(
    get, path = "/health", operation_id = "health", tag = "health",
    responses((status = 200, description = "It answers", body = Greeting)),
)]
pub(super) async fn health() -> Json<Greeting> {
    Json(Greeting::SERVING)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn decisions_are_answers_and_failures_are_not() {
        let table = [
            (json!({"ok": true, "action": "allow"}), 200),
            (json!({"ok": false, "action": "deferred"}), 200),
            (
                json!({"ok": false, "action": "reject", "error_code": "POLICY_REJECT"}),
                200,
            ),
            (json!({"ok": true, "degraded": true}), 200),
            (json!({"ok": false, "error_code": "INVALID_PARAMETER"}), 400),
            (
                json!({"ok": false, "action": "reject", "error_code": "INVALID_PARAMETER"}),
                400,
            ),
            (json!({"ok": false, "error_code": "SPACE_FORBIDDEN"}), 403),
            (json!({"ok": false, "error_code": "NOT_FOUND"}), 404),
            (
                json!({"ok": false, "action": "error", "error_code": "OPENMEMORY_REFUSED"}),
                502,
            ),
            (
                json!({"ok": false, "action": "error", "error_code": "AUDIT_WRITE_FAILED", "retryable": true}),
                503,
            ),
            (json!({"ok": false, "error_code": "EXECUTION_FAILED"}), 500),
        ];
        for (body, expected) in table {
            let answer = ToolAnswer {
                ok: body["ok"] == true,
                correlation_id: String::new(),
                body: body.clone(),
            };
            assert_eq!(status(&answer), expected, "{body}");
        }
    }
}
