//! `memory_get` and `memory_list`.

use serde_json::{Value, json};
use tokio::time::{Instant, timeout};
use tracing::warn;

use super::{MemoryService, query::take_spaces};
use crate::{
    BackendError, Caller, Listing, MemoryFilter, MemoryItem,
    audit_json::shown_error,
    metrics,
    tools::{Arguments, Refusal, wrong},
};

/// A page of memories.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ListRequest {
    listing: Listing,
    actor_user_id: Option<String>,
}

impl ListRequest {
    pub(crate) fn take(arguments: &mut Arguments) -> Result<Self, Refusal> {
        let listing = Listing {
            spaces: take_spaces(arguments)?,
            filter: MemoryFilter {
                kind: arguments.text("kind")?,
                actor: arguments.text("actor")?,
                since: arguments.time("since")?,
                until: arguments.time("until")?,
                ..MemoryFilter::default()
            },
            cursor: arguments.text("cursor")?,
            limit: arguments.limit("limit", 20, 100)?,
        };
        Ok(Self {
            listing,
            actor_user_id: arguments.text("actor_user_id")?,
        })
    }
}

impl MemoryService {
    /// Reads a memory by id.
    pub(crate) async fn get(&self, id: &str, caller: &Caller) -> Result<Value, Refusal> {
        let item = self.readable(id, caller).await?;
        Ok(json!({"ok": true, "memory": item}))
    }

    /// A memory, if the caller may read it. One that the caller may not read is answered like a missing
    /// one.
    pub(super) async fn readable(&self, id: &str, caller: &Caller) -> Result<MemoryItem, Refusal> {
        let budget = self.options().gateway_budget();
        let item = self.backend().read(id, budget);
        let item = self.call_backend("read", item).await.map_err(unavailable)?;
        item.filter(|item| self.may_use(caller, &item.space))
            .ok_or_else(|| {
                let why = format!("memory {id:?} does not exist or may not be read by this caller");
                Refusal::new("NOT_FOUND", why)
            })
    }

    /// Lists memories, newest first.
    pub(crate) async fn list(
        &self,
        request: ListRequest,
        caller: &Caller,
    ) -> Result<Value, Refusal> {
        let ListRequest {
            mut listing,
            actor_user_id,
        } = request;
        let actor = actor_user_id.as_deref();
        listing.spaces = self.readable_spaces(listing.spaces, actor, caller).await?;
        let budget = self.options().gateway_budget();
        let page = self.backend().list(&listing, budget);
        let mut page = match self.call_backend("list", page).await {
            Ok(page) => page,
            Err(BackendError::Api { status: 400, .. }) if listing.cursor.is_some() => {
                let why = "must be next_cursor of the page before, with the same other arguments";
                return Err(wrong("cursor", why));
            }
            Err(error) => return Err(unavailable(error)),
        };
        page.items
            .retain(|item| listing.spaces.contains(&item.space) && listing.filter.fits(item));
        Ok(json!({
            "ok": true,
            "total": page.items.len(),
            "results": page.items,
            "next_cursor": page.next,
            "spaces_searched": listing.spaces,
        }))
    }

    /// Calls the backend within the budget.
    pub(super) async fn call_backend<T>(
        &self,
        what: &'static str,
        call: impl Future<Output = Result<T, BackendError>>,
    ) -> Result<T, BackendError> {
        let budget = self.options().gateway_budget();
        let since = Instant::now();
        let answer = timeout(budget, call).await.unwrap_or_else(|_| {
            let why = format!("no answer within {} ms", budget.as_millis());
            Err(BackendError::Unknown(why))
        });
        metrics::backend_call(self.backend().kind(), what, since, answer.is_ok());
        answer
    }
}

/// A failure of the backend as a tool's refusal.
pub(super) fn unavailable(error: BackendError) -> Refusal {
    let shown = shown_error(&error.to_string());
    warn!(error = shown, "the call of the memory server failed");
    match &error {
        error if error.is_refusal() => {
            let why = format!("the memory server refuses this ({shown})");
            Refusal::new("OPENMEMORY_REFUSED", why)
        }
        BackendError::Protocol(_) => {
            let why = format!("the memory server cannot do this ({shown})");
            Refusal::new("OPENMEMORY_REFUSED", why)
        }
        _ => {
            let why = format!("the memory server does not answer ({shown}); try again");
            Refusal::new("OPENMEMORY_UNAVAILABLE", why).retryable()
        }
    }
}
