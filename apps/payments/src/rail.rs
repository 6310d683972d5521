//! Rails: what moves the money, and can be asked about it.

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

/// What a rail is asked to do. Everything in it has been checked.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Dispatch {
    /// The payment: the same on every attempt, and what the rail must recognise repeats by.
    pub reference: OutboxId,
    /// How much, in minor units.
    pub amount_minor: u64,
    /// Three capital letters.
    pub currency: String,
    /// To whom.
    pub destination: String,
    /// The instruction.
    pub instruction_id: String,
    /// For whom.
    pub participant_id: String,
    /// The payment's number among that participant's.
    pub sequence_id: i64,
    /// What kind of payment.
    pub rail_type: String,
    /// Whose it is.
    pub tenant_id: Option<Uuid>,
    /// The caller's object, whole.
    pub payload: Payload,
    /// Which attempt it is; the reference says more.
    #[serde(skip)]
    pub attempt_no: u32,
    /// The lease's number: a rail may refuse older ones.
    #[serde(skip)]
    pub fence: Fence,
}

/// What a rail says about a payment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct RailReply {
    /// Whether it has the payment.
    #[serde(rename = "success")]
    pub is_success: bool,
    /// By which it knows the payment.
    #[serde(default, alias = "railReference", deserialize_with = "word")]
    pub rail_reference: Option<String>,
    /// Its own word for what happened.
    #[serde(default, alias = "railCode", deserialize_with = "word")]
    pub rail_code: Option<String>,
    /// Why not, for programs.
    #[serde(default, alias = "errorCode", deserialize_with = "word")]
    pub error_code: Option<String>,
    /// Why not, for people.
    #[serde(default, alias = "errorMessage")]
    pub error_message: Option<String>,
    /// Whether to try again, if it says.
    #[serde(default)]
    pub retryable: Option<bool>,
}

/// A word that some rails write as a number.
fn word<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    // As it was written: a number would lose digits.
    let text = Box::<RawValue>::deserialize(deserializer)?;
    match text.get().as_bytes() {
        b"null" => Ok(None),
        [b'"', ..] => serde_json::from_str(text.get()).map_err(D::Error::custom),
        [b'-' | b'0'..=b'9', ..] => Ok(Some(text.get().to_owned())),
        _ => Err(D::Error::custom(format!("{text} is not a word"))),
    }
}

/// What came of a submission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Submitted {
    /// The rail answered.
    Replied(RailReply),
    /// The rail did not get it.
    NotSent {
        /// For programs.
        code: &'static str,
        /// For people.
        why: String,
    },
    /// The rail did not take it and wants less for a while.
    NotNow {
        /// For people.
        why: String,
        /// For how long, if it says.
        retry_in: Option<Duration>,
    },
    /// The rail may have it: no answer came, or none that can be understood.
    Lost {
        /// For programs.
        code: &'static str,
        /// For people.
        why: String,
    },
}

/// What a rail knows about a reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Known {
    /// It has it, and this is what it would answer to it.
    Found(RailReply),
    /// It never got it.
    NotFound,
    /// It cannot say, or not yet.
    CannotTell(String),
}

/// What came of a wish to take a payment back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// It will not be paid.
    Done,
    /// It has been paid.
    TooLate,
    /// The rail does not offer that, or cannot say.
    NotOffered(String),
}

/// Something that moves money.
///
/// It must recognise `Dispatch::reference`: a payment whose lease was lost while the rail had it is
/// asked about first, and may be submitted again if the rail does not know it.
#[async_trait]
pub trait Rail: Send + Sync + fmt::Debug {
    /// The kind, as in the configuration.
    fn kind(&self) -> &'static str;

    /// Where to, for people: an address without secrets.
    fn destination(&self) -> &str;

    /// Submits a payment; takes no longer than `timeout`. May be dropped at any await.
    async fn submit(&self, dispatch: &Dispatch, timeout: Duration) -> Submitted;

    /// Asks what became of a reference; takes no longer than `timeout`.
    async fn query(&self, reference: OutboxId, timeout: Duration) -> Known;

    /// Asks to take a payment back.
    async fn cancel(&self, _reference: OutboxId, _timeout: Duration) -> Cancelled {
        Cancelled::NotOffered(format!("{} rails cannot take payments back", self.kind()))
    }
}

/// The rails there are, by the type of payment they take. A type that is not here fails closed.
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

    /// The same rails, and another for one type.
    pub fn with(mut self, rail_type: impl Into<String>, rail: Arc<dyn Rail>) -> Self {
        self.by_type.insert(rail_type.into(), rail);
        self
    }

    /// The rail of a type, spelt exactly so.
    pub fn get(&self, rail_type: &str) -> Option<&Arc<dyn Rail>> {
        self.by_type.get(rail_type)
    }

    /// The types there are rails for.
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
