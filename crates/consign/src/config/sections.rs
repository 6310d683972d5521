//! The engine's settings: one declaration each.

mod queues;

use consign_app::config::{DAY_MS, HOUR_MS, Kind, Section, Setting};

use self::queues::QUEUES;

/// Every table of the engine's settings.
pub(crate) static SECTIONS: &[&Section] = &[
    &ROOT, &DATABASE, &SERVER, &WORKER, &RETENTION, &LOG, &TELEMETRY, &QUEUES,
];

static ROOT: Section = Section {
    name: "",
    about: "Which apps are on.",
    capitals: false,
    settings: &[Setting::new(
        "apps",
        Kind::Texts,
        "the apps that are installed and served, by name: each has a table of settings. An app whose \
         table sets something is on, too; one with `enabled = false` is off",
    )
    .unset("every app in the file that consign creates by itself, none in any other database")
    .example("[\"NAME\"]")
    .variables(&["CONSIGN_APPS"])],
    open: &[],
};

static DATABASE: Section = Section {
    name: "database",
    about: "Which database, and how to reach it.",
    capitals: false,
    settings: DATABASE_SETTINGS,
    open: &[],
};

static DATABASE_SETTINGS: &[Setting] = &[
    Setting::new(
        "database.url",
        Kind::Url,
        "`sqlite:PATH`, a path, or `postgres://USER@HOST/DATABASE`. Only the default file is \
         made by itself.",
    )
    .example("\"postgres://me@localhost/shop\"")
    .unset("`sqlite:consign.db`")
    .variables(&["CONSIGN_DATABASE_URL", "DATABASE_URL", "POSTGRES_DSN"]),
    Setting::new(
        "database.pooler",
        Kind::Word(&["session", "transaction"]),
        "`transaction` behind PgBouncer in transaction mode, see \
         [operations](operations.md#pgbouncer)",
    )
    .default("\"session\""),
    Setting::new(
        "database.listen_url",
        Kind::Url,
        "a direct address for wake-ups, which a transaction pooler cannot carry",
    )
    .example("\"postgres://me@localhost:5432/shop\""),
    Setting::new(
        "database.connections_max",
        Kind::Whole(6, 1_000),
        "most connections of one process to PostgreSQL, besides one for wake-ups; [divided by \
         use](operations.md#connections)",
    )
    .default("16"),
    Setting::new(
        "database.migrate_on_start",
        Kind::Flag,
        "`serve` and `work` migrate the database before they start, as with `--migrate`",
    )
    .default("false"),
    Setting::new(
        "database.check_on_start",
        Kind::Flag,
        "`serve` and `work` exit with code 5 if the schema does not fit; false: the process logs \
         it, answers 503 and waits until the schema fits. It never works on a schema that does \
         not fit",
    )
    .default("true"),
];

static SERVER: Section = Section {
    name: "server",
    about: "The HTTP API and the dashboard.",
    capitals: false,
    settings: SERVER_SETTINGS,
    open: &[],
};

