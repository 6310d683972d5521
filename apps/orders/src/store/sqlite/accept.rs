//! Accepts orders: a row and a message each, or neither.

use std::{collections::HashMap, time::Duration};

use consign_kernel::{Error, MessageId, NewMessage, QueueName};
use consign_sqlite::extension::{
    Failure, Result, arguments,
    rows::{self, later},
};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::{
    LedgerWork,
    rows::{self as ledger, Key, Row},
    sql,
};
use crate::{AcceptResult, LedgerEntry, LedgerStatus, NewOrder, QUEUE, SentAmounts};

/// Replays within this time of the last one write nothing.
const SEEN_PRECISION: SignedDuration = SignedDuration::from_mins(1);

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Transport of an order.
#[derive(Clone, Copy)]
enum Transport {
    /// A message of the queue `orders`.
    Queue,
    /// Within the request, which is given up after this time.
    Direct { give_up_after: Duration },
}

/// The state of one key within a call.
struct KeyState {
    entry: LedgerEntry,
    /// Conflicts in this call.
    conflicts: u64,
    is_seen: bool,
}

impl LedgerWork<'_, '_> {
    pub(super) async fn accept(&mut self, orders: &[NewOrder]) -> Result<Vec<AcceptResult>> {
        orders.iter().try_for_each(validate)?;
        self.take_in(orders, Transport::Queue).await
    }

    pub(super) async fn open_direct(
        &mut self,
        order: &NewOrder,
        give_up_after: Duration,
    ) -> Result<AcceptResult> {
        validate(order)?;
        if !(Duration::from_millis(1)..=DAY).contains(&give_up_after) {
            return Err(Error::invalid("give_up_after", "must be 1 ms to a day").into());
        }
        let transport = Transport::Direct { give_up_after };
        let accepted = self.take_in(std::slice::from_ref(order), transport).await?;
        let first = accepted.into_iter().next();
        first.ok_or_else(|| Failure::corrupt("accept returned no result for an order"))
    }

    /// Everything is validated before the first write.
    async fn take_in(
        &mut self,
        orders: &[NewOrder],
        transport: Transport,
    ) -> Result<Vec<AcceptResult>> {
        let keys: Vec<Key<'_>> = orders.iter().map(key_of).collect();
        let first = [
            concat!("BEGIN IMMEDIATE;\n", sql!("ledger_keys")),
            sql!("ledger_keys"),
        ];
        let answers = self
            .open_with(first, arguments!(rows::json(&keys))?)
            .await?;
        let found = answers.first().map_or(&[][..], |rows| &rows[..]);
        let found = found.iter().map(Row::from_row);
        let mut found = found.collect::<Result<Vec<Row>>>()?;

        let taken = |row: &Row| (row.entry.client.clone(), row.entry.key.clone());
        let mut taken: HashMap<_, ()> = found.iter().map(|row| (taken(row), ())).collect();
        let is_new = |order: &&NewOrder| {
            let key = (order.client.clone(), order.key.clone());
            taken.insert(key, ()).is_none()
        };
        let fresh: Vec<&NewOrder> = orders.iter().filter(is_new).collect();
        let messages = match transport {
            Transport::Queue => fresh.iter().map(|order| message_of(order)).collect(),
            Transport::Direct { .. } => Vec::new(),
        };
        // The row before the message: the queue accepts only messages with a ledger row.
        let entries = if messages.is_empty() {
            let ids = vec![None; fresh.len()];
            self.append_to_ledger(&fresh, &ids, transport).await?
        } else {
            // A message under this key without a row is an orphan: rejected.
            let plan = self.plan(&messages, false).await?;
            let ids: Vec<Option<MessageId>> = plan.ids.iter().copied().map(Some).collect();
            let entries = self.append_to_ledger(&fresh, &ids, transport).await?;
            self.write_planned(&messages, plan).await?;
            entries
        };

        // A conflict does not change the row, even an expired one.
        let now = self.now;
        let is_asked = |row: &&Row| {
            let is_same = |order: &NewOrder| {
                key_of(order) == (row.entry.client.as_str(), row.entry.key.as_str())
                    && order.request_digest == row.entry.request_digest
            };
            row.is_given_up(now) && orders.iter().any(is_same)
        };
        let overdue = found.iter().filter(is_asked).map(|row| row.ledger_row);
        let overdue: Vec<i64> = overdue.collect();
        if self.give_up(&overdue).await? > 0 {
            found = ledger::some(&mut *self.connection, &keys).await?;
        }
        let known = found.into_iter().map(|row| row.entry);
        self.answer_orders(orders, known.collect(), entries).await
    }

    async fn append_to_ledger(
        &mut self,
        orders: &[&NewOrder],
        ids: &[Option<MessageId>],
        transport: Transport,
    ) -> Result<Vec<LedgerEntry>> {
        let now = self.now;
        let entry = |(order, id): (&&NewOrder, &Option<MessageId>)| entry_of(order, *id, now);
        let entries: Vec<LedgerEntry> = orders.iter().zip(ids).map(entry).collect();
        let row = |(order, entry): (&&NewOrder, &LedgerEntry)| {
            let (client, key) = key_of(order);
            let expires_at = rows::micros(entry.expires_at);
            let order_expires_at = entry.order_expires_at.map(rows::micros);
            let (give_up_at, facts) = match transport {
                Transport::Queue => (None, None),
                Transport::Direct { give_up_after } => {
                    let facts = order.payload.get("order").unwrap_or(&Value::Null);
                    let give_up_at = rows::micros(later(now, give_up_after));
                    (Some(give_up_at), Some(rows::json(facts)))
                }
            };
            rows::json(&(
                client,
                key,
                &order.request_digest,
                entry.outbox_id,
                expires_at,
                order_expires_at,
                give_up_at,
                facts,
            ))
        };
        if !entries.is_empty() {
            let rows: Vec<String> = orders.iter().zip(&entries).map(row).collect();
            sqlx::query(sql!("ledger_append"))
                .bind(format!("[{}]", rows.join(",")))
                .bind(rows::micros(now))
                .execute(&mut *self.connection)
                .await?;
        }
        Ok(entries)
    }

