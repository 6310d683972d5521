//! Retention: finished messages leave, a window of ids at a time.
//!
//! What may leave is looked for on the connections that read. The write lock is held for short steps
//! only: recording a departure, checking it, removing messages of it, returning pages. Each ends when it
//! has held the lock for a while; how much it does until then depends on the machine.

mod depart;
mod growth;
mod search;
mod window;

pub(crate) use growth::Gone;

use std::{collections::BTreeMap, time::Duration};

use async_trait::async_trait;
use consign_failpoint::kill_at;
use consign_kernel::{
    DatabaseSize, Departure, DepartureCause, DepartureId, Growth, Message, MessageId,
    PAGE_ENTRIES_MAX, Progress, QueueHistory, QueueName, Record, Refusal, Retain, StateKind, Step,
    Token,
    plan::{Cutoffs, Finished, key_cutoff},
    validate_archive, validate_maintenance, validate_pass_end,
};
use jiff::Timestamp;
use sqlx::SqliteConnection;
use uuid::Uuid;

use self::window::DepartureRow;
use crate::{
    SqliteStore,
    component::Components,
    erase,
    error::Result,
    job::Work,
    late, read,
    read::{LetterColumns, letter},
    rows::{self, later},
    sql,
    store::{snapshot, write},
};

/// Bytes of payloads and headers in one page of records, unless the first message has more.
const PAGE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Keys that one call forgets: the write lock is held meanwhile.
const KEYS_MAX: u32 = 5_000;
/// Transactions that return pages, in one call.
const VACUUM_STEPS_MAX: usize = 64;
/// How often each of them runs `vacuum_step.sql`.
const VACUUM_RUNS_MAX: usize = 8;
/// One of so many pages stays free: new messages use it, and moving pages for them would be in vain.
const FREE_PAGES_PART: i64 = 20;

#[async_trait]
impl Retain for SqliteStore {
    async fn lease_maintenance(
        &self,
        owner: &str,
        token: Option<Token>,
        ttl: Duration,
    ) -> consign_kernel::Result<Option<Token>> {
        let fresh = Token(Uuid::new_v4());
        write!(self, "lease the maintenance", (owner), |work| work
            .lease_maintenance(&owner, token, fresh, ttl))
    }

    async fn prepare_ranges(
        &self,
        token: Token,
        _messages: u64,
        _age: Duration,
    ) -> consign_kernel::Result<Step<u32>> {
        let now = self.now();
        let owner = snapshot!(self, "prepare ranges", |tx| owner(&mut tx, now, token))?;
        if owner.is_none() {
            return Ok(Step::Refused(Refusal::LeaseLost));
        }
        self.vacuum().await?;
        Ok(Step::Done(1))
    }

    async fn begin_departure(
        &self,
        token: Token,
        cause: DepartureCause,
        has_archive: bool,
    ) -> consign_kernel::Result<Step<Option<Departure>>> {
        self.search(token, cause, has_archive).await
    }

    async fn departing(
        &self,
        id: DepartureId,
        after: Option<MessageId>,
        limit: u32,
    ) -> consign_kernel::Result<Vec<Record>> {
        let components = &self.inner.components;
        snapshot!(self, "read what leaves", |tx| departing(
            &mut tx, components, id, after, limit
        ))
    }

    async fn record_archive(
        &self,
        token: Token,
        id: DepartureId,
        archive: &str,
    ) -> consign_kernel::Result<Step<()>> {
        validate_archive(archive)?;
        write!(self, "record an archive", (archive), |work| work
            .record_archive(token, id, &archive))
    }

    async fn depart(
        &self,
        token: Token,
        id: DepartureId,
    ) -> consign_kernel::Result<Step<Progress>> {
        let hold_max = self.inner.hold_max;
        let step = write!(self, "depart", (), |work| work.depart(token, id, hold_max))?;
        kill_at("depart_committed");
        if let Step::Done(Progress { is_over: true, .. }) = step {
            self.vacuum().await?;
        }
        Ok(step)
    }

    async fn forget_keys(&self, token: Token, limit: u32) -> consign_kernel::Result<Step<u64>> {
        write!(self, "forget keys", (), |work| work
            .forget_keys(token, limit))
    }

