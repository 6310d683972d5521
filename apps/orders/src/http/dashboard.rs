//! Orders on the dashboard: the ledger entry beside a message, and the form that resolves an order.

use consign_kernel::{Message, MessageId};
use consign_server::apps::{Fact, Form, Problem, QueueProfile, RelatedRecord, count, many};
use jiff::Timestamp;

use super::OrdersHttp;
use crate::{Execution, Fill, OrderView, QUEUE};

pub(super) const PROFILE: QueueProfile = QueueProfile {
    queue: QUEUE,
    title: "Orders",
    counts: ["to be placed", "at the broker", "in doubt", "failed"],
    held: Some(held),
    resolve_fields: include_str!("resolve.html"),
    resolves_unknown: true,
    can_erase: true,
};

fn held(orders: u64) -> String {
    let held = many(orders, "order", "orders");
    format!("{held} held: outcome uncertain")
}

/// The order of a message.
pub(super) async fn related(
    http: &OrdersHttp,
    message: &Message,
    now: Timestamp,
    is_revealed: bool,
) -> Result<Vec<RelatedRecord>, Problem> {
    let Some(orders) = &http.service else {
        return Ok(Vec::new());
    };
    let view = orders.of_message(message).await?;
    let record = |view: OrderView| RelatedRecord {
        title: "Order in the ledger".to_owned(),
        facts: order_facts(view, message.id, now, is_revealed),
    };
    Ok(view.map(record).into_iter().collect())
}

fn order_facts(view: OrderView, id: MessageId, now: Timestamp, is_revealed: bool) -> Vec<Fact> {
    let OrderView { entry, result, .. } = view;
    let mut facts = vec![
        Fact::new("Status", entry.status.as_str()),
        Fact::new("Client", entry.client.to_string()),
        Fact::new("Idempotency key", entry.key.as_str()),
    ];
    facts.extend(view.order_id.map(|id| Fact::new("Order id", id)));
    if let Some(result) = &result {
        let broker = &result.broker;
        facts.push(Fact::new("Broker", broker.name.clone()));
        let none = || "none: the broker did not take the order".to_owned();
        let reference = broker.order_ref.clone().unwrap_or_else(none);
        facts.push(Fact::new("Broker's reference", reference));
        let reason = result.reason_code.map(|reason| reason.as_str());
        facts.extend(reason.map(|reason| Fact::new("Why", reason)));
        let fills = many(result.fills.len() as u64, "fill", "fills");
        facts.push(Fact::new(
            "Executed",
            format!("{}, {fills}", result.status.as_str()),
        ));
        facts.push(Fact::at("Completed", result.completed_at, now));
        if is_revealed {
            // A broker's message may contain anything, such as the amount that it rejected.
            let words = result.message.as_deref();
            facts.extend(words.map(|text| Fact::new("Message", text)));
            let warnings = result.warnings.iter();
            facts.extend(warnings.map(|text| Fact::new("Warning", text.as_str())));
        }
    }
    facts.push(Fact::new("HTTP status", entry.http_status.to_string()));
    facts.push(Fact::at("First seen", entry.first_seen_at, now));
    facts.push(Fact::at("Last seen", entry.last_seen_at, now));
    facts.extend(
        entry
            .order_expires_at
            .map(|at| Fact::at("Expires unsent at", at, now)),
    );
    facts.push(Fact::at("Key expires at", entry.expires_at, now));
    facts.push(Fact::new(
        "Conflicts (key with another body)",
        format!("{} times", count(entry.conflicts)),
    ));
    facts.extend(view.trace_id.map(|trace| Fact::new("Trace", trace)));
    if is_revealed {
        // There are so few possible orders that trying all of them would find the one with this
        // digest.
        facts.push(Fact::new("Request digest", entry.request_digest));
        let digest = entry.result_digest;
        facts.extend(digest.map(|digest| Fact::new("Result digest", digest)));
    }
    // An expired key that was used again has a new message.
    let successor = entry.outbox_id.filter(|current| *current != id);
    facts.extend(successor.map(|current| Fact::message("Key now belongs to", current)));
    facts
}

/// The trades in the form.
pub(super) fn resolution(form: &Form) -> Result<Option<String>, Problem> {
    let Some(fills) = form.get("fills") else {
        return Ok(None);
    };
    let lines = fills.lines().filter(|line| !line.trim().is_empty());
    let fills: Result<Vec<Fill>, String> = lines.map(str::parse).collect();
    let execution = Execution {
        order_ref: form.get("order_ref").unwrap_or_default().to_owned(),
        fills: fills.map_err(|why| Problem::invalid("fills", &why))?,
        avg_price: None,
    };
    Ok(Some(execution.to_json()))
}
