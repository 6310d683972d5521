//! An instance of the reference store whose clock differs from the others'.

use std::time::Duration;

use async_trait::async_trait;
use consign_kernel::{
    Attempt, AuditEntry, BeginAnswer, By, Claim, Counts, Cursor, DeadLetter, EndedLease, Enqueued,
    Expired, Explanation, Filter, Finding, LateResult, Lease, LeaseView, Listed, ManualClock,
    Message, MessageId, Moved, NewMessage, Page, Process, Pulse, Queue, QueueMinutes, QueueName,
    QueuePolicy, Redrive, RedriveId, RedrivePlan, ReferenceStore, ReleaseAnswer, RenewAnswer,
    Report, Resolution, Result, SettleAnswer, Store, Token, TokenPrefix, Totals,
};
use jiff::SignedDuration;

/// The same state through a clock that is off by `skew`.
pub(super) struct Skewed {
    pub(super) store: ReferenceStore,
    pub(super) clock: ManualClock,
    pub(super) skew: SignedDuration,
}

/// Writes each operation as: move the clock, do it, move the clock back.
macro_rules! skewed {
    ($(fn $name:ident($($argument:ident: $kind:ty),*) -> $answer:ty;)*) => {
        #[async_trait]
        impl Store for Skewed {
            $(async fn $name(&self, $($argument: $kind),*) -> Result<$answer> {
                self.clock.advance(self.skew);
                let answer = self.store.$name($($argument),*).await;
                self.clock.advance(-self.skew);
                answer
            })*
        }
    };
}

skewed! {
    fn put_queue(name: &QueueName, policy: &QueuePolicy, by: &By) -> Queue;
    fn queue(name: &QueueName) -> Option<Queue>;
    fn queues(after: Option<&QueueName>, limit: u32) -> Vec<(Queue, Counts)>;
    fn queue_counts(name: &QueueName) -> Option<(Queue, Counts)>;
    fn totals() -> Totals;
    fn pause(name: &QueueName, by: &By) -> Queue;
    fn resume(name: &QueueName, by: &By) -> Queue;
    fn enqueue(messages: &[NewMessage]) -> Vec<Enqueued>;
    fn claim(claim: &Claim) -> Option<Lease>;
    fn renew(token: Token, ttl: Duration) -> RenewAnswer;
    fn release(token: Token) -> ReleaseAnswer;
    fn begin(token: Token, ids: &[MessageId]) -> BeginAnswer;
    fn settle(token: Token, reports: &[Report]) -> SettleAnswer;
    fn witness(token: Token, reports: &[Report]) -> Vec<MessageId>;
    fn expire(limit: u32) -> Expired;
    fn wait(queue: &QueueName, timeout: Duration) -> bool;
    fn requeue(ids: &[MessageId], by: &By) -> Vec<Moved>;
    fn hold(ids: &[MessageId], by: &By) -> Vec<Moved>;
    fn unhold(ids: &[MessageId], by: &By) -> Vec<Moved>;
    fn resolve(ids: &[MessageId], resolution: &Resolution, by: &By) -> Vec<Moved>;
    fn start_redrive(plan: &RedrivePlan, by: &By) -> Redrive;
    fn step_redrive(limit: u32) -> Option<Redrive>;
    fn stop_redrive(id: RedriveId, by: &By) -> Redrive;
    fn resume_redrive(id: RedriveId, by: &By) -> Redrive;
    fn end_lease(prefix: &TokenPrefix, by: &By) -> EndedLease;
    fn reveal(id: MessageId, by: &By) -> Option<Message>;
    fn pulse(pulse: &Pulse) -> ();
    fn pulses(queue: Option<&QueueName>, minutes: u32, step: u32) -> Vec<QueueMinutes>;
    fn processes() -> Vec<Process>;
    fn probe() -> ();
    fn explain(id: MessageId) -> Option<Explanation>;
    fn history(id: MessageId) -> Vec<Attempt>;
    fn late(id: MessageId) -> Vec<LateResult>;
    fn list(filter: &Filter, before: Option<Cursor>, limit: u32) -> Page<Listed>;
    fn dead(filter: &Filter, before: Option<Cursor>, limit: u32) -> Page<DeadLetter>;
    fn count_dead(filter: &Filter, at_most: u64) -> u64;
    fn first_dead(plan: &RedrivePlan, limit: u32) -> Vec<DeadLetter>;
    fn redrive(id: RedriveId) -> Option<Redrive>;
    fn redrives(limit: u32) -> Vec<Redrive>;
    fn leases(limit: u32) -> Vec<LeaseView>;
    fn audit(id: Option<MessageId>, before: Option<i64>, limit: u32) -> Vec<AuditEntry>;
    fn doctor() -> Vec<Finding>;
}
