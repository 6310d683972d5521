//! Where memories go.

use std::{fmt, time::Duration};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Found, Logbook, NewMemory, embedded};

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

/// A search.
#[derive(Clone, Debug, PartialEq)]
pub struct Search {
    /// The words.
    pub query: String,
    /// In these spaces only.
    pub spaces: Vec<String>,
    /// What else must fit; the backend's own words.
    pub filters: serde_json::Map<String, Value>,
    /// How many at most.
    pub top_k: u32,
}

/// Something found, in one of the spaces that were asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hit {
    /// The backend's name for it.
    pub id: String,
    /// The text.
    pub content: String,
    /// How well it fits, in the backend's own measure.
    pub score: Option<f64>,
    /// The space it is in.
    pub space: String,
    /// What was kept with it.
    pub metadata: Value,
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

    /// Whether what the logbook says is stored can be here. Memories stay where they are when the
    /// project moves from one backend to another; their names tell.
    fn may_have(&self, found: &Found) -> bool {
        let memory_id = found.memory_id.as_deref();
        !memory_id.is_some_and(embedded::is_own_name)
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

    /// Searches.
    async fn search(&self, search: &Search, budget: Duration) -> Result<Vec<Hit>, BackendError>;

    /// Whether it can be used now; what is wrong with it, if anything, in sentences.
    async fn check(&self, budget: Duration) -> Result<Vec<String>, BackendError>;
}
