//! `consign orders resolve`: records what the broker's books say about held orders.

use clap::{ArgGroup, Args};
use consign_app::{
    arguments::ByArgs,
    context::Context,
    failure::{Exit, Failure},
    moves::report_moves,
};
use consign_kernel::Resolution;

use super::selection::OrderRef;
use crate::{Amount, Execution, Fill, app::ledger};

/// Record what became of held orders, as you found in the broker's books. Nothing is sent.
///
/// An order is delivered only with its trades, one order at a time; its client is answered with them.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("outcome").required(true).args(["delivered", "dead", "unknown"]))]
pub(super) struct Resolve {
    /// The orders: CLIENT/KEY, or the ids of their messages
    #[arg(required = true, value_name = "ORDER")]
    which: Vec<OrderRef>,
    /// The broker has executed it
    #[arg(long)]
    delivered: bool,
    /// The broker has not executed them and shall not
    #[arg(long, visible_alias = "not-executed")]
    dead: bool,
    /// It cannot be found out: they are dead, and in doubt should they be requeued
    #[arg(long)]
    unknown: bool,
    /// A trade, for each of them
    #[arg(long, value_name = "QTY@PRICE@TIME")]
    fill: Vec<Fill>,
    /// The broker's own name for the order
    #[arg(long, value_name = "TEXT")]
    order_ref: Option<String>,
    /// The average price, to be checked against the trades
    #[arg(long, value_name = "PRICE")]
    avg_price: Option<Amount>,
    #[command(flatten)]
    by: ByArgs,
}

impl Resolve {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
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
        let opened = context.open().await?;
        let mut ids = Vec::new();
        for which in &self.which {
            let entry = which.find(&*opened.store, &*ledger(&opened)).await?;
            let entry = entry.ok_or_else(|| which.missing())?;
            let id = entry.outbox_id.ok_or_else(|| {
                let why = format!("order {which} was sent within its request: it is not held");
                Failure::usage(why)
            })?;
            ids.push(id);
        }
        let by = self.by.by("resolved by hand");
        let moves = opened.store.resolve(&ids, &resolution, &by).await?;
        report_moves(context.out, &moves)
    }

    /// The result of the order, if any of it was given; the store rejects an incomplete one.
    fn execution(&self) -> Option<String> {
        let is_given =
            !self.fill.is_empty() || self.order_ref.is_some() || self.avg_price.is_some();
        is_given.then(|| {
            let execution = Execution {
                order_ref: self.order_ref.clone().unwrap_or_default(),
                fills: self.fill.clone(),
                avg_price: self.avg_price,
            };
            execution.to_json()
        })
    }
}
