#![doc = include_str!("../README.md")]

mod app;
mod cli;
mod http;
pub mod metrics;
mod options;
mod port;
mod rules;
mod service;
mod settings;
mod sink;
pub mod store;
mod watch;

pub use app::PaymentsApp;
pub use http::PaymentsHttp;
pub use options::{
    OnFailed, OrderedBy, PaymentsOptions, RailKind, Secret, queue_policy, queue_work,
};
pub use port::{
    CompleteAnswer, CompletionResult, EnqueueAnswer, ImportReport, InFlight, LateSuccess,
    PaymentFilter, PaymentMoveResult, PaymentReceipt, Payments, PaymentsStatus, Reconciliation,
    RepairResult, ReusedReference,
};
pub use rules::*;
pub use service::{Answer, PayCall, PaymentService, payload_hash};
pub use sink::*;
pub use watch::watch;

/// The queue of payments.
pub const QUEUE: &str = "payments";
