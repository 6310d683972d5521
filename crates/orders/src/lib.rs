//! Orders with an idempotency ledger, on the lane `orders`.

mod ledger;

pub use ledger::{
    Accepted, Client, Ended, Ledger, LedgerEntry, LedgerFilter, LedgerStatus, NewOrder, OrderKey,
    PurgeReport, Restless, Verified,
};

/// The lane orders travel on.
pub const LANE: &str = "orders";
