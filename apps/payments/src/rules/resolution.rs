//! An operator's resolution of a payment in doubt.

use consign_kernel::{Error, Resolution, Result};
use serde_json::{Value, json};

use crate::{REFERENCE_BYTES_MAX, RailResult};

/// What the rail's records show about a payment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RailRecord {
    /// It was paid, under this reference.
    Dispatched {
        /// The rail's reference.
        rail_reference: String,
    },
    /// It was not paid and will not be.
    Failed,
}

impl RailRecord {
    /// The kernel's resolution. A dispatched payment requires the rail's reference.
    pub fn resolution(&self) -> Result<Resolution> {
        match self {
            Self::Dispatched { rail_reference } => {
                require_reference(rail_reference)?;
                let result = json!({ "rail_reference": rail_reference }).to_string();
                Ok(Resolution::Delivered {
                    result: Some(result),
                })
            }
            Self::Failed => Ok(Resolution::Dead),
        }
    }
}

/// The attempt result of a resolved payment. The PostgreSQL store has the same rules in SQL
/// (`consign.resolved_payment`).
pub fn resolved(resolution: &Resolution) -> Result<Option<Value>> {
    if *resolution == Resolution::Unknown {
        let why = "a payment with an unknown outcome stays held until the rail's books show it";
        return Err(Error::invalid("outcome", why));
    }
    let Resolution::Delivered { result } = resolution else {
        return Ok(None);
    };
    let result: Option<Value> = result
        .as_deref()
        .and_then(|text| serde_json::from_str(text).ok());
    let members = result.as_ref().and_then(Value::as_object);
    let has_more = members.is_some_and(|members| members.len() > 1);
    let reference = RailResult::from_value(result.as_ref()).rail_reference;
    require_reference(
        reference
            .as_deref()
            .filter(|_| !has_more)
            .unwrap_or_default(),
    )?;
    Ok(result)
}

fn require_reference(reference: &str) -> Result<()> {
    if !reference.trim().is_empty() && reference.len() <= REFERENCE_BYTES_MAX {
        return Ok(());
    }
    let why = format!(
        "a payment is dispatched only with the rail's reference: {{\"rail_reference\": \"...\"}}, \
         1 to {REFERENCE_BYTES_MAX} bytes"
    );
    Err(Error::invalid("result", why))
}
