//! What it costs to let history end: on PostgreSQL beside a plain DELETE, with many ranges beside
//! few, and on SQLite.

mod departures;
mod ranges;
mod sqlite;
mod traffic;

use std::time::Duration;

use anyhow::{Context, Result, bail};
use consign_kernel::{
    Departure, DepartureCause, DepartureState, Progress, Refusal, Step, Store, Token,
};

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

async fn lease(store: &dyn Store) -> Result<Token> {
    let leased = store.lease_maintenance("bench", None, LEASE_TTL).await?;
    leased.context("another process has the maintenance")
}

/// The next departure, if messages may leave.
async fn begin(store: &dyn Store, token: Token) -> Result<Option<Departure>> {
    loop {
        match store.begin_departure(token, DepartureCause::Age).await? {
            Step::Done(Some(departure)) if departure.state == DepartureState::Copying => {}
            Step::Done(departure) => return Ok(departure),
            Step::Refused(Refusal::Locked) => tokio::time::sleep(LOCKED_PAUSE).await,
            Step::Refused(refusal) => bail!("a departure was refused: {refusal:?}"),
        }
    }
}

/// A step of a departure; repeated while a lock is in its way. Returns how often it was.
async fn depart(store: &dyn Store, token: Token, departure: &Departure) -> Result<(Progress, u32)> {
    let mut locked = 0;
    loop {
        match store.depart(token, departure.id).await? {
            Step::Done(progress) => return Ok((progress, locked)),
            Step::Refused(Refusal::Locked) => locked += 1,
            Step::Refused(refusal) => bail!("a departure was refused: {refusal:?}"),
        }
        tokio::time::sleep(LOCKED_PAUSE).await;
    }
}
