//! Failures of the command line: text and exit code.

use std::{
    io::{self, Write},
    process::ExitCode,
};

pub use consign_kernel::with_causes;
use consign_kernel::{Certainty, Error};
use serde_json::json;

use crate::{
    color::{Colors, Paint},
    output::readable,
};

/// How a command ends. The numbers are part of the interface; `--help` lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Success.
    Fine = 0,
    /// Something is wrong with the data, or a message could not be moved.
    Wrong = 1,
    /// The command line is invalid.
    Usage = 2,
    /// The input was rejected.
    Refused = 3,
    /// There is no such thing.
    NotFound = 4,
    /// The database cannot be used.
    Unavailable = 5,
    /// A second SIGINT while it was draining.
    Interrupted = 130,
    /// A second SIGTERM while it was draining.
    Terminated = 143,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

/// Why a command stopped.
#[derive(Debug)]
pub enum Failure {
    /// The reader of the output closed it, which is no error.
    BrokenPipe,
    /// Any other failure, which is printed.
    Error {
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
    /// A failure with its exit code and its word for programs.
    pub fn new(exit: Exit, code: &'static str, message: impl Into<String>) -> Self {
        Self::Error {
            exit,
            code,
            message: message.into(),
            unknown_queue: None,
        }
    }

    /// The command line or the configuration is invalid.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, "usage", message)
    }

    /// Arguments that clap accepted and an app's command does not.
    pub fn clap(error: clap::Error) -> Self {
        Self::usage(error.to_string())
    }

    /// The input was rejected.
    pub fn refused(message: impl Into<String>) -> Self {
        Self::new(Exit::Refused, "invalid_input", message)
    }

    /// There is no such message.
    pub fn no_such_message(id: consign_kernel::MessageId) -> Self {
        let message = format!("message {id} does not exist; `consign ls` lists existing ones");
        Self::new(Exit::NotFound, "no_such_message", message)
    }

    /// The word for programs.
    pub fn code(&self) -> Option<&'static str> {
        match self {
            Self::BrokenPipe => None,
            Self::Error { code, .. } => Some(code),
        }
    }

    /// What was wrong, for people.
    pub fn message(&self) -> &str {
        match self {
            Self::BrokenPipe => "the output was closed",
            Self::Error { message, .. } => message,
        }
    }

    /// The queue that the database does not have, where that is what was wrong.
    pub fn unknown_queue(&self) -> Option<&str> {
        match self {
            Self::BrokenPipe => None,
            Self::Error { unknown_queue, .. } => unknown_queue.as_deref(),
        }
    }

    /// The same failure, its message rewritten.
    pub fn map_message(mut self, rewrite: impl FnOnce(String) -> String) -> Self {
        if let Self::Error { message, .. } = &mut self {
            *message = rewrite(std::mem::take(message));
        }
        self
    }

    /// Prints the failure on standard error and returns the exit code.
    pub fn report(self, json: bool, colors: Colors) -> ExitCode {
        let Self::Error {
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
            let name = if colors.stderr {
                Paint::Bad.on("consign:")
            } else {
                "consign:".to_owned()
            };
            format!("{name} {}", readable(&message))
        };
        // With standard error closed only the exit code is left.
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
            Error::UnknownRedrive { .. }
            | Error::UnknownSchedule { .. }
            | Error::UnknownLease { .. } => Exit::NotFound,
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
        Self::Error {
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
