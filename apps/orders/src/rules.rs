//! Pure decisions of the order protocol: no I/O, no clock, no randomness.

mod amount;
pub mod canonical;
pub mod digest;
mod exec_result;
mod instruments;
pub mod json;
mod order;
pub mod privacy;
mod reason;
mod request;
mod resolution;
pub mod rounding;
mod sent;
mod stored;

pub use amount::{Amount, NotAnAmount};
pub use exec_result::{
    BrokerRef, ExecResult, ExecStatus, Fault, Fill, LatencyMs, TradeSummary, average_price,
};
pub use instruments::{BadInstrument, Instrument, Instruments};
pub use order::{Order, ServerFields};
pub use privacy::{KeyHash, Masker};
pub use reason::Reason;
pub use request::{
    InvalidRequest, OrderRequest, Problem, RiskConstraints, Rules, Side, TimeInForce,
};
pub use resolution::{Execution, resolved};
pub use sent::SentAmounts;
pub use stored::{PayloadError, StoredOrder, Subject};
