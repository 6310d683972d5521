//! What a protocol keeps beside a message, and which other messages belong to it.

use consign_kernel::{Filter, Listed, Message, MessageId};
use consign_memory::{Audit, AuditFilter};
use consign_orders::OrderView;
use consign_payments::{OutboxId, PaymentFilter, PaymentView};
use jiff::Timestamp;
use serde_json::Value;

use super::{
    form::encoded,
    words::{Moment, count, many},
};
use crate::{problem::Problem, state::AppState};

/// Audits shown beside one message, at most.
const AUDITS: u32 = 20;
/// Related messages shown beside one, at most.
const RELATED: u32 = 20;

/// A record of a protocol, or messages that have something in common with this one.
pub(super) struct Beside {
    pub(super) title: String,
    pub(super) facts: Vec<Fact>,
}

/// Something known.
pub(super) struct Fact {
    pub(super) name: String,
    pub(super) text: String,
    /// Where it leads.
    pub(super) href: Option<String>,
    /// Said instead of the text where it is a time.
    pub(super) at: Option<Moment>,
}

impl Fact {
    fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            text: text.into(),
            href: None,
            at: None,
        }
    }

    fn at(name: &str, at: Timestamp, now: Timestamp) -> Self {
        Self {
            at: Some(Moment::new(at, now)),
            ..Self::new(name, "")
        }
    }

    fn message(name: impl Into<String>, id: MessageId) -> Self {
        Self {
            href: Some(format!("/ui/messages/{id}")),
            ..Self::new(name, format!("message {id}"))
        }
    }

    /// What leads to everything that has it too.
    pub(super) fn sought(name: impl Into<String>, text: impl Into<String>) -> Self {
        let fact = Self::new(name, text);
        Self {
            href: Some(search(&fact.text)),
            ..fact
        }
    }
}

/// Where a search for something is.
pub(super) fn search(text: &str) -> String {
    format!("/ui/messages?q={}", encoded(text).replace('/', "%2F"))
}

/// Every record that belongs to a message, without what it carries unless that is revealed: names
/// and states always, what was said about its content only then.
pub(super) async fn look(
    state: &AppState,
    message: &Message,
    now: Timestamp,
    is_revealed: bool,
) -> Result<Vec<Beside>, Problem> {
    let mut records = match message.queue.as_str() {
        consign_orders::QUEUE => order(state, message, now, is_revealed).await?,
        consign_payments::QUEUE => payment(state, message, now).await?,
        consign_memory::QUEUE => audits(state, message, now).await?,
        _ => Vec::new(),
    };
    records.extend(namesakes(state, message).await?);
    Ok(records)
}

/// Messages of other queues under the same key: a queue has one at most.
async fn namesakes(state: &AppState, message: &Message) -> Result<Option<Beside>, Problem> {
    let Some(key) = message.key.clone() else {
        return Ok(None);
    };
    let filter = Filter {
        key: Some(key),
        ..Filter::default()
    };
    let page = state.store.list(&filter, None, RELATED).await?;
    let others = page.items.into_iter().filter(|it| it.id != message.id);
    let fact = |it: Listed| {
        let mut fact = Fact::message(format!("Queue {}", it.queue), it.id);
        fact.text.push_str(&format!(", {}", it.state));
        fact
    };
    let facts: Vec<Fact> = others.map(fact).collect();
    let title = "The same key in other queues".to_owned();
    Ok((!facts.is_empty()).then_some(Beside { title, facts }))
}

