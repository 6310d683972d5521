//! What is sent to the broker: orders, or payments where it is a rail, by path.

use super::{order::Order, payment::Payment, step::Step};

/// The path of payments, and of their status.
pub(super) const PAYMENTS: &str = "/payments";

#[derive(Debug)]
pub(super) enum Submission<'b> {
    Order(Order<'b>),
    Payment(Payment),
}

impl<'b> Submission<'b> {
    pub(super) fn parse(target: &str, body: &'b str) -> Result<Self, String> {
        if target.starts_with(PAYMENTS) {
            Payment::parse(body).map(Self::Payment)
        } else {
            Order::parse(body).map(Self::Order)
        }
    }

    /// The step that it selects for its nth send, from 0.
    pub(super) fn step(&self, send: usize) -> Result<Option<Step>, String> {
        match self {
            Self::Order(order) => order.step(send),
            Self::Payment(payment) => payment.step(send),
        }
    }

    /// All of it.
    pub(super) fn qty(&self) -> String {
        match self {
            Self::Order(order) => order.qty().to_owned(),
            Self::Payment(payment) => payment.amount(),
        }
    }

    /// The answer after this much was executed.
    pub(super) fn executed(&self, qty: &str, number: usize) -> String {
        match self {
            Self::Order(order) => order.executed(qty, number),
            Self::Payment(payment) => payment.executed(qty, number),
        }
    }

    /// The answer that refuses it.
    pub(super) fn rejected(&self) -> String {
        match self {
            Self::Order(order) => order.rejected(),
            Self::Payment(_) => Payment::rejected(),
        }
    }
}

/// The status of a key that was never executed; `is_pending`: it came, and waits.
pub(super) fn unknown(target: &str, is_pending: bool) -> String {
    match (target.starts_with(PAYMENTS), is_pending) {
        (false, _) => "{}".to_owned(),
        (true, true) => r#"{"found":true,"pending":true}"#.to_owned(),
        (true, false) => r#"{"found":false}"#.to_owned(),
    }
}
