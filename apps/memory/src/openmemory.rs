//! The client of OpenMemory's HTTP API, in its three dialects.
//!
//! Answers are verified, because a server may merge a text with another one and report it as stored,
//! keep only a summary of a long one, return deleted rows, or answer a failed search with no results. A
//! memory counts as stored only if reading it back gives this text in this space.

mod check;
mod dialect;
mod find;
mod list;
mod row;
mod search;
mod store;
mod wire;

use std::{
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use consign_kernel::{Error, Result as SettingsResult};
use consign_outbound::{bearer, build, http_url, shown_url};
use reqwest::{
    Client, Url,
    header::{AUTHORIZATION, HeaderMap},
};
use tokio::time::{Instant, timeout_at};

use self::dialect::DialectState;
use crate::{
    Backend, BackendError, Dialect, ItemPage, Listing, MemoryItem, MemoryOptions, NewMemory,
    Search, StoredMemory, write_lock::LocalLock,
};

type Answer<T> = Result<T, BackendError>;

/// The client of one server.
pub struct OpenMemory {
    client: Client,
    base: Url,
    /// The address without user, password and query.
    destination: String,
    /// Headers of every request.
    fixed: HeaderMap,
    /// The configured dialect.
    dialect: Dialect,
    private_prefix: String,
    /// Detected facts. Reset when the server cannot be reached or answers like another dialect: a
    /// different version may have been started.
    facts: Mutex<ServerFacts>,
}

#[derive(Clone, Copy, Debug, Default)]
struct ServerFacts {
    dialect: Option<DialectState>,
    /// Whether a long text was read back unchanged.
    keeps_long_texts: bool,
}

impl fmt::Debug for OpenMemory {
    /// Without `base`, which may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenMemory")
            .field("destination", &self.destination)
            .finish_non_exhaustive()
    }
}

impl OpenMemory {
    /// The server of validated options.
    pub fn new(options: &MemoryOptions) -> SettingsResult<Self> {
        let refuse = |key: &str, why: String| Error::invalid(format!("memory.{key}"), why);
        let text = options.openmemory_base_url.as_deref().unwrap_or_default();
        let base = http_url(&format!("{}/", text.trim_end_matches('/')));
        let base = base.map_err(|why| refuse("openmemory_base_url", why.into()))?;
        if base.query().is_some() {
            return Err(refuse(
                "openmemory_base_url",
                "must not hold a query".into(),
            ));
        }
        let mut fixed = HeaderMap::new();
        if let Some(key) = &options.openmemory_api_key {
            let refuse = |_| refuse("openmemory_api_key", "is not a header's value".into());
            fixed.insert(AUTHORIZATION, bearer(key).map_err(refuse)?);
        }
        let client = consign_outbound::client(None).expect("invariant: there is no file to read");
        let destination = shown_url(&base).trim_end_matches('/').to_owned();
        Ok(Self {
            client: build(client).map_err(|why| refuse("openmemory_base_url", why))?,
            destination,
            base,
            fixed,
            dialect: options.openmemory_dialect,
            private_prefix: options.private_space_prefix.clone(),
            facts: Mutex::default(),
        })
    }

    /// Excludes other write calls of this process: the server's transactions interfere with each other.
    async fn lock_writes(&self, ends: Instant) -> Answer<LocalLock> {
        let lock = LocalLock::take(self.destination.clone());
        timeout_at(ends, lock).await.map_err(|_| {
            BackendError::Unreachable("other writes are still under way; nothing was sent".into())
        })
    }

    fn facts(&self) -> MutexGuard<'_, ServerFacts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// After an outage a different version may answer.
    fn reset_on_outage<T>(&self, answer: Answer<T>) -> Answer<T> {
        if let Err(BackendError::Unreachable(_) | BackendError::Unknown(_)) = &answer {
            *self.facts() = ServerFacts::default();
        }
        answer
    }

