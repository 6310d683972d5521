//! A memory server that keeps what it says it keeps, unless it is told to behave otherwise.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use consign_memory::{
    Backend, BackendError, ItemPage, Listing, MemoryItem, NewMemory, Search, StoredMemory,
};
use tokio::sync::watch;

/// How it behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerMode {
    /// It stores and finds.
    Well,
    /// Nobody is there.
    Down,
    /// It takes the request and never answers; nothing is stored.
    Hang,
    /// It stores, and the answer is lost.
    LoseAnswers,
    /// It stores, and one answer is lost; it is well again after that.
    LoseOneAnswer,
    /// It removes what it is told to, and the answer is lost; it is well otherwise.
    LoseDeletes,
    /// It fails for texts that hold a word.
    FailFor(&'static str),
    /// It answers with an error; nothing is stored.
    Status(u16),
    /// It says it stored something else instead.
    Merge,
    /// It panics.
    Panic,
    /// It stores what it is given once `release` is called.
    Wait,
}

/// What it was asked to keep.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StoredEntry {
    pub(crate) memory_id: String,
    pub(crate) memory: NewMemory,
}

impl StoredEntry {
    fn item(self) -> MemoryItem {
        MemoryItem {
            id: self.memory_id,
            text: self.memory.payload_md,
            space: self.memory.target_space,
            kind: self.memory.kind,
            actor: self.memory.actor_user_id,
            created_at: None,
            score: Some(0.0),
            evidence: self.memory.evidence,
            meta: self.memory.meta_json,
            supersedes: self.memory.supersedes,
            superseded_by: None,
        }
    }
}

#[derive(Debug)]
pub(crate) struct FakeServer {
    destination: String,
    manner: Mutex<ServerMode>,
    kept: Mutex<BTreeMap<(String, String), StoredEntry>>,
    is_released: watch::Sender<bool>,
    pub(crate) stores: AtomicUsize,
    pub(crate) finds: AtomicUsize,
    pub(crate) writes: AtomicUsize,
}

impl FakeServer {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        Self {
            destination: format!("fake://{number}"),
            manner: Mutex::new(ServerMode::Well),
            kept: Mutex::default(),
            is_released: watch::Sender::new(false),
            stores: AtomicUsize::new(0),
            finds: AtomicUsize::new(0),
            writes: AtomicUsize::new(0),
        }
    }

    pub(crate) fn behave(&self, manner: ServerMode) {
        *self.manner.lock().unwrap() = manner;
    }

    /// Lets go of what waits.
    pub(crate) fn release(&self) {
        self.is_released.send_replace(true);
    }

    /// How often it was asked to store something.
    pub(crate) fn stores(&self) -> usize {
        self.stores.load(Ordering::SeqCst)
    }

    /// How often it wrote: a memory stored twice counts twice.
    pub(crate) fn writes(&self) -> usize {
        self.writes.load(Ordering::SeqCst)
    }

    /// How often it was asked whether it has something.
    pub(crate) fn finds(&self) -> usize {
        self.finds.load(Ordering::SeqCst)
    }

    pub(crate) fn kept(&self) -> Vec<StoredEntry> {
        self.kept.lock().unwrap().values().cloned().collect()
    }

    /// Loses everything.
    pub(crate) fn forget(&self) {
        self.kept.lock().unwrap().clear();
    }

    fn write(&self, memory: &NewMemory) -> StoredMemory {
        let number = self.writes.fetch_add(1, Ordering::SeqCst) + 1;
        let memory_id = format!("mem-{number}");
        let key = (memory.target_space.clone(), memory.payload_sha());
        let kept = StoredEntry {
            memory_id: memory_id.clone(),
            memory: memory.clone(),
        };
        self.kept.lock().unwrap().insert(key, kept);
        StoredMemory { memory_id }
    }

    async fn answer<T>(
        &self,
        budget: Duration,
        good: impl FnOnce() -> T,
    ) -> Result<T, BackendError> {
        let manner = *self.manner.lock().unwrap();
        match manner {
            ServerMode::Well => Ok(good()),
            ServerMode::Down => Err(BackendError::Unreachable("connection refused".into())),
            ServerMode::Hang => {
                let silence = std::future::pending::<()>();
                drop(tokio::time::timeout(budget, silence).await);
                Err(BackendError::Unknown("no answer".into()))
            }
            ServerMode::LoseAnswers => {
                good();
                Err(BackendError::Unknown("connection closed".into()))
            }
            ServerMode::LoseOneAnswer => {
                self.behave(ServerMode::Well);
                good();
                Err(BackendError::Unknown("connection closed".into()))
            }
            ServerMode::FailFor(_) | ServerMode::LoseDeletes => Ok(good()),
            ServerMode::Status(status) => Err(BackendError::Api {
                status,
                message: "as told, Bearer sk-secret-token-1234".into(),
                retry_in: None,
            }),
            ServerMode::Merge => Err(BackendError::Protocol("it kept something else".into())),
            ServerMode::Panic => panic!("as told"),
            ServerMode::Wait => {
                let mut released = self.is_released.subscribe();
                drop(released.wait_for(|is_released| *is_released).await);
                Ok(good())
            }
        }
    }
}

