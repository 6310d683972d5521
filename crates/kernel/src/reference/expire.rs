//! Expiry: what happens to the messages of a lease that was not renewed.

use jiff::Timestamp;

use super::{LeaseRow, Reference};
use crate::{By, EndedLease, Expiry, Fence, TokenPrefix, error::Result, plan, plan::AlertEvent};

impl Reference {
    /// Ends up to `limit` expired leases, oldest first.
    pub fn expire(&mut self, now: Timestamp, limit: u32) -> Expiry {
        self.expire_where(now, limit, |_| true)
    }

    pub(super) fn expire_where(
        &mut self,
        now: Timestamp,
        limit: u32,
        wanted: impl Fn(&LeaseRow) -> bool,
    ) -> Expiry {
        let over: Vec<Fence> = self
            .leases
            .iter()
            .filter(|(_, lease)| lease.expires_at <= now && wanted(lease))
            .map(|(fence, _)| *fence)
            .take(limit as usize)
            .collect();
        let mut expired = Expiry::default();
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

    /// Ends one lease, and answers how many messages it had.
    fn end(&mut self, now: Timestamp, fence: Fence) -> u64 {
        let lease = self.leases.remove(&fence).expect("invariant: just listed");
        let policy = self.policy(&lease.queue);
        let alone = self.counts_alone(lease.entries.len() == 1);
        let plan = plan::expiry(policy, now, &lease.entries, &lease.begun, false, alone);
        self.apply_lease_plan(now, fence, &lease, plan);
        self.record_event(AlertEvent::lease_lost(&lease.queue, &lease.entries, now));
        lease.entries.len() as u64
    }

    #[cfg(not(feature = "twins"))]
    fn counts_alone(&self, alone: bool) -> bool {
        alone
    }
}
