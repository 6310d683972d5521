//! The steps of a departure: it is checked once, then removes its messages, slice by slice.

use std::{collections::BTreeMap, time::Duration};

use consign_failpoint::kill_at;
use consign_kernel::{
    DepartureId, DepartureState, MessageId, Progress, QueueName, Refusal, StateKind, Step, Token,
    plan::Finished,
};

use super::{
    Gone, owner,
    window::{self, DepartureRow, Leaving, fingerprint_of},
};
use crate::{
    error::Result,
    job::{Work, arguments},
    rows, sql,
};

/// Messages that one step looks at, if there is time.
const STEP_MESSAGES: usize = 1_000;
/// Messages after which it looks at the time.
const SLICE_MESSAGES: usize = 100;

/// The next messages of a window.
struct Slice {
    /// The last id that it covers.
    last: i64,
    leaving: Leaving,
    /// Whether nothing of the window is beyond it.
    is_end: bool,
}

/// What a step may still remove.
struct Room {
    /// Bytes of payloads and headers: every page of a long payload is freed by itself.
    bytes: i64,
    /// Attempts, late results and audit entries.
    records: i64,
}

impl Room {
    fn new() -> Self {
        Self {
            bytes: 4 * 1024 * 1024,
            records: 5_000,
        }
    }

    /// Takes as many of these messages as there is room for; the first one always.
    fn take(&mut self, leaving: &Leaving, sizes: &BTreeMap<i64, i64>) -> usize {
        let mut count = 0;
        for (_, finished) in leaving {
            self.bytes -= sizes.get(&finished.id.0).copied().unwrap_or(0);
            self.records -= finished.records as i64;
            if self.is_full() && count > 0 {
                break;
            }
            count += 1;
        }
        count
    }

    fn is_full(&self) -> bool {
        self.bytes < 0 || self.records < 0
    }
}

