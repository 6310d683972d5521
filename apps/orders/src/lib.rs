//! Orders with an idempotency ledger, on the queue `orders`.

mod acceptor;
mod answer;
mod app;
mod cli;
mod http;
mod keys;
mod ledger;
mod limits;
pub mod metrics;
mod options;
mod purge;
pub mod rules;
mod service;
mod settings;
pub mod sink;
pub mod store;

use consign_worker::failpoint;

pub use answer::Answer;
pub use app::OrdersApp;
pub use http::OrdersHttp;
pub use ledger::{
    AcceptResult, Client, ConflictingKey, FinalResult, Ledger, LedgerEntry, LedgerFilter,
    LedgerStatus, NewOrder, OrderKey, PurgeReport, VerifiedOrder,
};
pub use options::{Adapter, OrdersOptions, queue_policy, queue_work};
pub use purge::purge_loop;
pub use rules::*;
pub use service::{OrderService, OrderView, PlaceCall};
pub use sink::{
    OrderSink,
    broker::{
        self, Broker, BrokerFailure, BrokerLookup, Http, OutgoingOrder, Paper, Script, broker,
    },
    codes,
};

/// The queue of orders.
pub const QUEUE: &str = "orders";
