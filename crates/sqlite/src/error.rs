//! From what SQLite says to what the kernel's callers can act on.

use std::sync::Arc;

use consign_kernel::{Certainty, Error};

/// Why an operation did not succeed, before it is known what was being attempted.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The caller asked for something that cannot be; nothing was written.
    Refused(Error),
    /// The database could not do it.
    Database(sqlx::Error),
}

pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl From<sqlx::Error> for Failure {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error)
    }
}

impl Failure {
    /// Something in the file that no version of consign writes.
    pub(crate) fn corrupt(what: impl Into<String>) -> Self {
        Self::Refused(Error::Corrupt { what: what.into() })
    }

    /// The kernel's error for a failure before COMMIT: nothing was written.
    pub(crate) fn during(self, attempted: &'static str) -> Error {
        match self {
            Self::Refused(error) => error,
            Self::Database(error) => from_database(attempted, error),
        }
    }
}

/// The kernel's error for a COMMIT that several callers shared.
///
/// A busy database has not committed. After anything else the commit record may have reached the
/// log, from where the next one to open the file would recover it.
pub(crate) fn from_commit(attempted: &'static str, error: Arc<sqlx::Error>) -> Error {
    let busy = primary_code(&error).is_some_and(|code| matches!(code, BUSY | LOCKED));
    Error::Unavailable {
        attempted,
        certainty: if busy {
            Certainty::Definite
        } else {
            Certainty::Unknown
        },
        source: Box::new(error),
    }
}

/// The kernel's error for a writer that is no longer there. What it was doing is anybody's guess.
pub(crate) fn closed(attempted: &'static str) -> Error {
    Error::Unavailable {
        attempted,
        certainty: Certainty::Unknown,
        source: "the store's writer has ended".into(),
    }
}

/// The kernel's error for a statement that failed while nothing was committed.
pub(crate) fn from_database(attempted: &'static str, error: sqlx::Error) -> Error {
    from_shared(attempted, Arc::new(error))
}

/// The same, of an error that several callers share.
pub(crate) fn from_shared(attempted: &'static str, error: Arc<sqlx::Error>) -> Error {
    match primary_code(&error) {
        Some(PERM | READONLY | AUTH) => Error::Forbidden {
            what: error.to_string(),
        },
        Some(ERROR | CORRUPT | CONSTRAINT | MISMATCH | NOT_A_DATABASE) => Error::Corrupt {
            what: format!("{attempted}: {error}"),
        },
        None if is_decoding(&error) => Error::Corrupt {
            what: format!("{attempted}: {error}"),
        },
        _ => Error::Unavailable {
            attempted,
            certainty: Certainty::Definite,
            source: Box::new(error),
        },
    }
}

pub(crate) fn is_busy(error: &sqlx::Error) -> bool {
    primary_code(error) == Some(BUSY)
}

/// Whether SQLite refused to make so long a text.
pub(crate) fn is_too_big(error: &sqlx::Error) -> bool {
    primary_code(error) == Some(TOO_BIG)
}

fn is_decoding(error: &sqlx::Error) -> bool {
    use sqlx::Error::{ColumnDecode, ColumnIndexOutOfBounds, Decode, RowNotFound, TypeNotFound};
    matches!(
        error,
        ColumnDecode { .. }
            | ColumnIndexOutOfBounds { .. }
            | Decode(_)
            | RowNotFound
            | TypeNotFound { .. }
    )
}

/// SQLite's result code without the extension in its upper bytes.
fn primary_code(error: &sqlx::Error) -> Option<u32> {
    let code = error.as_database_error()?.code()?;
    code.parse::<u32>().ok().map(|code| code & 0xff)
}

// SQLite's primary result codes, by its own names.
const ERROR: u32 = 1;
const PERM: u32 = 3;
const BUSY: u32 = 5;
const LOCKED: u32 = 6;
const READONLY: u32 = 8;
const CORRUPT: u32 = 11;
const TOO_BIG: u32 = 18;
const CONSTRAINT: u32 = 19;
const MISMATCH: u32 = 20;
const AUTH: u32 = 23;
const NOT_A_DATABASE: u32 = 26;