async fn order(
    state: &AppState,
    message: &Message,
    now: Timestamp,
    is_revealed: bool,
) -> Result<Vec<Beside>, Problem> {
    let Some(orders) = &state.orders else {
        return Ok(Vec::new());
    };
    let view = orders.of_message(message).await?;
    let record = |view: OrderView| Beside {
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
        let none = || "none: it never took it".to_owned();
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
            // A broker writes what it likes, such as the amount that it did not take.
            let words = result.message.as_deref();
            facts.extend(words.map(|text| Fact::new("In words", text)));
            let warnings = result.warnings.iter();
            facts.extend(warnings.map(|text| Fact::new("Warning", text.as_str())));
        }
    }
    facts.push(Fact::new("Answered with", entry.http_status.to_string()));
    facts.push(Fact::at("First seen", entry.first_seen_at, now));
    facts.push(Fact::at("Last seen", entry.last_seen_at, now));
    facts.extend(
        entry
            .order_expires_at
            .map(|at| Fact::at("To be sent until", at, now)),
    );
    facts.push(Fact::at("Key remembered until", entry.expires_at, now));
    facts.push(Fact::new(
        "Came with another body",
        format!("{} times", count(entry.conflicts)),
    ));
    facts.extend(view.trace_id.map(|trace| Fact::new("Trace", trace)));
    if is_revealed {
        // So few orders can be told apart that trying them all finds the one with this digest.
        facts.push(Fact::new("Digest of the request", entry.request_digest));
        let digest = entry.result_digest;
        facts.extend(digest.map(|digest| Fact::new("Digest of the result", digest)));
    }
    // A key that was forgotten and came again has a new message.
    let successor = entry.outbox_id.filter(|current| *current != id);
    facts.extend(successor.map(|current| Fact::message("The key belongs now to", current)));
    facts
}

async fn payment(
    state: &AppState,
    message: &Message,
    now: Timestamp,
) -> Result<Vec<Beside>, Problem> {
    let id = message.key.as_deref().map(str::parse::<OutboxId>);
    let (Some(payments), Some(Ok(id))) = (&state.payments, id) else {
        return Ok(Vec::new());
    };
    let Some((payment, _)) = payments.store.payment(id).await? else {
        return Ok(Vec::new());
    };
    let attempts = payments.store.payment_attempts(id).await?;
    let told = attempts.into_iter().flatten();
    let reference = told
        .filter_map(|attempt| attempt.rail_reference)
        .next_back();
    let filter = PaymentFilter {
        instruction_id: Some(payment.instruction_id.clone()),
        ..PaymentFilter::default()
    };
    let same = payments.store.payments(&filter, None, RELATED).await?;
    let title = format!("Payment {id}");
    let facts = payment_facts(payment, reference, now);
    let mut records = vec![Beside { title, facts }];
    records.extend(succession(same.items, id));
    Ok(records)
}

fn payment_facts(payment: PaymentView, reference: Option<String>, now: Timestamp) -> Vec<Fact> {
    let mut facts = vec![Fact::new("State", payment.state.to_string())];
    facts.extend(payment.reason.map(|why| Fact::new("Why", why)));
    let none = || "none yet".to_owned();
    facts.push(Fact::new(
        "Rail's reference",
        reference.unwrap_or_else(none),
    ));
    facts.extend([
        Fact::new("Participant", payment.participant_id),
        Fact::new("Number in its sequence", payment.sequence_id.to_string()),
        Fact::new("Rail", payment.rail_type),
        Fact::new("Instruction", payment.instruction_id),
        Fact::new("Idempotency key", payment.idempotency_key),
    ]);
    let correlation = payment.correlation_id.map(|id| id.to_string());
    facts.extend(correlation.map(|id| Fact::sought("Correlation", id)));
    let tenant = payment.tenant_id.map(|id| id.to_string());
    facts.extend(tenant.map(|id| Fact::new("Tenant", id)));
    facts.push(Fact::at("Enqueued", payment.created_at, now));
    facts.push(Fact::new("Attempts", payment.attempt_count.to_string()));
    facts
}

/// An instruction that was tried again under another key has several payments.
fn succession(same: Vec<PaymentView>, id: OutboxId) -> Option<Beside> {
    let others = same.into_iter().filter(|payment| payment.outbox_id != id);
    let fact = |payment: PaymentView| {
        let name = format!("Key {}", payment.idempotency_key);
        let mut fact = Fact::message(name, payment.message_id);
        fact.text.push_str(&format!(", {}", payment.state));
        fact
    };
    let facts: Vec<Fact> = others.map(fact).collect();
    let title = "Other payments of this instruction".to_owned();
    (!facts.is_empty()).then_some(Beside { title, facts })
}

