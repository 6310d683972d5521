//! `consign resolve`: what a person found out about held messages.

use clap::{ArgGroup, Args};
use consign_kernel::{MessageId, Resolution};
use consign_orders::{Amount, Execution, Fill};

use super::hold::report_moves;
use crate::{
    arguments::{ByArgs, message_id},
    context::Context,
    failure::{Exit, Failure},
};

/// Record what became of held messages, as you found out.
///
/// Unlike `unhold`, nothing is sent again. The attempt that is recorded has the code `resolved`, you
/// as its owner and your reason as its detail.
///
/// An order is delivered only with its trades as in the broker's books, one order at a time; its
/// client is answered with them. Payments: `consign payments resolve`.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("outcome").required(true).args(["delivered", "dead", "unknown"]))]
pub(crate) struct Resolve {
    /// The messages
    #[arg(required = true, value_name = "ID", value_parser = message_id)]
    ids: Vec<MessageId>,
    /// The receiver has them
    #[arg(long)]
    delivered: bool,
    /// The receiver does not have them and shall not get them
    #[arg(long, visible_alias = "not-executed")]
    dead: bool,
    /// It cannot be found out: they are dead, and in doubt should they be requeued
    #[arg(long)]
    unknown: bool,
    /// Of an order: a trade, for each of them
    #[arg(long, value_name = "QTY@PRICE@TIME", requires = "delivered")]
    fill: Vec<Fill>,
    /// Of an order: the broker's own name for it
    #[arg(long, value_name = "TEXT", requires = "delivered")]
    order_ref: Option<String>,
    /// Of an order: the average price, to be checked against the trades
    #[arg(long, value_name = "PRICE", requires = "delivered")]
    avg_price: Option<Amount>,
    #[command(flatten)]
    by: ByArgs,
}

impl Resolve {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        // clap waives `requires` where the required argument conflicts with one that is given.
        let resolution = match (self.execution(), self.delivered, self.dead) {
            (result, true, _) => Resolution::Delivered { result },
            (Some(_), false, _) => {
                let why = "--fill, --order-ref and --avg-price belong to --delivered: an order that was \
                           not executed has no trades; nothing was changed";
                return Err(Failure::usage(why));
            }
            (None, _, true) => Resolution::Dead,
            (None, ..) => Resolution::Unknown,
        };
        let store = context.store().await?;
        let by = self.by.by("resolved by hand");
        let moves = store.resolve(&self.ids, &resolution, &by).await?;
        report_moves(context.out, &moves)
    }

    /// What is said about an order, if anything is; the store says what is missing.
    fn execution(&self) -> Option<String> {
        let is_said = !self.fill.is_empty() || self.order_ref.is_some() || self.avg_price.is_some();
        is_said.then(|| {
            let execution = Execution {
                order_ref: self.order_ref.clone().unwrap_or_default(),
                fills: self.fill.clone(),
                avg_price: self.avg_price,
            };
            execution.to_json()
        })
    }
}
