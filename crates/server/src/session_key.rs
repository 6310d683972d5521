//! The key that signs sessions of the dashboard, where it is set.

use consign_redact::Secret;
use serde::{Deserialize, Serialize};

/// Shorter ones can be guessed.
const BYTES_MIN: usize = 32;

/// A secret text that every server of one configuration has.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String")]
pub struct SessionKey(Secret);

impl SessionKey {
    /// The secret itself.
    pub(crate) fn reveal(&self) -> &str {
        self.0.reveal()
    }
}

impl TryFrom<String> for SessionKey {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text.len() < BYTES_MIN {
            return Err(format!(
                "must have at least {BYTES_MIN} bytes, such as those `openssl rand -hex 32` prints"
            ));
        }
        Ok(Self(text.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_long_and_never_shown() {
        assert!(SessionKey::try_from("k".repeat(31)).is_err());
        let key = SessionKey::try_from("k".repeat(32)).unwrap();
        let shown = format!("{key:?} {}", serde_json::to_string(&key).unwrap());
        assert!(!shown.contains("kkk"), "{shown}");
    }
}