    async fn queue_history(&self) -> consign_kernel::Result<Vec<QueueHistory>> {
        let (now, components) = (self.now(), &self.inner.components);
        snapshot!(self, "read the history of the queues", |tx| {
            growth::queue_history(&mut tx, components, now)
        })
    }

    async fn database_size(&self) -> consign_kernel::Result<DatabaseSize> {
        snapshot!(self, "read the size of the database", |tx| growth::size(
            &mut tx
        ))
    }

    async fn record_pass(&self, token: Token, end: &str) -> consign_kernel::Result<Step<()>> {
        validate_pass_end(end)?;
        let now = self.now();
        // Counted on a connection that reads: others write meanwhile.
        let sample = snapshot!(self, "sample the history", |tx| growth::sample(
            &mut tx, now
        ))?;
        write!(self, "record a pass", (end, sample), |work| work
            .record_pass(token, &end, &sample))
    }

    async fn growth(&self) -> consign_kernel::Result<Growth> {
        snapshot!(self, "read how the history grows", |tx| growth::growth(
            &mut tx
        ))
    }
}

impl SqliteStore {
    /// Gives free pages back to the file system, step by step: others write in between.
    async fn vacuum(&self) -> consign_kernel::Result<()> {
        let hold_max = self.inner.hold_max;
        let mut free_before = i64::MAX;
        for _ in 0..VACUUM_STEPS_MAX {
            let (free, pages) = snapshot!(self, "count the free pages", |tx| free_pages(&mut tx))?;
            // In a file that was created without auto_vacuum nothing becomes less.
            if free <= pages / FREE_PAGES_PART || free >= free_before {
                break;
            }
            free_before = free;
            write!(self, "vacuum", (), |work| work.vacuum(hold_max))?;
        }
        Ok(())
    }
}

impl Work<'_> {
    async fn lease_maintenance(
        &mut self,
        owner: &str,
        token: Option<Token>,
        fresh: Token,
        ttl: Duration,
    ) -> Result<Option<Token>> {
        validate_maintenance(owner, ttl)?;
        let leased: Option<Uuid> = sqlx::query_scalar(sql!("maintenance_lease"))
            .bind(owner)
            .bind(token.map(|token| token.0))
            .bind(fresh.0)
            .bind(rows::micros(self.now))
            .bind(rows::micros(later(self.now, ttl)))
            .fetch_optional(&mut *self.connection)
            .await?;
        Ok(leased.map(Token))
    }

    /// Gives free pages back to the file system for a short time.
    async fn vacuum(&mut self, hold_max: Duration) -> Result<()> {
        for _ in 0..VACUUM_RUNS_MAX {
            self.run(sql!("vacuum_step")).await?;
            if self.held_for() >= hold_max {
                break;
            }
        }
        Ok(())
    }

    async fn record_archive(
        &mut self,
        token: Token,
        id: DepartureId,
        archive: &str,
    ) -> Result<Step<()>> {
        if owner(self.connection, self.now, token).await?.is_none() {
            return Ok(Step::Refused(Refusal::LeaseLost));
        }
        if window::departure(self.connection, id).await?.is_none() {
            return Ok(Step::Refused(Refusal::Changed));
        }
        sqlx::query(sql!("departure_archive"))
            .bind(id.0)
            .bind(archive)
            .execute(&mut *self.connection)
            .await?;
        Ok(Step::Done(()))
    }

    async fn forget_keys(&mut self, token: Token, limit: u32) -> Result<Step<u64>> {
        if owner(self.connection, self.now, token).await?.is_none() {
            return Ok(Step::Refused(Refusal::LeaseLost));
        }
        let policies: Vec<(String, String)> = sqlx::query_as(sql!("queues_at_work"))
            .bind(self.components.names())
            .fetch_all(&mut *self.connection)
            .await?;
        let mut cutoffs = Vec::new();
        for (queue, policy) in &policies {
            if let Some(cutoff) = key_cutoff(&rows::policy(queue, policy)?, self.now) {
                cutoffs.push((queue, rows::micros(cutoff)));
            }
        }
        if cutoffs.is_empty() {
            return Ok(Step::Done(0));
        }
        let forgotten: Vec<(String, i64)> = sqlx::query_as(sql!("former_key_forget"))
            .bind(rows::json(&cutoffs))
            .bind(limit.min(KEYS_MAX))
            .fetch_all(&mut *self.connection)
            .await?;
        let components = self.components;
        for hook in components.hooks() {
            let ids = forgotten.iter().filter(|(queue, _)| queue == hook.queue());
            let ids: Vec<MessageId> = ids.map(|(_, id)| MessageId(*id)).collect();
            if !ids.is_empty() {
                hook.forgotten(self, &ids).await?;
            }
        }
        Ok(Step::Done(forgotten.len() as u64))
    }
}

