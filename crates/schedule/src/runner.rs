//! The task that takes the ticks of schedules, in every process that may.

use std::{fmt, mem, sync::Arc, time::Duration};

use consign_kernel::{Error, NextTick, Result, Schedule, Store};
use jiff::{SignedDuration, Timestamp};
use metrics::{counter, gauge};
use tokio::time::sleep;

use crate::{
    metrics::{FAILURES_TOTAL, MISSED_TOTAL, OVERDUE_SECONDS, TICKS_TOTAL},
    plan,
};

/// How rarely to look: a schedule that was added or changed waits no longer.
const POLL: Duration = Duration::from_secs(2);
/// How soon to look again at a schedule that another process was quicker with, or has locked.
const CONTENDED_PAUSE: SignedDuration = SignedDuration::from_millis(100);
/// How rarely to look where the store does not let this process take ticks.
const FORBIDDEN_POLL: Duration = Duration::from_secs(600);
/// Schedules in one look.
const PAGE: u32 = 100;

/// Takes ticks until it is dropped.
///
/// Without the right to, it logs that once and leaves them to processes that have it.
pub async fn run(store: Arc<dyn Store>) {
    let mut runner = Runner::new(store);
    loop {
        let pause = runner.round().await;
        sleep(pause).await;
    }
}

/// Takes ticks of the schedules of a store.
pub struct Runner {
    store: Arc<dyn Store>,
    /// Whether the last round failed, so that a failure is logged once while it lasts.
    is_failing: bool,
}

impl fmt::Debug for Runner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runner").finish_non_exhaustive()
    }
}

/// What a round has found so far.
#[derive(Default)]
struct Round {
    /// When to look again at the latest.
    again_at: Option<Timestamp>,
    /// The tick that waits longest of those whose step failed.
    oldest: Option<Timestamp>,
    /// The first step that failed.
    failure: Option<(String, Error)>,
}

impl Round {
    fn look_again(&mut self, at: Timestamp) {
        self.again_at = Some(self.again_at.map_or(at, |other| other.min(at)));
    }

    /// Ends a round: how long to wait until the next one.
    fn pause(&self, now: Timestamp) -> Duration {
        let late = self.oldest.map(|oldest| now.duration_since(oldest));
        gauge!(OVERDUE_SECONDS).set(late.map_or(0.0, |late| late.as_secs_f64()));
        let until = |at: Timestamp| Duration::try_from(at.duration_since(now)).unwrap_or_default();
        self.again_at.map_or(POLL, |at| until(at).min(POLL))
    }
}

