//! Counts the queues now and then.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use consign_app::AppService;
use consign_kernel::{Counts, Error, PAGE_ENTRIES_MAX, Queue, QueueName, Totals};
use jiff::Timestamp;
use metrics::gauge;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use super::{
    growth::GrowthGauges,
    metrics::{DATABASE_UP, MESSAGES, OLDEST_READY_AGE_SECONDS, OUTBOX_PENDING_COUNT, QUEUES},
};
use crate::database::Database;

/// A database that takes longer than this to count does not answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// With more queues than this, all of them are counted as one: a gauge for each would be a page that no
/// scraper reads.
const QUEUES_MAX: u32 = PAGE_ENTRIES_MAX;
/// The label of all queues together; no queue can have this name.
pub(super) const ALL_QUEUES: &str = "_all";
/// How rarely a login that may not count looks whether it may by now.
const FORBIDDEN_PAUSE: Duration = Duration::from_secs(600);

/// Counts the queues now and then, for the metrics.
pub(crate) struct Sampler {
    database: Database,
    apps: Vec<Arc<dyn AppService>>,
    every: Duration,
    /// What the recorder needs done from time to time.
    upkeep: Box<dyn Fn() + Send + Sync>,
    /// Queues that were counted before; one that is gone is set to nothing.
    seen: BTreeSet<String>,
    growth: GrowthGauges,
}

impl Sampler {
    pub(crate) fn new(
        database: Database,
        apps: Vec<Arc<dyn AppService>>,
        every: Duration,
        growth: GrowthGauges,
        upkeep: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        Self {
            database,
            apps,
            every,
            upkeep: Box::new(upkeep),
            seen: BTreeSet::new(),
            growth,
        }
    }

    /// Counts until it is dropped.
    pub(crate) async fn run(mut self) {
        let mut ticks = interval(self.every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut was_up = true;
        // When the missing right was last logged.
        let mut forbidden_at: Option<Instant> = None;
        loop {
            ticks.tick().await;
            (self.upkeep)();
            let looked = match forbidden_at {
                Some(at) if at.elapsed() < FORBIDDEN_PAUSE => self.is_there().await,
                _ => self.count().await,
            };
            let why = match looked {
                Ok(()) => None,
                Err(SampleError::Forbidden(what)) => {
                    if forbidden_at.is_none() {
                        tracing::info!(
                            "the queues are not counted: that needs the role consign_auditor ({what})"
                        );
                    }
                    forbidden_at = Some(Instant::now());
                    None
                }
                Err(SampleError::Down(why)) => Some(why),
            };
            gauge!(DATABASE_UP).set(f64::from(u8::from(why.is_none())));
            // Once: the workers log it too, and it may last for hours.
            if let Some(why) = why.as_ref().filter(|_| was_up) {
                tracing::warn!("the queues cannot be counted: {why}");
            }
            was_up = why.is_none();
        }
    }

    async fn count(&mut self) -> Result<(), SampleError> {
        let totals = within_patience(self.database.store.totals()).await?;
        gauge!(QUEUES).set(totals.queues as f64);
        let queues = if totals.queues <= QUEUES_MAX.into() {
            within_patience(self.database.store.queues(None, QUEUES_MAX)).await?
        } else {
            Vec::new()
        };
        self.record(&queues, &totals);
        let growth = within_patience(self.database.store.growth()).await?;
        self.growth.show(&growth);
        for app in &self.apps {
            within_patience(app.sample(&self.database)).await?;
        }
        Ok(())
    }

    /// The least that shows whether the database answers.
    async fn is_there(&self) -> Result<(), SampleError> {
        let queue: QueueName = "default".parse().expect("invariant: a queue name");
        match within_patience(self.database.store.queue(&queue)).await {
            Ok(_) | Err(SampleError::Forbidden(_)) => Ok(()),
            Err(down) => Err(down),
        }
    }

    fn record(&mut self, queues: &[(Queue, Counts)], totals: &Totals) {
        let now = Timestamp::now();
        let mut present: BTreeSet<String> = queues
            .iter()
            .map(|(queue, _)| queue.name.to_string())
            .collect();
        if queues.is_empty() && totals.queues > 0 {
            record_queue(ALL_QUEUES, &totals.counts, now);
            present.insert(ALL_QUEUES.to_owned());
        }
        for gone in self.seen.difference(&present) {
            record_queue(gone, &Counts::default(), now);
        }
        for (queue, counts) in queues {
            record_queue(queue.name.as_str(), counts, now);
        }
        self.seen = present;
    }
}

fn record_queue(queue: &str, counts: &Counts, now: Timestamp) {
    let states = [
        ("waiting", counts.waiting),
        ("ready", counts.ready),
        ("scheduled", counts.scheduled),
        ("leased", counts.leased),
        ("held", counts.held),
        ("dead", counts.dead),
    ];
    for (state, count) in states {
        gauge!(MESSAGES, "queue" => queue.to_owned(), "state" => state).set(count as f64);
    }
    let age = counts
        .oldest_due_at
        .map_or(0.0, |at| now.duration_since(at).as_secs_f64().max(0.0));
    gauge!(OLDEST_READY_AGE_SECONDS, "queue" => queue.to_owned()).set(age);
    gauge!(OUTBOX_PENDING_COUNT, "queue" => queue.to_owned()).set(counts.unfinished() as f64);
}

/// Why the queues were not counted.
enum SampleError {
    /// The database answers, but the login may not.
    Forbidden(String),
    Down(String),
}

async fn within_patience<T>(
    query: impl Future<Output = Result<T, Error>>,
) -> Result<T, SampleError> {
    match timeout(PATIENCE, query).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(Error::Forbidden { what })) => Err(SampleError::Forbidden(what)),
        Ok(Err(error)) => Err(SampleError::Down(crate::failure::with_causes(&error))),
        Err(_) => Err(SampleError::Down(format!("no answer within {PATIENCE:?}"))),
    }
}
