//! The seam between the kernel and a database.

use std::time::Duration;

use async_trait::async_trait;

use crate::{
    Attempt, AuditEntry, BeginAnswer, By, Claim, Counts, Cursor, DeadLetter, EndedLease, Enqueued,
    Expired, Explanation, Filter, Finding, LateResult, Lease, LeaseView, Listed, Message,
    MessageId, Moved, NewMessage, Page, Process, Pulse, Queue, QueueMinutes, QueueName,
    QueuePolicy, Redrive, RedriveId, RedrivePlan, ReleaseAnswer, RenewAnswer, Report, Resolution,
    SettleAnswer, Token, TokenPrefix, Totals, error::Result,
};

/// Everything the engine asks of a database.
///
/// Each operation is one transaction. All times are the database's clock, read when the operation
/// runs; callers pass durations, never instants. `reference::Reference` says in code what each
/// operation does; the conformance suite holds every implementation to it.
#[async_trait]
pub trait Store: Send + Sync {
    // --- queues

    /// Creates a queue or changes its policy.
    ///
    /// `ordered` and `on_dead` cannot change while the queue has unfinished messages or a group
    /// blocked by a dead one (`QueueNotEmpty`).
    async fn put_queue(&self, name: &QueueName, policy: &QueuePolicy, by: &By) -> Result<Queue>;

    /// One queue.
    async fn queue(&self, name: &QueueName) -> Result<Option<Queue>>;

    /// Whether whoever is connected may work a queue; everybody may where the database keeps nobody out.
    async fn may_work(&self, _name: &QueueName) -> Result<bool> {
        Ok(true)
    }

    /// Queues with their counts by name, those after `after`; at most `limit`, and at most 1,000.
    async fn queues(&self, after: Option<&QueueName>, limit: u32) -> Result<Vec<(Queue, Counts)>>;

    /// One queue with its counts.
    async fn queue_counts(&self, name: &QueueName) -> Result<Option<(Queue, Counts)>>;

    /// How many queues there are, and what is in all of them together.
    async fn totals(&self) -> Result<Totals>;

    /// Stops claims from the queue; leases in flight may finish. Pausing twice keeps the first time.
    async fn pause(&self, name: &QueueName, by: &By) -> Result<Queue>;

    /// Lets the queue be claimed again.
    async fn resume(&self, name: &QueueName, by: &By) -> Result<Queue>;

    // --- producing

    /// Enqueues all messages or none, in a transaction of its own.
    ///
    /// Each store also offers `enqueue_in` for the caller's own transaction. A repeated key with
    /// the same payload and group answers with the first message; with another it is
    /// `KeyConflict` and nothing is written.
    async fn enqueue(&self, messages: &[NewMessage]) -> Result<Vec<Enqueued>>;

    // --- working

    /// Leases the oldest due messages of a queue, or answers `None` when there are none.
    ///
    /// Takes no more bytes than the queue's `claim_max_bytes` and the claim allow, but one message at
    /// least; what would follow stays where it is. A longer `ttl` than the queue's `lease_ttl_max_ms`
    /// is `InvalidInput`.
    ///
    /// Takes back what has expired in the queue first. A run that came back from an expiry is
    /// leased alone, so that a poison message ends up alone in its lease.
    async fn claim(&self, claim: &Claim) -> Result<Option<Lease>>;

    /// Prolongs a lease to `ttl` from now. Never shortens it. More than the queue's
    /// `lease_ttl_max_ms` is `InvalidInput`.
    async fn renew(&self, token: Token, ttl: Duration) -> Result<RenewAnswer>;

    /// Gives back the messages of a lease that have not begun. No attempt is recorded.
    async fn release(&self, token: Token) -> Result<ReleaseAnswer>;

    /// Records that the transport call of these messages is about to start.
    async fn begin(&self, token: Token, ids: &[MessageId]) -> Result<BeginAnswer>;

    /// Records outcomes under a live lease.
    ///
    /// Fenced: with an unknown token or an expired lease nothing is written. Naming a message
    /// twice is `InvalidInput`. The reports are cut to size first (`Report::bounded`).
    async fn settle(&self, token: Token, reports: &[Report]) -> Result<SettleAnswer>;

    /// Keeps results that came after their lease had ended, as evidence, never as outcomes.
    ///
    /// A delivery among them makes every later claim of its message `in_doubt`: somebody has to ask.
    /// Kept where the token once held the message and lost it: its expired attempt names the token,
    /// or the ended lease has not been taken back yet. Under a live lease nothing is kept; settle
    /// there. The first result of a token about a message stands. Answers which messages have one
    /// on record now, in the order of the reports, so that repeating is harmless. Naming a message
    /// twice is `InvalidInput`. The reports are cut to size first (`Report::bounded`).
    async fn witness(&self, token: Token, reports: &[Report]) -> Result<Vec<MessageId>>;

    /// Ends up to `limit` expired leases of any queue, oldest first.
    async fn expire(&self, limit: u32) -> Result<Expired>;

    /// Returns when the queue may have work, or after `timeout` at the latest.
    ///
    /// A hint, not a promise: it may return early, and a wake-up may be lost. `true` means woken.
    async fn wait(&self, queue: &QueueName, timeout: Duration) -> Result<bool>;

    // --- operating

