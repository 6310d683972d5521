//! Expiry: what happens to messages whose holder fell silent.

use std::time::Duration;

use consign_kernel::{
    AttemptOutcome, By, EndedLease, Expired, Fence, Next, QueueName, TokenPrefix, after_expiry,
    codes,
};
use serde_json::json;

use crate::{
    error::Result,
    groups::NewRun,
    job::Work,
    rows::{self, Entry, LeaseColumns, LeaseRow, later},
    settle::{Departures, NewAttempt},
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
    ) -> Result<Expired> {
        let mut expired = Expired::default();
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
            // Hyphens have their places.
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

    /// Ends one lease: an attempt for every message, and everything that goes back goes back in
    /// halves, each to be leased alone, so that a poison message is alone after log2(n) crashes.
    ///
    /// What is only presumed to have begun is treated as if it had not, but its attempt says so, and
    /// the next claim is told that it is in doubt.
    pub async fn end(&mut self, lease: LeaseRow, rest: Duration) -> Result<()> {
        let alone = lease.entries.len() == 1;
        let due_at = later(self.now, rest);
        let presumed = json!({codes::MAY_HAVE_BEGUN: true}).to_string();
        let mut attempts = Vec::with_capacity(lease.entries.len());
        let mut back: Vec<Entry> = Vec::new();
        let mut departures = Departures::default();
        for entry in &lease.entries {
            let begun = lease.begun.contains(&entry.id);
            let (next, tries) = after_expiry(&lease.policy, entry.tries, begun, alone);
            let outcome = match begun {
                true => AttemptOutcome::Uncertain,
                false => AttemptOutcome::Expired,
            };
            attempts.push(NewAttempt {
                entry: *entry,
                outcome,
                code: Some(codes::LEASE_EXPIRED.to_owned()),
                detail: None,
                result: (lease.presumed_begun && !begun).then(|| presumed.clone()),
                next_due_at: matches!(next, Next::Ready { .. }).then_some(due_at),
            });
            let entry = Entry {
                tries,
                attempts: entry.attempts + 1,
                ..*entry
            };
            match next {
                Next::Ready { .. } => back.push(entry),
                next => departures.file(entry, next, None),
            }
        }
        let nothing = LeaseRow {
            entries: Vec::new(),
            ..lease.clone()
        };
        self.append_attempts(&lease, &attempts, nothing).await?;
        let (first, second) = back.split_at(back.len().div_ceil(2));
        let half = |entries| NewRun {
            queue: &lease.queue,
            due_at,
            entries,
            apart: true,
        };
        self.make_ready(&[half(first), half(second)]).await?;
        self.wake(&lease.queue, &lease.policy);
        self.depart(&lease, departures).await
    }
}
