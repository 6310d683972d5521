//! Windows of ids: which of their messages leave, and the departures they become.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use consign_kernel::{
    Departure, DepartureId, DepartureState, MessageId, QueueName, StateKind,
    plan::{Cutoffs, Finished, fingerprint, may_leave},
};
use jiff::Timestamp;
use sqlx::{Row, SqliteConnection, sqlite::SqliteRow};

use crate::{
    component::Components,
    error::{Failure, Result},
    rows, sql,
};

/// Ids of a window, unless reading it takes too long.
const WINDOW_IDS: i64 = 10_000;
/// Ids that are read at a time.
const PART_IDS: i64 = 1_000;

/// Messages that leave, by id, with their queues.
pub(super) type Leaving = Vec<(QueueName, Finished)>;

/// What decides whether a finished message may leave.
#[derive(Clone, Copy)]
pub(super) struct Terms<'t> {
    pub(super) cutoffs: &'t BTreeMap<QueueName, Cutoffs>,
    /// When the cutoffs were computed: what an app needs is decided at that time too.
    pub(super) at: Timestamp,
    pub(super) components: &'t Components,
}

impl Terms<'_> {
    /// The messages that apps still need. A queue whose app is not here keeps everything.
    async fn needed(
        &self,
        connection: &mut SqliteConnection,
        (first, last): (i64, i64),
    ) -> Result<BTreeSet<MessageId>> {
        let mut needed = BTreeSet::new();
        for queue in self.cutoffs.keys() {
            if let Some(hook) = self.components.hook_of(queue) {
                let bounds = (MessageId(first), MessageId(last));
                needed.extend(hook.needed(connection, bounds, self.at).await?);
            }
        }
        Ok(needed)
    }
}

/// A window of ids before its departure is recorded.
#[derive(Clone, Debug)]
pub(super) struct Window {
    first: i64,
    pub(super) last: i64,
    pub(super) at: Timestamp,
    pub(super) cutoffs: BTreeMap<QueueName, Cutoffs>,
    messages: i64,
    pub(super) leaving: Leaving,
}

impl Window {
    /// The window that begins with an id, and what of it may leave. It ends with the part after which
    /// reading it has taken `read_max`: its messages are read again while the write lock is held.
    pub(super) async fn read(
        connection: &mut SqliteConnection,
        first: i64,
        terms: Terms<'_>,
        read_max: Duration,
    ) -> Result<Self> {
        let mut window = Self {
            first,
            last: first.saturating_sub(1),
            at: terms.at,
            cutoffs: terms.cutoffs.clone(),
            messages: 0,
            leaving: Leaving::new(),
        };
        let end = first.saturating_add(WINDOW_IDS - 1);
        let started = Instant::now();
        loop {
            window.extend(connection, end, terms).await?;
            if window.last >= end || started.elapsed() >= read_max {
                return Ok(window);
            }
        }
    }

    /// Adds the next ids, at most up to `end`.
    async fn extend(
        &mut self,
        connection: &mut SqliteConnection,
        end: i64,
        terms: Terms<'_>,
    ) -> Result<()> {
        let first = self.last.saturating_add(1);
        self.last = self.last.saturating_add(PART_IDS).min(end);
        let messages: i64 = sqlx::query_scalar(sql!("message_count"))
            .bind(first)
            .bind(self.last)
            .fetch_one(&mut *connection)
            .await?;
        self.messages += messages;
        let more = leaving(connection, (first, self.last), terms).await?;
        self.leaving.extend(more);
        Ok(())
    }

    /// Without an archive, leaves out queues that require one; returns whether it left out no message.
    pub(super) fn allow(&mut self, has_archive: bool) -> bool {
        let found = self.leaving.len();
        self.cutoffs
            .retain(|_, cutoffs| cutoffs.allows(has_archive));
        self.leaving
            .retain(|(queue, _)| self.cutoffs.contains_key(queue));
        self.leaving.len() == found
    }

    /// Records its departure, unless one is under way, which is returned then.
    pub(super) async fn begin(&self, connection: &mut SqliteConnection) -> Result<Departure> {
        if let Some(row) = under_way(connection).await? {
            return Ok(row.departure);
        }
        let leaving = self.leaving.len() as i64;
        let must_archive = |(queue, _): &(QueueName, Finished)| self.cutoffs[queue].archive;
        let row = sqlx::query(sql!("departure_append"))
            .bind(self.first)
            .bind(self.last)
            .bind(rows::micros(self.at))
            .bind(rows::json(&self.cutoffs))
            .bind(leaving)
            .bind(self.messages - leaving)
            .bind(&fingerprint_of(&self.leaving)[..])
            .bind(self.leaving.iter().any(must_archive))
            .fetch_one(connection)
            .await?;
        Ok(DepartureRow::from_row(&row)?.departure)
    }
}

