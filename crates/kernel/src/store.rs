//! The interface between the engine and a database: one trait per purpose, and `Store` for all of them.
//!
//! Each operation is one transaction. All times are the database's clock, read when the operation
//! runs; callers pass durations, never instants. `reference::Reference` specifies what each
//! operation does; the conformance suite checks every implementation against it.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

use crate::{
    Acknowledgement, AlertStep, Attempt, Attention, AuditEntry, BeginAnswer, By, Claim, Counts,
    Cursor, DatabaseSize, DeadCause, DeadLetter, Departure, DepartureCause, DepartureId,
    EndedLease, Erasure, ErasureResult, ErasureTarget, Expiry, Explanation, Filter, Finding,
    Growth, Heartbeat, LateResult, Lease, LeaseView, Message, MessageId, MessageSummary,
    MoveResult, NewMessage, NextTick, Page, Payload, ProblemMark, Process, Progress, Queue,
    QueueHistory, QueueMinutes, QueueName, QueuePolicy, Receipt, Record, Redrive, RedriveId,
    RedrivePlan, ReleaseAnswer, RenewAnswer, Report, Resolution, Schedule, ScheduleName,
    SchedulePlan, SendSlots, SettleAnswer, Step, TickPlan, Token, TokenPrefix, Totals, Upcoming,
    error::Result,
};

/// Queues: their policies, their state, their counts.
///
/// Called by what configures and watches queues: the command line, the HTTP API, a
/// process at its start.
#[async_trait]
pub trait Queues: Send + Sync {
    /// Creates a queue or changes its policy.
    ///
    /// A departure that has removed nothing yet is given up: it was begun by another policy.
    ///
    /// `ordered` cannot change while the queue has unfinished messages or a group blocked by a dead one
    /// (`QueueNotEmpty`). `on_dead` can: with `continue` the groups that dead messages blocked go on, in
    /// the same transaction; with `block` what has moved on has moved on, and the next death blocks.
    async fn put_queue(&self, name: &QueueName, policy: &QueuePolicy, by: &By) -> Result<Queue>;

    /// Stops claims from the queue; leases in flight may finish. Pausing twice keeps the first time.
    async fn pause(&self, name: &QueueName, by: &By) -> Result<Queue>;

    /// Resumes claims from the queue.
    async fn resume(&self, name: &QueueName, by: &By) -> Result<Queue>;

    /// One queue.
    async fn queue(&self, name: &QueueName) -> Result<Option<Queue>>;

    /// Queues with their counts by name, those after `after`; at most `limit`, and at most 1,000.
    async fn queues(&self, after: Option<&QueueName>, limit: u32) -> Result<Vec<(Queue, Counts)>>;

    /// One queue with its counts.
    async fn queue_counts(&self, name: &QueueName) -> Result<Option<(Queue, Counts)>>;

    /// How many queues there are, and what is in all of them together.
    async fn totals(&self) -> Result<Totals>;
}

/// What a producer calls.
#[async_trait]
pub trait Produce: Send + Sync {
    /// Enqueues all messages or none, in a transaction of its own.
    ///
    /// Each store also offers `enqueue_in` for the caller's own transaction. A repeated key with
    /// the same payload and group answers with the first message; with another it is
    /// `KeyConflict` and nothing is written.
    async fn enqueue(&self, messages: &[NewMessage]) -> Result<Vec<Receipt>>;
}

/// How a worker claims, renews and releases messages.
///
/// A stale token is an answer (`LeaseLost`), not an error, and nothing is written then.
#[async_trait]
pub trait Claims: Send + Sync {
    /// Whether the connected login may work a queue; always true in a store without logins.
    async fn may_work(&self, _name: &QueueName) -> Result<bool> {
        Ok(true)
    }

    /// Returns when the queue may have work, or after `timeout` at the latest.
    ///
    /// A hint, not a promise: it may return early, and a wake-up may be lost. `true` means woken.
    async fn wait(&self, queue: &QueueName, timeout: Duration) -> Result<bool>;

