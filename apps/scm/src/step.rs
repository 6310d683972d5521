//! Results of the steps of a repository.

use jiff::Timestamp;
use serde::Serialize;

/// Maximum stored length of a message.
const MESSAGE_CHARS_MAX: usize = 1_000;

/// Steps of a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Reading new records.
    Sync,
    /// Making memories of them.
    Consume,
}

impl Step {
    /// The stored value.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sync => "sync",
            Self::Consume => "consume",
        }
    }
}

/// Result of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Nothing is left to do.
    Complete,
    /// The limit was reached, without a failure.
    Partial,
    /// A failure stopped it.
    Stopped {
        /// For programs.
        code: String,
        /// For people.
        message: String,
    },
}

impl End {
    /// A failure. The message is cut to what a database keeps.
    pub fn stopped(code: &str, message: &str) -> Self {
        let kept = message.chars().filter(|c| *c != '\0');
        Self::Stopped {
            code: code.to_owned(),
            message: kept.take(MESSAGE_CHARS_MAX).collect(),
        }
    }

    /// Code and message of the failure.
    pub fn trouble(&self) -> Option<(&str, &str)> {
        match self {
            Self::Stopped { code, message } => Some((code, message)),
            Self::Complete | Self::Partial => None,
        }
    }
}

/// Why the last run of a step stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Stop {
    /// For programs.
    pub code: String,
    /// For people.
    pub message: String,
    /// When, by the database's clock.
    pub at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_kept_as_a_database_can() {
        let long = format!("a\0b{}", "\u{e4}".repeat(MESSAGE_CHARS_MAX));
        let end = End::stopped("X", &long);
        let (code, message) = end.trouble().expect("it stopped");
        assert_eq!(code, "X");
        assert!(message.starts_with("ab\u{e4}"), "{message}");
        assert_eq!(message.chars().count(), MESSAGE_CHARS_MAX);
        assert_eq!(End::Complete.trouble(), None);
    }
}
