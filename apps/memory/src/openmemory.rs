//! OpenMemory behind its HTTP API, in the three dialects it has had.
//!
//! What a server says is not taken for granted: it may merge a text with another one and say that it
//! was stored, keep a summary of a long one, return what was deleted, or answer a search that failed
//! with no results. So what matters is read back, and a memory counts as stored only if the server has
//! this very text in this very space.

mod check;
mod dialect;
mod find;
mod list;
mod retold;
mod search;
mod store;
mod turn;
mod wire;

use std::{
    fmt,
    sync::{Arc, Mutex as StdMutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use consign_kernel::{Error, Result as SettingsResult};
use reqwest::{
    Client, Url,
    header::{AUTHORIZATION, HeaderMap, HeaderValue},
};
use tokio::{sync::Mutex, time::Instant};

use self::dialect::Speaks;
use crate::{
    Backend, BackendError, Dialect, ItemPage, Listing, MemoryItem, MemoryOptions, NewMemory,
    Search, StoredMemory,
};

type Answer<T> = Result<T, BackendError>;

/// See the module.
pub struct OpenMemory {
    client: Client,
    base: Url,
    /// The address for people: no user, no password, no query.
    destination: String,
    /// What every request carries: who we are.
    fixed: HeaderMap,
    /// As the options say.
    dialect: Dialect,
    private_prefix: String,
    /// What is known of the server; forgotten whenever it could not be reached, because another one
    /// may come back, and when it does not know what the other one knew.
    known: StdMutex<Known>,
    /// Writes to a server go one at a time: its transactions get into each other.
    turn: Arc<Mutex<()>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Known {
    speaks: Option<Speaks>,
    /// Whether a long text was seen to come back whole.
    keeps_long_texts: bool,
}

impl fmt::Debug for OpenMemory {
    /// The address itself may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenMemory")
            .field("destination", &self.destination)
            .finish_non_exhaustive()
    }
}

impl OpenMemory {
    /// The server that the options name; they have been validated.
    pub fn new(options: &MemoryOptions) -> SettingsResult<Self> {
        let refuse = |key: &str, why: String| Error::invalid(format!("memory.{key}"), why);
        let text = options.openmemory_base_url.as_deref().unwrap_or_default();
        let parsed = Url::parse(&format!("{}/", text.trim_end_matches('/')));
        let base = parsed.ok().filter(|url| {
            matches!(url.scheme(), "http" | "https") && url.has_host() && url.query().is_none()
        });
        let Some(base) = base else {
            let why = "must be an address such as http://127.0.0.1:8080";
            return Err(refuse("openmemory_base_url", why.into()));
        };
        let mut fixed = HeaderMap::new();
        if let Some(key) = &options.openmemory_api_key {
            let value = HeaderValue::from_str(&format!("Bearer {}", key.reveal()));
            let not_a_header = |_| refuse("openmemory_api_key", "is not a header's value".into());
            let mut value = value.map_err(not_a_header)?;
            value.set_sensitive(true);
            fixed.insert(AUTHORIZATION, value);
        }
        let client = consign_outbound::client(None).expect("invariant: there is no file to read");
        let client = client.build();
        let no_client = |error: reqwest::Error| refuse("openmemory_base_url", error.to_string());
        let destination = wire::plain(&base);
        Ok(Self {
            client: client.map_err(no_client)?,
            turn: turn::of(&destination),
            destination,
            base,
            fixed,
            dialect: options.openmemory_dialect,
            private_prefix: options.private_space_prefix.clone(),
            known: StdMutex::default(),
        })
    }

    /// Waits for the turn to write. Nothing has been sent when it does not come in time.
    async fn turn(&self, ends: Instant) -> Answer<tokio::sync::MutexGuard<'_, ()>> {
        match tokio::time::timeout_at(ends, self.turn.lock()).await {
            Ok(turn) => Ok(turn),
            Err(_) => Err(BackendError::Unreachable(
                "other writes are still under way; nothing was sent".into(),
            )),
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // Nothing that holds it can panic halfway.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whoever could not be reached may be another one when it comes back.
    fn noted<T>(&self, answer: Answer<T>) -> Answer<T> {
        if let Err(BackendError::Unreachable(_) | BackendError::Unknown(_)) = &answer {
            *self.known() = Known::default();
        }
        answer
    }

    /// Asks again, once, if the answer is what a server of another generation says: it may have taken
    /// the place of the one that was known.
    async fn either<T>(
        &self,
        answer: Answer<T>,
        again: impl AsyncFnOnce() -> Answer<T>,
    ) -> Answer<T> {
        match answer {
            Err(error) if self.dialect == Dialect::Auto && is_of_another(&error) => {
                let known = std::mem::take(&mut *self.known());
                match known.speaks {
                    Some(_) => self.noted(again().await),
                    // It was asked a moment ago.
                    None => Err(error),
                }
            }
            answer => self.noted(answer),
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
        let _turn = self.turn(ends).await?;
        let stored = self.store_in_turn(memory, ends).await;
        // The first one may have arrived.
        let again = async || match self.find_until(memory, ends).await? {
            Some(stored) => Ok(stored),
            None => self.store_in_turn(memory, ends).await,
        };
        self.either(stored, again).await
    }

    async fn find(&self, memory: &NewMemory, budget: Duration) -> Answer<Option<StoredMemory>> {
        let ends = Instant::now() + budget;
        let found = self.find_until(memory, ends).await;
        self.either(found, async || self.find_until(memory, ends).await)
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
        self.either(has, async || self.has_until(memory, memory_id, ends).await)
            .await
    }

    async fn search(&self, search: &Search, budget: Duration) -> Answer<Vec<MemoryItem>> {
        let ends = Instant::now() + budget;
        let found = self.search_until(search, ends).await;
        self.either(found, async || self.search_until(search, ends).await)
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
        let _turn = self.turn(ends).await?;
        let removed = self.remove_until(id, ends).await;
        self.noted(removed)
    }

    async fn read(&self, id: &str, budget: Duration) -> Answer<Option<MemoryItem>> {
        let ends = Instant::now() + budget;
        let read = self.read_until(id, ends).await;
        self.noted(read)
    }

    async fn list(&self, listing: &Listing, budget: Duration) -> Answer<ItemPage> {
        let ends = Instant::now() + budget;
        let listed = self.list_until(listing, ends).await;
        self.noted(listed)
    }

    async fn check(&self, budget: Duration) -> Answer<Vec<String>> {
        let ends = Instant::now() + budget;
        let _turn = self.turn(ends).await?;
        let checked = self.check_in_turn(ends).await;
        self.either(checked, async || self.check_in_turn(ends).await)
            .await
    }
}

/// What a server says to a request in another dialect than its own: there is no such path, or the user
/// is not for the request to say.
fn is_of_another(error: &BackendError) -> bool {
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
