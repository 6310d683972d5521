//! Settings of the memory protocol, with the names of its documents.

mod policy;
mod tokens;

use std::{collections::BTreeSet, path::PathBuf, time::Duration};

use consign_kernel::{Error, LEASE_MESSAGES_MAX, Result};
pub use consign_redact::Secret;
use serde::{Deserialize, Serialize};

pub use self::{
    policy::{queue_policy, queue_work},
    tokens::GatewayToken,
};
use crate::space::Spaces;

/// The memory backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BackendKind {
    /// The queue's database, with full-text search.
    #[default]
    Embedded,
    /// An OpenMemory server.
    Openmemory,
}

/// API dialect of an OpenMemory server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dialect {
    /// Detect the dialect.
    #[default]
    Auto,
    /// The JavaScript server up to 1.3.
    Js1,
    /// The JavaScript server after 1.3.
    JsHead,
    /// The Python server.
    Python,
}

/// Handling of writes by unknown users.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnknownActorPolicy {
    /// Reject them.
    Reject,
    /// Store them in the private space `unknown`.
    #[default]
    Degrade,
    /// Create the user.
    AutoCreate,
}

/// Set of offered tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolSet {
    /// All of them.
    #[default]
    All,
    /// Tools for memories and settings; none for evidence and the logbook.
    Memory,
}

/// All settings of the app.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MemoryOptions {
    /// Whether this process serves and delivers memories.
    pub enabled: bool,
    /// The project of settings, spaces and evidence.
    pub project_key: String,
    /// The backend; absent: OpenMemory if its address is set, else embedded.
    pub backend: Option<BackendKind>,
    /// Address of OpenMemory.
    pub openmemory_base_url: Option<String>,
    /// API key of OpenMemory.
    pub openmemory_api_key: Option<Secret>,
    /// API dialect of OpenMemory.
    pub openmemory_dialect: Dialect,
    /// Time limit of a delivery from the outbox.
    pub openmemory_timeout_seconds: u64,
    /// Retries within one delivery from the outbox.
    pub openmemory_max_client_retries: u32,
    /// Time limit of `memory_store` and `memory_query`; slower writes are deferred.
    pub gateway_budget_ms: u64,
    /// Default space; absent: `team:<project_key>`.
    pub default_team_space: Option<String>,
    /// Prefix of private spaces.
    pub private_space_prefix: String,
    /// Key that allows changes of settings without being on the list.
    pub governance_admin_key: Option<Secret>,
    /// Handling of writes by unknown users.
    pub unknown_actor_policy: UnknownActorPolicy,
    /// Set of offered tools.
    pub tool_set: ToolSet,
    /// Whether references to evidence are checked even if the policy does not require it.
    pub validate_evidence_refs: bool,
    /// Whether a strict policy always checks them.
    pub strict_mode_enforce_validate_refs: bool,
    /// Maximum size of evidence.
    pub evidence_max_size_bytes: usize,
    /// Folder of evidence; created with the first.
    pub artifacts_root: PathBuf,
    /// Maximum size of a memory's text in bytes.
    pub payload_max_bytes: usize,
    /// Shared token.
    pub gateway_auth_token: Option<Secret>,
    /// More tokens, as a JSON list: texts, or objects `{"token", "actor", "admin"}`.
    pub gateway_auth_tokens_json: Option<Secret>,
    /// Maximum memories per claim.
    pub batch_size: u32,
    /// Attempts before a memory is dead.
    pub max_retries: u32,
    /// Delay base: doubled after the first failed attempt and with each further one.
    pub base_backoff_seconds: u64,
    /// Maximum delay, before jitter.
    pub max_backoff_seconds: u64,
    /// Fraction by which delays are spread in both directions.
    pub jitter_factor: f64,
    /// Lease time: without renewal for this long, another worker claims the memories.
    pub lease_seconds: u64,
    /// Interval of reconciliations; 0: only on request.
    pub reconcile_interval_seconds: u64,
    /// Age of the last renewal after which a lease is stale.
    pub stale_threshold_seconds: u64,
    /// Age after which a pending audit is ended as failed.
    pub pending_audit_timeout_seconds: u64,
    /// Whether the FULL gate may skip the memory server.
    pub skip_openmemory: bool,
    /// Whether it may skip audits.
    pub skip_audit: bool,
    /// Whether it may skip the outbox.
    pub skip_outbox: bool,
    /// Whether it may skip reconciling.
    pub skip_reconcile: bool,
    /// Whether it may skip searching.
    pub skip_memory_query: bool,
    /// Whether it may skip stopping the memory server.
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

/// A lease must outlast a delivery by this margin, if every renewal fails.
const LEASE_MARGIN_SECONDS: u64 = 10;
/// Maximum bytes of a project or space. Message keys contain a space and a hash.
const NAME_BYTES_MAX: usize = 128;

impl MemoryOptions {
    /// The memory backend.
    pub fn backend(&self) -> BackendKind {
        self.backend
            .unwrap_or(if self.openmemory_base_url.is_some() {
                BackendKind::Openmemory
            } else {
                BackendKind::Embedded
            })
    }

    /// The default space.
    pub fn team_space(&self) -> String {
        match &self.default_team_space {
            Some(space) => space.clone(),
            None => format!("team:{}", self.project_key),
        }
    }

    /// The names of spaces; an error if the prefix of private ones is invalid.
    pub fn spaces(&self) -> Result<Spaces, String> {
        Spaces::new(&self.private_space_prefix)
    }

    /// Time limit of a caller's request to the memory server.
    pub fn gateway_budget(&self) -> Duration {
        Duration::from_millis(self.gateway_budget_ms)
    }

    /// The capabilities that the FULL gate may skip.
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

    /// Validates each value and their combinations; the error names the setting.
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
                return Err(refuse(
                    key,
                    format!("is {value}; must be {least} to {most}"),
                ));
            }
        }
        if !(0.0..=1.0).contains(&self.jitter_factor) {
            return Err(refuse(
                "jitter_factor",
                format!("is {}; must be 0 to 1", self.jitter_factor),
            ));
        }
        self.validate_names()?;
        self.validate_times()?;
        if self.backend() == BackendKind::Openmemory && self.openmemory_base_url.is_none() {
            let why = "is required by the openmemory backend";
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
                 {LEASE_MARGIN_SECONDS} s to record the result"
            );
            return Err(refuse("lease_seconds", why));
        }
        // Live leases are never touched; a lease at the threshold must have expired.
        if self.stale_threshold_seconds <= self.lease_seconds {
            let why = "must exceed lease_seconds: otherwise live leases would count as stale";
            return Err(refuse("stale_threshold_seconds", why));
        }
        // The audit of a request in progress must not be ended.
        if Duration::from_secs(self.pending_audit_timeout_seconds) <= self.gateway_budget() * 2 {
            let why = "must exceed twice gateway_budget_ms";
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
