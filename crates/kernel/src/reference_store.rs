//! The reference store behind the `Store` trait, with a clock moved by hand.

use std::{
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

use crate::{
    Attempt, AuditEntry, BeginAnswer, By, Claim, Counts, Cursor, DeadLetter, EndedLease, Enqueued,
    Expired, Explanation, Filter, Finding, LateResult, Lease, LeaseView, Listed, Message,
    MessageId, Moved, NewMessage, Page, Process, Pulse, Queue, QueueMinutes, QueueName,
    QueuePolicy, Redrive, RedriveId, RedrivePlan, ReleaseAnswer, RenewAnswer, Report, Resolution,
    SettleAnswer, Store, Token, TokenPrefix, Totals, error::Result, reference::Reference,
};

/// A clock that moves only when told to. Clones share the time.
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<Mutex<Timestamp>>);

impl ManualClock {
    /// A clock that shows `now`.
    pub fn at(now: Timestamp) -> Self {
        Self(Arc::new(Mutex::new(now)))
    }

    /// What it shows.
    pub fn now(&self) -> Timestamp {
        *self
            .0
            .lock()
            .expect("invariant: no panic while setting the clock")
    }

    /// Moves it, backwards too.
    pub fn advance(&self, by: SignedDuration) {
        let mut now = self
            .0
            .lock()
            .expect("invariant: no panic while setting the clock");
        *now = now
            .checked_add(by)
            .expect("invariant: tests stay within the calendar");
    }
}

/// The reference store as a `Store`. Clones share the state.
#[derive(Clone, Debug)]
pub struct ReferenceStore {
    inner: Arc<Mutex<Inner>>,
    clock: ManualClock,
}

#[derive(Debug)]
struct Inner {
    reference: Reference,
    /// State of the generator behind tokens and jitter: seeded, so that runs can be repeated.
    seed: u64,
}

impl ReferenceStore {
    /// An empty store. Tokens and jitter follow from `seed`.
    pub fn new(clock: ManualClock, seed: u64) -> Self {
        Self::with(Reference::default(), clock, seed)
    }

    /// A store that continues from a given state.
    pub fn with(reference: Reference, clock: ManualClock, seed: u64) -> Self {
        Self {
            inner: Arc::new(Mutex::new(Inner { reference, seed })),
            clock,
        }
    }

    /// The state as it is now.
    pub fn snapshot(&self) -> Reference {
        self.inner().reference.clone()
    }

    /// Goes back to an earlier state, as a failover to a lagging standby does. Tokens drawn from
    /// now on are new all the same.
    pub fn restore(&self, reference: Reference) {
        self.inner().reference = reference;
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner
            .lock()
            .expect("invariant: no panic inside the reference store")
    }

    #[cfg(feature = "twins")]
    fn now(&self) -> Timestamp {
        match self.inner().reference.flaw() {
            Some(crate::reference::Flaw::WorkerClock(skew)) => {
                self.clock.now() + SignedDuration::try_from(skew).expect("invariant: small skew")
            }
            _ => self.clock.now(),
        }
    }

