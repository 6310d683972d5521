//! The search for messages that may leave, and the beginning of their departure.

use std::{collections::BTreeMap, time::Duration};

use consign_kernel::{
    Departure, DepartureCause, DepartureId, QueueName, Refusal, Step, Token, plan::Cutoffs,
};
use jiff::Timestamp;
use sqlx::SqliteConnection;

use super::{
    cutoffs, owner,
    window::{self, Terms, Window},
};
use crate::{
    SqliteStore,
    component::Components,
    error::Result,
    job::Work,
    rows, sql,
    store::{snapshot, write},
};

/// Windows that one call looks at: with 10,000 messages each, a second or so of reading.
const WINDOWS_MAX: usize = 50;
/// The same while the file is too large: it becomes smaller only with what is found.
const SIZE_WINDOWS_MAX: usize = 10 * WINDOWS_MAX;

/// What a search has found.
#[derive(Clone, Debug)]
struct Found {
    cause: DepartureCause,
    has_archive: bool,
    /// Where the next search goes on.
    cursor: i64,
    window: Option<Window>,
    /// Whether messages stay because there is no archive.
    lacks_archive: bool,
}

impl SqliteStore {
    /// The departure under way, or a new one of the next window with messages that may leave.
    pub(super) async fn search(
        &self,
        token: Token,
        cause: DepartureCause,
        has_archive: bool,
    ) -> consign_kernel::Result<Step<Option<Departure>>> {
        let mut search = match self.start(token, cause, has_archive).await? {
            Step::Done(search) => search,
            Step::Refused(refusal) => return Ok(Step::Refused(refusal)),
        };
        if search.under_way.is_some() {
            return Ok(Step::Done(search.under_way));
        }
        let found = self.find(&mut search).await?;
        self.begin(token, found).await
    }

    async fn start(
        &self,
        token: Token,
        cause: DepartureCause,
        has_archive: bool,
    ) -> consign_kernel::Result<Step<Search<'_>>> {
        let (at, components) = (self.now(), &self.inner.components);
        snapshot!(self, "begin a departure", |tx| Search::start(
            &mut tx,
            components,
            at,
            token,
            (cause, has_archive)
        ))
    }

    /// Looks for the next window with messages that may leave.
    ///
    /// Each window is read by itself, so that the log can be copied into the file in between. What
    /// changes before the departure is recorded is found by its first step, as any later change is;
    /// another policy is found when it is recorded.
    async fn find(&self, search: &mut Search<'_>) -> consign_kernel::Result<Found> {
        let windows_max = match search.cause {
            DepartureCause::Age => WINDOWS_MAX,
            DepartureCause::Size => SIZE_WINDOWS_MAX,
        };
        let mut window = None;
        for _ in 0..windows_max {
            if search.is_over || window.is_some() {
                break;
            }
            window = snapshot!(self, "begin a departure", |tx| search
                .next(&mut tx, self.inner.hold_max))?;
        }
        // The next search for the oldest begins with the oldest again.
        let is_unmet = search.cause == DepartureCause::Size && window.is_none();
        Ok(Found {
            cause: search.cause,
            has_archive: search.has_archive,
            cursor: if is_unmet { 0 } else { search.cursor },
            window,
            lacks_archive: search.lacks_archive,
        })
    }

    async fn begin(
        &self,
        token: Token,
        found: Found,
    ) -> consign_kernel::Result<Step<Option<Departure>>> {
        write!(self, "begin a departure", (found), |work| work
            .begin_departure(token, &found))
    }
}

/// A search for messages that may leave: upwards from the last one's end, and once around.
struct Search<'s> {
    components: &'s Components,
    /// The departure that is not over.
    under_way: Option<Departure>,
    at: Timestamp,
    cause: DepartureCause,
    has_archive: bool,
    lacks_archive: bool,
    cutoffs: BTreeMap<QueueName, Cutoffs>,
    /// Where it started: the last id that the searches before have passed.
    start: i64,
    cursor: i64,
    has_wrapped: bool,
    is_over: bool,
}

impl<'s> Search<'s> {
    async fn start(
        connection: &mut SqliteConnection,
        components: &'s Components,
        at: Timestamp,
        token: Token,
        (cause, has_archive): (DepartureCause, bool),
    ) -> Result<Step<Self>> {
        if owner(connection, at, token).await?.is_none() {
            return Ok(Step::Refused(Refusal::LeaseLost));
        }
        let under_way = window::under_way(connection).await?;
        let under_way = under_way
            .map(|row| row.departure)
            .filter(|departure| has_archive || !departure.is_to_be_archived());
        let cutoffs = cutoffs(connection, components, at, cause).await?;
        let start: i64 = sqlx::query_scalar(sql!("maintenance_cursor"))
            .bind(cause == DepartureCause::Size)
            .fetch_one(connection)
            .await?;
        Ok(Step::Done(Self {
            components,
            is_over: cutoffs.is_empty(),
            under_way,
            at,
            cause,
            has_archive,
            lacks_archive: false,
            cutoffs,
            start,
            cursor: start,
            has_wrapped: false,
        }))
    }

