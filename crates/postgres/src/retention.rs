//! How history leaves: ranges are prepared, emptied and dropped.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use consign_kernel::{
    DatabaseSize, Departure, DepartureCause, DepartureId, DepartureState, Growth, MessageId,
    PAGE_ENTRIES_MAX, Progress, QueueHistory, Record, Refusal, Result, Retain, StateKind, Step,
    Token, validate_archive, validate_maintenance, validate_pass_end,
};
use sqlx::postgres::PgRow;

use crate::{
    PostgresStore,
    erase::erasure,
    growth,
    pools::Use,
    read::{attempt, audit_entry, dead_letter, late},
    rows,
};

/// A call of `begin_departure` copies pages for so long; the caller renews its lease in between.
const COPY_TURN: Duration = Duration::from_secs(1);
/// Closed ranges that are counted after a pass: each has up to a million messages, or more.
const RANGES_COUNTED_MAX: usize = 10;

#[async_trait]
impl Retain for PostgresStore {
    async fn lease_maintenance(
        &self,
        owner: &str,
        token: Option<Token>,
        ttl: Duration,
    ) -> Result<Option<Token>> {
        validate_maintenance(owner, ttl)?;
        let statement = sqlx::query("SELECT consign.lease_maintenance($1, $2, $3) AS token")
            .bind(owner)
            .bind(token.map(|token| token.0))
            .bind(rows::interval(ttl));
        let rows = self.fetch("lease the maintenance", statement).await?;
        let token: Option<uuid::Uuid> = rows::column(rows::only(&rows)?, "token")?;
        Ok(token.map(Token))
    }

    async fn prepare_ranges(
        &self,
        token: Token,
        messages: u64,
        age: Duration,
    ) -> Result<Step<u32>> {
        let statement = sqlx::query("SELECT * FROM consign.prepare_ranges($1, $2, $3)")
            .bind(token.0)
            .bind(i64::try_from(messages).unwrap_or(i64::MAX))
            .bind(rows::interval(age));
        let rows = self
            .fetch_as(Use::Report, "prepare ranges", statement)
            .await?;
        step(rows::only(&rows)?, |row| rows::number(row, "ranges"))
    }

    async fn begin_departure(
        &self,
        token: Token,
        cause: DepartureCause,
        has_archive: bool,
    ) -> Result<Step<Option<Departure>>> {
        let started = Instant::now();
        loop {
            let begun = self.begin_or_copy(token, cause, has_archive).await?;
            let is_copying = matches!(
                &begun,
                Step::Done(Some(departure)) if departure.state == DepartureState::Copying
            );
            if !is_copying || started.elapsed() >= COPY_TURN {
                return Ok(begun);
            }
        }
    }

    async fn departing(
        &self,
        id: DepartureId,
        after: Option<MessageId>,
        limit: u32,
    ) -> Result<Vec<Record>> {
        let statement = sqlx::query("SELECT consign.departing($1, $2, $3) AS ids")
            .bind(id.0)
            .bind(after.map_or(i64::MIN, |after| after.0))
            .bind(limit.min(PAGE_ENTRIES_MAX) as i32);
        let rows = self
            .read_as(Use::Report, "read a departure", statement)
            .await?;
        let ids: Vec<i64> = rows::column(rows::only(&rows)?, "ids")?;
        self.records(&ids).await
    }

    async fn record_archive(
        &self,
        token: Token,
        id: DepartureId,
        archive: &str,
    ) -> Result<Step<()>> {
        validate_archive(archive)?;
        let statement = sqlx::query("SELECT consign.record_archive($1, $2, $3) AS refusal")
            .bind(token.0)
            .bind(id.0)
            .bind(archive);
        let rows = self.fetch("record an archive", statement).await?;
        step(rows::only(&rows)?, |_| Ok(()))
    }

    async fn depart(&self, token: Token, id: DepartureId) -> Result<Step<Progress>> {
        let statement = sqlx::query("SELECT * FROM consign.depart($1, $2)")
            .bind(token.0)
            .bind(id.0);
        let rows = self.fetch_as(Use::Report, "depart", statement).await?;
        step(rows::only(&rows)?, |row| {
            Ok(Progress {
                removed: rows::count(row, "removed")?,
                is_over: rows::column(row, "is_over")?,
            })
        })
    }

