//! A queue with a harness around it: what every case needs, in words short enough to read.

use std::{sync::Arc, time::Duration};

use consign_kernel::{
    Attempt, By, Claim, Counts, Departure, DepartureCause, DepartureState, Error, Explanation,
    Lease, MessageId, NewMessage, OnDead, Outcome, Progress, QueueName, QueuePolicy, Receipt,
    RecordedOutcome, Refusal, Report, Result, RetrySchedule, SettleAnswer, State, StateKind, Step,
    Store, Token,
};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::Harness;

/// How long a lease lives on every stage.
pub const TTL: Duration = Duration::from_secs(10);

/// One queue, `mail`, on a fresh store.
#[expect(
    missing_debug_implementations,
    reason = "what it holds is behind traits"
)]
pub struct Stage<'a> {
    pub harness: &'a dyn Harness,
    pub store: Arc<dyn Store>,
    pub queue: QueueName,
}

/// The rules of `mail`: leases of 10 s, three tries, rests of 1 s and then 2 s, no jitter.
pub fn policy() -> QueuePolicy {
    QueuePolicy {
        lease_ttl_ms: 10_000,
        attempts_max: 3,
        retry: RetrySchedule::Table {
            delays_ms: vec![1_000, 2_000],
        },
        ..QueuePolicy::default()
    }
}

/// The same rules with messages of one group in order.
pub fn ordered(on_dead: OnDead) -> QueuePolicy {
    QueuePolicy {
        ordered: true,
        on_dead,
        ..policy()
    }
}

/// Who acts in the cases.
pub fn by() -> By {
    By::new("ada", "checking the rules")
}

/// A valid queue name.
pub fn queue(name: &str) -> QueueName {
    name.parse().expect("a plain queue name")
}

/// The messages of a lease, in its order.
pub fn ids(lease: &Lease) -> Vec<MessageId> {
    lease.messages.iter().map(|m| m.message.id).collect()
}

/// A token that was never issued.
pub fn stranger() -> Token {
    Token(Uuid::new_v4())
}

/// `count` seconds.
pub fn s(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// `time` moved by a duration.
pub fn after(time: Timestamp, by: Duration) -> Timestamp {
    time + SignedDuration::try_from(by).expect("a small duration")
}

/// The text of an error; panics on success.
#[track_caller]
pub fn refused<T: std::fmt::Debug>(result: Result<T>, code: &str) -> Error {
    match result {
        Err(error) => {
            assert_eq!(error.code(), code, "refused, but as: {error}");
            error
        }
        Ok(answer) => panic!("expected the refusal {code}, got {answer:?}"),
    }
}

/// The records of an answer that must be `Settled`.
#[track_caller]
pub fn settled(answer: SettleAnswer) -> Vec<RecordedOutcome> {
    match answer {
        SettleAnswer::Settled(records) => records,
        other => panic!("expected Settled, got {other:?}"),
    }
}

/// The records of an answer that must be `AlreadySettled`.
#[track_caller]
pub fn already_settled(answer: SettleAnswer) -> Vec<RecordedOutcome> {
    match answer {
        SettleAnswer::AlreadySettled(records) => records,
        other => panic!("expected AlreadySettled, got {other:?}"),
    }
}

/// How long anything that runs beside something else may take, on a machine that is busy too.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for all tasks and hands on their panics.
pub async fn all<T: 'static>(mut tasks: JoinSet<T>) -> Vec<T> {
    let mut results = Vec::new();
    let joining = async {
        while let Some(result) = tasks.join_next().await {
            results.push(result.expect("no task panics"));
        }
    };
    let in_time = tokio::time::timeout(PATIENCE, joining).await;
    in_time.expect("everything ends, nothing is stuck");
    results
}

impl<'a> Stage<'a> {
    /// The queue `mail` with the usual rules.
    pub async fn new(harness: &'a dyn Harness) -> Self {
        Self::with(harness, policy()).await
    }