    /// Looks at the next window; returns it if messages of it may leave.
    async fn next(
        &mut self,
        connection: &mut SqliteConnection,
        read_max: Duration,
    ) -> Result<Option<Window>> {
        let next: Option<(i64, i64)> = sqlx::query_as(sql!("message_next"))
            .bind(self.cursor)
            .fetch_optional(&mut *connection)
            .await?;
        let Some((first, created_at)) = next else {
            self.go_around();
            return Ok(None);
        };
        let terms = Terms {
            cutoffs: &self.cutoffs,
            at: self.at,
            components: self.components,
        };
        let mut window = Window::read(connection, first, terms, read_max).await?;
        self.cursor = window.last;
        self.is_over = self.has_wrapped && self.cursor >= self.start;
        self.lacks_archive |= !window.allow(self.has_archive);
        if !window.leaving.is_empty() {
            return Ok(Some(window));
        }
        // Ids grow with time, so what follows a window that begins too young is too young as well; after
        // a clock was set back it may be older, and is found when this window is old enough.
        let latest = self.cutoffs.values().filter_map(Cutoffs::latest).max();
        if latest.map(rows::micros) < Some(created_at) {
            self.go_around();
        }
        Ok(None)
    }

    /// Goes on with the oldest message, unless all have been looked at.
    fn go_around(&mut self) {
        self.is_over = self.has_wrapped || self.start == 0;
        (self.has_wrapped, self.cursor) = (true, 0);
    }
}

impl Work<'_> {
    /// Records how far a search has come, and the departure of what it has found.
    async fn begin_departure(
        &mut self,
        token: Token,
        found: &Found,
    ) -> Result<Step<Option<Departure>>> {
        if owner(self.connection, self.now, token).await?.is_none() {
            return Ok(Step::Refused(Refusal::LeaseLost));
        }
        sqlx::query(sql!("maintenance_move"))
            .bind(found.cursor)
            .bind(found.cause == DepartureCause::Size)
            .execute(&mut *self.connection)
            .await?;
        if !found.has_archive {
            self.give_up_unarchived().await?;
        }
        let Some(window) = &found.window else {
            return Ok(if found.lacks_archive {
                Step::Refused(Refusal::NoArchive)
            } else {
                Step::Done(None)
            });
        };
        let mut cutoffs = cutoffs(self.connection, self.components, window.at, found.cause).await?;
        cutoffs.retain(|_, cutoffs| cutoffs.allows(found.has_archive));
        if cutoffs != window.cutoffs {
            return Ok(Step::Refused(Refusal::Changed));
        }
        let departure = window.begin(self.connection).await?;
        Ok(Step::Done(Some(departure)))
    }

    /// Gives up a departure under way that only a process with an archive can go on with.
    async fn give_up_unarchived(&mut self) -> Result<()> {
        let under_way = window::under_way(self.connection).await?;
        let departure = under_way.map(|row| row.departure);
        if let Some(departure) = departure.filter(Departure::is_to_be_archived) {
            self.give_up(departure.id).await?;
        }
        Ok(())
    }

    /// Gives up a departure that has removed nothing.
    pub(super) async fn give_up(&mut self, id: DepartureId) -> Result<()> {
        sqlx::query(sql!("departure_drop"))
            .bind(id.0)
            .execute(&mut *self.connection)
            .await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use consign_kernel::{By, Claim, NewMessage, QueuePolicy, Report, prelude::*};
    use serde_json::json;
    use tempfile::TempDir;

    use super::*;
    use crate::SqliteOptions;

    /// A departure is begun by the policy that is there when it is recorded.
    #[tokio::test]
    async fn a_policy_that_changes_during_the_search_is_kept() {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("consign.db");
        let mut options = SqliteOptions::new(file.to_string_lossy()).unwrap();
        options.migrate_on_open = true;
        let store = SqliteStore::open(&options).await.unwrap();
        let queue: QueueName = "mail".parse().unwrap();
        let keep = async |keep_ms| {
            let policy = QueuePolicy {
                keep_ms,
                ..QueuePolicy::default()
            };
            let by = By::new("ada", "a test");
            store.put_queue(&queue, &policy, &by).await.unwrap();
        };
        keep(Some(0)).await;
        let message = NewMessage::new(queue.clone(), json!(1));
        store.enqueue(&[message]).await.unwrap();
        let lease = store.claim(&Claim::new(queue.clone(), "w", 1)).await;
        let lease = lease.unwrap().unwrap();
        let report = Report::delivered(lease.messages[0].message.id);
        store.settle(lease.token, &[report]).await.unwrap();

        let ttl = Duration::from_secs(60);
        let leased = store.lease_maintenance("test", None, ttl).await.unwrap();
        let token = leased.unwrap();
        let Step::Done(mut search) = store.start(token, DepartureCause::Age, true).await.unwrap()
        else {
            panic!("the lease lives");
        };
        let found = store.find(&mut search).await.unwrap();
        assert!(found.window.is_some(), "a message may leave");
        keep(None).await;
        let begun = store.begin(token, found).await.unwrap();
        assert_eq!(begun, Step::Refused(Refusal::Changed));
        let again = store.search(token, DepartureCause::Age, true).await;
        assert_eq!(again.unwrap(), Step::Done(None), "kept for ever now");
    }
}