    /// Leases the oldest due messages of a queue, or answers `None` when there are none.
    ///
    /// Takes no more bytes than the queue's `claim_max_bytes` and the claim allow, but one message at
    /// least; what would follow stays where it is. A longer `ttl` than the queue's `lease_ttl_max_ms`
    /// is `InvalidInput`.
    ///
    /// Takes back what has expired in the queue first. A batch that came back from an expiry is
    /// leased alone, so that a poison message ends up alone in its lease.
    ///
    /// With a `total_concurrency` no more messages of the queue are leased than that, in all processes.
    async fn claim(&self, claim: &Claim) -> Result<Option<Lease>>;

    /// Reserves up to `count` (1 to 1,000) times at which the caller may send a message of the queue each, so
    /// that all processes together keep its `total_rate_per_second`. `None`: the queue has no such rate.
    async fn reserve_slots(&self, queue: &QueueName, count: u32) -> Result<Option<SendSlots>>;

    /// Prolongs a lease to `ttl` from now. Never shortens it. More than the queue's
    /// `lease_ttl_max_ms` is `InvalidInput`.
    async fn renew(&self, token: Token, ttl: Duration) -> Result<RenewAnswer>;

    /// Returns the messages of a lease that have not begun to ready. No attempt is recorded.
    async fn release(&self, token: Token) -> Result<ReleaseAnswer>;

    /// Records that the transport call of these messages is about to start.
    async fn begin(&self, token: Token, ids: &[MessageId]) -> Result<BeginAnswer>;

    /// Ends up to `limit` expired leases of any queue, oldest first.
    async fn expire(&self, limit: u32) -> Result<Expiry>;
}

/// How a worker reports the outcomes of its leased messages.
#[async_trait]
pub trait Settle: Send + Sync {
    /// Records outcomes under a live lease.
    ///
    /// Fenced: with an unknown token or an expired lease nothing is written. Naming a message
    /// twice is `InvalidInput`. The reports are cut to size first (`Report::bounded`).
    async fn settle(&self, token: Token, reports: &[Report]) -> Result<SettleAnswer>;

    /// Keeps late results as evidence, never as outcomes.
    ///
    /// A delivery among them makes every later claim of its message `in_doubt`.
    /// Kept where the token once held the message and lost it: its expired attempt names the token,
    /// or the ended lease has not been taken back yet. Under a live lease nothing is kept; settle
    /// there. Of a token's results for a message the first is kept. Returns which messages have one
    /// on record now, in the order of the reports, so that repeating is harmless. Naming a message
    /// twice is `InvalidInput`. The reports are cut to size first (`Report::bounded`).
    async fn record_late(&self, token: Token, reports: &[Report]) -> Result<Vec<MessageId>>;
}

/// What an operator does to messages and leases.
///
/// Every call names an actor and a reason, and is recorded in the audit in the same transaction.
#[async_trait]
pub trait Operate: Send + Sync {
    /// Gives dead messages a fresh set of tries. Returns one result per id.
    async fn requeue(&self, ids: &[MessageId], by: &By) -> Result<Vec<MoveResult>>;

    /// Holds ready and waiting messages. Returns one result per id.
    ///
    /// In an ordered queue a held message keeps its place: later ones of its group wait behind it.
    async fn hold(&self, ids: &[MessageId], by: &By) -> Result<Vec<MoveResult>>;

    /// Puts held messages back with the tries they had: one held on its last try gets one more.
    /// Returns one result per id.
    async fn unhold(&self, ids: &[MessageId], by: &By) -> Result<Vec<MoveResult>>;

    /// Records the outcome of held messages that an operator determined. Returns one result per id.
    ///
    /// A lease in the operator's name is taken and settled in one step, so that the attempt has a fence and an
    /// owner like any other. Its code is `resolved`, its detail the reason. Where the app
    /// of a queue needs a result, a call without one is `InvalidInput`, nothing is written.
    async fn resolve(
        &self,
        ids: &[MessageId],
        resolution: &Resolution,
        by: &By,
    ) -> Result<Vec<MoveResult>>;

    /// Discards dead and held messages: closed for good, never delivered. Returns one result per id.
    ///
    /// In an ordered queue the group goes on where the message was its head, whatever `on_dead` is.
    /// Messages of an app's queue are refused unless the app has such an end.
    async fn discard(&self, ids: &[MessageId], by: &By) -> Result<Vec<MoveResult>>;

    /// Cancels ready and waiting messages, due or not: as a discard, before they are sent. Returns one
    /// result per id. A leased message is refused: its lease decides.
    async fn cancel(&self, ids: &[MessageId], by: &By) -> Result<Vec<MoveResult>>;

