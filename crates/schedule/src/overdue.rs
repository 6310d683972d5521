//! Schedules that no process runs.

use std::time::Duration;

use consign_kernel::{Finding, Result, Store};

/// How long a tick must have been due to be a finding: processes that run schedules take it in seconds.
pub const OVERDUE_AFTER: Duration = Duration::from_secs(300);
/// More findings than this say nothing more.
const SHOWN_MAX: u32 = 100;

/// A finding for every schedule whose next tick has been due for [`OVERDUE_AFTER`].
pub async fn overdue(store: &dyn Store) -> Result<Vec<Finding>> {
    let upcoming = store.upcoming(None, SHOWN_MAX).await?;
    let overdue = upcoming.ticks.iter().filter_map(|tick| {
        let late = upcoming.now.duration_since(tick.at).as_secs();
        let is_overdue = late >= OVERDUE_AFTER.as_secs() as i64;
        is_overdue.then(|| Finding {
            code: "schedule_overdue".to_owned(),
            what: format!("schedule {} has had no tick since {}", tick.name, tick.at),
            remedy: format!(
                "start `consign serve` or `consign work`, as a login that may operate; if one runs, its queue \
                 refuses the message: `consign schedules run {}` shows why",
                tick.name
            ),
            ids: Vec::new(),
        })
    });
    Ok(overdue.collect())
}
