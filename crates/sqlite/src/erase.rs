//! Erasure: content goes, history stays.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use async_trait::async_trait;
use consign_failpoint::kill_at;
use consign_kernel::{
    By, Erase, Erasure, ErasureAnswer, ErasureResult, ErasureTarget, MessageId, PAGE_ENTRIES_MAX,
    Payload, Refusal, Step, Token, plan::ErasureCandidate,
};
use jiff::Timestamp;
use sqlx::SqliteConnection;

use crate::{
    SqliteStore,
    component::Hook,
    error::Result,
    job::{Work, arguments},
    read::MessageState,
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
    is_needed: bool,
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
        let found = self.find_erasable(&ids, &states).await?;
        let answer = |id: &MessageId| match (states.get(id), found.get(id)) {
            (Some(state), Some(message)) => {
                let erasable = ErasureCandidate {
                    state: state.state,
                    is_erased: message.is_erased,
                    is_head: message.is_head,
                    is_of_app: message.is_of_app,
                    is_needed: message.is_needed,
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
        self.run(sql!("erase_open")).await?;
        self.erase_in_apps(&erased, &states).await?;
        self.remove_content(&erased).await?;
        Ok(results)
    }

    /// Runs the hooks, which remove what apps have of the content.
    async fn erase_in_apps(
        &mut self,
        erased: &[MessageId],
        states: &HashMap<MessageId, MessageState>,
    ) -> Result<()> {
        for hook in self.components.hooks() {
            let is_its = |id: &&MessageId| states[*id].queue.as_str() == hook.queue();
            let ids: Vec<MessageId> = erased.iter().filter(is_its).copied().collect();
            if !ids.is_empty() {
                hook.erased(self, &ids).await?;
            }
        }
        Ok(())
    }

    async fn remove_content(&mut self, ids: &[MessageId]) -> Result<()> {
        let statements = sql!(
            "erasure_due_append",
            "erase_message",
            "erase_attempt",
            "erase_late",
            "erase_dead",
            "erase_close"
        );
        let kept = self.components.kept_members();
        self.rows_of(statements, arguments!(rows::id_array(ids), kept)?)
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
        states: &HashMap<MessageId, MessageState>,
    ) -> Result<BTreeMap<MessageId, FoundMessage>> {
        let found: Vec<(i64, bool, bool, bool, String)> = sqlx::query_as(sql!("erase_find"))
            .bind(rows::id_array(ids))
            .fetch_all(&mut *self.connection)
            .await?;
        let mut messages = BTreeMap::new();
        for (id, is_erased, is_head, is_of_app, payload) in found {
            let id = MessageId(id);
            let hook = states.get(&id);
            let hook = hook.and_then(|state| self.components.hook_of(&state.queue));
            let can_erase = hook.is_some_and(Hook::can_erase);
            let is_needed = match hook {
                // At the end of time: what is needed for a time only can be erased before.
                Some(hook) if can_erase && !is_erased => !hook
                    .needed(self.connection, (id, id), Timestamp::MAX)
                    .await?
                    .is_empty(),
                _ => false,
            };
            let message = FoundMessage {
                is_erased,
                is_head,
                is_of_app: (is_of_app || hook.is_some()) && !can_erase,
                is_needed,
                payload: rows::payload(&payload)?,
            };
            messages.insert(id, message);
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
