//! Retention: finished messages leave, under a lease and an audit entry.

use std::{collections::BTreeMap, time::Duration};

use async_trait::async_trait;
use jiff::Timestamp;

use super::{DepartureRow, FormerKey, MaintenanceRow, Reference};
use crate::{
    AuditEntry, DatabaseSize, Departure, DepartureCause, DepartureId, DepartureState, Growth,
    MessageId, PAGE_ENTRIES_MAX, Progress, QueueHistory, QueueName, Record, ReferenceStore,
    Refusal, Retain, StateKind, Step, Token,
    error::Result,
    plan::{Cutoffs, Finished, fingerprint, key_cutoff, later, may_leave},
    validate_archive, validate_maintenance, validate_pass_end,
};

#[async_trait]
impl Retain for ReferenceStore {
    async fn lease_maintenance(
        &self,
        owner: &str,
        token: Option<Token>,
        ttl: Duration,
    ) -> Result<Option<Token>> {
        let fresh = self.draw_token();
        self.at(|reference, now| reference.lease_maintenance(now, fresh, owner, token, ttl))
    }

    async fn prepare_ranges(
        &self,
        token: Token,
        _messages: u64,
        _age: Duration,
    ) -> Result<Step<u32>> {
        Ok(self.at(|reference, now| reference.maintain(now, token, |_, _| Step::Done(1))))
    }

    async fn begin_departure(
        &self,
        token: Token,
        cause: DepartureCause,
        has_archive: bool,
    ) -> Result<Step<Option<Departure>>> {
        Ok(self.at(|reference, now| {
            reference.maintain(now, token, |reference, _| {
                reference.begin_departure(now, cause, has_archive)
            })
        }))
    }

    async fn departing(
        &self,
        id: DepartureId,
        after: Option<MessageId>,
        limit: u32,
    ) -> Result<Vec<Record>> {
        Ok(self.at(|reference, _| reference.departing(id, after, limit)))
    }

    async fn record_archive(
        &self,
        token: Token,
        id: DepartureId,
        archive: &str,
    ) -> Result<Step<()>> {
        validate_archive(archive)?;
        Ok(self.at(|reference, now| {
            reference.maintain(now, token, |reference, _| {
                reference.record_archive(id, archive)
            })
        }))
    }

    async fn depart(&self, token: Token, id: DepartureId) -> Result<Step<Progress>> {
        Ok(self.at(|reference, now| {
            reference.maintain(now, token, |reference, owner| {
                reference.depart(now, owner, id)
            })
        }))
    }

    async fn forget_keys(&self, token: Token, limit: u32) -> Result<Step<u64>> {
        Ok(self.at(|reference, now| {
            reference.maintain(now, token, |reference, _| {
                Step::Done(reference.forget_keys(now, limit))
            })
        }))
    }

    async fn queue_history(&self) -> Result<Vec<QueueHistory>> {
        Ok(self.at(|reference, now| reference.queue_history(now)))
    }

    async fn database_size(&self) -> Result<DatabaseSize> {
        Ok(self.at(|reference, _| reference.database_size()))
    }

    async fn record_pass(&self, token: Token, end: &str) -> Result<Step<()>> {
        validate_pass_end(end)?;
        Ok(self.at(|reference, now| {
            reference.maintain(now, token, |reference, _| {
                reference.record_pass(now, end);
                Step::Done(())
            })
        }))
    }

    async fn growth(&self) -> Result<Growth> {
        Ok(self.at(|reference, _| reference.growth()))
    }
}

impl Reference {
    /// Leases the maintenance if it is free, over, or the caller's own.
    pub fn lease_maintenance(
        &mut self,
        now: Timestamp,
        fresh: Token,
        owner: &str,
        token: Option<Token>,
        ttl: Duration,
    ) -> Result<Option<Token>> {
        validate_maintenance(owner, ttl)?;
        let held = self.maintenance.as_ref();
        let own = held
            .map(|row| row.token)
            .filter(|held| Some(*held) == token);
        if own.is_none() && held.is_some_and(|row| row.expires_at > now) {
            return Ok(None);
        }
        let token = own.unwrap_or(fresh);
        self.maintenance = Some(MaintenanceRow {
            owner: owner.to_owned(),
            token,
            expires_at: later(now, ttl),
        });
        Ok(Some(token))
    }

