//! Waiting for work: the worker's side of the wake-up protocol, docs/adr/0006-wake-ups.md.

use std::time::Duration;

use consign_kernel::{QueueName, Result};
use sqlx::postgres::{PgRow, types::PgInterval};
use tokio::time::Instant;
use uuid::Uuid;

use crate::{
    PostgresStore,
    pools::Use,
    rows,
    wakes::{Notification, QueueListener},
};

/// For so long after a queue had work, it is looked at without being registered: a busy queue would
/// make a producer notify for every claim that finds nothing.
const EAGER: Duration = Duration::from_millis(10);
/// The pause between two of those looks.
const EAGER_PAUSE: Duration = Duration::from_millis(3);
/// The shortest time from one registration to the next: any login may send notifications.
const REST_PAUSE: Duration = Duration::from_millis(20);
/// The first pause between two looks after registering; it doubles.
const PAUSE_MIN: Duration = Duration::from_millis(1);
/// The longest pause between looks while producers that may not have seen the worker commit.
const PAUSE_MAX: Duration = Duration::from_millis(25);
/// For so long at most: afterwards they are slow, and looked for now and then.
const COMMITTING_MAX: Duration = Duration::from_secs(1);
const SLOW_LOOK: Duration = Duration::from_secs(1);
/// How often to look while the connection for wake-ups is gone.
const UNNOTIFIED_LOOK: Duration = Duration::from_millis(50);
/// The longest registration.
const REST_MAX: Duration = Duration::from_secs(60);
/// The longest wait.
const WAIT_MAX: Duration = Duration::from_secs(24 * 3600);

/// The result of a poll.
enum Next {
    /// Something may be claimed.
    Claim,
    Look,
    Sleep(Instant),
}

impl PostgresStore {
    pub(crate) async fn wait_as(
        &self,
        id: Uuid,
        queue: &QueueName,
        limit: Duration,
    ) -> Result<bool> {
        let deadline = Instant::now() + limit.min(WAIT_MAX);
        loop {
            // Before the look: a notification that comes in between is received.
            let mut listener = self.wakes.listener(queue);
            let looks_again = Instant::now() + REST_PAUSE;
            let next = if self.wakes.is_listening().await {
                self.register_idle(id, queue, deadline, &mut listener)
                    .await?
            } else {
                self.look_without_notifications(queue, deadline).await?
            };
            let mut notification = match next {
                Next::Claim => return Ok(true),
                Next::Look => Notification::Look,
                Next::Sleep(until) => listener.wait(until.min(deadline)).await,
            };
            if notification == Notification::Look {
                notification = listener.wait_for_work(looks_again.min(deadline)).await;
            }
            if notification == Notification::Work {
                return Ok(true);
            }
            if Instant::now() >= deadline {
                return Ok(false);
            }
        }
    }

    /// Where no wake-up comes: behind a transaction pooler the caller polls, and a connection that
    /// broke comes back soon.
    async fn look_without_notifications(
        &self,
        queue: &QueueName,
        deadline: Instant,
    ) -> Result<Next> {
        let until = self.until_due(queue).await?;
        let most = if self.wakes.can_listen() {
            UNNOTIFIED_LOOK
        } else {
            WAIT_MAX
        };
        Ok(after(until, (Instant::now() + most).min(deadline)))
    }

    /// Registers this worker as asleep on the queue, and looks until nothing can have been missed.
    async fn register_idle(
        &self,
        id: Uuid,
        queue: &QueueName,
        deadline: Instant,
        listener: &mut QueueListener,
    ) -> Result<Next> {
        if let Some(next) = self.look_eagerly(queue, listener).await? {
            return Ok(next);
        }
        let limit = deadline
            .saturating_duration_since(Instant::now())
            .min(REST_MAX);
        let statement =
            sqlx::query("SELECT until, registered FROM consign.register_idle($1, $2, $3)")
                .bind(queue.as_str())
                .bind(id)
                .bind(rows::interval(limit));
        let rows = self
            .fetch_as(Use::Claim, "register as idle", statement)
            .await?;
        let row = first(&rows)?;
        let rests_until = Instant::now() + limit;
        let is_registered: bool = rows::column(row, "registered")?;
        match after(duration(row)?, rests_until) {
            Next::Sleep(_) if is_registered => {
                self.look_until_sure(queue, rests_until, listener).await
            }
            next => Ok(next),
        }
    }

