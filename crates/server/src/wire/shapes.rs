//! What the kernel's types look like as JSON, for the OpenAPI document only.
#![expect(dead_code, reason = "described, never constructed")]

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// Where a message is.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[allow(
    missing_docs,
    reason = "the words of the API, explained in its documentation"
)]
pub enum StateWord {
    Waiting,
    Ready,
    Leased,
    Held,
    Dead,
    Delivered,
    Discarded,
}

/// What a worker reports about a message.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OutcomeWord {
    Delivered,
    Retry,
    Dead,
    Uncertain,
}

/// The outcome of an attempt.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AttemptOutcomeWord {
    Delivered,
    Retry,
    Dead,
    Uncertain,
    Expired,
}

/// A message as stored; it never changes.
#[derive(Serialize, ToSchema)]
pub(crate) struct Message {
    id: i64,
    queue: String,
    key: Option<String>,
    group: Option<String>,
    payload: Value,
    #[schema(value_type = Object)]
    headers: Map<String, Value>,
    created_at: Timestamp,
    /// From then on it is not sent any more, by the database's clock.
    expires_at: Option<Timestamp>,
}

/// Where a message is, with what matters there.
#[derive(Serialize, ToSchema)]
#[serde(tag = "state", rename_all = "snake_case")]
pub(crate) enum State {
    /// Behind the head of its group, which is `behind`.
    Waiting { behind: Option<i64> },
    /// It may be claimed once due.
    Ready { due_at: Timestamp },
    /// In a lease.
    Leased {
        owner: String,
        fence: i64,
        expires_at: Timestamp,
        begun: bool,
    },
    /// Held until it is resolved or unheld.
    Held { at: Timestamp, reason: String },
    /// Not tried again unless requeued.
    Dead {
        at: Timestamp,
        code: String,
        detail: Option<String>,
    },
    /// Done.
    Delivered { at: Timestamp },
    /// Closed by an operator without delivery.
    Discarded {
        at: Timestamp,
        actor: String,
        reason: String,
    },
}

/// A message in a list.
#[derive(Serialize, ToSchema)]
pub(crate) struct MessageSummaryBody {
    id: i64,
    queue: String,
    key: Option<String>,
    group: Option<String>,
    created_at: Timestamp,
    /// From then on it is not sent any more.
    expires_at: Option<Timestamp>,
    state: StateWord,
    attempts: u32,
    /// Why it is dead, for programs; null in another state.
    code: Option<String>,
    /// Why it is dead, for people.
    detail: Option<String>,
    erased: bool,
}

/// A message that is not tried again.
#[derive(Serialize, ToSchema)]
pub(crate) struct DeadLetter {
    message_id: i64,
    queue: String,
    at: Timestamp,
    attempt_no: u32,
    code: String,
    detail: Option<String>,
}

/// The dead messages of a queue with one code.
#[derive(Serialize, ToSchema)]
pub(crate) struct DeadCause {
    queue: String,
    /// The code of their last attempt.
    code: String,
    messages: u64,
    attempts_min: u32,
    attempts_max: u32,
    /// When the first of them died.
    first_at: Timestamp,
    /// When the last one did.
    last_at: Timestamp,
    /// How many died in the last quarter of an hour.
    recent: u64,
    /// How many died in the quarter of an hour before that.
    before: u64,
    /// The newest of them.
    example: i64,
    /// Why that one is dead, for people.
    detail: Option<String>,
    /// Where the sink of the queue delivers to now; null if this process has none for it.
    destination: Option<String>,
}

/// How bad a problem is.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Severity {
    /// To be known: a paused queue.
    Info,
    /// It waits for an operator and does not grow.
    Low,
    /// New failures.
    Medium,
    /// Messages are late.
    High,
    /// Nothing of a queue is delivered.
    Critical,
}

/// What is wrong.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OpenProblemKind {
    Breaker,
    NoWorker,
    NothingDelivered,
    BacklogGrows,
    QueueOld,
    Deaths,
    BlockedGroups,
    Schedule,
    Alerts,
    ProcessGone,
    Held,
    Paused,
}

/// Whether there is more of it than before.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Trend {
    Worse,
    Same,
    Better,
}

