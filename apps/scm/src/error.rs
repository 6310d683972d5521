//! What can go wrong, and whether trying again may help.

use thiserror::Error;

/// Why a synchronisation ended early.
#[derive(Debug, Error)]
pub enum ScmError {
    /// The source knows us and refuses, or does not know us. Repeating does not help.
    #[error("{source_name} refused the credentials: {detail}")]
    Auth {
        /// Which source, without credentials in its URL.
        source_name: String,
        /// What it said.
        detail: String,
    },
    /// The source could not be reached, also not by repeating it.
    #[error("{source_name} could not be reached ({tries} tries): {detail}")]
    Network {
        /// Which source, without credentials in its URL.
        source_name: String,
        /// How often it was tried.
        tries: u32,
        /// What happened the last time.
        detail: String,
    },
    /// A program of this machine does not get on. Repeating would take as long again.
    #[error("{source_name}: {detail}")]
    Timeout {
        /// Which source.
        source_name: String,
        /// What took too long.
        detail: String,
    },
    /// The settings rule it out, whoever added it.
    #[error("{source_name} {detail}")]
    NotAllowed {
        /// Which source.
        source_name: String,
        /// Which setting, and what to do.
        detail: String,
    },
    /// There is no such repository, branch or project, or it is not what it was said to be.
    #[error("{source_name}: {detail}")]
    NotFound {
        /// Which source.
        source_name: String,
        /// What is missing.
        detail: String,
    },
    /// The source or its program answered something that cannot be understood.
    #[error("{source_name} answered what cannot be understood: {detail}")]
    Protocol {
        /// Which source.
        source_name: String,
        /// What was wrong, and where.
        detail: String,
    },
    /// A program that is needed is not there.
    #[error("the program {program:?} is needed and could not be started: {detail}")]
    Program {
        /// `git` or `svn`.
        program: String,
        /// Why not.
        detail: String,
    },
    /// What was found could not be written down.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// A file among the artifacts could not be written.
    #[error("the change could not be kept: {0}")]
    Artifact(#[from] consign_artifacts::ArtifactError),
    /// What was asked for makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// The process is ending.
    #[error("stopped before the end; what was written stays, the next run goes on from there")]
    Stopped,
}

impl ScmError {
    /// For programs.
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

/// Why the ledger did not do it. Nothing was written.
#[derive(Debug, Error)]
pub enum LedgerError {
    /// Somebody else moved the watermark meanwhile: two synchronisations of one repository.
    #[error(
        "repository {repo_id} is being synchronised by somebody else: the watermark {key} has moved"
    )]
    Moved {
        /// Which repository.
        repo_id: i64,
        /// Which watermark.
        key: String,
    },
    /// There is no such repository.
    #[error("there is no repository {0}")]
    UnknownRepo(i64),
    /// This record cannot be stored, whenever it is tried.
    #[error("the database refused a record: {0}")]
    Refused(String),
    /// The database could not be used; repeating it later may help.
    #[error("the database could not be used: {0}")]
    Unavailable(String),
}

impl LedgerError {
    /// For programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Moved { .. } => "SCM_WATERMARK_MOVED",
            Self::UnknownRepo(_) => "SCM_UNKNOWN_REPO",
            Self::Refused(_) => "SCM_RECORD_REFUSED",
            Self::Unavailable(_) => "SCM_DATABASE_UNAVAILABLE",
        }
    }
}
