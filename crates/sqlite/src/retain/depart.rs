//! The steps of a departure: it is checked once, then removes its messages a slice at a time.

use std::collections::BTreeMap;

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

/// Messages removed by one step.
const SLICE_MESSAGES: usize = 1_000;
/// And their bytes of payloads and headers: every page of a long payload is freed by itself.
const SLICE_BYTES: i64 = 4 * 1024 * 1024;
/// And their attempts, late results and audit entries.
const SLICE_RECORDS: u64 = 5_000;

/// The next messages of a window.
struct Slice {
    /// The last id that it covers.
    last: i64,
    leaving: Leaving,
    /// Whether nothing of the window is beyond it.
    is_end: bool,
}

impl Work<'_> {
    /// Takes the next step of a departure.
    pub(super) async fn depart(&mut self, token: Token, id: DepartureId) -> Result<Step<Progress>> {
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
            DepartureState::Open if row.departure.must_archive => {
                Ok(Step::Refused(Refusal::NotArchived))
            }
            DepartureState::Open | DepartureState::Archived => {
                self.start_leaving(&owner, &row).await
            }
            DepartureState::Leaving => self.remove_slice(&row).await,
        }
    }

    /// Records the departure in the audit, or gives it up if its messages have changed. Removes
    /// nothing yet: checking them takes as long as removing a slice.
    async fn start_leaving(&mut self, owner: &str, row: &DepartureRow) -> Result<Step<Progress>> {
        let departure = &row.departure;
        let bounds = (departure.first.0, departure.last.0);
        let leaving = window::leaving(self.connection, bounds, row.terms(self.components)).await?;
        if fingerprint_of(&leaving)[..] != row.fingerprint[..] {
            sqlx::query(sql!("departure_drop"))
                .bind(departure.id.0)
                .execute(&mut *self.connection)
                .await?;
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

    async fn remove_slice(&mut self, row: &DepartureRow) -> Result<Step<Progress>> {
        let slice = self.next_slice(row).await?;
        let removed = slice.leaving.len() as u64;
        if removed > 0 {
            self.remove(row.departure.id, &slice.leaving).await?;
        }
        sqlx::query(sql!("departure_move"))
            .bind(row.departure.id.0)
            .bind(slice.last)
            .bind(removed as i64)
            .bind(slice.is_end.then(|| rows::micros(self.now)))
            .execute(&mut *self.connection)
            .await?;
        if slice.is_end {
            sqlx::query(sql!("departing_end"))
                .bind(row.departure.id.0)
                .execute(&mut *self.connection)
                .await?;
        }
        Ok(Step::Done(Progress {
            removed,
            is_over: slice.is_end,
        }))
    }

    /// The next messages of a departure, as many as fit into a short transaction, and those of them
    /// that may still leave.
    async fn next_slice(&mut self, row: &DepartureRow) -> Result<Slice> {
        let end = row.departure.last.0;
        let (ids, bytes): (String, String) = sqlx::query_as(sql!("message_slice"))
            .bind(row.cursor)
            .bind(end)
            .bind(SLICE_MESSAGES as i64 + 1)
            .fetch_one(&mut *self.connection)
            .await?;
        let what = || format!("departure {}", row.departure.id);
        let (mut ids, bytes) = (rows::numbers(&what, &ids)?, rows::numbers(&what, &bytes)?);
        let is_end = ids.len() <= SLICE_MESSAGES;
        ids.truncate(SLICE_MESSAGES);
        let (Some(first), Some(last)) = (ids.first(), ids.last()) else {
            return Ok(Slice {
                last: end,
                leaving: Leaving::new(),
                is_end: true,
            });
        };
        let sizes: BTreeMap<i64, i64> = ids.iter().copied().zip(bytes).collect();
        let bounds = (*first, *last);
        let mut leaving =
            window::leaving(self.connection, bounds, row.terms(self.components)).await?;
        let fixed = self.fixed(row.departure.id).await?;
        leaving.retain(|(_, finished)| fixed.get(&finished.id.0) == Some(&finished.records));
        match fitting(&leaving, &sizes) {
            count if count < leaving.len() => {
                leaving.truncate(count);
                let last = leaving.last().map_or(end, |(_, finished)| finished.id.0);
                let is_end = false;
                Ok(Slice {
                    last,
                    leaving,
                    is_end,
                })
            }
            _ => Ok(Slice {
                last: *last,
                leaving,
                is_end,
            }),
        }
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
            let digest = match erased {
                Some(digest) => digest,
                None => rows::payload(&payload)?.digest_hex(),
            };
            kept.push((queue, key, id, created_at, died, digest, group));
        }
        sqlx::query(sql!("former_key_append"))
            .bind(rows::json(&kept))
            .execute(&mut *self.connection)
            .await?;
        Ok(())
    }
}

/// How many of these messages fit into one step; one does always.
fn fitting(leaving: &Leaving, sizes: &BTreeMap<i64, i64>) -> usize {
    let (mut bytes, mut records) = (0, 0);
    let fits = |(_, finished): &&(QueueName, Finished)| {
        bytes += sizes.get(&finished.id.0).copied().unwrap_or(0);
        records += finished.records;
        bytes <= SLICE_BYTES && records <= SLICE_RECORDS
    };
    leaving.iter().take_while(fits).count().max(1)
}
