//! A payment as its message holds it.

use consign_kernel::{CORRELATION_ID, NewMessage, Payload, QueueName};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{EnqueueAnswer, NewPayment, OutboxId, QUEUE};

/// The payload of a message of the queue `payments`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stored {
    /// The payment.
    pub outbox_id: OutboxId,
    /// The instruction.
    pub instruction_id: String,
    /// The key.
    pub idempotency_key: String,
    /// Whose sequence.
    pub participant_id: String,
    /// Its number there.
    pub sequence_id: i64,
    /// Over which rail.
    pub rail_type: String,
    /// Whose it is.
    #[serde(default)]
    pub tenant_id: Option<Uuid>,
    /// What joins it to other records.
    #[serde(default)]
    pub correlation_id: Option<Uuid>,
    /// Whether it was to be held from the start; what has become of that is where its message is.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub kyc_hold: bool,
    /// The caller's object.
    pub payload: Payload,
}

impl Stored {
    /// A payment that has its identity and its number.
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

    /// What a message's payload says; none if it is no payment.
    pub fn read(payload: &Payload) -> Result<Self, serde_json::Error> {
        payload.read()
    }

    /// The message of a payment: its key is its identity, its group its participant.
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

    /// The first field in which a payment under the same key of the same tenant differs from this one.
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

    /// The answer to a payment under the same key that differs from this one; none if it does not.
    pub fn conflict_answer(&self, payment: &NewPayment) -> Option<EnqueueAnswer> {
        Some(EnqueueAnswer::Conflict {
            outbox_id: self.outbox_id,
            field: self.conflict(payment)?,
        })
    }
}

/// The name of the queue payments travel on.
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

    /// P-01, CP-05: what else may differ under a key, and what may not.
    #[test]
    fn the_first_field_that_differs_is_the_conflict() {
        let stored = Stored::new(&payment(), OutboxId(Uuid::from_u128(7)), 3);
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
        let stored = Stored::new(&new, OutboxId(Uuid::from_u128(7)), 3);
        let message = stored.message(&new);
        assert_eq!(Stored::read(&message.payload).unwrap(), stored);
        assert_eq!(message.key.unwrap(), stored.outbox_id.to_string());
        assert_eq!(message.group.unwrap(), "bank-a");
        assert!(Stored::read(&json!({"amount": 1}).into()).is_err());
    }
}
