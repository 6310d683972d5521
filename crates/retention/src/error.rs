//! Why a pass failed.

use consign_kernel::MessageId;

/// Why a pass ended early. What it had not finished, the next pass continues.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] consign_kernel::Error),
    /// The archive failed. Nothing was removed from the store.
    #[error("{0}; the messages stay in the database")]
    Archive(#[from] consign_archive::Error),
    /// The archive holds something else than the store.
    #[error(
        "message {id} is not in the archive as it is in the database; it stays in the database. \
         Check the disk of the archive: it does not return what was written"
    )]
    Differs {
        /// The first message that differs.
        id: MessageId,
    },
    /// A task that writes the archive panicked.
    #[error("writing the archive failed: {0}; the messages stay in the database")]
    Task(#[from] tokio::task::JoinError),
}

/// The result of something that a pass does.
pub type Result<T> = std::result::Result<T, Error>;
