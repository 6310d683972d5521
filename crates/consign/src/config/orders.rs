//! The settings of orders: their names are those of another document, which writes them in capitals.

use consign_orders::{OrdersOptions, QUEUE};
use serde_json::Value;

use super::{KeyPath, Layer, Problem, origin::Origin, protocol::Protocol, tree};

const TABLE: &str = QUEUE;

const ORDERS: Protocol = Protocol {
    table: TABLE,
    owner: "the orders of POST /do/order",
    policy: &[
        ("outbox_concurrency", &["concurrency"]),
        (
            "outbox_lock_lease_sec",
            &["lease_ttl_ms", "lease_ttl_max_ms"],
        ),
        ("outbox_max_attempts", &["attempts_max"]),
        ("outbox_backoff_sec", &["retry"]),
    ],
    // How the broker is spoken to says what becomes of an order that may have been executed, and how
    // long one may take.
    beside: &[
        (
            "broker_adapter",
            &["on_uncertain", "timeout_ms", "record_begin"],
        ),
        ("broker_url", &["on_uncertain"]),
        ("broker_status_url", &["on_uncertain"]),
        ("broker_takes_keys", &["on_uncertain"]),
        ("broker_timeout_ms", &["timeout_ms"]),
        ("broker_timeout_fok_gtc_ms", &["timeout_ms"]),
    ],
};

/// How the names begin that are variables by themselves. The rest is said as `CONSIGN_ORDERS__NAME`:
/// other programs have instruments and ticks too.
const VARIABLES: &[&str] = &["outbox_", "broker_", "idempo_", "rl_", "daily_quota"];

/// A variable that other programs have as well, for brokers of another kind.
const STRAY: &str = "BROKER_URL";

/// An older name of a variable, weaker than the newer.
const OLDER: (&str, &str) = ("DO_FEATURE_OUTBOX", "outbox_enabled");

/// What the configuration says about orders.
#[derive(Clone, Debug)]
pub(crate) struct Orders {
    /// Whether this process takes and sends orders at all.
    pub(crate) enabled: bool,
    /// Whether anybody said anything about them; else they are there to be tried.
    pub(crate) is_said: bool,
    /// The fields of the queue's policy that they are about.
    pub(crate) policy_said: Vec<&'static str>,
    pub(crate) options: OrdersOptions,
}

impl Orders {
    /// Takes over what `fresh` says about the policy of the queue, and nothing else.
    pub(super) fn take_policy(&mut self, fresh: Self) {
        self.policy_said = fresh.policy_said;
        self.options = OrdersOptions {
            outbox_concurrency: fresh.options.outbox_concurrency,
            outbox_lock_lease_sec: fresh.options.outbox_lock_lease_sec,
            outbox_max_attempts: fresh.options.outbox_max_attempts,
            outbox_backoff_sec: fresh.options.outbox_backoff_sec,
            ..self.options.clone()
        };
    }
}

/// A name in the file: in the table of orders, capitals do as well.
pub(super) fn child(table: &KeyPath, name: &str) -> KeyPath {
    let is_orders = table.segments() == [TABLE];
    match is_orders && !name.contains(|c: char| c.is_lowercase()) {
        true => table.child(&name.to_lowercase()),
        false => table.child(name),
    }
}

/// Reads the variables that have a name of their own.
pub(super) fn read_environment(
    variables: &[(String, String)],
    layer: &mut Layer,
    problems: &mut Vec<Problem>,
) {
    let names = |name: &str| {
        let is_variable = VARIABLES.iter().any(|start| name.starts_with(start));
        let own = is_variable.then(|| name.to_uppercase());
        let older = (name == OLDER.1).then(|| OLDER.0.to_owned());
        own.into_iter().chain(older).collect()
    };
    ORDERS.read_environment(variables, names, layer, problems);
}

/// Takes `BROKER_URL` out of what the environment says if it cannot be meant for orders, since they
/// are traded on paper; answers with a note about it then. `others` are the settings from elsewhere.
pub(super) fn leave_stray(said: &mut Layer, others: &Layer) -> Option<String> {
    let path = KeyPath::of("orders.broker_url");
    let is_stray = said.get(&path).is_some_and(
        |entry| matches!(&entry.origin, Origin::Environment { name } if name == STRAY),
    );
    let adapter = KeyPath::of("orders.broker_adapter");
    let adapter = said.get(&adapter).or_else(|| others.get(&adapter));
    if !is_stray || adapter.is_some_and(|adapter| adapter.value == "http") {
        return None;
    }
    said.remove(&path);
    Some(format!(
        "{STRAY} is not used: orders are traded on paper. If it is the broker of orders, set \
         orders.broker_adapter to http"
    ))
}

/// The settings in types, and a problem for each that cannot be.
pub(super) fn read(entries: &Layer, problems: &mut Vec<Problem>) -> Option<Orders> {
    let table = KeyPath::of(TABLE);
    let mut said = tree(entries, &table);
    let enabled = match said.as_object_mut().and_then(|said| said.remove("enabled")) {
        Some(Value::Bool(enabled)) => enabled,
        _ => true,
    };
    let is_said = ORDERS.is_said(entries);
    let policy_said = ORDERS.policy_said(entries);
    let options: OrdersOptions = match serde_json::from_value(said) {
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
    if !enabled {
        return Some(Orders {
            enabled,
            is_said,
            policy_said,
            options,
        });
    }
    if let Err(error) = options.validate() {
        problems.push(ORDERS.refused(entries, &error));
        return None;
    }
    if let Some(problem) = too_slow(entries, &options) {
        problems.push(problem);
        return None;
    }
    if let Some(problem) = ORDERS.queue_is_wanted(entries) {
        problems.push(problem);
        return None;
    }
    Some(Orders {
        enabled,
        is_said,
        policy_said,
        options,
    })
}

/// An order that is sent within its request must be able to end within it.
fn too_slow(entries: &Layer, options: &OrdersOptions) -> Option<Problem> {
    let limit = entries.get(&KeyPath::of("server.request_timeout_ms"))?;
    let (path, timeout_ms) = [
        ("orders.broker_timeout_ms", options.broker_timeout_ms),
        (
            "orders.broker_timeout_fok_gtc_ms",
            options.broker_timeout_fok_gtc_ms,
        ),
    ]
    .into_iter()
    .max_by_key(|(_, timeout_ms)| *timeout_ms)?;
    let limit_ms = limit.value.as_u64()?;
    if options.outbox_enabled || timeout_ms < limit_ms {
        return None;
    }
    let path = KeyPath::of(path);
    let origin = entries.get(&path).map(|entry| entry.origin.clone());
    let what = format!(
        "is {timeout_ms}; without the outbox it must be less than server.request_timeout_ms, which \
         is {limit_ms}: orders are sent within their request"
    );
    Some(Problem { origin, path, what })
}

/// Whether a setting is about the policy of the queue.
pub(super) fn is_policy(path: &KeyPath) -> bool {
    ORDERS.is_policy(path)
}
