//! Orders with an idempotency ledger, on the queue `orders`.

mod acceptor;
mod amount;
mod answer;
pub mod broker;
pub mod canonical;
pub mod digest;
mod dispatch;
mod exec_result;
mod handler;
mod instruments;
pub mod json;
mod keys;
mod ledger;
mod limits;
pub mod metrics;
mod options;
mod order;
pub mod privacy;
mod purge;
mod reason;
mod request;
mod resolution;
pub mod rounding;
mod sent;
mod service;
pub mod store;
mod stored;

use consign_worker::park;

pub use amount::{Amount, NotAnAmount};
pub use answer::Answer;
pub use broker::{Asked, Broker, BrokerFailure, Http, Outgoing, Paper, Script, broker};
pub use exec_result::{
    BrokerRef, ExecResult, ExecStatus, Fault, Fill, LatencyMs, Traded, average_price,
};
pub use handler::{OrderSink, codes};
pub use instruments::{BadInstrument, Instrument, Instruments};
pub use ledger::{
    Accepted, Client, Ended, Ledger, LedgerEntry, LedgerFilter, LedgerStatus, NewOrder, OrderKey,
    PurgeReport, Restless, Verified,
};
pub use options::{Adapter, Hidden, OrdersOptions, queue_policy, queue_work};
pub use order::{Filled, Order};
pub use privacy::{KeyHash, Masker};
pub use purge::purge_loop;
pub use reason::Reason;
pub use request::{
    InvalidRequest, OrderRequest, Problem, RiskConstraints, Rules, Side, TimeInForce,
};
pub use resolution::{Execution, resolved};
pub use sent::Sent;
pub use service::{OrderService, OrderView, PlaceCall};
pub use stored::{Malformed, Stored, Subject};

/// The queue orders travel on.
pub const QUEUE: &str = "orders";
