//! Errors of a store.
//!
//! A stale lease is not an error but an answer (see `SettleAnswer`, `RenewAnswer`, `BeginAnswer`).
//! Errors are for invalid calls and for database failures.

use std::error::Error as StdError;

use crate::{MessageId, QueueName, RedriveId, ScheduleName};

/// The result of a store operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Whether a failed operation is known not to have happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certainty {
    /// Nothing was written.
    Definite,
    /// The operation may have been committed: the reply was lost.
    Unknown,
}

/// What went wrong, with what was being attempted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The queue has not been created.
    #[error("queue {queue:?} does not exist{}; `consign queues` lists existing ones, \
             `consign queues set {queue}` creates it",
        suggestion.as_ref().map(|name| format!(" (did you mean {name:?}?)")).unwrap_or_default())]
    UnknownQueue {
        /// The name in the call.
        queue: String,
        /// A queue with a similar name, where one exists.
        suggestion: Option<String>,
    },
    /// The key was used before in this queue for a different payload or group.
    #[error(
        "key {key:?} in queue {queue} already names {}, whose payload or group differs; nothing was \
         enqueued. Use a new key, or send the same payload and group",
        id.map_or("another message of this call".to_owned(), |id| format!("message {id}"))
    )]
    KeyConflict {
        /// Queue whose policy applies.
        queue: QueueName,
        /// Idempotency key: unique in its queue, 1 to 512 bytes.
        key: String,
        /// The message that holds the key; none if it is in the same call.
        id: Option<MessageId>,
    },
    /// A payload is larger than its queue allows.
    #[error(
        "message {index}: payload is {bytes} bytes, queue {queue} allows {bytes_max}; nothing \
             was enqueued. Store the data elsewhere and send a reference, or raise payload_max_bytes"
    )]
    PayloadTooLarge {
        /// Position of the message in the call, from 0.
        index: usize,
        /// Queue whose policy applies.
        queue: QueueName,
        /// Size as compact JSON.
        bytes: usize,
        /// The queue's limit.
        bytes_max: usize,
    },
    /// An argument cannot be accepted.
    #[error("{what}: {why}")]
    InvalidInput {
        /// Which argument.
        what: String,
        /// What is wrong with it and what is accepted.
        why: String,
    },
    /// `ordered` cannot change while messages of the queue are unfinished.
    #[error(
        "queue {queue} has unfinished messages, so `ordered` cannot change; drain the queue first"
    )]
    QueueNotEmpty {
        /// Queue whose policy applies.
        queue: QueueName,
    },
    /// The queue belongs to an app that this process does not have.
    #[error(
        "queue {queue} belongs to the app {app:?}, which is not enabled in this process, so its hook would \
         not run; nothing was changed. Enable the app, or use a process that has it"
    )]
    AppNotEnabled {
        /// Queue whose policy applies.
        queue: String,
        /// Name of the app, as in the setting `apps`.
        app: String,
    },
    /// There is no such redrive.
    #[error("redrive {id} does not exist; `consign redrive ls` lists existing ones")]
    UnknownRedrive {
        /// The id in the call.
        id: RedriveId,
    },
    /// There is no such schedule.
    #[error("schedule {name} does not exist; `consign schedules` lists existing ones")]
    UnknownSchedule {
        /// The name in the call.
        name: ScheduleName,
    },
    /// No lease has a token that begins like this.
    #[error("no lease has a token that begins with {prefix}; `consign leases` lists existing ones")]
    UnknownLease {
        /// The prefix in the call.
        prefix: String,
    },
    /// The database's schema does not fit this program.
    #[error(
        "the database schema of {component} is at version {found}, this program needs {needed}; \
         {remedy}"
    )]
    Schema {
        /// The engine, or the app whose tables do not fit.
        component: String,
        /// Version found, 0 for none.
        found: i64,
        /// Version this program needs.
        needed: i64,
        /// What to do.
        remedy: &'static str,
    },
    /// A step of the schema cannot be applied. All steps are one transaction.
    #[error(
        "migration {version} of {component} ({name}) cannot be applied: {why}; nothing was changed"
    )]
    Migration {
        /// The component it belongs to.
        component: &'static str,
        /// The step.
        version: i64,
        /// What it is about.
        name: &'static str,
        /// The obstacle, and what to do about it.
        why: String,
    },
    /// The role connected as may not do this.
    #[error("not permitted: {what}")]
    Forbidden {
        /// The database's message.
        what: String,
    },
    /// The database could not be reached or did not answer.
    #[error("{attempted}: the database is not available")]
    Unavailable {
        /// What the store was doing.
        attempted: &'static str,
        /// Whether it may have happened all the same.
        certainty: Certainty,
        /// The cause.
        #[source]
        source: Box<dyn StdError + Send + Sync>,
    },
    /// Another transaction holds what the operation needs, and did not end in time.
    #[error(
        "{attempted}: timed out waiting for a lock that another transaction holds, such as one that \
         enqueues the same key and has not ended; nothing was written. Try again when it has ended"
    )]
    Locked {
        /// What the store was doing.
        attempted: &'static str,
    },
    /// The database holds something no version of consign writes.
    #[error("inconsistent data, see `consign doctor`: {what}")]
    Corrupt {
        /// What was found.
        what: String,
    },
}

