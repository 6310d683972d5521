//! Payments on the dashboard: the records beside a message, and the form that resolves a payment.

use consign_kernel::Message;
use consign_server::apps::{Fact, Form, Problem, QueueProfile, RelatedRecord, many};
use jiff::Timestamp;

use super::PaymentsHttp;
use crate::{OutboxId, PaymentFilter, PaymentView, QUEUE};

/// Maximum payments of the same instruction shown beside one.
const RELATED: u32 = 20;

pub(super) const PROFILE: QueueProfile = QueueProfile {
    queue: QUEUE,
    title: "Payments",
    counts: ["pending", "being dispatched", "held", "failed"],
    held: Some(held),
    resolve_fields: include_str!("resolve.html"),
    // A rail's records always show whether a payment was made.
    resolves_unknown: false,
    can_erase: true,
};

fn held(payments: u64) -> String {
    let held = many(payments, "payment", "payments");
    format!("{held} held: outcome uncertain, or waiting for approval")
}

/// The payment of a message, and others of its instruction.
pub(super) async fn related(
    http: &PaymentsHttp,
    message: &Message,
    now: Timestamp,
) -> Result<Vec<RelatedRecord>, Problem> {
    let id = message.key.as_deref().map(str::parse::<OutboxId>);
    let (Some(payments), Some(Ok(id))) = (&http.here, id) else {
        return Ok(Vec::new());
    };
    let Some((payment, _)) = payments.store.payment(id).await? else {
        return Ok(Vec::new());
    };
    let attempts = payments.store.payment_attempts(id).await?;
    let attempts = attempts.into_iter().flatten();
    let reference = attempts
        .filter_map(|attempt| attempt.rail_reference)
        .next_back();
    let filter = PaymentFilter {
        instruction_id: Some(payment.instruction_id.clone()),
        ..PaymentFilter::default()
    };
    let same = payments.store.payments(&filter, None, RELATED).await?;
    let title = format!("Payment {id}");
    let facts = payment_facts(payment, reference, now);
    let mut records = vec![RelatedRecord { title, facts }];
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
        Fact::new("Sequence number", payment.sequence_id.to_string()),
        Fact::new("Rail", payment.rail_type),
        Fact::new("Instruction", payment.instruction_id),
        Fact::new("Idempotency key", payment.idempotency_key),
    ]);
    let correlation = payment.correlation_id.map(|id| id.to_string());
    facts.extend(correlation.map(|id| Fact::sought("Correlation", id)));
    let tenant = payment.tenant_id.map(|id| id.to_string());
    facts.extend(tenant.map(|id| Fact::new("Tenant", id)));
    facts.push(Fact::at("Enqueued", payment.created_at, now));
    facts.extend(payment.erased_at.map(|at| Fact::at("Erased", at, now)));
    facts.push(Fact::new("Attempts", payment.attempt_count.to_string()));
    facts
}

/// An instruction that was retried under another key has several payments.
fn succession(same: Vec<PaymentView>, id: OutboxId) -> Option<RelatedRecord> {
    let others = same.into_iter().filter(|payment| payment.outbox_id != id);
    let fact = |payment: PaymentView| {
        let name = format!("Key {}", payment.idempotency_key);
        let mut fact = Fact::message(name, payment.message_id);
        fact.text.push_str(&format!(", {}", payment.state));
        fact
    };
    let facts: Vec<Fact> = others.map(fact).collect();
    let title = "Other payments of this instruction".to_owned();
    (!facts.is_empty()).then_some(RelatedRecord { title, facts })
}

/// The rail's reference in the form.
pub(super) fn resolution(form: &Form) -> Option<String> {
    let reference = form.get("rail_reference")?;
    Some(serde_json::json!({ "rail_reference": reference }).to_string())
}

#[cfg(test)]
mod tests {
    use super::held;

    #[test]
    fn held_payments_are_uncertain_or_wait_for_approval() {
        assert_eq!(
            held(3),
            "3 payments held: outcome uncertain, or waiting for approval"
        );
        assert_eq!(
            held(1),
            "1 payment held: outcome uncertain, or waiting for approval"
        );
    }
}
