//! Creating and changing schedules, with what the store cannot check.

use consign_kernel::{By, Result, Schedule, ScheduleName, SchedulePlan, Store};
use jiff::Timestamp;

use crate::Cron;

/// How many ticks a preview shows.
pub const PREVIEW_TICKS: usize = 5;

/// The next ticks of an expression after a time.
pub fn preview(expression: &str, time_zone: &str, now: Timestamp) -> Result<Vec<Timestamp>> {
    let cron = Cron::parse(expression, time_zone)?;
    let mut ticks = vec![cron.after(now)?];
    // A calendar may end before so many.
    while let Some(next) = ticks.last().and_then(|last| cron.after(*last).ok())
        && ticks.len() < PREVIEW_TICKS
    {
        ticks.push(next);
    }
    Ok(ticks)
}

/// Creates a schedule or changes one: its first tick is the next one by the database's clock.
pub async fn put(
    store: &dyn Store,
    name: &ScheduleName,
    plan: &SchedulePlan,
    by: &By,
) -> Result<Schedule> {
    plan.validate()?;
    let cron = Cron::parse(&plan.cron, &plan.time_zone)?;
    let now = store.upcoming(None, 1).await?.now;
    store.put_schedule(name, plan, cron.after(now)?, by).await
}
