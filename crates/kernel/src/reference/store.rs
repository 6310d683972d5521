//! The reference behind the traits of a store: with a clock moved by hand, and seeded randomness.

use std::sync::{Arc, Mutex, MutexGuard};

use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

use super::Reference;
use crate::Token;

/// A clock that a test sets. Clones share the time.
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<Mutex<Timestamp>>);

impl ManualClock {
    /// A clock that shows `now`.
    pub fn at(now: Timestamp) -> Self {
        Self(Arc::new(Mutex::new(now)))
    }

    /// What it shows.
    pub fn now(&self) -> Timestamp {
        *self
            .0
            .lock()
            .expect("invariant: no panic while setting the clock")
    }

    /// Moves it, backwards too.
    pub fn advance(&self, by: SignedDuration) {
        let mut now = self
            .0
            .lock()
            .expect("invariant: no panic while setting the clock");
        *now = now
            .checked_add(by)
            .expect("invariant: tests stay within the calendar");
    }
}

/// The reference store as a `Store`. Clones share the state.
#[derive(Clone, Debug)]
pub struct ReferenceStore {
    inner: Arc<Mutex<Inner>>,
    clock: ManualClock,
}

#[derive(Debug)]
struct Inner {
    reference: Reference,
    /// State of the generator behind tokens and jitter: seeded, so that runs can be repeated.
    seed: u64,
}

impl ReferenceStore {
    /// An empty store. Tokens and jitter follow from `seed`.
    pub fn new(clock: ManualClock, seed: u64) -> Self {
        Self::with(Reference::default(), clock, seed)
    }

    /// A store that continues from a given state.
    pub fn with(reference: Reference, clock: ManualClock, seed: u64) -> Self {
        Self {
            inner: Arc::new(Mutex::new(Inner { reference, seed })),
            clock,
        }
    }

    /// The state as it is now.
    pub fn snapshot(&self) -> Reference {
        self.inner().reference.clone()
    }

    /// Goes back to an earlier state, as a failover to a lagging standby does. Tokens drawn from
    /// now on are new all the same.
    pub fn restore(&self, reference: Reference) {
        self.inner().reference = reference;
    }

    /// Runs an operation on the state, at the time the clock shows.
    pub(super) fn at<T>(&self, operation: impl FnOnce(&mut Reference, Timestamp) -> T) -> T {
        let now = self.now();
        operation(&mut self.inner().reference, now)
    }

    pub(super) fn draw_token(&self) -> Token {
        let mut inner = self.inner();
        Token(Uuid::from_u64_pair(inner.draw(), inner.draw()))
    }

    /// A number in `[0, 1)`.
    pub(super) fn draw_chance(&self) -> f64 {
        (self.inner().draw() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner
            .lock()
            .expect("invariant: no panic inside the reference store")
    }

    #[cfg(feature = "twins")]
    fn now(&self) -> Timestamp {
        match self.inner().reference.flaw() {
            Some(super::Flaw::WorkerClock(skew)) => {
                self.clock.now() + SignedDuration::try_from(skew).expect("invariant: small skew")
            }
            _ => self.clock.now(),
        }
    }

    #[cfg(not(feature = "twins"))]
    fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

impl Inner {
    /// The next number of the generator (splitmix64).
    fn draw(&mut self) -> u64 {
        self.seed = self.seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.seed;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}
