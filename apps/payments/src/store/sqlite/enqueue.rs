//! Enqueues payments: a row, a number and a message each, or none.

use std::collections::{BTreeMap, HashMap};

use consign_kernel::{By, MessageId, NewMessage, QueuePolicy, StateKind};
use consign_sqlite::extension::{Failure, Result, arguments, rows};
use jiff::Timestamp;
use sqlx::FromRow;
use uuid::{NoContext, Uuid};

use super::{PaymentWork, sql};
use crate::{
    EnqueueAnswer, NewPayment, OutboxId, PaymentReceipt, PaymentState, PaymentsOptions,
    StoredPayment, queue, queue_policy,
};

/// A payment whose key was used before, in the database or in the same call.
struct DuplicatePayment {
    message_id: MessageId,
    stored: StoredPayment,
    created_at: Timestamp,
    /// `None` unless it is one of the same call.
    is_held: Option<bool>,
    /// Set if its message was erased or has left: `stored` lacks the caller's payload then.
    former: Option<FormerPayment>,
}

/// What the key of a payment keeps of its message.
struct FormerPayment {
    digest: Vec<u8>,
    state: StateKind,
}

impl DuplicatePayment {
    fn conflict(&self, payment: &NewPayment) -> Option<EnqueueAnswer> {
        let Some(former) = &self.former else {
            return self.stored.conflict_answer(payment);
        };
        let field = self.stored.former_conflict(payment, &former.digest)?;
        let outbox_id = self.stored.outbox_id;
        Some(EnqueueAnswer::Conflict { outbox_id, field })
    }
}

/// A payment to be written.
struct PaymentInsert<'p> {
    payment: &'p NewPayment,
    message_id: MessageId,
    stored: StoredPayment,
    message: NewMessage,
}

/// Instruction, key and tenant.
type Key<'p> = (&'p str, &'p str, Option<Uuid>);
type KnownColumns = (i64, i64, i64, String, Option<Vec<u8>>, Option<bool>);

fn key_of(payment: &NewPayment) -> Key<'_> {
    (
        &payment.instruction_id,
        &payment.idempotency_key,
        payment.tenant_id,
    )
}

impl PaymentWork<'_, '_> {
    /// Everything is validated before the first write.
    pub(super) async fn enqueue_payments(
        &mut self,
        payments: &[NewPayment],
    ) -> Result<Vec<EnqueueAnswer>> {
        payments.iter().try_for_each(NewPayment::validate)?;
        let mut known = self.stored_payments(payments).await?;
        let mut new: Vec<&NewPayment> = Vec::new();
        let mut seen: BTreeMap<Key<'_>, ()> = BTreeMap::new();
        for payment in payments {
            let key = key_of(payment);
            if !known.contains_key(&key) && seen.insert(key, ()).is_none() {
                new.push(payment);
            }
        }
        if !new.is_empty() {
            let fresh = self.prepare(&new).await?;
            self.write_payments(&fresh).await?;
            for payment in fresh {
                let is_held = Some(payment.payment.kyc_hold);
                let entry = DuplicatePayment {
                    message_id: payment.message_id,
                    stored: payment.stored,
                    created_at: self.now,
                    is_held,
                    former: None,
                };
                known.insert(key_of(payment.payment), entry);
            }
        }
        self.answer_payments(payments, &known).await
    }

