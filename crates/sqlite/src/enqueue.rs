//! Enqueueing: all messages or none.

use std::collections::{BTreeSet, HashMap};

use async_trait::async_trait;
use consign_failpoint::kill_at;
use consign_kernel::{
    MessageId, NewMessage, Payload, Produce, QueueName, QueuePolicy, Receipt, StateKind,
    plan::{Duplicate, KeyHolder, batches, duplicates, ids, key_conflict, validate_expiries},
};
use sqlx::Row;

use crate::{
    SqliteStore,
    error::{Failure, Result},
    groups::{GroupMessage, NewBatch},
    job::{Work, arguments},
    queues::{policies_of, unknown_queue},
    rows::{self, Entry},
    sql,
    store::write_unopened,
};

/// Messages written by one statement: large enough that the statement's own cost vanishes.
const CHUNK_MESSAGES: usize = 1_000;
/// And its size in bytes: a call with large payloads shall not be copied as a whole.
const CHUNK_BYTES: usize = 4 * 1024 * 1024;

/// The plan of an enqueue, before the first write.
#[derive(Debug)]
pub struct Plan {
    policies: HashMap<QueueName, QueuePolicy>,
    duplicates: Vec<Duplicate>,
    /// One per message, in order.
    pub ids: Vec<MessageId>,
}

#[async_trait]
impl Produce for SqliteStore {
    async fn enqueue(&self, messages: &[NewMessage]) -> consign_kernel::Result<Vec<Receipt>> {
        let enqueued =
            write_unopened!(self, "enqueue", (messages), |work| work.enqueue(&messages))?;
        kill_at("enqueue_committed");
        Ok(enqueued)
    }
}

