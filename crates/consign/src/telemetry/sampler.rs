//! Counts the lanes now and then.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use consign_kernel::{Counts, Error, Lane, Store};
use jiff::Timestamp;
use metrics::gauge;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::metrics::{DATABASE_UP, MESSAGES, OLDEST_READY_AGE_SECONDS, OUTBOX_PENDING_COUNT};

/// A database that takes longer than this to count does not answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Counts the lanes now and then, for the metrics.
pub(crate) struct Sampler {
    store: Arc<dyn Store>,
    every: Duration,
    /// What the recorder needs done from time to time.
    upkeep: Box<dyn Fn() + Send + Sync>,
    /// Lanes that were counted before; one that is gone is set to nothing.
    seen: BTreeSet<String>,
}

impl Sampler {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        every: Duration,
        upkeep: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        Self {
            store,
            every,
            upkeep: Box::new(upkeep),
            seen: BTreeSet::new(),
        }
    }

    /// Counts until it is dropped.
    pub(crate) async fn run(mut self) {
        let mut ticks = interval(self.every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut was_up = true;
        loop {
            ticks.tick().await;
            (self.upkeep)();
            let counted = match timeout(PATIENCE, self.store.lanes()).await {
                Ok(Ok(lanes)) => Ok(lanes),
                Ok(Err(error)) => Err(told(&error)),
                Err(_) => Err(format!("no answer within {PATIENCE:?}")),
            };
            let up = counted.is_ok();
            gauge!(DATABASE_UP).set(f64::from(u8::from(up)));
            match counted {
                Ok(lanes) => self.record(&lanes),
                // Once: the workers say it too, and it may last for hours.
                Err(why) if was_up => tracing::warn!("the lanes cannot be counted: {why}"),
                Err(_) => {}
            }
            was_up = up;
        }
    }

    fn record(&mut self, lanes: &[(Lane, Counts)]) {
        let now = Timestamp::now();
        let present: BTreeSet<String> = lanes
            .iter()
            .map(|(lane, _)| lane.name.to_string())
            .collect();
        for gone in self.seen.difference(&present) {
            record_lane(gone, &Counts::default(), now);
        }
        for (lane, counts) in lanes {
            record_lane(lane.name.as_str(), counts, now);
        }
        self.seen = present;
    }
}

fn record_lane(lane: &str, counts: &Counts, now: Timestamp) {
    let states = [
        ("waiting", counts.waiting),
        ("ready", counts.ready),
        ("scheduled", counts.scheduled),
        ("leased", counts.leased),
        ("held", counts.held),
        ("dead", counts.dead),
    ];
    for (state, count) in states {
        gauge!(MESSAGES, "lane" => lane.to_owned(), "state" => state).set(count as f64);
    }
    let age = counts
        .oldest_due_at
        .map_or(0.0, |at| now.duration_since(at).as_secs_f64().max(0.0));
    gauge!(OLDEST_READY_AGE_SECONDS, "lane" => lane.to_owned()).set(age);
    gauge!(OUTBOX_PENDING_COUNT, "lane" => lane.to_owned()).set(counts.unfinished() as f64);
}

fn told(error: &Error) -> String {
    crate::failure::with_causes(error)
}
