//! Looking again and again, until Ctrl-C.

use std::{pin::pin, time::Duration};

use crate::failure::{Exit, Failure};

/// Looks every `pause`. Ctrl-C ends it, also in the middle of a look: that is how it is meant to end.
pub(super) async fn watch(
    pause: Duration,
    mut look: impl AsyncFnMut() -> Result<(), Failure>,
) -> Result<Exit, Failure> {
    let mut interrupt = pin!(tokio::signal::ctrl_c());
    loop {
        tokio::select! {
            biased;
            _ = &mut interrupt => return Ok(Exit::Fine),
            looked = look() => looked?,
        }
        tokio::select! {
            biased;
            _ = &mut interrupt => return Ok(Exit::Fine),
            () = tokio::time::sleep(pause) => {}
        }
    }
}
