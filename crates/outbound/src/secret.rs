//! Keys and tokens.

use std::{fmt, path::Path};

use serde::{Deserialize, Serialize, Serializer};
use subtle::ConstantTimeEq;

/// A key, password or token: used, compared, never shown.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// A secret.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// A secret out of a file; blanks and line ends around it do not count. What is wrong names the
    /// file.
    pub fn from_file(path: &Path) -> Result<Self, String> {
        let place = path.display();
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("file {place} cannot be read: {error}"))?;
        match text.trim() {
            "" => Err(format!("file {place} is empty")),
            text => Ok(Self::new(text)),
        }
    }

    /// The text itself, for the one place that sends it.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether there is none: an empty variable of the environment.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether somebody knows it. Takes as long for a wrong guess as for a right one, and an empty
    /// secret is known to nobody.
    pub fn is_known_to(&self, guess: &str) -> bool {
        let is_equal = self.0.as_bytes().ct_eq(guess.as_bytes());
        !self.is_empty() && bool::from(is_equal)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// T26: the admin key is compared in constant time, and an unset one admits nobody.
    #[test]
    fn only_the_very_text_is_known() {
        let table = [
            ("tulip", "tulip", true),
            ("tulip", "Tulip", false),
            ("tulip", "tulip ", false),
            ("tulip", "", false),
            ("", "", false),
        ];
        for (secret, guess, is_known) in table {
            let secret = Secret::new(secret);
            assert_eq!(secret.is_known_to(guess), is_known, "{guess:?}");
            let shown = format!("{secret:?} {}", serde_json::to_string(&secret).unwrap());
            assert!(!shown.contains("tulip"), "{shown}");
        }
    }
}
