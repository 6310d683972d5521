//! Errors of an archive.

use std::{
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

use consign_kernel::MessageId;

use crate::IdRange;

/// The result of an operation on an archive.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What failed, in which file, and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file system rejected an operation.
    #[error("cannot {operation} {}{}", path.display(), remedy(operation, source))]
    Io {
        /// The operation, as a verb.
        operation: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The reason of the operating system.
        source: io::Error,
    },
    /// Another writer holds the lock.
    #[error(
        "archive {} is locked by another writer; nothing was written. One process writes at a time: \
         repeat when it has finished",
        folder.display()
    )]
    Locked {
        /// The archive.
        folder: PathBuf,
    },
    /// A newer version of this program wrote the manifest.
    #[error(
        "manifest {} has format {format}, this version reads format {known}; use a newer version",
        path.display()
    )]
    NewerFormat {
        /// The manifest.
        path: PathBuf,
        /// Its format.
        format: u32,
        /// The format that this version reads.
        known: u32,
    },
    /// A file does not hold what was written.
    #[error("{} is damaged: {why}; restore it from a backup", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What differs.
        why: String,
    },
    /// A manifest names a data file that does not exist.
    #[error(
        "data file {} does not exist, but manifest {manifest} names it; restore it from a backup",
        path.display()
    )]
    DataMissing {
        /// The data file.
        path: PathBuf,
        /// The file name of the manifest.
        manifest: String,
    },
    /// A data file exists for a range that has no manifest.
    #[error(
        "data file {} has no manifest, so its messages cannot be found; restore {manifest} from a \
         backup, or move the data file out of the folder",
        path.display()
    )]
    ManifestMissing {
        /// The data file.
        path: PathBuf,
        /// The file name that its manifest would have.
        manifest: String,
    },
    /// The bounds do not form a range of message ids.
    #[error(
        "ids {} to {} are not a range; the first id must be 0 or more and not above the last",
        range.first,
        range.last
    )]
    InvalidRange {
        /// The bounds.
        range: IdRange,
    },
    /// A record is outside of the bounds of its file.
    #[error(
        "message {id} is not in the range {} to {}; nothing was appended",
        range.first,
        range.last
    )]
    OutOfRange {
        /// The message.
        id: MessageId,
        /// The bounds of the file.
        range: IdRange,
    },
    /// A record is not above the one before it.
    #[error(
        "message {id} was appended after message {previous}; nothing was appended. Append in \
         ascending order of ids, each id once"
    )]
    OutOfOrder {
        /// The message.
        id: MessageId,
        /// The message before it.
        previous: MessageId,
    },
    /// A record contradicts itself.
    #[error("message {id} cannot be archived: {why}")]
    InvalidRecord {
        /// The message.
        id: MessageId,
        /// The contradiction.
        why: String,
    },
    /// A write failed earlier, so the file is incomplete.
    #[error(
        "an earlier write for the range {} to {} failed; nothing was committed. Begin the range again",
        range.first,
        range.last
    )]
    WriterFailed {
        /// The bounds of the file.
        range: IdRange,
    },
}

impl Error {
    pub(crate) fn io(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io {
            operation,
            path: path.to_owned(),
            source,
        }
    }

    pub(crate) fn damaged(path: &Path, why: impl Into<String>) -> Self {
        Self::Damaged {
            path: path.to_owned(),
            why: why.into(),
        }
    }
}

/// The operation of [`Error::Io`] that makes the folder of an archive.
pub(crate) const CREATE_FOLDER: &str = "create folder";

fn remedy(operation: &str, source: &io::Error) -> &'static str {
    match source.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "; free space on its disk and repeat",
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            "; give this process the right to write there"
        }
        _ if operation == CREATE_FOLDER => "; name a folder that exists or can be created",
        _ => "",
    }
}
