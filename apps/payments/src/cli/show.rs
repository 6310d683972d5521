//! `consign payments show`: a payment and every attempt.

use clap::Args;
use consign_app::{
    attempts::{print_late, without_token},
    context::Context,
    failure::{Exit, Failure},
    output::{Output, Table, or_dash, plain},
    when::{fine_stamp, span, stamp},
};
use consign_kernel::{LateResult, Payload};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::selection::PaymentRef;
use crate::{AttemptView, OutboxId, PaymentView, Payments, app::payments};

/// Show a payment: its state and every attempt.
#[derive(Args, Debug)]
pub(super) struct Show {
    /// The payment: its outbox_id, or the id of its message
    #[arg(value_name = "PAYMENT")]
    which: PaymentRef,
}

/// A payment with its details.
struct PaymentDetails {
    view: PaymentView,
    payload: Payload,
    attempts: Vec<AttemptView>,
    late: Vec<LateResult>,
    why: Option<String>,
    now: Timestamp,
}

/// The JSON shape of `payments show`.
#[derive(Serialize)]
struct ShowOutput<'a> {
    payment: &'a PaymentView,
    payload: &'a Payload,
    attempts: &'a [AttemptView],
    late_results: Vec<Value>,
    explanation: Option<&'a str>,
}

impl Show {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let payments = payments(&context.open().await?);
        let id = self.which.find(&*payments).await?;
        let found = match id {
            Some(id) => find(&*payments, id).await?,
            None => None,
        };
        let found = found.ok_or_else(|| self.which.missing())?;
        if context.out.is_json() {
            let late: Vec<Value> = found.late.iter().map(without_token).collect();
            context.out.json(&ShowOutput {
                payment: &found.view,
                payload: &found.payload,
                attempts: &found.attempts,
                late_results: late,
                explanation: found.why.as_deref(),
            })?;
            return Ok(Exit::Fine);
        }
        print(context.out, &found)?;
        Ok(Exit::Fine)
    }
}

async fn find(payments: &dyn Payments, id: OutboxId) -> Result<Option<PaymentDetails>, Failure> {
    let Some((view, payload)) = payments.payment(id).await? else {
        return Ok(None);
    };
    let attempts = payments.payment_attempts(id).await?;
    let explanation = payments.explain(view.message_id).await?;
    Ok(Some(PaymentDetails {
        attempts: attempts.unwrap_or_default(),
        late: payments.late(view.message_id).await?,
        why: explanation.as_ref().map(|found| found.sentence()),
        now: explanation.map_or_else(Timestamp::now, |found| found.now),
        view,
        payload,
    }))
}

fn print(out: Output, found: &PaymentDetails) -> Result<(), Failure> {
    let (view, now) = (&found.view, found.now);
    let field = |name: &str, value: &str| out.line(format_args!("{name:<13}{}", plain(value)));
    field("payment", &view.outbox_id.to_string())?;
    field("state", view.state.as_str())?;
    field("why", &or_dash(found.why.as_deref()))?;
    field("instruction", &view.instruction_id)?;
    field("key", &view.idempotency_key)?;
    let sequence = format!("{} of {}", view.sequence_id, view.participant_id);
    field("sequence", &sequence)?;
    field("rail", &view.rail_type)?;
    let uuid = |id: Option<uuid::Uuid>| or_dash(id.map(|id| id.to_string()).as_deref());
    field("tenant", &uuid(view.tenant_id))?;
    field("correlation", &uuid(view.correlation_id))?;
    field("message", &view.message_id.to_string())?;
    field("created", &fine_stamp(view.created_at, now))?;
    if let (Some(owner), Some(until)) = (&view.claimed_by, view.lease_expires_at) {
        field("owner", &format!("{owner}, until {}", stamp(until, now)))?;
    }
    if let Some(at) = view.erased_at {
        field("erased", &fine_stamp(at, now))?;
    }
    field("payload", found.payload.as_str())?;
    print_attempts(out, &found.attempts, now)?;
    print_late(out, &found.late, now)
}

fn print_attempts(out: Output, attempts: &[AttemptView], now: Timestamp) -> Result<(), Failure> {
    out.line("")?;
    if attempts.is_empty() {
        out.line("no attempts yet")?;
        return Ok(());
    }
    let mut table = Table::new([
        ">attempt",
        "state",
        "worker",
        "completed",
        ">took",
        "rail reference",
        "error",
        "message",
    ]);
    for attempt in attempts {
        let took = attempt.completed_at.duration_since(attempt.claimed_at);
        table.row([
            attempt.attempt_no.to_string(),
            attempt.state.as_str().to_owned(),
            attempt.worker_id.clone(),
            fine_stamp(attempt.completed_at, now),
            span(took),
            or_dash(attempt.rail_reference.as_deref()),
            or_dash(attempt.error_code.as_deref()),
            or_dash(attempt.error_message.as_deref()),
        ]);
    }
    Ok(out.table(&table)?)
}
