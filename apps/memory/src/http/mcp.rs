//! The Model Context Protocol, every version at one endpoint.
//!
//! The official SDK implements it. In front of the SDK are additions of the gateway's contract:
//! errors with remedies, ids of any type returned unchanged, and the plain form `{"tool",
//! "arguments"}`.

mod errors;
mod front;
mod handler;
mod raw;
mod stdio;

use std::{fmt, sync::Arc};

use rmcp::transport::streamable_http_server::{
    StreamableHttpServerConfig, StreamableHttpService, session::never::NeverSessionManager,
};

pub(super) use self::front::{invalid, is_jsonrpc, unavailable, unreadable};
use self::handler::Tools;
pub(super) use self::raw::argument_fault;
pub use self::stdio::{StdioError, serve_stdio};
use crate::MemoryService;

/// The protocol over HTTP, without sessions: any process may answer any request.
#[derive(Clone)]
pub(super) struct Mcp {
    service: Arc<StreamableHttpService<Tools, NeverSessionManager>>,
}

impl Mcp {
    pub(super) fn new(memory: &Arc<MemoryService>) -> Self {
        // Hosts, origins and sizes are checked before.
        let config = StreamableHttpServerConfig::default()
            .with_legacy_session_mode(false)
            .with_json_response(true)
            .disable_allowed_hosts()
            .disable_allowed_origins()
            .with_max_request_body_bytes(usize::MAX);
        let tools = Tools::over_http(Arc::clone(memory));
        let service = StreamableHttpService::new(move || Ok(tools.clone()), Arc::default(), config);
        Self {
            service: Arc::new(service),
        }
    }
}

impl fmt::Debug for Mcp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mcp").finish_non_exhaustive()
    }
}
