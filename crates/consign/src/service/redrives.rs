//! Moving redrives forward, where the login may.

use std::{sync::Arc, time::Duration};

use consign_kernel::{Error, Store};
use consign_server::AppState;
use tokio::time::sleep;

/// Messages of the first step, which shows whether the login may.
const FIRST_STEP: u32 = 1;
/// How rarely to look again whether the login may by now.
const FORBIDDEN_PAUSE: Duration = Duration::from_secs(600);

/// Steps redrives until it is dropped. A login without the right to says so once and leaves them
/// to processes that have it.
pub(super) async fn run(store: Arc<dyn Store>, state: AppState) {
    let mut is_told = false;
    while let Err(Error::Forbidden { what }) = store.step_redrive(FIRST_STEP).await {
        if !is_told {
            tracing::info!(
                "redrives are left to others: moving them needs the role consign_operator ({what})"
            );
            is_told = true;
        }
        sleep(FORBIDDEN_PAUSE).await;
    }
    consign_server::redrive::run(state, std::future::pending()).await;
}
