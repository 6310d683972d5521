//! A store that fails when a test says so, and counts what it is asked.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use consign_kernel::{
    Attempt, AuditEntry, BeginAnswer, By, Certainty, Claim, Counts, Cursor, DeadLetter, EndedLease,
    Enqueued, Error, Expired, Explanation, Filter, Finding, LateResult, Lease, LeaseView, Listed,
    Message, MessageId, Moved, NewMessage, Page, Process, Pulse, Queue, QueueMinutes, QueueName,
    QueuePolicy, Redrive, RedriveId, RedrivePlan, ReleaseAnswer, RenewAnswer, Report, Resolution,
    Result, SettleAnswer, Store, Token, TokenPrefix, Totals,
};

use super::Gate;

/// Another store, with faults.
pub(crate) struct FaultyStore {
    inner: Arc<dyn Store>,
    faults: Mutex<Faults>,
}

#[derive(Default)]
struct Faults {
    is_down: bool,
    /// Operations that are not let through.
    refused: HashSet<&'static str>,
    /// Operations that the database refuses this many times, for a reason of its own.
    forbidden: HashMap<&'static str, usize>,
    /// Operations that happen, but whose next answer is lost.
    unheard: HashSet<&'static str>,
    /// Operations that happen, but whose answers are held back.
    held_back: HashMap<&'static str, Gate>,
    calls: HashMap<&'static str, usize>,
}

impl FaultyStore {
    pub(crate) fn new(inner: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            faults: Mutex::default(),
        })
    }

    /// Nothing is let through from now on, or everything is.
    pub(crate) fn set_down(&self, is_down: bool) {
        self.faults.lock().unwrap().is_down = is_down;
    }

    /// This operation is not let through until allowed again.
    pub(crate) fn refuse(&self, operation: &'static str) {
        self.faults.lock().unwrap().refused.insert(operation);
    }

    pub(crate) fn allow(&self, operation: &'static str) {
        self.faults.lock().unwrap().refused.remove(operation);
    }

    /// The database refuses this operation the next `times`, although it is there.
    pub(crate) fn forbid(&self, operation: &'static str, times: usize) {
        let mut faults = self.faults.lock().unwrap();
        faults.forbidden.insert(operation, times);
    }

    /// The next answer of this operation is lost, after it happened.
    pub(crate) fn lose_answer(&self, operation: &'static str) {
        self.faults.lock().unwrap().unheard.insert(operation);
    }

    /// The answers of this operation wait for the gate, after it happened.
    pub(crate) fn hold_back(&self, operation: &'static str, gate: &Gate) {
        let mut faults = self.faults.lock().unwrap();
        faults.held_back.insert(operation, gate.clone());
    }

    /// How often an operation was asked for.
    pub(crate) fn calls(&self, operation: &'static str) -> usize {
        let faults = self.faults.lock().unwrap();
        faults.calls.get(operation).copied().unwrap_or_default()
    }

    pub(crate) fn all_calls(&self) -> usize {
        self.faults.lock().unwrap().calls.values().sum()
    }

    fn before(&self, operation: &'static str) -> Result<()> {
        let mut faults = self.faults.lock().unwrap();
        *faults.calls.entry(operation).or_default() += 1;
        if let Some(times) = faults.forbidden.get_mut(operation)
            && *times > 0
        {
            *times -= 1;
            let what = format!("{operation} is not allowed in this test");
            return Err(Error::Forbidden { what });
        }
        match faults.is_down || faults.refused.contains(operation) {
            true => Err(unavailable(operation, Certainty::Definite)),
            false => Ok(()),
        }
    }

    async fn after(&self, operation: &'static str) -> Result<()> {
        let gate = self
            .faults
            .lock()
            .unwrap()
            .held_back
            .get(operation)
            .cloned();
        if let Some(gate) = gate {
            gate.passed().await;
        }
        match self.faults.lock().unwrap().unheard.remove(operation) {
            true => Err(unavailable(operation, Certainty::Unknown)),
            false => Ok(()),
        }
    }
}

fn unavailable(attempted: &'static str, certainty: Certainty) -> Error {
    Error::Unavailable {
        attempted,
        certainty,
        source: "a fault of the test".into(),
    }
}

macro_rules! pass_on {
    ($($name:ident($($argument:ident: $kind:ty),*) -> $answer:ty;)*) => {
        #[async_trait]
        impl Store for FaultyStore {
            $(async fn $name(&self, $($argument: $kind),*) -> Result<$answer> {
                self.before(stringify!($name))?;
                let answer = self.inner.$name($($argument),*).await?;
                self.after(stringify!($name)).await?;
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
