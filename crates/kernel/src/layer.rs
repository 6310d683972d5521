//! A store around another: something happens before and after every operation.

use std::{ops::Deref, sync::Arc, time::Duration};

use async_trait::async_trait;
use jiff::Timestamp;

use crate::{
    Acknowledgement, AlertStep, Alerts, Attempt, Attention, AuditEntry, BeginAnswer, Browse, By,
    Claim, Claims, Counts, Cursor, DatabaseSize, DeadCause, DeadLetter, Departure, DepartureCause,
    DepartureId, EndedLease, Erase, Erasure, ErasureResult, ErasureTarget, Expiry, Explanation,
    Filter, Finding, Growth, Heartbeat, LateResult, Lease, LeaseView, Message, MessageId,
    MessageSummary, MoveResult, NewMessage, NextTick, Operate, Page, Payload, ProblemMark,
    Problems, Process, Produce, Progress, Queue, QueueHistory, QueueMinutes, QueueName,
    QueuePolicy, Queues, Read, Receipt, Record, Redrive, RedriveId, RedrivePlan, Redrives,
    ReleaseAnswer, RenewAnswer, Report, Resolution, Retain, Schedule, ScheduleName, SchedulePlan,
    Schedules, SendSlots, Settle, SettleAnswer, Step, Store, TickPlan, Token, TokenPrefix, Totals,
    Upcoming, Watch, error::Result,
};

/// What happens around the operations of another store, named as in the traits.
#[async_trait]
pub trait Layer: Send + Sync {
    /// The other store.
    fn inner(&self) -> &dyn Store;

    /// Runs first; with an error the operation is not passed on.
    async fn before(&self, operation: &'static str) -> Result<()>;

    /// Runs last, whether the operation succeeded or not; its error hides the answer.
    async fn after(&self, operation: &'static str, succeeded: bool) -> Result<()>;
}

/// A layer as a store. Everything else of the layer is reached through it.
#[derive(Debug)]
pub struct LayeredStore<L>(pub L);

impl<L: From<Arc<dyn Store>>> LayeredStore<L> {
    /// A layer around a store, with what the layer has by default.
    pub fn new(inner: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self(L::from(inner)))
    }
}

impl<L> Deref for LayeredStore<L> {
    type Target = L;

