//! A breaker that the queues of one sink share.

use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU8, AtomicU64, Ordering},
};

use tokio::{sync::watch, time::Instant};

use super::{Admission, Breaker};
use crate::{BreakerOptions, BreakerState, backoff::chance};

/// The breaker of a sink, shared by the queues that deliver to it.
#[derive(Debug)]
pub(crate) struct SharedBreaker {
    breaker: Mutex<Breaker>,
    /// The state again, to be read before every delivery without a lock.
    state: AtomicU8,
    /// How often it has opened, and the code of the failure that opened it last.
    openings: AtomicU64,
    opened_by: Mutex<Option<String>>,
    /// Wakes queues that wait for a change.
    changes: watch::Sender<()>,
}

impl SharedBreaker {
    pub(crate) fn new(options: BreakerOptions) -> Self {
        Self {
            breaker: Mutex::new(Breaker::new(Instant::now(), options)),
            state: AtomicU8::new(code(BreakerState::Closed)),
            openings: AtomicU64::new(0),
            opened_by: Mutex::default(),
            changes: watch::Sender::default(),
        }
    }

    pub(crate) fn state(&self) -> BreakerState {
        match self.state.load(Ordering::Relaxed) {
            0 => BreakerState::Closed,
            1 => BreakerState::HalfOpen,
            _ => BreakerState::Open,
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state.load(Ordering::Relaxed) == code(BreakerState::Closed)
    }

    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    pub(crate) fn admit(&self, now: Instant) -> Admission {
        self.with(|breaker| breaker.admit(now))
    }

    /// Also wakes the others: one of them may have something to send.
    pub(crate) fn return_probe(&self) {
        self.with(Breaker::return_probe);
        self.changes.send_replace(());
    }

    pub(crate) fn succeeded(&self, now: Instant, count: u32, is_probe: bool) {
        self.with(|breaker| breaker.succeeded(now, count, is_probe));
    }

    /// `code` is that of the failure.
    pub(crate) fn failed(&self, now: Instant, is_probe: bool, code: Option<&str>) {
        self.with(|breaker| {
            let was_open = breaker.state() == BreakerState::Open;
            breaker.failed(now, is_probe, chance());
            if !was_open && breaker.state() == BreakerState::Open {
                *self.opened_by() = code.map(str::to_owned);
                self.openings.fetch_add(1, Ordering::Relaxed);
            }
        });
    }

    /// How often it has opened; also after a probe that failed.
    pub(crate) fn openings(&self) -> u64 {
        self.openings.load(Ordering::Relaxed)
    }

    /// The code of the failure that opened it last.
    pub(crate) fn opening_code(&self) -> Option<String> {
        self.opened_by().clone()
    }

    fn opened_by(&self) -> MutexGuard<'_, Option<String>> {
        self.opened_by
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, change: impl FnOnce(&mut Breaker) -> T) -> T {
        let mut breaker = self.lock();
        let answer = change(&mut breaker);
        let state = code(breaker.state());
        let changed = self.state.swap(state, Ordering::Relaxed) != state;
        drop(breaker);
        if changed {
            self.changes.send_replace(());
        }
        answer
    }

    fn lock(&self) -> MutexGuard<'_, Breaker> {
        self.breaker
            .lock()
            .expect("invariant: no panic inside the breaker")
    }
}

/// The value of the metric.
pub(crate) fn code(state: BreakerState) -> u8 {
    match state {
        BreakerState::Closed => 0,
        BreakerState::HalfOpen => 1,
        BreakerState::Open => 2,
    }
}
