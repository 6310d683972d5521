#![doc = include_str!("../README.md")]

mod alert;
mod attempt;
mod decision;
mod erasure;
mod error;
mod filter;
mod growth;
mod heartbeat;
mod hex;
mod late;
mod layer;
mod lease;
mod limits;
mod message;
mod obstacle;
mod operator;
mod payload;
pub mod plan;
mod problems;
mod queue;
mod quoted;
mod rate;
mod redrive;
pub mod reference;
mod retention;
mod retry;
mod schedule;
mod schema;
mod slots;
mod state;
mod store;
mod suggest;

pub use alert::{
    ALERT_CODE_OTHER, ALERT_CODES_MAX, ALERT_HEADER, ALERT_MESSAGES_MAX, Alert, AlertReason,
    AlertStep, LEASES_LOST_MIN, RefusedAlert, alert_code, alert_finding,
};
pub use attempt::{
    Attempt, AttemptOutcome, LastAttempt, Outcome, RecordedOutcome, Report, SettleAnswer,
};
pub use decision::{Next, after_expiry, after_resolution, after_settle, codes, is_counted};
pub use erasure::{Erasure, ErasureAnswer, ErasureResult, ErasureTarget};
pub use error::{Certainty, Error, Result, with_causes};
pub use filter::{Filter, prefix_end};
pub use growth::{
    DailyGrowth, DatabaseSize, Growth, PassRecord, Period, QueueSample, SAMPLE_QUEUES_MAX,
    SAMPLES_RETENTION, Sample, bases,
};
pub use heartbeat::{
    Backlog, BreakerReport, BreakerState, DESTINATION_BYTES_MAX, HEARTBEAT_BREAKERS_MAX,
    HEARTBEAT_QUEUES_MAX, HOURS_RETENTION, Heartbeat, LATENCY_BOUNDS_MS, LATENCY_BUCKETS,
    OutcomeCounts, PROCESSES_KEPT, Process, ProcessBreaker, QueueMinutes, QueueStats,
    SAMPLED_QUEUES_MAX, STATS_RETENTION, STATS_STEP_MAX,
};
pub use hex::hex;
pub use late::LateResult;
pub use layer::{Layer, LayeredStore};
pub use lease::{
    BeginAnswer, Claim, ClaimedMessage, EndedLease, Expiry, Fence, Lease, LeaseView, ReleaseAnswer,
    RenewAnswer, TOKEN_SHOWN, Token, TokenPrefix,
};
pub use limits::{
    AT_MAX, BATCH_MESSAGES_MAX, CLAIM_BYTES_MAX, CODE_BYTES_MAX, CRON_BYTES_MAX, DELAY_MAX,
    DETAIL_BYTES_MAX, HEADERS_BYTES_MAX, KEY_BYTES_MAX, LEASE_MESSAGES_MAX, LEASE_TTL_MAX,
    MISSED_MAX, OWNER_BYTES_MAX, PAGE_ENTRIES_MAX, PAYLOAD_BYTES_MAX, PAYLOAD_DEPTH_MAX,
    SCHEDULE_PAYLOAD_BYTES_MAX, TICKS_MAX, TIME_ZONE_BYTES_MAX, TOKEN_PREFIX_MIN,
};
pub use message::{CORRELATION_ID, Due, Message, MessageId, NewMessage, RESENT_HEADER, Receipt};
pub use obstacle::{Obstacle, Reason};
pub use operator::{AuditEntry, By, Move, MoveResult, Resolution, resent_erased};
pub use payload::{Payload, PayloadError, exact_headers, exact_value, stored_result};
pub use problems::{
    ACKNOWLEDGED_MAX, ACKNOWLEDGEMENTS_MAX, ATTENTION_MAX, Acknowledgement, Attention,
    BlockedGroups, DEATHS_WINDOW, OpenProblem, OverdueSchedule, PROBLEM_KEY_BYTES_MAX,
    PROCESS_GONE, ProblemKind, ProblemMark, Severity, Situation, StuckAlert, TICK_LATE_MAX, Trend,
};
pub use queue::{OnDead, OnUncertain, Queue, QueueName, QueuePolicy, validate_ttl};
pub use quoted::quoted;
pub use rate::{Bucket, Buckets, Rate};
pub use redrive::{Redrive, RedriveAction, RedriveId, RedrivePlan, RedriveState, redrive_by};
pub use reference::{ManualClock, ReferenceStore};
pub use retention::{
    Departure, DepartureCause, DepartureId, DepartureState, Progress, QueueHistory, Record,
    Refusal, Step, validate_archive, validate_maintenance, validate_pass_end,
};
pub use retry::RetrySchedule;
pub use schedule::{
    MISSED_AFTER, MISSED_HEADER, MissedPolicy, NextTick, SCHEDULE_HEADER, Schedule, ScheduleName,
    SchedulePlan, TICK_HEADER, Tick, TickPlan, Upcoming, schedule_by,
};
pub use schema::{AppliedMigration, ENGINE, Migration, SchemaStatus, migration_order};
pub use slots::{SendSlots, SlotReservation};
pub use state::{
    Counts, Cursor, DeadCause, DeadLetter, Explanation, Finding, MessageSummary, NOT_CHECKED, Page,
    State, StateKind, Totals,
};
pub use store::{
    Alerts, Browse, Claims, Erase, Operate, Problems, Produce, Queues, Read, Redrives, Retain,
    Schedules, Settle, Store, Watch,
};
pub use suggest::nearest;

/// The traits of a store, for calls on a store of a known type.
///
/// `dyn Store` and `S: Store` have their methods without it.
pub mod prelude {
    pub use crate::store::{
        Alerts as _, Browse as _, Claims as _, Erase as _, Operate as _, Problems as _,
        Produce as _, Queues as _, Read as _, Redrives as _, Retain as _, Schedules as _,
        Settle as _, Store as _, Watch as _,
    };
}