/// The owner of the live lease of the maintenance with this token.
pub(crate) async fn owner(
    connection: &mut SqliteConnection,
    now: Timestamp,
    token: Token,
) -> Result<Option<String>> {
    let owner = sqlx::query_scalar(sql!("maintenance_owner"))
        .bind(token.0)
        .bind(rows::micros(now))
        .fetch_optional(connection)
        .await?;
    Ok(owner)
}

/// The times of each queue that lets messages leave.
async fn cutoffs(
    connection: &mut SqliteConnection,
    components: &Components,
    at: Timestamp,
    cause: DepartureCause,
) -> Result<BTreeMap<QueueName, Cutoffs>> {
    let policies: Vec<(String, String)> = sqlx::query_as(sql!("queues_at_work"))
        .bind(components.names())
        .fetch_all(connection)
        .await?;
    let mut cutoffs = BTreeMap::new();
    for (queue, policy) in policies {
        if let Some(of_queue) = Cutoffs::by(cause, &rows::policy(&queue, &policy)?, at) {
            cutoffs.insert(rows::queue_name(&queue)?, of_queue);
        }
    }
    Ok(cutoffs)
}

/// The messages of a departure that are still there, with everything recorded about them.
async fn departing(
    connection: &mut SqliteConnection,
    components: &Components,
    id: DepartureId,
    after: Option<MessageId>,
    limit: u32,
) -> Result<Vec<Record>> {
    let Some(row) = window::departure(connection, id).await? else {
        return Ok(Vec::new());
    };
    let DepartureRow { departure, .. } = &row;
    if row.is_over {
        return Ok(Vec::new());
    }
    let first = after.map_or(departure.first.0, |after| after.0.saturating_add(1));
    let last = departure.last.0;
    let leaving = window::leaving(connection, (first, last), row.terms(components)).await?;
    let (mut records, mut bytes) = (Vec::new(), 0);
    for (_, finished) in leaving.iter().take(limit.min(PAGE_ENTRIES_MAX) as usize) {
        let Some(message) = read::message(connection, finished.id).await? else {
            continue;
        };
        bytes += message.bytes();
        if bytes > PAGE_BYTES_MAX && !records.is_empty() {
            break;
        }
        records.push(record(connection, message, finished).await?);
    }
    Ok(records)
}

async fn record(
    connection: &mut SqliteConnection,
    message: Message,
    finished: &Finished,
) -> Result<Record> {
    let id = finished.id;
    let mut record = Record {
        message,
        state: finished.state,
        dead: None,
        attempts: read::history(connection, id).await?,
        late: Vec::new(),
        audit: Vec::new(),
        erased: None,
    };
    if finished.state == StateKind::Dead {
        let dead: Option<LetterColumns> = sqlx::query_as(sql!("dead_letter"))
            .bind(id.0)
            .fetch_optional(&mut *connection)
            .await?;
        record.dead = dead.map(letter).transpose()?;
    }
    // Most messages have attempts only.
    if finished.records > record.attempts.len() as u64 {
        record.late = late::late(connection, id).await?;
        record.audit = read::audit(connection, Some(id), None, u32::MAX).await?;
        record.audit.reverse();
        record.erased = erase::erasure(connection, id).await?;
    }
    Ok(record)
}

/// Free pages of the file, and all of its pages.
async fn free_pages(connection: &mut SqliteConnection) -> Result<(i64, i64)> {
    let counts = sqlx::query_as(sql!("vacuum_free"))
        .fetch_one(connection)
        .await?;
    Ok(counts)
}
