//! The protocol on standard input and output, for a client that starts its servers itself.

use std::{borrow::Cow, sync::Arc};

use consign_memory::{Caller, Correlation, MemoryService};
use rmcp::{
    ErrorData, RoleServer, Service,
    model::{ClientNotification, ClientRequest, ProtocolVersion, ServerConfig, ServerResult},
    service::{NotificationContext, RequestContext},
    transport::stdio_pipes,
};

use super::{errors, handler::Tools};
use crate::gate::agents::Agent;

/// Why the protocol could not be spoken.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct StdioError(String);

/// Serves one client on standard input and output until it is gone, and ends what it began.
///
/// Whoever starts the process may do everything; with an actor, they act as nobody else.
pub async fn serve_stdio(
    service: Arc<MemoryService>,
    actor: Option<String>,
) -> Result<(), StdioError> {
    let agent = Agent {
        caller: Caller {
            is_authenticated: actor.is_some(),
            actor,
            ..Caller::anonymous()
        },
        may_write: true,
    };
    let tools = Complete(Tools::for_one(service, agent));
    let running = match rmcp::serve_server(tools, stdio_pipes()).await {
        Ok(running) => running,
        // Gone before it said anything: nothing was asked of us.
        Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(StdioError(error.to_string())),
    };
    let ended = running.waiting().await;
    ended.map_err(|error| StdioError(error.to_string()))?;
    Ok(())
}

/// The tools, with errors that say as much as those over HTTP.
struct Complete(Tools);

impl Service<RoleServer> for Complete {
    async fn handle_request(
        &self,
        request: ClientRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<ServerResult, ErrorData> {
        let method = request.method().to_owned();
        let answer = Service::handle_request(&self.0, request, context).await;
        answer.map_err(|error| errors::completed(error, &method, &Correlation::new()))
    }

    async fn handle_notification(
        &self,
        notification: ClientNotification,
        context: NotificationContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Service::handle_notification(&self.0, notification, context).await
    }

    fn get_info(&self) -> ServerConfig {
        Service::get_info(&self.0)
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Service::supported_protocol_versions(&self.0)
    }
}