impl Work<'_> {
    /// Takes the next step of a departure.
    pub(super) async fn depart(
        &mut self,
        token: Token,
        id: DepartureId,
        hold_max: Duration,
    ) -> Result<Step<Progress>> {
        let Some(owner) = owner(self.connection, self.now, token).await? else {
            return Ok(Step::Refused(Refusal::LeaseLost));
        };
        let Some(row) = window::departure(self.connection, id).await? else {
            return Ok(Step::Refused(Refusal::Changed));
        };
        if row.is_over {
            return Ok(Step::Done(Progress {
                removed: 0,
                is_over: true,
            }));
        }
        match row.departure.state {
            DepartureState::Open if row.departure.is_to_be_archived() => {
                Ok(Step::Refused(Refusal::NoArchive))
            }
            DepartureState::Copying | DepartureState::Open | DepartureState::Archived => {
                self.start_leaving(&owner, &row).await
            }
            DepartureState::Leaving => self.remove_slices(&row, hold_max).await,
        }
    }

    /// Records the departure in the audit, or gives it up if its messages have changed. Removes
    /// nothing yet: checking them takes as long as removing a slice.
    async fn start_leaving(&mut self, owner: &str, row: &DepartureRow) -> Result<Step<Progress>> {
        let departure = &row.departure;
        let bounds = (departure.first.0, departure.last.0);
        let leaving = window::leaving(self.connection, bounds, row.terms(self.components)).await?;
        if fingerprint_of(&leaving)[..] != row.fingerprint[..] {
            self.give_up(departure.id).await?;
            return Ok(Step::Refused(Refusal::Changed));
        }
        let by = departure.by(owner, row.archive.as_deref());
        self.record_actions(&by, "depart", &[(None, None)]).await?;
        sqlx::query(sql!("departure_leave"))
            .bind(departure.id.0)
            .execute(&mut *self.connection)
            .await?;
        let fixed = leaving.iter().map(|(_, finished)| finished);
        sqlx::query(sql!("departing_append"))
            .bind(departure.id.0)
            .bind(rows::array(fixed.clone().map(|finished| finished.id.0)))
            .bind(rows::array(fixed.map(|finished| finished.records as i64)))
            .execute(&mut *self.connection)
            .await?;
        Ok(Step::Done(Progress {
            removed: 0,
            is_over: false,
        }))
    }

    /// Removes the next messages, until the write lock was held for long enough.
    async fn remove_slices(
        &mut self,
        row: &DepartureRow,
        hold_max: Duration,
    ) -> Result<Step<Progress>> {
        let fixed = self.fixed(row.departure.id).await?;
        let (mut cursor, mut removed, mut is_over) = (row.cursor, 0, false);
        let mut room = Room::new();
        for _ in 0..STEP_MESSAGES / SLICE_MESSAGES {
            let slice = self.next_slice(row, cursor, &fixed, &mut room).await?;
            if !slice.leaving.is_empty() {
                self.remove(row.departure.id, &slice.leaving).await?;
            }
            removed += slice.leaving.len() as u64;
            (cursor, is_over) = (slice.last, slice.is_end);
            if is_over || room.is_full() || self.held_for() >= hold_max {
                break;
            }
        }
        sqlx::query(sql!("departure_move"))
            .bind(row.departure.id.0)
            .bind(cursor)
            .bind(removed as i64)
            .bind(is_over.then(|| rows::micros(self.now)))
            .execute(&mut *self.connection)
            .await?;
        if is_over {
            sqlx::query(sql!("departing_end"))
                .bind(row.departure.id.0)
                .execute(&mut *self.connection)
                .await?;
        }
        Ok(Step::Done(Progress { removed, is_over }))
    }

    /// The next messages of a departure after an id, and those of them that may still leave.
    async fn next_slice(
        &mut self,
        row: &DepartureRow,
        after: i64,
        fixed: &BTreeMap<i64, u64>,
        room: &mut Room,
    ) -> Result<Slice> {
        let end = row.departure.last.0;
        let (ids, bytes): (String, String) = sqlx::query_as(sql!("message_slice"))
            .bind(after)
            .bind(end)
            .bind(SLICE_MESSAGES as i64 + 1)
            .fetch_one(&mut *self.connection)
            .await?;
        let what = || format!("departure {}", row.departure.id);
        let (mut ids, bytes) = (rows::numbers(&what, &ids)?, rows::numbers(&what, &bytes)?);
        let mut is_end = ids.len() <= SLICE_MESSAGES;
        ids.truncate(SLICE_MESSAGES);
        let (Some(first), Some(last)) = (ids.first(), ids.last()) else {
            return Ok(Slice {
                last: end,
                leaving: Leaving::new(),
                is_end: true,
            });
        };
        let sizes: BTreeMap<i64, i64> = ids.iter().copied().zip(bytes).collect();
        let (bounds, mut last) = ((*first, *last), *last);
        let mut leaving =
            window::leaving(self.connection, bounds, row.terms(self.components)).await?;
        leaving.retain(|(_, finished)| fixed.get(&finished.id.0) == Some(&finished.records));
        let count = room.take(&leaving, &sizes);
        if count < leaving.len() {
            leaving.truncate(count);
            is_end = false;
            last = leaving.last().map_or(last, |(_, finished)| finished.id.0);
        }
        Ok(Slice {
            last,
            leaving,
            is_end,
        })
    }

    /// The messages that a departure removes, and how much was recorded about each.
    async fn fixed(&mut self, id: DepartureId) -> Result<BTreeMap<i64, u64>> {
        let (ids, records): (String, String) = sqlx::query_as(sql!("departing_get"))
            .bind(id.0)
            .fetch_one(&mut *self.connection)
            .await?;
        let what = || format!("departure {id}");
        let ids = rows::numbers(&what, &ids)?.into_iter();
        let records = rows::numbers(&what, &records)?.into_iter();
        Ok(ids.zip(records.map(i64::unsigned_abs)).collect())
    }

    /// Removes messages with everything recorded about them, but their keys.
    async fn remove(&mut self, departure: DepartureId, leaving: &Leaving) -> Result<()> {
        self.keep_keys(leaving).await?;
        let ids: Vec<MessageId> = leaving.iter().map(|(_, finished)| finished.id).collect();
        let statements = sql!(
            "departure_open",
            "purge_dead",
            "purge_discarded",
            "purge_late",
            "purge_attempt",
            "departure_audit",
            "purge_message",
            "purge_close"
        );
        self.rows_of(statements, arguments!(rows::id_array(&ids), departure.0)?)
            .await?;
        let mut gone: BTreeMap<QueueName, Gone> = BTreeMap::new();
        for (queue, finished) in leaving {
            let gone = gone.entry(queue.clone()).or_default();
            gone.messages += 1;
            gone.dead += u64::from(finished.state == StateKind::Dead);
            gone.discarded += u64::from(finished.state == StateKind::Discarded);
        }
        self.count_gone(&gone).await?;
        kill_at("depart_unfollowed");
        self.follow_departure(leaving).await
    }

    /// Lets apps delete their rows of messages that leave.
    async fn follow_departure(&mut self, leaving: &Leaving) -> Result<()> {
        let components = self.components;
        for hook in components.hooks() {
            let concerns = |(queue, _): &&(QueueName, Finished)| queue.as_str() == hook.queue();
            let ids = leaving.iter().filter(concerns);
            let ids: Vec<MessageId> = ids.map(|(_, finished)| finished.id).collect();
            if !ids.is_empty() {
                hook.departed(self, &ids).await?;
            }
        }
        Ok(())
    }

    /// Keeps the keys of messages that leave: a repeated key is still a duplicate.
    async fn keep_keys(&mut self, leaving: &Leaving) -> Result<()> {
        type Columns = (
            i64,
            String,
            String,
            Option<String>,
            i64,
            String,
            Option<String>,
        );
        let states: BTreeMap<i64, &Finished> = leaving
            .iter()
            .map(|(_, finished)| (finished.id.0, finished))
            .collect();
        let keyed: Vec<Columns> = sqlx::query_as(sql!("message_keyed"))
            .bind(rows::array(states.keys().copied()))
            .fetch_all(&mut *self.connection)
            .await?;
        if keyed.is_empty() {
            return Ok(());
        }
        let mut kept = Vec::with_capacity(keyed.len());
        for (id, queue, key, group, created_at, payload, erased) in keyed {
            let died = u8::from(states[&id].state == StateKind::Dead);
            let discarded = u8::from(states[&id].state == StateKind::Discarded);
            let digest = match erased {
                Some(digest) => digest,
                None => rows::payload(&payload)?.digest_hex(),
            };
            kept.push((queue, key, id, created_at, died, digest, group, discarded));
        }
        sqlx::query(sql!("former_key_append"))
            .bind(rows::json(&kept))
            .execute(&mut *self.connection)
            .await?;
        Ok(())
    }
}
