//! The turn of this process among all that write to the same memory server.
//!
//! Processes that share a logbook take turns there: `Logbook::take_turn`. A process holds its turn
//! for as long as it has something to write and nobody else is next, so that a process which is alone
//! and busy asks the database ten times a second, and not for each write. It is looked after by a task
//! that ends when nobody writes any more: a caller who goes away in the middle leaves nothing behind.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use consign_kernel::{Error, Result};
use ring::rand::{SecureRandom, SystemRandom};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    time::{Instant, sleep, timeout_at},
};
use tracing::{debug, warn};

use crate::{Backend, Logbook, TurnKept};

/// How long the others wait for a process that has died. Shorter than what a request waits.
const TTL: Duration = Duration::from_secs(2);
/// How long a process writes before it looks whether somebody else is next.
const STINT: Duration = Duration::from_millis(100);
/// How long it holds a turn in which it writes nothing: the next write may be about to come.
const LINGER: Duration = Duration::from_secs(1);
/// The same where others were seen who write there too: they would wait for the end of a stint.
const LINGER_AMONG_OTHERS: Duration = Duration::from_millis(20);
/// For how long it is kept in mind that there are others.
const REMEMBER: Duration = Duration::from_secs(30);
/// How often a process asks whether a turn is free, at first and in the end.
const ASK_FIRST: Duration = Duration::from_millis(1);
const ASK_LAST: Duration = Duration::from_millis(10);
/// How many of a process are let in at once: they audit side by side while one of them writes. More
/// would keep the others waiting.
const PLACES: usize = 8;

type Houses = HashMap<(usize, String), Weak<House>>;

static HOUSES: LazyLock<Mutex<Houses>> = LazyLock::new(Mutex::default);

/// Everybody of this process who writes to one memory server with one logbook.
pub(crate) struct House {
    logbook: Arc<dyn Logbook>,
    destination: String,
    /// Who this is to the others.
    holder: String,
    places: Arc<Semaphore>,
    state: Mutex<State>,
    /// Counts up whenever it is worth looking at the state again.
    changes: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    /// Until when the turn is this process's for certain; none: it is not.
    held_until: Option<Instant>,
    /// Whether nobody is let in any more, because somebody else is next.
    is_leaving: bool,
    /// Whether it is not held a moment longer than it is written in: the process is about to end.
    is_hurried: bool,
    /// When the last one went.
    idle_since: Option<Instant>,
    /// When somebody else was last seen to hold the turn, or to be next.
    others_at: Option<Instant>,
    /// Who is in, and who waits to be let in.
    writing: usize,
    waiting: usize,
    /// Whether the task is there that looks after the turn.
    is_kept: bool,
    /// Why the turn could not be asked for, for those who wait.
    failure: Option<String>,
    failures: u64,
}

impl State {
    /// When there is nothing more to hold the turn for; none: somebody writes, or is about to.
    fn idle_at(&self) -> Option<Instant> {
        let has_others = self.others_at.is_some_and(|at| at.elapsed() < REMEMBER);
        let linger = match (self.is_leaving || self.is_hurried, has_others) {
            (true, _) => Duration::ZERO,
            (false, true) => LINGER_AMONG_OTHERS,
            (false, false) => LINGER,
        };
        let since = self.idle_since.filter(|_| self.writing == 0)?;
        Some(since + linger)
    }
}

/// A place in the house; whoever drops it leaves.
pub(crate) struct Place {
    house: Arc<House>,
    _permit: OwnedSemaphorePermit,
}