static SERVER_SETTINGS: &[Setting] = &[
    Setting::new(
        "server.listen",
        Kind::Address,
        "where `serve` listens: an address and a port; `localhost` and a port, or a port alone, is \
         127.0.0.1",
    )
    .default("\"127.0.0.1:8787\""),
    Setting::new(
        "server.tokens.*.hash",
        Kind::Text,
        "hash of a token; `consign token new` prints it. That of the empty token, and one \
         that two names have, are rejected",
    )
    .example("\"sha256:...\""),
    Setting::new(
        "server.tokens.*.scopes",
        Kind::Texts,
        "what it is for: `producer`, `worker`, `operator`, `auditor`",
    )
    .example("[\"producer\"]"),
    Setting::new(
        "server.tls_cert",
        Kind::Text,
        "certificate chain in PEM; with `tls_key` the server serves HTTPS",
    )
    .example("\"/etc/consign/tls.crt\""),
    Setting::new("server.tls_key", Kind::Text, "private key in PEM")
        .example("\"/etc/consign/tls.key\""),
    Setting::new(
        "server.allow_plain_http",
        Kind::Flag,
        "permit plain HTTP on an address that other machines can reach, as behind a proxy that \
         terminates TLS",
    )
    .default("false"),
    Setting::new(
        "server.allow_anonymous",
        Kind::Flag,
        "permit a server without tokens on an address that other machines can reach; no effect \
         where `server.tokens` or agents have some",
    )
    .default("false"),
    Setting::new(
        "server.allowed_hosts",
        Kind::Texts,
        "names besides `localhost` and addresses by which callers without a token may call it",
    )
    .default("[]"),
    Setting::new(
        "server.metrics_open",
        Kind::Flag,
        "serve `/metrics` without a token; by default only to callers on this \
         machine",
    )
    .example("true"),
    Setting::new(
        "server.body_max_bytes",
        Kind::Whole(1, 1024 * 1024 * 1024),
        "largest body of a request",
    )
    .default("8388608"),
    Setting::new(
        "server.bodies_max_bytes",
        Kind::Whole(1, 4 * 1024 * 1024 * 1024 - 1),
        "memory for the bodies of all requests at once, those of up to 64 KiB aside, and half \
         of it for one client; further ones are rejected",
    )
    .default("67108864"),
    Setting::new(
        "server.claims_max_bytes",
        Kind::Whole(1, 4 * 1024 * 1024 * 1024 - 1),
        "memory for the answers of claims until they are sent, half of it for one client; \
         further claims bring fewer messages, or are rejected",
    )
    .default("67108864"),
    Setting::new(
        "server.batch_max",
        Kind::Whole(1, 100_000),
        "most messages in one batch",
    )
    .default("1000"),
    Setting::new(
        "server.header_timeout_ms",
        Kind::Whole(1, HOUR_MS),
        "how long a client may take to send its headers, and be idle between requests",
    )
    .default("15000"),
    Setting::new(
        "server.body_timeout_ms",
        Kind::Whole(1, HOUR_MS),
        "how long a client may take to send a body",
    )
    .default("30000"),
    Setting::new(
        "server.request_timeout_ms",
        Kind::Whole(1, HOUR_MS),
        "how long a request may be processed",
    )
    .default("30000"),
    Setting::new(
        "server.wait_max_ms",
        Kind::Whole(1, HOUR_MS),
        "longest wait for messages in a claim",
    )
    .default("30000"),
    Setting::new(
        "server.waits_max",
        Kind::Whole(1, 1_000_000),
        "most claims that wait at once",
    )
    .default("1024"),
    Setting::new(
        "server.concurrency_max",
        Kind::Whole(1, 1_000_000),
        "most requests processed at once; further ones are rejected",
    )
    .default("256"),
    Setting::new(
        "server.connections_max",
        Kind::Whole(1, 1_000_000),
        "most connections with requests, and never more than [the open \
         files](operations.md#running) allow; there is room for half as many more without \
         one, and beyond that those without a request are closed",
    )
    .default("2048"),
    Setting::new(
        "server.connections_per_address_max",
        Kind::Whole(0, 1_000_000),
        "most of them from one address (IPv6: one /64) other than this machine's own; 0 for \
         no limit. Behind a proxy on another machine all come from its address: raise it to \
         `connections_max`",
    )
    .default("512"),
    Setting::new(
        "server.rate_limit.per_second",
        Kind::Whole(0, u32::MAX as u64),
        "requests a second of one client in the long run; 0 for no limit",
    )
    .default("5000"),
    Setting::new(
        "server.rate_limit.burst",
        Kind::Whole(1, u32::MAX as u64),
        "requests of one client at once after an idle time",
    )
    .default("10000"),
    Setting::new(
        "server.session_ttl_ms",
        Kind::Whole(1_000, 30 * DAY_MS),
        "how long a login at the dashboard lasts",
    )
    .default("28800000"),
    Setting::new(
        "server.session_key",
        Kind::Secret,
        "what these logins are signed with: a secret of at least 32 bytes, the same on every \
         server, best in `CONSIGN_SERVER__SESSION_KEY`; without it, a reader of the \
         tokens' hashes can forge one",
    )
    .example("\"...\""),
    Setting::new(
        "server.dashboard_secure_cookie",
        Kind::Flag,
        "keep browsers from sending the dashboard's cookie over plain HTTP, as behind a proxy \
         that terminates TLS; a server with HTTPS always does",
    )
    .default("false"),
    Setting::new(
        "server.dashboard_payloads",
        Kind::Word(&["reveal", "operators", "never"]),
        "who sees the payload of a message on the dashboard, with a reason that the audit records: \
         `reveal` every visitor, `operators` those with the scope `operator`, `never` none; the \
         API returns payloads in any case",
    )
    .default("\"reveal\""),
    Setting::new(
        "server.tick_age_max_ms",
        Kind::Whole(100, HOUR_MS),
        "a worker whose claim loop did not run for this long is not ready, and does not feed \
         systemd's watchdog",
    )
    .default("30000"),
    Setting::new(
        "server.shutdown_grace_ms",
        Kind::Whole(0, HOUR_MS),
        "how long requests under way may take at the end",
    )
    .default("10000"),
];