    /// Detects the dialect again and repeats the call once, if the answer is that of another dialect.
    async fn retry_redetected<T>(
        &self,
        answer: Answer<T>,
        again: impl AsyncFnOnce() -> Answer<T>,
    ) -> Answer<T> {
        match answer {
            Err(error) if self.dialect == Dialect::Auto && is_dialect_mismatch(&error) => {
                let known = std::mem::take(&mut *self.facts());
                match known.dialect {
                    Some(_) => self.reset_on_outage(again().await),
                    // The dialect was detected for this call.
                    None => Err(error),
                }
            }
            answer => self.reset_on_outage(answer),
        }
    }

    /// The user a space belongs to.
    fn user_of<'a>(&self, space: &'a str) -> Option<&'a str> {
        space.strip_prefix(self.private_prefix.as_str())
    }
}

#[async_trait]
impl Backend for OpenMemory {
    fn kind(&self) -> &'static str {
        "openmemory"
    }

    fn destination(&self) -> &str {
        &self.destination
    }

    async fn store(&self, memory: &NewMemory, budget: Duration) -> Answer<StoredMemory> {
        let ends = Instant::now() + budget;
        let _guard = self.lock_writes(ends).await?;
        let stored = self.store_locked(memory, ends).await;
        // The first call may have stored it.
        let again = async || match self.find_until(memory, ends).await? {
            Some(stored) => Ok(stored),
            None => self.store_locked(memory, ends).await,
        };
        self.retry_redetected(stored, again).await
    }

    async fn find(&self, memory: &NewMemory, budget: Duration) -> Answer<Option<StoredMemory>> {
        let ends = Instant::now() + budget;
        let found = self.find_until(memory, ends).await;
        self.retry_redetected(found, async || self.find_until(memory, ends).await)
            .await
    }

    async fn has(
        &self,
        memory: &NewMemory,
        memory_id: Option<&str>,
        budget: Duration,
    ) -> Answer<Option<StoredMemory>> {
        let ends = Instant::now() + budget;
        let has = self.has_until(memory, memory_id, ends).await;
        self.retry_redetected(has, async || self.has_until(memory, memory_id, ends).await)
            .await
    }

    async fn search(&self, search: &Search, budget: Duration) -> Answer<Vec<MemoryItem>> {
        let ends = Instant::now() + budget;
        let found = self.search_until(search, ends).await;
        self.retry_redetected(found, async || self.search_until(search, ends).await)
            .await
    }

    async fn supersede(&self, old: &str, new: &str, budget: Duration) -> Answer<()> {
        if old == new {
            return Ok(());
        }
        self.delete(old, budget).await.map(drop)
    }

    async fn delete(&self, id: &str, budget: Duration) -> Answer<bool> {
        let ends = Instant::now() + budget;
        let _guard = self.lock_writes(ends).await?;
        let removed = self.remove_until(id, ends).await;
        self.reset_on_outage(removed)
    }

    async fn read(&self, id: &str, budget: Duration) -> Answer<Option<MemoryItem>> {
        let ends = Instant::now() + budget;
        let read = self.read_until(id, ends).await;
        self.reset_on_outage(read)
    }

    async fn list(&self, listing: &Listing, budget: Duration) -> Answer<ItemPage> {
        let ends = Instant::now() + budget;
        let listed = self.list_until(listing, ends).await;
        self.reset_on_outage(listed)
    }

    async fn check(&self, budget: Duration) -> Answer<Vec<String>> {
        let ends = Instant::now() + budget;
        let _guard = self.lock_writes(ends).await?;
        let checked = self.check_locked(ends).await;
        self.retry_redetected(checked, async || self.check_locked(ends).await)
            .await
    }
}

/// Whether a server answers so to a request of another dialect: unknown path, or a user other than the
/// key's.
fn is_dialect_mismatch(error: &BackendError) -> bool {
    match error {
        BackendError::Api {
            status: 404 | 405, ..
        } => true,
        BackendError::Api {
            status: 403,
            message,
            ..
        } => message.contains("tenant_mismatch"),
        _ => false,
    }
}