impl Work<'_> {
    /// Enqueues all messages or none, as producers do.
    pub async fn enqueue(&mut self, messages: &[NewMessage]) -> Result<Vec<Receipt>> {
        // Before any key is looked up: producers must not learn which keys of an app are taken.
        for hook in self.components.hooks() {
            let is_own = |message: &&NewMessage| message.queue.as_str() == hook.queue();
            let own: Vec<&NewMessage> = messages.iter().filter(is_own).collect();
            if !own.is_empty() {
                hook.check(&own)?;
            }
        }
        let plan = self.plan(messages, true).await?;
        self.write_planned(messages, plan).await
    }

    /// The same, but a key that is taken is rejected even if its message is equal.
    pub async fn enqueue_new(&mut self, messages: &[NewMessage]) -> Result<Vec<Receipt>> {
        let plan = self.plan(messages, false).await?;
        self.write_planned(messages, plan).await
    }

    /// The newest id ever given to a message; the next one is one more.
    pub async fn last_message_id(&mut self) -> Result<MessageId> {
        let last: Option<i64> = sqlx::query_scalar(sql!("message_last_id"))
            .fetch_optional(&mut *self.connection)
            .await?;
        Ok(MessageId(last.unwrap_or(0)))
    }

    /// Begins the transaction, rejects what cannot be kept, and assigns ids to the others.
    pub async fn plan(&mut self, messages: &[NewMessage], may_repeat: bool) -> Result<Plan> {
        let names: BTreeSet<&QueueName> = messages.iter().map(|message| &message.queue).collect();
        let first = [
            sql!("begin", "queues_named", "message_last_id"),
            sql!("queues_named", "message_last_id"),
        ];
        let answers = self
            .open_with(first, arguments!(rows::json(&names))?)
            .await?;
        let [queues, last, ..] = &answers[..] else {
            return Err(Failure::corrupt("two statements gave fewer answers"));
        };
        let policies = policies_of(queues, self.components)?;
        let last: i64 = last.first().map_or(Ok(0), |row| row.try_get(0))?;
        for (index, message) in messages.iter().enumerate() {
            let Some(policy) = policies.get(&message.queue) else {
                return Err(unknown_queue(self.connection, &message.queue).await);
            };
            message.validate(index, policy)?;
            message.due.validate_at(index, self.now)?;
        }
        let stored = self.stored_keys(messages).await?;
        let duplicates = duplicates(messages, |queue, key| {
            Some(stored.get(&(queue, key))?.holder())
        })?;
        for (message, duplicate) in messages.iter().zip(&duplicates) {
            if let Duplicate::Stored(id) | Duplicate::Former { id, .. } = duplicate
                && !may_repeat
            {
                return Err(key_conflict(message, Some(*id)).into());
            }
        }
        validate_expiries(messages, &duplicates, self.now)?;
        let ids = ids(last, &duplicates);
        Ok(Plan {
            policies,
            duplicates,
            ids,
        })
    }

    /// Writes messages as planned, in the same transaction.
    pub async fn write_planned(
        &mut self,
        messages: &[NewMessage],
        plan: Plan,
    ) -> Result<Vec<Receipt>> {
        let Plan {
            policies,
            duplicates,
            ids,
        } = plan;
        self.write_messages(messages, &duplicates, &ids).await?;
        let waiting = self.place(messages, &duplicates, &ids, &policies).await?;
        for queue in policies.keys() {
            if let Some(hook) = self.components.hook_of(queue) {
                let rows = messages.iter().zip(&duplicates).zip(&ids);
                let new = rows.filter(|((message, duplicate), _)| {
                    message.queue == *queue && matches!(duplicate, Duplicate::None)
                });
                let new: Vec<MessageId> = new.map(|(_, id)| *id).collect();
                if !new.is_empty() {
                    hook.enqueued(self, &new).await?;
                }
            }
        }
        self.answer(&duplicates, &ids, &waiting).await
    }

    async fn stored_keys<'m>(
        &mut self,
        messages: &'m [NewMessage],
    ) -> Result<HashMap<(&'m QueueName, &'m str), StoredKey>> {
        let keyed = |message: &'m NewMessage| {
            let key = message.key.as_deref()?;
            Some((&message.queue, key))
        };
        let keys: Vec<(&QueueName, &str)> = messages.iter().filter_map(keyed).collect();
        if keys.is_empty() {
            return Ok(HashMap::new());
        }
        let found: Vec<KeyColumns> = sqlx::query_as(sql!("message_keys"))
            .bind(rows::json(&keys))
            .fetch_all(&mut *self.connection)
            .await?;
        let stored = |columns: KeyColumns| {
            let key = keys[columns.0 as usize];
            Ok((key, StoredKey::new(columns)?))
        };
        found.into_iter().map(stored).collect()
    }

    async fn write_messages(
        &mut self,
        messages: &[NewMessage],
        duplicates: &[Duplicate],
        ids: &[MessageId],
    ) -> Result<()> {
        let mut rows = String::from("[");
        let mut count = 0;
        for ((message, duplicate), id) in messages.iter().zip(duplicates).zip(ids) {
            if !matches!(duplicate, Duplicate::None) {
                continue;
            }
            let (headers, payload) = (rows::json(&message.headers), message.payload.as_str());
            let NewMessage {
                queue, key, group, ..
            } = message;
            if count > 0 {
                rows.push(',');
            }
            let expires_at = message.expiry().map(rows::micros);
            let row = (id, queue, key, group, headers, payload, expires_at);
            rows.push_str(&rows::json(&row));
            count += 1;
            if count == CHUNK_MESSAGES || rows.len() > CHUNK_BYTES {
                self.write_rows(std::mem::replace(&mut rows, String::from("[")))
                    .await?;
                count = 0;
            }
        }
        if count > 0 {
            self.write_rows(rows).await?;
        }
        Ok(())
    }

    async fn write_rows(&mut self, mut rows: String) -> Result<()> {
        rows.push(']');
        sqlx::query(sql!("message_append"))
            .bind(rows)
            .bind(rows::micros(self.now))
            .execute(&mut *self.connection)
            .await?;
        Ok(())
    }

    /// Puts new messages into batches, one per queue and due time, or lets them wait.
    /// Returns which of the messages wait.
    async fn place(
        &mut self,
        messages: &[NewMessage],
        duplicates: &[Duplicate],
        ids: &[MessageId],
        policies: &HashMap<QueueName, QueuePolicy>,
    ) -> Result<BTreeSet<MessageId>> {
        let fresh: Vec<(&NewMessage, Entry)> = (messages.iter().zip(duplicates).zip(ids))
            .filter(|((_, duplicate), _)| matches!(duplicate, Duplicate::None))
            .map(|((message, _), id)| (message, Entry::new(*id)))
            .collect();
        let mut wants: Vec<GroupMessage<'_>> = Vec::new();
        for (message, entry) in &fresh {
            if let Some(group) = message.group.as_deref()
                && policies[&message.queue].ordered
            {
                wants.push(GroupMessage {
                    queue: &message.queue,
                    group,
                    entry: *entry,
                    due_at: message.due.time(self.now),
                });
            }
        }
        let heads = self.become_heads(&wants).await?;
        let refused = wants.iter().zip(heads).filter(|(_, is_head)| !is_head);
        let waiting: BTreeSet<MessageId> = refused.map(|(want, _)| want.entry.id).collect();

        let ready = fresh
            .into_iter()
            .filter(|(_, entry)| !waiting.contains(&entry.id));
        let batches = batches(self.now, ready);
        for ((queue, _), _) in &batches {
            self.wake(queue, &policies[*queue]);
        }
        let batches: Vec<NewBatch<'_>> = batches
            .iter()
            .map(|((queue, due_at), entries)| NewBatch {
                queue,
                due_at: *due_at,
                entries,
                isolated: false,
            })
            .collect();
        self.make_ready(&batches).await?;
        Ok(waiting)
    }

    async fn answer(
        &mut self,
        duplicates: &[Duplicate],
        ids: &[MessageId],
        waiting: &BTreeSet<MessageId>,
    ) -> Result<Vec<Receipt>> {
        let old = |duplicate: &Duplicate| match duplicate {
            Duplicate::Stored(id) => Some(*id),
            _ => None,
        };
        let old: BTreeSet<MessageId> = duplicates.iter().filter_map(old).collect();
        let states = self.states(&old).await?;
        let state = |id: &MessageId| match states.get(id) {
            Some(found) => found.state,
            None if waiting.contains(id) => StateKind::Waiting,
            None => StateKind::Ready,
        };
        let answer = |(id, duplicate): (&MessageId, &Duplicate)| Receipt {
            id: *id,
            duplicate: !matches!(duplicate, Duplicate::None),
            state: match duplicate {
                Duplicate::Former { state, .. } => *state,
                _ => state(id),
            },
        };
        Ok(ids.iter().zip(duplicates).map(answer).collect())
    }
}

