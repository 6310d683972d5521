//! Maps SQLite's errors to those of the kernel.

use std::{error::Error as StdError, fmt, path::Path, sync::Arc};

use consign_kernel::{Certainty, Error};

/// Why an operation did not succeed, before it is known what was being attempted.
#[derive(Debug)]
pub enum Failure {
    /// The call is invalid; nothing was written.
    Refused(Error),
    /// The database could not do it.
    Database(sqlx::Error),
}

/// The result of an operation inside a transaction.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

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
    pub fn corrupt(what: impl Into<String>) -> Self {
        Self::Refused(Error::Corrupt { what: what.into() })
    }

    /// Whether the file is damaged.
    pub(crate) fn is_damage(&self) -> bool {
        match self {
            Self::Refused(error) => matches!(error, Error::Corrupt { .. }),
            Self::Database(error) => {
                is_decoding(error) || matches!(primary_code(error), Some(CORRUPT | NOT_A_DATABASE))
            }
        }
    }

    /// The kernel's error for a failure before COMMIT: nothing was written.
    pub fn during(self, attempted: &'static str) -> Error {
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
        source: Box::new(Cause(error)),
    }
}

/// The kernel's error for a writer that is no longer there. Whether its last job was committed is unknown.
pub(crate) fn closed(attempted: &'static str) -> Error {
    Error::Unavailable {
        attempted,
        certainty: Certainty::Unknown,
        source: "the store's writer has ended".into(),
    }
}

/// The kernel's error for a statement that failed while nothing was committed.
pub fn from_database(attempted: &'static str, error: sqlx::Error) -> Error {
    from_shared(attempted, Arc::new(error))
}

/// The same, of an error that several callers share.
pub(crate) fn from_shared(attempted: &'static str, error: Arc<sqlx::Error>) -> Error {
    let words = words(&error);
    match primary_code(&error) {
        Some(PERM | READONLY | AUTH) => Error::Forbidden {
            what: format!("{attempted}: {words}; {RIGHTS}"),
        },
        Some(NOT_A_DATABASE) => Error::Corrupt {
            what: "the file is not an SQLite database; name another file".to_owned(),
        },
        Some(CORRUPT) => Error::Corrupt {
            what: format!("{attempted}: {words}; restore the file from a backup"),
        },
        Some(ERROR | CONSTRAINT | MISMATCH) => Error::Corrupt {
            what: format!("{attempted}: {words}"),
        },
        None if is_decoding(&error) => Error::Corrupt {
            what: format!("{attempted}: {words}"),
        },
        _ => Error::Unavailable {
            attempted,
            certainty: Certainty::Definite,
            source: Box::new(Cause(error)),
        },
    }
}

/// The kernel's error for a file that could not be opened: SQLite gives no reason.
pub(crate) fn from_opening(attempted: &'static str, path: &Path, error: sqlx::Error) -> Error {
    if primary_code(&error) != Some(CANNOT_OPEN) {
        return from_database(attempted, error);
    }
    let why = if path.is_dir() {
        "it is a folder; name a file in it".to_owned()
    } else {
        match std::fs::File::open(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                format!("{error}; {RIGHTS}")
            }
            _ => format!("{}; {RIGHTS}", words(&error)),
        }
    };
    Error::Unavailable {
        attempted,
        certainty: Certainty::Definite,
        source: why.into(),
    }
}

/// What the user of a file needs, to read it as well.
const RIGHTS: &str = "this user must be able to write the file and its folder, where SQLite keeps \
                      its log";

/// SQLite's message, once: sqlx prints it with a preamble and names it as its cause as well.
fn words(error: &sqlx::Error) -> String {
    match error.as_database_error() {
        Some(error) => error.message().to_owned(),
        None => error.to_string(),
    }
}

/// SQLite's error message.
#[derive(Debug)]
struct Cause(Arc<sqlx::Error>);

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&words(&self.0))
    }
}

impl StdError for Cause {}

/// SQLite's message about a statement that cannot run in this file, such as one that creates a table
/// that exists.
pub(crate) fn statement_words(error: &sqlx::Error) -> Option<String> {
    (primary_code(error) == Some(ERROR)).then(|| words(error))
}

pub(crate) fn is_busy(error: &sqlx::Error) -> bool {
    primary_code(error) == Some(BUSY)
}

/// Whether a trigger or a constraint rejected the write: trying again
/// does not help.
pub fn is_refusal(error: &sqlx::Error) -> bool {
    matches!(primary_code(error), Some(CONSTRAINT | MISMATCH | TOO_BIG))
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
const CANNOT_OPEN: u32 = 14;
const TOO_BIG: u32 = 18;
const CONSTRAINT: u32 = 19;
const MISMATCH: u32 = 20;
const AUTH: u32 = 23;
const NOT_A_DATABASE: u32 = 26;
