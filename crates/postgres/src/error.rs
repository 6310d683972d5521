//! From the database's errors to the kernel's.

use std::{error::Error as StdError, fmt};

use consign_kernel::{Certainty, ENGINE, Error, MessageId, QueueName, RedriveId};
use serde_json::Value;
use sqlx::postgres::{PgDatabaseError, PgSeverity};

use crate::migrate::ENGINE_MIGRATIONS;

/// SQLSTATEs of the functions in schema `consign`; docs/sql.md explains them.
#[expect(missing_docs, reason = "documented by their names")]
pub mod sqlstate {
    pub const UNKNOWN_QUEUE: &str = "CN001";
    pub const KEY_CONFLICT: &str = "CN002";
    pub const LEASE_LOST: &str = "CN003";
    pub const NOT_IN_LEASE: &str = "CN004";
    pub const PAYLOAD_TOO_LARGE: &str = "CN005";
    pub const INVALID_INPUT: &str = "CN006";
    pub const QUEUE_NOT_EMPTY: &str = "CN007";
    pub const UNKNOWN_REDRIVE: &str = "CN008";
    pub const UNKNOWN_LEASE: &str = "CN012";
    pub const UNKNOWN_SCHEDULE: &str = "CN014";
    /// The server ended a statement, as a rule because it took too long.
    pub const CANCELED: &str = "57014";
    /// A lock could not be had in time.
    pub const LOCK_TIMEOUT: &str = "55P03";
    /// An exception without a code of its own, as triggers raise it.
    pub const RAISED: &str = "P0001";
    /// Program limit exceeded.
    pub const TOO_MUCH: &str = "54000";
}

/// The error of the server or the connection, in one line and once: sqlx repeats it, and names a
/// line of the server's own source code.
#[derive(Debug)]
struct Cause(sqlx::Error);

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use std::io::ErrorKind::{ConnectionRefused, NotFound};
        match (&self.0, database_error(&self.0)) {
            (_, Some(error)) => {
                let (code, message) = (error.code(), error.message());
                match code {
                    // The language of the server's messages must not matter: classifiers of failures distinguish
                    // a slow database from a broken one by this text.
                    sqlstate::CANCELED => {
                        write!(f, "the statement timed out (SQLSTATE {code}): {message}")
                    }
                    _ => write!(f, "{message} (SQLSTATE {code})"),
                }
            }
            (sqlx::Error::Io(error), _) => match error.kind() {
                ConnectionRefused | NotFound => write!(f, "{error}; is the server running?"),
                _ => error.fmt(f),
            },
            (error, _) => error.fmt(f),
        }
    }
}

impl StdError for Cause {}

/// The SQLSTATE that a failed operation ended with, if the server gave one.
pub fn sqlstate_of(error: &Error) -> Option<&str> {
    let Error::Unavailable { source, .. } = error else {
        return None;
    };
    let Cause(error) = source.downcast_ref()?;
    state_of(error)
}

/// An error that the store returns as an answer.
pub(crate) enum Refusal {
    LeaseLost,
    NotInLease(Vec<MessageId>),
}

/// The refusal behind an error, if it is one.
pub(crate) fn refusal(error: &sqlx::Error) -> Option<Refusal> {
    let database = database_error(error)?;
    match database.code() {
        sqlstate::LEASE_LOST => Some(Refusal::LeaseLost),
        sqlstate::NOT_IN_LEASE => {
            let ids = serde_json::from_value(detail(database)["ids"].clone()).ok()?;
            Some(Refusal::NotInLease(ids))
        }
        _ => None,
    }
}

/// The SQLSTATE behind an error, if the server gave one.
pub fn state_of(error: &sqlx::Error) -> Option<&str> {
    database_error(error).map(PgDatabaseError::code)
}

/// The server's hint, if there is one.
pub(crate) fn hint_of(error: &sqlx::Error) -> Option<&str> {
    database_error(error).and_then(PgDatabaseError::hint)
}

/// Whether a completion was refused because the lease recorded something else before.
pub fn is_recorded_otherwise(error: &sqlx::Error) -> bool {
    database_error(error).is_some_and(|error| detail(error)["reason"] == "recorded_otherwise")
}

/// Whether a connection can be used again after this error: the server answered, and goes on.
pub(crate) fn leaves_the_connection_usable(error: &sqlx::Error) -> bool {
    database_error(error).is_some_and(|error| {
        let is_fatal = matches!(error.severity(), PgSeverity::Fatal | PgSeverity::Panic);
        !is_fatal && !error.code().starts_with("57P") && !error.code().starts_with("08")
    })
}

