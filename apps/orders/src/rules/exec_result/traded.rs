//! Trades of an order that failed.

use super::{ExecResult, Fill, line, masked_ref};
use crate::{Amount, privacy::Masker};

/// The trades in an answer that is not a valid result, such as a partly filled fill-or-kill order.
/// They happened, so they are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TradeSummary {
    fills: Vec<Fill>,
    avg_price: Option<Amount>,
    executed_qty: Amount,
    cost: Option<Amount>,
    slippage: Option<Amount>,
    order_ref: Option<String>,
}

impl TradeSummary {
    /// The trades in an answer; `None` where it has none.
    pub(crate) fn of(result: ExecResult) -> Option<Self> {
        let is_nothing = result.fills.is_empty() && result.executed_qty == Amount::ZERO;
        (!is_nothing).then(|| Self {
            fills: result.fills,
            avg_price: result.avg_price,
            executed_qty: result.executed_qty,
            cost: result.cost,
            slippage: result.slippage,
            order_ref: result.broker.order_ref.as_deref().map(line),
        })
    }

    /// Masks secrets in the broker's order reference.
    pub(crate) fn masked(self, masker: &Masker) -> Self {
        Self {
            order_ref: masked_ref(self.order_ref, masker),
            ..self
        }
    }

    /// Adds these trades to a failed result.
    pub(crate) fn added_to(&self, mut result: ExecResult) -> ExecResult {
        let traded = self.clone();
        result.fills = traded.fills;
        result.avg_price = traded.avg_price;
        result.executed_qty = traded.executed_qty;
        result.cost = traded.cost;
        result.slippage = traded.slippage;
        result.broker.order_ref = traded.order_ref;
        result
    }
}
