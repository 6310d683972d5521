//! Memories over HTTP: `/mcp` and the routes of single tools, their pages, and tokens of agents.
//! The same tools on standard input and output.

mod agent;
mod call;
mod errors;
mod mcp;
mod naming;
mod routes;
mod table;
mod wire;

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use axum::{
    Json,
    body::to_bytes,
    extract::Request,
    http::Method,
    response::{IntoResponse as _, Response},
};
use consign_kernel::{Message, NewMessage};
use consign_server::apps::{
    AuditLog, ErrorFormat, Extension, Problem, QueueProfile, RelatedRecord, Routes, TokenHolder,
    codes,
};
use jiff::Timestamp;
use serde_json::{Map, Value};
use tokio::time::timeout;
use utoipa::{
    OpenApi as _,
    openapi::{Content, OpenApi, RefOr, Required, Schema, request_body::RequestBody},
};

pub use self::mcp::{StdioError, serve_stdio};
use self::{mcp::Mcp, table::Table, wire::Greeting};
use crate::{
    Correlation, GatewayToken, MemoryOptions, MemoryService, QUEUE, Secret,
    pages::{self, PageCaches, WriteAudits},
    tools::{self, ToolInfo},
};

const JSON: &str = "application/json";
/// How much of a request is read to answer with its id: the caller is not authenticated yet.
const BODY_BYTES_MAX: usize = 64 * 1024;
const BODY_WITHIN: Duration = Duration::from_secs(5);

/// The HTTP extension of the app.
#[derive(Clone)]
pub struct MemoryHttp {
    /// `None` if the app is off.
    pub(crate) gateway: Option<Arc<Gateway>>,
}

/// The service, the protocol handler and the caches of the pages.
pub(crate) struct Gateway {
    pub(crate) service: Arc<MemoryService>,
    tokens: Vec<GatewayToken>,
    mcp: Mcp,
    pub(crate) caches: PageCaches,
}

#[derive(utoipa::OpenApi)]
#[openapi(
    paths(
        routes::health,
        call::call, call::preflight,
        routes::store, routes::query, routes::get, routes::list, routes::update, routes::delete,
        routes::spaces, routes::report, routes::gate, routes::settings, routes::change_settings,
    ),
    components(schemas(wire::AgentFailure)),
    tags((
        name = "memory",
        description = "Memories of agents; errors have `ok`, `error` and `error_code`"
    )),
)]
struct Document;

impl MemoryHttp {
    /// A gateway with these options.
    pub fn new(service: Arc<MemoryService>, options: &MemoryOptions) -> Self {
        let tokens = options.tokens().unwrap_or_else(|error| {
            // An unknown random token closes the gateway: invalid tokens must not open it.
            tracing::error!(%error, "the memory gateway is closed: its tokens are invalid");
            vec![GatewayToken {
                token: Secret::new(""),
                actor: None,
                admin: false,
            }]
        });
        let gateway = Gateway {
            mcp: Mcp::new(&service),
            service,
            tokens,
            caches: PageCaches::default(),
        };
        Self {
            gateway: Some(Arc::new(gateway)),
        }
    }

    /// The app is off: the routes answer 404.
    pub fn off() -> Self {
        Self { gateway: None }
    }

    fn gateway(&self) -> Result<&Gateway, Problem> {
        let gateway = self.gateway.as_deref();
        gateway.ok_or_else(|| {
            let detail = "the app memory is off on this server";
            Problem::new(codes::NOT_FOUND, detail)
        })
    }
}

impl fmt::Debug for MemoryHttp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryHttp").finish_non_exhaustive()
    }
}

#[async_trait]
impl Extension for MemoryHttp {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn routes(&self, routes: &mut Routes) {
        pages::add(self, routes);
        let http = self.clone();
        Table { routes, http }.all();
    }

    fn openapi(&self) -> Option<OpenApi> {
        let mut document = Document::openapi();
        add_tools(&mut document);
        Some(document)
    }

