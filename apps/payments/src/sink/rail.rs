//! Rails: systems that move money and report on it.

mod http;
mod simulated;

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use consign_kernel::{Fence, Payload};
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use serde_json::value::RawValue;
use uuid::Uuid;

pub use self::{http::HttpRail, simulated::SimulatedRail};
use crate::OutboxId;

/// A validated payment order for a rail.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Dispatch {
    /// The payment: the same on every attempt; the rail recognises repeats by it.
    pub reference: OutboxId,
    /// Amount in minor units.
    pub amount_minor: u64,
    /// Three capital letters.
    pub currency: String,
    /// Destination.
    pub destination: String,
    /// Number of the instruction at the caller; several payments may carry it.
    pub instruction_id: String,
    /// Participant whose sequence numbers the payment.
    pub participant_id: String,
    /// The payment's number in the participant's sequence.
    pub sequence_id: i64,
    /// Payment type.
    pub rail_type: String,
    /// Tenant.
    pub tenant_id: Option<Uuid>,
    /// The caller's object, unchanged.
    pub payload: Payload,
    /// Number of the attempt; for information, the reference identifies the payment.
    #[serde(skip)]
    pub attempt_no: u32,
    /// The lease's fence: a rail may reject older ones.
    #[serde(skip)]
    pub fence: Fence,
}

/// A rail's reply about a payment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct RailReply {
    /// Whether it accepted the payment.
    #[serde(rename = "success")]
    pub is_success: bool,
    /// The rail's reference.
    #[serde(default, alias = "railReference", deserialize_with = "word")]
    pub rail_reference: Option<String>,
    /// The rail's own code.
    #[serde(default, alias = "railCode", deserialize_with = "word")]
    pub rail_code: Option<String>,
    /// Error code, for programs.
    #[serde(default, alias = "errorCode", deserialize_with = "word")]
    pub error_code: Option<String>,
    /// Error message, for people.
    #[serde(default, alias = "errorMessage")]
    pub error_message: Option<String>,
    /// Whether a retry makes sense, if stated.
    #[serde(default)]
    pub retryable: Option<bool>,
}

/// A text that some rails send as a number.
fn word<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    // As written: parsing the number would lose digits.
    let text = Box::<RawValue>::deserialize(deserializer)?;
    match text.get().as_bytes() {
        b"null" => Ok(None),
        [b'"', ..] => serde_json::from_str(text.get()).map_err(D::Error::custom),
        [b'-' | b'0'..=b'9', ..] => Ok(Some(text.get().to_owned())),
        _ => Err(D::Error::custom(format!(
            "{text} is neither text nor a number"
        ))),
    }
}

/// Result of a submission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubmitResult {
    /// The rail answered.
    Replied(RailReply),
    /// The rail did not receive it.
    NotSent {
        /// For programs.
        code: &'static str,
        /// For people.
        why: String,
    },
    /// The rail rejected it because of load.
    NotNow {
        /// For people.
        why: String,
        /// Requested delay, if any.
        retry_in: Option<Duration>,
    },
    /// The rail may have it: no answer, or an unreadable one.
    Lost {
        /// For programs.
        code: &'static str,
        /// For people.
        why: String,
    },
}

/// Result of a query by reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RailLookup {
    /// The rail has it; its reply.
    Found(RailReply),
    /// The rail never received it.
    NotFound,
    /// Unknown, or not decided yet.
    CannotTell(String),
}

/// Result of a cancellation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CancelResult {
    /// It will not be paid.
    Done,
    /// It was paid.
    TooLate,
    /// Not supported, or unknown.
    NotOffered(String),
}

/// A system that moves money.
///
/// It must recognise `Dispatch::reference`: a payment whose lease was lost during a dispatch is
/// queried first, and submitted again only if the rail does not have it.
#[async_trait]
pub trait Rail: Send + Sync + fmt::Debug {
    /// The kind, as in the configuration.
    fn kind(&self) -> &'static str;

    /// Its address for people, without secrets.
    fn destination(&self) -> &str;

    /// Submits a payment within `timeout`. The future may be dropped at any await.
    async fn submit(&self, dispatch: &Dispatch, timeout: Duration) -> SubmitResult;

    /// Queries a reference within `timeout`.
    async fn query(&self, reference: OutboxId, timeout: Duration) -> RailLookup;

    /// Cancels a payment.
    async fn cancel(&self, _reference: OutboxId, _timeout: Duration) -> CancelResult {
        CancelResult::NotOffered(format!(
            "the {} rail does not support cancellation",
            self.kind()
        ))
    }
}

/// Rails by payment type. An unknown type fails closed.
#[derive(Clone, Debug, Default)]
pub struct Rails {
    by_type: BTreeMap<String, Arc<dyn Rail>>,
}

impl Rails {
    /// One rail for these types.
    pub fn new<T: Into<String>>(
        rail: Arc<dyn Rail>,
        rail_types: impl IntoIterator<Item = T>,
    ) -> Self {
        let of_type = |rail_type: T| (rail_type.into(), Arc::clone(&rail));
        Self {
            by_type: rail_types.into_iter().map(of_type).collect(),
        }
    }

    /// Adds a rail for one type.
    pub fn with(mut self, rail_type: impl Into<String>, rail: Arc<dyn Rail>) -> Self {
        self.by_type.insert(rail_type.into(), rail);
        self
    }

    /// The rail of a type, compared exactly.
    pub fn get(&self, rail_type: &str) -> Option<&Arc<dyn Rail>> {
        self.by_type.get(rail_type)
    }

    /// The types with a rail.
    pub fn types(&self) -> impl Iterator<Item = &str> {
        self.by_type.keys().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn replies_are_read_in_either_spelling() {
        let table = [
            (
                json!({"success": true, "railReference": "R-1"}),
                Some(Some("R-1")),
            ),
            (
                json!({"success": true, "rail_reference": 4711}),
                Some(Some("4711")),
            ),
            (json!({"success": true, "rail_reference": null}), Some(None)),
            (json!({"success": true, "more": [1]}), Some(None)),
            (json!({"success": true, "rail_reference": {"id": 1}}), None),
            (json!({"success": "yes"}), None),
            (json!({"railReference": "R-1"}), None),
            (json!("accepted"), None),
        ];
        for (body, expected) in table {
            let reply = RailReply::deserialize(&body).ok();
            let reference = reply.as_ref().map(|reply| reply.rail_reference.as_deref());
            assert_eq!(reference, expected, "{body}");
        }
    }
}
