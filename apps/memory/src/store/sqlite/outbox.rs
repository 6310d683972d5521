//! The outbox: deferred memories as messages of the queue `memory`.

use std::collections::BTreeSet;

use crate::{
    AuditEnd, DeferResult, EnqueuedMemory, MemoryOptions, NewMemory, OutboxRow, OutboxStatus,
    QUEUE, Twin, is_key, nth_key, payload_sha, queue, queue_policy,
};
use consign_kernel::{By, Error, MessageId, NewMessage, Receipt, StateKind};
use sqlx::{Row, SqliteConnection, sqlite::SqliteRow};

use super::{audit::check_end, rows as logbook};
use crate::store::sqlite::{LogbookWork, sql};
use consign_sqlite::extension::{Failure, Result, queue as read_queue, rows};

/// A key contains the space and the hash.
const SPACE_BYTES_MAX: usize = 440;

/// Rejects messages that are not memories, or not under their own key.
pub(in crate::store::sqlite) fn check_memory(message: &NewMessage) -> consign_kernel::Result<()> {
    let refuse = |why: &str| Err(Error::invalid(format!("queue {QUEUE}"), why));
    let fields = message.payload.members();
    let text = |name: &str| fields.as_ref()?.get(name)?.text();
    let (Some(space), Some(sha), Some(md)) = (
        text("target_space"),
        text("payload_sha"),
        text("payload_md"),
    ) else {
        return refuse("takes memories only: target_space, payload_sha and payload_md, as text");
    };
    if fields.is_none_or(|fields| fields.len() != 3) || message.group.is_some() {
        return refuse(
            "takes memories only: no fields beside target_space, payload_sha, payload_md",
        );
    }
    if space.is_empty() {
        return refuse("a memory's target_space must not be empty");
    }
    if sha != payload_sha(&md) {
        return refuse("a memory's payload_sha must be the SHA-256 of its payload_md");
    }
    let key = message.key.as_deref();
    if !key.is_some_and(|key| is_key(key, &space, &sha)) {
        return refuse("a memory's key must be its target_space, # and its payload_sha");
    }
    Ok(())
}

/// A row of a memory by its key. Of a row that has left or was erased, its audits have backend and id.
struct KeyedRow {
    /// The number in its key.
    n: u32,
    /// Whether its content is gone: it cannot be sent.
    is_gone: bool,
    backend: Option<String>,
    /// The id under which it was stored.
    memory_id: Option<String>,
}

impl LogbookWork<'_, '_> {
    pub(super) async fn defer(
        &mut self,
        memory: &NewMemory,
        correlation_id: &str,
        end: &AuditEnd,
    ) -> Result<DeferResult> {
        check_end(correlation_id, end)?;
        let enqueued = self.put_memory(memory, true).await?;
        let id = Some(enqueued.outbox_id);
        let is_audited = self.finalize_audit(correlation_id, end, id).await?;
        Ok(DeferResult {
            enqueued,
            is_audited,
        })
    }

    pub(super) async fn enqueue_memory(&mut self, memory: &NewMemory) -> Result<EnqueuedMemory> {
        self.put_memory(memory, false).await
    }

    /// Enqueues a memory, or returns its twin: the same text in the same space, for the same
    /// backend. `is_beyond_sent`: a sent row is not a twin.
    async fn put_memory(
        &mut self,
        memory: &NewMemory,
        is_beyond_sent: bool,
    ) -> Result<EnqueuedMemory> {
        let space = &memory.target_space;
        if space.is_empty() || space.len() > SPACE_BYTES_MAX || space.contains(char::is_control) {
            let why = format!("must be 1 to {SPACE_BYTES_MAX} bytes without control characters");
            return Err(Error::invalid("target_space", why).into());
        }
        self.make_queue().await?;
        let sha = memory.payload_sha();
        let rows = keyed_rows(self.connection, &nth_key(space, &sha, 1)).await?;
        for row in &rows {
            let enqueued = self.put_nth(memory, &sha, row.n).await?;
            if let Some(twin) = self.twin(memory, &enqueued, row, is_beyond_sent).await? {
                return Ok(EnqueuedMemory {
                    outbox_id: enqueued.id,
                    twin: Some(twin),
                });
            }
        }
        let n = rows.last().map_or(1, |row| row.n + 1);
        let enqueued = self.put_nth(memory, &sha, n).await?;
        Ok(EnqueuedMemory {
            outbox_id: enqueued.id,
            twin: None,
        })
    }

    /// Enqueues a memory under its nth key; the receipt of a key that is taken has the row's state.
    async fn put_nth(&mut self, memory: &NewMemory, sha: &str, n: u32) -> Result<Receipt> {
        let key = nth_key(&memory.target_space, sha, n);
        let enqueued = self.enqueue(&[memory.message().with_key(key)]).await?;
        match enqueued.into_iter().next() {
            Some(receipt) => Ok(receipt),
            None => Err(Failure::corrupt("enqueueing a memory returned no result")),
        }
    }