    /// Discards or cancels the head of a group of an ordered queue, so that the group goes on.
    ///
    /// `None`: the group has no head, so nothing of it is ready, leased, held or blocked by a dead
    /// message. A queue that is not ordered is `InvalidInput`.
    async fn skip(&self, queue: &QueueName, group: &str, by: &By) -> Result<Option<MoveResult>>;

    /// Ends the lease whose token begins with `prefix` as if it had expired: its messages come back,
    /// and what its holder reports from now on is a late result.
    ///
    /// None is `UnknownLease`; more than one is `InvalidInput`, and nothing is written. The record of
    /// it names the lease and its owner beside the reason, which must leave room for them.
    async fn end_lease(&self, prefix: &TokenPrefix, by: &By) -> Result<EndedLease>;

    /// Returns a message with its payload, and records the access in the audit.
    async fn reveal(&self, id: MessageId, by: &By) -> Result<Option<Message>>;

    /// Enqueues a copy of a message as a new one, with another payload if one is given, and returns its
    /// id. `None`: there is no such message.
    ///
    /// The copy has the queue, the group and the headers of the message, no key, and the header
    /// `consign_resent_from` with its id. Where the message is does not matter, and it stays there. The
    /// record names the copy before the reason, which must leave room for it. Rejected as an enqueue
    /// would be; an erased message, whatever payload is given, is `InvalidInput`.
    async fn resend(
        &self,
        id: MessageId,
        payload: Option<&Payload>,
        by: &By,
    ) -> Result<Option<MessageId>>;
}

/// Moving messages by filter, step by step: an operator starts and stops a redrive, any process
/// steps it.
#[async_trait]
pub trait Redrives: Send + Sync {
    /// Starts to move the messages a plan covers. Nothing is moved yet.
    ///
    /// Only what is dead now is requeued or discarded, and only what is enqueued now is cancelled, if
    /// it is ready or waiting when the redrive comes to it. An unknown queue is `UnknownQueue`; the
    /// queue of an app that has no such end is `InvalidInput`; the reason must leave room for the
    /// redrive's number, which each move is recorded with.
    async fn start_redrive(&self, plan: &RedrivePlan, by: &By) -> Result<Redrive>;

    /// Takes the next step of a running redrive: up to `limit` messages (1 to 1,000) by ascending
    /// id, within its rate. `None`: nothing to do now.
    ///
    /// The moves, their records and how far the redrive has come are one transaction. Any number of
    /// processes may step: a redrive takes one step at a time, and no message twice.
    async fn step_redrive(&self, limit: u32) -> Result<Option<Redrive>>;

    /// Stops a running redrive after the step it is in. No effect on one that is not running.
    async fn stop_redrive(&self, id: RedriveId, by: &By) -> Result<Redrive>;

    /// Resumes a stopped redrive from its cursor. No effect on one that is not stopped.
    async fn resume_redrive(&self, id: RedriveId, by: &By) -> Result<Redrive>;

    /// Which dead messages a redrive of this plan would move first if it were started now, by ascending
    /// id as it goes; at most `limit`, and at most 1,000. None for one that cancels.
    async fn first_dead(&self, plan: &RedrivePlan, limit: u32) -> Result<Vec<DeadLetter>>;

    /// The same of ready and waiting messages, for a redrive that cancels. None for any other.
    async fn first_open(&self, plan: &RedrivePlan, limit: u32) -> Result<Vec<MessageSummary>>;

    /// One redrive.
    async fn redrive(&self, id: RedriveId) -> Result<Option<Redrive>>;

    /// Redrives, newest first, at most `limit`, and at most 1,000.
    async fn redrives(&self, limit: u32) -> Result<Vec<Redrive>>;
}

/// Messages that are enqueued again and again: an operator keeps schedules, any process takes their
/// ticks.
///
/// The store knows nothing of cron expressions and time zones: the caller computes ticks from them,
/// and the store takes what was computed from the schedule as it still is.
#[async_trait]
pub trait Schedules: Send + Sync {
    /// Creates a schedule whose next tick is `next_at`, or changes one.
    ///
    /// A schedule that keeps its expression and time zone keeps its next tick too, so that no tick is
    /// lost or repeated by a change of the rest. Whether it is paused stays. Rejected as
    /// the messages would be: an unknown queue, a payload that the queue does not take, a queue of an
    /// app that takes no messages of others.
    async fn put_schedule(
        &self,
        name: &ScheduleName,
        plan: &SchedulePlan,
        next_at: Timestamp,
        by: &By,
    ) -> Result<Schedule>;

