//! Telling the database that this process lives, and what its lanes have done.

use std::{sync::Arc, time::Duration};

use consign_kernel::{Done, LanePulse, Pulse, Store};
use consign_worker::WorkerHandle;
use tokio::time::{Instant, MissedTickBehavior, interval};

/// How often.
const EVERY: Duration = Duration::from_secs(10);

/// Tells until it is dropped. What could not be told is told the next time.
pub(super) async fn run(store: Arc<dyn Store>, worker: WorkerHandle) {
    let since = Instant::now();
    let mut beats = interval(EVERY);
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut untold: Vec<LanePulse> = Vec::new();
    loop {
        beats.tick().await;
        add(&mut untold, worker.take_done());
        let pulse = Pulse {
            process: worker.status().owner,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            running_for: since.elapsed(),
            lanes: untold.clone(),
        };
        match store.pulse(&pulse).await {
            Ok(()) => untold.clear(),
            // Nothing depends on it; whoever needs the database says so.
            Err(error) => tracing::debug!(%error, "this process could not tell of itself"),
        }
    }
}

fn add(untold: &mut Vec<LanePulse>, lanes: Vec<LanePulse>) {
    if untold.is_empty() {
        *untold = lanes;
        return;
    }
    for lane in lanes {
        let known = untold.iter_mut().find(|known| known.lane == lane.lane);
        match known {
            Some(known) => Done::add(&mut known.done, lane.done),
            None => untold.push(lane),
        }
    }
}
