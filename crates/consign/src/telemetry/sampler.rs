//! Counts the lanes now and then.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use consign_kernel::{Counts, Error, Lane, LaneName, PAGE_ENTRIES_MAX, Store, Totals};
use consign_orders::Ledger;
use jiff::Timestamp;
use metrics::gauge;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use super::metrics::{
    DATABASE_UP, LANES, MESSAGES, OLDEST_READY_AGE_SECONDS, OUTBOX_PENDING_COUNT,
};
use crate::database::Opened;

/// A database that takes longer than this to count does not answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// With more lanes than this, all of them are counted as one: a gauge for each would be a page that no
/// scraper reads.
const LANES_MAX: u32 = PAGE_ENTRIES_MAX;
/// The lane that stands for all; no lane can have this name.
const ALL_LANES: &str = "_all";
/// How rarely a login that may not count looks whether it may by now.
const FORBIDDEN_PAUSE: Duration = Duration::from_secs(600);

/// What is counted.
pub(crate) struct Sampled {
    store: Arc<dyn Store>,
    /// Where there are orders.
    ledger: Option<Arc<dyn Ledger>>,
}

impl From<Opened> for Sampled {
    fn from(opened: Opened) -> Self {
        Self {
            store: opened.store,
            ledger: Some(opened.ledger),
        }
    }
}

impl From<Arc<dyn Store>> for Sampled {
    fn from(store: Arc<dyn Store>) -> Self {
        let ledger = None;
        Self { store, ledger }
    }
}

/// Counts the lanes now and then, for the metrics.
pub(crate) struct Sampler {
    sampled: Sampled,
    every: Duration,
    /// What the recorder needs done from time to time.
    upkeep: Box<dyn Fn() + Send + Sync>,
    /// Lanes that were counted before; one that is gone is set to nothing.
    seen: BTreeSet<String>,
}

impl Sampler {
    pub(crate) fn new(
        sampled: Sampled,
        every: Duration,
        upkeep: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        Self {
            sampled,
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
        // When the login was last told that it may not.
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
                Err(Trouble::Forbidden(what)) => {
                    if forbidden_at.is_none() {
                        tracing::info!(
                            "the lanes are not counted: that needs the role consign_auditor ({what})"
                        );
                    }
                    forbidden_at = Some(Instant::now());
                    None
                }
                Err(Trouble::Down(why)) => Some(why),
            };
            gauge!(DATABASE_UP).set(f64::from(u8::from(why.is_none())));
            // Once: the workers say it too, and it may last for hours.
            if let Some(why) = why.as_ref().filter(|_| was_up) {
                tracing::warn!("the lanes cannot be counted: {why}");
            }
            was_up = why.is_none();
        }
    }

    async fn count(&mut self) -> Result<(), Trouble> {
        let totals = within_patience(self.sampled.store.totals()).await?;
        gauge!(LANES).set(totals.lanes as f64);
        let lanes = if totals.lanes <= LANES_MAX.into() {
            within_patience(self.sampled.store.lanes(None, LANES_MAX)).await?
        } else {
            Vec::new()
        };
        self.record(&lanes, &totals);
        if let Some(ledger) = &self.sampled.ledger {
            within_patience(consign_orders::metrics::sample(&**ledger)).await?;
        }
        Ok(())
    }

    /// The least that shows whether the database answers.
    async fn is_there(&self) -> Result<(), Trouble> {
        let lane: LaneName = "default".parse().expect("invariant: a lane name");
        match within_patience(self.sampled.store.lane(&lane)).await {
            Ok(_) | Err(Trouble::Forbidden(_)) => Ok(()),
            Err(down) => Err(down),
        }
    }

    fn record(&mut self, lanes: &[(Lane, Counts)], totals: &Totals) {
        let now = Timestamp::now();
        let mut present: BTreeSet<String> = lanes
            .iter()
            .map(|(lane, _)| lane.name.to_string())
            .collect();
        if lanes.is_empty() && totals.lanes > 0 {
            record_lane(ALL_LANES, &totals.counts, now);
            present.insert(ALL_LANES.to_owned());
        }
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

/// Why the lanes were not counted.
enum Trouble {
    /// The database answers, but the login may not.
    Forbidden(String),
    Down(String),
}

async fn within_patience<T>(asked: impl Future<Output = Result<T, Error>>) -> Result<T, Trouble> {
    match timeout(PATIENCE, asked).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(Error::Forbidden { what })) => Err(Trouble::Forbidden(what)),
        Ok(Err(error)) => Err(Trouble::Down(crate::failure::with_causes(&error))),
        Err(_) => Err(Trouble::Down(format!("no answer within {PATIENCE:?}"))),
    }
}