    /// The queue `mail` with rules of the case's own.
    pub async fn with(harness: &'a dyn Harness, policy: QueuePolicy) -> Self {
        let stage = Self {
            harness,
            store: harness.store(),
            queue: queue("mail"),
        };
        stage.add_queue("mail", &policy).await;
        stage
    }

    /// Creates another queue, or changes one.
    pub async fn add_queue(&self, name: &str, policy: &QueuePolicy) -> QueueName {
        let name = queue(name);
        let made = self.store.put_queue(&name, policy, &by()).await;
        made.unwrap_or_else(|error| panic!("queue {name} could not be made: {error}"));
        name
    }

    pub async fn now(&self) -> Timestamp {
        self.harness.now().await
    }

    pub async fn advance(&self, by: Duration) {
        let by = SignedDuration::try_from(by).expect("a small duration");
        self.harness.advance(by).await;
    }

    /// The `n`-th message of the queue.
    pub fn message(&self, n: usize) -> NewMessage {
        NewMessage::new(self.queue.clone(), json!({ "n": n }))
    }

    /// Enqueues `count` messages in one call.
    pub async fn enqueue(&self, count: usize) -> Vec<MessageId> {
        let messages: Vec<NewMessage> = (0..count).map(|n| self.message(n)).collect();
        self.enqueue_all(&messages).await
    }

    /// Enqueues one message.
    pub async fn enqueue_one(&self) -> MessageId {
        self.enqueue(1).await[0]
    }

    /// Enqueues these messages in one call, all of which must be new.
    pub async fn enqueue_all(&self, messages: &[NewMessage]) -> Vec<MessageId> {
        let answers = self.try_enqueue(messages).await.expect("enqueue answers");
        assert!(answers.iter().all(|a| !a.duplicate), "new: {answers:?}");
        answers.iter().map(|answer| answer.id).collect()
    }

    /// Enqueues one message of a group per letter of `groups`, one call.
    pub async fn enqueue_groups(&self, groups: &str) -> Vec<MessageId> {
        let grouped = |(n, group): (usize, char)| self.message(n).with_group(group);
        let messages: Vec<NewMessage> = groups.chars().enumerate().map(grouped).collect();
        self.enqueue_all(&messages).await
    }

    pub async fn try_enqueue(&self, messages: &[NewMessage]) -> Result<Vec<Receipt>> {
        self.store.enqueue(messages).await
    }

    /// A claim by the usual worker.
    pub fn ask(&self, limit: u32) -> Claim {
        Claim::new(self.queue.clone(), "worker-1", limit)
    }

    /// Claims, if there is anything.
    pub async fn try_claim(&self, limit: u32) -> Option<Lease> {
        self.store
            .claim(&self.ask(limit))
            .await
            .expect("claim answers")
    }

    /// Claims something that must be there.
    pub async fn claim(&self, limit: u32) -> Lease {
        self.try_claim(limit).await.expect("something is due")
    }

    /// Claims, through any instance, what a refused call may still have its hand on for a moment:
    /// a database may answer first and release the lock on the lease after.
    pub async fn claim_soon(&self, store: &Arc<dyn Store>) -> Lease {
        let polling = async {
            loop {
                let lease = store.claim(&self.ask(1)).await.expect("claim answers");
                match lease {
                    Some(lease) => break lease,
                    None => tokio::task::yield_now().await,
                }
            }
        };
        let lease = tokio::time::timeout(s(5), polling).await;
        lease.expect("what was lost can be claimed again")
    }

    /// Claims nothing, because there must be nothing.
    pub async fn claim_nothing(&self, why: &str) {
        let lease = self.try_claim(1_000).await;
        assert_eq!(lease.as_ref().map(ids), None, "nothing to claim: {why}");
    }

    pub async fn settle(&self, lease: &Lease, reports: &[Report]) -> SettleAnswer {
        let answer = self.store.settle(lease.token, reports).await;
        answer.expect("settle answers")
    }