    async fn forget_keys(&self, token: Token, limit: u32) -> Result<Step<u64>> {
        let statement = sqlx::query("SELECT * FROM consign.forget_keys($1, $2)")
            .bind(token.0)
            .bind(i32::try_from(limit).unwrap_or(i32::MAX));
        let rows = self.fetch_as(Use::Report, "forget keys", statement).await?;
        step(rows::only(&rows)?, |row| rows::count(row, "forgotten"))
    }

    async fn queue_history(&self) -> Result<Vec<QueueHistory>> {
        let statement = sqlx::query(include_str!("../sql/queue_history.sql"));
        let rows = self
            .read_as(Use::Report, "read the history of queues", statement)
            .await?;
        rows.iter().map(queue_history).collect()
    }

    async fn database_size(&self) -> Result<DatabaseSize> {
        let statement = sqlx::query("SELECT * FROM consign.database_size()");
        let rows = self
            .read_as(Use::Report, "read the size of the database", statement)
            .await?;
        let row = rows::only(&rows)?;
        Ok(DatabaseSize {
            bytes: rows::count(row, "bytes")?,
            history_bytes: rows::count(row, "history_bytes")?,
        })
    }

    async fn record_pass(&self, token: Token, end: &str) -> Result<Step<()>> {
        validate_pass_end(end)?;
        let statement = sqlx::query("SELECT consign.record_pass($1, $2) AS refusal")
            .bind(token.0)
            .bind(end);
        let rows = self.fetch("record a pass", statement).await?;
        match step(rows::only(&rows)?, |_| Ok(()))? {
            Step::Done(()) => {}
            refused => return Ok(refused),
        }
        self.count_closed(token).await?;
        let statement = sqlx::query("SELECT consign.sample_history($1) AS refusal").bind(token.0);
        let rows = self
            .fetch_as(Use::Report, "sample the history", statement)
            .await?;
        step(rows::only(&rows)?, |_| Ok(()))
    }

    async fn growth(&self) -> Result<Growth> {
        growth::read(self).await
    }
}

impl PostgresStore {
    /// Counts closed ranges, each in a transaction of its own.
    async fn count_closed(&self, token: Token) -> Result<()> {
        for _ in 0..RANGES_COUNTED_MAX {
            let statement = sqlx::query("SELECT * FROM consign.count_closed($1)").bind(token.0);
            let rows = self
                .fetch_as(Use::Report, "count a closed range", statement)
                .await?;
            let counted = step(rows::only(&rows)?, |row| {
                rows::column::<bool>(row, "counted")
            })?;
            if counted != Step::Done(true) {
                break;
            }
        }
        Ok(())
    }

    /// One step of a beginning departure: each is a transaction.
    async fn begin_or_copy(
        &self,
        token: Token,
        cause: DepartureCause,
        has_archive: bool,
    ) -> Result<Step<Option<Departure>>> {
        let sql = "SELECT b.refusal, (b.departure).* FROM consign.begin_departure($1, $2, $3) b";
        let statement = sqlx::query(sql)
            .bind(token.0)
            .bind(cause == DepartureCause::Size)
            .bind(has_archive);
        let rows = self
            .fetch_as(Use::Report, "begin a departure", statement)
            .await?;
        step(rows::only(&rows)?, departure)
    }