    fn index(&self) -> &'static [(&'static str, &'static str)] {
        &[("POST /mcp", "memories of agents")]
    }

    fn error_format(&self, path: &str) -> Option<ErrorFormat> {
        let roots = ["/mcp", "/memory/", "/reliability/", "/governance/"];
        let is_own = roots.iter().any(|root| path.starts_with(root));
        is_own.then_some(ErrorFormat::Custom(errors::answer))
    }

    async fn starting(&self, request: &mut Request, problem: &Problem) -> Option<Response> {
        match request.uri().path() {
            "/health" => Some(Json(Greeting::STARTING).into_response()),
            "/mcp" if request.method() == Method::POST => unavailable(request, problem).await,
            _ => None,
        }
    }

    fn has_tokens(&self) -> bool {
        let gateway = self.gateway.as_ref();
        gateway.is_some_and(|gateway| !gateway.tokens.is_empty())
    }

    fn token_holder(&self, bearer: &str) -> Option<TokenHolder> {
        let gateway = self.gateway.as_ref()?;
        let caller = GatewayToken::caller(&gateway.tokens, bearer)?;
        Some(TokenHolder {
            name: caller.actor,
            label: "gateway",
            is_admin: caller.is_admin,
        })
    }

    fn token_settings(&self) -> Option<(&'static str, &'static str)> {
        let settings = "memory.gateway_auth_token, memory.gateway_auth_tokens_json";
        Some(("agents", settings))
    }

    fn navigation(&self) -> &'static [(&'static str, &'static str)] {
        &[("/ui/memory", "Memory")]
    }

    fn audit_log(&self) -> Option<Arc<dyn AuditLog>> {
        Some(Arc::new(WriteAudits(self.clone())))
    }

    fn queue(&self) -> Option<QueueProfile> {
        Some(QueueProfile {
            queue: QUEUE,
            title: "Memories",
            counts: ["deferred", "being stored", "held", "dead"],
            held: None,
            resolve_fields: "",
            resolves_unknown: true,
            can_erase: true,
        })
    }

    async fn related(
        &self,
        message: &Message,
        now: Timestamp,
        _is_revealed: bool,
    ) -> Result<Vec<RelatedRecord>, Problem> {
        pages::related(self, message, now).await
    }

    /// An enqueue would bypass the policy, and its audits would have no actor.
    fn check_enqueue(&self, message: &NewMessage) -> Result<(), Problem> {
        if self.gateway.is_none() || message.queue != crate::queue() {
            return Ok(());
        }
        let why = "store memories with POST /mcp or POST /memory/store";
        Err(Problem::invalid("queue", why))
    }

    async fn finished(&self) {
        if let Some(gateway) = &self.gateway {
            gateway.service.finished().await;
        }
    }
}

/// A call without a database: a JSON-RPC error where the request is JSON-RPC, else the plain form,
/// which the server answers.
async fn unavailable(request: &mut Request, problem: &Problem) -> Option<Response> {
    let body = std::mem::take(request.body_mut());
    let read = timeout(BODY_WITHIN, to_bytes(body, BODY_BYTES_MAX)).await;
    let bytes = read.ok().and_then(Result::ok).unwrap_or_default();
    let id = match serde_json::from_slice::<Value>(&bytes).ok() {
        Some(Value::Object(fields)) if mcp::is_jsonrpc(&fields) => fields.get("id").cloned(),
        Some(Value::Object(_)) => return None,
        _ => None,
    };
    let correlation = Correlation::new();
    let body = mcp::unavailable(&problem.detail, id.unwrap_or_default(), &correlation);
    let mut response = problem.clone().with_body(&body);
    naming::name(response.headers_mut(), &correlation);
    Some(response)
}

/// Adds the schemas of tools to the routes that call them.
fn add_tools(document: &mut OpenApi) {
    for (path, tool) in routes::TOOLS {
        let item = document.paths.paths.get_mut(*path);
        let Some(operation) = item.and_then(|item| item.post.as_mut()) else {
            continue;
        };
        operation.request_body = Some(RefOr::T(arguments_of(tool)));
        if let Some(RefOr::T(answer)) = operation.responses.responses.get_mut("200") {
            let schema = schema_of(&tool_named(tool).output_schema);
            let content = Content::new(Some(RefOr::T(schema)));
            answer.content.insert(JSON.to_owned(), RefOr::T(content));
        }
    }
}

/// Request body of a route that calls a tool.
fn arguments_of(tool: &str) -> RequestBody {
    let tool = tool_named(tool);
    let mut body = RequestBody::new();
    body.description = Some(format!("Arguments of the tool `{}`", tool.name));
    body.required = Some(Required::True);
    let content = Content::new(Some(RefOr::T(schema_of(&tool.input_schema))));
    body.content.insert(JSON.to_owned(), RefOr::T(content));
    body
}

fn tool_named(name: &str) -> &'static ToolInfo {
    let tool = tools::list().iter().find(|known| known.name == name);
    tool.expect("invariant: a route is named after a tool")
}

fn schema_of(schema: &Map<String, Value>) -> Schema {
    let schema = serde_json::from_value(Value::Object(schema.clone()));
    schema.expect("invariant: the schema of a tool is one of OpenAPI")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Clients generated from the document send valid arguments.
    #[test]
    fn routes_of_tools_take_what_the_tools_take() {
        let document = MemoryHttp::off().openapi().unwrap().to_json().unwrap();
        let document: Value = serde_json::from_str(&document).unwrap();
        for (path, name) in routes::TOOLS {
            let body = &document["paths"][path]["post"]["requestBody"];
            assert_eq!(body["required"], true, "{path}");
            let schema = &body["content"]["application/json"]["schema"];
            let tools = tools::list();
            let tool = tools.iter().find(|tool| tool.name == *name).unwrap();
            let names = |schema: &Value| -> BTreeSet<String> {
                let properties = schema["properties"].as_object().unwrap();
                properties.keys().cloned().collect()
            };
            let wanted = Value::Object(tool.input_schema.clone());
            assert_eq!(names(schema), names(&wanted), "{path}");
            for (name, property) in wanted["properties"].as_object().unwrap() {
                let given = &schema["properties"][name];
                for what in ["type", "description", "minimum", "maximum", "default"] {
                    assert_eq!(given[what], property[what], "{path} {name} {what}");
                }
            }
            assert_eq!(schema["additionalProperties"], false, "{path}");
            let required = |schema: &Value| schema["required"].as_array().cloned();
            let wanted = required(&wanted).unwrap_or_default();
            assert_eq!(required(schema).unwrap_or_default(), wanted, "{path}");
        }
    }
}
