//! One connection, made when it is first needed and made again when it broke.

use std::{fmt, sync::Arc, time::Duration};

use consign_worker::Verdict;
use tokio::{
    sync::Mutex,
    time::{Instant, timeout_at},
};

use super::not_sent;

/// The rest after a failure to connect, doubled with each up to the longest.
const REST_MIN: Duration = Duration::from_millis(50);
const REST_MAX: Duration = Duration::from_secs(2);

/// A connection that can report whether it is still usable.
pub(crate) trait HealthCheck: Send + Sync {
    /// Whether it may be used for another delivery.
    fn is_live(&self) -> bool;
}

/// Where deliveries find the connection they share.
pub(crate) struct Slot<L> {
    state: Mutex<State<L>>,
}

struct State<L> {
    live: Option<Arc<L>>,
    failed: Option<LastFailure>,
}

/// The last try, if it failed. While a dead broker rests, deliveries get its verdict at once.
struct LastFailure {
    rest: Duration,
    until: Instant,
    verdict: Verdict,
}

impl<L: HealthCheck> Slot<L> {
    pub(crate) fn new() -> Self {
        let state = State {
            live: None,
            failed: None,
        };
        Self {
            state: Mutex::new(state),
        }
    }

    /// The connection, made by `connect` if there is none. One delivery makes it, the others wait
    /// for it until `ends`; a delivery that is dropped while it makes one leaves that to the next.
    pub(crate) async fn get(
        &self,
        ends: Instant,
        connect: impl Future<Output = Result<L, Verdict>>,
    ) -> Result<Arc<L>, Verdict> {
        let too_late = || not_sent("connect_timeout", "no connection in time; nothing was sent");
        let Ok(mut state) = timeout_at(ends, self.state.lock()).await else {
            return Err(too_late());
        };
        if let Some(live) = state.live.as_ref().filter(|live| live.is_live()) {
            return Ok(live.clone());
        }
        state.live = None;
        if let Some(failed) = &state.failed
            && Instant::now() < failed.until
        {
            return Err(failed.verdict.clone());
        }
        let made = timeout_at(ends, connect).await;
        match made.unwrap_or_else(|_| Err(too_late())) {
            Ok(live) => {
                let live = Arc::new(live);
                state.failed = None;
                state.live = Some(live.clone());
                Ok(live)
            }
            Err(verdict) => {
                let last = state.failed.as_ref().map(|failed| failed.rest * 2);
                let rest = last.unwrap_or(REST_MIN).min(REST_MAX);
                state.failed = Some(LastFailure {
                    rest,
                    until: Instant::now() + rest,
                    verdict: verdict.clone(),
                });
                Err(verdict)
            }
        }
    }
}

impl<L> fmt::Debug for Slot<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Slot")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

    use super::*;

    #[derive(Debug)]
    struct Wire(AtomicBool);

    impl HealthCheck for Wire {
        fn is_live(&self) -> bool {
            self.0.load(Ordering::Relaxed)
        }
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(1)
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_shared_until_it_breaks() {
        let slot = Slot::new();
        let made = AtomicU32::new(0);
        let connect = || async {
            made.fetch_add(1, Ordering::Relaxed);
            Ok(Wire(AtomicBool::new(true)))
        };
        let one = slot.get(soon(), connect()).await.unwrap();
        let two = slot.get(soon(), connect()).await.unwrap();
        assert!(Arc::ptr_eq(&one, &two));
        one.0.store(false, Ordering::Relaxed);
        slot.get(soon(), connect()).await.unwrap();
        assert_eq!(made.load(Ordering::Relaxed), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_dead_broker_is_not_called_by_every_delivery() {
        let slot: Slot<Wire> = Slot::new();
        let asked = AtomicU32::new(0);
        let connect = || async {
            asked.fetch_add(1, Ordering::Relaxed);
            Err(not_sent("connect_failed", "refused"))
        };
        for _ in 0..10 {
            let verdict = slot.get(soon(), connect()).await.unwrap_err();
            assert_eq!(verdict.code.as_deref(), Some("connect_failed"));
        }
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        tokio::time::advance(REST_MIN).await;
        slot.get(soon(), connect()).await.unwrap_err();
        tokio::time::advance(REST_MIN).await;
        slot.get(soon(), connect()).await.unwrap_err();
        assert_eq!(
            asked.load(Ordering::Relaxed),
            2,
            "the second rest is longer"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_delivery_dropped_while_connecting_does_not_block_the_next() {
        let slot = Slot::new();
        let never = slot.get(soon(), std::future::pending::<Result<Wire, Verdict>>());
        assert!(
            tokio::time::timeout(Duration::from_millis(10), never)
                .await
                .is_err()
        );
        let wire = slot
            .get(soon(), async { Ok(Wire(AtomicBool::new(true))) })
            .await;
        assert!(wire.is_ok());
    }
}