    /// Takes a step in the name of the lease's owner, if the lease of this token lives.
    pub(super) fn maintain<T>(
        &mut self,
        now: Timestamp,
        token: Token,
        step: impl FnOnce(&mut Self, &str) -> Step<T>,
    ) -> Step<T> {
        let is_live = |row: &&MaintenanceRow| row.token == token && row.expires_at > now;
        match self.maintenance.as_ref().filter(is_live) {
            Some(row) => {
                let owner = row.owner.clone();
                step(self, &owner)
            }
            None => Step::Refused(Refusal::LeaseLost),
        }
    }

    /// Gives up a departure that has removed nothing yet: it was begun by another policy.
    pub(super) fn give_up_departure(&mut self) {
        let stays =
            |row: &DepartureRow| row.is_over || row.departure.state == DepartureState::Leaving;
        self.departures.retain(|_, row| stays(row));
    }

    /// The departure under way, or a new one of all messages that may leave.
    pub fn begin_departure(
        &mut self,
        now: Timestamp,
        cause: DepartureCause,
        has_archive: bool,
    ) -> Step<Option<Departure>> {
        if !has_archive {
            self.departures
                .retain(|_, row| !row.departure.is_to_be_archived());
        }
        let under_way = self.departures.values().find(|row| !row.is_over);
        if let Some(row) = under_way {
            return Step::Done(Some(row.departure.clone()));
        }
        let bounds = (
            self.messages.keys().next(),
            self.messages.keys().next_back(),
        );
        let (Some(&first), Some(&last)) = bounds else {
            return Step::Done(None);
        };
        let mut cutoffs = self.cutoffs(now, cause);
        let all = self.leaving(first, last, &cutoffs).len();
        cutoffs.retain(|_, cutoffs| cutoffs.allows(has_archive));
        let leaving = self.leaving(first, last, &cutoffs);
        if leaving.is_empty() {
            return match all {
                0 => Step::Done(None),
                _ => Step::Refused(Refusal::NoArchive),
            };
        }
        let must_archive = |message: &Finished| cutoffs[&self.messages[&message.id].queue].archive;
        self.last_departure += 1;
        let departure = Departure {
            id: DepartureId(self.last_departure),
            first,
            last,
            at: now,
            messages: leaving.len() as u64,
            stay: (self.messages.len() - leaving.len()) as u64,
            must_archive: leaving.iter().any(must_archive),
            state: DepartureState::Open,
        };
        let row = DepartureRow {
            departure: departure.clone(),
            fingerprint: fingerprint(&leaving),
            cutoffs,
            archive: None,
            is_over: false,
        };
        self.departures.insert(departure.id, row);
        Step::Done(Some(departure))
    }

    /// Until when the last event of a message that may leave now has happened, by queue.
    pub(super) fn cutoffs(
        &self,
        now: Timestamp,
        cause: DepartureCause,
    ) -> BTreeMap<QueueName, Cutoffs> {
        let cutoffs = |queue: &crate::Queue| {
            let cutoffs = Cutoffs::by(cause, &queue.policy, now)?;
            Some((queue.name.clone(), cutoffs))
        };
        self.queues.values().filter_map(cutoffs).collect()
    }

    /// The messages of a window that may leave, by id.
    pub(super) fn leaving(
        &self,
        first: MessageId,
        last: MessageId,
        cutoffs: &BTreeMap<QueueName, Cutoffs>,
    ) -> Vec<Finished> {
        let leaves = |(id, message): (&MessageId, &crate::Message)| {
            let cutoffs = cutoffs.get(&message.queue)?;
            let finished = self.finished(*id)?;
            may_leave(&finished, cutoffs).then_some(finished)
        };
        self.messages
            .range(first..=last)
            .filter_map(leaves)
            .collect()
    }

    fn finished(&self, id: MessageId) -> Option<Finished> {
        let state = self.state(id)?.kind();
        let (attempts, late) = (self.history(id), self.late(id));
        let audit: Vec<&AuditEntry> = self.audit_of(id).collect();
        let group = self.group_of(id);
        let last_event = (attempts.iter().map(|attempt| attempt.finished_at))
            .chain(late.iter().map(|late| late.at))
            .chain(audit.iter().map(|entry| entry.at))
            .chain(self.dead.get(&id).map(|dead| dead.at))
            .chain(self.discarded.get(&id).map(|discarded| discarded.at))
            .max()?;
        Some(Finished {
            id,
            state,
            last_event,
            is_head: group.is_some_and(|group| self.heads.get(&group) == Some(&id)),
            records: (attempts.len() + late.len() + audit.len()) as u64,
        })
    }

