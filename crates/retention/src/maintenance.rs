//! A pass of the maintenance.

use std::{
    ops::ControlFlow,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use consign_archive::Archive;
use consign_failpoint::kill_at;
use consign_kernel::{
    Departure, DepartureCause, DepartureState, MessageId, PAGE_ENTRIES_MAX, Refusal, Step, Store,
    Token,
};
use metrics::counter;
use tokio::time::{Instant, sleep};

use crate::{
    End, Pass,
    archive::{Draft, clear},
    error::{Error, Result},
    metrics::{DEPARTED_TOTAL, REFUSALS_TOTAL},
};

/// How long the maintenance is leased; every step renews it.
const LEASE_TTL: Duration = Duration::from_secs(60);
/// What is left of the lease when a pass ends.
const LEASE_END: Duration = Duration::from_millis(1);
/// A step that meets a lock is repeated after each of these pauses. They grow: who holds the lock may be done
/// soon, and each try makes everyone else wait.
const LOCKED_PAUSES: [Duration; 3] = [
    Duration::from_millis(250),
    Duration::from_secs(1),
    Duration::from_secs(5),
];
/// After a step the maintenance pauses for so many times as long as the step took, so that others have the disk
/// and the processors for most of the time.
const PAUSE_FACTOR: u32 = 3;
/// The longest pause after a step: the lease lives on meanwhile.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// How a pass that failed is recorded.
const FAILED: &str = "failed";
/// Passes that end alike are recorded no more often: a sample counts messages.
const RECORD_PAUSE: Duration = Duration::from_secs(30);
/// A pass that goes on for longer records so.
const SAMPLE_PAUSE: Duration = Duration::from_secs(600);
/// Keys forgotten by one statement.
const KEYS_PER_STEP: u32 = 1_000;

/// How the maintenance is done.
#[derive(Clone, Debug)]
pub struct Options {
    /// The name in the lease and the audit.
    pub owner: String,
    /// Where to archive to.
    pub archive: Option<Archive>,
    /// The kind of store, as the manifests of the archive name it.
    pub store: &'static str,
    /// How many ids a range has, in PostgreSQL.
    pub range_messages: u64,
    /// At which age a range is closed, in PostgreSQL.
    pub range_age: Duration,
    /// Above this size of the history, delivered messages leave before their time.
    pub size_max_bytes: Option<u64>,
}

/// The maintenance of a store.
pub struct Maintenance {
    store: Arc<dyn Store>,
    options: Options,
    /// When the end of a pass was recorded last, and which.
    recorded: Mutex<Option<(Instant, &'static str)>>,
}

impl std::fmt::Debug for Maintenance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Maintenance");
        shown
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// Whether to go on, or why to end.
type Flow<T> = ControlFlow<End, T>;

/// A step that was taken.
const GO_ON: Result<Flow<()>> = Ok(ControlFlow::Continue(()));

/// Unwraps the answer of a step; ends the pass if it was refused.
macro_rules! done {
    ($flow:expr) => {
        match $flow {
            ControlFlow::Continue(done) => done,
            ControlFlow::Break(end) => return Ok(ControlFlow::Break(end)),
        }
    };
}

impl Maintenance {
    /// The maintenance of this store.
    pub fn new(store: Arc<dyn Store>, options: Options) -> Self {
        Self {
            store,
            options,
            recorded: Mutex::new(None),
        }
    }

    /// Takes every step that can be taken now.
    pub async fn pass(&self) -> Result<Pass> {
        let mut pass = Pass {
            departed: 0,
            departures: 0,
            keys: 0,
            end: End::Done,
        };
        let leased = self
            .store
            .lease_maintenance(&self.options.owner, None, LEASE_TTL);
        let Some(token) = leased.await? else {
            pass.end = End::Elsewhere;
            return Ok(pass);
        };
        let taken = self.take_steps(token, &mut pass).await;
        self.record(token, &taken).await;
        // The next pass need not wait. If this fails, the lease ends by itself.
        let ended = self
            .store
            .lease_maintenance(&self.options.owner, Some(token), LEASE_END);
        if let Err(error) = ended.await {
            tracing::debug!("the lease of the maintenance was not ended: {error}");
        }
        if let ControlFlow::Break(end) = taken? {
            pass.end = end;
        }
        if let End::Refused(_) | End::OverSize = pass.end {
            counter!(REFUSALS_TOTAL, "reason" => pass.end.as_str()).increment(1);
        }
        Ok(pass)
    }

    /// Takes the steps one after the other. A refusal or failure of one keeps no other from being taken; the first
    /// one is the end of the pass.
    async fn take_steps(&self, token: Token, pass: &mut Pass) -> Result<Flow<()>> {
        let left = self.leave(token, DepartureCause::Age, pass).await;
        let is_free = matches!(
            left,
            Ok(ControlFlow::Continue(()) | ControlFlow::Break(End::Refused(Refusal::NoArchive)))
        );
        let forgotten = self.forget_keys(token, pass).await;
        // Departures by size come last: forgetting keys makes the database smaller, too. None begins while another
        // is under way.
        let shrunk = if is_free {
            self.leave(token, DepartureCause::Size, pass).await
        } else {
            GO_ON
        };
        match first_end(first_end(left, forgotten), shrunk) {
            // An erasure writes to it, for example.
            Err(Error::Archive(consign_archive::Error::Locked { .. })) => {
                Ok(ControlFlow::Break(End::Refused(Refusal::Locked)))
            }
            end => end,
        }
    }

    /// Lets messages leave, a departure after the other. A backlog takes hours: before each one the ranges ahead of
    /// the ids in use are prepared, and the archive is cleared.
    async fn leave(
        &self,
        token: Token,
        cause: DepartureCause,
        pass: &mut Pass,
    ) -> Result<Flow<()>> {
        let mut met = GO_ON;
        let mut recorded = Instant::now();
        while cause == DepartureCause::Age || self.is_over_size().await? {
            met = first_end(met, self.prepare_ranges(token).await);
            kill_at("ranges_prepared");
            met = first_end(met, self.clear_archive(token).await);
            match self.next_departure(token, cause, pass).await {
                Ok(ControlFlow::Continue(true)) => {}
                Ok(ControlFlow::Continue(false)) if cause == DepartureCause::Size => {
                    return first_end(met, Ok(ControlFlow::Break(End::OverSize)));
                }
                Ok(ControlFlow::Continue(false)) => return met,
                Ok(ControlFlow::Break(end)) => return first_end(met, Ok(ControlFlow::Break(end))),
                Err(error) => return first_end(met, Err(error)),
            }
            if recorded.elapsed() >= SAMPLE_PAUSE {
                self.record(token, &GO_ON).await;
                recorded = Instant::now();
            }
        }
        met
    }

    /// Copying what stays of a large range takes long, and ids go on. A lock in the way is met again soon.
    async fn prepare_meanwhile(&self, token: Token) -> Result<Flow<()>> {
        let (messages, age) = (self.options.range_messages, self.options.range_age);
        let prepared = self.store.prepare_ranges(token, messages, age).await?;
        Ok(match prepared {
            Step::Refused(refusal @ Refusal::LeaseLost) => {
                ControlFlow::Break(End::Refused(refusal))
            }
            _ => ControlFlow::Continue(()),
        })
    }

    async fn prepare_ranges(&self, token: Token) -> Result<Flow<()>> {
        let (messages, age) = (self.options.range_messages, self.options.range_age);
        let prepared = self.unlocked(token, || self.store.prepare_ranges(token, messages, age));
        done!(prepared.await?);
        Ok(ControlFlow::Continue(()))
    }

    /// Records how a pass ends, with a sample of the history. The pass is over whether it succeeds or not.
    async fn record(&self, token: Token, taken: &Result<Flow<()>>) {
        let end = match taken {
            Ok(ControlFlow::Continue(())) => End::Done.as_str(),
            Ok(ControlFlow::Break(end)) => end.as_str(),
            Err(_) => FAILED,
        };
        {
            let mut recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
            let is_fresh =
                |(at, as_what): (Instant, &str)| as_what == end && at.elapsed() < RECORD_PAUSE;
            if recorded.is_some_and(is_fresh) {
                return;
            }
            *recorded = Some((Instant::now(), end));
        }
        match self.store.record_pass(token, end).await {
            Ok(_) => {}
            Err(error) => tracing::warn!("the end of a pass was not recorded: {error}"),
        }
    }

    /// Lets the messages of the next departure leave; returns whether there was one.
    async fn next_departure(
        &self,
        token: Token,
        cause: DepartureCause,
        pass: &mut Pass,
    ) -> Result<Flow<bool>> {
        let departure = loop {
            let started = Instant::now();
            let begun = self
                .unlocked(token, || {
                    let has_archive = self.options.archive.is_some();
                    self.store.begin_departure(token, cause, has_archive)
                })
                .await?;
            match done!(begun) {
                None => return Ok(ControlFlow::Continue(false)),
                Some(departure) if departure.state == DepartureState::Copying => {
                    kill_at("departure_copying");
                    done!(self.pause(token, started.elapsed()).await?);
                    done!(self.prepare_meanwhile(token).await?);
                }
                Some(departure) => break departure,
            }
        };
        kill_at("departure_begun");
        done!(self.take_out(token, &departure, pass).await?);
        pass.departures += 1;
        Ok(ControlFlow::Continue(true))
    }

    async fn is_over_size(&self) -> Result<bool> {
        let Some(bytes_max) = self.options.size_max_bytes else {
            return Ok(false);
        };
        Ok(self.store.database_size().await?.history_bytes > bytes_max)
    }

    async fn forget_keys(&self, token: Token, pass: &mut Pass) -> Result<Flow<()>> {
        loop {
            let started = Instant::now();
            let forgotten = self.store.forget_keys(token, KEYS_PER_STEP).await?;
            let forgotten = done!(taken(forgotten));
            pass.keys += forgotten;
            if forgotten < u64::from(KEYS_PER_STEP) {
                return Ok(ControlFlow::Continue(()));
            }
            done!(self.pause(token, started.elapsed()).await?);
        }
    }

    /// Archives and removes the messages of a departure.
    async fn take_out(
        &self,
        token: Token,
        departure: &Departure,
        pass: &mut Pass,
    ) -> Result<Flow<()>> {
        if let Some(archive) = &self.options.archive
            && departure.state == DepartureState::Open
        {
            done!(self.archive(token, archive, departure).await?);
        }
        for step in 1.. {
            let started = Instant::now();
            let progress = self
                .unlocked(token, || self.store.depart(token, departure.id))
                .await?;
            let progress = done!(progress);
            pass.departed += progress.removed;
            counter!(DEPARTED_TOTAL).increment(progress.removed);
            if progress.removed > 0 {
                // In PostgreSQL; SQLite has the same point between the messages and the app's rows.
                kill_at("depart_unfollowed");
            }
            kill_after_step(step);
            if progress.is_over {
                break;
            }
            done!(self.pause(token, started.elapsed()).await?);
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Writes the data file of a departure, reads it back, and compares it with the store.
    async fn archive(
        &self,
        token: Token,
        archive: &Archive,
        departure: &Departure,
    ) -> Result<Flow<()>> {
        let mut draft = Draft::begin(archive.clone(), departure).await?;
        let mut after: Option<MessageId> = None;
        loop {
            let records = self
                .store
                .departing(departure.id, after, PAGE_ENTRIES_MAX)
                .await?;
            let Some(last) = records.last() else {
                break;
            };
            after = Some(last.message.id);
            draft = draft.append(records).await?;
            done!(self.renew(token).await?);
        }
        let mut archived = draft.finish(self.options.store, departure.at).await?;
        let mut after: Option<MessageId> = None;
        loop {
            let records = self
                .store
                .departing(departure.id, after, PAGE_ENTRIES_MAX)
                .await?;
            let Some(last) = records.last() else {
                break;
            };
            after = Some(last.message.id);
            archived = archived.compare(records).await?;
            done!(self.renew(token).await?);
        }
        let file = &archived.manifest.file;
        let recorded = self.store.record_archive(token, departure.id, file);
        let recorded = taken(recorded.await?);
        kill_at("archive_recorded");
        Ok(recorded)
    }

    /// Erases in the archive what was erased in the store: the archive holds what a departure archived
    /// and did not remove, and what was archived while the erasure was under way.
    async fn clear_archive(&self, token: Token) -> Result<Flow<()>> {
        let Some(archive) = &self.options.archive else {
            return Ok(ControlFlow::Continue(()));
        };
        loop {
            let due = self.store.due_erasures(PAGE_ENTRIES_MAX).await?;
            if due.is_empty() {
                return Ok(ControlFlow::Continue(()));
            }
            let ids: Vec<MessageId> = due.iter().map(|(id, _)| *id).collect();
            clear(archive.clone(), due).await?;
            let recorded = self.store.record_cleared(token, &ids).await?;
            done!(taken(recorded));
            done!(self.renew(token).await?);
        }
    }

    /// Pauses after a step, and renews the lease.
    async fn pause(&self, token: Token, took: Duration) -> Result<Flow<()>> {
        sleep(pause_after(took)).await;
        self.renew(token).await
    }

    async fn renew(&self, token: Token) -> Result<Flow<()>> {
        let owner = &self.options.owner;
        let renewed = self.store.lease_maintenance(owner, Some(token), LEASE_TTL);
        Ok(match renewed.await? {
            Some(renewed) if renewed == token => ControlFlow::Continue(()),
            _ => ControlFlow::Break(End::Refused(Refusal::LeaseLost)),
        })
    }

    /// Takes a step, again and again while a lock is in its way.
    async fn unlocked<T, F>(&self, token: Token, step: impl Fn() -> F) -> Result<Flow<T>>
    where
        F: Future<Output = consign_kernel::Result<Step<T>>>,
    {
        for pause in LOCKED_PAUSES {
            match taken(step().await?) {
                ControlFlow::Break(End::Refused(Refusal::Locked)) => {}
                flow => return Ok(flow),
            }
            sleep(pause).await;
            done!(self.renew(token).await?);
        }
        Ok(taken(step().await?))
    }
}

/// How long the maintenance pauses after a step that took so long.
pub fn pause_after(took: Duration) -> Duration {
    (took * PAUSE_FACTOR).min(PAUSE_MAX)
}

/// The first of two results that is an end.
fn first_end(first: Result<Flow<()>>, second: Result<Flow<()>>) -> Result<Flow<()>> {
    match first {
        Ok(ControlFlow::Continue(())) => second,
        end => end,
    }
}

/// The failpoint after a step of a departure; its name is not made in a release build.
fn kill_after_step(step: u32) {
    if cfg!(debug_assertions) {
        kill_at(&format!("depart_step_{step}"));
    }
}

fn taken<T>(step: Step<T>) -> Flow<T> {
    match step {
        Step::Done(done) => ControlFlow::Continue(done),
        Step::Refused(refusal) => ControlFlow::Break(End::Refused(refusal)),
    }
}
