//! Taking a step: call the store, judge its answer, update the state of the parties.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use consign_kernel::{
    BeginAnswer, Claim, MessageId, Move, NewMessage, Outcome, RenewAnswer, Report, SettleAnswer,
    Token, reference::Flaw,
};
use jiff::Timestamp;

use super::{
    Action, Bounds, Rule,
    bounds::queue,
    ledger::{LiveLease, Verdict},
    world::{
        LastAnswer, LeaseNo, OutcomeKind, Primary, Reception, Stage, Worker, WorkerLease, World,
        instant, operator, token,
    },
};

/// How long a lease lives at first, and how long from a renewal.
const CLAIM_TICKS: u8 = 1;
const RENEW_TICKS: u8 = 2;

pub(super) struct Step<'a> {
    pub(super) bounds: &'a Bounds,
    pub(super) flaw: Option<Flaw>,
    pub(super) world: &'a mut World,
}

impl Step<'_> {
    pub(super) fn take(mut self, action: Action) {
        match action {
            Action::Enqueue => self.enqueue(),
            Action::Claim { worker } => self.claim(worker),
            Action::Renew { lease } => self.renew(lease),
            Action::Begin { lease, id } => self.begin(lease, id),
            Action::Send { lease, id } => self.send(lease, id),
            Action::Settle {
                lease,
                id,
                said,
                heard,
            } => self.settle(lease, id, said, heard),
            Action::Tick => {
                self.world.clock += 1;
                let clock = self.world.clock;
                self.primary().ledger.strike(clock);
            }
            Action::Expire => {
                let now = instant(self.world.clock);
                self.primary().store.expire(now, u32::MAX);
            }
            Action::Rescue { id } => self.rescue(id),
            Action::Close { id } => self.close(id),
            Action::Replicate => self.world.standby = Some(Arc::clone(&self.world.primary)),
            Action::FailOver => self.fail_over(),
        }
    }

    fn enqueue(&mut self) {
        let now = instant(self.world.clock);
        let is_first = self.world.ledger().messages == 0;
        let expires = self.bounds.expires.filter(|_| is_first);
        let primary = self.primary();
        let mut message = NewMessage::new(queue(), serde_json::Value::Null);
        if let Some(tick) = expires {
            message = message.with_expiry(instant(tick));
        }
        primary
            .store
            .enqueue(now, &[message])
            .expect("invariant: a plain message");
        primary.ledger.messages += 1;
    }

    fn claim(&mut self, place: usize) {
        let now = self.now_of(&self.world.workers[place]);
        let expires = self.world.clock + CLAIM_TICKS;
        let number = self.world.last_lease + 1;
        let token = self.fresh_token(number);
        let claim = Claim::new(queue(), "worker", u32::from(self.bounds.messages))
            .with_ttl(ticks(CLAIM_TICKS));
        let primary = self.primary();
        let before = primary.store.clone();
        let answer = primary.store.claim(now, token, &claim);
        let Some(lease) = answer.expect("invariant: a valid claim") else {
            // A lease of messages whose time had passed has used the token.
            if primary.store != before {
                self.world.last_lease = number;
            }
            return;
        };
        let is_late = lease.messages.iter().any(|it| it.message.has_expired(now));
        let ids: BTreeSet<MessageId> = lease.messages.iter().map(|m| m.message.id).collect();
        let overlap = ids.iter().any(|id| primary.ledger.holder(*id).is_some());
        primary.ledger.last = Some((number, lease.fence));
        primary.ledger.live_leases.insert(
            number,
            LiveLease {
                token,
                expires,
                open: ids.clone(),
            },
        );
        if overlap {
            self.world.alarms.raise(Rule::NoOverlap);
        }
        if is_late {
            self.world.alarms.raise(Rule::NotAfterItsTime);
        }
        self.world.last_lease = number;
        let worker = &mut self.world.workers[place];
        worker.heard = LastAnswer::Nothing;
        worker.belief = Some(WorkerLease {
            lease: number,
            token,
            fence: lease.fence,
            tasks: ids.into_iter().map(|id| (id, Stage::Claimed)).collect(),
        });
    }

    /// A fresh token; unless tokens are counters.
    fn fresh_token(&self, number: LeaseNo) -> Token {
        match self.flaw {
            Some(Flaw::CounterToken) => {
                let fence = self.world.ledger().last_fence().0 + 1;
                token(u8::try_from(fence).expect("invariant: few leases"))
            }
            _ => token(number),
        }
    }

    fn renew(&mut self, lease: LeaseNo) {
        self.world.spent.renewals += 1;
        let (now, token) = self.credentials(lease);
        let expires = self.world.clock + RENEW_TICKS;
        let primary = self.primary();
        let answer = primary.store.renew(now, token, ticks(RENEW_TICKS));
        let renewed = answer.expect("invariant: a valid time") != RenewAnswer::LeaseLost;
        let live = match primary.ledger.live_leases.get_mut(&lease) {
            Some(promise) => {
                promise.expires = promise.expires.max(expires);
                true
            }
            None => false,
        };
        self.judge(live, renewed);
        if !renewed {
            self.worker(lease).belief = None;
        }
    }

    fn begin(&mut self, lease: LeaseNo, id: MessageId) {
        let (now, token) = self.credentials(lease);
        let primary = self.primary();
        let answer = primary.store.begin(now, token, &[id]);
        let begun = answer.expect("invariant: begin does not fail") == BeginAnswer::Begun;
        let live = primary.ledger.verdict(lease, id) == Verdict::Live;
        self.judge(live, begun);
        if begun {
            self.set_stage(lease, id, Stage::Begun)
        } else {
            self.worker(lease).belief = None
        }
    }

    fn send(&mut self, lease: LeaseNo, id: MessageId) {
        let belief = self.belief(lease);
        let reception = Reception {
            id,
            lease,
            token: belief.token,
            fence: belief.fence,
        };
        self.world.sink.push(reception);
        self.world.sink.sort();
        self.set_stage(lease, id, Stage::Sent);
    }

    fn settle(&mut self, lease: LeaseNo, id: MessageId, said: OutcomeKind, heard: bool) {
        let (now, token) = self.credentials(lease);
        let settling_token = self.settling_token(token, id);
        let report = Report::new(id, Outcome::from(said));
        let primary = self.primary();
        let verdict = primary.ledger.verdict(lease, id);
        let answer = primary.store.settle(now, settling_token, &[report], 0.5);
        let answer = answer.expect("invariant: one report");
        if matches!(answer, SettleAnswer::Settled(_)) {
            primary.ledger.settle(lease, id);
        }
        if let Some(rule) = violated_rule(&answer, verdict, said) {
            self.world.alarms.raise(rule);
        }
        if !heard {
            self.world.spent.lost_replies += 1;
            self.set_stage(lease, id, Stage::Reported(said));
            return;
        }
        let worker = self.worker(lease);
        worker.heard = match answer {
            SettleAnswer::Settled(_) => LastAnswer::Nothing,
            SettleAnswer::AlreadySettled(_) => LastAnswer::AlreadySettled,
            SettleAnswer::LeaseLost | SettleAnswer::NotInLease(_) => LastAnswer::LeaseLost,
        };
        let lost = worker.heard == LastAnswer::LeaseLost;
        worker.belief = worker
            .belief
            .take()
            .filter(|_| !lost)
            .and_then(|belief| belief.without(id));
    }

    /// Whose token the store goes by: the caller's; unless it does not look.
    fn settling_token(&self, token: Token, id: MessageId) -> Token {
        let holder = self.world.ledger().holder(id);
        match (self.flaw, holder) {
            (Some(Flaw::NoTokenCheck), Some(holder)) => holder.token,
            _ => token,
        }
    }

    fn rescue(&mut self, id: MessageId) {
        self.world.spent.rescues += 1;
        let now = instant(self.world.clock);
        let primary = self.primary();
        let attempts = primary.store.history(id).len();
        let requeued = primary.store.requeue(now, &[id], &operator());
        let unheld = primary.store.unhold(now, &[id], &operator());
        for (answer, noted) in [
            (requeued, &mut primary.ledger.requeued),
            (unheld, &mut primary.ledger.unheld),
        ] {
            let moved = answer.expect("invariant: an operator with a name");
            if matches!(moved[0].answer, Move::Moved { .. }) {
                noted.insert(id, attempts);
            }
        }
    }

    fn close(&mut self, id: MessageId) {
        self.world.spent.rescues += 1;
        let now = instant(self.world.clock);
        let primary = self.primary();
        let discarded = primary.store.discard(now, &[id], &operator());
        let cancelled = primary.store.cancel(now, &[id], &operator());
        let is_moved = [discarded, cancelled].into_iter().any(|answer| {
            let answer = answer.expect("invariant: an operator with a name");
            matches!(answer[0].answer, Move::Moved { .. })
        });
        if is_moved && primary.ledger.holder(id).is_some() {
            self.world.alarms.raise(Rule::LiveIsHonoured);
        }
    }

    fn fail_over(&mut self) {
        let world = &mut *self.world;
        world.primary = world.standby.take().expect("invariant: there is a standby");
        world.forgotten = Some((world.ledger().last_lease(), world.last_lease));
        let clock = world.clock;
        self.primary().ledger.strike(clock);
    }

    /// Compares what became of a lease's wish with what should have.
    fn judge(&mut self, live: bool, granted: bool) {
        match (live, granted) {
            (true, false) => self.world.alarms.raise(Rule::LiveIsHonoured),
            (false, true) => self.world.alarms.raise(Rule::OnlyTheLive),
            _ => {}
        }
    }

    /// What time it is for a worker's call: the database's, unless workers' clocks are trusted.
    fn now_of(&self, worker: &Worker) -> Timestamp {
        instant(self.world.clock + worker.skew)
    }

    fn credentials(&mut self, lease: LeaseNo) -> (Timestamp, Token) {
        let token = self.belief(lease).token;
        let worker = self.worker(lease).clone();
        (self.now_of(&worker), token)
    }

    fn primary(&mut self) -> &mut Primary {
        Arc::make_mut(&mut self.world.primary)
    }

    fn worker(&mut self, lease: LeaseNo) -> &mut Worker {
        let mut workers = self.world.workers.iter_mut();
        let believes = |worker: &&mut Worker| {
            worker
                .belief
                .as_ref()
                .is_some_and(|belief| belief.lease == lease)
        };
        workers
            .find(believes)
            .expect("invariant: a worker holds it")
    }

    fn belief(&mut self, lease: LeaseNo) -> &mut WorkerLease {
        let belief = self.worker(lease).belief.as_mut();
        belief.expect("invariant: found by its belief")
    }

    fn set_stage(&mut self, lease: LeaseNo, id: MessageId, stage: Stage) {
        let mut tasks = self.belief(lease).tasks.iter_mut();
        let task = tasks.find(|(task, _)| *task == id);
        task.expect("invariant: one of its tasks").1 = stage;
    }
}

/// The rule an answer to a settle breaks, if any.
fn violated_rule(answer: &SettleAnswer, verdict: Verdict, said: OutcomeKind) -> Option<Rule> {
    match (answer, verdict) {
        (SettleAnswer::Settled(_), Verdict::Live) => None,
        (SettleAnswer::Settled(_), _) => Some(Rule::OnlyTheLive),
        (SettleAnswer::AlreadySettled(recorded), Verdict::Settled) => {
            let same = recorded
                .iter()
                .all(|r| r.outcome == Outcome::from(said).into());
            (!same).then_some(Rule::RepeatIsTold)
        }
        (SettleAnswer::AlreadySettled(_), _) => Some(Rule::RepeatIsTold),
        (_, Verdict::Live) => Some(Rule::LiveIsHonoured),
        (_, Verdict::Settled) => Some(Rule::RepeatIsTold),
        (_, Verdict::Lost) => None,
    }
}

impl WorkerLease {
    /// What is left of it once a message is done.
    fn without(mut self, id: MessageId) -> Option<Self> {
        self.tasks.retain(|(task, _)| *task != id);
        (!self.tasks.is_empty()).then_some(self)
    }
}

fn ticks(count: u8) -> Duration {
    Duration::from_secs(u64::from(count))
}
