//! The rules that are read off what the store has recorded.

use std::sync::Arc;

use consign_kernel::{
    Attempt, AttemptOutcome, Claim, MessageId, OnUncertain, Report, State, StateKind, codes,
};

use super::{
    Action, Bounds, Rule,
    bounds::queue,
    world::{Reception, World, instant, token},
};

/// Raises an alarm for every rule that the step from `last` to `world` broke.
pub(super) fn audit(bounds: &Bounds, last: &World, action: Action, world: &mut World) {
    if Arc::ptr_eq(&last.primary, &world.primary) && last.sink == world.sink {
        return;
    }
    let records: Vec<Record> = world.ids().map(|id| Record::of(world, id)).collect();
    let audit = Audit {
        bounds,
        world,
        records: &records,
    };
    let mut broken = Vec::new();
    for record in &records {
        broken.extend(audit.moves(last, action, record));
        broken.extend(audit.attempts(record));
    }
    if !world.store().check().is_empty() || records.iter().any(|record| record.state.is_none()) {
        broken.push(Rule::OnePlace);
    }
    if !world
        .sink
        .iter()
        .all(|reception| audit.is_explained(reception))
    {
        broken.push(Rule::DuplicatesExplained);
    }
    for rule in broken {
        world.alarms.raise(rule);
    }
}

/// The store's record of a message.
struct Record {
    id: MessageId,
    state: Option<State>,
    history: Vec<Attempt>,
}

impl Record {
    fn of(world: &World, id: MessageId) -> Self {
        Self {
            id,
            state: world.store().state(id),
            history: world.store().history(id),
        }
    }

    fn kind(&self) -> Option<StateKind> {
        self.state.as_ref().map(State::kind)
    }

    fn last_outcome(&self) -> Option<AttemptOutcome> {
        self.history.last().map(|attempt| attempt.outcome)
    }
}

struct Audit<'a> {
    bounds: &'a Bounds,
    world: &'a World,
    records: &'a [Record],
}