    fn deref(&self) -> &L {
        &self.0
    }
}

macro_rules! pass_on {
    ($($name:ident { $($operation:ident($($argument:ident: $kind:ty),*) -> $answer:ty;)* })*) => {
        $(#[async_trait]
        impl<L: Layer> $name for LayeredStore<L> {
            $(async fn $operation(&self, $($argument: $kind),*) -> Result<$answer> {
                self.before(stringify!($operation)).await?;
                let answer = self.inner().$operation($($argument),*).await;
                self.after(stringify!($operation), answer.is_ok()).await?;
                answer
            })*
        })*
    };
}

pass_on! {
    Queues {
        put_queue(name: &QueueName, policy: &QueuePolicy, by: &By) -> Queue;
        pause(name: &QueueName, by: &By) -> Queue;
        resume(name: &QueueName, by: &By) -> Queue;
        queue(name: &QueueName) -> Option<Queue>;
        queues(after: Option<&QueueName>, limit: u32) -> Vec<(Queue, Counts)>;
        queue_counts(name: &QueueName) -> Option<(Queue, Counts)>;
        totals() -> Totals;
    }
    Produce {
        enqueue(messages: &[NewMessage]) -> Vec<Receipt>;
    }
    Claims {
        may_work(name: &QueueName) -> bool;
        wait(queue: &QueueName, timeout: Duration) -> bool;
        claim(claim: &Claim) -> Option<Lease>;
        reserve_slots(queue: &QueueName, count: u32) -> Option<SendSlots>;
        renew(token: Token, ttl: Duration) -> RenewAnswer;
        release(token: Token) -> ReleaseAnswer;
        begin(token: Token, ids: &[MessageId]) -> BeginAnswer;
        expire(limit: u32) -> Expiry;
    }
    Settle {
        settle(token: Token, reports: &[Report]) -> SettleAnswer;
        record_late(token: Token, reports: &[Report]) -> Vec<MessageId>;
    }
    Operate {
        requeue(ids: &[MessageId], by: &By) -> Vec<MoveResult>;
        hold(ids: &[MessageId], by: &By) -> Vec<MoveResult>;
        unhold(ids: &[MessageId], by: &By) -> Vec<MoveResult>;
        resolve(ids: &[MessageId], resolution: &Resolution, by: &By) -> Vec<MoveResult>;
        discard(ids: &[MessageId], by: &By) -> Vec<MoveResult>;
        cancel(ids: &[MessageId], by: &By) -> Vec<MoveResult>;
        skip(queue: &QueueName, group: &str, by: &By) -> Option<MoveResult>;
        end_lease(prefix: &TokenPrefix, by: &By) -> EndedLease;
        reveal(id: MessageId, by: &By) -> Option<Message>;
        resend(id: MessageId, payload: Option<&Payload>, by: &By) -> Option<MessageId>;
    }
    Redrives {
        start_redrive(plan: &RedrivePlan, by: &By) -> Redrive;
        step_redrive(limit: u32) -> Option<Redrive>;
        stop_redrive(id: RedriveId, by: &By) -> Redrive;
        resume_redrive(id: RedriveId, by: &By) -> Redrive;
        first_dead(plan: &RedrivePlan, limit: u32) -> Vec<DeadLetter>;
        first_open(plan: &RedrivePlan, limit: u32) -> Vec<MessageSummary>;
        redrive(id: RedriveId) -> Option<Redrive>;
        redrives(limit: u32) -> Vec<Redrive>;
    }
    Schedules {
        put_schedule(name: &ScheduleName, plan: &SchedulePlan, next_at: Timestamp, by: &By) -> Schedule;
        remove_schedule(name: &ScheduleName, by: &By) -> Schedule;
        pause_schedule(name: &ScheduleName, by: &By) -> Schedule;
        resume_schedule(name: &ScheduleName, by: &By) -> Schedule;
        run_schedule(name: &ScheduleName, by: &By) -> Schedule;
        upcoming(after: Option<&NextTick>, limit: u32) -> Upcoming;
        tick(plan: &TickPlan) -> Option<Schedule>;
        schedule(name: &ScheduleName) -> Option<Schedule>;
        schedules(after: Option<&ScheduleName>, limit: u32) -> Vec<Schedule>;
    }
    Alerts {
        record_breaker_open(queue: &QueueName, code: Option<&str>) -> ();
        step_alerts(limit: u32) -> AlertStep;
    }
    Erase {
        erase(target: &ErasureTarget, by: &By) -> Vec<ErasureResult>;
        due_erasures(limit: u32) -> Vec<(MessageId, Erasure)>;
        record_cleared(token: Token, ids: &[MessageId]) -> Step<()>;
    }
    Retain {
        lease_maintenance(owner: &str, token: Option<Token>, ttl: Duration) -> Option<Token>;
        prepare_ranges(token: Token, messages: u64, age: Duration) -> Step<u32>;
        begin_departure(
            token: Token, cause: DepartureCause, has_archive: bool
        ) -> Step<Option<Departure>>;
        departing(id: DepartureId, after: Option<MessageId>, limit: u32) -> Vec<Record>;
        record_archive(token: Token, id: DepartureId, archive: &str) -> Step<()>;
        depart(token: Token, id: DepartureId) -> Step<Progress>;
        forget_keys(token: Token, limit: u32) -> Step<u64>;
        queue_history() -> Vec<QueueHistory>;
        database_size() -> DatabaseSize;
        record_pass(token: Token, end: &str) -> Step<()>;
        growth() -> Growth;
    }
    Read {
        explain(id: MessageId) -> Option<Explanation>;
        history(id: MessageId) -> Vec<Attempt>;
        late(id: MessageId) -> Vec<LateResult>;
        leases(limit: u32) -> Vec<LeaseView>;
        audit(id: Option<MessageId>, before: Option<i64>, limit: u32) -> Vec<AuditEntry>;
    }
    Browse {
        list(filter: &Filter, before: Option<Cursor>, limit: u32) -> Page<MessageSummary>;
        dead(filter: &Filter, before: Option<Cursor>, limit: u32) -> Page<DeadLetter>;
        count_dead(filter: &Filter, at_most: u64) -> u64;
        dead_causes(filter: &Filter, at_most: u64) -> Vec<DeadCause>;
    }
    Watch {
        heartbeat(heartbeat: &Heartbeat) -> ();
        sample_backlog() -> ();
        queue_stats(queue: Option<&QueueName>, minutes: u32, step: u32) -> Vec<QueueMinutes>;
        processes() -> Vec<Process>;
        probe() -> ();
        doctor() -> Vec<Finding>;
    }
    Problems {
        attention() -> Attention;
        acknowledge(mark: &ProblemMark, by: &By) -> Acknowledgement;
        reopen(problem: &str, by: &By) -> bool;
    }
}
