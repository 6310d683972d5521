//! Every setting there is. A test compares this list with `default.toml`, another with the
//! documentation.

use consign_kernel::nearest;

use super::{kind::Kind, path::KeyPath};

/// A setting.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    /// Its name; `*` stands for a name of the user's own.
    pub(crate) path: &'static str,
    pub(crate) kind: Kind,
}

const fn key(path: &'static str, kind: Kind) -> Key {
    Key { path, kind }
}

const DAY_MS: u64 = 24 * 60 * 60 * 1_000;
const DAY_S: f64 = 24.0 * 60.0 * 60.0;
const HOUR_MS: u64 = 60 * 60 * 1_000;

const SECONDS: Kind = Kind::Number(0.001, DAY_S);

/// Every setting, in the order of the documentation.
pub(crate) const KEYS: &[Key] = &[
    key("database.url", Kind::Url),
    key("database.pooler", Kind::Word(&["session", "transaction"])),
    key("database.listen_url", Kind::Url),
    key("database.connections_max", Kind::Whole(6, 1_000)),
    key("database.migrate_on_start", Kind::Flag),
    key("database.check_on_start", Kind::Flag),
    key("server.listen", Kind::Address),
    key("server.tokens.*.hash", Kind::Text),
    key("server.tokens.*.scopes", Kind::Texts),
    key("server.tls_cert", Kind::Text),
    key("server.tls_key", Kind::Text),
    key("server.allow_plain_http", Kind::Flag),
    key("server.allow_anonymous", Kind::Flag),
    key("server.allowed_hosts", Kind::Texts),
    key("server.metrics_open", Kind::Flag),
    key("server.body_max_bytes", Kind::Whole(1, 1024 * 1024 * 1024)),
    key(
        "server.bodies_max_bytes",
        Kind::Whole(1, 4 * 1024 * 1024 * 1024 - 1),
    ),
    key(
        "server.claims_max_bytes",
        Kind::Whole(1, 4 * 1024 * 1024 * 1024 - 1),
    ),
    key("server.batch_max", Kind::Whole(1, 100_000)),
    key("server.header_timeout_ms", Kind::Whole(1, HOUR_MS)),
    key("server.body_timeout_ms", Kind::Whole(1, HOUR_MS)),
    key("server.request_timeout_ms", Kind::Whole(1, HOUR_MS)),
    key("server.wait_max_ms", Kind::Whole(1, HOUR_MS)),
    key("server.waits_max", Kind::Whole(1, 1_000_000)),
    key("server.concurrency_max", Kind::Whole(1, 1_000_000)),
    key("server.connections_max", Kind::Whole(1, 1_000_000)),
    key(
        "server.connections_per_address_max",
        Kind::Whole(0, 1_000_000),
    ),
    key(
        "server.rate_limit.per_second",
        Kind::Whole(0, u32::MAX as u64),
    ),
    key("server.rate_limit.burst", Kind::Whole(1, u32::MAX as u64)),
    key("server.session_ttl_ms", Kind::Whole(1_000, 30 * DAY_MS)),
    key("server.session_key", Kind::Secret),
    key("server.dashboard_secure_cookie", Kind::Flag),
    key("server.tick_age_max_ms", Kind::Whole(100, HOUR_MS)),
    key("server.shutdown_grace_ms", Kind::Whole(0, HOUR_MS)),
    key("worker.owner", Kind::Text),
    key("worker.grace_ms", Kind::Whole(0, DAY_MS)),
    key("worker.claimed_max_bytes", Kind::Whole(1, 1 << 40)),
    key("log.format", Kind::Word(&["text", "json"])),
    key("log.filter", Kind::Text),
    key("telemetry.sample_interval_ms", Kind::Whole(100, HOUR_MS)),
    key("telemetry.otlp_endpoint", Kind::Url),
    key("orders.enabled", Kind::Flag),
    key("orders.outbox_enabled", Kind::Flag),
    key("orders.outbox_concurrency", Kind::Whole(1, 1_000)),
    key("orders.outbox_batch", Kind::Whole(1, 10_000)),
    key("orders.outbox_poll_interval_sec", SECONDS),
    key("orders.outbox_lock_lease_sec", SECONDS),
    key("orders.outbox_max_attempts", Kind::Whole(1, 10_000)),
    key("orders.outbox_backoff_sec", Kind::Numbers),
    key("orders.broker_adapter", Kind::Word(&["paper", "http"])),
    key("orders.broker_url", Kind::Url),
    key("orders.broker_status_url", Kind::Url),
    key("orders.broker_timeout_ms", Kind::Whole(1, 600_000)),
    key("orders.broker_timeout_fok_gtc_ms", Kind::Whole(1, 600_000)),
    key("orders.broker_api_key", Kind::Secret),
    key("orders.broker_api_key_file", Kind::Text),
    key("orders.broker_api_secret", Kind::Secret),
    key("orders.broker_api_secret_file", Kind::Text),
    key("orders.broker_idem_header", Kind::Text),
    key("orders.broker_takes_keys", Kind::Flag),
    key("orders.broker_ca_file", Kind::Text),
    key("orders.breaker_calls", Kind::Whole(0, 64)),
    key("orders.breaker_share", Kind::Number(0.0, 1.0)),
    key("orders.breaker_open_sec", SECONDS),
    key("orders.idempo_ttl_hours", Kind::Whole(1, 366 * 24)),
    key("orders.idempo_secret", Kind::Secret),
    key("orders.rl_rate_per_min", Kind::Whole(0, u32::MAX as u64)),
    key("orders.rl_burst", Kind::Whole(0, u32::MAX as u64)),
    key("orders.daily_quota", Kind::Whole(0, u32::MAX as u64)),
    key("orders.order_max_age_sec", Kind::Whole(0, 366 * 86_400)),
    key("orders.instruments.*.qty_step", Kind::Decimal),
    key("orders.instruments.*.qty_min", Kind::Decimal),
    key("orders.instruments.*.price_tick", Kind::Decimal),
    key("orders.wait_max_sec", Kind::Number(0.0, 3_600.0)),
    key("orders.paper_seed", Kind::Whole(0, i64::MAX as u64)),
    key("orders.paper_script", Kind::Text),
    key("payments.enabled", Kind::Flag),
    key("payments.rail", Kind::Word(&["simulated", "http", "none"])),
    key("payments.rail_types", Kind::Texts),
    key("payments.rail_url", Kind::Url),
    key("payments.rail_status_url", Kind::Url),
    key("payments.rail_token", Kind::Secret),
    key("payments.rail_token_file", Kind::Text),
    key("payments.rail_signing_secret", Kind::Secret),
    key("payments.rail_signing_secret_file", Kind::Text),
    key("payments.rail_key_header", Kind::Text),
    key("payments.rail_ca_file", Kind::Text),
    key("payments.lease_sec", Kind::Whole(1, 3_600)),
    key("payments.dispatch_timeout_sec", Kind::Whole(1, 3_600)),
    key("payments.concurrency", Kind::Whole(1, 1_000)),
    key("payments.batch", Kind::Whole(1, 1_000)),
    key("payments.retry_ceiling", Kind::Whole(1, 1_000)),
    key("payments.backoff_base_ms", Kind::Whole(1_000, DAY_MS)),
    key("payments.backoff_max_ms", Kind::Whole(1_000, DAY_MS)),
    key(
        "payments.ordered_by",
        Kind::Word(&["nothing", "participant"]),
    ),
    key("payments.on_failed", Kind::Word(&["continue", "block"])),
    key("payments.amount_minor_max", Kind::Whole(1, i64::MAX as u64)),
    key("payments.request_bytes_max", Kind::Whole(1_024, 1 << 20)),
    key("payments.tenant_required", Kind::Flag),
    key("payments.watch_interval_sec", Kind::Whole(1, 86_400)),
    key("payments.tenants.*", Kind::Text),
    key("memory.enabled", Kind::Flag),
    key("memory.project_key", Kind::Text),
    key("memory.backend", Kind::Word(&["embedded", "openmemory"])),
    key("memory.openmemory_base_url", Kind::Url),
    key("memory.openmemory_api_key", Kind::Secret),
    key(
        "memory.openmemory_dialect",
        Kind::Word(&["auto", "js1", "js_head", "python"]),
    ),
    key("memory.openmemory_timeout_seconds", Kind::Whole(1, 600)),
    key("memory.openmemory_max_client_retries", Kind::Whole(0, 10)),
    key("memory.gateway_budget_ms", Kind::Whole(10, 600_000)),
    key("memory.default_team_space", Kind::Text),
    key("memory.private_space_prefix", Kind::Text),
    key("memory.governance_admin_key", Kind::Secret),
    key(
        "memory.unknown_actor_policy",
        Kind::Word(&["reject", "degrade", "auto_create"]),
    ),
    key("memory.tool_set", Kind::Word(&["all", "memory"])),
    key("memory.validate_evidence_refs", Kind::Flag),
    key("memory.strict_mode_enforce_validate_refs", Kind::Flag),
    key("memory.evidence_max_size_bytes", Kind::Whole(1, 64 << 20)),
    key("memory.artifacts_root", Kind::Text),
    key("memory.payload_max_bytes", Kind::Whole(1, 8 << 20)),
    key("memory.gateway_auth_token", Kind::Secret),
    key("memory.gateway_auth_tokens_json", Kind::Secret),
    key("memory.batch_size", Kind::Whole(1, 1_000)),
    key("memory.max_retries", Kind::Whole(1, 1_000)),
    key("memory.base_backoff_seconds", Kind::Whole(1, 86_400)),
    key("memory.max_backoff_seconds", Kind::Whole(1, 86_400)),
    key("memory.jitter_factor", Kind::Number(0.0, 1.0)),
    key("memory.lease_seconds", Kind::Whole(1, 3_600)),
    key("memory.reconcile_interval_seconds", Kind::Whole(0, 86_400)),
    key("memory.stale_threshold_seconds", Kind::Whole(60, 86_400)),
    key(
        "memory.pending_audit_timeout_seconds",
        Kind::Whole(60, 30 * 86_400),
    ),
    key("memory.skip_openmemory", Kind::Flag),
    key("memory.skip_audit", Kind::Flag),
    key("memory.skip_outbox", Kind::Flag),
    key("memory.skip_reconcile", Kind::Flag),
    key("memory.skip_memory_query", Kind::Flag),
    key("memory.skip_degradation", Kind::Flag),
    key("scm.every_seconds", Kind::Whole(0, 86_400)),
    key("scm.mode", Kind::Word(&["strict", "best_effort"])),
    key("scm.diffs", Kind::Word(&["later", "now"])),
    key("scm.diff_max_bytes", Kind::Whole(1, 1 << 30)),
    key("scm.materialize_max", Kind::Whole(0, 1_000_000)),
    key("scm.mirrors_root", Kind::Text),
    key("scm.allow", Kind::Texts),
    key("scm.local_roots", Kind::Texts),
    key("scm.silence_max_seconds", Kind::Whole(1, 3_600)),
    key("scm.batch_records_max", Kind::Whole(1, 100_000)),
    key("scm.ca_file", Kind::Text),
    key(
        "scm.card_kind",
        Kind::Word(&[
            "FACT",
            "PROCEDURE",
            "PITFALL",
            "DECISION",
            "REVIEW_GUIDE",
            "REFLECTION",
        ]),
    ),
    key("scm.actor_user_id", Kind::Text),
    key("scm.tokens.*", Kind::Secret),
    key("scm.users.*", Kind::Text),
    key("scm.token", Kind::Secret),
    key("scm.token_host", Kind::Text),
    key("scm.token_user", Kind::Text),
    key("queues.*.lease_ttl_ms", Kind::Whole(1, DAY_MS)),
    key("queues.*.lease_ttl_max_ms", Kind::Whole(1, DAY_MS)),
    key("queues.*.attempts_max", Kind::Whole(1, 10_000)),
    key(
        "queues.*.retry.kind",
        Kind::Word(&["fixed", "table", "exponential"]),
    ),
    key("queues.*.retry.delay_ms", Kind::Whole(0, u64::MAX)),
    key("queues.*.retry.delays_ms", Kind::Wholes),
    key("queues.*.retry.base_ms", Kind::Whole(0, u64::MAX)),
    key("queues.*.retry.factor", Kind::Number(1.0, f64::MAX)),
    key("queues.*.retry.max_ms", Kind::Whole(0, u64::MAX)),
    key("queues.*.retry.jitter", Kind::Number(0.0, 1.0)),
    key(
        "queues.*.on_uncertain",
        Kind::Word(&["resend", "probe", "hold"]),
    ),
    key("queues.*.ordered", Kind::Flag),
    key("queues.*.on_dead", Kind::Word(&["block", "continue"])),
    key("queues.*.notify", Kind::Flag),
    key(
        "queues.*.payload_max_bytes",
        Kind::Whole(1, 64 * 1024 * 1024),
    ),
    key(
        "queues.*.claim_max_bytes",
        Kind::Whole(1, 256 * 1024 * 1024),
    ),
    key("queues.*.concurrency", Kind::Whole(1, 1_000)),
    key("queues.*.rate_per_second", Kind::Whole(1, u32::MAX as u64)),
    key("queues.*.timeout_ms", Kind::Whole(1, DAY_MS)),
    key("queues.*.record_begin", Kind::Flag),
    key("queues.*.presume_begun", Kind::Flag),
    key("queues.*.hold_codes", Kind::Texts),
];

