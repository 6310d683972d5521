//! Moving redrives forward, where the login may.

use std::{mem, sync::Arc, time::Duration};

use consign_kernel::{Error, Store};
use consign_server::AppState;
use tokio::time::interval;

/// Messages of the first step, which shows whether the login may.
const FIRST_STEP: u32 = 1;
/// How rarely to look again whether the login may by now.
const FORBIDDEN_PAUSE: Duration = Duration::from_secs(600);

/// Steps redrives until it is dropped. Without the right to, it logs that once and leaves them
/// to processes that have it.
pub(super) async fn run(store: Arc<dyn Store>, state: AppState) {
    let mut looks = interval(FORBIDDEN_PAUSE);
    let mut is_logged = false;
    loop {
        looks.tick().await;
        let Err(Error::Forbidden { what }) = store.step_redrive(FIRST_STEP).await else {
            break;
        };
        if !mem::replace(&mut is_logged, true) {
            tracing::info!(
                "this process does not run redrives: that needs the role consign_operator ({what})"
            );
        }
    }
    consign_server::redrive::run(state, std::future::pending()).await;
}
