//! What it costs to let history end: on PostgreSQL beside a plain DELETE, with many ranges beside
//! few, and on SQLite.

mod departures;
mod mixed;
mod ranges;
mod sqlite;
mod traffic;

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use consign_kernel::{
    Departure, DepartureCause, DepartureState, Progress, Refusal, Step, Store, Token,
};

use consign_retention::pause_after;

use super::{Answer, Plan};
use crate::scratch::Scratch;

/// How long the maintenance is leased.
const LEASE_TTL: Duration = Duration::from_secs(600);
/// Pause after a step that met a lock.
const LOCKED_PAUSE: Duration = Duration::from_millis(20);

pub(super) async fn run(plan: &Plan, scratch: &Scratch) -> Result<Answer> {
    let (mut figures, mut notes) = departures::measure(plan, scratch).await?;
    for (more, note) in [
        ranges::measure(plan, scratch).await?,
        sqlite::measure(plan).await?,
    ] {
        figures.extend(more);
        notes.extend(note);
    }
    Ok((figures, notes))
}

/// Leases the maintenance; the lease of a pass ends a moment after it.
async fn lease(store: &dyn Store) -> Result<Token> {
    for _ in 0..10 {
        let leased = store.lease_maintenance("bench", None, LEASE_TTL).await?;
        if let Some(token) = leased {
            return Ok(token);
        }
        tokio::time::sleep(LOCKED_PAUSE).await;
    }
    bail!("another process has the maintenance")
}

/// Ends the lease, for a pass that takes its own.
async fn release(store: &dyn Store, token: Token) -> Result<()> {
    let end = Duration::from_millis(1);
    store.lease_maintenance("bench", Some(token), end).await?;
    tokio::time::sleep(LOCKED_PAUSE).await;
    Ok(())
}

/// The next departure, if messages may leave.
async fn begin(store: &dyn Store, token: Token) -> Result<Option<Departure>> {
    loop {
        let started = Instant::now();
        match store
            .begin_departure(token, DepartureCause::Age, true)
            .await?
        {
            Step::Done(Some(departure)) if departure.state == DepartureState::Copying => {
                pause(started).await;
            }
            Step::Done(departure) => return Ok(departure),
            Step::Refused(Refusal::Locked) => tokio::time::sleep(LOCKED_PAUSE).await,
            Step::Refused(refusal) => bail!("a departure was refused: {refusal:?}"),
        }
    }
}

/// Pauses after a step that began then, as the maintenance does.
async fn pause(started: Instant) {
    tokio::time::sleep(pause_after(started.elapsed())).await;
}

/// What the tries of steps took that hold exclusive locks, or wait for them.
#[derive(Clone, Copy, Default)]
struct Locks {
    longest_ms: f64,
    /// Tries that met a lock.
    refused: u32,
}

impl Locks {
    /// Counts a try that began then.
    fn count(&mut self, started: Instant, is_refused: bool) {
        self.longest_ms = self.longest_ms.max(started.elapsed().as_secs_f64() * 1e3);
        self.refused += u32::from(is_refused);
    }
}

/// A step of a departure; repeated while a lock is in its way. The step that removes messages from the
/// tables is the one under exclusive locks; what comes before or after concerns no other statement.
async fn depart(
    store: &dyn Store,
    token: Token,
    departure: &Departure,
    locks: &mut Locks,
) -> Result<Progress> {
    loop {
        let started = Instant::now();
        match store.depart(token, departure.id).await? {
            Step::Done(progress) => {
                if progress.removed > 0 {
                    locks.count(started, false);
                }
                return Ok(progress);
            }
            Step::Refused(Refusal::Locked) => locks.count(started, true),
            Step::Refused(refusal) => bail!("a departure was refused: {refusal:?}"),
        }
        tokio::time::sleep(LOCKED_PAUSE).await;
    }
}

/// Creates ranges ahead, and closes those that are full or so old; repeated while a lock is in its way.
async fn prepare(
    store: &dyn Store,
    token: Token,
    size: u32,
    age: Duration,
    locks: &mut Locks,
) -> Result<()> {
    loop {
        let started = Instant::now();
        let step = store.prepare_ranges(token, size.into(), age).await?;
        locks.count(started, matches!(step, Step::Refused(_)));
        match step {
            Step::Done(_) => return Ok(()),
            Step::Refused(Refusal::Locked) => {}
            Step::Refused(refusal) => bail!("ranges were not prepared: {refusal:?}"),
        }
        tokio::time::sleep(LOCKED_PAUSE).await;
    }
}