impl Audit<'_> {
    /// Where the message went in this step. A failover is no move: it is another timeline.
    fn moves(&self, last: &World, action: Action, record: &Record) -> Option<Rule> {
        if action == Action::FailOver {
            return None;
        }
        let before = last.kind(record.id)?;
        let after = record.kind()?;
        let id = record.id;
        let rescued = [Action::Rescue { id }, Action::Close { id }].contains(&action);
        match before {
            StateKind::Dead if after != before && !rescued => Some(Rule::DeadStays),
            StateKind::Delivered if after != before => Some(Rule::DeliveredIsFinal),
            StateKind::Discarded if after != before => Some(Rule::DiscardedIsFinal),
            _ => None,
        }
    }

    fn attempts(&self, record: &Record) -> Vec<Rule> {
        let mut broken = Vec::new();
        let history = &record.history;
        let delivered = |attempt: &&Attempt| attempt.outcome == AttemptOutcome::Delivered;
        if history.iter().filter(delivered).count() > 1 {
            broken.push(Rule::OneDelivery);
        }
        let current = match &record.state {
            Some(State::Leased { fence, .. }) => Some(*fence),
            _ => None,
        };
        let fences: Vec<_> = history
            .iter()
            .map(|attempt| attempt.fence)
            .chain(current)
            .collect();
        if !fences.is_sorted_by(|one, next| one < next) {
            broken.push(Rule::FencesGrow);
        }
        broken.extend(self.tries(record));
        if !self.held_when_in_doubt(record) {
            broken.push(Rule::HeldWhenInDoubt);
        }
        broken
    }

    /// Dead: reported so, or its tries since the last requeue reach the limit. Not dead: they do
    /// not, or it waits for a person.
    fn tries(&self, record: &Record) -> Option<Rule> {
        let requeued = self.world.ledger().requeued.get(&record.id);
        let recent = record.history.iter().skip(requeued.copied().unwrap_or(0));
        let tries = recent.filter(|attempt| self.counts(attempt)).count();
        let exhausted = tries >= self.bounds.attempts_max as usize;
        let reported = record.last_outcome() == Some(AttemptOutcome::Dead);
        match record.kind() {
            Some(StateKind::Dead) if !exhausted && !reported => Some(Rule::DeadForAReason),
            // A person who puts a held message back grants it one more try.
            Some(StateKind::Ready) if exhausted && !self.just_unheld(record) => {
                Some(Rule::TriesAreLimited)
            }
            _ => None,
        }
    }

    /// Whether an attempt counts: an ended lease does only against a message that was alone in it.
    fn counts(&self, attempt: &Attempt) -> bool {
        let others = self.records.iter().filter(|r| r.id != attempt.message_id);
        let ended = |attempt: &Attempt| attempt.code.as_deref() == Some(codes::LEASE_EXPIRED);
        let mut together = others
            .flat_map(|record| &record.history)
            .filter(|other| other.fence == attempt.fence && ended(other));
        !(ended(attempt) && together.next().is_some())
    }

    /// With `on_uncertain = hold`: what is in doubt is held, and what was sent is in doubt.
    fn held_when_in_doubt(&self, record: &Record) -> bool {
        if self.bounds.on_uncertain != OnUncertain::Hold {
            return true;
        }
        let in_doubt =
            record.last_outcome() == Some(AttemptOutcome::Uncertain) && !self.just_unheld(record);
        let moving = matches!(record.kind(), Some(StateKind::Ready | StateKind::Leased));
        let expired = |attempt: &&Attempt| attempt.outcome == AttemptOutcome::Expired;
        let sent = |attempt: &Attempt| {
            let mut receptions = self.world.sink.iter();
            receptions.any(|r| (r.id, r.token) == (attempt.message_id, attempt.token))
        };
        // A failover may have lost the note that it was about to be sent.
        let noted = self.world.forgotten.is_none();
        !(in_doubt && moving || noted && record.history.iter().filter(expired).any(sent))
    }

    /// Whether an operator has put the message back since its last attempt.
    fn just_unheld(&self, record: &Record) -> bool {
        self.world.ledger().unheld.get(&record.id) == Some(&record.history.len())
    }

    /// Whether the store can account for something the sink received: the lease is still there,
    /// or what became of it is on record, or a failover lost it.
    fn is_explained(&self, reception: &Reception) -> bool {
        if self.world.is_forgotten(reception.lease) {
            return true;
        }
        let Some(record) = self.records.iter().find(|record| record.id == reception.id) else {
            return false;
        };
        let leased = match &record.state {
            Some(State::Leased { fence, .. }) => *fence == reception.fence,
            _ => false,
        };
        leased
            || record
                .history
                .iter()
                .any(|attempt| attempt.token == reception.token)
    }
}

impl World {
    /// Where a message is.
    pub(super) fn kind(&self, id: MessageId) -> Option<StateKind> {
        self.store().state(id).map(|state| state.kind())
    }

    /// Whether, once the faults are over, one healthy worker brings every message to an end.
    pub(super) fn drains(&self) -> bool {
        let mut store = self.store().clone();
        // Late enough for every lease to have ended and every retry to be due.
        let late = instant(u8::MAX);
        let claim = Claim::new(queue(), "worker", 1);
        for (number, _) in (self.last_lease + 1..).zip(self.ids()) {
            let answer = store.claim(late, token(number), &claim);
            let Some(lease) = answer.expect("invariant: a valid claim") else {
                break;
            };
            let report = Report::delivered(lease.messages[0].message.id);
            let answer = store.settle(late, lease.token, &[report], 0.5);
            answer.expect("invariant: one report");
        }
        let has_ended = |kind: StateKind| kind.is_finished() || kind == StateKind::Held;
        let kind = |id| store.state(id).map(|state| state.kind());
        self.ids().all(|id| kind(id).is_some_and(has_ended))
    }
}
