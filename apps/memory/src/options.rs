//! The settings of the memory protocol, under the names their documents give them.

mod policy;
mod tokens;

use std::{collections::BTreeSet, path::PathBuf, time::Duration};

use consign_kernel::{Error, LEASE_MESSAGES_MAX, Result};
pub use consign_outbound::Secret;
use serde::{Deserialize, Serialize};

pub use self::{
    policy::{queue_policy, queue_work},
    tokens::GatewayToken,
};
use crate::space::Spaces;

/// Where memories go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BackendKind {
    /// Into the database of the queue, with full-text search.
    #[default]
    Embedded,
    /// To an OpenMemory server.
    Openmemory,
}

/// How to speak to an OpenMemory server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dialect {
    /// Ask the server which it speaks.
    #[default]
    Auto,
    /// The JavaScript server up to 1.3.
    Js1,
    /// The JavaScript server since.
    JsHead,
    /// The Python server.
    Python,
}

/// What to do with a write by somebody who is no user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnknownActorPolicy {
    /// Refuse it.
    Reject,
    /// Keep it in the private space of nobody in particular.
    #[default]
    Degrade,
    /// Make them a user.
    AutoCreate,
}

/// Which tools agents are offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolSet {
    /// All of them.
    #[default]
    All,
    /// Those for memories and their settings; none for evidence and the logbook.
    Memory,
}

/// Everything there is to set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MemoryOptions {
    /// Whether this process serves and delivers memories at all.
    pub enabled: bool,
    /// Whose settings, spaces and evidence.
    pub project_key: String,
    /// Where memories go; absent: to OpenMemory if there is an address, else they are kept here.
    pub backend: Option<BackendKind>,
    /// Where OpenMemory is.
    pub openmemory_base_url: Option<String>,
    /// Who we are to it.
    pub openmemory_api_key: Option<Secret>,
    /// How to speak to it.
    pub openmemory_dialect: Dialect,
    /// How long a delivery from the outbox may take.
    pub openmemory_timeout_seconds: u64,
    /// How often its client tries again by itself within one delivery from the outbox.
    pub openmemory_max_client_retries: u32,
    /// How long `memory_store` and `memory_query` wait for it. What takes longer is deferred.
    pub gateway_budget_ms: u64,
    /// Where memories go that name no space; absent: `team:<project_key>`.
    pub default_team_space: Option<String>,
    /// What private spaces begin with.
    pub private_space_prefix: String,
    /// Who may change settings without being on the list.
    pub governance_admin_key: Option<Secret>,
    /// What to do with writes by somebody who is no user.
    pub unknown_actor_policy: UnknownActorPolicy,
    /// Which tools agents are offered.
    pub tool_set: ToolSet,
    /// Whether references to evidence are checked although the policy does not demand it.
    pub validate_evidence_refs: bool,
    /// Whether a strict policy always checks them.
    pub strict_mode_enforce_validate_refs: bool,
    /// The largest evidence.
    pub evidence_max_size_bytes: usize,
    /// The folder evidence is kept in; made with the first of it.
    pub artifacts_root: PathBuf,
    /// The largest memory, in bytes of its text.
    pub payload_max_bytes: usize,
    /// The token of everybody.
    pub gateway_auth_token: Option<Secret>,
    /// More tokens, as a JSON list: texts, or objects `{"token", "actor", "admin"}`.
    pub gateway_auth_tokens_json: Option<Secret>,
    /// Most memories of one claim.
    pub batch_size: u32,
    /// Tries before a memory is dead.
    pub max_retries: u32,
    /// How long a memory rests after a failed try: twice this after the first, doubling with each.
    pub base_backoff_seconds: u64,
    /// How long it rests at most, before jitter.
    pub max_backoff_seconds: u64,
    /// The fraction by which rests are spread either way.
    pub jitter_factor: f64,
    /// How long a worker may be silent before its memories are given to another.
    pub lease_seconds: u64,
    /// How often the outbox is compared with its audits; 0: only when somebody asks.
    pub reconcile_interval_seconds: u64,
    /// How long ago a lease must have been renewed last to be stale.
    pub stale_threshold_seconds: u64,
    /// How long an audit may be pending before it counts as failed.
    pub pending_audit_timeout_seconds: u64,
    /// Whether a full gate may go without the memory server.
    pub skip_openmemory: bool,
    /// Whether it may go without audits.
    pub skip_audit: bool,
    /// Whether it may go without the outbox.
    pub skip_outbox: bool,
    /// Whether it may go without reconciling.
    pub skip_reconcile: bool,
    /// Whether it may go without searching.
    pub skip_memory_query: bool,
    /// Whether it may go without stopping the memory server.
    pub skip_degradation: bool,
}

