//! Where memories go.

use std::{fmt, time::Duration};

use async_trait::async_trait;

use crate::{ItemPage, Listing, Logbook, MemoryItem, NewMemory, Search};

/// A memory that the backend has for certain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredMemory {
    /// The backend's name for it.
    pub memory_id: String,
}

/// Why the backend does not have it, or nobody knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackendError {
    /// Nobody is there; nothing left.
    Unreachable(String),
    /// It may or may not have been stored: no answer, or one that was lost.
    Unknown(String),
    /// It answered with an error.
    Api {
        /// The HTTP status.
        status: u16,
        /// What it said, without secrets.
        message: String,
        /// When it wants to be asked again.
        retry_in: Option<Duration>,
    },
    /// It answered something that cannot be relied on, or kept something else instead.
    Protocol(String),
}

impl BackendError {
    /// The word for reasons of audits: `connection_error`, `api_error_503`, `openmemory_error`.
    pub fn word(&self) -> String {
        match self {
            Self::Unreachable(_) | Self::Unknown(_) => "connection_error".into(),
            Self::Api { status, .. } => format!("api_error_{status}"),
            Self::Protocol(_) => "openmemory_error".into(),
        }
    }

    /// Whether it can never be stored as it is: the backend refuses it (4xx but 408 and 429).
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Api { status, .. }
            if (400..500).contains(status) && ![408, 429].contains(status))
    }

    /// Whether it refuses what the memory says or how long it is: others may be stored.
    pub fn is_about_content(&self) -> bool {
        matches!(self, Self::Api { status, .. } if [400, 413, 422].contains(status))
    }

    /// Whether the backend refuses us rather than the memory: somebody must change a key, and then
    /// it can be stored.
    pub fn is_about_us(&self) -> bool {
        matches!(self, Self::Api { status, .. } if [401, 403].contains(status))
    }
}

/// The text that outbox rows keep: `connection_error: …`, `api_error: 503 - …`, `openmemory_error: …`.
impl fmt::Display for BackendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(why) | Self::Unknown(why) => write!(f, "connection_error: {why}"),
            Self::Api {
                status, message, ..
            } => write!(f, "api_error: {status} - {message}"),
            Self::Protocol(why) => write!(f, "openmemory_error: {why}"),
        }
    }
}

/// Where memories go. Every call takes at most `budget`, waiting for a turn included.
#[async_trait]
pub trait Backend: Send + Sync + fmt::Debug {
    /// `embedded` or `openmemory`.
    fn kind(&self) -> &'static str;

    /// Where, for people: an address without secrets.
    fn destination(&self) -> &str;

    /// Whether memories go into this very logbook: then it may keep them and their audits at once.
    fn is_in(&self, _logbook: &dyn Logbook) -> bool {
        false
    }

    /// Which backend it is, in audits and rows of the outbox: what was stored in one, or put off for
    /// it, says nothing about another.
    fn identity(&self) -> String {
        format!("{}:{}", self.kind(), self.destination())
    }

    /// Whether those who write to it take turns, in whichever process they are. Where the database
    /// itself sees to it that a text is kept once, they need not.
    fn takes_turns(&self) -> bool {
        true
    }

    /// Stores a memory. `Ok` only if the backend has this very text in this very space.
    async fn store(
        &self,
        memory: &NewMemory,
        budget: Duration,
    ) -> Result<StoredMemory, BackendError>;

    /// Whether it has this memory, by space and hash; asked before anything uncertain is sent again.
    async fn find(
        &self,
        memory: &NewMemory,
        budget: Duration,
    ) -> Result<Option<StoredMemory>, BackendError>;

    /// Whether it still has what it stored under this name; should the name be gone, whether it has
    /// the memory under another.
    async fn has(
        &self,
        memory: &NewMemory,
        _memory_id: Option<&str>,
        budget: Duration,
    ) -> Result<Option<StoredMemory>, BackendError> {
        self.find(memory, budget).await
    }

    /// Marks a memory as replaced by another; removes it where nothing can be marked. One that is gone
    /// already is fine. Where storing a newer version does so by itself, there is nothing left to do.
    async fn supersede(&self, old: &str, new: &str, budget: Duration) -> Result<(), BackendError>;

    /// Removes a memory and the versions that it replaced; whether it was there.
    async fn delete(&self, id: &str, budget: Duration) -> Result<bool, BackendError>;

    /// Searches; every field of what is found is the backend's, but for `meta`.
    async fn search(
        &self,
        search: &Search,
        budget: Duration,
    ) -> Result<Vec<MemoryItem>, BackendError>;

    /// The memory of this name; none: there is none.
    async fn read(&self, id: &str, budget: Duration) -> Result<Option<MemoryItem>, BackendError>;

    /// Memories, newest first, page by page.
    async fn list(&self, listing: &Listing, budget: Duration) -> Result<ItemPage, BackendError>;

    /// Whether it can be used now; what is wrong with it, if anything, in sentences.
    async fn check(&self, budget: Duration) -> Result<Vec<String>, BackendError>;
}

/// The identity of the embedded backend.
pub(crate) const EMBEDDED: &str = "embedded";

/// What to set for a worker that is to deliver to a backend, by the backend's identity.
pub fn setting_for(identity: &str) -> String {
    match identity.split_once(':') {
        Some(("openmemory", address)) => {
            format!("set memory.openmemory_base_url (OPENMEMORY_BASE_URL) to {address}")
        }
        _ if identity == EMBEDDED => {
            "set memory.backend to \"embedded\", or leave memory.openmemory_base_url out".to_owned()
        }
        _ => format!("let a worker deliver whose memories go to {identity}"),
    }
}