    /// Gives dead messages a fresh set of tries. Answers by id, each id once.
    async fn requeue(&self, ids: &[MessageId], by: &By) -> Result<Vec<Moved>>;

    /// Parks ready and waiting messages. Answers by id, each id once.
    ///
    /// In an ordered queue a held message keeps its place: later ones of its group wait behind it.
    async fn hold(&self, ids: &[MessageId], by: &By) -> Result<Vec<Moved>>;

    /// Puts held messages back with the tries they had: one held on its last try gets one more.
    /// Answers by id, each id once.
    async fn unhold(&self, ids: &[MessageId], by: &By) -> Result<Vec<Moved>>;

    /// Records what has become of held messages, as a person found out. Answers by id, each id once.
    ///
    /// The person takes and settles a lease in one step, so that the attempt has a fence and an
    /// owner like any other. Its code is `resolved`, its detail the reason. Where the app
    /// of a queue needs a result, a call without one is `InvalidInput`, nothing is written.
    async fn resolve(
        &self,
        ids: &[MessageId],
        resolution: &Resolution,
        by: &By,
    ) -> Result<Vec<Moved>>;

    /// Starts to requeue the dead messages a plan covers. Nothing is moved yet.
    ///
    /// Only what is dead now is taken. An unknown queue is `UnknownQueue`; the reason must leave
    /// room for the redrive's number, which each requeue is recorded with.
    async fn start_redrive(&self, plan: &RedrivePlan, by: &By) -> Result<Redrive>;

    /// Takes the next step of a running redrive: up to `limit` messages (1 to 1,000) by ascending
    /// id, within its rate. `None`: nothing to do now.
    ///
    /// The moves, their records and how far the redrive has come are one transaction. Any number of
    /// processes may step: a redrive takes one step at a time, and no message twice.
    async fn step_redrive(&self, limit: u32) -> Result<Option<Redrive>>;

    /// Stops a running redrive after the step it is in. One that is not running stays as it is.
    async fn stop_redrive(&self, id: RedriveId, by: &By) -> Result<Redrive>;

    /// Lets a stopped redrive go on from where it was. One that is not stopped stays as it is.
    async fn resume_redrive(&self, id: RedriveId, by: &By) -> Result<Redrive>;

    /// Ends the lease whose token begins with `prefix` as if it had expired: its messages come back,
    /// and what its holder reports from now on is a late result.
    ///
    /// None is `UnknownLease`; more than one is `InvalidInput`, and nothing is written. The record of
    /// it names the lease and its owner beside the reason, which must leave room for them.
    async fn end_lease(&self, prefix: &TokenPrefix, by: &By) -> Result<EndedLease>;

    /// Shows a message with its payload, and records that somebody looked.
    async fn reveal(&self, id: MessageId, by: &By) -> Result<Option<Message>>;

    // --- watching

    /// Takes note of a process: that it lives, and what it did since its last pulse. Kept for
    /// [`PULSES_KEPT`](crate::PULSES_KEPT), for those who watch; nothing else depends on it.
    async fn pulse(&self, pulse: &Pulse) -> Result<()>;

    /// What was done in the last `minutes`, the current one included, added up by `step` of them
    /// (1 to 60), by queue and time; of one queue if given. Where nothing was done there is nothing.
    async fn pulses(
        &self,
        queue: Option<&QueueName>,
        minutes: u32,
        step: u32,
    ) -> Result<Vec<QueueMinutes>>;

    /// The processes that were heard of lately, by name.
    async fn processes(&self) -> Result<Vec<Process>>;

    /// Returns if the database answers and has the store's tables. For probes, which must get an
    /// answer however busy the other operations are.
    async fn probe(&self) -> Result<()>;

    // --- reading

    /// A message, where it is, and why.
    async fn explain(&self, id: MessageId) -> Result<Option<Explanation>>;

    /// Every attempt of a message, first to last.
    async fn history(&self, id: MessageId) -> Result<Vec<Attempt>>;

    /// Results about a message that came too late, in order of arrival.
    async fn late(&self, id: MessageId) -> Result<Vec<LateResult>>;

    /// Messages by id, newest first, below `before`; at most `limit`, and at most 1,000.
    async fn list(
        &self,
        filter: &Filter,
        before: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<Listed>>;

    /// Dead messages by id, newest first. Only `queue` and `code` of the filter are looked at.
    async fn dead(
        &self,
        filter: &Filter,
        before: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<DeadLetter>>;

    /// How many dead messages fit; stops counting at `at_most`. Looks at what `dead` looks at.
    async fn count_dead(&self, filter: &Filter, at_most: u64) -> Result<u64>;

    /// What a redrive of this plan would requeue first if it were started now, by ascending id as it
    /// goes; at most `limit`, and at most 1,000.
    async fn first_dead(&self, plan: &RedrivePlan, limit: u32) -> Result<Vec<DeadLetter>>;

    /// One redrive.
    async fn redrive(&self, id: RedriveId) -> Result<Option<Redrive>>;

    /// Redrives, newest first, at most `limit`, and at most 1,000.
    async fn redrives(&self, limit: u32) -> Result<Vec<Redrive>>;

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

    /// Checks the conservation law and every other invariant; empty when all is well.
    async fn doctor(&self) -> Result<Vec<Finding>>;
}