    fn audit_of(&self, id: MessageId) -> impl Iterator<Item = &AuditEntry> {
        let is_about = move |entry: &&AuditEntry| entry.message_id == Some(id);
        self.audit.iter().filter(is_about)
    }

    /// The messages of a departure that are still there, with everything recorded about them.
    pub fn departing(&self, id: DepartureId, after: Option<MessageId>, limit: u32) -> Vec<Record> {
        let Some(row) = self.departures.get(&id).filter(|row| !row.is_over) else {
            return Vec::new();
        };
        let Departure { first, last, .. } = row.departure;
        let leaving = self.leaving(first, last, &row.cutoffs);
        let page = leaving
            .iter()
            .filter(|message| after.is_none_or(|after| message.id > after))
            .take(limit.min(PAGE_ENTRIES_MAX) as usize);
        page.map(|message| self.record(message)).collect()
    }

    fn record(&self, Finished { id, state, .. }: &Finished) -> Record {
        Record {
            message: self.messages[id].clone(),
            state: *state,
            dead: self.dead.get(id).map(|dead| dead.letter(*id)),
            attempts: self.history(*id),
            late: self.late(*id),
            audit: self.audit_of(*id).cloned().collect(),
            erased: self.erasure(*id),
        }
    }

    /// Records the archive of a departure that was not given up.
    fn record_archive(&mut self, id: DepartureId, archive: &str) -> Step<()> {
        let Some(row) = self.departures.get_mut(&id) else {
            return Step::Refused(Refusal::Changed);
        };
        if !row.is_over {
            row.archive = Some(archive.to_owned());
            row.departure.state = DepartureState::Archived;
        }
        Step::Done(())
    }

    /// Removes all messages of a departure at once, or gives it up if they have changed.
    fn depart(&mut self, now: Timestamp, owner: &str, id: DepartureId) -> Step<Progress> {
        let Some(row) = self.departures.get(&id).cloned() else {
            return Step::Refused(Refusal::Changed);
        };
        if row.is_over {
            return Step::Done(Progress {
                removed: 0,
                is_over: true,
            });
        }
        let departure = &row.departure;
        if departure.is_to_be_archived() {
            return Step::Refused(Refusal::NoArchive);
        }
        let leaving = self.leaving(departure.first, departure.last, &row.cutoffs);
        if fingerprint(&leaving) != row.fingerprint {
            self.departures.remove(&id);
            return Step::Refused(Refusal::Changed);
        }
        let by = departure.by(owner, row.archive.as_deref());
        self.record_action(now, &by, "depart", None, None);
        for message in &leaving {
            self.remove(message);
        }
        let row = self.departures.get_mut(&id);
        row.expect("invariant: found above").is_over = true;
        Step::Done(Progress {
            removed: leaving.len() as u64,
            is_over: true,
        })
    }

    /// Removes a message with everything recorded about it, but its key.
    fn remove(&mut self, Finished { id, state, .. }: &Finished) {
        let message = self.messages.remove(id).expect("invariant: it leaves once");
        self.attempts.retain(|(of, _), _| of != id);
        self.late.retain(|(of, _), _| of != id);
        self.audit.retain(|entry| entry.message_id != Some(*id));
        self.dead.remove(id);
        self.discarded.remove(id);
        let departed = self.departed.entry(message.queue.clone()).or_default();
        departed.messages += 1;
        departed.dead += u64::from(*state == StateKind::Dead);
        departed.discarded += u64::from(*state == StateKind::Discarded);
        let Some(key) = message.key else {
            return;
        };
        let place = (message.queue, key);
        self.keys.remove(&place);
        let former = FormerKey {
            message_id: *id,
            at: message.created_at,
            state: *state,
            digest: (self.erasures.get(id))
                .map_or_else(|| message.payload.digest(), |row| row.digest),
            group: message.group,
        };
        let before = self.former_keys.insert(place, former);
        assert!(before.is_none(), "a key has one message");
    }

    fn forget_keys(&mut self, now: Timestamp, limit: u32) -> u64 {
        let is_past = |(place, former): &(&(QueueName, String), &FormerKey)| {
            let cutoff = key_cutoff(self.policy(&place.0), now);
            cutoff.is_some_and(|cutoff| former.at <= cutoff)
        };
        let past = self.former_keys.iter().filter(is_past);
        let past: Vec<_> = past
            .take(limit as usize)
            .map(|(place, _)| place.clone())
            .collect();
        for place in &past {
            self.former_keys.remove(place);
        }
        past.len() as u64
    }
}
