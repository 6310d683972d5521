//! A store that fails when told to.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use consign_kernel::{
    Attempt, AuditEntry, BeginAnswer, By, Certainty, Claim, Counts, Cursor, DeadLetter, EndedLease,
    Enqueued, Error, Expired, Explanation, Filter, Finding, LateResult, Lease, LeaseView, Listed,
    Message, MessageId, Moved, NewMessage, Page, Process, Pulse, Queue, QueueMinutes, QueueName,
    QueuePolicy, Redrive, RedriveId, RedrivePlan, ReleaseAnswer, RenewAnswer, Report, Resolution,
    Result, SettleAnswer, Store, Token, TokenPrefix, Totals,
};
use tokio::sync::Semaphore;

/// What shall go wrong with an operation.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// It does not happen.
    Refused,
    /// It does not happen: another transaction holds what it needs.
    Locked,
    /// It happens, and its reply is lost.
    ReplyLost,
    /// It panics.
    Panics,
    /// It happens once the semaphore lets it.
    Waits(Arc<Semaphore>),
    /// It keeps its thread until the store is mended, or for ten seconds.
    Blocks,
}

/// A store around another, with faults by operation.
pub(crate) struct Faulty {
    inner: Arc<dyn Store>,
    faults: Mutex<HashMap<&'static str, Fault>>,
    calls: Mutex<HashMap<&'static str, usize>>,
}

impl Faulty {
    pub(crate) fn new(inner: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            faults: Mutex::default(),
            calls: Mutex::default(),
        })
    }

    pub(crate) fn inject(&self, operation: &'static str, fault: Fault) {
        self.faults.lock().unwrap().insert(operation, fault);
    }

    pub(crate) fn mend(&self) {
        self.faults.lock().unwrap().clear();
    }

    /// How often an operation was called.
    pub(crate) fn calls(&self, operation: &str) -> usize {
        let calls = self.calls.lock().unwrap();
        calls.get(operation).copied().unwrap_or(0)
    }

    async fn before(&self, operation: &'static str) -> Result<()> {
        *self.calls.lock().unwrap().entry(operation).or_default() += 1;
        let fault = self.faults.lock().unwrap().get(operation).cloned();
        match fault {
            Some(Fault::Refused) => Err(unavailable(operation, Certainty::Definite)),
            Some(Fault::Locked) => Err(Error::Locked {
                attempted: operation,
            }),
            Some(Fault::Panics) => panic!("{operation} panics, as told to"),
            Some(Fault::Waits(gate)) => {
                gate.acquire().await.unwrap().forget();
                Ok(())
            }
            Some(Fault::Blocks) => {
                let since = Instant::now();
                let is_broken = || self.faults.lock().unwrap().contains_key(operation);
                while is_broken() && since.elapsed() < Duration::from_secs(10) {
                    std::thread::yield_now();
                }
                Ok(())
            }
            Some(Fault::ReplyLost) | None => Ok(()),
        }
    }

    fn after(&self, operation: &'static str) -> Result<()> {
        match self.faults.lock().unwrap().get(operation) {
            Some(Fault::ReplyLost) => Err(unavailable(operation, Certainty::Unknown)),
            _ => Ok(()),
        }
    }
}

fn unavailable(attempted: &'static str, certainty: Certainty) -> Error {
    Error::Unavailable {
        attempted,
        certainty,
        source: "the cable is cut (secret-host:5432)".into(),
    }
}

/// Passes each operation on, unless told otherwise.
macro_rules! pass_on {
    ($($operation:ident($($argument:ident: $kind:ty),*) -> $answer:ty;)*) => {
        #[async_trait]
        impl Store for Faulty {
            $(async fn $operation(&self, $($argument: $kind),*) -> Result<$answer> {
                self.before(stringify!($operation)).await?;
                let answer = self.inner.$operation($($argument),*).await?;
                self.after(stringify!($operation))?;
                Ok(answer)
            })*
        }
    };
}

pass_on! {
    put_queue(name: &QueueName, policy: &QueuePolicy, by: &By) -> Queue;
    queue(name: &QueueName) -> Option<Queue>;
    queues(after: Option<&QueueName>, limit: u32) -> Vec<(Queue, Counts)>;
    queue_counts(name: &QueueName) -> Option<(Queue, Counts)>;
    totals() -> Totals;
    pause(name: &QueueName, by: &By) -> Queue;
    resume(name: &QueueName, by: &By) -> Queue;
    enqueue(messages: &[NewMessage]) -> Vec<Enqueued>;
    claim(claim: &Claim) -> Option<Lease>;
    renew(token: Token, ttl: Duration) -> RenewAnswer;
    release(token: Token) -> ReleaseAnswer;
    begin(token: Token, ids: &[MessageId]) -> BeginAnswer;
    settle(token: Token, reports: &[Report]) -> SettleAnswer;
    witness(token: Token, reports: &[Report]) -> Vec<MessageId>;
    expire(limit: u32) -> Expired;
    wait(queue: &QueueName, timeout: Duration) -> bool;
    requeue(ids: &[MessageId], by: &By) -> Vec<Moved>;
    hold(ids: &[MessageId], by: &By) -> Vec<Moved>;
    unhold(ids: &[MessageId], by: &By) -> Vec<Moved>;
    resolve(ids: &[MessageId], resolution: &Resolution, by: &By) -> Vec<Moved>;
    start_redrive(plan: &RedrivePlan, by: &By) -> Redrive;
    step_redrive(limit: u32) -> Option<Redrive>;
    stop_redrive(id: RedriveId, by: &By) -> Redrive;
    resume_redrive(id: RedriveId, by: &By) -> Redrive;
    end_lease(prefix: &TokenPrefix, by: &By) -> EndedLease;
    reveal(id: MessageId, by: &By) -> Option<Message>;
    pulse(pulse: &Pulse) -> ();
    pulses(queue: Option<&QueueName>, minutes: u32, step: u32) -> Vec<QueueMinutes>;
    processes() -> Vec<Process>;
    probe() -> ();
    explain(id: MessageId) -> Option<Explanation>;
    history(id: MessageId) -> Vec<Attempt>;
    late(id: MessageId) -> Vec<LateResult>;
    list(filter: &Filter, before: Option<Cursor>, limit: u32) -> Page<Listed>;
    dead(filter: &Filter, before: Option<Cursor>, limit: u32) -> Page<DeadLetter>;
    count_dead(filter: &Filter, at_most: u64) -> u64;
    first_dead(plan: &RedrivePlan, limit: u32) -> Vec<DeadLetter>;
    redrive(id: RedriveId) -> Option<Redrive>;
    redrives(limit: u32) -> Vec<Redrive>;
    leases(limit: u32) -> Vec<LeaseView>;
    audit(id: Option<MessageId>, before: Option<i64>, limit: u32) -> Vec<AuditEntry>;
    doctor() -> Vec<Finding>;
}
