//! Payments over HTTP, independent of the transport: request bytes in, status and JSON out.

use std::sync::Arc;

use consign_kernel::{Error, Payload, Result, hex};
use consign_worker::failpoint::failpoint;
use metrics::counter;
use ring::digest::{SHA256, digest};
use serde_json::{Map, Value, json};
use tracing::warn;
use uuid::Uuid;

use crate::{
    EnqueueAnswer, OutboxId, Payments,
    metrics::INGRESS_TOTAL,
    options::PaymentsOptions,
    request::{self, Refusal},
};

/// A payment request.
#[derive(Clone, Debug)]
pub struct PayCall<'c> {
    /// The tenant of the caller's token; `None`: any tenant.
    pub tenant_id: Option<Uuid>,
    /// The request, as received.
    pub body: &'c [u8],
    /// Headers that travel with the payment, such as trace context.
    pub headers: Map<String, Value>,
}

/// A response.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// Headers beside the usual ones.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Value,
}

/// The ingress of payments. Clones share their state.
#[derive(Clone)]
pub struct PaymentService {
    payments: Arc<dyn Payments>,
    options: Arc<PaymentsOptions>,
}

impl std::fmt::Debug for PaymentService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PaymentService").finish_non_exhaustive()
    }
}

impl PaymentService {
    /// A service over a store.
    pub fn new(payments: Arc<dyn Payments>, options: PaymentsOptions) -> Self {
        let options = Arc::new(options);
        Self { payments, options }
    }

    /// Accepts a payment: answers once it is durable, the same for every repeat.
    pub async fn pay(&self, call: PayCall<'_>) -> Answer {
        let answer = self.accept(call).await;
        let word = match (answer.status, answer.headers.is_empty()) {
            (202, true) => "accepted",
            (202, false) => "replayed",
            (409, _) => "conflict",
            (500.., _) => "failed",
            _ => "refused",
        };
        counter!(INGRESS_TOTAL, "answer" => word).increment(1);
        answer
    }

    async fn accept(&self, call: PayCall<'_>) -> Answer {
        let bytes_max = self.options.request_bytes_max;
        if call.body.len() > bytes_max {
            let why = format!("the request is longer than {bytes_max} bytes");
            return refusal(413, "PAYLOAD_TOO_LARGE", &why);
        }
        let mut payment = match request::read(call.body, &self.options) {
            Ok(payment) => payment,
            Err(Refusal::Unreadable(why)) => return refusal(400, "INVALID_REQUEST", &why),
            Err(Refusal::Fields(wrong)) => {
                let names: Vec<&str> = wrong.iter().map(|wrong| wrong.field).collect();
                let why = format!("invalid fields: {}", names.join(", "));
                let mut answer = refusal(400, "SCHEMA_VALIDATION_FAILED", &why);
                answer.body["errors"] = json!(wrong);
                return answer;
            }
        };
        if call.tenant_id.is_some() && call.tenant_id != payment.tenant_id {
            let why = "the token does not belong to this tenant";
            return refusal(403, "TENANT_MISMATCH", why);
        }
        payment.headers = self.options.addressed(call.headers);
        let answers = self
            .payments
            .enqueue_payments(std::slice::from_ref(&payment));
        let answers = answers.await;
        failpoint("payments.taken").await;
        match answers.map(|answers| answers.into_iter().next()) {
            Ok(Some(EnqueueAnswer::Enqueued(enqueued))) => Answer {
                status: 202,
                headers: if enqueued.duplicate {
                    vec![("idempotency-replayed", "true".to_owned())]
                } else {
                    Vec::new()
                },
                body: json!({
                    "ack": true,
                    "instruction_id": payment.instruction_id,
                    "outbox_id": enqueued.outbox_id,
                    "outbox_state": enqueued.state,
                    "sequence_id": enqueued.sequence_id,
                    "created_at": enqueued.created_at,
                    "payload_hash": payload_hash(&payment.payload),
                }),
            },
            Ok(Some(EnqueueAnswer::Conflict { outbox_id, field })) => {
                let why = format!(
                    "idempotency key was used by payment {outbox_id}, whose {field} differs; use \
                     a new key"
                );
                let mut answer = refusal(409, "IDEMPOTENCY_CONFLICT", &why);
                answer.body["field"] = json!(field);
                answer.body["outbox_id"] = json!(outbox_id);
                answer
            }
            Ok(None) => refusal(500, "INTERNAL_ERROR", "the store returned no result"),
            Err(error) => failed(&error),
        }
    }

