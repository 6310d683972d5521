//! Lenient parsing of broker fields on which no decision depends.

use serde::{Deserialize, Deserializer};

/// A time in milliseconds, whole or not.
pub(super) fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let number = Option::<f64>::deserialize(deserializer)?.unwrap_or(0.0);
    // The cast saturates.
    Ok(number.round() as u64)
}

/// A list, `null` for an empty one.
pub(super) fn list<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
