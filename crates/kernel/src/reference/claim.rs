//! Claiming, renewing, releasing, beginning.

use std::{collections::BTreeSet, time::Duration};

use async_trait::async_trait;
use jiff::Timestamp;
use uuid::Uuid;

use super::{BatchKey, Entry, LeaseRow, Reference, later};
use crate::{
    AttemptOutcome, BeginAnswer, Claim, ClaimedMessage, Claims, Expiry, Fence, Lease, MessageId,
    Outcome, QueueName, ReferenceStore, ReleaseAnswer, RenewAnswer, SendSlots, Token,
    error::Result,
    plan::{self, Room, Share, claimable, not_in_lease},
    queue::validate_ttl,
};

#[async_trait]
impl Claims for ReferenceStore {
    /// Never waits: nothing here sleeps.
    async fn wait(&self, _queue: &QueueName, _timeout: Duration) -> Result<bool> {
        Ok(false)
    }

    async fn claim(&self, claim: &Claim) -> Result<Option<Lease>> {
        let token = self.draw_token();
        self.at(|reference, now| {
            #[cfg(feature = "twins")]
            let token = reference.counter_token().unwrap_or(token);
            reference.claim(now, token, claim)
        })
    }

    async fn reserve_slots(&self, queue: &QueueName, count: u32) -> Result<Option<SendSlots>> {
        self.at(|reference, now| reference.reserve_slots(now, queue, count))
    }

    async fn renew(&self, token: Token, ttl: Duration) -> Result<RenewAnswer> {
        self.at(|reference, now| reference.renew(now, token, ttl))
    }

    async fn release(&self, token: Token) -> Result<ReleaseAnswer> {
        self.at(|reference, now| reference.release(now, token))
    }

    async fn begin(&self, token: Token, ids: &[MessageId]) -> Result<BeginAnswer> {
        self.at(|reference, now| reference.begin(now, token, ids))
    }

    async fn expire(&self, limit: u32) -> Result<Expiry> {
        Ok(self.at(|reference, now| reference.expire(now, limit)))
    }
}

impl Reference {
    /// Leases the oldest due messages of a queue under a fresh `token`. Those whose time has passed are
    /// settled under the same lease.
    pub fn claim(&mut self, now: Timestamp, token: Token, claim: &Claim) -> Result<Option<Lease>> {
        claim.validate()?;
        let policy = &self.known_queue(&claim.queue)?.policy;
        if let Some(ttl) = claim.ttl {
            policy.check_ttl(&claim.queue, ttl)?;
        }
        self.expire_where(now, u32::MAX, |lease| lease.queue == claim.queue);
        let queue = self.known_queue(&claim.queue)?;
        if queue.paused_at.is_some() {
            return Ok(None);
        }
        let ttl = claim.ttl.unwrap_or(queue.policy.lease_ttl());
        let bytes_max = claim.bytes_allowed(&queue.policy);
        let limit = queue
            .policy
            .claimable(claim.limit, self.leased(&claim.queue));
        loop {
            let entries = self.take_due(now, &claim.queue, Room::new(limit, bytes_max));
            if entries.is_empty() {
                return Ok(None);
            }
            let lease = self.lease(now, token, claim, ttl, entries);
            let (messages, expired) = plan::split_expired(lease.messages, now);
            if !expired.is_empty() {
                // No retry, so no chance is needed.
                self.settle(now, token, &expired, 0.0)?;
            }
            if !messages.is_empty() {
                return Ok(Some(Lease { messages, ..lease }));
            }
        }
    }

    fn lease(
        &mut self,
        now: Timestamp,
        token: Token,
        claim: &Claim,
        ttl: Duration,
        entries: Vec<Entry>,
    ) -> Lease {
        self.last_fence += 1;
        let fence = Fence(self.last_fence);
        let row = LeaseRow {
            token,
            queue: claim.queue.clone(),
            owner: claim.owner.clone(),
            entries,
            begun: BTreeSet::new(),
            claimed_at: now,
            expires_at: later(now, ttl),
        };
        let messages = row
            .entries
            .iter()
            .map(|entry| self.claimed(entry))
            .collect();
        let lease = Lease {
            token,
            fence,
            claimed_at: row.claimed_at,
            expires_at: row.expires_at,
            messages,
        };
        self.leases.insert(fence, row);
        lease
    }

    /// Messages of a queue in leases.
    pub(super) fn leased(&self, queue: &QueueName) -> u64 {
        let leases = self.leases.values().filter(|lease| lease.queue == *queue);
        leases.map(|lease| lease.entries.len() as u64).sum()
    }