    /// The relation of a row to the memory under its key; `None`: it belongs to another backend, was
    /// sent, or is dead and has left or was erased, and the memory needs another row.
    async fn twin(
        &mut self,
        memory: &NewMemory,
        enqueued: &Receipt,
        row: &KeyedRow,
        is_beyond_sent: bool,
    ) -> Result<Option<Twin>> {
        let is_elsewhere =
            row.backend.is_some() && memory.backend.is_some() && row.backend != memory.backend;
        if is_elsewhere {
            return Ok(None);
        }
        Ok(match enqueued.state {
            StateKind::Delivered if is_beyond_sent => None,
            StateKind::Delivered => Some(Twin::Sent(row.memory_id.clone())),
            StateKind::Dead if row.is_gone => None,
            StateKind::Dead => {
                let by = By::new(requeuer(memory), "the same memory came again");
                self.requeue(&[enqueued.id], &by).await?;
                Some(Twin::Requeued)
            }
            _ => Some(Twin::Pending),
        })
    }

    /// The queue; created with the protocol's policy on first use.
    pub(super) async fn make_queue(&mut self) -> Result<()> {
        if read_queue(self.connection, &queue()).await?.is_none() {
            let by = By::new("consign", "the first memory");
            self.put_queue(&queue(), &queue_policy(&MemoryOptions::default()), &by)
                .await?;
        }
        Ok(())
    }
}

/// The operator name of a requeue caused by a repeated store.
fn requeuer(memory: &NewMemory) -> String {
    let actor = memory.actor_user_id.as_deref().unwrap_or_default();
    let actor: String = actor.trim().replace('\0', "").chars().take(50).collect();
    if actor.is_empty() {
        "gateway".to_owned()
    } else {
        actor
    }
}

/// The rows of a memory whose keys are kept, by number.
async fn keyed_rows(connection: &mut SqliteConnection, key: &str) -> Result<Vec<KeyedRow>> {
    let found = sqlx::query(sql!("memory_rows"))
        .bind(key)
        .fetch_all(connection)
        .await?;
    let row = |row: &SqliteRow| {
        Ok(KeyedRow {
            n: row.try_get("n")?,
            is_gone: row.try_get("is_gone")?,
            backend: row.try_get("backend")?,
            memory_id: row.try_get("memory_id")?,
        })
    };
    found.iter().map(row).collect()
}

/// Rows by their ids, in that order; missing ones are skipped.
pub(super) async fn rows_of(
    connection: &mut SqliteConnection,
    ids: &[MessageId],
) -> Result<Vec<OutboxRow>> {
    let distinct: BTreeSet<&MessageId> = ids.iter().collect();
    let found = sqlx::query(sql!("outbox_memory_get"))
        .bind(rows::id_array(distinct))
        .fetch_all(connection)
        .await?;
    let mut found = found.iter().map(row).collect::<Result<Vec<OutboxRow>>>()?;
    found.sort_by_key(|row| ids.iter().position(|id| *id == row.outbox_id));
    Ok(found)
}

pub(super) async fn list(
    connection: &mut SqliteConnection,
    status: Option<OutboxStatus>,
    limit: u32,
) -> Result<Vec<OutboxRow>> {
    let found = sqlx::query(sql!("outbox_memory_list"))
        .bind(status.map(OutboxStatus::as_str))
        .bind(limit.min(logbook::ROWS_MAX))
        .fetch_all(connection)
        .await?;
    found.iter().map(row).collect()
}

pub(super) fn row(row: &SqliteRow) -> Result<OutboxRow> {
    let word: &str = row.try_get("status")?;
    use OutboxStatus::{Dead, Pending, Sent};
    let status = [Pending, Sent, Dead]
        .into_iter()
        .find(|status| status.as_str() == word);
    Ok(OutboxRow {
        outbox_id: MessageId(row.try_get("outbox_id")?),
        item_id: row.try_get("item_id")?,
        target_space: row.try_get("target_space")?,
        payload_md: row.try_get("payload_md")?,
        payload_sha: row.try_get("payload_sha")?,
        status: status
            .ok_or_else(|| Failure::corrupt(format!("unknown outbox status {word:?}")))?,
        retry_count: row.try_get("retry_count")?,
        next_attempt_at: logbook::time_if_any(row, "next_attempt_at")?,
        locked_at: logbook::time_if_any(row, "locked_at")?,
        locked_by: row.try_get("locked_by")?,
        last_error: row.try_get("last_error")?,
        memory_id: row.try_get("memory_id")?,
        backend: row.try_get("backend")?,
        correlation_id: row.try_get("correlation_id")?,
        created_at: logbook::time(row, "created_at")?,
        updated_at: logbook::time(row, "updated_at")?,
        erased_at: logbook::time_if_any(row, "erased_at")?,
    })
}