impl Default for MemoryOptions {
    fn default() -> Self {
        Self {
            enabled: true,
            project_key: "default".to_owned(),
            backend: None,
            openmemory_base_url: None,
            openmemory_api_key: None,
            openmemory_dialect: Dialect::Auto,
            openmemory_timeout_seconds: 30,
            openmemory_max_client_retries: 0,
            gateway_budget_ms: 3_000,
            default_team_space: None,
            private_space_prefix: "private:".to_owned(),
            governance_admin_key: None,
            unknown_actor_policy: UnknownActorPolicy::Degrade,
            tool_set: ToolSet::All,
            validate_evidence_refs: false,
            strict_mode_enforce_validate_refs: true,
            evidence_max_size_bytes: 1024 * 1024,
            artifacts_root: PathBuf::from("consign-artifacts"),
            payload_max_bytes: 200_000,
            gateway_auth_token: None,
            gateway_auth_tokens_json: None,
            batch_size: 10,
            max_retries: 5,
            base_backoff_seconds: 60,
            max_backoff_seconds: 3_600,
            jitter_factor: 0.3,
            lease_seconds: 120,
            reconcile_interval_seconds: 300,
            stale_threshold_seconds: 600,
            pending_audit_timeout_seconds: 2 * 3_600,
            skip_openmemory: false,
            skip_audit: false,
            skip_outbox: false,
            skip_reconcile: false,
            skip_memory_query: false,
            skip_degradation: false,
        }
    }
}

/// A lease must outlast a delivery by this much, should every renewal fail.
const LEASE_MARGIN_SECONDS: u64 = 10;
/// Longest name of a project or space. Keys of messages hold a space and a hash.
const NAME_BYTES_MAX: usize = 128;

impl MemoryOptions {
    /// Where memories go.
    pub fn backend(&self) -> BackendKind {
        self.backend
            .unwrap_or(match self.openmemory_base_url.is_some() {
                true => BackendKind::Openmemory,
                false => BackendKind::Embedded,
            })
    }

    /// Where memories go that name no space.
    pub fn team_space(&self) -> String {
        match &self.default_team_space {
            Some(space) => space.clone(),
            None => format!("team:{}", self.project_key),
        }
    }

    /// How spaces are named; what is wrong with the prefix of private ones otherwise.
    pub fn spaces(&self) -> Result<Spaces, String> {
        Spaces::new(&self.private_space_prefix)
    }

    /// How long a caller waits for the memory server.
    pub fn gateway_budget(&self) -> Duration {
        Duration::from_millis(self.gateway_budget_ms)
    }

