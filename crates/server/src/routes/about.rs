//! The index, the OpenAPI document and the meaning of problem codes.

use axum::{Json as Answer, extract::State, http::header, response::IntoResponse};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    extract::InPath,
    openapi,
    problem::{Problem, codes},
    state::AppState,
};

/// Where to begin
#[utoipa::path(
    get, path = "/", operation_id = "index", tag = "about",
    responses((status = 200, description = "A short index", body = String, content_type = "text/plain")),
)]
pub(crate) async fn index(State(state): State<AppState>) -> impl IntoResponse {
    const FIRST: &str = concat!(
        "consign ",
        env!("CARGO_PKG_VERSION"),
        "\n\n",
        "POST /v1/queues/{queue}/messages   enqueue a message\n",
    );
    const LAST: &str = concat!(
        "GET  /v1/messages/{id}           a message, its state and attempts\n",
        "GET  /v1/queues                   queues, counts and ages\n",
        "GET  /v1/dead                    dead messages\n",
        "GET  /v1/dead/causes             dead messages by queue and code\n",
        "GET  /readyz                     whether the server can work\n",
        "GET  /metrics                    Prometheus\n",
        "GET  /openapi.json               everything else\n",
    );
    let lines = state.extensions.iter().flat_map(|it| it.index());
    let lines = lines.map(|(path, what)| format!("{path:<32} {what}\n"));
    let text = format!("{FIRST}{}{LAST}", lines.collect::<String>());
    ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text)
}

/// This description
#[utoipa::path(
    get, path = "/openapi.json", operation_id = "openapi", tag = "about",
    responses((status = 200, description = "OpenAPI", body = Object, content_type = "application/json")),
)]
pub(crate) async fn openapi_json(State(state): State<AppState>) -> impl IntoResponse {
    let text = openapi::openapi_json(&state).to_owned();
    ([(header::CONTENT_TYPE, "application/json")], text)
}

/// What a code means.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ProblemKind {
    code: &'static str,
    status: u16,
    title: &'static str,
    /// What to do about it.
    remedy: &'static str,
}

/// What a problem's code means
#[utoipa::path(
    get, path = "/problems/{code}", operation_id = "show_problem", tag = "about",
    params(("code" = String, Path, description = "The code")),
    responses((status = 200, description = "Its meaning", body = ProblemKind)),
)]
pub(crate) async fn problem(
    State(state): State<AppState>,
    InPath(code): InPath<String>,
) -> Result<Answer<ProblemKind>, Problem> {
    let own = state.extensions.iter().flat_map(|it| it.problems());
    let mut own = own.filter(|meaning| meaning.code == code);
    let meaning = codes::find(&code).or_else(|| own.next().copied());
    let meaning = meaning
        .ok_or_else(|| Problem::new(codes::NOT_FOUND, format!("code {code:?} does not exist")))?;
    Ok(Answer(ProblemKind {
        code: meaning.code,
        status: meaning.status.as_u16(),
        title: meaning.title,
        remedy: meaning.remedy,
    }))
}
