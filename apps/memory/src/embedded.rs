//! Memories in the queue's database with full-text search: the default, which needs nothing
//! installed.

use std::{fmt, ptr, sync::Arc, time::Duration};

use async_trait::async_trait;
use consign_kernel::{Certainty, Error, PAGE_ENTRIES_MAX, Result};
use tokio::time::timeout;

use crate::{
    Backend, BackendError, ItemPage, Listing, Logbook, MemoryItem, NewMemory, Search, StoredMemory,
    backend::EMBEDDED,
};

/// Stores memories in the logbook.
pub struct EmbeddedBackend {
    logbook: Arc<dyn Logbook>,
}

impl EmbeddedBackend {
    /// A backend over a logbook.
    pub fn new(logbook: Arc<dyn Logbook>) -> Self {
        Self { logbook }
    }
}

impl fmt::Debug for EmbeddedBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EmbeddedBackend")
    }
}

#[async_trait]
impl Backend for EmbeddedBackend {
    fn kind(&self) -> &'static str {
        EMBEDDED
    }

    fn destination(&self) -> &str {
        "this database"
    }

    fn is_in(&self, logbook: &dyn Logbook) -> bool {
        ptr::addr_eq(Arc::as_ptr(&self.logbook), logbook)
    }

    fn needs_write_lock(&self) -> bool {
        false
    }

    fn identity(&self) -> String {
        EMBEDDED.to_owned()
    }

    async fn store(
        &self,
        memory: &NewMemory,
        budget: Duration,
    ) -> Result<StoredMemory, BackendError> {
        let kept = within(budget, self.logbook.keep(memory)).await?;
        Ok(StoredMemory {
            memory_id: kept.memory_id,
        })
    }

    async fn find(
        &self,
        memory: &NewMemory,
        budget: Duration,
    ) -> Result<Option<StoredMemory>, BackendError> {
        let sha = memory.payload_sha();
        let kept = self.logbook.kept(&memory.target_space, &sha);
        let memory_id = within(budget, kept).await?;
        Ok(memory_id.map(|memory_id| StoredMemory { memory_id }))
    }

    async fn supersede(&self, old: &str, new: &str, budget: Duration) -> Result<(), BackendError> {
        within(budget, self.logbook.supersede_kept(old, new)).await
    }

    async fn delete(&self, id: &str, budget: Duration) -> Result<bool, BackendError> {
        within(budget, self.logbook.delete_kept(id, None)).await
    }

    async fn search(
        &self,
        search: &Search,
        budget: Duration,
    ) -> Result<Vec<MemoryItem>, BackendError> {
        let mut wanted = search.clone();
        // The database does not filter by `meta`, so more rows are read.
        if !search.filter.meta.is_empty() {
            wanted.top_k = PAGE_ENTRIES_MAX;
        }
        let mut found = within(budget, self.logbook.search_kept(&wanted)).await?;
        found.retain(|item| search.filter.fits(item));
        found.truncate(search.top_k as usize);
        Ok(found)
    }

    async fn read(&self, id: &str, budget: Duration) -> Result<Option<MemoryItem>, BackendError> {
        within(budget, self.logbook.read_kept(id)).await
    }

    async fn list(&self, listing: &Listing, budget: Duration) -> Result<ItemPage, BackendError> {
        within(budget, self.logbook.list_kept(listing)).await
    }

    async fn check(&self, budget: Duration) -> Result<Vec<String>, BackendError> {
        within(budget, self.logbook.kept("", "")).await?;
        Ok(Vec::new())
    }
}

async fn within<T>(
    budget: Duration,
    call: impl Future<Output = Result<T>>,
) -> Result<T, BackendError> {
    match timeout(budget, call).await {
        Ok(answer) => answer.map_err(|error| backend_error(&error)),
        Err(_) => {
            let why = format!(
                "the database did not answer within {} ms",
                budget.as_millis()
            );
            Err(BackendError::Unknown(why))
        }
    }
}

/// Maps a database error to a backend error.
fn backend_error(error: &Error) -> BackendError {
    match error {
        Error::InvalidInput { .. } => refusal(400, error),
        Error::PayloadTooLarge { .. } => refusal(413, error),
        Error::Unavailable { .. } | Error::Locked { .. } => match error.certainty() {
            Certainty::Definite => BackendError::Unreachable(error.to_string()),
            Certainty::Unknown => BackendError::Unknown(error.to_string()),
        },
        error => BackendError::Protocol(error.to_string()),
    }
}

fn refusal(status: u16, error: &Error) -> BackendError {
    BackendError::Api {
        status,
        message: error.to_string(),
        retry_in: None,
    }
}
