//! Orders with an idempotency ledger, on the lane `orders`.

mod amount;
pub mod broker;
pub mod canonical;
pub mod digest;
mod exec_result;
mod instruments;
pub mod json;
mod ledger;
mod order;
pub mod privacy;
mod reason;
mod request;
pub mod rounding;
mod stored;

pub use amount::{Amount, NotAnAmount};
pub use broker::{Asked, Broker, BrokerFailure, Outgoing, Paper, Script};
pub use exec_result::{BrokerRef, ExecResult, ExecStatus, Fault, Fill, LatencyMs, average_price};
pub use instruments::{BadInstrument, Instrument, Instruments};
pub use ledger::{
    Accepted, Client, Ended, Ledger, LedgerEntry, LedgerFilter, LedgerStatus, NewOrder, OrderKey,
    PurgeReport, Restless, Verified,
};
pub use order::{Filled, Order};
pub use privacy::{KeyHash, Masker};
pub use reason::Reason;
pub use request::{
    InvalidRequest, OrderRequest, Problem, RiskConstraints, Rules, Side, TimeInForce,
};
pub use stored::{Malformed, Stored, Subject};

/// The lane orders travel on.
pub const LANE: &str = "orders";