impl Runner {
    /// A runner that has taken nothing yet.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            is_failing: false,
        }
    }

    /// Takes the ticks that are due now; returns how long to wait for the next round.
    pub async fn round(&mut self) -> Duration {
        let mut round = Round::default();
        let ended = self.take_all(&mut round).await;
        let was_failing = mem::replace(
            &mut self.is_failing,
            ended.is_err() || round.failure.is_some(),
        );
        match &ended {
            Err(error @ Error::Forbidden { .. }) => {
                if !was_failing {
                    tracing::info!(
                        "this process does not run schedules: that needs the role consign_operator ({error})"
                    );
                }
                return FORBIDDEN_POLL;
            }
            Err(error) if !was_failing => {
                tracing::warn!(%error, code = error.code(), "schedules cannot be run; retrying");
            }
            _ => {}
        }
        if let Some((schedule, error)) = &round.failure
            && !was_failing
        {
            let code = error.code();
            tracing::warn!(schedule, %error, code, "a step of a schedule failed; retrying");
        }
        ended.map_or(POLL, |now| round.pause(now))
    }

    /// Walks over the schedules by their next ticks, to the first that is not due. One whose step fails
    /// is passed over, so that it holds up no other. Returns the time by the database's clock.
    async fn take_all(&self, round: &mut Round) -> Result<Timestamp> {
        let mut cursor: Option<NextTick> = None;
        loop {
            let upcoming = self.store.upcoming(cursor.as_ref(), PAGE).await?;
            let now = upcoming.now;
            for tick in &upcoming.ticks {
                if tick.at > now {
                    round.look_again(tick.at);
                    return Ok(now);
                }
                match self.step(tick, now).await {
                    Ok(Some(taken)) => round.look_again(taken.next_at),
                    Ok(None) => round.look_again(now + CONTENDED_PAUSE),
                    Err(error @ Error::Forbidden { .. }) => return Err(error),
                    Err(error) => {
                        // A hook of the queue may fail as a database that is away does.
                        if matches!(error, Error::Unavailable { .. }) {
                            self.store.probe().await?;
                        }
                        counter!(FAILURES_TOTAL).increment(1);
                        round.oldest.get_or_insert(tick.at);
                        round.failure.get_or_insert((tick.name.to_string(), error));
                    }
                }
            }
            match upcoming.ticks.last() {
                Some(last) if upcoming.ticks.len() == PAGE as usize => cursor = Some(last.clone()),
                _ => return Ok(now),
            }
        }
    }

    /// Takes the ticks of a schedule that are due; `None` where another process was quicker.
    async fn step(&self, from: &NextTick, now: Timestamp) -> Result<Option<Schedule>> {
        let plan = plan(from, now)?;
        let taken = self.store.tick(&plan).await?;
        if let Some(schedule) = &taken {
            let queue = schedule.plan.queue.to_string();
            counter!(TICKS_TOTAL, "queue" => queue.clone()).increment(plan.ticks.len() as u64);
            if plan.missed > 0 {
                let policy = from.missed.as_str();
                counter!(MISSED_TOTAL, "queue" => queue, "policy" => policy).increment(plan.missed);
                tracing::warn!(
                    schedule = %from.name,
                    missed = plan.missed,
                    dropped = plan.dropped,
                    policy,
                    "ticks of a schedule were missed"
                );
            }
        }
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use consign_kernel::{
        By, ManualClock, MissedPolicy, QueuePolicy, ReferenceStore, SchedulePlan, prelude::*,
    };
    use serde_json::json;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    struct Fixture {
        clock: ManualClock,
        store: Arc<ReferenceStore>,
        runner: Runner,
    }

    fn by() -> By {
        By::new("ada", "a test")
    }

    impl Fixture {
        async fn new() -> Self {
            let clock = ManualClock::at("2026-01-10T07:00:30Z".parse().unwrap());
            let store = Arc::new(ReferenceStore::new(clock.clone(), 1));
            let runner = Runner::new(Arc::clone(&store) as Arc<dyn Store>);
            let fixture = Self {
                clock,
                store,
                runner,
            };
            fixture.put_queue(1_000).await;
            fixture
        }

        async fn put_queue(&self, payload_max_bytes: usize) {
            let policy = QueuePolicy {
                payload_max_bytes,
                ..QueuePolicy::default()
            };
            let queue = "default".parse().unwrap();
            self.store.put_queue(&queue, &policy, &by()).await.unwrap();
        }

        async fn put(&self, name: &str, cron: &str, payload: &str) {
            let queue = "default".parse().unwrap();
            let plan = SchedulePlan::new(queue, cron, json!(payload));
            let name = name.parse().unwrap();
            crate::put(&*self.store, &name, &plan, &by()).await.unwrap();
        }

        async fn ticks(&self, name: &str) -> u64 {
            let found = self.store.schedule(&name.parse().unwrap()).await;
            found.unwrap().unwrap().ticks
        }
    }

    #[tokio::test]
    async fn a_round_sleeps_until_the_next_tick_and_no_longer_than_the_poll() {
        let mut fixture = Fixture::new().await;
        assert_eq!(fixture.runner.round().await, POLL, "there is nothing");
        fixture.put("often", "* * * * *", "").await;
        assert_eq!(fixture.runner.round().await, POLL, "half a minute is left");
        fixture.clock.advance(SignedDuration::from_secs(29));
        assert_eq!(fixture.runner.round().await, SECOND);
        assert_eq!(fixture.ticks("often").await, 0);
        fixture.clock.advance(SignedDuration::from_secs(1));
        assert_eq!(fixture.runner.round().await, POLL);
        assert_eq!(fixture.ticks("often").await, 1);
    }

    #[tokio::test]
    async fn a_round_goes_on_at_once_where_ticks_are_left() {
        let mut fixture = Fixture::new().await;
        let queue = "default".parse().unwrap();
        let plan = SchedulePlan {
            missed: MissedPolicy::All,
            ..SchedulePlan::new(queue, "* * * * * *", json!(1))
        };
        let name = "a".parse().unwrap();
        crate::put(&*fixture.store, &name, &plan, &by())
            .await
            .unwrap();
        fixture.put("b", "0 0 1 1 *", "").await;
        fixture.clock.advance(SignedDuration::from_secs(150));
        assert_eq!(fixture.runner.round().await, Duration::ZERO);
        assert_eq!(fixture.ticks("a").await, 100);
        assert_eq!(fixture.runner.round().await, SECOND);
        assert_eq!(fixture.ticks("a").await, 150);
    }

    #[tokio::test]
    async fn a_schedule_whose_queue_refuses_it_holds_up_no_other() {
        let mut fixture = Fixture::new().await;
        for n in 0..150 {
            fixture
                .put(&format!("large-{n}"), "1 7 * * *", "a long payload")
                .await;
        }
        fixture.put("small", "2 7 * * *", "").await;
        fixture.put_queue(10).await;
        fixture.clock.advance(SignedDuration::from_mins(2));
        assert_eq!(fixture.runner.round().await, POLL);
        assert_eq!(fixture.ticks("small").await, 1);
        assert_eq!(fixture.ticks("large-7").await, 0);
        fixture.clock.advance(SignedDuration::from_mins(5));
        let findings = crate::overdue(&*fixture.store).await.unwrap();
        assert_eq!(findings.len(), 100);
        let expected = "schedule large-0 has had no tick since 2026-01-10T07:01:00Z";
        assert_eq!(findings[0].what, expected);
        fixture.put_queue(1_000).await;
        fixture.runner.round().await;
        assert_eq!(fixture.ticks("large-7").await, 1, "its tick was kept");
        assert_eq!(crate::overdue(&*fixture.store).await.unwrap(), []);
    }

    #[tokio::test]
    async fn a_clock_that_jumps_repeats_no_tick() {
        let mut fixture = Fixture::new().await;
        fixture.put("hourly", "@hourly", "").await;
        fixture.clock.advance(SignedDuration::from_hours(1));
        fixture.runner.round().await;
        assert_eq!(fixture.ticks("hourly").await, 1, "08:00 at 08:00:30");
        fixture.clock.advance(SignedDuration::from_hours(-1));
        fixture.runner.round().await;
        fixture.clock.advance(SignedDuration::from_hours(1));
        fixture.runner.round().await;
        assert_eq!(fixture.ticks("hourly").await, 1, "the same hour again");
        fixture.clock.advance(SignedDuration::from_hours(2));
        fixture.runner.round().await;
        assert_eq!(
            fixture.ticks("hourly").await,
            2,
            "10:00 stands for 09:00 too"
        );
    }
}
