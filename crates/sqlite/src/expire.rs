//! Expiry: what happens to the messages of a lease that was not renewed.

use std::time::Duration;

use consign_kernel::{
    By, EndedLease, Expiry, Fence, QueueName, TokenPrefix, plan, plan::AlertEvent,
};

use crate::{
    error::Result,
    job::Work,
    rows::{self, LeaseColumns, LeaseRow, later},
    sql,
};

impl Work<'_> {
    /// Ends up to `limit` expired leases, oldest first, of one queue or of all but those of apps that the
    /// store was opened without. What goes back rests for `rest`.
    pub async fn expire(
        &mut self,
        limit: u32,
        queue: Option<&QueueName>,
        rest: Duration,
    ) -> Result<Expiry> {
        let mut expired = Expiry::default();
        for lease in self.expired_leases(limit, queue).await? {
            expired.leases += 1;
            expired.messages += lease.entries.len() as u64;
            self.end(lease, rest).await?;
        }
        Ok(expired)
    }

    /// Up to `limit` expired leases, oldest first, of one queue or of all.
    pub async fn expired_leases(
        &mut self,
        limit: u32,
        queue: Option<&QueueName>,
    ) -> Result<Vec<LeaseRow>> {
        let over: Vec<LeaseColumns> = sqlx::query_as(sql!("lease_ended"))
            .bind(rows::micros(self.now))
            .bind(queue.map(QueueName::as_str))
            .bind(limit)
            .bind(self.components.names())
            .fetch_all(&mut *self.connection)
            .await?;
        over.into_iter().map(LeaseRow::new).collect()
    }

    /// Ends the lease an operator names as if it had expired.
    pub(crate) async fn end_lease(&mut self, prefix: &TokenPrefix, by: &By) -> Result<EndedLease> {
        by.validate()?;
        let named = sqlx::query(sql!("lease_by_prefix"))
            .bind(prefix.as_str().replace('-', ""))
            .fetch_all(&mut *self.connection)
            .await?;
        let mut leases = Vec::with_capacity(named.len());
        for row in &named {
            let lease = self.lease_row(row)?;
            // Hyphens are at fixed positions.
            if lease.token.to_string().starts_with(prefix.as_str()) {
                leases.push(lease);
            }
        }
        let fences: Vec<Fence> = leases.iter().map(|lease| lease.fence).collect();
        let fence = prefix.only(&fences)?;
        let lease = leases.remove(0);
        let by = by.of_lease(fence, &lease.owner)?;
        let ended = EndedLease {
            fence,
            queue: lease.queue.clone(),
            owner: lease.owner.clone(),
            messages: lease.entries.len() as u64,
        };
        self.end(lease, Duration::ZERO).await?;
        self.record_actions(&by, "end_lease", &[(Some(&ended.queue), None)])
            .await?;
        Ok(ended)
    }

    /// Ends one lease. What goes back rests for `rest`.
    pub async fn end(&mut self, lease: LeaseRow, rest: Duration) -> Result<()> {
        let alone = lease.entries.len() == 1;
        let plan = plan::expiry(
            &lease.policy,
            later(self.now, rest),
            &lease.entries,
            &lease.begun,
            lease.presumed_begun,
            alone,
        );
        let nothing = LeaseRow {
            entries: Vec::new(),
            ..lease.clone()
        };
        self.append_attempts(&lease, &plan.attempts, nothing)
            .await?;
        self.wake(&lease.queue, &lease.policy);
        self.apply_lease_plan(&lease, &plan).await?;
        let lost = AlertEvent::lease_lost(&lease.queue, &lease.entries, self.now);
        self.record_events(&lease.policy, &[lost]).await?;
        if let Some(hook) = self.components.hook_of(&lease.queue) {
            hook.expired(self, &lease, &plan).await?;
        }
        Ok(())
    }
}
