//! The settings of payments.

use std::collections::BTreeMap;

use consign_payments::{PaymentsOptions, QUEUE, RailKind};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::{KeyPath, Layer, Problem, protocol::Protocol, tree};

const PAYMENTS: Protocol = Protocol {
    table: QUEUE,
    owner: "the payments of POST /v1/payments",
    policy: &[
        ("lease_sec", &["lease_ttl_ms"]),
        ("concurrency", &["concurrency"]),
        ("dispatch_timeout_sec", &["timeout_ms"]),
        ("retry_ceiling", &["attempts_max"]),
        ("backoff_base_ms", &["retry.base_ms"]),
        ("backoff_max_ms", &["retry.max_ms"]),
        ("ordered_by", &["ordered", "on_dead"]),
        ("on_failed", &["on_dead"]),
    ],
    beside: &[],
};

/// What the configuration says about payments.
#[derive(Clone, Debug)]
pub(crate) struct Payments {
    /// Whether anybody said anything about them; else they are there to be tried.
    pub(crate) is_said: bool,
    /// The fields of the queue's policy that they are about.
    pub(crate) policy_said: Vec<&'static str>,
    /// Whether somebody said where the money goes. If nobody did, a database that others may work
    /// on is left to them.
    pub(crate) is_rail_said: bool,
    /// The tenants that tokens are bound to, by the tokens' names.
    pub(crate) tenants: BTreeMap<String, Uuid>,
    pub(crate) options: PaymentsOptions,
}

impl Payments {
    /// Whether this process dispatches them. A rail that only pretends must not take payments from
    /// those who mean it: workers in SQL may be waiting for them in a database that is shared.
    pub(crate) fn are_dispatched(&self, is_shared: bool) -> bool {
        let is_ours = self.options.rail != RailKind::None;
        self.options.enabled && is_ours && (self.is_rail_said || !is_shared)
    }

    /// Takes over what `fresh` says about the policy of the queue, and nothing else.
    pub(super) fn take_policy(&mut self, fresh: Self) {
        self.policy_said = fresh.policy_said;
        self.options = PaymentsOptions {
            lease_sec: fresh.options.lease_sec,
            concurrency: fresh.options.concurrency,
            dispatch_timeout_sec: fresh.options.dispatch_timeout_sec,
            retry_ceiling: fresh.options.retry_ceiling,
            backoff_base_ms: fresh.options.backoff_base_ms,
            backoff_max_ms: fresh.options.backoff_max_ms,
            ordered_by: fresh.options.ordered_by,
            on_failed: fresh.options.on_failed,
            ..self.options.clone()
        };
    }
}

/// The settings in types, and a problem for each that cannot be.
pub(super) fn read(entries: &Layer, problems: &mut Vec<Problem>) -> Option<Payments> {
    let table = KeyPath::of(PAYMENTS.table);
    let mut said = match tree(entries, &table) {
        Value::Object(said) => said,
        _ => Map::new(),
    };
    let tenants = said.remove("tenants");
    let is_rail_said = said.contains_key("rail");
    let before = problems.len();
    let tenants = read_tenants(entries, tenants, problems);
    let options: PaymentsOptions = match serde_json::from_value(Value::Object(said)) {
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
    if options.enabled {
        if let Err(error) = options.validate() {
            problems.push(PAYMENTS.refused(entries, &error));
        }
        problems.extend(PAYMENTS.queue_is_wanted(entries));
    }
    if problems.len() > before {
        return None;
    }
    Some(Payments {
        is_said: PAYMENTS.is_said(entries),
        policy_said: PAYMENTS.policy_said(entries),
        is_rail_said,
        tenants,
        options,
    })
}

/// Tenants by the names of tokens; each must be a UUID, and each token one of the server's.
fn read_tenants(
    entries: &Layer,
    said: Option<Value>,
    problems: &mut Vec<Problem>,
) -> BTreeMap<String, Uuid> {
    let Some(Value::Object(said)) = said else {
        return BTreeMap::new();
    };
    let (table, tokens) = (
        KeyPath::of("payments.tenants"),
        KeyPath::of("server.tokens"),
    );
    let mut tenants = BTreeMap::new();
    for (token, tenant) in said {
        let path = table.child(&token);
        let mut refuse = |what: &str| {
            let origin = entries.get(&path).map(|entry| entry.origin.clone());
            problems.push(Problem {
                origin,
                path: path.clone(),
                what: what.to_owned(),
            });
        };
        let is_token = entries
            .keys()
            .any(|path| path.starts_with(&tokens.child(&token)));
        if !is_token {
            refuse("server.tokens has no such token: nobody would be bound by it");
        }
        match tenant.as_str().map(Uuid::parse_str) {
            Some(Ok(tenant)) => drop(tenants.insert(token, tenant)),
            _ => refuse("must be a UUID"),
        }
    }
    tenants
}

/// Whether a setting is about the policy of the queue.
pub(super) fn is_policy(path: &KeyPath) -> bool {
    PAYMENTS.is_policy(path)
}
