//! The settings of orders: one declaration each.

use consign_app::config::{Kind, SECONDS, Section, Setting};
use consign_kernel::LEASE_MESSAGES_MAX;

/// The table of settings.
pub(crate) static ORDERS: Section = Section {
    name: "orders",
    about: "Orders: POST /do/order. The file accepts every name in capitals, too; those that begin with outbox_, broker_, idempo_, rl_ and daily_quota are variables of the environment by themselves, such as OUTBOX_CONCURRENCY=8.",
    capitals: true,
    settings: ORDERS_SETTINGS,
    open: &[],
};

static ORDERS_SETTINGS: &[Setting] = &[
    Setting::new(
        "orders.enabled",
        Kind::Flag,
        "whether orders are taken and sent at all; if not, `[queues.orders]` may give the \
         queue a policy, or a sink of your own. It takes orders only either way",
    )
    .default("true"),
    Setting::new(
        "orders.outbox_enabled",
        Kind::Flag,
        "whether orders go through the outbox; if not, each is sent once, within its request",
    )
    .default("true")
    .variables(&["OUTBOX_ENABLED", "DO_FEATURE_OUTBOX"]),
    Setting::new(
        "orders.outbox_concurrency",
        Kind::Whole(1, 1_000),
        "orders under way at once in one process",
    )
    .default("4")
    .variables(&["OUTBOX_CONCURRENCY"])
    .policy(&["concurrency"]),
    Setting::new(
        "orders.outbox_batch",
        Kind::Whole(1, LEASE_MESSAGES_MAX as u64),
        "most orders of one claim; never more than there are free slots",
    )
    .default("32")
    .variables(&["OUTBOX_BATCH"]),
    Setting::new(
        "orders.outbox_poll_interval_sec",
        Kind::Number(0.001, 3_600.0),
        "poll interval of an idle worker without wake-ups",
    )
    .default("0.5")
    .variables(&["OUTBOX_POLL_INTERVAL_SEC"]),
    Setting::new(
        "orders.outbox_lock_lease_sec",
        // Renewed after a third of its time: a shorter lease would be lost by a slow commit.
        Kind::Number(0.3, 86_400.0),
        "lease time: orders whose lease was not renewed for this long can be claimed by another \
         worker",
    )
    .default("120.0")
    .variables(&["OUTBOX_LOCK_LEASE_SEC"])
    .policy(&["lease_ttl_ms", "lease_ttl_max_ms"]),
    Setting::new(
        "orders.outbox_max_attempts",
        Kind::Whole(1, 10_000),
        "sends of one order before it is aborted",
    )
    .default("6")
    .variables(&["OUTBOX_MAX_ATTEMPTS"])
    .policy(&["attempts_max"]),
    Setting::new(
        "orders.outbox_backoff_sec",
        Kind::Numbers,
        "delays after failed sends; the last one repeats",
    )
    .default("[5.0, 10.0, 20.0, 40.0, 80.0, 160.0]")
    .variables(&["OUTBOX_BACKOFF_SEC"])
    .policy(&["retry"]),
    Setting::new(
        "orders.broker_adapter",
        Kind::Word(&["paper", "http"]),
        "where orders are sent: `paper` trades them in this process, `http` posts them to a broker",
    )
    .default("\"paper\"")
    .variables(&["BROKER_ADAPTER"])
    .bears_on(&["on_uncertain", "timeout_ms", "record_begin"]),
    Setting::new(
        "orders.broker_url",
        Kind::Url,
        "where the http adapter posts orders; with the paper adapter the variable `BROKER_URL`, \
         which other programs use too, is ignored and logged",
    )
    .example("\"https://broker.example/orders\"")
    .variables(&["BROKER_URL"])
    .bears_on(&["on_uncertain"]),
    Setting::new(
        "orders.broker_status_url",
        Kind::Url,
        "URL of the status query about an order; `{key}` is replaced by the order's key",
    )
    .example("\"https://broker.example/orders/{key}\"")
    .variables(&["BROKER_STATUS_URL"])
    .bears_on(&["on_uncertain"]),
    Setting::new(
        "orders.broker_timeout_ms",
        Kind::Whole(1, 600_000),
        "how long the broker may take for an IOC order",
    )
    .default("2500")
    .variables(&["BROKER_TIMEOUT_MS"])
    .bears_on(&["timeout_ms"]),
    Setting::new(
        "orders.broker_timeout_fok_gtc_ms",
        Kind::Whole(1, 600_000),
        "how long for a FOK or GTC order",
    )
    .default("5000")
    .variables(&["BROKER_TIMEOUT_FOK_GTC_MS"])
    .bears_on(&["timeout_ms"]),
    Setting::new(
        "orders.broker_api_key",
        Kind::Secret,
        "API key sent to the broker",
    )
    .example("\"...\"")
    .variables(&["BROKER_API_KEY"]),
    Setting::new(
        "orders.broker_api_key_file",
        Kind::Text,
        "the file that holds it, instead; read at start. `BROKER_API_KEY_FILE` in the \
         environment",
    )
    .example("\"/etc/consign/broker.key\"")
    .variables(&["BROKER_API_KEY_FILE"]),
    Setting::new(
        "orders.broker_api_secret",
        Kind::Secret,
        "what requests to the broker are signed with",
    )
    .example("\"...\"")
    .variables(&["BROKER_API_SECRET"]),
    Setting::new(
        "orders.broker_api_secret_file",
        Kind::Text,
        "the file that holds it, instead; `BROKER_API_SECRET_FILE`",
    )
    .example("\"/etc/consign/broker.secret\"")
    .variables(&["BROKER_API_SECRET_FILE"]),
    Setting::new(
        "orders.broker_idem_header",
        Kind::Text,
        "the header that carries an order's key to the broker",
    )
    .default("\"Idempotency-Key\"")
    .variables(&["BROKER_IDEM_HEADER"]),
    Setting::new(
        "orders.broker_takes_keys",
        Kind::Flag,
        "whether the broker executes each key at most once; if not, an order that may have been \
         executed is looked up at the broker or held",
    )
    .default("true")
    .variables(&["BROKER_TAKES_KEYS"])
    .bears_on(&["on_uncertain"]),
    Setting::new(
        "orders.broker_ca_file",
        Kind::Text,
        "certificates to trust besides the system's, as PEM",
    )
    .example("\"/etc/consign/broker-ca.pem\"")
    .variables(&["BROKER_CA_FILE"]),
    Setting::new(
        "orders.breaker_calls",
        Kind::Whole(0, 64),
        "how many of the last calls the circuit breaker looks at; 0 for none",
    )
    .default("20"),
    Setting::new(
        "orders.breaker_share",
        Kind::Number(0.0, 1.0),
        "the breaker opens when more than this share of them timed out or found the broker \
         unreachable",
    )
    .default("0.5"),
    Setting::new(
        "orders.breaker_open_sec",
        SECONDS,
        "how long the breaker stays open",
    )
    .default("60.0"),
    Setting::new(
        "orders.idempo_ttl_hours",
        Kind::Whole(1, 366 * 24),
        "how long a key is kept",
    )
    .default("48")
    .variables(&["IDEMPO_TTL_HOURS"]),
    Setting::new(
        "orders.idempo_secret",
        Kind::Secret,
        "secret with which keys are hashed for logs; without it, each process generates its own",
    )
    .example("\"...\"")
    .variables(&["IDEMPO_SECRET"]),
    Setting::new(
        "orders.rl_rate_per_min",
        Kind::Whole(0, u32::MAX as u64),
        "orders a minute of one client; 0 for no limit",
    )
    .default("60")
    .variables(&["RL_RATE_PER_MIN"]),
    Setting::new(
        "orders.rl_burst",
        Kind::Whole(0, u32::MAX as u64),
        "orders of one client at once",
    )
    .default("30")
    .variables(&["RL_BURST"]),
    Setting::new(
        "orders.daily_quota",
        Kind::Whole(0, u32::MAX as u64),
        "orders a day (UTC) of one client; 0 for no limit",
    )
    .default("10000")
    .variables(&["DAILY_QUOTA"]),
    Setting::new(
        "orders.order_max_age_sec",
        Kind::Whole(0, 366 * 86_400),
        "how long an order may wait to be sent; 0: for ever",
    )
    .default("900"),
    Setting::new(
        "orders.instruments.*.qty_step",
        Kind::Decimal,
        "quantities of this instrument are multiples of this. Without any instrument: USDJPY, \
         EURJPY, EURUSD, GBPUSD, in hundredths",
    )
    .example("\"0.01\""),
    Setting::new(
        "orders.instruments.*.qty_min",
        Kind::Decimal,
        "its smallest quantity",
    )
    .example("\"0.01\""),
    Setting::new(
        "orders.instruments.*.price_tick",
        Kind::Decimal,
        "its prices are multiples of this",
    )
    .example("\"0.001\""),
    Setting::new(
        "orders.wait_max_sec",
        Kind::Number(0.0, 3_600.0),
        "the longest `Prefer: wait`",
    )
    .default("30.0"),
    Setting::new(
        "orders.paper_seed",
        Kind::Whole(0, i64::MAX as u64),
        "seed of the paper broker's prices",
    )
    .default("0"),
    Setting::new(
        "orders.paper_script",
        Kind::Text,
        "faults that the paper broker simulates",
    )
    .default("\"\""),
];
