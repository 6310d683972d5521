//! Taking turns in the maintenance, where the login may.

use std::{mem, time::Duration};

use consign_kernel::{Error, Refusal};
use consign_retention::{End, Maintenance, metrics::FAILURES_TOTAL};
use metrics::counter;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep};

/// How rarely to look again whether the login may by now.
const FORBIDDEN_PAUSE: Duration = Duration::from_secs(600);
/// The first turn comes so late at most: a process that starts has requests and messages to serve first.
const START_PAUSE_MAX: Duration = Duration::from_secs(10);

/// Takes a turn at every interval until it is dropped. Without the right to, it logs that once and
/// leaves the maintenance to processes that have it.
pub(super) async fn run(maintenance: Maintenance, every: Duration) {
    let mut ticks = interval_at(Instant::now() + every.min(START_PAUSE_MAX), every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut is_logged, mut is_without_archive, mut is_over_size) = (false, false, false);
    loop {
        ticks.tick().await;
        match maintenance.pass().await {
            Ok(pass) => {
                if pass.departed > 0 || pass.keys > 0 {
                    tracing::info!(
                        messages = pass.departed,
                        keys = pass.keys,
                        "messages past their time have left"
                    );
                }
                let lacks_archive = pass.end == End::Refused(Refusal::NoArchive);
                if lacks_archive && !mem::replace(&mut is_without_archive, lacks_archive) {
                    tracing::warn!(
                        "messages past their time stay: their queue requires an archive, and \
                         `retention.archive` names none"
                    );
                }
                is_without_archive = lacks_archive;
                let was_over_size = mem::replace(&mut is_over_size, pass.end == End::OverSize);
                if is_over_size && !was_over_size {
                    tracing::warn!(
                        "the history is larger than `retention.size_max_bytes`, and no more messages \
                         may leave: `consign retention status` shows what keeps the oldest"
                    );
                }
            }
            Err(consign_retention::Error::Store(Error::Forbidden { what })) => {
                if !mem::replace(&mut is_logged, true) {
                    tracing::info!(
                        "this process does not run the maintenance: that needs the role \
                         consign_operator ({what})"
                    );
                }
                sleep(FORBIDDEN_PAUSE).await;
            }
            Err(error) => {
                counter!(FAILURES_TOTAL).increment(1);
                tracing::warn!("the maintenance failed: {error}");
            }
        }
    }
}