static WORKER: Section = Section {
    name: "worker",
    about: "Delivering.",
    capitals: false,
    settings: WORKER_SETTINGS,
    open: &[],
};

static WORKER_SETTINGS: &[Setting] = &[
    Setting::new(
        "worker.owner",
        Kind::Text,
        "the name in leases and attempts",
    )
    .example("\"worker-1\"")
    .unset("host and process id"),
    Setting::new(
        "worker.grace_ms",
        Kind::Whole(0, DAY_MS),
        "how long deliveries under way may take to end after SIGTERM",
    )
    .default("25000"),
    Setting::new(
        "worker.claimed_max_bytes",
        Kind::Whole(1, 1 << 40),
        "most bytes of messages that are claimed and not yet delivered, in all queues \
         together; a queue that has none claims one message all the same. The process needs a \
         few times as much memory: with the defaults, 512 MiB are enough",
    )
    .default("67108864"),
];

static RETENTION: Section = Section {
    name: "retention",
    about: "How history leaves; what leaves, and when, is a policy of each queue.",
    capitals: false,
    settings: RETENTION_SETTINGS,
    open: &[],
};

static RETENTION_SETTINGS: &[Setting] = &[
    Setting::new(
        "retention.enabled",
        Kind::Flag,
        "`serve` and `work` run the maintenance, one process at a time; false: only `consign \
         retention run` does",
    )
    .default("true"),
    Setting::new(
        "retention.interval_ms",
        Kind::Whole(100, DAY_MS),
        "how often to look for what may leave",
    )
    .default("60000"),
    Setting::new(
        "retention.archive",
        Kind::Text,
        "the folder of the archive, the same for every process that runs the maintenance",
    )
    .example("\"/var/lib/consign/archive\"")
    .unset("none: messages of queues that require one stay"),
    Setting::new(
        "retention.range_messages",
        Kind::Whole(1_000, 1_000_000_000),
        "PostgreSQL: how many ids a range has",
    )
    .default("1000000"),
    Setting::new(
        "retention.range_age_ms",
        Kind::Whole(0, 366 * DAY_MS),
        "PostgreSQL: a range is closed at this age although it is not full; only closed ranges are \
         emptied",
    )
    .default("86400000"),
    Setting::new(
        "retention.size_max_bytes",
        Kind::Whole(1_048_576, 1 << 60),
        "while the history is larger, delivered messages leave before their time, the oldest first; \
         only of queues with a `keep_ms`",
    )
    .example("107374182400")
    .unset("none: messages leave by age only"),
    Setting::new(
        "retention.disk_path",
        Kind::Text,
        "PostgreSQL: a path on the disk of the server, to forecast when it is full; SQLite: that of \
         the file",
    )
    .example("\"/var/lib/postgresql\"")
    .unset("none: a full disk is not forecast"),
];

static LOG: Section = Section {
    name: "log",
    about: "Logs, to standard error.",
    capitals: false,
    settings: LOG_SETTINGS,
    open: &[],
};

static LOG_SETTINGS: &[Setting] = &[
    Setting::new(
        "log.format",
        Kind::Word(&["text", "json"]),
        "`text` or `json`",
    )
    .default("\"text\""),
    Setting::new(
        "log.filter",
        Kind::Text,
        "a level, or levels by part: `info,consign_worker=debug`",
    )
    .default("\"info\""),
];

static TELEMETRY: Section = Section {
    name: "telemetry",
    about: "Metrics and traces.",
    capitals: false,
    settings: TELEMETRY_SETTINGS,
    open: &[],
};

static TELEMETRY_SETTINGS: &[Setting] = &[
    Setting::new(
        "telemetry.sample_interval_ms",
        Kind::Whole(100, HOUR_MS),
        "how often the queues are counted for the [metrics](metrics.md)",
    )
    .default("15000"),
    Setting::new(
        "telemetry.otlp_endpoint",
        Kind::Url,
        "where traces go, such as `http://localhost:4318`; needs `--features otlp`",
    )
    .example("\"http://localhost:4318\""),
];