    /// Takes the oldest due entries out of their batches, the last one split to respect the limits.
    fn take_due(&mut self, now: Timestamp, queue: &QueueName, mut room: Room) -> Vec<Entry> {
        let due = self.ready.keys();
        let due = due.filter(|key| key.queue == *queue && key.due_at <= now);
        let due: Vec<BatchKey> = claimable(due.cloned().collect(), |key| self.ready[key].isolated);
        let mut taken = Vec::new();
        for key in due {
            let batch = self.ready.get_mut(&key).expect("invariant: just listed");
            let size = |entry: &Entry| self.messages[&entry.id].bytes() as u64;
            match room.take_by_sizes(batch.entries.len(), batch.entries.iter().map(size)) {
                Share::Whole => {
                    taken.append(&mut batch.entries);
                    self.ready.remove(&key);
                }
                Share::Part(count) => {
                    taken.extend(batch.entries.drain(..count));
                    break;
                }
                Share::Nothing => break,
            }
        }
        taken
    }

    /// Reserves send slots, if the queue has a rate for all processes.
    pub fn reserve_slots(
        &mut self,
        now: Timestamp,
        queue: &QueueName,
        count: u32,
    ) -> Result<Option<SendSlots>> {
        SendSlots::validate_count(count)?;
        let Some(rate) = self.known_queue(queue)?.policy.total_rate_per_second else {
            return Ok(None);
        };
        let (slots, last) = SendSlots::reserve(rate, self.slots.get(queue).copied(), now, count);
        self.slots.insert(queue.clone(), last);
        Ok(Some(slots))
    }

    fn claimed(&self, entry: &Entry) -> ClaimedMessage {
        ClaimedMessage {
            message: self.messages[&entry.id].clone(),
            attempt_no: entry.attempts + 1,
            tries: entry.tries,
            in_doubt: self.in_doubt(entry.id),
        }
    }

    /// Whether an earlier delivery may have happened.
    ///
    /// The last attempt that reached the sink, if any did, ended uncertain; expired attempts never
    /// reached it, so they change nothing. Or a late result reports that it was
    /// delivered: no later attempt is about that delivery, so this lasts.
    fn in_doubt(&self, id: MessageId) -> bool {
        let last = self
            .attempts
            .range((id, 0)..=(id, u32::MAX))
            .rev()
            .map(|(_, attempt)| attempt.outcome)
            .find(|outcome| *outcome != AttemptOutcome::Expired);
        let late = self
            .late
            .range((id, Token(Uuid::nil()))..=(id, Token(Uuid::max())));
        last == Some(AttemptOutcome::Uncertain)
            || late
                .map(|(_, late)| late.outcome)
                .any(|outcome| outcome == Outcome::Delivered)
    }

    /// Prolongs a lease to `ttl` from now.
    pub fn renew(&mut self, now: Timestamp, token: Token, ttl: Duration) -> Result<RenewAnswer> {
        validate_ttl("ttl", ttl)?;
        let Some(fence) = self.live(now, token) else {
            return Ok(RenewAnswer::LeaseLost);
        };
        let queue = &self.leases[&fence].queue;
        self.policy(queue).check_ttl(queue, ttl)?;
        let lease = self.lease_mut(fence);
        lease.expires_at = lease.expires_at.max(later(now, ttl));
        Ok(RenewAnswer::Renewed {
            expires_at: lease.expires_at,
        })
    }

    /// Returns messages that have not begun to ready; no attempt is recorded.
    pub fn release(&mut self, now: Timestamp, token: Token) -> Result<ReleaseAnswer> {
        let Some(fence) = self.live(now, token) else {
            return Ok(ReleaseAnswer::LeaseLost);
        };
        let lease = self.lease_mut(fence);
        let (begun, fresh): (Vec<Entry>, Vec<Entry>) = lease
            .entries
            .iter()
            .partition(|entry| lease.begun.contains(&entry.id));
        let queue = lease.queue.clone();
        lease.entries = begun;
        if lease.entries.is_empty() {
            self.leases.remove(&fence);
        }
        self.make_ready(&queue, now, &fresh, false);
        Ok(ReleaseAnswer::Released(
            fresh.iter().map(|entry| entry.id).collect(),
        ))
    }

    /// Records that these messages are about to be sent.
    pub fn begin(
        &mut self,
        now: Timestamp,
        token: Token,
        ids: &[MessageId],
    ) -> Result<BeginAnswer> {
        let Some(fence) = self.live(now, token) else {
            return Ok(BeginAnswer::LeaseLost);
        };
        let lease = self.lease_mut(fence);
        let strangers = not_in_lease(&lease.entries, ids.iter().copied());
        if !strangers.is_empty() {
            return Ok(BeginAnswer::NotInLease(strangers));
        }
        lease.begun.extend(ids);
        Ok(BeginAnswer::Begun)
    }

    /// The live lease of a token.
    pub(super) fn live(&self, now: Timestamp, token: Token) -> Option<Fence> {
        let (fence, lease) = self.leases.iter().find(|(_, lease)| lease.token == token)?;
        (lease.expires_at > now).then_some(*fence)
    }

    pub(super) fn lease_mut(&mut self, fence: Fence) -> &mut LeaseRow {
        self.leases
            .get_mut(&fence)
            .expect("invariant: the lease was just found")
    }
}