/// Position in the call, message, group, payload; digest and death of one that has left.
type KeyColumns = (
    i64,
    i64,
    Option<String>,
    Option<String>,
    Option<Vec<u8>>,
    Option<bool>,
    Option<bool>,
);

/// The message that has a key.
struct StoredKey {
    id: MessageId,
    group: Option<String>,
    identity: KeyIdentity,
}

/// What a repeated key is compared by.
enum KeyIdentity {
    Payload(Payload),
    Former { digest: [u8; 32], state: StateKind },
}

impl StoredKey {
    fn new((_, id, group, payload, digest, died, discarded): KeyColumns) -> Result<Self> {
        let id = MessageId(id);
        let identity = match (payload, digest) {
            (Some(payload), _) => KeyIdentity::Payload(rows::payload(&payload)?),
            (None, digest) => KeyIdentity::Former {
                digest: digest.unwrap_or_default().try_into().map_err(|_| {
                    Failure::corrupt(format!("the key of message {id} has no digest"))
                })?,
                state: match (died, discarded) {
                    (_, Some(true)) => StateKind::Discarded,
                    (Some(true), _) => StateKind::Dead,
                    _ => StateKind::Delivered,
                },
            },
        };
        Ok(Self {
            id,
            group,
            identity,
        })
    }

    fn holder(&self) -> KeyHolder<'_> {
        let Self {
            id,
            group,
            identity,
        } = self;
        let id = *id;
        match identity {
            KeyIdentity::Payload(payload) => KeyHolder::Stored { id, payload, group },
            KeyIdentity::Former { digest, state } => KeyHolder::Former {
                id,
                digest,
                group,
                state: *state,
            },
        }
    }
}