/// Something that is wrong now.
#[derive(Serialize, ToSchema)]
pub(crate) struct OpenProblem {
    /// What names it, as long as it lasts.
    key: String,
    kind: OpenProblemKind,
    severity: Severity,
    /// The queue it is about.
    queue: Option<String>,
    /// The code of deaths.
    code: Option<String>,
    /// The schedule or the process it is about.
    subject: Option<String>,
    /// One sentence for people.
    text: String,
    /// How many messages, groups or ticks.
    count: u64,
    /// Since when, as far as is known.
    since: Option<Timestamp>,
    trend: Trend,
    acknowledged: Option<Acknowledgement>,
    /// The page of the dashboard where it is fixed.
    path: String,
}

/// That an operator knows a problem.
#[derive(Serialize, ToSchema)]
pub(crate) struct Acknowledgement {
    /// The key of the problem.
    problem: String,
    /// How bad it was.
    severity: Severity,
    at: Timestamp,
    /// Until when it holds.
    until: Timestamp,
    actor: String,
    reason: String,
}

/// A lease as others see it: its token is its owner's alone.
#[derive(Serialize, ToSchema)]
pub(crate) struct LeaseView {
    fence: i64,
    /// The first characters of its token, to end it by.
    token_prefix: String,
    queue: String,
    owner: String,
    ids: Vec<i64>,
    begun: Vec<i64>,
    claimed_at: Timestamp,
    expires_at: Timestamp,
}

/// What a person did, and why.
#[derive(Serialize, ToSchema)]
pub(crate) struct AuditEntry {
    id: i64,
    at: Timestamp,
    actor: String,
    action: String,
    /// None for a redrive of all queues.
    queue: Option<String>,
    message_id: Option<i64>,
    reason: String,
}

/// What a settle recorded about one message.
#[derive(Serialize, ToSchema)]
pub(crate) struct RecordedOutcomeBody {
    id: i64,
    attempt_no: u32,
    outcome: AttemptOutcomeWord,
    next_due_at: Option<Timestamp>,
    state: StateWord,
}

/// What became of one message that was to be moved.
#[derive(Serialize, ToSchema)]
pub(crate) struct MoveResultBody {
    id: i64,
    answer: MoveWord,
    /// Where it is; absent if the message does not exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<StateWord>,
}

/// What became of a move.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum MoveWord {
    Moved,
    NotDead,
    NotHeld,
    NotHoldable,
    NotDiscardable,
    NotCancellable,
    AppQueue,
    Erased,
    NoSuchMessage,
}

/// The record of an erasure.
#[derive(Serialize, ToSchema)]
pub(crate) struct Erasure {
    at: Timestamp,
    actor: String,
    reason: String,
    /// SHA-256 of the payload that was erased, in hex.
    digest: String,
}

/// What became of one message that was to be erased.
#[derive(Serialize, ToSchema)]
pub(crate) struct ErasureResultBody {
    id: i64,
    answer: ErasureWord,
    /// Where it is, if it is not final.
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<StateWord>,
}

/// What became of an erasure.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ErasureWord {
    Erased,
    AlreadyErased,
    NotFinal,
    BlocksGroup,
    Needed,
    AppQueue,
    Departed,
    NoSuchMessage,
}

/// Who did something, and why.
#[derive(Serialize, ToSchema)]
pub(crate) struct By {
    actor: String,
    reason: String,
}

/// Which dead messages to requeue, and how fast.
#[derive(Serialize, ToSchema)]
pub(crate) struct RedrivePlan {
    action: RedriveAction,
    queue: Option<String>,
    code: Option<String>,
    rate_per_second: Option<u32>,
    limit: Option<u64>,
}

/// How far a redrive has come.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RedriveState {
    Running,
    Stopped,
    Done,
}

/// What a redrive does to the messages it covers.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RedriveAction {
    Requeue,
    Discard,
    Cancel,
}

/// Messages being moved by filter, step by step.
#[derive(Serialize, ToSchema)]
pub(crate) struct Redrive {
    id: i64,
    plan: RedrivePlan,
    state: RedriveState,
    /// Messages that the plan covered at its start.
    total: u64,
    /// Messages it has moved.
    moved: u64,
    /// Messages that were gone before it reached them, or are of an app that refuses.
    skipped: u64,
    /// The last message it reached.
    cursor: Option<i64>,
    by: By,
    started_at: Timestamp,
    updated_at: Timestamp,
    finished_at: Option<Timestamp>,
}