    /// Settles one message under a lease that must be live.
    pub async fn report(&self, lease: &Lease, id: MessageId, outcome: Outcome) -> RecordedOutcome {
        let answer = self.settle(lease, &[Report::new(id, outcome)]).await;
        settled(answer).remove(0)
    }

    /// Settles the whole lease as delivered.
    pub async fn deliver(&self, lease: &Lease) {
        let reports: Vec<Report> = ids(lease).into_iter().map(Report::delivered).collect();
        let records = settled(self.settle(lease, &reports).await);
        assert_eq!(records.len(), reports.len(), "one record per report");
    }

    /// Lets a lease run out and ends it.
    pub async fn crash(&self) {
        self.advance(TTL).await;
        let expired = self.store.expire(1_000).await.expect("expire answers");
        assert!(expired.leases > 0, "a lease to lose");
    }

    /// Claims and delivers until nothing is due; answers with what it saw, in order.
    pub async fn drain(&self) -> Vec<MessageId> {
        let mut seen = Vec::new();
        while let Some(lease) = self.try_claim(1_000).await {
            seen.extend(ids(&lease));
            self.deliver(&lease).await;
        }
        seen
    }

    /// Makes one message dead and answers with it.
    pub async fn dead_one(&self) -> MessageId {
        let id = self.enqueue_one().await;
        let lease = self.claim(1).await;
        assert_eq!(ids(&lease), [id], "the only one due");
        self.report(&lease, id, Outcome::Dead).await;
        id
    }

    pub async fn explain(&self, id: MessageId) -> Explanation {
        let answer = self.store.explain(id).await.expect("explain answers");
        answer.unwrap_or_else(|| panic!("message {id} exists"))
    }

    pub async fn state(&self, id: MessageId) -> State {
        self.explain(id).await.state
    }

    pub async fn kind(&self, id: MessageId) -> StateKind {
        self.state(id).await.kind()
    }

    /// Where each of these messages is.
    pub async fn kinds(&self, ids: &[MessageId]) -> Vec<StateKind> {
        let mut kinds = Vec::new();
        for id in ids {
            kinds.push(self.kind(*id).await);
        }
        kinds
    }

    pub async fn history(&self, id: MessageId) -> Vec<Attempt> {
        let history = self.store.history(id).await.expect("history answers");
        let numbers: Vec<u32> = history.iter().map(|a| a.attempt_no).collect();
        let dense: Vec<u32> = (1..=history.len() as u32).collect();
        assert_eq!(numbers, dense, "attempts of {id} are numbered densely");
        history
    }

    /// The counts of `mail`.
    pub async fn counts(&self) -> Counts {
        self.counts_of(&self.queue).await
    }

    pub async fn counts_of(&self, name: &QueueName) -> Counts {
        let found = self.store.queue_counts(name).await;
        let found = found.expect("queue_counts answers");
        found.unwrap_or_else(|| panic!("queue {name} is listed")).1
    }
}

/// How long the maintenance is leased.
pub const MAINTENANCE_TTL: Duration = Duration::from_secs(60);

/// The maintenance of a store, under a lease.
#[expect(
    missing_debug_implementations,
    reason = "what it holds is behind traits"
)]
pub struct Maintenance {
    pub store: Arc<dyn Store>,
    pub token: Token,
}

impl Maintenance {
    /// Takes the lease, which must be free.
    pub async fn lease(store: &Arc<dyn Store>) -> Self {
        let leased = store.lease_maintenance("maintainer", None, MAINTENANCE_TTL);
        let leased = leased.await.expect("lease_maintenance answers");
        Self {
            store: Arc::clone(store),
            token: leased.expect("the maintenance is free"),
        }
    }

    /// Renews the lease, which no other process has taken.
    pub async fn renew(&self) {
        let token = Some(self.token);
        let leased = (self.store).lease_maintenance("maintainer", token, MAINTENANCE_TTL);
        let leased = leased.await.expect("lease_maintenance answers");
        assert_eq!(leased, token, "a renewal keeps its token");
    }

