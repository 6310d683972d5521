//! What is sent of what was asked for: told at acceptance and at every repeat.

use serde_json::Value;

use crate::{Amount, Filled, Stored};

/// Quantity and limit as the broker gets them.
#[derive(Clone, Debug, PartialEq)]
pub struct Sent {
    /// How much.
    pub qty: Amount,
    /// The limit; none: at the market.
    pub price: Option<Amount>,
    /// In what they differ from what was asked.
    pub warnings: Vec<String>,
}

impl From<Filled> for Sent {
    fn from(filled: Filled) -> Self {
        Self {
            qty: filled.qty,
            price: filled.price,
            warnings: filled.warnings,
        }
    }
}

impl Sent {
    /// Out of the payload of an order's message; none where it cannot be read.
    pub fn of_payload(payload: &Value) -> Option<Self> {
        let stored = Stored::parse(payload).ok()?;
        Some(stored.filled.into())
    }

    /// Out of the part `order` of that payload, as JSON text.
    pub fn of_order(text: &str) -> Option<Self> {
        let order: Value = serde_json::from_str(text).ok()?;
        let amount = |value: &Value| value.as_str()?.parse().ok();
        let warnings = order["warnings"].as_array();
        let texts = warnings.into_iter().flatten().filter_map(Value::as_str);
        Some(Self {
            qty: amount(&order["qty"])?,
            price: amount(&order["price"]),
            warnings: texts.map(str::to_owned).collect(),
        })
    }
}