/// What becomes of ticks that no process took within a minute.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum MissedWord {
    Skip,
    Once,
    All,
}

/// Messages that are enqueued at the ticks of a cron expression.
#[derive(Serialize, ToSchema)]
pub(crate) struct Schedule {
    name: String,
    queue: String,
    cron: String,
    time_zone: String,
    payload: Value,
    #[schema(value_type = Object)]
    headers: Map<String, Value>,
    group: Option<String>,
    missed: MissedWord,
    missed_max: u32,
    created_at: Timestamp,
    updated_at: Timestamp,
    /// Since when it has no ticks.
    paused_at: Option<Timestamp>,
    /// The first tick that was not taken.
    next_at: Timestamp,
    /// The last tick with a message.
    last_tick: Option<Timestamp>,
    /// When its last message was enqueued, by a tick or by hand.
    last_at: Option<Timestamp>,
    last_message_id: Option<i64>,
    /// Ticks with a message so far.
    ticks: u64,
    /// Missed ticks without a message of their own so far.
    dropped: u64,
}

/// The rules of a queue.
#[derive(Serialize, ToSchema)]
pub(crate) struct QueuePolicy {
    lease_ttl_ms: u64,
    lease_ttl_max_ms: u64,
    attempts_max: u32,
    retry: RetrySchedule,
    on_uncertain: OnUncertain,
    ordered: bool,
    on_dead: OnDead,
    notify: bool,
    payload_max_bytes: u64,
    claim_max_bytes: u64,
    concurrency: u32,
    rate_per_second: Option<u32>,
    total_concurrency: Option<u32>,
    total_rate_per_second: Option<u32>,
    timeout_ms: u64,
    record_begin: bool,
    presume_begun: bool,
    hold_codes: Vec<String>,
    keep_ms: Option<u64>,
    keep_dead_ms: Option<u64>,
    keep_keys_ms: Option<u64>,
    archive: bool,
    alert_queue: Option<String>,
    alert_interval_ms: u64,
    alert_age_ms: Option<u64>,
}

/// Some rules of a queue. What is left out of a PUT has its default, of a PATCH keeps its value.
#[derive(Serialize, ToSchema)]
pub(crate) struct QueuePolicyChange {
    lease_ttl_ms: Option<u64>,
    lease_ttl_max_ms: Option<u64>,
    attempts_max: Option<u32>,
    retry: Option<RetrySchedule>,
    on_uncertain: Option<OnUncertain>,
    ordered: Option<bool>,
    on_dead: Option<OnDead>,
    notify: Option<bool>,
    payload_max_bytes: Option<u64>,
    claim_max_bytes: Option<u64>,
    concurrency: Option<u32>,
    rate_per_second: Option<u32>,
    total_concurrency: Option<u32>,
    total_rate_per_second: Option<u32>,
    timeout_ms: Option<u64>,
    record_begin: Option<bool>,
    presume_begun: Option<bool>,
    hold_codes: Option<Vec<String>>,
    keep_ms: Option<u64>,
    keep_dead_ms: Option<u64>,
    keep_keys_ms: Option<u64>,
    archive: Option<bool>,
    alert_queue: Option<String>,
    alert_interval_ms: Option<u64>,
    alert_age_ms: Option<u64>,
}

/// Delay of a message after a failed try.
#[derive(Serialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum RetrySchedule {
    Fixed {
        delay_ms: u64,
    },
    Table {
        delays_ms: Vec<u64>,
    },
    Exponential {
        base_ms: u64,
        factor: f64,
        max_ms: u64,
        jitter: f64,
    },
}

/// What an uncertain outcome leads to.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OnUncertain {
    Resend,
    Probe,
    Hold,
}

/// What a dead message does to its group.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OnDead {
    Block,
    Continue,
}

/// An error (RFC 9457). Further fields depend on the code.
#[derive(Serialize, ToSchema)]
pub(crate) struct Problem {
    /// `/problems/` and the code.
    #[serde(rename = "type")]
    kind: String,
    /// The same for every problem of this code.
    title: String,
    /// The HTTP status.
    status: u16,
    /// What went wrong this time, for people.
    detail: String,
    /// For programs.
    code: String,
    /// Whether the operation may have happened: `not_done` or `unknown`.
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<String>,
}