/// Tables whose settings somebody else knows: those of a sink.
const OPEN: &[&str] = &["queues.*.sink"];

/// What a path names.
#[derive(Debug)]
pub(crate) enum Found {
    Key(&'static Key),
    /// A table of settings.
    Table,
    /// Something inside a table whose settings somebody else knows, or that table.
    Open,
    /// Nothing; in words, with a suggestion where there is one.
    Unknown(String),
}

pub(crate) fn find(path: &KeyPath) -> Found {
    if let Some(key) = KEYS.iter().find(|key| matches(key.path, path.segments())) {
        return Found::Key(key);
    }
    let length = path.segments().len();
    for pattern in OPEN {
        let depth = pattern.split('.').count();
        if length >= depth && matches(pattern, &path.segments()[..depth]) {
            return Found::Open;
        }
    }
    if children(path.segments()).next().is_some() {
        return Found::Table;
    }
    Found::Unknown(unknown(path))
}

fn matches(pattern: &str, segments: &[String]) -> bool {
    pattern.split('.').count() == segments.len() && begins(pattern, segments)
}

/// Whether the first segments of `pattern` are these.
fn begins(pattern: &str, segments: &[String]) -> bool {
    let mut parts = pattern.split('.');
    segments.iter().all(|segment| {
        parts
            .next()
            .is_some_and(|part| part == "*" || part == segment)
    })
}

/// The names that may stand in the table at `segments`.
fn children(segments: &[String]) -> impl Iterator<Item = &'static str> {
    let patterns = KEYS.iter().map(|key| key.path).chain(OPEN.iter().copied());
    let depth = segments.len();
    patterns
        .filter(move |pattern| begins(pattern, segments))
        .filter_map(move |pattern| pattern.split('.').nth(depth))
}

/// "unknown", and what may have been meant: a name in the same table, or the same name elsewhere.
fn unknown(path: &KeyPath) -> String {
    let segments = path.segments();
    for depth in 0..segments.len() {
        let (table, rest) = segments.split_at(depth);
        let wrong = &rest[0];
        let known = |segment: &'static str| segment == "*" || segment == wrong;
        if children(table).any(known) {
            continue;
        }
        let mut meant = table.to_vec();
        if let Some(near) = nearest(wrong, children(table)) {
            meant.push(near.to_owned());
            meant.extend(rest[1..].iter().cloned());
            return suggest(&KeyPath::from(meant));
        }
        break;
    }
    let last = path.last().to_lowercase();
    let elsewhere = KEYS
        .iter()
        .find(|key| !key.path.contains('*') && key.path.rsplit('.').next() == Some(&last));
    match elsewhere {
        Some(key) => suggest(&KeyPath::of(key.path)),
        None => {
            "there is no such setting; `consign config print-default` shows those there are".into()
        }
    }
}

fn suggest(meant: &KeyPath) -> String {
    format!("there is no such setting; did you mean {meant}?")
}