#[async_trait]
impl Backend for FakeServer {
    fn kind(&self) -> &'static str {
        "fake"
    }

    fn destination(&self) -> &str {
        &self.destination
    }

    async fn store(
        &self,
        memory: &NewMemory,
        budget: Duration,
    ) -> Result<StoredMemory, BackendError> {
        self.stores.fetch_add(1, Ordering::SeqCst);
        let manner = *self.manner.lock().unwrap();
        if matches!(manner, ServerMode::FailFor(word) if memory.payload_md.contains(word)) {
            return Err(BackendError::Unreachable("not for this one".into()));
        }
        self.answer(budget, || self.write(memory)).await
    }

    async fn find(
        &self,
        memory: &NewMemory,
        budget: Duration,
    ) -> Result<Option<StoredMemory>, BackendError> {
        self.finds.fetch_add(1, Ordering::SeqCst);
        let key = (memory.target_space.clone(), memory.payload_sha());
        let found = || {
            let kept = self.kept.lock().unwrap();
            kept.get(&key).map(|kept| StoredMemory {
                memory_id: kept.memory_id.clone(),
            })
        };
        let manner = *self.manner.lock().unwrap();
        match manner {
            ServerMode::LoseAnswers | ServerMode::LoseOneAnswer => Ok(found()),
            _ => self.answer(budget, found).await,
        }
    }

    /// What is replaced is gone, as on the real server.
    async fn supersede(&self, old: &str, new: &str, budget: Duration) -> Result<(), BackendError> {
        if old != new {
            self.delete(old, budget).await?;
        }
        Ok(())
    }

    async fn delete(&self, id: &str, budget: Duration) -> Result<bool, BackendError> {
        let delete = || {
            let mut kept = self.kept.lock().unwrap();
            let before = kept.len();
            kept.retain(|_, kept| kept.memory_id != id);
            kept.len() < before
        };
        let manner = *self.manner.lock().unwrap();
        if manner == ServerMode::LoseDeletes {
            delete();
            return Err(BackendError::Unknown("connection closed".into()));
        }
        self.answer(budget, delete).await
    }

    /// Whatever holds the query's text, in any space and of any kind: it is the gateway that knows
    /// spaces and filters.
    async fn search(
        &self,
        search: &Search,
        budget: Duration,
    ) -> Result<Vec<MemoryItem>, BackendError> {
        let hits = || {
            let kept = self.kept();
            let fitting = kept.into_iter().filter(|kept| {
                let text = &kept.memory.payload_md;
                text.contains(search.query.as_str())
            });
            fitting.map(StoredEntry::item).collect()
        };
        self.answer(budget, hits).await
    }

    async fn read(&self, id: &str, budget: Duration) -> Result<Option<MemoryItem>, BackendError> {
        let read = || {
            let kept = self.kept().into_iter().find(|kept| kept.memory_id == id);
            kept.map(StoredEntry::item)
        };
        self.answer(budget, read).await
    }

    /// All of them at once.
    async fn list(&self, _: &Listing, budget: Duration) -> Result<ItemPage, BackendError> {
        let page = || ItemPage {
            items: self.kept().into_iter().map(StoredEntry::item).collect(),
            next: None,
        };
        self.answer(budget, page).await
    }

    async fn check(&self, budget: Duration) -> Result<Vec<String>, BackendError> {
        self.answer(budget, Vec::new).await
    }
}