    /// A payment with its attempts. A payment of another tenant is reported as missing.
    pub async fn look(&self, tenant_id: Option<Uuid>, outbox_id: &str) -> Answer {
        let missing = || refusal(404, "NOT_FOUND", "the payment does not exist");
        let Ok(outbox_id) = outbox_id.parse::<OutboxId>() else {
            return missing();
        };
        match self.read(tenant_id, outbox_id).await {
            Ok(Some(body)) => Answer {
                status: 200,
                headers: Vec::new(),
                body,
            },
            Ok(None) => missing(),
            Err(error) => unread(&error),
        }
    }

    async fn read(&self, tenant_id: Option<Uuid>, id: OutboxId) -> Result<Option<Value>> {
        let Some((view, payload)) = self.payments.payment(id).await? else {
            return Ok(None);
        };
        if tenant_id.is_some() && tenant_id != view.tenant_id {
            return Ok(None);
        }
        let attempts = self.payments.payment_attempts(id).await?;
        let mut body = serde_json::to_value(&view).expect("invariant: a view is JSON");
        let hash = view.erased_at.is_none().then(|| payload_hash(&payload));
        body["payload_hash"] = json!(hash);
        body["attempts"] = json!(attempts.unwrap_or_default());
        Ok(Some(body))
    }
}

/// `sha256:` and the digest of the payload's canonical text, computed here, not the caller's.
pub fn payload_hash(payload: &Payload) -> String {
    let digest = digest(&SHA256, payload.as_str().as_bytes());
    format!("sha256:{}", hex(digest.as_ref()))
}

fn refusal(status: u16, code: &str, why: &str) -> Answer {
    Answer {
        status,
        headers: Vec::new(),
        body: json!({"error": code, "message": why}),
    }
}

/// The payment was not accepted: the caller repeats the request.
fn failed(error: &Error) -> Answer {
    match error {
        Error::InvalidInput { .. } => refusal(400, "INVALID_REQUEST", &error.to_string()),
        Error::PayloadTooLarge { .. } => refusal(413, "PAYLOAD_TOO_LARGE", &error.to_string()),
        error if error.is_retryable() => {
            warn!(%error, "storing a payment failed");
            let why = "the payment could not be stored; repeat the request";
            let mut answer = refusal(503, "ATTESTATION_DURABILITY_FAILED", why);
            answer.headers.push(("retry-after", "1".to_owned()));
            answer
        }
        error => {
            warn!(%error, "accepting a payment failed");
            refusal(500, "INTERNAL_ERROR", "the payment could not be accepted")
        }
    }
}

/// A read: nothing is in doubt.
fn unread(error: &Error) -> Answer {
    warn!(%error, "reading a payment failed");
    if error.is_retryable() {
        let why = "the payment could not be read; repeat the request";
        let mut answer = refusal(503, "DATABASE_UNAVAILABLE", why);
        answer.headers.push(("retry-after", "1".to_owned()));
        answer
    } else {
        refusal(500, "INTERNAL_ERROR", "the payment could not be read")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_does_not_depend_on_the_order_of_keys() {
        let one = Payload::parse(r#"{"b": 1, "a": [2, {"d": 3, "c": 4}]}"#).unwrap();
        let two = Payload::parse(r#"{"a":[2,{"c":4,"d":3}],"b":1}"#).unwrap();
        assert_eq!(payload_hash(&one), payload_hash(&two));
        assert_ne!(payload_hash(&one), payload_hash(&json!({"a": 1}).into()));
        // printf '{}' | sha256sum
        let empty = "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";
        assert_eq!(payload_hash(&json!({}).into()), empty);
    }
}
