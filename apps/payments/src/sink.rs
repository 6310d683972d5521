//! The sink of the queue `payments`, and the rails to which it sends.

pub(crate) mod rail;
pub(crate) mod relayer;

pub use rail::{
    CancelResult, Dispatch, HttpRail, Rail, RailLookup, RailReply, Rails, SimulatedRail,
    SubmitResult,
};
pub use relayer::{RailSink, UNKNOWN_RAIL_TYPE};
