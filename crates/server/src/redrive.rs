//! The background stepper of redrives.

use std::{mem, time::Duration};

use consign_kernel::Error;
use tokio::time::{Instant, timeout};

use crate::state::AppState;

/// Messages per step, a transaction of some tenths of a second: each step of a cancel walks over all messages of its queue.
const STEP_MESSAGES: u32 = 1_000;
/// How soon to look again while a redrive is under way but its rate is used up.
const BUSY_PAUSE: Duration = Duration::from_millis(100);
/// How rarely to look when there is nothing to do.
const IDLE_PAUSE: Duration = Duration::from_secs(2);
/// How rarely to look when the store does not let this process step redrives.
const FORBIDDEN_PAUSE: Duration = Duration::from_secs(60);
/// How long after its last step a redrive counts as under way.
const BUSY_FOR: Duration = Duration::from_secs(5);

/// Moves redrives forward until `shutdown` is ready.
///
/// One query every two seconds while there is nothing to do; a redrive started through this process
/// wakes it at once. Any number of processes may run it: steps are transactions of the store.
pub async fn run(state: AppState, shutdown: impl Future<Output = ()>) {
    let mut shutdown = std::pin::pin!(shutdown);
    let mut last_step: Option<Instant> = None;
    let mut is_failing = false;
    loop {
        // A step that has begun is let to its end: it is short, and never left half way.
        let step = state.store.step_redrive(STEP_MESSAGES).await;
        let was_failing = mem::replace(&mut is_failing, step.is_err());
        let pause = match step {
            Ok(Some(_)) => {
                last_step = Some(Instant::now());
                Duration::ZERO
            }
            Ok(None) if last_step.is_some_and(|at| at.elapsed() < BUSY_FOR) => BUSY_PAUSE,
            Ok(None) => IDLE_PAUSE,
            Err(error) => {
                // Logged once, not every two seconds while it lasts.
                if !was_failing {
                    let code = error.code();
                    tracing::warn!(%error, code, "a step of a redrive failed; retrying");
                }
                match error {
                    Error::Forbidden { .. } => FORBIDDEN_PAUSE,
                    _ => IDLE_PAUSE,
                }
            }
        };
        tokio::select! {
            biased;
            () = &mut shutdown => return,
            _ = timeout(pause, state.redrive_started.notified()) => {}
        }
    }
}