    /// Removes a schedule; its messages stay. Returns what it was.
    async fn remove_schedule(&self, name: &ScheduleName, by: &By) -> Result<Schedule>;

    /// Stops the ticks of a schedule. Pausing twice keeps the first time.
    async fn pause_schedule(&self, name: &ScheduleName, by: &By) -> Result<Schedule>;

    /// Resumes the ticks of a schedule. Those that passed meanwhile are missed.
    async fn resume_schedule(&self, name: &ScheduleName, by: &By) -> Result<Schedule>;

    /// Enqueues the message of a schedule now, paused or not. Its ticks stay as they are.
    async fn run_schedule(&self, name: &ScheduleName, by: &By) -> Result<Schedule>;

    /// Schedules that are not paused, the earliest next tick first, those after `after`; at most
    /// `limit`, and at most 1,000.
    async fn upcoming(&self, after: Option<&NextTick>, limit: u32) -> Result<Upcoming>;

    /// Enqueues the messages of due ticks and moves the next tick on.
    ///
    /// The messages and the next tick are one transaction, and it is taken only where the schedule is
    /// as the plan's `from` says, is not paused, and every tick is due. Else `None` and nothing is
    /// written: of many processes with the same plan one takes it. Missed ticks are recorded in the audit.
    async fn tick(&self, plan: &TickPlan) -> Result<Option<Schedule>>;

    /// One schedule.
    async fn schedule(&self, name: &ScheduleName) -> Result<Option<Schedule>>;

    /// Schedules by name, those after `after`; at most `limit`, and at most 1,000.
    async fn schedules(&self, after: Option<&ScheduleName>, limit: u32) -> Result<Vec<Schedule>>;
}

/// Alerts: messages about a queue in the queue that its policy names (`alert_queue`).
///
/// What they are about is recorded where it happens, in the same transaction: a death, a lease that
/// ends. Any process steps.
#[async_trait]
pub trait Alerts: Send + Sync {
    /// Records that the circuit breaker of the queue's sink opened, and the code of the failure that opened
    /// it. Nothing is recorded about a queue without alerts.
    async fn record_breaker_open(&self, queue: &QueueName, code: Option<&str>) -> Result<()>;

    /// Counts up to `limit` records of events (1 to 1,000), looks for queues older than their limit, and
    /// enqueues the alerts that are due: at most one per queue, reason, code and interval, with the number
    /// of events since the one before.
    ///
    /// Counting and enqueueing are one transaction, so nothing is lost or counted twice, however many
    /// processes step. An alert that its queue does not take is kept, and holds up no other.
    async fn step_alerts(&self, limit: u32) -> Result<AlertStep>;
}

/// Removing the content of messages, for personal data.
#[async_trait]
pub trait Erase: Send + Sync {
    /// Erases delivered, dead and discarded messages: payload, headers, details and results go; the digest of
    /// the payload, the history, the key, the group, and who erased it and why stay. Recorded in the audit.
    ///
    /// Returns a result per message, by ascending id, at most 1,000: for more messages of a correlation id
    /// call again with `after`. A target by key or correlation id that matches no message has none.
    /// Repeating is harmless.
    ///
    /// An erased message stays where it is: it cannot be requeued, and late results about it are kept
    /// without detail and result. The app of a queue erases its own rows in the same transaction, and may
    /// keep members of results. A repeated key is compared as before. A departure that has removed
    /// nothing of its messages yet begins again.
    async fn erase(&self, target: &ErasureTarget, by: &By) -> Result<Vec<ErasureResult>>;

    /// Erasures that the archive is still to be cleared of, by id, at most `limit`: it may hold a message
    /// that a departure archived and did not remove.
    async fn due_erasures(&self, limit: u32) -> Result<Vec<(MessageId, Erasure)>>;

    /// Records that the archive is cleared of these erasures. A step of the maintenance: checks its token.
    async fn record_cleared(&self, token: Token, ids: &[MessageId]) -> Result<Step<()>>;
}

