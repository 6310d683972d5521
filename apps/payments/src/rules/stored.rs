//! A payment as its message carries it.

use consign_kernel::{CORRELATION_ID, NewMessage, Payload, QueueName};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{EnqueueAnswer, NewPayment, OutboxId, QUEUE};

/// The payload of a message of the queue `payments`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredPayment {
    /// The payment.
    pub outbox_id: OutboxId,
    /// The instruction.
    pub instruction_id: String,
    /// The key.
    pub idempotency_key: String,
    /// Owner of the sequence.
    pub participant_id: String,
    /// Its number in the sequence.
    pub sequence_id: i64,
    /// Rail type.
    pub rail_type: String,
    /// Tenant.
    #[serde(default)]
    pub tenant_id: Option<Uuid>,
    /// Links it to other records.
    #[serde(default)]
    pub correlation_id: Option<Uuid>,
    /// Whether it started held; whether it still is, is its message's state.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub kyc_hold: bool,
    /// The caller's object.
    pub payload: Payload,
}

impl StoredPayment {
    /// A payment with its identity and number.
    pub fn new(payment: &NewPayment, outbox_id: OutboxId, sequence_id: i64) -> Self {
        Self {
            outbox_id,
            instruction_id: payment.instruction_id.clone(),
            idempotency_key: payment.idempotency_key.clone(),
            participant_id: payment.participant_id.clone(),
            sequence_id,
            rail_type: payment.rail_type.clone(),
            tenant_id: payment.tenant_id,
            correlation_id: payment.correlation_id,
            kyc_hold: payment.kyc_hold,
            payload: payment.payload.clone(),
        }
    }

    /// Parses a message's payload.
    pub fn read(payload: &Payload) -> Result<Self, serde_json::Error> {
        payload.read()
    }

    /// The message of a payment: its key is the identity, its group the participant.
    pub fn message(&self, payment: &NewPayment) -> NewMessage {
        let mut headers = payment.headers.clone();
        if let Some(id) = payment.correlation_id {
            headers.insert(CORRELATION_ID.to_owned(), id.to_string().into());
        }
        NewMessage {
            headers,
            ..NewMessage::new(queue(), Payload::deferred(self))
                .with_key(self.outbox_id.to_string())
                .with_group(self.participant_id.clone())
        }
    }

    /// The first field in which a payment under the same key and tenant differs from this one.
    pub fn conflict(&self, payment: &NewPayment) -> Option<&'static str> {
        let fields = [
            (
                "participant_id",
                self.participant_id == payment.participant_id,
            ),
            ("rail_type", self.rail_type == payment.rail_type),
            ("payload", self.payload == payment.payload),
            ("kyc_hold", self.kyc_hold == payment.kyc_hold),
        ];
        let different = fields.into_iter().find(|(_, is_same)| !is_same);
        different.map(|(field, _)| field)
    }

    /// The same for a payment whose message has left: this one lacks the caller's payload, and `digest`
    /// is that of the whole document.
    pub fn former_conflict(&self, payment: &NewPayment, digest: &[u8]) -> Option<&'static str> {
        let of = |kyc_hold| {
            let again = Self {
                payload: payment.payload.clone(),
                kyc_hold,
                ..self.clone()
            };
            Payload::deferred(&again).digest()
        };
        if self.participant_id != payment.participant_id {
            Some("participant_id")
        } else if self.rail_type != payment.rail_type {
            Some("rail_type")
        } else if of(payment.kyc_hold) == *digest {
            None
        } else if of(!payment.kyc_hold) == *digest {
            Some("kyc_hold")
        } else {
            Some("payload")
        }
    }

    /// The conflict with a payment under the same key; `None` if they are equal.
    pub fn conflict_answer(&self, payment: &NewPayment) -> Option<EnqueueAnswer> {
        Some(EnqueueAnswer::Conflict {
            outbox_id: self.outbox_id,
            field: self.conflict(payment)?,
        })
    }
}

/// The name of the queue of payments.
pub fn queue() -> QueueName {
    QUEUE.parse().expect("invariant: a plain name")
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::{Map, json};

    use super::*;

    pub(crate) fn payment() -> NewPayment {
        NewPayment {
            instruction_id: "ins-1".into(),
            idempotency_key: "key-1".into(),
            participant_id: "bank-a".into(),
            rail_type: "PAYMENT".into(),
            tenant_id: None,
            correlation_id: None,
            payload: json!({"amount_minor": 1250, "currency_code": "ZMW", "destination": "acc-9"})
                .into(),
            headers: Map::new(),
            kyc_hold: false,
        }
    }

    /// What else may differ under a key, and what may not.
    #[test]
    fn the_first_field_that_differs_is_the_conflict() {
        let stored = StoredPayment::new(&payment(), OutboxId(Uuid::from_u128(7)), 3);
        type Change = fn(&mut NewPayment);
        let table: [(Change, Option<&str>); 9] = [
            (|_| {}, None),
            (|p| p.correlation_id = Some(Uuid::from_u128(1)), None),
            (|p| p.kyc_hold = true, Some("kyc_hold")),
            (
                |p| {
                    p.payload = json!({"destination": "acc-9", "currency_code": "ZMW", "amount_minor": 1250.0}).into();
                },
                None,
            ),
            (
                |p| p.participant_id = "bank-b".into(),
                Some("participant_id"),
            ),
            (|p| p.rail_type = "REFUND".into(), Some("rail_type")),
            (|p| p.rail_type = "payment".into(), Some("rail_type")),
            (
                |p| p.payload = json!({"amount_minor": 999}).into(),
                Some("payload"),
            ),
            (
                |p| {
                    p.participant_id = "bank-b".into();
                    p.kyc_hold = true;
                },
                Some("participant_id"),
            ),
        ];
        for (index, (change, expected)) in table.into_iter().enumerate() {
            let mut repeated = payment();
            change(&mut repeated);
            assert_eq!(stored.conflict(&repeated), expected, "case {index}");
            let answer = expected.map(|field| EnqueueAnswer::Conflict {
                outbox_id: stored.outbox_id,
                field,
            });
            assert_eq!(stored.conflict_answer(&repeated), answer, "case {index}");
        }
    }

    #[test]
    fn a_message_is_read_back_as_it_was_made() {
        let new = payment();
        let stored = StoredPayment::new(&new, OutboxId(Uuid::from_u128(7)), 3);
        let message = stored.message(&new);
        assert_eq!(StoredPayment::read(&message.payload).unwrap(), stored);
        assert_eq!(message.key.unwrap(), stored.outbox_id.to_string());
        assert_eq!(message.group.unwrap(), "bank-a");
        assert!(StoredPayment::read(&json!({"amount": 1}).into()).is_err());
    }
}
