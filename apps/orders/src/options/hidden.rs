//! Text that is used but never shown.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};

/// A secret of the configuration: neither logs nor listings show it.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Hidden(String);

impl Hidden {
    /// Whether there is none: an empty variable of the environment.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The text itself.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl From<String> for Hidden {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hidden")
    }
}

impl Serialize for Hidden {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        "(hidden)".serialize(serializer)
    }
}
