//! Erasure: content goes, history stays.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use consign_failpoint::kill_at;
use consign_kernel::{
    By, Erase, Erasure, ErasureAnswer, ErasureResult, ErasureTarget, MessageId, PAGE_ENTRIES_MAX,
    Payload, Refusal, Step, Token, plan::ErasureCandidate,
};
use sqlx::SqliteConnection;

use crate::{
    SqliteStore,
    error::Result,
    job::{Work, arguments},
    retain::owner,
    rows, sql,
    store::{snapshot, write},
};

#[async_trait]
impl Erase for SqliteStore {
    async fn erase(
        &self,
        target: &ErasureTarget,
        by: &By,
    ) -> consign_kernel::Result<Vec<ErasureResult>> {
        let erased = write!(self, "erase messages", (target, by), |work| work
            .erase(&target, &by))?;
        kill_at("erase_committed");
        Ok(erased)
    }

    async fn due_erasures(&self, limit: u32) -> consign_kernel::Result<Vec<(MessageId, Erasure)>> {
        snapshot!(self, "read the erasures", |tx| due_erasures(&mut tx, limit))
    }

    async fn record_cleared(
        &self,
        token: Token,
        ids: &[MessageId],
    ) -> consign_kernel::Result<Step<()>> {
        write!(self, "record cleared erasures", (ids), |work| work
            .record_cleared(token, &ids))
    }
}

/// A message that may be erased.
struct FoundMessage {
    is_erased: bool,
    is_head: bool,
    is_of_app: bool,
    payload: Payload,
}

impl Work<'_> {
    pub(crate) async fn erase(
        &mut self,
        target: &ErasureTarget,
        by: &By,
    ) -> Result<Vec<ErasureResult>> {
        by.validate()?;
        target.validate()?;
        let ids = self.erasure_ids(target).await?;
        let states = self.states(&ids).await?;
        let found = self.find_erasable(&ids).await?;
        let answer = |id: &MessageId| match (states.get(id), found.get(id)) {
            (Some(state), Some(message)) => {
                let erasable = ErasureCandidate {
                    state: state.state,
                    is_erased: message.is_erased,
                    is_head: message.is_head,
                    is_of_app: message.is_of_app,
                };
                erasable.refusal().unwrap_or(ErasureAnswer::Erased)
            }
            _ if matches!(target, ErasureTarget::Key { .. }) => ErasureAnswer::Departed,
            _ => ErasureAnswer::NoSuchMessage,
        };
        let result = |id: &MessageId| ErasureResult {
            id: *id,
            answer: answer(id),
        };
        let results: Vec<ErasureResult> = ids.iter().map(result).collect();
        let is_new = |result: &&ErasureResult| result.answer == ErasureAnswer::Erased;
        let erased: Vec<MessageId> = results.iter().filter(is_new).map(|new| new.id).collect();
        if erased.is_empty() {
            return Ok(results);
        }
        let queue = |id: &MessageId| &states[id].queue;
        let actions: Vec<_> = erased
            .iter()
            .map(|id| (Some(queue(id)), Some(*id)))
            .collect();
        self.record_actions(by, "erase", &actions).await?;
        let row = |id: &MessageId| (*id, queue(id), found[id].payload.digest_hex());
        let rows: Vec<_> = erased.iter().map(row).collect();
        sqlx::query(sql!("erasure_append"))
            .bind(rows::json(&rows))
            .bind(rows::micros(self.now))
            .bind(&by.actor)
            .bind(&by.reason)
            .execute(&mut *self.connection)
            .await?;
        self.remove_content(&erased).await?;
        Ok(results)
    }

    async fn remove_content(&mut self, ids: &[MessageId]) -> Result<()> {
        let statements = sql!(
            "erase_open",
            "erasure_due_append",
            "erase_message",
            "erase_attempt",
            "erase_late",
            "erase_dead",
            "erase_close"
        );
        self.rows_of(statements, arguments!(rows::id_array(ids))?)
            .await?;
        Ok(())
    }

    async fn erasure_ids(&mut self, target: &ErasureTarget) -> Result<BTreeSet<MessageId>> {
        let found: Vec<i64> = match target {
            ErasureTarget::Ids(ids) => return Ok(ids.iter().copied().collect()),
            _ if target.is_impossible() => return Ok(BTreeSet::new()),
            ErasureTarget::Key { queue, key } => {
                let query = sqlx::query_scalar(sql!("erase_key"));
                let query = query.bind(queue.as_str()).bind(key);
                query.fetch_all(&mut *self.connection).await?
            }
            ErasureTarget::Correlation { id, after } => {
                let query = sqlx::query_scalar(sql!("erase_correlation")).bind(id);
                let query = query.bind(after.map_or(i64::MIN, |after| after.0));
                let query = query.bind(PAGE_ENTRIES_MAX);
                query.fetch_all(&mut *self.connection).await?
            }
        };
        Ok(found.into_iter().map(MessageId).collect())
    }

    async fn find_erasable(
        &mut self,
        ids: &BTreeSet<MessageId>,
    ) -> Result<BTreeMap<MessageId, FoundMessage>> {
        let found: Vec<(i64, bool, bool, bool, String)> = sqlx::query_as(sql!("erase_find"))
            .bind(rows::id_array(ids))
            .fetch_all(&mut *self.connection)
            .await?;
        let mut messages = BTreeMap::new();
        for (id, is_erased, is_head, is_of_app, payload) in found {
            let message = FoundMessage {
                is_erased,
                is_head,
                is_of_app,
                payload: rows::payload(&payload)?,
            };
            messages.insert(MessageId(id), message);
        }
        Ok(messages)
    }

    async fn record_cleared(&mut self, token: Token, ids: &[MessageId]) -> Result<Step<()>> {
        if owner(self.connection, self.now, token).await?.is_none() {
            return Ok(Step::Refused(Refusal::LeaseLost));
        }
        sqlx::query(sql!("erasure_due_end"))
            .bind(rows::id_array(ids))
            .execute(&mut *self.connection)
            .await?;
        Ok(Step::Done(()))
    }

    /// Which of these messages are erased.
    pub(crate) async fn erased_among(
        &mut self,
        ids: &BTreeSet<MessageId>,
    ) -> Result<BTreeSet<MessageId>> {
        let erased: Vec<i64> = sqlx::query_scalar(sql!("erasure_among"))
            .bind(rows::id_array(ids))
            .fetch_all(&mut *self.connection)
            .await?;
        Ok(erased.into_iter().map(MessageId).collect())
    }
}

/// The erasure of a message, if it was erased.
pub(crate) async fn erasure(
    connection: &mut SqliteConnection,
    id: MessageId,
) -> Result<Option<Erasure>> {
    let found: Option<Columns> = sqlx::query_as(sql!("erasure_get"))
        .bind(id.0)
        .fetch_optional(connection)
        .await?;
    found.map(from_columns).transpose()
}

type Columns = (i64, String, String, String);

fn from_columns((at, actor, reason, digest): Columns) -> Result<Erasure> {
    Ok(Erasure {
        at: rows::timestamp(at)?,
        actor,
        reason,
        digest,
    })
}

async fn due_erasures(
    connection: &mut SqliteConnection,
    limit: u32,
) -> Result<Vec<(MessageId, Erasure)>> {
    let found: Vec<(i64, i64, String, String, String)> = sqlx::query_as(sql!("erasure_due_list"))
        .bind(limit)
        .fetch_all(connection)
        .await?;
    let due = |(id, at, actor, reason, digest)| {
        Ok((MessageId(id), from_columns((at, actor, reason, digest))?))
    };
    found.into_iter().map(due).collect()
}
