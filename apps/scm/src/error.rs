//! Errors, and whether a retry may help.

use thiserror::Error;

/// Why a synchronisation ended early.
#[derive(Debug, Error)]
pub enum ScmError {
    /// The source rejected the credentials. A retry does not help.
    #[error("{source_name} refused the credentials: {detail}")]
    Auth {
        /// Name of the source, without credentials in its URL.
        source_name: String,
        /// The source's message.
        detail: String,
    },
    /// The source is unreachable, also after retries.
    #[error("{source_name} is unreachable after {tries} tries: {detail}")]
    Network {
        /// Name of the source, without credentials in its URL.
        source_name: String,
        /// Number of tries.
        tries: u32,
        /// The last failure.
        detail: String,
    },
    /// A local program made no progress. A retry would take as long again.
    #[error("{source_name}: {detail}")]
    Timeout {
        /// Name of the source.
        source_name: String,
        /// What timed out.
        detail: String,
    },
    /// The settings do not allow this source.
    #[error("{source_name} {detail}")]
    NotAllowed {
        /// Name of the source.
        source_name: String,
        /// The setting, and what to do.
        detail: String,
    },
    /// The repository, branch or project does not exist, or is of another kind.
    #[error("{source_name}: {detail}")]
    NotFound {
        /// Name of the source.
        source_name: String,
        /// What is missing.
        detail: String,
    },
    /// The source or its program sent an unreadable answer.
    #[error("{source_name} sent an unreadable answer: {detail}")]
    Protocol {
        /// Name of the source.
        source_name: String,
        /// What is wrong, and where.
        detail: String,
    },
    /// A required program is missing.
    #[error("cannot start the required program {program:?}: {detail}")]
    Program {
        /// `git` or `svn`.
        program: String,
        /// Why it did not start.
        detail: String,
    },
    /// The records could not be stored.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// An artifact file could not be written.
    #[error("cannot store the change: {0}")]
    Artifact(#[from] consign_artifacts::ArtifactError),
    /// Invalid arguments.
    #[error("{0}")]
    Invalid(String),
    /// The process is ending.
    #[error(
        "stopped before the end; written records are kept, and the next run continues from there"
    )]
    Stopped,
}

impl ScmError {
    /// Error code, for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Auth { .. } => "SCM_AUTH_FAILED",
            Self::Network { .. } => "SCM_UNREACHABLE",
            Self::Timeout { .. } => "SCM_TIMEOUT",
            Self::NotAllowed { .. } => "SCM_NOT_ALLOWED",
            Self::NotFound { .. } => "SCM_NOT_FOUND",
            Self::Protocol { .. } => "SCM_PROTOCOL",
            Self::Program { .. } => "SCM_PROGRAM_MISSING",
            Self::Ledger(error) => error.code(),
            Self::Artifact(_) => "SCM_ARTIFACT_FAILED",
            Self::Invalid(_) => "SCM_INVALID",
            Self::Stopped => "SCM_STOPPED",
        }
    }
}

/// Why a ledger operation failed. Nothing was written.
#[derive(Debug, Error)]
pub enum LedgerError {
    /// Another process moved the watermark: two synchronisations of one repository.
    #[error(
        "repository {repo_id} is synchronised by another process: its watermark {key} has moved"
    )]
    Moved {
        /// The repository.
        repo_id: i64,
        /// The watermark's key.
        key: String,
    },
    /// The repository does not exist.
    #[error("repository {0} does not exist")]
    UnknownRepo(i64),
    /// The record cannot be stored. A retry does not help.
    #[error("the database rejected a record: {0}")]
    Refused(String),
    /// The database is unavailable; a retry may help.
    #[error("the database is unavailable: {0}")]
    Unavailable(String),
}

impl LedgerError {
    /// Error code, for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Moved { .. } => "SCM_WATERMARK_MOVED",
            Self::UnknownRepo(_) => "SCM_UNKNOWN_REPO",
            Self::Refused(_) => "SCM_RECORD_REFUSED",
            Self::Unavailable(_) => "SCM_DATABASE_UNAVAILABLE",
        }
    }
}