/// What tells whether messages that leave have changed.
pub(super) fn fingerprint_of(leaving: &Leaving) -> [u8; 32] {
    fingerprint(leaving.iter().map(|(_, finished)| finished))
}

/// The messages from one id to another that leave.
pub(super) async fn leaving(
    connection: &mut SqliteConnection,
    (first, last): (i64, i64),
    terms: Terms<'_>,
) -> Result<Leaving> {
    let needed = terms.needed(connection, (first, last)).await?;
    let cutoffs = terms.cutoffs;
    let found: String = sqlx::query_scalar(sql!("message_finished"))
        .bind(first)
        .bind(last)
        .bind(rows::json(cutoffs))
        .bind(terms.components.names())
        .fetch_one(connection)
        .await?;
    let found: Vec<(i64, QueueName, u8, i64, u8, u64)> = rows::document(&found)?;
    let mut leaving = Leaving::new();
    for (id, queue, state, last_event, is_head, records) in found {
        let finished = Finished {
            id: MessageId(id),
            state: match state {
                0 => StateKind::Delivered,
                1 => StateKind::Dead,
                _ => StateKind::Discarded,
            },
            last_event: rows::timestamp(last_event)?,
            is_head: is_head == 1,
            records,
        };
        let cutoffs = cutoffs.get(&queue);
        if cutoffs.is_some_and(|cutoffs| may_leave(&finished, cutoffs))
            && !needed.contains(&finished.id)
        {
            leaving.push((queue, finished));
        }
    }
    leaving.sort_by_key(|(_, finished)| finished.id);
    Ok(leaving)
}

/// A departure as stored.
pub(super) struct DepartureRow {
    pub(super) departure: Departure,
    pub(super) cutoffs: BTreeMap<QueueName, Cutoffs>,
    pub(super) fingerprint: Vec<u8>,
    pub(super) archive: Option<String>,
    /// The last id that its removal has passed.
    pub(super) cursor: i64,
    pub(super) is_over: bool,
}

impl DepartureRow {
    /// What decided about its messages.
    pub(super) fn terms<'t>(&'t self, components: &'t Components) -> Terms<'t> {
        Terms {
            cutoffs: &self.cutoffs,
            at: self.departure.at,
            components,
        }
    }

    fn from_row(row: &SqliteRow) -> Result<Self> {
        let word: &str = row.try_get("state")?;
        let state = DepartureState::from_word(word)
            .ok_or_else(|| Failure::corrupt(format!("{word:?} is not a departure's state")))?;
        let count = |name| -> Result<u64> { Ok(row.try_get::<i64, _>(name)?.unsigned_abs()) };
        let departure = Departure {
            id: DepartureId(row.try_get("id")?),
            first: MessageId(row.try_get("first")?),
            last: MessageId(row.try_get("last")?),
            at: rows::timestamp(row.try_get("at")?)?,
            messages: count("messages")?,
            stay: count("stay")?,
            must_archive: row.try_get("must_archive")?,
            state,
        };
        Ok(Self {
            departure,
            cutoffs: rows::document(row.try_get("cutoffs")?)?,
            fingerprint: row.try_get("fingerprint")?,
            archive: row.try_get("archive")?,
            cursor: row.try_get("cursor")?,
            is_over: row.try_get::<Option<i64>, _>("ended_at")?.is_some(),
        })
    }
}

/// A departure that was not given up.
pub(super) async fn departure(
    connection: &mut SqliteConnection,
    id: DepartureId,
) -> Result<Option<DepartureRow>> {
    let row = sqlx::query(sql!("departure_get"))
        .bind(id.0)
        .fetch_optional(connection)
        .await?;
    row.as_ref().map(DepartureRow::from_row).transpose()
}

/// The departure that is not over.
pub(super) async fn under_way(connection: &mut SqliteConnection) -> Result<Option<DepartureRow>> {
    let row = sqlx::query(sql!("departure_under_way"))
        .fetch_optional(connection)
        .await?;
    row.as_ref().map(DepartureRow::from_row).transpose()
}
