//! `consign verify`: end-to-end test of the memory gateway, with an outage of the memory server.

mod checks;
mod evidence;
mod gateway;
mod jsonrpc;
mod outage;
mod outcome;
mod server;
mod stack;

use clap::Args;
use consign_app::{
    context::Context,
    failure::{Exit, Failure},
};
use std::path::PathBuf;

use self::{
    outcome::{Protocol, Status, StepFailure},
    stack::Stack,
};
use crate::gate::{self, CAPABILITIES, Capability, GateMode, Skips};

/// Test the memory gateway end to end; exit code 1 if anything fails.
///
/// Starts a gateway on the configured database and calls it over HTTP: stores a memory and evidence,
/// searches, uses the Model Context Protocol, and checks audits and outbox. With --full it stops the
/// memory server, stores another memory, which is deferred, starts the server again, delivers and finds
/// it. That requires a server that may be stopped: by two commands, or a temporary one, which is started
/// from --openmemory-dir together with a temporary database unless one is configured.
#[derive(Args, Debug)]
pub(crate) struct Verify {
    /// Require everything, including an outage
    #[arg(long)]
    full: bool,
    /// Start a memory server from its installed npm package
    #[arg(long, value_name = "DIR", conflicts_with = "stop_command")]
    openmemory_dir: Option<PathBuf>,
    /// Command that stops the configured memory server
    #[arg(long, value_name = "COMMAND", requires = "start_command")]
    stop_command: Option<String>,
    /// Command that starts it again
    #[arg(long, value_name = "COMMAND", requires = "stop_command")]
    start_command: Option<String>,
    /// Call a gateway that runs on the configured database instead of starting one; uses
    /// memory.gateway_auth_token
    #[arg(long, value_name = "URL")]
    gateway_url: Option<String>,
    /// Skip this capability; may be repeated
    #[arg(long, value_name = "CAPABILITY", value_parser = CAPABILITIES)]
    skip: Vec<String>,
    /// Time limit of waits, such as for a deferred memory
    #[arg(long, value_name = "SECONDS", default_value_t = 300,
        value_parser = clap::value_parser!(u64).range(1..=3600), allow_negative_numbers = true)]
    patience: u64,
}

impl Verify {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let mut stack = Stack::start(&self, context).await?;
        let skips = self.skips(&stack);
        let mut protocol = Protocol::new(context.out, self.full);
        let capabilities = self.steps(&mut stack, &skips, &mut protocol).await?;
        stack.end().await;
        let mode = if self.full {
            GateMode::Full
        } else {
            GateMode::Degraded
        };
        let gate = gate::check(mode, &CAPABILITIES, &capabilities, &skips);
        let is_passed = protocol.end(&stack, (mode, gate), &capabilities)?;
        Ok(if is_passed { Exit::Fine } else { Exit::Wrong })
    }

    /// From the configuration, the environment and this command.
    fn skips(&self, stack: &Stack) -> Skips {
        let configured = stack.options().skipped();
        let keys: Vec<String> = configured
            .iter()
            .map(|name| format!("skip_{name}"))
            .collect();
        let variables: Vec<(String, String)> = std::env::vars_os()
            .filter_map(|(name, value)| name.into_string().ok().zip(value.into_string().ok()))
            .collect();
        Skips::none()
            .with_config(keys.iter().map(|key| (key.as_str(), true)))
            .with_env(
                variables
                    .iter()
                    .map(|(name, value)| (name.as_str(), value.as_str())),
            )
            .with_request(self.skip.iter().map(String::as_str))
    }

    /// Every step with its capability.
    async fn steps(
        &self,
        stack: &mut Stack,
        skips: &Skips,
        protocol: &mut Protocol,
    ) -> Result<Vec<(&'static str, Capability)>, Failure> {
        let mut known: Vec<(&'static str, Capability)> = Vec::new();
        let mut note = |name, status| {
            known.push((
                name,
                match status {
                    Status::Ok => Capability::Ok,
                    Status::Fail => Capability::Failed,
                    Status::Skipped => Capability::Skipped,
                },
            ));
        };
        let has_server = stack.has_server() && !skips.contains("openmemory");
        let health = checks::health(stack, has_server);
        let health = match (protocol.step("health_checks", health).await?, has_server) {
            (Status::Ok, false) => Status::Skipped,
            (status, _) => status,
        };
        note("openmemory", health);
        let store = if skips.contains("audit") {
            protocol.skip("memory_store", true, "")?
        } else {
            protocol.step("memory_store", checks::store(stack)).await?
        };
        note("audit", store);
        let query = if skips.contains("memory_query") {
            protocol.skip("memory_query", true, "")?
        } else {
            protocol.step("memory_query", checks::query(stack)).await?
        };
        note("memory_query", query);
        protocol.step("tool_check", jsonrpc::tools(stack)).await?;
        protocol.step("jsonrpc", jsonrpc::check(stack)).await?;
        protocol.step("evidence", evidence::keep(stack)).await?;
        let outage = match (skips.contains("degradation"), self.full, stack.can_stop()) {
            (true, _, _) => protocol.skip("degradation", true, "")?,
            (_, false, _) => protocol.skip("degradation", false, "not_required_for_profile")?,
            (_, _, false) => protocol.skip("degradation", false, "cannot_stop_container")?,
            (_, true, true) => protocol.step("degradation", outage::play(stack)).await?,
        };
        note("degradation", outage);
        if self.gateway_url.is_none() {
            protocol.step("shutdown", shut_down(stack)).await?;
        }
        let reconcile = if skips.contains("reconcile") {
            protocol.skip("reconcile", true, "")?
        } else {
            protocol.step("reconcile", checks::reconcile(stack)).await?
        };
        note("reconcile", reconcile);
        let invariants = if skips.contains("outbox") {
            protocol.skip("db_invariants", true, "")?
        } else {
            protocol
                .step("db_invariants", checks::invariants(stack))
                .await?
        };
        note("outbox", invariants);
        Ok(known)
    }
}

/// The gateway shuts down cleanly.
async fn shut_down(stack: &mut Stack) -> outcome::StepResult {
    let ended = stack.gateway.end().await;
    ended.map_err(|why| StepFailure::new("response_check_failed", why))?;
    Ok(serde_json::Map::new())
}
