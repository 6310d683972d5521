//! Enqueueing: all messages or none.

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use consign_kernel::{
    Enqueued, Error, MessageId, NewMessage, Payload, QueueName, QueuePolicy, StateKind,
};
use sqlx::Row;

use crate::{
    error::{Failure, Result},
    groups::{NewRun, Want},
    job::{Work, arguments},
    queues::{policies_of, unknown_queue},
    rows::{self, Entry, later},
    sql,
};

/// Messages written by one statement: large enough that the statement's own cost vanishes.
const CHUNK_MESSAGES: usize = 1_000;
/// And its size in bytes: a batch of large payloads shall not be copied as a whole.
const CHUNK_BYTES: usize = 4 * 1024 * 1024;

/// Whether a message's key is taken, and by whom.
#[derive(Clone, Copy, Debug)]
enum Twin {
    None,
    Stored(MessageId),
    /// By an earlier message of the same call.
    InBatch(usize),
}

/// What is known of messages before the first is written.
#[derive(Debug)]
pub struct Plan {
    policies: HashMap<QueueName, QueuePolicy>,
    twins: Vec<Twin>,
    /// One per message, in order.
    pub ids: Vec<MessageId>,
}

impl Work<'_> {
    /// Enqueues all messages or none, as producers do.
    pub async fn enqueue(&mut self, messages: &[NewMessage]) -> Result<Vec<Enqueued>> {
        // Before any key is looked up: producers must not learn which keys of an app are taken.
        for message in messages {
            if let Some(hook) = self.components.hook_of(&message.queue) {
                hook.check_enqueue(message)?;
            }
        }
        let plan = self.plan(messages, true).await?;
        self.write_planned(messages, plan).await
    }

    /// The same, but a key that is taken is refused even if its message is alike.
    pub async fn enqueue_new(&mut self, messages: &[NewMessage]) -> Result<Vec<Enqueued>> {
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

    /// Begins the transaction, refuses what cannot be kept, and gives the others their ids.
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
        }
        let twins = self.find_twins(messages).await?;
        for (message, twin) in messages.iter().zip(&twins) {
            if let Twin::Stored(id) = twin
                && !may_repeat
            {
                return Err(conflict(message, Some(*id)));
            }
        }
        let ids = give_ids(last, &twins);
        Ok(Plan {
            policies,
            twins,
            ids,
        })
    }

    /// Writes messages as planned, in the same transaction.
    pub async fn write_planned(
        &mut self,
        messages: &[NewMessage],
        plan: Plan,
    ) -> Result<Vec<Enqueued>> {
        let Plan {
            policies,
            twins,
            ids,
        } = plan;
        self.write_messages(messages, &twins, &ids).await?;
        let waiting = self.place(messages, &twins, &ids, &policies).await?;
        self.answer(&twins, &ids, &waiting).await
    }

    /// Finds the messages whose key is taken; refuses those that then differ.
    async fn find_twins(&mut self, messages: &[NewMessage]) -> Result<Vec<Twin>> {
        let stored = self.stored_keys(messages).await?;
        let mut in_batch: HashMap<(&QueueName, &str), usize> = HashMap::new();
        let mut twins = Vec::with_capacity(messages.len());
        for (index, message) in messages.iter().enumerate() {
            let Some(key) = &message.key else {
                twins.push(Twin::None);
                continue;
            };
            let place = (&message.queue, key.as_str());
            if let Some((id, group, payload)) = stored.get(&place) {
                same_or_conflict(message, Some(*id), payload, group)?;
                twins.push(Twin::Stored(*id));
            } else if let Some(first) = in_batch.get(&place) {
                let twin = &messages[*first];
                same_or_conflict(message, None, &twin.payload, &twin.group)?;
                twins.push(Twin::InBatch(*first));
            } else {
                in_batch.insert(place, index);
                twins.push(Twin::None);
            }
        }
        Ok(twins)
    }

    async fn stored_keys<'m>(
        &mut self,
        messages: &'m [NewMessage],
    ) -> Result<HashMap<(&'m QueueName, &'m str), Stored>> {
        let keyed = |message: &'m NewMessage| {
            let key = message.key.as_deref()?;
            Some((&message.queue, key))
        };
        let keys: Vec<(&QueueName, &str)> = messages.iter().filter_map(keyed).collect();
        if keys.is_empty() {
            return Ok(HashMap::new());
        }
        let found: Vec<(i64, i64, Option<String>, String)> = sqlx::query_as(sql!("message_keys"))
            .bind(rows::json(&keys))
            .fetch_all(&mut *self.connection)
            .await?;
        let stored = |(index, id, group, payload): (i64, i64, _, String)| {
            let payload = rows::payload(&payload)?;
            Ok((keys[index as usize], (MessageId(id), group, payload)))
        };
        found.into_iter().map(stored).collect()
    }

    async fn write_messages(
        &mut self,
        messages: &[NewMessage],
        twins: &[Twin],
        ids: &[MessageId],
    ) -> Result<()> {
        let mut rows = String::from("[");
        let mut count = 0;
        for ((message, twin), id) in messages.iter().zip(twins).zip(ids) {
            if !matches!(twin, Twin::None) {
                continue;
            }
            let (headers, payload) = (rows::json(&message.headers), message.payload.as_str());
            let NewMessage {
                queue, key, group, ..
            } = message;
            if count > 0 {
                rows.push(',');
            }
            rows.push_str(&rows::json(&(id, queue, key, group, headers, payload)));
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

    /// Puts new messages into runs, one per queue and delay, or lets them wait for their turn.
    /// Answers which of the messages wait.
    async fn place(
        &mut self,
        messages: &[NewMessage],
        twins: &[Twin],
        ids: &[MessageId],
        policies: &HashMap<QueueName, QueuePolicy>,
    ) -> Result<BTreeSet<MessageId>> {
        let fresh: Vec<(&NewMessage, Entry)> = (messages.iter().zip(twins).zip(ids))
            .filter(|((_, twin), _)| matches!(twin, Twin::None))
            .map(|((message, _), id)| (message, fresh_entry(*id)))
            .collect();
        let mut wants: Vec<Want<'_>> = Vec::new();
        for (message, entry) in &fresh {
            if let Some(group) = message.group.as_deref()
                && policies[&message.queue].ordered
            {
                wants.push(Want {
                    queue: &message.queue,
                    group,
                    entry: *entry,
                    due_at: later(self.now, message.delay),
                });
            }
        }
        let turns = self.take_turns(&wants).await?;
        let refused = wants.iter().zip(turns).filter(|(_, has_turn)| !has_turn);
        let waiting: BTreeSet<MessageId> = refused.map(|(want, _)| want.entry.id).collect();

        let mut runs: Vec<((&QueueName, Duration), Vec<Entry>)> = Vec::new();
        let mut places: HashMap<(&QueueName, Duration), usize> = HashMap::new();
        for (message, entry) in fresh {
            if waiting.contains(&entry.id) {
                continue;
            }
            let to = (&message.queue, message.delay);
            let place = *places.entry(to).or_insert_with(|| {
                runs.push((to, Vec::new()));
                runs.len() - 1
            });
            runs[place].1.push(entry);
        }
        for ((queue, _), _) in &runs {
            self.wake(queue, &policies[*queue]);
        }
        let now = self.now;
        let runs: Vec<NewRun<'_>> = runs
            .iter()
            .map(|((queue, delay), entries)| NewRun {
                queue,
                due_at: later(now, *delay),
                entries,
                apart: false,
            })
            .collect();
        self.make_ready(&runs).await?;
        Ok(waiting)
    }

    async fn answer(
        &mut self,
        twins: &[Twin],
        ids: &[MessageId],
        waiting: &BTreeSet<MessageId>,
    ) -> Result<Vec<Enqueued>> {
        let old = |twin: &Twin| match twin {
            Twin::Stored(id) => Some(*id),
            _ => None,
        };
        let old: BTreeSet<MessageId> = twins.iter().filter_map(old).collect();
        let states = self.states(&old).await?;
        let state = |id: &MessageId| match states.get(id) {
            Some(found) => found.state,
            None if waiting.contains(id) => StateKind::Waiting,
            None => StateKind::Ready,
        };
        let answer = |(id, twin): (&MessageId, &Twin)| Enqueued {
            id: *id,
            duplicate: !matches!(twin, Twin::None),
            state: state(id),
        };
        Ok(ids.iter().zip(twins).map(answer).collect())
    }
}

/// The id of each message: the next one, or that of its twin.
fn give_ids(mut last: i64, twins: &[Twin]) -> Vec<MessageId> {
    let mut ids: Vec<MessageId> = Vec::with_capacity(twins.len());
    for twin in twins {
        ids.push(match twin {
            Twin::Stored(id) => *id,
            Twin::InBatch(first) => ids[*first],
            Twin::None => {
                last += 1;
                MessageId(last)
            }
        });
    }
    ids
}

/// A message that holds a key: its id, group and payload.
type Stored = (MessageId, Option<String>, Payload);

fn fresh_entry(id: MessageId) -> Entry {
    Entry {
        id,
        tries: 0,
        attempts: 0,
    }
}

fn same_or_conflict(
    message: &NewMessage,
    id: Option<MessageId>,
    payload: &Payload,
    group: &Option<String>,
) -> Result<(), Failure> {
    if message.payload == *payload && message.group == *group {
        return Ok(());
    }
    Err(conflict(message, id))
}

fn conflict(message: &NewMessage, id: Option<MessageId>) -> Failure {
    let key = message
        .key
        .clone()
        .expect("invariant: only keyed messages conflict");
    Failure::Refused(Error::KeyConflict {
        queue: message.queue.clone(),
        key,
        id,
    })
}