/// The kernel's error for what went wrong while `attempted`.
pub fn store_error(attempted: &'static str, error: sqlx::Error) -> Error {
    match database_error(&error).and_then(call_error) {
        Some(error) => error,
        None if state_of(&error) == Some(sqlstate::LOCK_TIMEOUT) => Error::Locked { attempted },
        None => Error::Unavailable {
            attempted,
            certainty: certainty(&error),
            source: Box::new(Cause(error)),
        },
    }
}

/// Errors about the call rather than about the database.
fn call_error(error: &PgDatabaseError) -> Option<Error> {
    let detail = detail(error);
    let text = |field: &str| detail[field].as_str().unwrap_or_default().to_owned();
    let number = |field: &str| detail[field].as_u64().unwrap_or_default() as usize;
    let queue = || text("queue").parse::<QueueName>().ok();
    match error.code() {
        sqlstate::UNKNOWN_QUEUE => Some(Error::UnknownQueue {
            queue: text("queue"),
            suggestion: None,
        }),
        sqlstate::KEY_CONFLICT => Some(Error::KeyConflict {
            queue: queue()?,
            key: text("key"),
            id: detail["id"].as_i64().map(MessageId),
        }),
        sqlstate::PAYLOAD_TOO_LARGE => Some(Error::PayloadTooLarge {
            index: number("index"),
            queue: queue()?,
            bytes: number("bytes"),
            bytes_max: number("bytes_max"),
        }),
        sqlstate::QUEUE_NOT_EMPTY => Some(Error::QueueNotEmpty { queue: queue()? }),
        sqlstate::UNKNOWN_REDRIVE => Some(Error::UnknownRedrive {
            id: RedriveId(detail["id"].as_i64()?),
        }),
        sqlstate::UNKNOWN_SCHEDULE => Some(Error::UnknownSchedule {
            name: text("name").parse().ok()?,
        }),
        sqlstate::UNKNOWN_LEASE => Some(Error::UnknownLease {
            prefix: text("prefix"),
        }),
        code if code == sqlstate::INVALID_INPUT || is_of_an_app(code) => {
            let (what, why) = error
                .message()
                .split_once(": ")
                .unwrap_or(("input", error.message()));
            Some(match error.hint() {
                Some(hint) => Error::invalid(what, format!("{why}. {hint}")),
                None => Error::invalid(what, why),
            })
        }
        // A text or a document the database cannot represent, such as U+0000.
        "22021" | "22P05" | "22P02" => Some(Error::invalid("input", error.message())),
        "42501" => Some(Error::Forbidden {
            what: match error.hint() {
                Some(hint) => format!("{}. {hint}", error.message()),
                None => error.message().to_owned(),
            },
        }),
        // Undefined table, schema or function: the migrations have not been run.
        "42P01" | "3F000" | "42883" => Some(not_migrated()),
        _ => None,
    }
}

/// Whether a SQLSTATE is one that functions of apps refuse with: of the classes that the SQL standard
/// leaves to implementations, those that PostgreSQL does not use.
fn is_of_an_app(code: &str) -> bool {
    code.starts_with(|first: char| first.is_ascii_uppercase() && first >= 'I')
        && !code.starts_with("P0")
        && !code.starts_with("XX")
}

/// The error of a database without the tables and functions that a statement needs.
fn not_migrated() -> Error {
    Error::Schema {
        component: ENGINE.to_owned(),
        found: 0,
        needed: ENGINE_MIGRATIONS.len() as i64,
        remedy: "run `consign migrate` first",
    }
}

/// Whether a failed statement, which commits by itself, is known not to have been committed.
fn certainty(error: &sqlx::Error) -> Certainty {
    match error {
        sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed | sqlx::Error::Configuration(_) => {
            Certainty::Definite
        }
        sqlx::Error::Database(_) => match database_error(error).map(PgDatabaseError::code) {
            // The server went away under the statement, perhaps after its commit.
            Some(code) if code.starts_with("57P") || code.starts_with("08") => Certainty::Unknown,
            _ => Certainty::Definite,
        },
        // Refused connections never carried the statement; anything else may have.
        sqlx::Error::Io(io) if io.kind() == std::io::ErrorKind::ConnectionRefused => {
            Certainty::Definite
        }
        _ => Certainty::Unknown,
    }
}

fn database_error(error: &sqlx::Error) -> Option<&PgDatabaseError> {
    error
        .as_database_error()
        .and_then(|error| error.try_downcast_ref::<PgDatabaseError>())
}

fn detail(error: &PgDatabaseError) -> Value {
    error
        .detail()
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or(Value::Null)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinguishes_a_rejection_by_an_app_from_server_errors() {
        assert!(is_of_an_app("P7005"));
        for code in [
            "P0001", "XX000", "HV000", "55P03", "42501", "23505", "CN003",
        ] {
            assert!(!is_of_an_app(code), "{code}");
        }
    }
}
