//! Claiming, renewing, releasing, beginning.

use std::{collections::BTreeSet, time::Duration};

use jiff::Timestamp;
use uuid::Uuid;

use super::{Entry, LeaseRow, Reference, RunKey, later};
use crate::{
    AttemptOutcome, BeginAnswer, Claim, ClaimedMessage, Fence, Lease, MessageId, Outcome,
    ReleaseAnswer, RenewAnswer, Token, error::Result, queue::validate_ttl,
};

impl Reference {
    /// Leases the oldest due messages of a queue under a fresh `token`.
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
        let entries = self.take_due(now, claim, bytes_max);
        if entries.is_empty() {
            return Ok(None);
        }
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
        Ok(Some(lease))
    }

    /// Takes the oldest due entries out of their runs: one `apart` run alone if it is the oldest,
    /// otherwise any others, the last one split to respect the limit.
    fn take_due(&mut self, now: Timestamp, claim: &Claim, bytes_max: u64) -> Vec<Entry> {
        let mut bytes = 0;
        let limit = claim.limit as usize;
        let due: Vec<RunKey> = self
            .ready
            .keys()
            .filter(|key| key.queue == claim.queue && key.due_at <= now)
            .cloned()
            .collect();
        let first_is_apart = due.first().is_some_and(|key| self.ready[key].apart);
        let mut taken = Vec::new();
        for key in due {
            if taken.len() == limit || (first_is_apart && !taken.is_empty()) {
                break;
            }
            if self.ready[&key].apart && !first_is_apart {
                continue;
            }
            let run = self.ready.get_mut(&key).expect("invariant: just listed");
            let length = run.entries.len();
            let room = run.entries.iter().take(limit - taken.len());
            let fitting = room.take_while(|entry| {
                let is_first = bytes == 0;
                bytes += self.messages[&entry.id].bytes() as u64;
                is_first || bytes <= bytes_max
            });
            let count = fitting.count();
            taken.extend(run.entries.drain(..count));
            if count < length {
                break;
            }
            self.ready.remove(&key);
        }
        taken
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
    /// reached it, so they change nothing. Or somebody who had lost the message says that it was
    /// delivered: no later attempt speaks of that one, so this lasts.
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

    /// Gives back what has not begun, uncounted.
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
        let strangers = lease.strangers(ids.iter().copied());
        if !strangers.is_empty() {
            return Ok(BeginAnswer::NotInLease(strangers));
        }
        lease.begun.extend(ids);
        Ok(BeginAnswer::Begun)
    }

    /// The lease a token may speak for now.
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

impl LeaseRow {
    /// Those of `ids` that this lease does not hold, sorted, each once.
    pub(super) fn strangers(&self, ids: impl Iterator<Item = MessageId>) -> Vec<MessageId> {
        let held: BTreeSet<MessageId> = self.entries.iter().map(|entry| entry.id).collect();
        let asked: BTreeSet<MessageId> = ids.collect();
        asked.difference(&held).copied().collect()
    }
}