impl Error {
    /// An argument error.
    pub fn invalid(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self::InvalidInput {
            what: what.into(),
            why: why.into(),
        }
    }

    /// A group of a queue that does not order its groups.
    pub fn not_ordered(queue: &QueueName) -> Self {
        let why = "is not ordered, so no message of a group waits for another; discard or cancel the \
                   message by its id";
        Self::invalid(format!("queue {queue}"), why)
    }

    /// A redrive of a queue whose app has no such end for its messages.
    pub fn not_closable(queue: &QueueName) -> Self {
        let why =
            "belongs to an app that has no such end for its messages; use the commands of the app";
        Self::invalid(format!("queue {queue}"), why)
    }

    /// An argument whose value is out of bounds: a number, or a [`quoted`](crate::quoted) text.
    pub fn out_of_bounds(
        what: impl Into<String>,
        value: impl std::fmt::Display,
        bounds: impl std::fmt::Display,
    ) -> Self {
        Self::invalid(what, format!("is {value}; {bounds}"))
    }

    /// Whether the operation is known not to have been committed.
    pub fn certainty(&self) -> Certainty {
        match self {
            Self::Unavailable { certainty, .. } => *certainty,
            _ => Certainty::Definite,
        }
    }

    /// The same error of an operation that writes nothing, so that nothing can have happened.
    pub fn of_read(self) -> Self {
        match self {
            Self::Unavailable {
                attempted, source, ..
            } => Self::Unavailable {
                attempted,
                certainty: Certainty::Definite,
                source,
            },
            error => error,
        }
    }

    /// Whether the same call may succeed later.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::Locked { .. })
    }

    /// A stable code for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::UnknownQueue { .. } => "unknown_queue",
            Self::KeyConflict { .. } => "key_conflict",
            Self::PayloadTooLarge { .. } => "payload_too_large",
            Self::InvalidInput { .. } => "invalid_input",
            Self::QueueNotEmpty { .. } => "queue_not_empty",
            Self::AppNotEnabled { .. } => "app_not_enabled",
            Self::UnknownRedrive { .. } => "unknown_redrive",
            Self::UnknownSchedule { .. } => "unknown_schedule",
            Self::UnknownLease { .. } => "unknown_lease",
            Self::Schema { .. } => "schema_mismatch",
            Self::Migration { .. } => "migration_failed",
            Self::Forbidden { .. } => "forbidden",
            Self::Unavailable { .. } => "database_unavailable",
            Self::Locked { .. } => "locked",
            Self::Corrupt { .. } => "corrupt",
        }
    }
}

/// An error and its causes on one line. A cause that the text above it ends with is not repeated:
/// many libraries print it themselves and name it as their source as well.
pub fn with_causes(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let words = error.to_string();
        if !text.ends_with(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("talking to the server: {0}")]
    struct RepeatedCause(#[source] io::Error);

    #[test]
    fn a_cause_is_printed_once() {
        let error = Error::Unavailable {
            attempted: "connect",
            certainty: Certainty::Definite,
            source: Box::new(RepeatedCause(io::Error::other("connection refused"))),
        };
        assert_eq!(
            with_causes(&error),
            "connect: the database is not available: talking to the server: connection refused"
        );
    }

    #[test]
    fn a_failed_read_has_not_happened() {
        let error = Error::Unavailable {
            attempted: "list",
            certainty: Certainty::Unknown,
            source: "the connection broke".into(),
        };
        assert_eq!(error.of_read().certainty(), Certainty::Definite);
    }
}