impl House {
    /// The house of everybody who writes there; none where the database itself sees to it that
    /// nothing is written twice.
    pub(crate) fn of(logbook: &Arc<dyn Logbook>, backend: &dyn Backend) -> Option<Arc<Self>> {
        if !backend.takes_turns() {
            return None;
        }
        // The house keeps its logbook, so that no other one can have its address meanwhile.
        let address = Arc::as_ptr(logbook).cast::<()>() as usize;
        let key = (address, backend.destination().to_owned());
        let mut houses = HOUSES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(house) = houses.get(&key).and_then(Weak::upgrade) {
            return Some(house);
        }
        houses.retain(|_, house| house.strong_count() > 0);
        let house = Arc::new(Self {
            logbook: Arc::clone(logbook),
            destination: key.1.clone(),
            holder: name(),
            places: Arc::new(Semaphore::new(PLACES)),
            state: Mutex::default(),
            changes: watch::Sender::new(0),
        });
        houses.insert(key, Arc::downgrade(&house));
        Some(house)
    }

    /// Waits until it is this process's turn to write.
    pub(crate) async fn enter(self: &Arc<Self>) -> Result<Place> {
        let permit = Arc::clone(&self.places).acquire_owned().await;
        let permit = permit.expect("invariant: it is never closed");
        let mut changes = self.changes.subscribe();
        let waiting = Waiting::new(self);
        let failures = self.state().failures;
        loop {
            changes.mark_unchanged();
            if self.admits() {
                break;
            }
            if let Some(error) = self.failure_since(failures) {
                return Err(error);
            }
            self.have_it_kept();
            // The sender is this house's.
            drop(changes.changed().await);
        }
        drop(waiting);
        Ok(Place {
            house: Arc::clone(self),
            _permit: permit,
        })
    }

    /// Lets somebody in, if the turn is this process's.
    fn admits(&self) -> bool {
        let mut state = self.state();
        let is_held = state.held_until.is_some_and(|until| until > Instant::now());
        let is_in = is_held && !state.is_leaving;
        state.writing += usize::from(is_in);
        is_in
    }

    fn failure_since(&self, failures: u64) -> Option<Error> {
        let state = self.state();
        let why = state
            .failure
            .clone()
            .filter(|_| state.failures > failures)?;
        Some(Error::Unavailable {
            attempted: "take a turn",
            certainty: consign_kernel::Certainty::Definite,
            source: why.into(),
        })
    }

    /// Starts the task that looks after the turn, unless it is there.
    fn have_it_kept(self: &Arc<Self>) {
        if !std::mem::replace(&mut self.state().is_kept, true) {
            let keeper = Keeper {
                house: Arc::clone(self),
                has_ended: false,
            };
            tokio::spawn(keeper.run());
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing that holds it can panic halfway.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.house.state();
        state.writing -= 1;
        state.idle_since = Some(Instant::now());
        drop(state);
        self.house.changed();
    }
}

/// Somebody who waits, however that ends.
struct Waiting<'h>(&'h House);

impl<'h> Waiting<'h> {
    fn new(house: &'h House) -> Self {
        house.state().waiting += 1;
        Self(house)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.state().waiting -= 1;
    }
}

/// Looks after the turn of a house.
struct Keeper {
    house: Arc<House>,
    has_ended: bool,
}

/// With its runtime gone, the next who comes starts another one.
impl Drop for Keeper {
    fn drop(&mut self) {
        if !self.has_ended {
            let mut state = self.house.state();
            (state.is_kept, state.is_leaving, state.held_until) = (false, false, None);
            drop(state);
            self.house.changed();
        }
    }
}

impl Keeper {
    async fn run(mut self) {
        while !self.has_ended {
            let taken = self.take().await;
            match &taken {
                Ok(true) => self.hold().await,
                Ok(false) => {}
                Err(error) => self.fail(error),
            }
            let mut state = self.house.state();
            // Under one lock, or somebody could come in between and wait for ever.
            if state.waiting == 0 || taken.is_err() {
                state.is_kept = false;
                drop(state);
                self.has_ended = true;
                self.house.changed();
            }
        }
    }

