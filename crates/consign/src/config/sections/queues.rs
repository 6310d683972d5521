//! The settings of queues: their policies.

use consign_app::config::{DAY_MS, Kind, Section, Setting};

/// The longest time to keep something: 100 years.
const KEEP_MS_MAX: u64 = 100 * 366 * DAY_MS;

pub(super) static QUEUES: Section = Section {
    name: "queues",
    about: "Queues. A queue of the file is created when `serve` or `work` starts. Its policy in the file wins over the one in the database; what the file leaves out stays as it is. The values below are those of a new queue. A queue without [queues.NAME.sink] is not worked by consign: programs claim from it by SQL or HTTP.",
    capitals: false,
    settings: QUEUES_SETTINGS,
    open: &["queues.*.sink"],
};

static QUEUES_SETTINGS: &[Setting] = &[
    Setting::new(
        "queues.*.lease_ttl_ms",
        Kind::Whole(1, DAY_MS),
        "how long a lease lives unless it is renewed, which the worker does",
    )
    .example("15000")
    .unset("15,000"),
    Setting::new(
        "queues.*.lease_ttl_max_ms",
        Kind::Whole(1, DAY_MS),
        "the longest lease that a claim or a renewal may request; more is rejected",
    )
    .example("3600000")
    .unset("3,600,000"),
    Setting::new(
        "queues.*.attempts_max",
        Kind::Whole(1, 10_000),
        "tries before a message is dead",
    )
    .example("10")
    .unset("10"),
    Setting::new(
        "queues.*.retry.kind",
        Kind::Word(&["fixed", "table", "exponential"]),
        "`fixed`, `table` or `exponential`",
    )
    .example("\"exponential\"")
    .unset("`exponential`"),
    Setting::new(
        "queues.*.retry.delay_ms",
        Kind::Whole(0, u64::MAX),
        "`fixed`: the delay after every try",
    ),
    Setting::new(
        "queues.*.retry.delays_ms",
        Kind::Wholes,
        "`table`: a delay per try; the last one repeats",
    ),
    Setting::new(
        "queues.*.retry.base_ms",
        Kind::Whole(0, u64::MAX),
        "`exponential`: the delay after the first try",
    )
    .example("1000")
    .unset("1,000"),
    Setting::new(
        "queues.*.retry.factor",
        Kind::Number(1.0, f64::MAX),
        "growth per try",
    )
    .example("2.0")
    .unset("2.0"),
    Setting::new("queues.*.retry.max_ms", Kind::Whole(0, u64::MAX), "most")
        .example("3600000")
        .unset("3,600,000"),
    Setting::new(
        "queues.*.retry.jitter",
        Kind::Number(0.0, 1.0),
        "spread either way",
    )
    .example("0.2")
    .unset("0.2"),
    Setting::new(
        "queues.*.on_uncertain",
        Kind::Word(&["resend", "probe", "hold"]),
        "what an uncertain outcome leads to: `resend`, `probe`, `hold`",
    )
    .example("\"resend\"")
    .unset("`resend`"),
    Setting::new(
        "queues.*.ordered",
        Kind::Flag,
        "one at a time and in order within a group; changes only while the queue is empty",
    )
    .example("false")
    .unset("false"),
    Setting::new(
        "queues.*.on_dead",
        Kind::Word(&["block", "continue"]),
        "what a dead message does to its group: `block`, `continue`",
    )
    .example("\"block\"")
    .unset("`block`"),
    Setting::new(
        "queues.*.notify",
        Kind::Flag,
        "an enqueue wakes workers, see [its price](operations.md#wake-ups-and-their-price)",
    )
    .example("true")
    .unset("true"),
    Setting::new(
        "queues.*.payload_max_bytes",
        Kind::Whole(1, 64 * 1024 * 1024),
        "largest payload, as it is kept",
    )
    .example("1048576")
    .unset("1 MiB"),
    Setting::new(
        "queues.*.claim_max_bytes",
        Kind::Whole(1, 256 * 1024 * 1024),
        "most bytes of payloads and headers in one claim, and of the queue in one worker \
         process at any time; one message always fits",
    )
    .example("16777216")
    .unset("16 MiB"),
    Setting::new(
        "queues.*.concurrency",
        Kind::Whole(1, 1_000),
        "most deliveries at once in one process",
    )
    .example("16")
    .unset("16"),
    Setting::new(
        "queues.*.rate_per_second",
        Kind::Whole(1, u32::MAX as u64),
        "most deliveries a second in one process",
    )
    .example("100"),
    Setting::new(
        "queues.*.total_concurrency",
        Kind::Whole(1, 10_000),
        "most messages leased at once in all processes",
    )
    .example("8"),
    Setting::new(
        "queues.*.total_rate_per_second",
        Kind::Whole(1, 10_000),
        "most deliveries in any second in all worker processes",
    )
    .example("50"),
    Setting::new(
        "queues.*.timeout_ms",
        Kind::Whole(1, DAY_MS),
        "how long one delivery may take before its outcome is uncertain",
    )
    .example("10000")
    .unset("10,000"),
    Setting::new(
        "queues.*.record_begin",
        Kind::Flag,
        "record the start of each delivery, so that the outcome after a crash is recorded as \
         uncertain",
    )
    .example("false")
    .unset("false"),
    Setting::new(
        "queues.*.presume_begun",
        Kind::Flag,
        "a worker that claims with `consign.claim` in SQL is presumed to have begun delivery: if the \
         lease expires, its messages are in doubt",
    )
    .example("false")
    .unset("false"),
    Setting::new(
        "queues.*.hold_codes",
        Kind::Texts,
        "codes of uncertain outcomes that are held at once, whatever `on_uncertain` is; the \
         code is the reason. At most 16, of 1 to 128 bytes",
    )
    .example("[]")
    .unset("`[]`"),
    Setting::new(
        "queues.*.keep_ms",
        Kind::Whole(0, KEEP_MS_MAX),
        "how long a delivered message is kept after its last event; then it \
         [leaves](retention.md)",
    )
    .example("2592000000")
    .unset("for ever"),
    Setting::new(
        "queues.*.keep_dead_ms",
        Kind::Whole(0, KEEP_MS_MAX),
        "how long a dead message is kept after its last event",
    )
    .example("7776000000")
    .unset("for ever"),
    Setting::new(
        "queues.*.keep_keys_ms",
        Kind::Whole(0, KEEP_MS_MAX),
        "how long a key is kept after its message was enqueued, in any case until the message has \
         left: a repeated key is a duplicate until then",
    )
    .example("31536000000")
    .unset("for ever"),
    Setting::new(
        "queues.*.archive",
        Kind::Flag,
        "a message leaves only after an archive has it",
    )
    .example("true")
    .unset("true"),
    Setting::new(
        "queues.*.alert_queue",
        Kind::Text,
        "the queue that [alerts](alerts.md) about this one go to",
    )
    .example("\"ops\"")
    .unset("no alerts"),
    Setting::new(
        "queues.*.alert_interval_ms",
        Kind::Whole(1_000, 30 * DAY_MS),
        "how long after an alert the next one of the same reason and code may come",
    )
    .example("300000")
    .unset("300,000"),
    Setting::new(
        "queues.*.alert_age_ms",
        Kind::Whole(1, 30 * DAY_MS),
        "how long the oldest due message may wait before that is worth an alert",
    )
    .example("600000")
    .unset("not watched"),
];
