//! The settings of the memory protocol: their names are those of another document, which writes them
//! in capitals.

use consign_memory::{MemoryOptions, QUEUE};

use super::{KeyPath, Layer, Problem, protocol::Protocol, tree};

const MEMORY: Protocol = Protocol {
    table: QUEUE,
    owner: "the memories of the gateway",
    policy: &[
        ("lease_seconds", &["lease_ttl_ms"]),
        ("max_retries", &["attempts_max"]),
        ("base_backoff_seconds", &["retry.base_ms"]),
        ("max_backoff_seconds", &["retry.max_ms"]),
        ("jitter_factor", &["retry.jitter"]),
        ("openmemory_timeout_seconds", &["timeout_ms"]),
        ("payload_max_bytes", &["payload_max_bytes"]),
    ],
    beside: &[],
};

/// Settings that are variables under their own names, in capitals. The rest is said as
/// `CONSIGN_MEMORY__NAME`: other programs have batches and leases too.
const VARIABLES: &[&str] = &[
    "project_key",
    "openmemory_base_url",
    "openmemory_api_key",
    "openmemory_timeout_seconds",
    "openmemory_max_client_retries",
    "default_team_space",
    "private_space_prefix",
    "governance_admin_key",
    "unknown_actor_policy",
    "validate_evidence_refs",
    "strict_mode_enforce_validate_refs",
    "evidence_max_size_bytes",
    "gateway_auth_token",
    "gateway_auth_tokens_json",
];

/// Other names of settings, each weaker than the setting's own.
const OTHERS: &[(&str, &str)] = &[
    ("OM_API_KEY", "openmemory_api_key"),
    ("WORKER_BATCH_SIZE", "batch_size"),
    ("WORKER_LEASE_TIMEOUT", "lease_seconds"),
    ("GATEWAY_SKIP_OPENMEMORY", "skip_openmemory"),
    ("GATEWAY_SKIP_AUDIT", "skip_audit"),
    ("GATEWAY_SKIP_OUTBOX", "skip_outbox"),
    ("GATEWAY_SKIP_RECONCILE", "skip_reconcile"),
    ("GATEWAY_SKIP_MEMORY_QUERY", "skip_memory_query"),
    ("GATEWAY_SKIP_DEGRADATION", "skip_degradation"),
];

/// What the configuration says about memories.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    /// Whether anybody said anything about them; else they are there to be tried.
    pub(crate) is_said: bool,
    /// The fields of the queue's policy that they are about.
    pub(crate) policy_said: Vec<&'static str>,
    pub(crate) options: MemoryOptions,
}

impl Memory {
    /// Takes over what `fresh` says about the policy of the queue, and nothing else.
    pub(super) fn take_policy(&mut self, fresh: Self) {
        self.policy_said = fresh.policy_said;
        self.options = MemoryOptions {
            lease_seconds: fresh.options.lease_seconds,
            max_retries: fresh.options.max_retries,
            base_backoff_seconds: fresh.options.base_backoff_seconds,
            max_backoff_seconds: fresh.options.max_backoff_seconds,
            jitter_factor: fresh.options.jitter_factor,
            openmemory_timeout_seconds: fresh.options.openmemory_timeout_seconds,
            payload_max_bytes: fresh.options.payload_max_bytes,
            ..self.options.clone()
        };
    }
}

/// Reads the variables that have a name of their own.
pub(super) fn read_environment(
    variables: &[(String, String)],
    layer: &mut Layer,
    problems: &mut Vec<Problem>,
) {
    let names = |name: &str| {
        let own = VARIABLES.contains(&name).then(|| name.to_uppercase());
        let others = OTHERS.iter().filter(|(_, setting)| *setting == name);
        let others = others.map(|(other, _)| (*other).to_owned());
        own.into_iter().chain(others).collect()
    };
    MEMORY.read_environment(variables, names, layer, problems);
}

/// The settings in types, and a problem for each that cannot be.
pub(super) fn read(entries: &Layer, problems: &mut Vec<Problem>) -> Option<Memory> {
    let table = KeyPath::of(MEMORY.table);
    let options: MemoryOptions = match serde_json::from_value(tree(entries, &table)) {
        Ok(options) => options,
        Err(error) => {
            let what = error.to_string();
            problems.push(Problem {
                origin: None,
                path: table,
                what,
            });
            return None;
        }
    };
    let before = problems.len();
    if options.enabled {
        if let Err(error) = options.validate() {
            problems.push(MEMORY.refused(entries, &error));
        }
        problems.extend(MEMORY.queue_is_wanted(entries));
    }
    if problems.len() > before {
        return None;
    }
    Some(Memory {
        is_said: MEMORY.is_said(entries),
        policy_said: MEMORY.policy_said(entries),
        options,
    })
}

/// Whether a setting is about the policy of the queue.
pub(super) fn is_policy(path: &KeyPath) -> bool {
    MEMORY.is_policy(path)
}
