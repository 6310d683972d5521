//! Contract violations in a broker's answer.

use jiff::SignedDuration;

use super::{ExecResult, ExecStatus};
use crate::{Amount, Order, Reason, TimeInForce};

/// Maximum difference between the clocks of a broker and this machine. Seconds of drift must not
/// invalidate an executed order; an answer hours old belongs to another order.
const CLOCK_DRIFT_MAX: SignedDuration = SignedDuration::from_secs(60);

/// Why an answer cannot be the result of an order.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The answer is about another order, instrument or side.
    #[error("{field} differs from the order that was sent")]
    OtherOrder {
        /// The differing field.
        field: &'static str,
    },
    /// Nothing was executed of an order that is not good till cancelled.
    #[error("status is ok, but nothing was executed")]
    NotExecuted,
    /// Nothing was executed yet of a good-till-cancelled order.
    #[error("the order is open at the broker, but nothing was executed yet")]
    NotYetExecuted,
    /// Executed without a fill.
    #[error("{executed_qty} was executed, but there are no fills")]
    NoFills {
        /// The executed quantity.
        executed_qty: Amount,
    },
    /// Failed, but with fills.
    #[error("status is error, but {executed_qty} was executed")]
    ErrorWithFills {
        /// The executed quantity.
        executed_qty: Amount,
    },
    /// A fill with a quantity or price of zero or less.
    #[error("fill {index} has a quantity or a price that is not above 0")]
    EmptyFill {
        /// Index from 0.
        index: usize,
    },
    /// The fills do not add up to the executed quantity.
    #[error("the fills sum up to {filled}, executed_qty is {executed_qty}")]
    Sum {
        /// Sum of the fills.
        filled: Amount,
        /// Executed quantity of the result.
        executed_qty: Amount,
    },
    /// The sum of the fills overflows.
    #[error("the sum of the fills is too large")]
    TooLarge,
    /// More than was ordered.
    #[error("{executed_qty} was executed, {qty} was ordered")]
    Overfilled {
        /// The executed quantity.
        executed_qty: Amount,
        /// The ordered quantity.
        qty: Amount,
    },
    /// A partial fill of a fill-or-kill order.
    #[error("{executed_qty} of {qty} was executed of a fill-or-kill order")]
    PartialFillOrKill {
        /// The executed quantity.
        executed_qty: Amount,
        /// The ordered quantity.
        qty: Amount,
    },
    /// Completed before it was requested, by more than clocks differ.
    #[error("completed_at is long before requested_at")]
    Time,
}

impl Fault {
    /// The reason to record. A partly filled fill-or-kill order is final, and so is an order
    /// without any execution, unless it is good till cancelled: a retry changes nothing. Any other
    /// fault is a contract violation that a later attempt may resolve.
    pub fn reason(&self) -> Reason {
        match self {
            Self::PartialFillOrKill { .. } | Self::NotExecuted => Reason::BrokerRejected,
            _ => Reason::InternalError,
        }
    }

    /// Whether the answer is about another order.
    pub fn is_about_something_else(&self) -> bool {
        matches!(self, Self::OtherOrder { .. } | Self::Time)
    }
}

pub(super) fn find(result: &ExecResult, order: &Order, qty_step: Option<Amount>) -> Vec<Fault> {
    let mut faults = Vec::new();
    let same = [
        ("order_id", result.order_id == order.order_id),
        ("instrument", result.instrument == order.instrument),
        ("side", result.side == Some(order.side)),
    ];
    let others = same.into_iter().filter(|(_, is_same)| !is_same);
    faults.extend(others.map(|(field, _)| Fault::OtherOrder { field }));
    if result.requested_at.duration_since(result.completed_at) > CLOCK_DRIFT_MAX {
        faults.push(Fault::Time);
    }
    match result.status {
        ExecStatus::Ok => executed(result, order, qty_step, &mut faults),
        ExecStatus::Error if result.fills.is_empty() && result.executed_qty == Amount::ZERO => {}
        ExecStatus::Error => faults.push(Fault::ErrorWithFills {
            executed_qty: result.executed_qty,
        }),
    }
    faults
}

fn executed(result: &ExecResult, order: &Order, qty_step: Option<Amount>, faults: &mut Vec<Fault>) {
    if result.fills.is_empty() {
        let executed_qty = result.executed_qty;
        faults.push(match order.time_in_force {
            _ if executed_qty != Amount::ZERO => Fault::NoFills { executed_qty },
            TimeInForce::Gtc => Fault::NotYetExecuted,
            TimeInForce::Ioc | TimeInForce::Fok => Fault::NotExecuted,
        });
        return;
    }
    let is_empty = |fill: &super::Fill| !fill.qty.is_positive() || !fill.px.is_positive();
    let empty = result.fills.iter().position(is_empty);
    faults.extend(empty.map(|index| Fault::EmptyFill { index }));
    let mut quantities = result.fills.iter().map(|fill| fill.qty);
    let Some(filled) = quantities.try_fold(Amount::ZERO, Amount::plus) else {
        faults.push(Fault::TooLarge);
        return;
    };
    let (executed_qty, qty) = (result.executed_qty, order.qty);
    let distance = filled.distance(executed_qty);
    if distance > qty_step.unwrap_or(Amount::ZERO).decimal()
        || qty_step.is_some_and(|step| distance == step.decimal())
    {
        faults.push(Fault::Sum {
            filled,
            executed_qty,
        });
    }
    if executed_qty > qty {
        faults.push(Fault::Overfilled { executed_qty, qty });
    }
    if order.time_in_force == TimeInForce::Fok && executed_qty < qty {
        faults.push(Fault::PartialFillOrKill { executed_qty, qty });
    }
}
