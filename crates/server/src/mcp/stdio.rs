//! The protocol on standard input and output, for a client that starts its servers itself.

use std::sync::Arc;

use consign_memory::{Caller, MemoryService};
use rmcp::transport::stdio_pipes;

use super::handler::Tools;
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
    let tools = Tools::for_one(service, agent);
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