    /// Begins the transaction and reads the keys.
    async fn stored_payments<'p>(
        &mut self,
        payments: &'p [NewPayment],
    ) -> Result<HashMap<Key<'p>, DuplicatePayment>> {
        let keys: Vec<Key<'p>> = payments.iter().map(key_of).collect();
        let first = [
            concat!("BEGIN IMMEDIATE;\n", sql!("payment_keys")),
            sql!("payment_keys"),
        ];
        let answers = self
            .open_with(first, arguments!(rows::json(&keys))?)
            .await?;
        let mut known = HashMap::new();
        for row in answers.first().into_iter().flatten() {
            let (index, message_id, created_at, payload, digest, died) =
                KnownColumns::from_row(row)?;
            let state = if died == Some(true) {
                StateKind::Dead
            } else {
                StateKind::Delivered
            };
            let entry = DuplicatePayment {
                message_id: MessageId(message_id),
                stored: rows::document(&payload)?,
                created_at: rows::timestamp(created_at)?,
                is_held: None,
                former: digest.map(|digest| FormerPayment { digest, state }),
            };
            known.insert(keys[index as usize], entry);
        }
        Ok(known)
    }

    /// Assigns identity, number and message, and rejects invalid payments.
    async fn prepare<'p>(&mut self, payments: &[&'p NewPayment]) -> Result<Vec<PaymentInsert<'p>>> {
        let policy = match self.policies([&queue()]).await?.remove(&queue()) {
            Some(policy) => policy,
            None => first_policy(),
        };
        let mut next = self.next_numbers(payments).await?;
        let MessageId(last) = self.last_message_id().await?;
        let mut fresh = Vec::with_capacity(payments.len());
        for (message_id, payment) in (last + 1..).zip(payments) {
            let number = next.entry(payment.participant_id.as_str()).or_insert(1);
            let stored = StoredPayment::new(payment, self.new_outbox_id(), *number);
            *number += 1;
            let message = stored.message(payment);
            message.validate(fresh.len(), &policy)?;
            fresh.push(PaymentInsert {
                payment,
                message_id: MessageId(message_id),
                stored,
                message,
            });
        }
        Ok(fresh)
    }

    async fn next_numbers<'p>(
        &mut self,
        payments: &[&'p NewPayment],
    ) -> Result<BTreeMap<&'p str, i64>> {
        let names = payments.iter().map(|payment| &*payment.participant_id);
        let mut next: BTreeMap<&str, i64> = names.map(|name| (name, 1)).collect();
        let names: Vec<&str> = next.keys().copied().collect();
        let found: Vec<(String, i64)> = sqlx::query_as(sql!("payment_sequences"))
            .bind(rows::json(&names))
            .fetch_all(&mut *self.connection)
            .await?;
        for (name, number) in found {
            if let Some(place) = next.get_mut(name.as_str()) {
                *place = number;
            }
        }
        Ok(next)
    }

    /// By time, so that recent payments are adjacent in the index.
    fn new_outbox_id(&self) -> OutboxId {
        let now = self.now;
        let seconds = u64::try_from(now.as_second()).unwrap_or(0);
        let nanos = now.subsec_nanosecond().unsigned_abs();
        OutboxId(Uuid::new_v7(uuid::Timestamp::from_unix(
            NoContext, seconds, nanos,
        )))
    }

    async fn write_payments(&mut self, fresh: &[PaymentInsert<'_>]) -> Result<()> {
        if self.policies([&queue()]).await?.is_empty() {
            let by = By::new("consign", "the first payment");
            self.put_queue(&queue(), &first_policy(), &by).await?;
        }
        let mut next: BTreeMap<&str, i64> = BTreeMap::new();
        for PaymentInsert { stored, .. } in fresh {
            next.insert(&stored.participant_id, stored.sequence_id + 1);
        }
        let next: Vec<(&str, i64)> = next.into_iter().collect();
        self.insert_all(sql!("payment_sequences_put"), &next)
            .await?;
        let row = |fresh: &PaymentInsert<'_>| {
            let stored = &fresh.stored;
            rows::json(&(
                fresh.message_id,
                stored.outbox_id,
                stored.sequence_id,
                stored.tenant_id,
                stored.correlation_id,
                &stored.instruction_id,
                &stored.idempotency_key,
                &stored.participant_id,
                &stored.rail_type,
            ))
        };
        let lines: Vec<String> = fresh.iter().map(row).collect();
        sqlx::query(sql!("payment_append"))
            .bind(format!("[{}]", lines.join(",")))
            .bind(rows::micros(self.now))
            .execute(&mut *self.connection)
            .await?;
        let messages: Vec<NewMessage> = fresh.iter().map(|fresh| fresh.message.clone()).collect();
        let enqueued = self.enqueue_new(&messages).await?;
        let is_expected = |(fresh, enqueued): (&PaymentInsert<'_>, &consign_kernel::Receipt)| {
            fresh.message_id == enqueued.id
        };
        if !fresh.iter().zip(&enqueued).all(is_expected) {
            return Err(Failure::corrupt("a payment's message has an unexpected id"));
        }
        let held = fresh.iter().filter(|fresh| fresh.payment.kyc_hold);
        let held: Vec<MessageId> = held.map(|fresh| fresh.message_id).collect();
        if !held.is_empty() {
            self.hold(&held, &By::new("consign", "kyc_hold")).await?;
        }
        Ok(())
    }

    /// One result per payment, in order.
    async fn answer_payments(
        &mut self,
        payments: &[NewPayment],
        known: &HashMap<Key<'_>, DuplicatePayment>,
    ) -> Result<Vec<EnqueueAnswer>> {
        let old = known.values().filter(|known| known.is_held.is_none());
        let old = old.map(|known| known.message_id).collect();
        let states = self.states(&old).await?;
        let mut is_new: HashMap<Key<'_>, ()> = HashMap::new();
        let mut answers = Vec::with_capacity(payments.len());
        for payment in payments {
            let key = key_of(payment);
            let Some(known) = known.get(&key) else {
                return Err(Failure::corrupt("a payment is neither new nor stored"));
            };
            let outbox_id = known.stored.outbox_id;
            if let Some(conflict) = known.conflict(payment) {
                answers.push(conflict);
                continue;
            }
            let former = known.former.as_ref().map(|former| former.state);
            let found = states.get(&known.message_id).map(|found| found.state);
            let state = match (known.is_held, found.or(former)) {
                (Some(true), _) => PaymentState::Held,
                (Some(false), _) => PaymentState::Pending,
                (None, Some(state)) => state.into(),
                (None, None) => return Err(Failure::corrupt("a payment has no message")),
            };
            answers.push(EnqueueAnswer::Enqueued(PaymentReceipt {
                outbox_id,
                sequence_id: known.stored.sequence_id,
                created_at: known.created_at,
                state,
                duplicate: known.is_held.is_none() || is_new.insert(key, ()).is_some(),
            }));
        }
        Ok(answers)
    }
}

/// The default policy of the queue.
fn first_policy() -> QueuePolicy {
    queue_policy(&PaymentsOptions::default())
}
