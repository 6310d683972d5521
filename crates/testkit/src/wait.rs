//! Waiting for a condition without guessing how long it takes.

use std::future::Future;
use std::panic::Location;
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// Short enough that a test loses no time worth mentioning, long enough not to starve what it waits
/// for.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Polls `condition` until it holds, and panics naming `what` once `deadline` has passed.
///
/// The condition is checked at least once more after the deadline, so a stalled machine does not fail
/// a test whose condition holds by then.
#[track_caller]
pub fn eventually<'a, C, F>(
    what: &'a str,
    deadline: Duration,
    mut condition: C,
) -> impl Future<Output = ()> + use<'a, C, F>
where
    C: FnMut() -> F,
    F: Future<Output = bool>,
{
    eventually_some(what, deadline, move || {
        let answer = condition();
        async move { answer.await.then_some(()) }
    })
}

/// Polls `probe` until it yields a value, which is returned; otherwise like [`eventually`].
#[track_caller]
pub fn eventually_some<'a, P, F, T>(
    what: &'a str,
    deadline: Duration,
    mut probe: P,
) -> impl Future<Output = T> + use<'a, P, F, T>
where
    P: FnMut() -> F,
    F: Future<Output = Option<T>>,
{
    let caller = Location::caller();
    async move {
        let ends = Instant::now() + deadline;
        loop {
            let last_chance = Instant::now() >= ends;
            if let Some(value) = probe().await {
                return value;
            }
            assert!(!last_chance, "{caller}: not within {deadline:?}: {what}");
            sleep(POLL_INTERVAL).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test]
    async fn a_condition_is_polled_until_it_holds() {
        let asked = Cell::new(0);
        eventually("checked three times", Duration::from_secs(5), || async {
            asked.set(asked.get() + 1);
            asked.get() == 3
        })
        .await;
        assert_eq!(asked.get(), 3);
    }

    #[tokio::test]
    async fn a_probe_returns_what_it_found() {
        let found = eventually_some("a number", Duration::ZERO, || async { Some(7) }).await;
        assert_eq!(found, 7);
    }

    #[tokio::test]
    async fn a_missed_deadline_names_what_was_awaited() {
        let waiting = tokio::spawn(eventually(
            "the moon",
            Duration::from_millis(20),
            || async { false },
        ));
        let panic = waiting.await.unwrap_err().into_panic();
        let message = panic.downcast_ref::<String>().unwrap();
        assert!(message.ends_with("not within 20ms: the moon"), "{message}");
        assert!(message.starts_with(file!()), "the caller's line: {message}");
    }
}