/// How history leaves: a window of ids at a time, in steps that can be repeated after a crash.
///
/// A message may leave when it is delivered, dead or discarded and its last event (attempt, late result,
/// operator's action) is older than its queue keeps such messages. Messages of an app's queue stay.
/// One process at a time takes these steps, under a lease of its own; every step checks its token.
#[async_trait]
pub trait Retain: Send + Sync {
    /// Leases the maintenance for `ttl`, or renews the lease of `token`, which stays the same.
    /// `None`: another process holds it.
    async fn lease_maintenance(
        &self,
        owner: &str,
        token: Option<Token>,
        ttl: Duration,
    ) -> Result<Option<Token>>;

    /// Prepares what comes next: PostgreSQL creates ranges of `messages` ids ahead of those in use,
    /// and ends a range whose first message is older than `age`; with an age of zero any range that
    /// has messages. Returns how many ranges there are.
    async fn prepare_ranges(&self, token: Token, messages: u64, age: Duration)
    -> Result<Step<u32>>;

    /// Returns the departure under way, or begins one: the next window with messages that may
    /// leave. `None`: none was found. A call may look at a part of the store; the next one goes on.
    /// By size, it looks from the oldest message on.
    ///
    /// Without `has_archive`, messages of queues that require an archive stay, and a departure under
    /// way that is to be archived is given up. If no others may leave, the call is refused
    /// (`NoArchive`).
    ///
    /// A departure that is [`Copying`](crate::DepartureState::Copying) has no fixed messages yet:
    /// repeat the call.
    async fn begin_departure(
        &self,
        token: Token,
        cause: DepartureCause,
        has_archive: bool,
    ) -> Result<Step<Option<Departure>>>;

    /// The messages of a departure with everything recorded about them, by id, those after
    /// `after`; at most `limit`, and at most 1,000, fewer where they are large. An empty page is the
    /// end, and the answer for a departure that is unknown or over.
    async fn departing(
        &self,
        id: DepartureId,
        after: Option<MessageId>,
        limit: u32,
    ) -> Result<Vec<Record>>;

    /// Records that an archive holds the messages of a departure and was verified; `archive` names it.
    /// No effect on one whose messages are being removed.
    async fn record_archive(
        &self,
        token: Token,
        id: DepartureId,
        archive: &str,
    ) -> Result<Step<()>>;

    /// Removes messages of a departure, as many as fit into a short transaction, and maybe none.
    /// Repeat until it is over. A key stays; the departure is recorded in the audit, once.
    ///
    /// A departure whose messages have changed since it began is given up (`Changed`), and so is
    /// refused by that name one that was given up before; one that is over stays over.
    async fn depart(&self, token: Token, id: DepartureId) -> Result<Step<Progress>>;

    /// Removes up to `limit` keys of messages that have left, where their queue keeps keys no longer.
    /// Returns how many; repeat until there is none.
    async fn forget_keys(&self, token: Token, limit: u32) -> Result<Step<u64>>;

    /// The history of every queue, by name. Looks at every message: for people, not for hot paths.
    ///
    /// Its totals (enqueued, delivered, dead, discarded, erased, departed) never go backwards: what leaves,
    /// is purged, requeued or discarded is counted as it goes.
    async fn queue_history(&self) -> Result<Vec<QueueHistory>>;

    /// How large the database is.
    async fn database_size(&self) -> Result<DatabaseSize>;

    /// Records how a pass of the maintenance ended, and a sample of the history; of the samples of an
    /// hour the last one stays, for [`SAMPLES_RETENTION`](crate::SAMPLES_RETENTION).
    async fn record_pass(&self, token: Token, end: &str) -> Result<Step<()>>;

    /// What passes have recorded. Reads little: for metrics and pages.
    async fn growth(&self) -> Result<Growth>;
}

/// What is recorded about a message, and what is leased.
#[async_trait]
pub trait Read: Send + Sync {
    /// A message, its state, and the reason for it.
    async fn explain(&self, id: MessageId) -> Result<Option<Explanation>>;

    /// Every attempt of a message, first to last.
    async fn history(&self, id: MessageId) -> Result<Vec<Attempt>>;

    /// The late results of a message, in order of arrival.
    async fn late(&self, id: MessageId) -> Result<Vec<LateResult>>;

