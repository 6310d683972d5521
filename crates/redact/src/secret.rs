//! Keys, passwords and tokens.

use std::{env::VarError, fmt, path::Path};

use serde::{Deserialize, Serialize, Serializer};
use subtle::ConstantTimeEq;

/// A key, password or token: used and compared, but printed neither by `Debug` nor by serialization.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// A secret.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// A secret out of a file, without the blanks and line ends around it. The error names the file.
    pub fn from_file(path: &Path) -> Result<Self, String> {
        let place = format!("file {}", path.display());
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|error| format!("{place} cannot be read: {error}"))?;
        Self::trimmed(&text, &place)
    }

    /// A secret out of a variable of the environment, in the same way.
    pub fn from_env(name: &str) -> Result<Self, String> {
        let place = format!("environment variable {name}");
        let text = std::env::var(name).map_err(|error| match error {
            VarError::NotPresent => format!("{place} is not set"),
            VarError::NotUnicode(_) => format!("{place} is not valid UTF-8"),
        })?;
        Self::trimmed(&text, &place)
    }

    /// The secret that settings give as `name` itself or as `name`_file; an empty one is none.
    pub fn given(
        name: &str,
        value: Option<&Self>,
        file: Option<&Path>,
    ) -> Result<Option<Self>, String> {
        match (value.filter(|value| !value.is_empty()), file) {
            (Some(_), Some(_)) => Err(format!("and {name} are both set; keep one of them")),
            (None, Some(file)) => Self::from_file(file).map(Some),
            (value, None) => Ok(value.cloned()),
        }
    }

    fn trimmed(text: &str, place: &str) -> Result<Self, String> {
        match text.trim() {
            "" => Err(format!("{place} is empty")),
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

    /// Compares in constant time. Nothing matches an empty secret.
    pub fn matches(&self, guess: &str) -> bool {
        let is_equal = self.0.as_bytes().ct_eq(guess.as_bytes());
        !self.is_empty() && bool::from(is_equal)
    }

    /// A text without this secret.
    pub fn mask_in(&self, text: &str) -> String {
        if self.is_empty() {
            return text.to_owned();
        }
        text.replace(&self.0, crate::MASK)
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
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

    /// An unset key admits no caller.
    #[test]
    fn only_the_very_text_matches() {
        let table = [
            ("tulip", "tulip", true),
            ("tulip", "Tulip", false),
            ("tulip", "tulip ", false),
            ("tulip", "", false),
            ("", "", false),
        ];
        for (secret, guess, is_equal) in table {
            let secret = Secret::new(secret);
            assert_eq!(secret.matches(guess), is_equal, "{guess:?}");
            let shown = format!("{secret:?} {}", serde_json::to_string(&secret).unwrap());
            assert!(!shown.contains("tulip"), "{shown}");
        }
    }

    #[test]
    fn a_file_is_read_without_its_line_end() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "tulip\n").unwrap();
        let secret = Secret::from_file(file.path()).unwrap();
        assert_eq!(secret.reveal(), "tulip");
        let given = |value, file| Secret::given("key", value, file);
        let beside = given(Some(&secret), Some(file.path())).unwrap_err();
        assert_eq!(beside, "and key are both set; keep one of them");
        let empty = Secret::new("");
        let read = given(Some(&empty), Some(file.path()));
        assert_eq!(read, Ok(Some(secret.clone())));
        assert_eq!(given(Some(&empty), None), Ok(None));
        std::fs::write(file.path(), "\n").unwrap();
        let error = Secret::from_file(file.path()).unwrap_err();
        assert!(error.starts_with("file /"), "{error}");
        assert!(error.ends_with("is empty"), "{error}");
    }

    #[test]
    fn a_missing_variable_is_named() {
        let error = Secret::from_env("CONSIGN_TEST_NOT_SET").unwrap_err();
        let expected = "environment variable CONSIGN_TEST_NOT_SET is not set";
        assert_eq!(error, expected);
    }

    #[test]
    fn text_is_shown_without_the_secret() {
        let text = "tulip refused: tulip";
        let masked = Secret::new("tulip").mask_in(text);
        assert_eq!(masked, "[REDACTED] refused: [REDACTED]");
        assert_eq!(Secret::new("").mask_in(text), text);
    }
}
