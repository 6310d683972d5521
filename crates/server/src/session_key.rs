//! What sessions of the dashboard are signed with, where it is set.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};

/// Shorter ones can be guessed.
const BYTES_MIN: usize = 32;

/// A secret text that every server of one configuration has. Never printed.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct SessionKey(String);

impl SessionKey {
    /// The secret itself.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for SessionKey {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.len() >= BYTES_MIN {
            true => Ok(Self(text)),
            false => Err(format!(
                "must have at least {BYTES_MIN} bytes, such as those `openssl rand -hex 32` prints"
            )),
        }
    }
}

impl fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionKey(hidden)")
    }
}

impl Serialize for SessionKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_long_and_is_shown_to_nobody() {
        assert!(SessionKey::try_from("k".repeat(31)).is_err());
        let key = SessionKey::try_from("k".repeat(32)).unwrap();
        let shown = format!("{key:?} {}", serde_json::to_string(&key).unwrap());
        assert!(!shown.contains("kkk"), "{shown}");
    }
}