    /// The capabilities that a full gate may go without, by their names.
    pub fn skipped(&self) -> BTreeSet<&'static str> {
        let switches = [
            ("openmemory", self.skip_openmemory),
            ("audit", self.skip_audit),
            ("outbox", self.skip_outbox),
            ("reconcile", self.skip_reconcile),
            ("memory_query", self.skip_memory_query),
            ("degradation", self.skip_degradation),
        ];
        let skipped = switches.into_iter().filter(|(_, is_skipped)| *is_skipped);
        skipped.map(|(name, _)| name).collect()
    }

    /// Refuses what cannot work, each value and all of them together; names the setting.
    pub fn validate(&self) -> Result<()> {
        const DAY: u64 = 86_400;
        let size = |bytes: usize| bytes as u64;
        let ranges = [
            (
                "openmemory_timeout_seconds",
                self.openmemory_timeout_seconds,
                1..=600,
            ),
            (
                "openmemory_max_client_retries",
                self.openmemory_max_client_retries.into(),
                0..=10,
            ),
            ("gateway_budget_ms", self.gateway_budget_ms, 10..=600_000),
            (
                "evidence_max_size_bytes",
                size(self.evidence_max_size_bytes),
                1..=64 << 20,
            ),
            (
                "payload_max_bytes",
                size(self.payload_max_bytes),
                1..=8 << 20,
            ),
            (
                "batch_size",
                self.batch_size.into(),
                1..=LEASE_MESSAGES_MAX.into(),
            ),
            ("max_retries", self.max_retries.into(), 1..=1_000),
            ("base_backoff_seconds", self.base_backoff_seconds, 1..=DAY),
            ("max_backoff_seconds", self.max_backoff_seconds, 1..=DAY),
            ("lease_seconds", self.lease_seconds, 1..=3_600),
            (
                "reconcile_interval_seconds",
                self.reconcile_interval_seconds,
                0..=DAY,
            ),
            (
                "stale_threshold_seconds",
                self.stale_threshold_seconds,
                60..=DAY,
            ),
            (
                "pending_audit_timeout_seconds",
                self.pending_audit_timeout_seconds,
                60..=30 * DAY,
            ),
        ];
        for (key, value, range) in ranges {
            if !range.contains(&value) {
                let (least, most) = range.into_inner();
                return Err(refuse(key, format!("must be from {least} to {most}")));
            }
        }
        if !(0.0..=1.0).contains(&self.jitter_factor) {
            return Err(refuse("jitter_factor", "must be from 0 to 1"));
        }
        self.validate_names()?;
        self.validate_times()?;
        if self.backend() == BackendKind::Openmemory && self.openmemory_base_url.is_none() {
            let why = "is missing; the openmemory backend needs it";
            return Err(refuse("openmemory_base_url", why));
        }
        self.tokens().map(drop)
    }

    fn validate_names(&self) -> Result<()> {
        let team_space = self.team_space();
        let names = [
            ("project_key", self.project_key.as_str()),
            ("default_team_space", team_space.as_str()),
            ("private_space_prefix", self.private_space_prefix.as_str()),
        ];
        for (key, name) in names {
            let is_plain = !name.chars().any(|c| c.is_control() || c.is_whitespace());
            if name.is_empty() || name.len() > NAME_BYTES_MAX || !is_plain {
                let why = format!("must be 1 to {NAME_BYTES_MAX} bytes without blanks");
                return Err(refuse(key, why));
            }
        }
        match self.spaces() {
            Ok(_) => Ok(()),
            Err(why) => Err(refuse("private_space_prefix", why)),
        }
    }

    fn validate_times(&self) -> Result<()> {
        let lease_least = self.openmemory_timeout_seconds + LEASE_MARGIN_SECONDS;
        if self.lease_seconds < lease_least {
            let why = format!(
                "must be at least {lease_least}: openmemory_timeout_seconds and \
                 {LEASE_MARGIN_SECONDS} s to record what came of it"
            );
            return Err(refuse("lease_seconds", why));
        }
        // A live lease is never touched, but one that is as old as the threshold must not be live.
        if self.stale_threshold_seconds <= self.lease_seconds {
            let why = "must exceed lease_seconds, or leases that are in use would count as stale";
            return Err(refuse("stale_threshold_seconds", why));
        }
        // The audit of a request that is under way must not be ended for it.
        if Duration::from_secs(self.pending_audit_timeout_seconds) <= self.gateway_budget() * 2 {
            let why = "must exceed gateway_budget_ms twice over";
            return Err(refuse("pending_audit_timeout_seconds", why));
        }
        if self.base_backoff_seconds > self.max_backoff_seconds {
            let why = "must not exceed max_backoff_seconds";
            return Err(refuse("base_backoff_seconds", why));
        }
        Ok(())
    }
}

fn refuse(key: &str, why: impl Into<String>) -> Error {
    Error::invalid(format!("memory.{key}"), why)
}

#[cfg(test)]
mod tests;
