//! The gateway's most used tools as routes of their own: the body is what the tool takes, the
//! answer what it answers.

use axum::{
    Extension,
    extract::{Request, State},
    http::StatusCode,
    response::Response,
};
use consign_memory::{
    Correlation, GateRequest,
    tools::{ArgumentFault, GivenArguments, ToolAnswer},
};
use serde_json::{Map, Value, json};

use super::json_answer;
use crate::{
    extract::{check_type, parse, whole},
    gate::{access::Caller, agents::Agent},
    problem::{Problem, Voice, codes, internal},
    state::{AppState, Gateway},
};

/// The routes that take what a tool takes.
pub(crate) const TOOLS: &[(&str, &str)] = &[
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
/// What the tool `memory_store` takes and answers: `action` is `allow`, `redirect`, `deferred`,
/// `reject` or `error`.
#[utoipa::path(
    post, path = "/memory/store", operation_id = "store_memory", tag = "memory",
    request_body = Object,
    responses((status = 200, description = "What became of it", body = Object)),
)]
pub(crate) async fn store(
    state: State<AppState>,
    caller: Extension<Caller>,
    correlation: Extension<Correlation>,
    request: Request,
) -> Response {
    call("memory_store", state, caller, correlation, Some(request)).await
}

/// Search memories
///
/// What the tool `memory_query` takes and answers. `degraded` says that the memory server did not
/// answer and the logbook was searched instead.
#[utoipa::path(
    post, path = "/memory/query", operation_id = "query_memories", tag = "memory",
    request_body = Object,
    responses((status = 200, description = "What was found", body = Object)),
)]
pub(crate) async fn query(
    state: State<AppState>,
    caller: Extension<Caller>,
    correlation: Extension<Correlation>,
    request: Request,
) -> Response {
    call("memory_query", state, caller, correlation, Some(request)).await
}

/// Read a memory by its id
///
/// What the tool `memory_get` takes and answers. A private memory of somebody else is not found.
#[utoipa::path(
    post, path = "/memory/get", operation_id = "get_memory", tag = "memory",
    request_body = Object,
    responses((status = 200, description = "The memory", body = Object)),
)]
pub(crate) async fn get(
    state: State<AppState>,
    caller: Extension<Caller>,
    correlation: Extension<Correlation>,
    request: Request,
) -> Response {
    call("memory_get", state, caller, correlation, Some(request)).await
}

/// List memories, newest first
///
/// What the tool `memory_list` takes and answers; `next_cursor` goes on.
#[utoipa::path(
    post, path = "/memory/list", operation_id = "list_memories", tag = "memory",
    request_body = Object,
    responses((status = 200, description = "A page of memories", body = Object)),
)]
pub(crate) async fn list(
    state: State<AppState>,
    caller: Extension<Caller>,
    correlation: Extension<Correlation>,
    request: Request,
) -> Response {
    call("memory_list", state, caller, correlation, Some(request)).await
}

/// Replace a memory by a newer version
///
/// What the tool `memory_update` takes and answers, which is what `memory_store` answers.
#[utoipa::path(
    post, path = "/memory/update", operation_id = "update_memory", tag = "memory",
    request_body = Object,
    responses((status = 200, description = "What became of it", body = Object)),
)]
pub(crate) async fn update(
    state: State<AppState>,
    caller: Extension<Caller>,
    correlation: Extension<Correlation>,
    request: Request,
) -> Response {
    call("memory_update", state, caller, correlation, Some(request)).await
}

/// Remove a memory
///
/// What the tool `memory_delete` takes and answers. A private memory of somebody else is not found.
#[utoipa::path(
    post, path = "/memory/delete", operation_id = "delete_memory", tag = "memory",
    request_body = Object,
    responses((status = 200, description = "What became of it", body = Object)),
)]
pub(crate) async fn delete(
    state: State<AppState>,
    caller: Extension<Caller>,
    correlation: Extension<Correlation>,
    request: Request,
) -> Response {
    call("memory_delete", state, caller, correlation, Some(request)).await
}

/// List the spaces of a caller
///
/// What the tool `memory_spaces` takes and answers. Private spaces of others are not in it.
#[utoipa::path(
    post, path = "/memory/spaces", operation_id = "list_memory_spaces", tag = "memory",
    request_body = Object,
    responses((status = 200, description = "The spaces", body = Object)),
)]
pub(crate) async fn spaces(
    state: State<AppState>,
    caller: Extension<Caller>,
    correlation: Extension<Correlation>,
    request: Request,
) -> Response {
    call("memory_spaces", state, caller, correlation, Some(request)).await
}

