//! Output of a verification: a line per step, and one result.

use consign_app::{
    failure::Failure,
    output::{Output, plain},
};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::stack::Stack;
use crate::gate::{Capability, GateMode, GateResult};

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Status {
    Ok,
    Fail,
    Skipped,
}

impl Status {
    fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Fail => "fail",
            Self::Skipped => "skipped",
        }
    }
}

/// Why a step failed.
#[derive(Debug)]
pub(super) struct StepFailure {
    /// Reason code.
    reason: &'static str,
    error: String,
}

impl StepFailure {
    pub(super) fn new(reason: &'static str, error: impl Into<String>) -> Self {
        let error = error.into();
        Self { reason, error }
    }
}

/// Facts of a step, or its failure.
pub(super) type StepResult = Result<Map<String, Value>, StepFailure>;

#[derive(Debug, Serialize)]
struct Step {
    name: &'static str,
    status: Status,
    duration_ms: u64,
    required: bool,
    reason: Option<&'static str>,
    error: Option<String>,
    #[serde(flatten)]
    facts: Map<String, Value>,
}

/// Collects and prints steps.
pub(super) struct Protocol {
    out: Output,
    is_full: bool,
    since: Instant,
    steps: Vec<Step>,
}

impl Protocol {
    pub(super) fn new(out: Output, is_full: bool) -> Self {
        Self {
            out,
            is_full,
            since: Instant::now(),
            steps: Vec::new(),
        }
    }

    /// Runs a step.
    pub(super) async fn step(
        &mut self,
        name: &'static str,
        step: impl Future<Output = StepResult>,
    ) -> Result<Status, Failure> {
        let since = Instant::now();
        // Boxed to keep the future small.
        let (status, facts, trouble) = match Box::pin(step).await {
            Ok(facts) => (Status::Ok, facts, None),
            Err(trouble) => (Status::Fail, Map::new(), Some(trouble)),
        };
        let (reason, error) = trouble
            .map(|trouble| (trouble.reason, trouble.error))
            .unzip();
        self.add(Step {
            name,
            status,
            duration_ms: millis(since),
            required: self.is_full || name != "degradation",
            reason,
            error,
            facts,
        })
    }

    /// Skips a step: on request, or for a reason.
    pub(super) fn skip(
        &mut self,
        name: &'static str,
        is_said: bool,
        reason: &'static str,
    ) -> Result<Status, Failure> {
        let reason = if is_said { "explicit_skip" } else { reason };
        self.add(Step {
            name,
            status: Status::Skipped,
            duration_ms: 0,
            required: self.is_full && !is_said,
            reason: Some(reason),
            error: None,
            facts: Map::new(),
        })
    }

    fn add(&mut self, step: Step) -> Result<Status, Failure> {
        let status = step.status;
        if !self.out.is_json() {
            self.tell(&step)?;
        }
        self.steps.push(step);
        Ok(status)
    }

    fn tell(&self, step: &Step) -> Result<(), Failure> {
        let why = match (step.reason, &step.error) {
            (Some(reason), Some(error)) => format!("  {reason}: {}", plain(error)),
            (Some(reason), None) => format!("  {reason}"),
            (None, _) => String::new(),
        };
        self.out.line(format_args!(
            "{:<8}{:<16}{:>7} ms{why}",
            step.status.as_str(),
            step.name,
            step.duration_ms
        ))?;
        let phases = step.facts.get("phases").and_then(Value::as_array);
        for phase in phases.into_iter().flatten() {
            let name = phase["name"].as_str().unwrap_or_default();
            self.out.line(format_args!(
                "        - {name:<28}{:>5} ms",
                phase["duration_ms"]
            ))?;
        }
        Ok(())
    }

    /// Prints the result; returns whether it passed.
    pub(super) fn end(
        &self,
        stack: &Stack,
        (mode, gate): (GateMode, GateResult),
        capabilities: &[(&'static str, Capability)],
    ) -> Result<bool, Failure> {
        let failed = self.steps.iter().filter(|step| step.status == Status::Fail);
        let failed = failed.count();
        let is_passed = failed == 0 && gate.passed;
        let overall = if is_passed { "pass" } else { "fail" };
        if !self.out.is_json() {
            let steps = self.steps.len();
            let reason = gate
                .reason
                .map(|reason| format!("; {reason}"))
                .unwrap_or_default();
            let total = millis(self.since);
            self.out.line(format_args!(
                "{overall}: {steps} steps, {failed} failed, {total} ms{reason}"
            ))?;
            return Ok(is_passed);
        }
        let capabilities: Map<String, Value> = capabilities
            .iter()
            .map(|(name, status)| ((*name).to_owned(), json!(status)))
            .collect();
        self.out.json(&json!({
            "verify_mode": "default",
            "overall_status": overall,
            "total_failed": failed,
            "total_duration_ms": millis(self.since),
            "gateway_url": stack.gateway.url,
            "openmemory_url": stack.server_url(),
            "timestamp": Timestamp::now(),
            "capabilities": capabilities,
            "gate": {
                "mode": mode, "passed": gate.passed, "reason": gate.reason,
                "missing": gate.missing,
            },
            "steps": self.steps,
        }))?;
        Ok(is_passed)
    }
}

pub(super) fn millis(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}
