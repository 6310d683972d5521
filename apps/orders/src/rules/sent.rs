//! The amounts that are sent, reported at acceptance and in every repeat.

use serde_json::Value;

use crate::{Amount, ServerFields, StoredOrder};

/// Quantity and limit as the broker gets them.
#[derive(Clone, Debug, PartialEq)]
pub struct SentAmounts {
    /// Quantity.
    pub qty: Amount,
    /// Limit; `None` for a market order.
    pub price: Option<Amount>,
    /// Differences from the request.
    pub warnings: Vec<String>,
}

impl From<ServerFields> for SentAmounts {
    fn from(filled: ServerFields) -> Self {
        Self {
            qty: filled.qty,
            price: filled.price,
            warnings: filled.warnings,
        }
    }
}

impl SentAmounts {
    /// From the payload of an order's message; `None` where it is unreadable.
    pub fn of_payload(payload: &Value) -> Option<Self> {
        let stored = StoredOrder::parse(payload).ok()?;
        Some(stored.filled.into())
    }

    /// From the part `order` of that payload, as JSON text.
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