    /// One result per order, in order; counts conflicts and updates `last_seen_at`.
    async fn answer_orders(
        &mut self,
        orders: &[NewOrder],
        known: Vec<LedgerEntry>,
        fresh: Vec<LedgerEntry>,
    ) -> Result<Vec<AcceptResult>> {
        let place = |entry: LedgerEntry| {
            let key = (entry.client.clone(), entry.key.clone());
            let known = KeyState {
                entry,
                conflicts: 0,
                is_seen: false,
            };
            (key, known)
        };
        let mut new: HashMap<_, _> = fresh.into_iter().map(place).collect();
        let mut old: HashMap<_, _> = known.into_iter().map(place).collect();
        let mut answers = Vec::with_capacity(orders.len());
        for order in orders {
            let key = (order.client.clone(), order.key.clone());
            if let Some(first) = new.remove(&key) {
                answers.push(AcceptResult::New(first.entry.clone()));
                old.insert(key, first);
                continue;
            }
            let Some(known) = old.get_mut(&key) else {
                return Err(Failure::corrupt(
                    "an order is neither new nor in the ledger",
                ));
            };
            answers.push(known.meet(order, self.now));
        }
        let conflicts: Vec<_> = old
            .values()
            .filter(|known| known.conflicts > 0)
            .map(|known| (&known.entry.client, &known.entry.key, known.conflicts))
            .collect();
        let seen: Vec<_> = old
            .values()
            .filter(|known| known.is_seen)
            .map(|known| (&known.entry.client, &known.entry.key))
            .collect();
        let now = self.now;
        self.insert_at(sql!("conflict_add"), &conflicts, now)
            .await?;
        self.insert_at(sql!("ledger_seen"), &seen, now).await?;
        Ok(answers)
    }

    /// Runs a statement with rows as a JSON array and a time.
    async fn insert_at<T: serde::Serialize>(
        &mut self,
        statement: &'static str,
        rows: &[T],
        at: Timestamp,
    ) -> Result<()> {
        if !rows.is_empty() {
            sqlx::query(statement)
                .bind(rows::json(&rows))
                .bind(rows::micros(at))
                .execute(&mut *self.connection)
                .await?;
        }
        Ok(())
    }
}

impl KeyState {
    /// The result for an order whose key is in the ledger.
    fn meet(&mut self, order: &NewOrder, now: Timestamp) -> AcceptResult {
        if order.request_digest != self.entry.request_digest {
            self.conflicts += 1;
            self.entry.conflicts += 1;
            return AcceptResult::Conflict(self.entry.clone());
        }
        if now.duration_since(self.entry.last_seen_at) >= SEEN_PRECISION {
            self.entry.last_seen_at = now;
            self.is_seen = true;
        }
        AcceptResult::Same(self.entry.clone())
    }
}

/// Rejects orders that cannot be stored or compared.
fn validate(order: &NewOrder) -> consign_kernel::Result<()> {
    let digest = order.payload.get("request_digest").and_then(Value::as_str);
    if digest != Some(&order.request_digest) {
        return Err(Error::invalid("payload", "must hold the request_digest"));
    }
    if !(Duration::from_millis(1)..=366 * DAY).contains(&order.ttl) {
        return Err(Error::invalid("ttl", "must be 1 ms to 366 days"));
    }
    if order.max_age.is_some_and(|max_age| max_age > 366 * DAY) {
        return Err(Error::invalid("max_age", "must be at most 366 days"));
    }
    Ok(())
}

fn message_of(order: &NewOrder) -> NewMessage {
    let queue: QueueName = QUEUE.parse().expect("invariant: a plain name");
    NewMessage {
        headers: order.headers.clone(),
        ..NewMessage::new(queue, order.payload.clone()).with_key(order.message_key())
    }
}

fn key_of(order: &NewOrder) -> Key<'_> {
    (order.client.as_str(), order.key.as_str())
}

fn entry_of(order: &NewOrder, outbox_id: Option<MessageId>, now: Timestamp) -> LedgerEntry {
    LedgerEntry {
        client: order.client.clone(),
        key: order.key.clone(),
        request_digest: order.request_digest.clone(),
        result_digest: None,
        status: LedgerStatus::Accepted,
        first_seen_at: now,
        last_seen_at: now,
        expires_at: later(now, order.ttl),
        // Only queued orders expire unsent.
        order_expires_at: order
            .max_age
            .filter(|_| outbox_id.is_some())
            .map(|max_age| later(now, max_age)),
        response: None,
        http_status: 201,
        outbox_id,
        conflicts: 0,
        sent: SentAmounts::of_payload(&order.payload),
    }
}
