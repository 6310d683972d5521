//! `consign mcp`: the gateway of memories for one agent, on standard input and output.

use clap::Args;

use crate::{
    config::Flags,
    context::Context,
    failure::{Exit, Failure},
    service::Memory,
    telemetry::Telemetry,
};

/// Serve the gateway of memories to one agent by the Model Context Protocol, on standard input and
/// output.
///
/// For clients that start their servers themselves; `consign serve` answers any number of them at
/// /mcp. Ends when the client closes standard input. Memories that the memory server cannot take are
/// kept, and delivered by `consign serve` or `consign work`.
#[derive(Args, Debug)]
pub(crate) struct Mcp {
    /// Who the agent is: it stores and reads as nobody else [default: whoever it says it is]
    #[arg(long, value_name = "USER")]
    actor: Option<String>,
}

impl Mcp {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let config = context.config(Flags::new())?;
        if self
            .actor
            .as_deref()
            .is_some_and(|actor| actor.trim().is_empty())
        {
            return Err(Failure::usage("--actor must not be empty"));
        }
        let Some(memory) = Memory::prepare(&config)? else {
            return Err(Failure::usage("memory.enabled is false"));
        };
        // Logs go to standard error: standard output belongs to the protocol.
        let telemetry = Telemetry::start(&config.settings)?;
        let opened = context.open().await?;
        let served = consign_server::serve_stdio(memory.service(&opened), self.actor).await;
        telemetry.end().await;
        served.map_err(|error| Failure::new(Exit::Wrong, "mcp", error.to_string()))?;
        Ok(Exit::Fine)
    }
}