    #[cfg(not(feature = "twins"))]
    fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

impl Inner {
    /// The next number of the generator (splitmix64).
    fn draw(&mut self) -> u64 {
        self.seed = self.seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.seed;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn token(&mut self) -> Token {
        Token(Uuid::from_u64_pair(self.draw(), self.draw()))
    }

    fn chance(&mut self) -> f64 {
        (self.draw() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[async_trait]
impl Store for ReferenceStore {
    async fn put_queue(&self, name: &QueueName, policy: &QueuePolicy, by: &By) -> Result<Queue> {
        let now = self.now();
        self.inner().reference.put_queue(now, name, policy, by)
    }

    async fn queue(&self, name: &QueueName) -> Result<Option<Queue>> {
        Ok(self.inner().reference.queue(name))
    }

    async fn queues(&self, after: Option<&QueueName>, limit: u32) -> Result<Vec<(Queue, Counts)>> {
        let now = self.now();
        Ok(self.inner().reference.queues(now, after, limit))
    }

    async fn queue_counts(&self, name: &QueueName) -> Result<Option<(Queue, Counts)>> {
        let now = self.now();
        Ok(self.inner().reference.queue_counts(now, name))
    }

    async fn totals(&self) -> Result<Totals> {
        let now = self.now();
        Ok(self.inner().reference.totals(now))
    }

    async fn pause(&self, name: &QueueName, by: &By) -> Result<Queue> {
        let now = self.now();
        self.inner().reference.pause(now, name, by)
    }

    async fn resume(&self, name: &QueueName, by: &By) -> Result<Queue> {
        let now = self.now();
        self.inner().reference.resume(now, name, by)
    }

    async fn enqueue(&self, messages: &[NewMessage]) -> Result<Vec<Enqueued>> {
        let now = self.now();
        self.inner().reference.enqueue(now, messages)
    }

    async fn claim(&self, claim: &Claim) -> Result<Option<Lease>> {
        let now = self.now();
        let mut inner = self.inner();
        let token = inner.token();
        #[cfg(feature = "twins")]
        let token = inner.reference.counter_token().unwrap_or(token);
        inner.reference.claim(now, token, claim)
    }

    async fn renew(&self, token: Token, ttl: Duration) -> Result<RenewAnswer> {
        let now = self.now();
        self.inner().reference.renew(now, token, ttl)
    }

    async fn release(&self, token: Token) -> Result<ReleaseAnswer> {
        let now = self.now();
        self.inner().reference.release(now, token)
    }

    async fn begin(&self, token: Token, ids: &[MessageId]) -> Result<BeginAnswer> {
        let now = self.now();
        self.inner().reference.begin(now, token, ids)
    }

    async fn settle(&self, token: Token, reports: &[Report]) -> Result<SettleAnswer> {
        let now = self.now();
        let mut inner = self.inner();
        let chance = inner.chance();
        #[cfg(feature = "twins")]
        let token = inner.reference.speaker(token, reports);
        inner.reference.settle(now, token, reports, chance)
    }

    async fn witness(&self, token: Token, reports: &[Report]) -> Result<Vec<MessageId>> {
        let now = self.now();
        self.inner().reference.witness(now, token, reports)
    }

    async fn expire(&self, limit: u32) -> Result<Expired> {
        let now = self.now();
        Ok(self.inner().reference.expire(now, limit))
    }

    /// Never waits: nothing here sleeps.
    async fn wait(&self, _queue: &QueueName, _timeout: Duration) -> Result<bool> {
        Ok(false)
    }

    async fn requeue(&self, ids: &[MessageId], by: &By) -> Result<Vec<Moved>> {
        let now = self.now();
        self.inner().reference.requeue(now, ids, by)
    }

    async fn hold(&self, ids: &[MessageId], by: &By) -> Result<Vec<Moved>> {
        let now = self.now();
        self.inner().reference.hold(now, ids, by)
    }

    async fn unhold(&self, ids: &[MessageId], by: &By) -> Result<Vec<Moved>> {
        let now = self.now();
        self.inner().reference.unhold(now, ids, by)
    }

    async fn resolve(
        &self,
        ids: &[MessageId],
        resolution: &Resolution,
        by: &By,
    ) -> Result<Vec<Moved>> {
        let now = self.now();
        let mut inner = self.inner();
        let token = inner.token();
        inner.reference.resolve(now, token, ids, resolution, by)
    }

    async fn start_redrive(&self, plan: &RedrivePlan, by: &By) -> Result<Redrive> {
        let now = self.now();
        self.inner().reference.start_redrive(now, plan, by)
    }

    async fn step_redrive(&self, limit: u32) -> Result<Option<Redrive>> {
        let now = self.now();
        self.inner().reference.step_redrive(now, limit)
    }

    async fn stop_redrive(&self, id: RedriveId, by: &By) -> Result<Redrive> {
        let now = self.now();
        self.inner().reference.stop_redrive(now, id, by)
    }

    async fn resume_redrive(&self, id: RedriveId, by: &By) -> Result<Redrive> {
        let now = self.now();
        self.inner().reference.resume_redrive(now, id, by)
    }

    async fn reveal(&self, id: MessageId, by: &By) -> Result<Option<Message>> {
        let now = self.now();
        self.inner().reference.reveal(now, id, by)
    }

    async fn pulse(&self, pulse: &Pulse) -> Result<()> {
        let now = self.now();
        self.inner().reference.pulse(now, pulse)
    }

    async fn pulses(
        &self,
        queue: Option<&QueueName>,
        minutes: u32,
        step: u32,
    ) -> Result<Vec<QueueMinutes>> {
        let now = self.now();
        Ok(self.inner().reference.pulses(now, queue, minutes, step))
    }

    async fn processes(&self) -> Result<Vec<Process>> {
        let now = self.now();
        Ok(self.inner().reference.processes(now))
    }

    async fn end_lease(&self, prefix: &TokenPrefix, by: &By) -> Result<EndedLease> {
        let now = self.now();
        self.inner().reference.end_lease(now, prefix, by)
    }

    async fn probe(&self) -> Result<()> {
        Ok(())
    }

    async fn explain(&self, id: MessageId) -> Result<Option<Explanation>> {
        let now = self.now();
        Ok(self.inner().reference.explain(now, id))
    }

    async fn history(&self, id: MessageId) -> Result<Vec<Attempt>> {
        Ok(self.inner().reference.history(id))
    }

    async fn late(&self, id: MessageId) -> Result<Vec<LateResult>> {
        Ok(self.inner().reference.late(id))
    }

    async fn list(
        &self,
        filter: &Filter,
        before: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<Listed>> {
        Ok(self.inner().reference.list(filter, before, limit))
    }

    async fn dead(
        &self,
        filter: &Filter,
        before: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<DeadLetter>> {
        Ok(self.inner().reference.dead(filter, before, limit))
    }

    async fn count_dead(&self, filter: &Filter, at_most: u64) -> Result<u64> {
        Ok(self.inner().reference.count_dead(filter, at_most))
    }

    async fn first_dead(&self, plan: &RedrivePlan, limit: u32) -> Result<Vec<DeadLetter>> {
        Ok(self.inner().reference.first_dead(plan, limit))
    }

    async fn redrive(&self, id: RedriveId) -> Result<Option<Redrive>> {
        Ok(self.inner().reference.redrive(id))
    }

    async fn redrives(&self, limit: u32) -> Result<Vec<Redrive>> {
        Ok(self.inner().reference.redrives(limit))
    }

    async fn leases(&self, limit: u32) -> Result<Vec<LeaseView>> {
        Ok(self.inner().reference.leases(limit))
    }

    async fn audit(
        &self,
        id: Option<MessageId>,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<AuditEntry>> {
        Ok(self.inner().reference.audit(id, before, limit))
    }

    async fn doctor(&self) -> Result<Vec<Finding>> {
        Ok(self.inner().reference.check())
    }
}
