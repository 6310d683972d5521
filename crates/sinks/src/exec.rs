//! The exec sink: a command for each message, with the payload on its standard input.

mod outcome;
mod process;

use std::{collections::BTreeMap, ffi::OsString, path::PathBuf, sync::Arc, time::Duration};

use async_trait::async_trait;
use consign_kernel::{Outcome, QueueName};
use consign_worker::{About, Delivery, Sink, Verdict, is_local};
use serde::{Deserialize, Serialize};
use tokio::{process::Command, time::Instant};

use self::{
    outcome::Outcomes,
    process::{End, Output},
};
use crate::{SecretSource, SinkError, config::Kind, limit::own_limit};

/// `kind = "exec"`: each message is a run of a command.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ExecConfig {
    /// The program, by path or by name in `PATH`. No shell is involved.
    pub command: PathBuf,
    /// Its arguments, as they are.
    #[serde(default)]
    pub args: Vec<String>,
    /// Variables set for it; their values are treated as secrets.
    #[serde(default)]
    pub env: BTreeMap<String, SecretSource>,
    /// Variables it inherits. Everything else of the environment is kept from it.
    #[serde(default = "inherit_env")]
    pub inherit_env: Vec<String>,
    /// The folder it runs in; the worker's own by default.
    #[serde(default)]
    pub working_dir: Option<PathBuf>,
    /// Whether the beginning of what it prints is kept with the attempt.
    #[serde(default)]
    pub keep_output: bool,
    /// Exit codes that mean delivered, besides 0.
    #[serde(default)]
    pub delivered_exit_codes: Vec<i32>,
    /// Exit codes that mean retry, besides the usual ones.
    #[serde(default)]
    pub retry_exit_codes: Vec<i32>,
    /// Exit codes that mean dead, besides the usual ones.
    #[serde(default)]
    pub dead_exit_codes: Vec<i32>,
    /// Exit codes that mean uncertain.
    #[serde(default)]
    pub uncertain_exit_codes: Vec<i32>,
}

fn inherit_env() -> Vec<String> {
    vec!["PATH".to_owned()]
}

impl Kind for ExecConfig {
    const SECRETS: &'static [&'static str] = &[];

    async fn build(&self, _queue: &QueueName) -> Result<Arc<dyn Sink>, SinkError> {
        if self.command.as_os_str().is_empty() {
            return Err(SinkError::invalid("command", "is empty; name a program"));
        }
        let mut env = BTreeMap::new();
        for name in &self.inherit_env {
            check_name("inherit_env", name)?;
            if let Some(value) = std::env::var_os(name) {
                env.insert(name.clone(), value);
            }
        }
        for (name, secret) in &self.env {
            let option = format!("env.{name}");
            check_name(&option, name)?;
            env.insert(name.clone(), secret.read(&option)?.reveal().into());
        }
        Ok(Arc::new(Exec {
            destination: self.command.display().to_string(),
            outcomes: Outcomes::new(self)?,
            config: self.clone(),
            env,
        }))
    }
}

fn check_name(option: &str, name: &str) -> Result<(), SinkError> {
    if name.is_empty() || name.contains(['=', '\0']) {
        return Err(SinkError::invalid(option, "is not a variable's name"));
    }
    if name.starts_with("CONSIGN_") || matches!(name, "TRACEPARENT" | "TRACESTATE") {
        return Err(SinkError::invalid(
            option,
            format!("names {name}, which consign sets"),
        ));
    }
    Ok(())
}

struct Exec {
    destination: String,
    config: ExecConfig,
    /// The environment, without the variables of the message.
    env: BTreeMap<String, OsString>,
    outcomes: Outcomes,
}

impl std::fmt::Debug for Exec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exec")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

impl Exec {
    fn command(&self, delivery: &Delivery) -> Command {
        let message = &*delivery.message;
        let mut command = Command::new(&self.config.command);
        command
            .args(&self.config.args)
            .env_clear()
            .envs(&self.env)
            .env("CONSIGN_MESSAGE_ID", message.id.to_string())
            .env("CONSIGN_QUEUE", message.queue.as_str())
            .env("CONSIGN_KEY", delivery.idempotency_key())
            .env("CONSIGN_FENCE", delivery.fence.to_string())
            .env("CONSIGN_ATTEMPT", delivery.attempt_no.to_string())
            .env("CONSIGN_IN_DOUBT", delivery.in_doubt.to_string());
        if let Some(group) = &message.group {
            command.env("CONSIGN_GROUP", group);
        }
        for (header, variable) in [("traceparent", "TRACEPARENT"), ("tracestate", "TRACESTATE")] {
            let correlation = message
                .headers
                .iter()
                .find(|(name, _)| name.eq_ignore_ascii_case(header));
            if let Some(text) = correlation.and_then(|(_, value)| value.as_str()) {
                command.env(variable, text);
            }
        }
        if let Some(folder) = &self.config.working_dir {
            command.current_dir(folder);
        }
        command
    }

    fn verdict(&self, end: End, limit: Duration) -> Verdict {
        match end {
            End::NotStarted(error) if is_local(&error) => Verdict::local(format!(
                "{} could not be started: {error}",
                self.destination
            )),
            End::NotStarted(error) => {
                let detail = format!("{} could not be started: {error}", self.destination);
                Verdict::failed(Outcome::Retry, About::Sink, "exec_not_started", detail)
            }
            End::TimedOut => {
                let detail = format!("killed, not finished within {} ms", limit.as_millis());
                Verdict::failed(Outcome::Uncertain, About::Sink, "timeout", detail)
            }
            End::Lost(error) => {
                let detail = format!("its exit status could not be read: {error}");
                Verdict::failed(Outcome::Uncertain, About::Sink, "exec_lost", detail)
            }
            End::Exited(status) => self.outcomes.verdict(status),
        }
    }
}

#[async_trait]
impl Sink for Exec {
    fn kind(&self) -> &'static str {
        "exec"
    }

    fn destination(&self) -> &str {
        &self.destination
    }

    async fn deliver(&self, delivery: &Delivery) -> Verdict {
        let input = delivery.message.payload.as_str().as_bytes();
        let limit = own_limit(delivery.timeout);
        let mut output = Output::default();
        let command = self.command(delivery);
        let end = process::run(command, input, &mut output, Instant::now() + limit).await;
        let exit_code = end.exit_code();
        let verdict = self.verdict(end, limit);
        if self.config.keep_output {
            verdict.with_result(output.into_json(exit_code))
        } else {
            verdict
        }
    }
}
