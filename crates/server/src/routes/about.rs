//! What the server says about itself.

use axum::{Json as Answer, http::header, response::IntoResponse};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    extract::InPath,
    openapi,
    problem::{Problem, codes},
};

/// Where to begin
#[utoipa::path(
    get, path = "/", operation_id = "index", tag = "about",
    responses((status = 200, description = "A short index", body = String, content_type = "text/plain")),
)]
pub(crate) async fn index() -> impl IntoResponse {
    let text = concat!(
        "consign ",
        env!("CARGO_PKG_VERSION"),
        "\n\n",
        "POST /v1/queues/{queue}/messages   enqueue a message\n",
        "POST /do/order                   place an order\n",
        "GET  /do/order/{key}             what became of it\n",
        "POST /mcp                        memories of agents\n",
        "GET  /v1/messages/{id}           why it is where it is\n",
        "GET  /v1/queues                   queues, counts and ages\n",
        "GET  /v1/dead                    what needs a person\n",
        "GET  /readyz                     whether the server can work\n",
        "GET  /metrics                    Prometheus\n",
        "GET  /openapi.json               everything else\n",
    );
    ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text)
}

/// This description
#[utoipa::path(
    get, path = "/openapi.json", operation_id = "openapi", tag = "about",
    responses((status = 200, description = "OpenAPI", body = Object, content_type = "application/json")),
)]
pub(crate) async fn openapi_json() -> impl IntoResponse {
    (
        [(header::CONTENT_TYPE, "application/json")],
        openapi::openapi_json(),
    )
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
pub(crate) async fn problem(InPath(code): InPath<String>) -> Result<Answer<ProblemKind>, Problem> {
    let meaning = codes::find(&code);
    let meaning = meaning.ok_or_else(|| Problem::new(codes::NOT_FOUND, "no such code"))?;
    Ok(Answer(ProblemKind {
        code: meaning.code,
        status: meaning.status.as_u16(),
        title: meaning.title,
        remedy: meaning.remedy,
    }))
}