    /// While the queue had work a moment ago.
    async fn look_eagerly(
        &self,
        queue: &QueueName,
        listener: &mut QueueListener,
    ) -> Result<Option<Next>> {
        let Some(found_at) = self.wakes.found_at(queue) else {
            return Ok(None);
        };
        while Instant::now() < found_at + EAGER {
            let until = Instant::now() + EAGER_PAUSE;
            if listener.wait_for_work(until).await == Notification::Work {
                return Ok(Some(Next::Claim));
            }
            if let Next::Claim = after(self.until_due(queue).await?, until) {
                return Ok(Some(Next::Claim));
            }
        }
        Ok(None)
    }

    /// Looks again until every transaction has ended that may have looked for sleeping workers
    /// before this one was registered. Later ones see the registration.
    async fn look_until_sure(
        &self,
        queue: &QueueName,
        rests_until: Instant,
        listener: &mut QueueListener,
    ) -> Result<Next> {
        let started = Instant::now();
        let (until, all) = self.look_for_work(queue, None).await?;
        let (mut committing, mut has_slow) = self.wakes.without_slow(all);
        let mut next = after(until, rests_until);
        let mut pause = PAUSE_MIN;
        while let Next::Sleep(until) = next
            && !committing.is_empty()
        {
            if started.elapsed() > COMMITTING_MAX {
                self.wakes.add_slow(committing);
                has_slow = true;
                break;
            }
            match listener.wait(until.min(Instant::now() + pause)).await {
                Notification::Work => return Ok(Next::Claim),
                Notification::Look => return Ok(Next::Look),
                Notification::Timeout => {}
            }
            pause = (pause * 2).min(PAUSE_MAX);
            let (until, still) = self.look_for_work(queue, Some(&committing)).await?;
            committing = still;
            next = after(until, rests_until);
        }
        Ok(match next {
            Next::Sleep(until) if has_slow => Next::Sleep(until.min(Instant::now() + SLOW_LOOK)),
            next => next,
        })
    }

    /// How long until something is due, and which transactions are about to commit.
    async fn look_for_work(
        &self,
        queue: &QueueName,
        committing: Option<&[String]>,
    ) -> Result<(Option<Duration>, Vec<String>)> {
        let statement = sqlx::query("SELECT until, committing FROM consign.look($1, $2)")
            .bind(queue.as_str())
            .bind(committing);
        let rows = self.read_as(Use::Claim, "look for work", statement).await?;
        let row = first(&rows)?;
        Ok((duration(row)?, rows::column(row, "committing")?))
    }

    /// How long until the queue has something to claim, if anything is in sight.
    async fn until_due(&self, queue: &QueueName) -> Result<Option<Duration>> {
        let statement = sqlx::query("SELECT consign.until_due($1) AS until").bind(queue.as_str());
        let rows = self.read_as(Use::Claim, "look for work", statement).await?;
        rows.first().map_or(Ok(None), duration)
    }
}

/// What to do about something that is due after `until`, where sleep ends at `most`.
fn after(until: Option<Duration>, most: Instant) -> Next {
    match until {
        Some(Duration::ZERO) => Next::Claim,
        Some(until) => Next::Sleep(most.min(Instant::now() + until.min(WAIT_MAX))),
        None => Next::Sleep(most),
    }
}

fn first(rows: &[PgRow]) -> Result<&PgRow> {
    rows.first()
        .ok_or_else(|| rows::corrupt("a look returned nothing"))
}

fn duration(row: &PgRow) -> Result<Option<Duration>> {
    let until: Option<PgInterval> = rows::column(row, "until")?;
    Ok(until.map(|until| {
        let days_us = i64::from(until.days).saturating_mul(86_400_000_000);
        let until_us = days_us.saturating_add(until.microseconds);
        Duration::from_micros(until_us.max(0).unsigned_abs())
    }))
}