async fn audits(
    state: &AppState,
    message: &Message,
    now: Timestamp,
) -> Result<Vec<Beside>, Problem> {
    let Some(gateway) = &state.memory else {
        return Ok(Vec::new());
    };
    let filter = AuditFilter {
        outbox_id: Some(message.id.0),
        ..AuditFilter::default()
    };
    let logbook = gateway.here.service.logbook();
    let audits = logbook.audits(&filter, AUDITS).await?;
    let deferred = audits.iter().filter(|audit| is_deferral(audit)).count();
    let mut records: Vec<Beside> = Vec::new();
    if deferred > 1 {
        // The same text in the same space is kept once: whoever brought it again is told so.
        let text = format!(
            "{} requests; each has its audit below",
            count(deferred as u64)
        );
        records.push(Beside {
            title: "Put off more than once".to_owned(),
            facts: vec![Fact::new("By", text)],
        });
    }
    records.extend(
        audits
            .into_iter()
            .map(|audit| audit_record(audit, message.id, now)),
    );
    Ok(records)
}

/// Whether a request's memory was put off into the outbox.
fn is_deferral(audit: &Audit) -> bool {
    let reason = audit.reason.as_deref().unwrap_or_default();
    reason.starts_with("openmemory_write_failed")
}

fn audit_record(audit: Audit, id: MessageId, now: Timestamp) -> Beside {
    let original = original(&audit.evidence_refs_json).filter(|original| *original != id);
    let mut facts = vec![
        Fact::new("Status", audit.status.as_str()),
        Fact::new("Action", audit.action.as_str()),
        Fact::new("Space", audit.target_space),
        Fact::at("Written", audit.created_at, now),
    ];
    facts.extend(audit.actor_user_id.map(|who| Fact::new("Who", who)));
    facts.extend(audit.reason.map(|why| Fact::new("Why", why)));
    facts.extend(
        audit
            .correlation_id
            .map(|id| Fact::sought("Correlation", id)),
    );
    facts.extend(original.map(|original| Fact::message("The same text is in", original)));
    Beside {
        title: format!("Write audit {}", audit.audit_id),
        facts,
    }
}

/// The message that brought the same text before.
fn original(evidence: &Value) -> Option<MessageId> {
    let id = &evidence["original_outbox_id"];
    let id = id.as_i64().or_else(|| id.as_str()?.parse().ok());
    id.map(MessageId)
}

/// By what a message is joined to others, if its producer said so.
pub(super) fn correlation(message: &Message) -> Option<String> {
    let said = message.headers.get("correlation_id")?.as_str()?;
    (!said.trim().is_empty()).then(|| said.to_owned())
}

/// The redrive that a record of the audit belongs to: each of its requeues carries its number.
pub(super) fn redrive(action: &str, reason: &str) -> Option<i64> {
    let rest = reason
        .strip_prefix("redrive ")
        .filter(|_| action == "requeue")?;
    let (number, _) = rest.split_once(':')?;
    number.parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_requeue_of_a_redrive_leads_to_it() {
        for (action, reason, expected) in [
            ("requeue", "redrive 12: sink back", Some(12)),
            ("requeue", "sink back, see redrive 12: yes", None),
            ("requeue", "redrive twelve: x", None),
            ("requeue", "redrive 12", None),
            ("hold", "redrive 12: x", None),
        ] {
            assert_eq!(redrive(action, reason), expected, "{action} {reason}");
        }
    }

    #[test]
    fn the_first_of_a_text_is_found_in_either_form() {
        assert_eq!(
            original(&json!({"original_outbox_id": 7})),
            Some(MessageId(7))
        );
        assert_eq!(
            original(&json!({"original_outbox_id": "8"})),
            Some(MessageId(8))
        );
        assert_eq!(original(&json!({"original_outbox_id": null})), None);
        assert_eq!(original(&json!({})), None);
    }

    #[test]
    fn a_search_is_one_word_of_an_address() {
        assert_eq!(search("a/b&c d"), "/ui/messages?q=a%2Fb%26c%20d");
    }
}
