//! The settings of memory: one declaration each.

use consign_app::config::{Kind, Section, Setting};
use consign_kernel::LEASE_MESSAGES_MAX;

/// The table of settings.
pub(crate) static MEMORY: Section = Section {
    name: "memory",
    about: "Memories: what agents store through the gateway at /mcp. While the app is on, GATEWAY_PORT is the port of server.listen, AUTO_MIGRATE_ON_STARTUP is database.migrate_on_start and LOGBOOK_CHECK_ON_STARTUP is database.check_on_start.",
    capitals: false,
    settings: MEMORY_SETTINGS,
    open: &[],
};

/// Variables of the gateway's document for settings of the engine.
pub(crate) static ENGINE_VARIABLES: &[(&str, &str)] = &[
    ("GATEWAY_PORT", "server.listen"),
    ("AUTO_MIGRATE_ON_STARTUP", "database.migrate_on_start"),
    ("LOGBOOK_CHECK_ON_STARTUP", "database.check_on_start"),
];

static MEMORY_SETTINGS: &[Setting] = &[
    Setting::new(
        "memory.enabled",
        Kind::Flag,
        "whether agents are served and memories delivered at all; the queue holds memories \
         only either way",
    )
    .default("true"),
    Setting::new(
        "memory.project_key",
        Kind::Text,
        "key of the project whose settings, spaces and evidence are served",
    )
    .default("\"default\"")
    .variables(&["PROJECT_KEY"]),
    Setting::new(
        "memory.backend",
        Kind::Word(&["embedded", "openmemory"]),
        "where memories are kept; absent: `openmemory` where there is an address, else `embedded`",
    )
    .example("\"embedded\""),
    Setting::new(
        "memory.openmemory_base_url",
        Kind::Url,
        "where the memory server is",
    )
    .example("\"http://127.0.0.1:8080\"")
    .variables(&["OPENMEMORY_BASE_URL"]),
    Setting::new(
        "memory.openmemory_api_key",
        Kind::Secret,
        "credential sent to the memory server, as `Authorization: Bearer`",
    )
    .example("\"...\"")
    .variables(&["OPENMEMORY_API_KEY", "OM_API_KEY"]),
    Setting::new(
        "memory.openmemory_dialect",
        Kind::Word(&["auto", "js1", "js_head", "python"]),
        "protocol of the memory server: `auto` detects it, `js1` is the JavaScript server up to \
         1.3, `js_head` its later versions, `python` the Python server",
    )
    .default("\"auto\""),
    Setting::new(
        "memory.openmemory_timeout_seconds",
        Kind::Whole(1, 600),
        "how long a delivery from the outbox may take",
    )
    .default("30")
    .variables(&["OPENMEMORY_TIMEOUT_SECONDS"])
    .policy(&["timeout_ms"]),
    Setting::new(
        "memory.openmemory_max_client_retries",
        Kind::Whole(0, 10),
        "retries of the HTTP client within one delivery",
    )
    .default("0")
    .variables(&["OPENMEMORY_MAX_CLIENT_RETRIES"]),
    Setting::new(
        "memory.gateway_budget_ms",
        Kind::Whole(10, 600_000),
        "how long a request waits for the memory server; after that the memory is deferred",
    )
    .default("3000"),
    Setting::new(
        "memory.default_team_space",
        Kind::Text,
        "where memories go that name no space; without it, `team:` and the project",
    )
    .example("\"team:default\"")
    .variables(&["DEFAULT_TEAM_SPACE"]),
    Setting::new(
        "memory.private_space_prefix",
        Kind::Text,
        "prefix of private spaces; after a change, tokens that name an actor have no access to \
         spaces with the old prefix. The audit of a delivery without an actor takes it from the \
         space, with the prefix `private:` only",
    )
    .default("\"private:\"")
    .variables(&["PRIVATE_SPACE_PREFIX"]),
    Setting::new(
        "memory.governance_admin_key",
        Kind::Secret,
        "key with which a caller that is not in `allowlist_users` may change the settings of a \
         project",
    )
    .example("\"...\"")
    .variables(&["GOVERNANCE_ADMIN_KEY"]),
    Setting::new(
        "memory.unknown_actor_policy",
        Kind::Word(&["reject", "degrade", "auto_create"]),
        "what happens to writes of an actor that is not a user: `reject`, `degrade` (stored in \
         the private space of unknown actors), `auto_create`",
    )
    .default("\"degrade\"")
    .variables(&["UNKNOWN_ACTOR_POLICY"]),
    Setting::new(
        "memory.tool_set",
        Kind::Word(&["all", "memory"]),
        "tools that agents see: `all`, or `memory` for those of memories and their settings, \
         without evidence and logbook",
    )
    .default("\"all\""),
    Setting::new(
        "memory.validate_evidence_refs",
        Kind::Flag,
        "whether references to evidence are checked without a policy that demands it",
    )
    .default("false")
    .variables(&["VALIDATE_EVIDENCE_REFS"]),
    Setting::new(
        "memory.strict_mode_enforce_validate_refs",
        Kind::Flag,
        "whether a strict policy always checks them",
    )
    .default("true")
    .variables(&["STRICT_MODE_ENFORCE_VALIDATE_REFS"]),
    Setting::new(
        "memory.evidence_max_size_bytes",
        Kind::Whole(1, 64 << 20),
        "the largest evidence",
    )
    .default("1048576")
    .variables(&["EVIDENCE_MAX_SIZE_BYTES"]),
    Setting::new(
        "memory.artifacts_root",
        Kind::Text,
        "the folder evidence is kept in",
    )
    .default("\"consign-artifacts\""),
    Setting::new(
        "memory.payload_max_bytes",
        Kind::Whole(1, 8 << 20),
        "the largest memory",
    )
    .default("200000")
    .policy(&["payload_max_bytes"]),
    Setting::new(
        "memory.gateway_auth_token",
        Kind::Secret,
        "a token that agents must send, of at least 16 bytes; `openssl rand -hex 16` prints one",
    )
    .example("\"...\"")
    .variables(&["GATEWAY_AUTH_TOKEN"]),
    Setting::new(
        "memory.gateway_auth_tokens_json",
        Kind::Secret,
        "more of them, as a JSON list of texts or of `{\"token\", \"actor\", \"admin\"}`, \
         each of at least 16 bytes, none twice",
    )
    .example("\"[]\"")
    .variables(&["GATEWAY_AUTH_TOKENS_JSON"]),
    Setting::new(
        "memory.batch_size",
        Kind::Whole(1, LEASE_MESSAGES_MAX as u64),
        "most memories of one claim",
    )
    .default("10")
    .variables(&["WORKER_BATCH_SIZE"]),
    Setting::new(
        "memory.max_retries",
        Kind::Whole(1, 1_000),
        "tries before a memory is dead",
    )
    .default("5")
    .policy(&["attempts_max"]),
    Setting::new(
        "memory.base_backoff_seconds",
        Kind::Whole(1, 86_400),
        "half of the delay after the first failed try; doubles with each",
    )
    .default("60")
    .policy(&["retry.base_ms"]),
    Setting::new(
        "memory.max_backoff_seconds",
        Kind::Whole(1, 86_400),
        "longest delay, before jitter",
    )
    .default("3600")
    .policy(&["retry.max_ms"]),
    Setting::new(
        "memory.jitter_factor",
        Kind::Number(0.0, 1.0),
        "fraction by which delays are spread either way",
    )
    .default("0.3")
    .policy(&["retry.jitter"]),
    Setting::new(
        "memory.lease_seconds",
        Kind::Whole(1, 3_600),
        "lease time: memories whose lease was not renewed for this long can be claimed by another \
         worker",
    )
    .default("120")
    .variables(&["WORKER_LEASE_TIMEOUT"])
    .policy(&["lease_ttl_ms"]),
    Setting::new(
        "memory.reconcile_interval_seconds",
        Kind::Whole(0, 86_400),
        "how often the outbox is compared with its audits; 0: only by `consign reconcile` and the \
         dashboard",
    )
    .default("300"),
    Setting::new(
        "memory.stale_threshold_seconds",
        Kind::Whole(60, 86_400),
        "how long ago a lease must have been renewed last to be stale",
    )
    .default("600"),
    Setting::new(
        "memory.pending_audit_timeout_seconds",
        Kind::Whole(60, 30 * 86_400),
        "how long an audit may be pending before it counts as failed",
    )
    .default("7200"),
    Setting::new(
        "memory.skip_openmemory",
        Kind::Flag,
        "whether a full gate may go without the memory server",
    )
    .default("false")
    .variables(&["GATEWAY_SKIP_OPENMEMORY"]),
    Setting::new("memory.skip_audit", Kind::Flag, "… without audits")
        .default("false")
        .variables(&["GATEWAY_SKIP_AUDIT"]),
    Setting::new("memory.skip_outbox", Kind::Flag, "… without the outbox")
        .default("false")
        .variables(&["GATEWAY_SKIP_OUTBOX"]),
    Setting::new("memory.skip_reconcile", Kind::Flag, "… without reconciling")
        .default("false")
        .variables(&["GATEWAY_SKIP_RECONCILE"]),
    Setting::new(
        "memory.skip_memory_query",
        Kind::Flag,
        "… without searching",
    )
    .default("false")
    .variables(&["GATEWAY_SKIP_MEMORY_QUERY"]),
    Setting::new(
        "memory.skip_degradation",
        Kind::Flag,
        "… without stopping the memory server",
    )
    .default("false")
    .variables(&["GATEWAY_SKIP_DEGRADATION"]),
];
