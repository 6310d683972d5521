//! The port to memory servers.

use std::{fmt, time::Duration};

use async_trait::async_trait;

use crate::{ItemPage, Listing, Logbook, MemoryItem, NewMemory, Search};

/// A memory that the backend has for certain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredMemory {
    /// The backend's id of it.
    pub memory_id: String,
}

/// Why the backend does not have a memory, or why that is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackendError {
    /// Unreachable; nothing was sent.
    Unreachable(String),
    /// The outcome is unknown: no answer, or a lost one.
    Unknown(String),
    /// The backend returned an error.
    Api {
        /// The HTTP status.
        status: u16,
        /// Its message, without secrets.
        message: String,
        /// Requested delay before the next try.
        retry_in: Option<Duration>,
    },
    /// An unreliable answer, or another text was stored.
    Protocol(String),
}

impl BackendError {
    /// The code in audit reasons: `connection_error`, `api_error_503`, `openmemory_error`.
    pub fn word(&self) -> String {
        match self {
            Self::Unreachable(_) | Self::Unknown(_) => "connection_error".into(),
            Self::Api { status, .. } => format!("api_error_{status}"),
            Self::Protocol(_) => "openmemory_error".into(),
        }
    }

    /// Whether the memory can never be stored: the backend rejects it (4xx except 408 and 429).
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Api { status, .. }
            if (400..500).contains(status) && ![408, 429].contains(status))
    }

    /// Whether it rejects the content or its length: other memories may be stored.
    pub fn is_about_content(&self) -> bool {
        matches!(self, Self::Api { status, .. } if [400, 413, 422].contains(status))
    }

    /// Whether the backend rejects our credentials and not the memory: it can be stored once the
    /// key is fixed.
    pub fn is_about_us(&self) -> bool {
        matches!(self, Self::Api { status, .. } if [401, 403].contains(status))
    }
}

/// The text in outbox rows: `connection_error: …`, `api_error: 503 - …`, `openmemory_error: …`.
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

/// A memory server. Every call takes at most `budget`, including the wait for the write lock.
#[async_trait]
pub trait Backend: Send + Sync + fmt::Debug {
    /// `embedded` or `openmemory`.
    fn kind(&self) -> &'static str;

    /// Its address for people, without secrets.
    fn destination(&self) -> &str;

    /// Whether memories are stored in this logbook: then a memory and its audit are one
    /// transaction.
    fn is_in(&self, _logbook: &dyn Logbook) -> bool {
        false
    }

    /// Identity of the backend in audits and outbox rows: a memory stored in one backend, or
    /// deferred for it, is unrelated to another.
    fn identity(&self) -> String {
        format!("{}:{}", self.kind(), self.destination())
    }

    /// Whether writers in all processes need the write lock. Not needed where the database itself
    /// stores a text once.
    fn needs_write_lock(&self) -> bool {
        true
    }

    /// Stores a memory. `Ok` only if the backend has exactly this text in this space.
    async fn store(
        &self,
        memory: &NewMemory,
        budget: Duration,
    ) -> Result<StoredMemory, BackendError>;

    /// Whether it has this memory, by space and hash; called before an uncertain write is repeated.
    async fn find(
        &self,
        memory: &NewMemory,
        budget: Duration,
    ) -> Result<Option<StoredMemory>, BackendError>;

    /// Whether it still has the memory of this id; if the id is gone, whether it has the memory
    /// under another.
    async fn has(
        &self,
        memory: &NewMemory,
        _memory_id: Option<&str>,
        budget: Duration,
    ) -> Result<Option<StoredMemory>, BackendError> {
        self.find(memory, budget).await
    }

    /// Marks a memory as replaced by another; deletes it where marking is unsupported. A missing
    /// one is not an error. Nothing to do where storing a newer version does this itself.
    async fn supersede(&self, old: &str, new: &str, budget: Duration) -> Result<(), BackendError>;

    /// Deletes a memory and the versions that it replaced; returns whether it existed.
    async fn delete(&self, id: &str, budget: Duration) -> Result<bool, BackendError>;

    /// Searches; every field of the results except `meta` is the backend's.
    async fn search(
        &self,
        search: &Search,
        budget: Duration,
    ) -> Result<Vec<MemoryItem>, BackendError>;

    /// The memory of this id.
    async fn read(&self, id: &str, budget: Duration) -> Result<Option<MemoryItem>, BackendError>;

    /// Memories, newest first, in pages.
    async fn list(&self, listing: &Listing, budget: Duration) -> Result<ItemPage, BackendError>;

    /// Whether it is usable now; returns warnings.
    async fn check(&self, budget: Duration) -> Result<Vec<String>, BackendError>;
}

/// The identity of the embedded backend.
pub(crate) const EMBEDDED: &str = "embedded";

/// The settings of a worker that delivers to a backend with this identity.
pub fn setting_for(identity: &str) -> String {
    match identity.split_once(':') {
        Some(("openmemory", address)) => {
            format!("set memory.openmemory_base_url (OPENMEMORY_BASE_URL) to {address}")
        }
        _ if identity == EMBEDDED => {
            "set memory.backend to \"embedded\", or leave memory.openmemory_base_url out".to_owned()
        }
        _ => format!("run a worker with the memory backend {identity}"),
    }
}
