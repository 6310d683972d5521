//! What goes wrong, in the words and exit codes of the command line.

use std::{
    io::{self, Write},
    process::ExitCode,
};

pub(crate) use consign_kernel::with_causes;
use consign_kernel::{Certainty, Error};
use serde_json::json;

use crate::output::readable;

/// How a command ends. The numbers are part of the interface; `--help` lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// All is well.
    Fine = 0,
    /// Something is wrong with the data, or a message could not be moved.
    Wrong = 1,
    /// The command line does not make sense.
    Usage = 2,
    /// The input was refused.
    Refused = 3,
    /// There is no such thing.
    NotFound = 4,
    /// The database cannot be used.
    Unavailable = 5,
    /// Interrupted twice (SIGINT) while it was finishing.
    Interrupted = 130,
    /// Told to end twice (SIGTERM) while it was finishing.
    Terminated = 143,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

/// Why a command stopped.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Whoever read our output went away, which is their right.
    BrokenPipe,
    /// Anything a person must hear about.
    Told {
        /// How the program ends.
        exit: Exit,
        /// A stable word for programs.
        code: &'static str,
        /// What was wrong, where, and what to do.
        message: String,
        /// The queue that the database does not have, where that is what was wrong.
        unknown_queue: Option<String>,
    },
}

impl Failure {
    pub(crate) fn new(exit: Exit, code: &'static str, message: impl Into<String>) -> Self {
        Self::Told {
            exit,
            code,
            message: message.into(),
            unknown_queue: None,
        }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, "usage", message)
    }

    pub(crate) fn refused(message: impl Into<String>) -> Self {
        Self::new(Exit::Refused, "invalid_input", message)
    }

    pub(crate) fn no_such_message(id: consign_kernel::MessageId) -> Self {
        let message = format!("there is no message {id}; `consign ls` lists those there are");
        Self::new(Exit::NotFound, "no_such_message", message)
    }

    /// The word for programs.
    pub(crate) fn code(&self) -> Option<&'static str> {
        match self {
            Self::BrokenPipe => None,
            Self::Told { code, .. } => Some(code),
        }
    }

    /// What was wrong, for people.
    pub(crate) fn message(&self) -> &str {
        match self {
            Self::BrokenPipe => "nobody reads the output",
            Self::Told { message, .. } => message,
        }
    }

    /// The queue that the database does not have, where that is what was wrong.
    pub(crate) fn unknown_queue(&self) -> Option<&str> {
        match self {
            Self::BrokenPipe => None,
            Self::Told { unknown_queue, .. } => unknown_queue.as_deref(),
        }
    }

    /// The same failure, its message rewritten.
    pub(crate) fn map_message(mut self, rewrite: impl FnOnce(String) -> String) -> Self {
        if let Self::Told { message, .. } = &mut self {
            *message = rewrite(std::mem::take(message));
        }
        self
    }

    /// Says what happened on standard error and answers with the exit code.
    pub(crate) fn report(self, json: bool) -> ExitCode {
        let Self::Told {
            exit,
            code,
            message,
            ..
        } = self
        else {
            return Exit::Fine.into();
        };
        let text = if json {
            json!({"error": {"code": code, "message": message}}).to_string()
        } else {
            readable(&format!("consign: {message}"))
        };
        // With standard error closed there is nobody left to tell; the exit code still speaks.
        writeln!(io::stderr(), "{text}").map_or_else(|_| exit.into(), |()| exit.into())
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let exit = match &error {
            Error::UnknownQueue { .. }
            | Error::KeyConflict { .. }
            | Error::PayloadTooLarge { .. }
            | Error::InvalidInput { .. }
            | Error::AppNotEnabled { .. }
            | Error::QueueNotEmpty { .. } => Exit::Refused,
            Error::UnknownRedrive { .. } | Error::UnknownLease { .. } => Exit::NotFound,
            Error::Corrupt { .. } => Exit::Wrong,
            _ => Exit::Unavailable,
        };
        let mut message = with_causes(&error);
        if error.certainty() == Certainty::Unknown {
            message.push_str(". It may have happened all the same: look before you repeat it");
        }
        let code = error.code();
        let unknown_queue = match error {
            Error::UnknownQueue { queue, .. } => Some(queue),
            _ => None,
        };
        Self::Told {
            exit,
            code,
            message,
            unknown_queue,
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::BrokenPipe;
        }
        Self::new(Exit::Wrong, "io", with_causes(&error))
    }
}
