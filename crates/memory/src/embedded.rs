//! Memories kept in the database of the queue, with full-text search: the default that needs
//! nothing installed.

use std::{fmt, ptr, sync::Arc, time::Duration};

use async_trait::async_trait;
use consign_kernel::{Certainty, Error, PAGE_ENTRIES_MAX, Result};
use serde_json::{Map, Value, json};
use tokio::time::timeout;

use crate::{
    Backend, BackendError, EmbeddedHit, Hit, Logbook, NewMemory, Search, StoredMemory,
    backend::EMBEDDED,
};

/// Keeps memories in the logbook.
pub struct Embedded {
    logbook: Arc<dyn Logbook>,
}

impl Embedded {
    /// A backend over a logbook.
    pub fn new(logbook: Arc<dyn Logbook>) -> Self {
        Self { logbook }
    }
}

impl fmt::Debug for Embedded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Embedded")
    }
}

#[async_trait]
impl Backend for Embedded {
    fn kind(&self) -> &'static str {
        EMBEDDED
    }

    fn destination(&self) -> &str {
        "this database"
    }

    fn is_in(&self, logbook: &dyn Logbook) -> bool {
        ptr::addr_eq(Arc::as_ptr(&self.logbook), logbook)
    }

    fn takes_turns(&self) -> bool {
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

    async fn search(&self, search: &Search, budget: Duration) -> Result<Vec<Hit>, BackendError> {
        let (query, spaces) = (&search.query, &search.spaces);
        // What does not fit is left out afterwards, so there must be some to spare.
        let limit = match search.filters.is_empty() {
            true => search.top_k,
            false => PAGE_ENTRIES_MAX,
        };
        let hits = self.logbook.search_kept(query, spaces, limit);
        let mut hits = within(budget, hits).await?;
        hits.retain(|hit| fits(hit, &search.filters));
        hits.truncate(search.top_k as usize);
        Ok(hits.into_iter().map(hit).collect())
    }

    async fn check(&self, budget: Duration) -> Result<Vec<String>, BackendError> {
        within(budget, self.logbook.kept("", "")).await?;
        Ok(Vec::new())
    }
}

/// Whether a memory is of this kind, by this actor, and has these values beside it.
fn fits(hit: &EmbeddedHit, filters: &Map<String, Value>) -> bool {
    filters.iter().all(|(name, wanted)| match name.as_str() {
        "kind" => wanted.as_str() == hit.kind.as_deref(),
        "actor_user_id" => wanted.as_str() == hit.actor_user_id.as_deref(),
        name => hit.meta_json.get(name) == Some(wanted),
    })
}

fn hit(hit: EmbeddedHit) -> Hit {
    let metadata = json!({
        "payload_sha": hit.payload_sha,
        "kind": hit.kind,
        "actor_user_id": hit.actor_user_id,
        "meta_json": hit.meta_json,
        "evidence": hit.evidence,
        "created_at": hit.created_at,
    });
    Hit {
        id: hit.memory_id,
        content: hit.content,
        score: Some(hit.score),
        space: hit.space,
        metadata,
    }
}

async fn within<T>(
    budget: Duration,
    call: impl Future<Output = Result<T>>,
) -> Result<T, BackendError> {
    match timeout(budget, call).await {
        Ok(answer) => answer.map_err(|error| told(&error)),
        Err(_) => {
            let why = format!(
                "the database did not answer within {} ms",
                budget.as_millis()
            );
            Err(BackendError::Unknown(why))
        }
    }
}

/// A database's error in the words of a memory server.
fn told(error: &Error) -> BackendError {
    match error {
        Error::InvalidInput { .. } => refusal(400, error),
        Error::PayloadTooLarge { .. } => refusal(413, error),
        Error::Unavailable { .. } => match error.certainty() {
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