/// How many memories were stored, deferred, refused and lost
#[utoipa::path(
    get, path = "/reliability/report", operation_id = "reliability_report", tag = "memory",
    responses((status = 200, description = "The report", body = Object)),
)]
pub(crate) async fn report(
    state: State<AppState>,
    caller: Extension<Caller>,
    correlation: Extension<Correlation>,
) -> Response {
    call("reliability_report", state, caller, correlation, None).await
}

/// Whether the gateway can do all that it must
///
/// Tries what can be tried without storing anything. In mode `FULL` everything must work but what
/// `skip` names, or the settings (`skip_<capability>`) or the environment do; what was not tried for
/// another reason counts as missing. The capabilities are `openmemory`, `audit`, `outbox`,
/// `memory_query`, `reconcile` and `degradation`, which only `consign verify --full` tries.
#[utoipa::path(
    post, path = "/reliability/gate", operation_id = "reliability_gate", tag = "memory",
    request_body = Object,
    responses((status = 200, description = "Whether one may go on, and what is missing", body = Object)),
)]
pub(crate) async fn gate(
    State(state): State<AppState>,
    Extension(correlation): Extension<Correlation>,
    request: Request,
) -> Response {
    let asked = async {
        let gateway = served(&state)?;
        let (headers, bytes) = whole(request).await?;
        check_type(&headers, "application/json")?;
        let request: GateRequest = parse(&bytes)?;
        let answer = gateway.here.service.gate(&request).await;
        answer.map_err(|why| Problem::new(codes::INVALID_INPUT, why))
    };
    match asked.await {
        Ok(mut answer) => {
            answer["correlation_id"] = json!(correlation);
            json_answer(StatusCode::OK, &answer)
        }
        Err(problem) => refused(problem, &correlation),
    }
}

/// The project's settings of memories
#[utoipa::path(
    get, path = "/governance/settings", operation_id = "memory_settings", tag = "memory",
    responses((status = 200, description = "The settings", body = Object)),
)]
pub(crate) async fn settings(
    state: State<AppState>,
    caller: Extension<Caller>,
    correlation: Extension<Correlation>,
) -> Response {
    call("governance_get", state, caller, correlation, None).await
}

/// Change the project's settings of memories
///
/// What the tool `governance_update` takes and answers. Needs the admin key, a token with the scope
/// `operator`, or a token of somebody on `allowlist_users`; `action` is `reject` otherwise.
#[utoipa::path(
    post, path = "/governance/settings/update", operation_id = "change_memory_settings",
    tag = "memory",
    request_body = Object,
    responses((status = 200, description = "What became of it", body = Object)),
)]
pub(crate) async fn change_settings(
    state: State<AppState>,
    caller: Extension<Caller>,
    correlation: Extension<Correlation>,
    request: Request,
) -> Response {
    let tool = "governance_update";
    call(tool, state, caller, correlation, Some(request)).await
}

async fn call(
    tool: &str,
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    Extension(correlation): Extension<Correlation>,
    request: Option<Request>,
) -> Response {
    let called = async {
        let gateway = served(&state)?;
        let arguments = match request {
            None => Map::new().into(),
            Some(request) => {
                let (headers, bytes) = whole(request).await?;
                check_type(&headers, "application/json")?;
                let fields = parse::<Map<String, Value>>(&bytes)?;
                let text = std::str::from_utf8(&bytes).unwrap_or_default();
                GivenArguments {
                    fault: ArgumentFault::find(text),
                    ..fields.into()
                }
            }
        };
        let service = &gateway.here.service;
        let agent = agent(&caller)?;
        let answer = agent.call(service, tool, arguments, &correlation);
        Ok(answer.await)
    };
    match called.await {
        Ok(answer) => json_answer(status(&answer), &answer.body),
        Err(problem) => refused(problem, &correlation),
    }
}

/// What the gateway decided is an answer; what it could not is a failure of the request.
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

pub(super) fn served(state: &AppState) -> Result<&Gateway, Problem> {
    let gateway = state.memory.as_deref();
    gateway.ok_or_else(|| {
        let detail = "this server keeps no memories: memory.enabled is false";
        Problem::new(codes::NOT_FOUND, detail)
    })
}

/// Who calls, as the gate found out.
pub(super) fn agent(caller: &Caller) -> Result<&Agent, Problem> {
    let agent = caller.agent.as_ref();
    agent.ok_or_else(|| internal("a route of the gateway is not behind its gate"))
}

pub(super) fn refused(problem: Problem, correlation: &Correlation) -> Response {
    let problem = problem.in_request(Some(correlation));
    problem.in_voice(Voice::Agents)
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
