//! The gateway's tools for the SDK.

use std::sync::{Arc, LazyLock};

use axum::http::request::Parts;
use consign_server::apps::Caller;
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, CompleteRequestMethod,
        CompleteRequestParams, CompleteResult, CustomRequest, CustomResult, Implementation,
        ListPromptsRequestMethod, ListPromptsResult, ListResourceTemplatesRequestMethod,
        ListResourceTemplatesResult, ListResourcesRequestMethod, ListResourcesResult,
        ListToolsResult, PaginatedRequestParams, ProtocolVersion, ServerCapabilities, ServerConfig,
        Tool, ToolAnnotations,
    },
    service::RequestContext,
};
use serde_json::{Value, json};

use super::errors::{METHODS, Reason, methods};
use crate::{
    Correlation, MemoryService,
    http::agent::Agent,
    tools::{self, ArgumentFault, ToolArguments},
};

const INSTRUCTIONS: &str = "A memory that you share with your team and keep across conversations. \
    Call memory_query before you begin a task, and memory_store when you have learnt something \
    that is worth knowing later. Answers are JSON: `ok` is true if it was done, `message` \
    describes the result. A memory whose action is `redirect` is stored, in the space that \
    space_written names; one that is `deferred` is kept and delivered later: do not store it \
    again. Results with `degraded` come from the logbook alone: rely on them less.";

/// Handler of the protocol.
#[derive(Clone)]
pub(super) struct Tools {
    service: Arc<MemoryService>,
    /// The caller on standard input; `None`: authenticated by the server.
    local: Option<Agent>,
}

impl Tools {
    pub(super) fn over_http(service: Arc<MemoryService>) -> Self {
        Self {
            service,
            local: None,
        }
    }

    pub(super) fn for_one(service: Arc<MemoryService>, agent: Agent) -> Self {
        Self {
            service,
            local: Some(agent),
        }
    }

    /// The caller; `None` is prevented by the authentication before.
    fn agent(&self, context: &RequestContext<RoleServer>) -> Option<Agent> {
        let parts = context.extensions.get::<Parts>();
        let caller = parts.and_then(|parts| parts.extensions.get::<Caller>());
        caller.map(Agent::of).or_else(|| self.local.clone())
    }
}

/// The correlation id, or a new one.
fn correlation(context: &RequestContext<RoleServer>) -> Correlation {
    let parts = context.extensions.get::<Parts>();
    let given = parts.and_then(|parts| parts.extensions.get::<Correlation>());
    given.cloned().unwrap_or_else(Correlation::new)
}

/// Extension in which the reader of standard input reports malformed arguments.
pub(super) const FAULT: &str = "consign/fault";

/// Problems in the text of the arguments, which the SDK does not expose.
fn fault(context: &RequestContext<RoleServer>) -> Option<ArgumentFault> {
    let parts = context.extensions.get::<Parts>();
    let over_http = parts.and_then(|parts| parts.extensions.get::<ArgumentFault>());
    let marked = || {
        let marked = context.meta.0.0.get(FAULT)?;
        serde_json::from_value(marked.clone()).ok()
    };
    over_http.cloned().or_else(marked)
}

/// Every tool as the protocol announces it.
fn announced() -> &'static [Tool] {
    static TOOLS: LazyLock<Vec<Tool>> = LazyLock::new(|| {
        let tools = tools::list().iter();
        let tools = tools.map(|tool| {
            let hints = ToolAnnotations::new()
                .read_only(tool.is_read_only)
                .destructive(tool.is_destructive)
                .open_world(false);
            let (input, output) = (tool.input_schema.clone(), tool.output_schema.clone());
            Tool::new(tool.name, tool.description, Arc::new(input))
                .with_raw_output_schema(Arc::new(output))
                .with_annotations(hints)
        });
        tools.collect()
    });
    &TOOLS
}

impl ServerHandler for Tools {
    fn get_info(&self) -> ServerConfig {
        let mut capabilities = ServerCapabilities::builder().enable_tools().build();
        if let Some(tools) = &mut capabilities.tools {
            tools.list_changed = Some(false);
        }
        let version = env!("CARGO_PKG_VERSION");
        let server = Implementation::new("consign", version).with_title("consign memory gateway");
        ServerConfig::new(capabilities)
            .with_server_info(server)
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let offered = tools::offered(self.service.options());
        let offered = offered.filter_map(|tool| self.get_tool(tool.name));
        Ok(ListToolsResult::with_all_items(offered.collect()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        let tool = tools::find(self.service.options(), name)?;
        let announced = announced().iter();
        announced
            .into_iter()
            .find(|known| known.name == tool.name)
            .cloned()
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let correlation = correlation(&context);
        let options = self.service.options();
        if tools::find(options, &request.name).is_none() {
            let names: Vec<&str> = tools::offered(options).map(|tool| tool.name).collect();
            let details = json!({"tool": request.name, "available_tools": names});
            let message = format!("unknown tool {:?}", request.name);
            return Err(Reason::UnknownTool.error(&message, Some(details), &correlation));
        }
        let Some(agent) = self.agent(&context) else {
            let message = "the caller is not authenticated";
            return Err(Reason::InternalError.error(message, None, &correlation));
        };
        let arguments = ToolArguments {
            value: Value::Object(request.arguments.unwrap_or_default()),
            fault: fault(&context),
        };
        let answer = agent.call(&self.service, &request.name, arguments, &correlation);
        // A decision of the gateway is a result, not an error of the protocol.
        Ok(CallToolResult::structured(answer.await.body).into())
    }

    /// Requests that the SDK cannot parse: unknown methods or invalid parameters.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let correlation = correlation(&context);
        let method = request.method.as_str();
        // The newest version has no handshake, so its clients must not be asked to initialize.
        let version = context.protocol_version();
        let is_modern = version.is_some_and(|version| version >= ProtocolVersion::V_2026_07_28);
        let is_gone = is_modern && method == "initialize";
        if is_gone || !METHODS.contains(&method) {
            let message = format!("unknown method {method:?}");
            let details = Some(methods(method));
            return Err(Reason::MethodNotFound.error(&message, details, &correlation));
        }
        let params = request.params.unwrap_or_default();
        let (reason, what) = match (method, &params["name"], &params["arguments"]) {
            ("tools/call", Value::Null, _) => (Reason::MissingRequiredParam, "name is missing"),
            ("tools/call", Value::String(_), arguments) if !arguments.is_object() => {
                (Reason::InvalidParamType, "arguments must be an object")
            }
            ("tools/call", name, _) if !name.is_string() => {
                (Reason::InvalidParamType, "name must be a text")
            }
            _ => (
                Reason::InvalidParamValue,
                "params are invalid for the method",
            ),
        };
        let details = json!({"method": method});
        Err(reason.error(what, Some(details), &correlation))
    }

    // The SDK would answer these with empty lists, which claims that there could be something.

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListPromptsRequestMethod>())
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListResourcesRequestMethod>())
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Err(ErrorData::method_not_found::<
            ListResourceTemplatesRequestMethod,
        >())
    }

    async fn complete(
        &self,
        _: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        Err(ErrorData::method_not_found::<CompleteRequestMethod>())
    }
}