    /// Every lease, oldest first, at most `limit`.
    async fn leases(&self, limit: u32) -> Result<Vec<LeaseView>>;

    /// Operator actions, newest first, at most `limit`; of one message if given, and older than
    /// the entry `before` if given.
    async fn audit(
        &self,
        id: Option<MessageId>,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<AuditEntry>>;
}

/// Pages of messages by filter.
#[async_trait]
pub trait Browse: Send + Sync {
    /// Messages by id, newest first, below `before`; at most `limit`, and at most 1,000.
    async fn list(
        &self,
        filter: &Filter,
        before: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<MessageSummary>>;

    /// Dead messages by id, newest first. Uses only `queue` and `code` of the filter.
    async fn dead(
        &self,
        filter: &Filter,
        before: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<DeadLetter>>;

    /// How many dead messages fit; stops counting at `at_most`. Uses the same filter as `dead`.
    async fn count_dead(&self, filter: &Filter, at_most: u64) -> Result<u64>;

    /// The newest dead messages that fit, `at_most` of them, grouped by queue and code: the largest
    /// group first, at most 1,000 groups. Uses the same filter as `dead`.
    async fn dead_causes(&self, filter: &Filter, at_most: u64) -> Result<Vec<DeadCause>>;
}

/// Which processes live, what they did, and whether the store is sound.
#[async_trait]
pub trait Watch: Send + Sync {
    /// Records that a process is alive, and what it did since its last heartbeat: by minute for
    /// [`STATS_RETENTION`](crate::STATS_RETENTION), by hour for
    /// [`HOURS_RETENTION`](crate::HOURS_RETENTION). For the dashboard; nothing else depends on it.
    async fn heartbeat(&self, heartbeat: &Heartbeat) -> Result<()>;

    /// Records what is due in every queue, at most once a minute however many processes call it: of
    /// [`SAMPLED_QUEUES_MAX`](crate::SAMPLED_QUEUES_MAX) queues. Kept as queue stats are.
    async fn sample_backlog(&self) -> Result<()>;

    /// What was done in the last `minutes`, the current one included, added up by `step` of them
    /// (1 to 1,440), by queue and time; of one queue if given. Where nothing was done or due there is
    /// nothing. A step of whole hours reads stats by hour: the hour in which the time begins is whole.
    async fn queue_stats(
        &self,
        queue: Option<&QueueName>,
        minutes: u32,
        step: u32,
    ) -> Result<Vec<QueueMinutes>>;

    /// The processes with a recent heartbeat, by name.
    async fn processes(&self) -> Result<Vec<Process>>;

    /// Returns if the database answers and has the store's tables. For probes, which must get an
    /// answer however busy the other operations are.
    async fn probe(&self) -> Result<()>;

    /// Checks the conservation law and every other invariant; empty when all is well.
    async fn doctor(&self) -> Result<Vec<Finding>>;
}

/// What needs an operator, and what operators acknowledged of it.
#[async_trait]
pub trait Problems: Send + Sync {
    /// What shows in no count: blocked groups, alerts that are not taken, overdue schedules, at most
    /// [`ATTENTION_MAX`](crate::ATTENTION_MAX) each, and the acknowledgements that have not ended.
    async fn attention(&self) -> Result<Attention>;

    /// Records that an operator knows a problem and until when, instead of what was recorded about it
    /// before. Recorded in the audit, with the problem beside the reason, which must leave room for it.
    async fn acknowledge(&self, mark: &ProblemMark, by: &By) -> Result<Acknowledgement>;

    /// Ends an acknowledgement. `false`: there is none, and nothing is recorded.
    async fn reopen(&self, problem: &str, by: &By) -> Result<bool>;
}

/// Everything the engine needs of a database. A type that has the traits above is a `Store`.
pub trait Store:
    Queues
    + Produce
    + Claims
    + Settle
    + Operate
    + Redrives
    + Schedules
    + Alerts
    + Erase
    + Retain
    + Read
    + Browse
    + Watch
    + Problems
{
}

impl<
    S: Queues
        + Produce
        + Claims
        + Settle
        + Operate
        + Redrives
        + Schedules
        + Alerts
        + Erase
        + Retain
        + Read
        + Browse
        + Watch
        + Problems,
> Store for S
{
}
