//! A worker killed with -9: when another delivers what it held.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use sqlx::{PgConnection, Row};
use tokio::time::{interval, timeout};

use super::{Answer, Plan};
use crate::{
    Bound, Figure, Measure, Unit, process::config, receiver::Receiver, scratch::Scratch,
    subject::queue,
};

/// Delivered first, so that the worker has measured its sink and claims ahead.
const WARM_UP: u32 = 500;
/// Beyond the lease.
const MARGIN: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(2);

pub(super) async fn run(plan: &Plan, scratch: &Scratch) -> Result<Answer> {
    let (lease, held) = (plan.counts.crash_lease, plan.counts.crash_held);
    let receiver = Receiver::start(Duration::ZERO).await?;
    let settings = format!("lease_ttl_ms = {}", lease.as_millis());
    let config = config(scratch.url(), &receiver.queue("default", &settings));
    let program = plan.program()?;
    let mut connection = scratch.connect().await?;
    let mut times = Vec::new();
    let mut running = program.start("work", "first", &config).await?;
    // Waiting for leases to end is what takes the time: few rounds.
    for round in 0..plan.rounds.min(3) {
        scratch.fill_at_once(&queue(), WARM_UP, 100).await?;
        let expected = receiver.seen() + u64::from(WARM_UP);
        receiver.wait_for(expected, PATIENCE).await?;
        until_held(&mut connection, 0).await?;
        receiver.hang(true);
        scratch.fill_at_once(&queue(), held, 100).await?;
        // The lease is fresh: the longest possible wait for its end.
        until_held(&mut connection, held).await?;
        let other = program
            .start("work", &format!("other-{round}"), &config)
            .await?;
        receiver.hang(false);
        let killed = Instant::now();
        running.kill().await?;
        let expected = receiver.seen() + u64::from(held);
        receiver.wait_for(expected, PATIENCE + lease).await?;
        let last = receiver.last().context("invariant: something came")?;
        times.push(last.duration_since(killed).as_secs_f64());
        plan.say(format!(
            "the last of {held} came after {:.2} s",
            times[times.len() - 1]
        ));
        running = other;
    }
    running.terminate().await?;
    let limit = (lease + MARGIN).as_secs_f64();
    let figure = Figure::alone("kill -9 to the last delivery", Unit::Seconds, &times);
    let figures = vec![figure.target(Measure::Value, Bound::AtMost, limit)];
    let notes = vec![format!(
        "a `consign work` is killed while it holds {held} messages, 16 of them being delivered, soon after it claimed them; lease of {} s; \
         another process, idle until then, delivers them; target: lease and {} s",
        lease.as_secs_f64(),
        MARGIN.as_secs_f64()
    )];
    Ok((figures, notes))
}

/// Waits until exactly so many messages are leased, and none is ready.
async fn until_held(connection: &mut PgConnection, count: u32) -> Result<()> {
    let mut looks = interval(LOOK_EVERY);
    let held = async {
        loop {
            looks.tick().await;
            let row = sqlx::query(include_str!("../../sql/held.sql"))
                .fetch_one(&mut *connection)
                .await?;
            if row.try_get::<i64, _>("leased")? == i64::from(count)
                && row.try_get::<i64, _>("ready")? == 0
            {
                return anyhow::Ok(());
            }
        }
    };
    timeout(PATIENCE, held)
        .await
        .context("the worker did not take what it should hold")?
}
