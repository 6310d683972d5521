//! The settings of payments: one declaration each.

use consign_app::config::{DAY_MS, Kind, Section, Setting};
use consign_kernel::LEASE_MESSAGES_MAX;

/// The table of settings.
pub(crate) static PAYMENTS: Section = Section {
    name: "payments",
    about: "Payments: POST /v1/payments.",
    capitals: false,
    settings: PAYMENTS_SETTINGS,
    open: &[],
};

static PAYMENTS_SETTINGS: &[Setting] = &[
    Setting::new(
        "payments.enabled",
        Kind::Flag,
        "whether payments are taken and dispatched at all; if not, `[queues.payments]` may \
         give the queue a policy, or a sink of your own. It holds payments only either way",
    )
    .default("true"),
    Setting::new(
        "payments.rail",
        Kind::Word(&["simulated", "http", "none"]),
        "`simulated`, `http`, or `none`: other programs claim and dispatch the payments, over \
         [SQL](sql-payments.md) or [HTTP](http.md#working-on-payments); see above",
    )
    .example("\"http\""),
    Setting::new(
        "payments.rail_types",
        Kind::Texts,
        "rail types that are dispatched; any other payment fails with `UNKNOWN_RAIL_TYPE`",
    )
    .default("[\"PAYMENT\", \"TRANSFER\", \"REFUND\", \"REVERSAL\"]"),
    Setting::new(
        "payments.rail_url",
        Kind::Url,
        "where the http rail takes payments",
    )
    .example("\"https://rail.example/payments\""),
    Setting::new(
        "payments.rail_status_url",
        Kind::Url,
        "URL of the status query about a payment; `{reference}` is replaced by the `outbox_id`. \
         Required by the http rail",
    )
    .example("\"https://rail.example/payments/{reference}\""),
    Setting::new(
        "payments.rail_token",
        Kind::Secret,
        "token sent to the rail, as `Authorization: Bearer`",
    )
    .example("\"...\""),
    Setting::new(
        "payments.rail_token_file",
        Kind::Text,
        "the file that holds it, instead; read at start",
    )
    .example("\"/etc/consign/rail.token\""),
    Setting::new(
        "payments.rail_signing_secret",
        Kind::Secret,
        "what requests are signed with, like [webhooks](rail.md#the-request): `whsec_` or \
         `whsk_` and base64, several with blanks between",
    )
    .example("\"whsec_...\""),
    Setting::new(
        "payments.rail_signing_secret_file",
        Kind::Text,
        "the file that holds it, instead",
    )
    .example("\"/etc/consign/rail.secret\""),
    Setting::new(
        "payments.rail_key_header",
        Kind::Text,
        "the header that carries the `outbox_id`",
    )
    .default("\"Idempotency-Key\""),
    Setting::new(
        "payments.rail_ca_file",
        Kind::Text,
        "certificates to trust besides the system's, as PEM",
    )
    .example("\"/etc/consign/rail-ca.pem\""),
    Setting::new(
        "payments.lease_sec",
        Kind::Whole(1, 3_600),
        "lease time: payments whose lease was not renewed for this long can be claimed by another \
         worker; at least 5 s more than `dispatch_timeout_sec`",
    )
    .default("60")
    .policy(&["lease_ttl_ms"]),
    Setting::new(
        "payments.dispatch_timeout_sec",
        Kind::Whole(1, 3_600),
        "how long a rail may take",
    )
    .default("30")
    .policy(&["timeout_ms"]),
    Setting::new(
        "payments.concurrency",
        Kind::Whole(1, 1_000),
        "dispatches under way at once in one process",
    )
    .default("10")
    .policy(&["concurrency"]),
    Setting::new(
        "payments.batch",
        Kind::Whole(1, LEASE_MESSAGES_MAX as u64),
        "most payments of one claim",
    )
    .default("50"),
    Setting::new(
        "payments.retry_ceiling",
        Kind::Whole(1, 1_000),
        "attempts before a payment has failed",
    )
    .default("20")
    .policy(&["attempts_max"]),
    Setting::new(
        "payments.backoff_base_ms",
        Kind::Whole(1_000, DAY_MS),
        "delay after the first failed attempt; doubles with each",
    )
    .default("1000")
    .policy(&["retry.base_ms"]),
    Setting::new(
        "payments.backoff_max_ms",
        Kind::Whole(1_000, DAY_MS),
        "longest delay",
    )
    .default("60000")
    .policy(&["retry.max_ms"]),
    Setting::new(
        "payments.ordered_by",
        Kind::Word(&["nothing", "participant"]),
        "`participant`: one after the other for each participant; changes only while the \
         queue is empty",
    )
    .default("\"nothing\"")
    .policy(&["ordered", "on_dead"]),
    Setting::new(
        "payments.on_failed",
        Kind::Word(&["continue", "block"]),
        "what a failed payment does to the next ones of its participant, if they are ordered: \
         they go on, or wait until it is requeued",
    )
    .default("\"continue\"")
    .policy(&["on_dead"]),
    Setting::new(
        "payments.amount_minor_max",
        Kind::Whole(1, i64::MAX as u64),
        "the largest amount taken over HTTP, in minor units",
    )
    .default("1000000000000"),
    Setting::new(
        "payments.request_bytes_max",
        Kind::Whole(1_024, 1 << 20),
        "the largest request",
    )
    .default("65536"),
    Setting::new(
        "payments.tenant_required",
        Kind::Flag,
        "whether a request must name its tenant",
    )
    .default("true"),
    Setting::new(
        "payments.watch_interval_sec",
        Kind::Whole(1, 86_400),
        "how often `serve` looks for payments to compare with the rail's records",
    )
    .default("900"),
    Setting::new(
        "payments.tenants.*",
        Kind::Text,
        "the tenant, a UUID, that the token `server.tokens.NAME` is bound to; a token without an \
         entry may use all tenants",
    )
    .example("\"0190f3a2-7b1c-7000-8000-00000000000a\""),
];
