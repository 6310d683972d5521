//! Expiry: what happens to messages whose holder fell silent.

use jiff::Timestamp;

use super::{Entry, LeaseRow, Reference};
use crate::{
    AttemptOutcome, By, EndedLease, Expired, Fence, Next, TokenPrefix, after_expiry, error::Result,
};

impl Reference {
    /// Ends up to `limit` expired leases, oldest first.
    pub fn expire(&mut self, now: Timestamp, limit: u32) -> Expired {
        self.expire_where(now, limit, |_| true)
    }

    pub(super) fn expire_where(
        &mut self,
        now: Timestamp,
        limit: u32,
        wanted: impl Fn(&LeaseRow) -> bool,
    ) -> Expired {
        let over: Vec<Fence> = self
            .leases
            .iter()
            .filter(|(_, lease)| lease.expires_at <= now && wanted(lease))
            .map(|(fence, _)| *fence)
            .take(limit as usize)
            .collect();
        let mut expired = Expired::default();
        for fence in over {
            expired.leases += 1;
            expired.messages += self.end(now, fence);
        }
        expired
    }

    /// Ends the lease an operator names as if it had expired.
    pub fn end_lease(
        &mut self,
        now: Timestamp,
        prefix: &TokenPrefix,
        by: &By,
    ) -> Result<EndedLease> {
        by.validate()?;
        let named: Vec<Fence> = self
            .leases
            .iter()
            .filter(|(_, lease)| lease.token.to_string().starts_with(prefix.as_str()))
            .map(|(fence, _)| *fence)
            .collect();
        let fence = prefix.only(&named)?;
        let lease = &self.leases[&fence];
        let (queue, owner) = (lease.queue.clone(), lease.owner.clone());
        let by = by.of_lease(fence, &owner)?;
        let messages = self.end(now, fence);
        self.record_action(now, &by, "end_lease", Some(&queue), None);
        Ok(EndedLease {
            fence,
            queue,
            owner,
            messages,
        })
    }

    /// Ends one lease: an attempt for every message, and everything that goes back goes back in
    /// halves, each to be leased alone, so that a poison message is alone after log2(n) crashes.
    fn end(&mut self, now: Timestamp, fence: Fence) -> u64 {
        let lease = self.leases.remove(&fence).expect("invariant: just listed");
        let alone = self.counts_alone(lease.entries.len() == 1);
        let mut back: Vec<Entry> = Vec::new();
        let mut finished = Vec::new();
        for entry in &lease.entries {
            let begun = lease.begun.contains(&entry.id);
            let (next, tries) = after_expiry(self.policy(&lease.queue), entry.tries, begun, alone);
            let outcome = if begun {
                AttemptOutcome::Uncertain
            } else {
                AttemptOutcome::Expired
            };
            let due_at = matches!(next, Next::Ready { .. }).then_some(now);
            self.append_attempt(now, fence, &lease, *entry, None, outcome, due_at);
            let entry = Entry {
                tries,
                attempts: entry.attempts + 1,
                ..*entry
            };
            match next {
                Next::Ready { .. } => back.push(entry),
                next => finished.extend(self.park_or_end(now, &lease, entry, next, &None)),
            }
        }
        let (first, second) = back.split_at(back.len().div_ceil(2));
        self.make_ready(&lease.queue, now, first, true);
        self.make_ready(&lease.queue, now, second, true);
        for (id, died) in finished {
            self.pass_turn(now, id, died);
        }
        lease.entries.len() as u64
    }

    #[cfg(not(feature = "twins"))]
    fn counts_alone(&self, alone: bool) -> bool {
        alone
    }
}
