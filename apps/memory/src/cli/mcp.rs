//! `consign mcp`: the memory gateway for one agent, on standard input and output.

use clap::Args;
use consign_app::{
    config::Flags,
    context::Context,
    failure::{Exit, Failure},
};

use crate::app::MemoryAppService;

/// Serve the memory gateway to one agent by the Model Context Protocol, on standard input and
/// output.
///
/// For clients that start their servers themselves; `consign serve` serves any number of clients at /mcp.
/// Ends when the client closes standard input. Memories that the memory server cannot take are deferred,
/// and delivered by `consign serve` or `consign work`.
#[derive(Args, Debug)]
pub(crate) struct Mcp {
    /// Bind the agent to this user [default: the actor of each call]
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
        let memory = MemoryAppService::prepare(&config)?;
        // Logs go to standard error: standard output belongs to the protocol.
        let telemetry = context.start_telemetry(&config)?;
        let database = context.creating().open_with(&config).await?;
        let served = crate::serve_stdio(memory.gateway(&database), self.actor).await;
        telemetry.ended().await;
        served.map_err(|error| Failure::new(Exit::Wrong, "mcp", error.to_string()))?;
        Ok(Exit::Fine)
    }
}