    /// Begins a departure of what is past its time, or finds the one under way.
    pub async fn begin(&self) -> Option<Departure> {
        self.begin_by(DepartureCause::Age).await
    }

    /// Begins a departure for a cause, or finds the one under way.
    pub async fn begin_by(&self, cause: DepartureCause) -> Option<Departure> {
        self.renew().await;
        // Ends the range in use, where there are ranges: what is in it may leave.
        unlocked(|| {
            self.store
                .prepare_ranges(self.token, 1_000_000, Duration::ZERO)
        })
        .await;
        loop {
            let begun = unlocked(|| self.store.begin_departure(self.token, cause, true)).await;
            let is_copying = |departure: &Departure| departure.state == DepartureState::Copying;
            if !begun.as_ref().is_some_and(is_copying) {
                return begun;
            }
            self.renew().await;
        }
    }

    /// Begins a departure without an archive.
    pub async fn begin_unarchived(&self) -> Step<Option<Departure>> {
        self.renew().await;
        unlocked(|| {
            self.store
                .prepare_ranges(self.token, 1_000_000, Duration::ZERO)
        })
        .await;
        for _ in 0..200 {
            let begun = self
                .store
                .begin_departure(self.token, DepartureCause::Age, false);
            match begun.await.expect("begin_departure answers") {
                Step::Refused(Refusal::Locked) => {}
                Step::Done(Some(departure)) if departure.state == DepartureState::Copying => {}
                begun => return begun,
            }
        }
        panic!("refused as locked again and again");
    }

    /// Begins a departure, which must have this many messages.
    pub async fn begin_of(&self, messages: u64) -> Departure {
        let departure = self.begin().await.expect("messages may leave");
        assert_eq!(departure.messages, messages, "{departure:?}");
        departure
    }

    /// Records an archive of a departure.
    pub async fn archive(&self, departure: &Departure) {
        let recorded = (self.store).record_archive(self.token, departure.id, "archive");
        done(recorded.await);
    }

    /// Takes one step of a departure.
    pub async fn step(&self, departure: &Departure) -> Step<Progress> {
        let step = self.store.depart(self.token, departure.id).await;
        step.expect("depart answers")
    }

    /// Takes the steps of a departure until it is over; returns how many messages were removed.
    pub async fn depart(&self, departure: &Departure) -> u64 {
        let mut removed = 0;
        loop {
            let progress = unlocked(|| self.store.depart(self.token, departure.id)).await;
            removed += progress.removed;
            if progress.is_over {
                return removed;
            }
        }
    }

    /// Lets everything leave that is past its time; returns how many messages did.
    pub async fn leave(&self) -> u64 {
        self.leave_by(DepartureCause::Age).await
    }

    /// Lets everything leave that may for a cause; returns how many messages did.
    pub async fn leave_by(&self, cause: DepartureCause) -> u64 {
        let mut removed = 0;
        while let Some(departure) = self.begin_by(cause).await {
            if departure.must_archive {
                self.archive(&departure).await;
            }
            removed += self.depart(&departure).await;
        }
        removed
    }
}

/// The result of a step that must be taken, at the latest when the server's own maintenance (a
/// vacuum) has released its locks. Each attempt waits for them in the store.
async fn unlocked<T, F>(mut step: impl FnMut() -> F) -> T
where
    T: std::fmt::Debug,
    F: Future<Output = Result<Step<T>>>,
{
    for _ in 0..200 {
        match step().await {
            Ok(Step::Refused(Refusal::Locked)) => {}
            step => return done(step),
        }
    }
    panic!("the tables stay locked");
}

/// The result of a step that must have been taken.
#[track_caller]
pub fn done<T: std::fmt::Debug>(step: Result<Step<T>>) -> T {
    match step.expect("the step answers") {
        Step::Done(result) => result,
        Step::Refused(refusal) => panic!("expected a step, got {refusal:?}"),
    }
}
