//! Settings of orders in types.

use consign_app::config::{Config, KeyPath, Layer, Origin, Problem};

use crate::{OrdersOptions, QUEUE, settings::ORDERS};

/// A variable that other programs use for message brokers.
const STRAY: &str = "BROKER_URL";

/// The validated options.
pub(super) fn read(config: &Config) -> Result<OrdersOptions, Problem> {
    let options: OrdersOptions = ORDERS
        .options(config.tree(QUEUE))
        .map_err(|error| config.problem(KeyPath::of(QUEUE), error.to_string()))?;
    options
        .validate()
        .map_err(|error| config.rejected(QUEUE, &error))?;
    match too_slow(config, &options) {
        Some(problem) => Err(problem),
        None => Ok(options),
    }
}

/// Removes `BROKER_URL` from the environment's settings while orders are traded on paper, because other
/// programs use it too; returns a note then.
pub(super) fn ignore_stray(variables: &mut Layer, others: &Layer) -> Option<String> {
    let path = KeyPath::of("orders.broker_url");
    let is_stray = variables.get(&path).is_some_and(
        |entry| matches!(&entry.origin, Origin::Environment { name } if name == STRAY),
    );
    let adapter = KeyPath::of("orders.broker_adapter");
    let adapter = variables.get(&adapter).or_else(|| others.get(&adapter));
    if !is_stray || adapter.is_some_and(|adapter| adapter.value == "http") {
        return None;
    }
    variables.remove(&path);
    Some(format!(
        "{STRAY} is not used: orders are traded on paper. If it is the broker of orders, set \
         orders.broker_adapter to http"
    ))
}

/// Without the outbox a broker call must end before the request times out.
fn too_slow(config: &Config, options: &OrdersOptions) -> Option<Problem> {
    let (path, timeout_ms) = [
        ("orders.broker_timeout_ms", options.broker_timeout_ms),
        (
            "orders.broker_timeout_fok_gtc_ms",
            options.broker_timeout_fok_gtc_ms,
        ),
    ]
    .into_iter()
    .max_by_key(|(_, timeout_ms)| *timeout_ms)?;
    let limit_ms = config.value("server.request_timeout_ms")?.as_u64()?;
    if options.outbox_enabled || timeout_ms < limit_ms {
        return None;
    }
    let what = format!(
        "is {timeout_ms}; without the outbox it must be less than server.request_timeout_ms, which \
         is {limit_ms}: orders are sent within their request"
    );
    Some(config.problem(KeyPath::of(path), what))
}