    /// Asks for the turn until it is there, or nobody wants it any more.
    async fn take(&self) -> Result<bool> {
        let House {
            logbook,
            destination,
            ..
        } = &*self.house;
        let mut rest = ASK_FIRST;
        while self.house.state().waiting > 0 {
            let since = Instant::now();
            if logbook
                .take_turn(destination, &self.house.holder, TTL)
                .await?
            {
                let mut state = self.house.state();
                state.held_until = Some(since + TTL);
                // Should nobody come in any more, it is left like any other.
                state.idle_since = Some(Instant::now());
                drop(state);
                self.house.changed();
                return Ok(true);
            }
            self.house.state().others_at = Some(Instant::now());
            sleep(rest).await;
            rest = (rest * 2).min(ASK_LAST);
        }
        Ok(false)
    }

    /// Keeps the turn while somebody writes and nobody else is next.
    async fn hold(&self) {
        let mut stint_ends = Instant::now() + STINT;
        loop {
            self.until(stint_ends).await;
            let (is_idle, is_leaving) = {
                let mut state = self.house.state();
                let has_lingered = state.idle_at().is_some_and(|at| at <= Instant::now());
                // From here on whoever comes waits for the next turn.
                state.is_leaving |= has_lingered && state.waiting == 0;
                (state.writing == 0, state.is_leaving)
            };
            if is_idle && is_leaving {
                return self.leave().await;
            }
            if !self.keep().await {
                return self.lose();
            }
            stint_ends = Instant::now() + STINT;
        }
    }

    /// Waits for the end of a stint, or until nobody writes any more in a house that is to be left or
    /// has been idle for long enough.
    async fn until(&self, stint_ends: Instant) {
        let mut changes = self.house.changes.subscribe();
        loop {
            changes.mark_unchanged();
            let ends = self
                .house
                .state()
                .idle_at()
                .map_or(stint_ends, |at| at.min(stint_ends));
            if timeout_at(ends, changes.changed()).await.is_err() {
                return;
            }
        }
    }

    /// Whether the turn is this process's still.
    async fn keep(&self) -> bool {
        let since = Instant::now();
        let kept = self
            .house
            .logbook
            .keep_turn(&self.house.destination, &self.house.holder, TTL);
        match kept.await {
            Ok(TurnKept::Lost) => false,
            Ok(kept) => {
                let mut state = self.house.state();
                state.held_until = Some(since + TTL);
                if kept == TurnKept::Wanted {
                    state.is_leaving = true;
                    state.others_at = Some(Instant::now());
                }
                drop(state);
                // Whoever came after the turn had run out, and before it was known to go on, waits.
                self.house.changed();
                true
            }
            Err(error) => {
                debug!(%error, "the turn to write memories could not be kept");
                let held_until = self.house.state().held_until;
                held_until.is_some_and(|until| until > Instant::now())
            }
        }
    }

    async fn leave(&self) {
        let left = self
            .house
            .logbook
            .leave_turn(&self.house.destination, &self.house.holder);
        if let Err(error) = left.await {
            debug!(%error, "the turn to write memories could not be given back; it runs out");
        }
        self.lose();
    }

    fn lose(&self) {
        let mut state = self.house.state();
        (state.held_until, state.is_leaving) = (None, false);
        drop(state);
        self.house.changed();
    }

    /// Tells everybody who waits.
    fn fail(&self, error: &Error) {
        warn!(%error, "the turn to write memories could not be asked for");
        let mut state = self.house.state();
        state.failure = Some(error.to_string());
        state.failures += 1;
        drop(state);
        self.house.changed();
    }
}

/// Gives back every turn of this process that nobody writes in, so that others need not wait until it
/// runs out. For a process that is about to end.
pub async fn leave_turns() {
    let houses: Vec<_> = {
        let houses = HOUSES.lock().unwrap_or_else(PoisonError::into_inner);
        houses.values().filter_map(Weak::upgrade).collect()
    };
    let ends = Instant::now() + TTL;
    for house in houses {
        let mut changes = house.changes.subscribe();
        house.state().is_hurried = true;
        house.changed();
        let is_left = async { while house.state().is_kept && changes.changed().await.is_ok() {} };
        // What is not given back runs out.
        drop(timeout_at(ends, is_left).await);
    }
}

fn name() -> String {
    let mut bytes = [0; 8];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.expect("invariant: the system has random numbers");
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{digits}", std::process::id())
}