    /// Messages that leave with everything recorded about them, by id.
    async fn records(&self, ids: &[i64]) -> Result<Vec<Record>> {
        let mut records = BTreeMap::new();
        for row in self
            .rows_of(include_str!("../sql/record_messages.sql"), ids)
            .await?
        {
            let message = rows::message(&row, rows::queue_name(&row, "queue")?)?;
            let record = Record {
                state: StateKind::Delivered,
                dead: None,
                attempts: Vec::new(),
                late: Vec::new(),
                audit: Vec::new(),
                erased: None,
                message,
            };
            records.insert(record.message.id, record);
        }
        for row in self
            .rows_of(include_str!("../sql/record_dead.sql"), ids)
            .await?
        {
            let letter = dead_letter(&row)?;
            let record = of(&mut records, letter.message_id)?;
            record.state = StateKind::Dead;
            record.dead = Some(letter);
        }
        for row in self
            .rows_of(include_str!("../sql/record_discarded.sql"), ids)
            .await?
        {
            let id = MessageId(rows::column(&row, "message_id")?);
            of(&mut records, id)?.state = StateKind::Discarded;
        }
        for row in self
            .rows_of(include_str!("../sql/record_attempts.sql"), ids)
            .await?
        {
            let attempt = attempt(&row)?;
            of(&mut records, attempt.message_id)?.attempts.push(attempt);
        }
        for row in self
            .rows_of(include_str!("../sql/record_late.sql"), ids)
            .await?
        {
            let late = late(&row)?;
            of(&mut records, late.message_id)?.late.push(late);
        }
        for row in self
            .rows_of(include_str!("../sql/record_audit.sql"), ids)
            .await?
        {
            let entry = audit_entry(&row)?;
            if let Some(id) = entry.message_id {
                of(&mut records, id)?.audit.push(entry);
            }
        }
        for row in self
            .rows_of(include_str!("../sql/record_erasures.sql"), ids)
            .await?
        {
            let id = MessageId(rows::column(&row, "message_id")?);
            of(&mut records, id)?.erased = erasure(&row)?;
        }
        Ok(records.into_values().collect())
    }

    async fn rows_of(&self, sql: &'static str, ids: &[i64]) -> Result<Vec<PgRow>> {
        let statement = sqlx::query(sql).bind(ids);
        self.read_as(Use::Report, "read a departure", statement)
            .await
    }
}

fn of(records: &mut BTreeMap<MessageId, Record>, id: MessageId) -> Result<&mut Record> {
    records.get_mut(&id).ok_or_else(|| {
        rows::corrupt(format!(
            "the read of a departure returned message {id}, \
            which is not part of it"
        ))
    })
}

/// The answer of a step: a refusal by its name, or what was done.
pub(crate) fn step<T>(row: &PgRow, done: impl FnOnce(&PgRow) -> Result<T>) -> Result<Step<T>> {
    if rows::column::<Option<String>>(row, "refusal")?.is_some() {
        return Ok(Step::Refused(rows::word::<Refusal>(row, "refusal")?));
    }
    done(row).map(Step::Done)
}

fn departure(row: &PgRow) -> Result<Option<Departure>> {
    if rows::column::<Option<i64>>(row, "id")?.is_none() {
        return Ok(None);
    }
    let until: i64 = rows::column(row, "until")?;
    Ok(Some(Departure {
        id: DepartureId(rows::column(row, "id")?),
        // The first range begins below every id.
        first: MessageId(rows::column::<i64>(row, "first")?.max(1)),
        last: MessageId(until - 1),
        at: rows::time(row, "at")?,
        messages: rows::count(row, "messages")?,
        stay: rows::count(row, "stay")?,
        must_archive: rows::column(row, "must_archive")?,
        state: rows::word::<DepartureState>(row, "state")?,
    }))
}

fn queue_history(row: &PgRow) -> Result<QueueHistory> {
    Ok(QueueHistory {
        queue: rows::queue_name(row, "queue")?,
        messages: rows::count(row, "messages")?,
        oldest_id: rows::column::<Option<i64>>(row, "oldest_id")?.map(MessageId),
        oldest_at: rows::optional_time(row, "oldest_at")?,
        may_leave: rows::count(row, "may_leave")?,
        enqueued: rows::count(row, "enqueued")?,
        delivered: rows::count(row, "delivered")?,
        dead: rows::count(row, "dead")?,
        discarded: rows::count(row, "discarded")?,
        departed: rows::count(row, "departed")?,
        erased: rows::count(row, "erased")?,
        former_keys: rows::count(row, "former_keys")?,
    })
}
