//! Payments as the broker reads them when it is a rail, and the answers it gives.

use serde::Deserialize;
use serde_json::json;

use super::step::{STEP_TAG, Step};

/// A payment.
#[derive(Debug, Deserialize)]
pub(super) struct Payment {
    amount_minor: u64,
    payload: Payload,
}

#[derive(Debug, Deserialize)]
struct Payload {
    /// What the payment brings with it, as tags.
    #[serde(default)]
    steps: Vec<String>,
}

impl Payment {
    pub(super) fn parse(body: &str) -> Result<Self, String> {
        serde_json::from_str(body).map_err(|error| error.to_string())
    }

    /// The step that the payment selects for its nth send, from 0.
    pub(super) fn step(&self, send: usize) -> Result<Option<Step>, String> {
        let steps = self.payload.steps.iter();
        let steps = steps.filter_map(|step| step.strip_prefix(STEP_TAG));
        steps.map(str::parse).nth(send).transpose()
    }

    /// All of it.
    pub(super) fn amount(&self) -> String {
        self.amount_minor.to_string()
    }

    /// The answer after it was paid: under a reference of its own if all of it was, under none if
    /// nothing was to be executed, and otherwise under the requested reference.
    pub(super) fn executed(&self, what: &str, number: usize) -> String {
        let reference = match what {
            "0" => None,
            what if what == self.amount() => Some(format!("rail-{number}")),
            reference => Some(reference.to_owned()),
        };
        json!({"success": true, "rail_reference": reference, "rail_code": "ACCEPTED"}).to_string()
    }

    /// The answer that refuses it for good.
    pub(super) fn rejected() -> String {
        json!({
            "success": false, "error_code": "INSUFFICIENT_FUNDS",
            "error_message": "account 260971234567 is empty",
        })
        .to_string()
    }
}
