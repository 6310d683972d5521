#![doc = include_str!("../README.md")]

mod attempt;
mod decision;
mod error;
mod late;
mod lease;
mod limits;
mod message;
mod operator;
mod payload;
mod pulse;
mod queue;
mod redrive;
pub mod reference;
mod reference_store;
mod retry;
mod schema;
mod state;
mod store;
mod suggest;

pub use attempt::{Attempt, AttemptOutcome, LastAttempt, Outcome, Recorded, Report, SettleAnswer};
pub use decision::{Next, after_expiry, after_resolution, after_settle, codes, is_counted};
pub use error::{Certainty, Error, Result, with_causes};
pub use late::LateResult;
pub use lease::{
    BeginAnswer, Claim, ClaimedMessage, EndedLease, Expired, Fence, Lease, LeaseView,
    ReleaseAnswer, RenewAnswer, TOKEN_SHOWN, Token, TokenPrefix,
};
pub use limits::{
    CLAIM_BYTES_MAX, CODE_BYTES_MAX, DELAY_MAX, DETAIL_BYTES_MAX, HEADERS_BYTES_MAX, KEY_BYTES_MAX,
    LEASE_MESSAGES_MAX, LEASE_TTL_MAX, OWNER_BYTES_MAX, PAGE_ENTRIES_MAX, PAYLOAD_BYTES_MAX,
    PAYLOAD_DEPTH_MAX, RUN_MESSAGES_MAX, TOKEN_PREFIX_MIN,
};
pub use message::{CORRELATION_ID, Enqueued, Message, MessageId, NewMessage};
pub use operator::{AuditEntry, By, Move, Moved, Resolution};
pub use payload::{Payload, PayloadError, exact_headers, exact_value, stored_result};
pub use pulse::{
    Done, PROCESSES_KEPT, PULSE_QUEUES_MAX, PULSE_STEP_MAX, PULSES_KEPT, Process, Pulse,
    QueueMinutes, QueuePulse,
};
pub use queue::{OnDead, OnUncertain, Queue, QueueName, QueuePolicy};
pub use redrive::{Redrive, RedriveId, RedrivePlan, RedriveState, redrive_by};
pub use reference_store::{ManualClock, ReferenceStore};
pub use retry::RetrySchedule;
pub use schema::{AppliedMigration, ENGINE, Migration, SchemaStatus, migration_order};
pub use state::{
    Counts, Cursor, DeadLetter, Explanation, Filter, Finding, Listed, NOT_CHECKED, Page, State,
    StateKind, Totals,
};
pub use store::Store;
pub use suggest::nearest;
