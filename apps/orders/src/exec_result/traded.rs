//! What was traded of an order that failed all the same.

use super::{ExecResult, Fill, line, masked_ref};
use crate::{Amount, privacy::Masker};

/// The trades in an answer that is no good result, such as a part of what was to be had whole or not
/// at all. They happened, so they are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traded {
    fills: Vec<Fill>,
    avg_price: Option<Amount>,
    executed_qty: Amount,
    cost: Option<Amount>,
    slippage: Option<Amount>,
    order_ref: Option<String>,
}

impl Traded {
    /// What an answer says was traded; none where it says that nothing was.
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

    /// The same without secrets in the broker's name for the order.
    pub(crate) fn masked(self, masker: &Masker) -> Self {
        Self {
            order_ref: masked_ref(self.order_ref, masker),
            ..self
        }
    }

    /// The same failed result with these trades.
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
