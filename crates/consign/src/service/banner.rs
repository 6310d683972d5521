//! What is printed when all is up: where things are, and what to try.

use consign_worker::WorkerHandle;
use serde_json::{Value, json};

use super::{Role, memory, orders, payments};
use crate::{
    config::Config,
    database::Address,
    failure::Failure,
    output::{Output, plain},
};

/// A queue is tried with a message of its own.
const PAYLOAD: &str = r#"{"payload": {"text": "hello"}}"#;
/// Traded on paper, unless somebody said otherwise.
const ORDER: &str =
    r#"{"instrument": "USDJPY", "side": "BUY", "qty": 0.1, "idempotency_key": "order-0001"}"#;

/// Paid by nobody, unless somebody said otherwise.
const PAYMENT: &str = r#"{"instruction_id": "0190f3a2-7b1c-7000-8000-000000000001", "idempotency_key": "invoice-17", "tenant_id": "0190f3a2-7b1c-7000-8000-00000000000a", "participant_id": "bank-a", "rail_type": "PAYMENT", "amount_minor": 1250, "currency_code": "ZMW", "beneficiary_ref_hash": "9f2c", "submitted_at_utc": "2026-11-16T03:00:00Z"}"#;

/// Kept here, unless somebody said otherwise.
const MEMORY: &str =
    r#"{"tool": "memory_store", "arguments": {"payload_md": "Deploys are on Tuesdays."}}"#;

/// What there is to say.
pub(super) struct Banner<'a> {
    pub(super) out: Output,
    pub(super) config: &'a Config,
    pub(super) address: &'a Address,
    pub(super) url: Option<&'a str>,
    pub(super) orders: Option<orders::Summary>,
    pub(super) payments: Option<payments::Summary>,
    pub(super) memory: Option<memory::Summary>,
    pub(super) role: &'a Role,
}

impl Banner<'_> {
    pub(super) fn print(&self, worker: &WorkerHandle) -> Result<(), Failure> {
        print(self, worker)
    }
}

fn print(banner: &Banner<'_>, worker: &WorkerHandle) -> Result<(), Failure> {
    let &Banner {
        out,
        config,
        address,
        url,
        orders,
        payments,
        ref memory,
        role,
    } = banner;
    let status = worker.status();
    let version = env!("CARGO_PKG_VERSION");
    if out.is_json() {
        let queues: Vec<Value> = status
            .queues
            .iter()
            .map(|queue| {
                json!({"queue": queue.queue, "sink": queue.sink, "destination": queue.destination})
            })
            .collect();
        return Ok(out.json(&json!({
            "version": version, "database": address.to_string(), "url": url,
            "owner": status.owner, "queues": queues,
            "orders": orders.map(|orders| {
                json!({"adapter": orders.adapter, "outbox": orders.outbox})
            }),
            "payments": payments.map(|payments| json!({"rail": payments.rail})),
            "memory": memory.as_ref().map(|memory| json!({"backend": memory.backend})),
        }))?);
    }
    out.line(format_args!("consign {version}"))?;
    if let Some(file) = &config.file {
        out.line(format_args!("settings   {}", file.display()))?;
    }
    out.line(format_args!("database   {address}"))?;
    if let Some(url) = url {
        out.line(format_args!("listening  {url}"))?;
    }
    let mut label = "queues";
    for queue in &status.queues {
        let sink = format!("{} {}", queue.sink, queue.destination);
        out.line(format_args!(
            "{label:<11}{} -> {}",
            queue.queue,
            plain(sink.trim_end())
        ))?;
        label = "";
    }
    for queue in config
        .settings
        .queues
        .iter()
        .filter(|queue| queue.sink.is_none())
    {
        out.line(format_args!(
            "{label:<11}{} has no sink: others claim from it",
            queue.name
        ))?;
        label = "";
    }
    if let (Role::Serve, Some(orders)) = (role, orders) {
        out.line(format_args!("orders     {}", orders.sentence()))?;
    }
    if let (Role::Serve, Some(payments)) = (role, payments) {
        out.line(format_args!("payments   {}", payments.sentence()))?;
    }
    if let (Role::Serve, Some(memory)) = (role, memory) {
        out.line(format_args!("memory     {}", memory.sentence()))?;
    }
    if let (Role::Serve, Some(url)) = (role, url) {
        let has = (orders.is_some(), payments.is_some(), memory.is_some());
        tries(out, config, url, has)?;
    }
    Ok(())
}

/// Commands that work as they stand. A test runs exactly these.
fn tries(
    out: Output,
    config: &Config,
    url: &str,
    (has_orders, has_payments, has_memory): (bool, bool, bool),
) -> Result<(), Failure> {
    let queues = &config.settings.queues;
    let queue = queues
        .iter()
        .find(|queue| queue.sink.is_some())
        .or(queues.first());
    let queue = queue.map_or("default", |queue| queue.name.as_str());
    let server = &config.settings.server;
    let curl = match server.tokens.is_empty() {
        true => r"curl -sSw '\n'".to_owned(),
        false => r#"curl -sSw '\n' -H "authorization: Bearer $CONSIGN_TOKEN""#.to_owned(),
    };
    let json = "-H 'content-type: application/json'";
    let is_open = !server.asks_for_tokens() || !server.tokens.is_empty();
    if !is_open {
        out.line(
            "closed     /v1, /do and the dashboard: agents have tokens, server.tokens has none \
             (`consign token new` makes one)",
        )?;
    }
    out.line("\nTry it:")?;
    if is_open {
        out.line(format_args!(
            "  {curl} {url}/v1/queues/{queue}/messages {json} -d '{PAYLOAD}'"
        ))?;
        out.line(format_args!(
            "  {curl} '{url}/v1/messages?queue={queue}&limit=3'"
        ))?;
        out.line(format_args!("  {curl} {url}/v1/queues"))?;
    }
    out.line(format_args!("  {curl} {url}/metrics"))?;
    if has_orders && is_open {
        out.line(format_args!(
            "  {curl} {url}/do/order -H 'idempotency-key: order-0001' -H 'prefer: wait=5' {json} \
             -d '{ORDER}'"
        ))?;
    }
    if has_payments && is_open {
        out.line(format_args!(
            "  {curl} {url}/v1/payments {json} -d '{PAYMENT}'"
        ))?;
    }
    if has_memory {
        let memory = &config.settings.memory.options;
        let has_tokens = memory.tokens().is_ok_and(|tokens| !tokens.is_empty());
        let curl = match has_tokens {
            true => r#"curl -sSw '\n' -H "authorization: Bearer $GATEWAY_AUTH_TOKEN""#,
            false => curl.as_str(),
        };
        out.line(format_args!("  {curl} {url}/mcp {json} -d '{MEMORY}'"))?;
    }
    Ok(())
}
