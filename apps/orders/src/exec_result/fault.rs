//! What a broker's answer may not say.

use jiff::SignedDuration;

use super::{ExecResult, ExecStatus};
use crate::{Amount, Order, Reason, TimeInForce};

/// How far the clocks of a broker and of this machine may be apart. An executed order is not given
/// up for a clock that goes wrong by seconds; an answer from hours before is about something else.
const CLOCK_DRIFT_MAX: SignedDuration = SignedDuration::from_secs(60);

/// Why an answer cannot be the result of an order.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// It speaks of another order, instrument or side.
    #[error("{field} is not the one that was sent")]
    OtherOrder {
        /// Which field differs.
        field: &'static str,
    },
    /// Nothing was executed of an order that does not stand.
    #[error("status is ok, but nothing was executed")]
    NotExecuted,
    /// Nothing was executed yet of an order that stands until it is cancelled.
    #[error("the order stands, but nothing was executed yet")]
    NotYetExecuted,
    /// Executed without a trade.
    #[error("{executed_qty} was executed, but there are no fills")]
    NoFills {
        /// How much.
        executed_qty: Amount,
    },
    /// Not executed, but with trades.
    #[error("status is error, but {executed_qty} was executed")]
    ErrorWithFills {
        /// How much.
        executed_qty: Amount,
    },
    /// A trade of nothing, or for nothing.
    #[error("fill {index} has a quantity or a price that is not above 0")]
    EmptyFill {
        /// Which, from 0.
        index: usize,
    },
    /// The trades do not add up.
    #[error("the fills sum up to {filled}, executed_qty is {executed_qty}")]
    Sum {
        /// What the fills say.
        filled: Amount,
        /// What the result says.
        executed_qty: Amount,
    },
    /// The numbers are so large that they cannot be added.
    #[error("the fills are too large to be summed up")]
    TooLarge,
    /// More than was ordered.
    #[error("{executed_qty} was executed, {qty} was ordered")]
    Overfilled {
        /// How much was executed.
        executed_qty: Amount,
        /// How much was ordered.
        qty: Amount,
    },
    /// A part of what was to be had whole or not at all.
    #[error("{executed_qty} of {qty} was executed of a fill-or-kill order")]
    PartialFillOrKill {
        /// How much was executed.
        executed_qty: Amount,
        /// How much was ordered.
        qty: Amount,
    },
    /// Over before it was asked for, by more than clocks differ.
    #[error("completed_at is long before requested_at")]
    Time,
}

impl Fault {
    /// The reason it is recorded by. A partly filled fill-or-kill is final: asking again cannot make
    /// it whole. So is nothing at all of an order that does not stand. Anything else is a broker
    /// that does not keep to the contract, or not yet.
    pub fn reason(&self) -> Reason {
        match self {
            Self::PartialFillOrKill { .. } | Self::NotExecuted => Reason::BrokerRejected,
            _ => Reason::InternalError,
        }
    }

    /// Whether it says that the answer is not about the order that was sent.
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
