//! Why a sink could not be made.

/// A sink's configuration that cannot be used. Never holds a secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SinkError {
    /// An option has a value that makes no sense.
    #[error("sink option `{option}` {reason}")]
    Invalid {
        /// The option, as written in the configuration.
        option: String,
        /// What is wrong with it and what would be right; continues the sentence.
        reason: String,
    },
    /// A secret is not at its configured place.
    #[error("sink option `{option}`: {reason}")]
    Secret {
        /// The option, as written in the configuration.
        option: String,
        /// The variable or file where it should be, and what is wrong there.
        reason: String,
    },
}

impl SinkError {
    /// An option with a value that makes no sense; `reason` continues the sentence.
    pub fn invalid(option: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Invalid {
            option: option.into(),
            reason: reason.into(),
        }
    }
}
