//! How the steps of a repository end, for whoever asks later.

use jiff::Timestamp;
use serde::Serialize;

/// What is kept of a message: enough to know what is in the way.
const MESSAGE_CHARS_MAX: usize = 1_000;

/// What is done with a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Reading what is new.
    Sync,
    /// Making memories of it.
    Consume,
}

impl Step {
    /// As it is stored.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sync => "sync",
            Self::Consume => "consume",
        }
    }
}

/// How a step ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// There was nothing more to do.
    Complete,
    /// It did as much as it was told to, and nothing was in the way.
    Partial,
    /// Something was in the way.
    Stopped {
        /// For programs.
        code: String,
        /// For people.
        message: String,
    },
}

impl End {
    /// Something was in the way. The message is cut to what a database keeps.
    pub fn stopped(code: &str, message: &str) -> Self {
        let kept = message.chars().filter(|c| *c != '\0');
        Self::Stopped {
            code: code.to_owned(),
            message: kept.take(MESSAGE_CHARS_MAX).collect(),
        }
    }

    /// What was in the way.
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
        let told = format!("a\0b{}", "\u{e4}".repeat(MESSAGE_CHARS_MAX));
        let end = End::stopped("X", &told);
        let (code, message) = end.trouble().expect("it stopped");
        assert_eq!(code, "X");
        assert!(message.starts_with("ab\u{e4}"), "{message}");
        assert_eq!(message.chars().count(), MESSAGE_CHARS_MAX);
        assert_eq!(End::Complete.trouble(), None);
    }
}
