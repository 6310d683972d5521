//! `consign payments ls`: payments, newest first.

use clap::{Args, builder::PossibleValuesParser};
use consign_app::{
    arguments::message_id,
    context::Context,
    failure::{Exit, Failure},
    output::{Table, or_dash},
    when::stamp,
};
use consign_kernel::MessageId;
use jiff::Timestamp;
use uuid::Uuid;

use crate::{PaymentFilter, PaymentState, PaymentView, app::payments};

/// List payments, newest first.
#[derive(Args, Debug)]
pub(super) struct Ls {
    /// Only this tenant's
    #[arg(long, value_name = "UUID")]
    tenant: Option<Uuid>,
    /// Only this participant's
    #[arg(long, value_name = "NAME")]
    participant: Option<String>,
    /// Only this instruction's
    #[arg(long, value_name = "ID")]
    instruction: Option<String>,
    /// Only in this state
    #[arg(long, ignore_case = true,
        value_parser = PossibleValuesParser::new(PaymentState::ALL.map(PaymentState::as_str)))]
    state: Option<String>,
    /// Maximum number, up to 1000
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000), allow_negative_numbers = true)]
    limit: u32,
    /// The next page: the id that the page before printed
    #[arg(long, value_name = "ID", value_parser = message_id)]
    before: Option<MessageId>,
}

impl Ls {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let payments = payments(&context.open().await?);
        let word = self.state.map(|word| word.to_uppercase());
        let filter = PaymentFilter {
            tenant_id: self.tenant,
            participant_id: self.participant,
            instruction_id: self.instruction,
            state: word.map(|word| word.parse()).transpose()?,
        };
        let page = payments.payments(&filter, self.before, self.limit).await?;
        if context.out.is_json() {
            context.out.json(&page)?;
            return Ok(Exit::Fine);
        }
        if page.items.is_empty() {
            context.out.note("no payments match")?;
            return Ok(Exit::Fine);
        }
        context.out.table(&table(&page.items, Timestamp::now()))?;
        if let Some(next) = page.next {
            context.out.note(format!("more: --before {next}"))?;
        }
        Ok(Exit::Fine)
    }
}

fn table(payments: &[PaymentView], now: Timestamp) -> Table {
    let mut table = Table::new([
        "outbox_id",
        "participant",
        ">sequence",
        "rail",
        "state",
        ">attempts",
        "owner",
        "reason",
        "created",
    ]);
    for payment in payments {
        table.row([
            payment.outbox_id.to_string(),
            payment.participant_id.clone(),
            payment.sequence_id.to_string(),
            payment.rail_type.clone(),
            payment.state.to_string(),
            payment.attempt_count.to_string(),
            or_dash(payment.claimed_by.as_deref()),
            or_dash(payment.reason.as_deref()),
            stamp(payment.created_at, now),
        ]);
    }
    table
}
