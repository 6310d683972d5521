//! `memory_query`.

use consign_kernel::PAGE_ENTRIES_MAX;
use serde_json::{Map, Value, json};
use tracing::warn;

use super::MemoryService;
use crate::{
    BackendError, Caller, FallbackHit, MemoryFilter, MemoryItem, Search,
    audit_json::shown_error,
    metrics::queried,
    tools::{Arguments, Refusal, wrong},
};

/// Spaces searched at once, at most.
const SPACES_MAX: usize = 50;

/// A search.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct QueryRequest {
    query: String,
    spaces: Vec<String>,
    filter: MemoryFilter,
    top_k: u32,
    actor_user_id: Option<String>,
}

impl QueryRequest {
    pub(crate) fn take(arguments: &mut Arguments) -> Result<Self, Refusal> {
        Ok(Self {
            query: arguments.named("query")?,
            spaces: take_spaces(arguments)?,
            filter: filter(arguments.object("filters")?.unwrap_or_default())?,
            top_k: arguments.limit("top_k", 10, 100)?,
            actor_user_id: arguments.text("actor_user_id")?,
        })
    }
}

/// The spaces that the request names.
pub(super) fn take_spaces(arguments: &mut Arguments) -> Result<Vec<String>, Refusal> {
    let spaces = arguments.texts("spaces")?;
    if spaces.len() > SPACES_MAX {
        return Err(wrong("spaces", &format!("are more than {SPACES_MAX}")));
    }
    if spaces.iter().any(|space| space.trim().is_empty()) {
        return Err(wrong("spaces", "holds an empty name"));
    }
    Ok(spaces)
}

/// `filters`: names of fields, and of values in `meta` for all others.
fn filter(fields: Map<String, Value>) -> Result<MemoryFilter, Refusal> {
    let mut arguments = Arguments::new(fields);
    let within = |refusal: Refusal| Refusal {
        message: format!("filters.{}", refusal.message),
        ..refusal
    };
    let mut known = || {
        Ok(MemoryFilter {
            kind: arguments.text("kind")?,
            actor: match arguments.text("actor_user_id")? {
                None => arguments.text("actor")?,
                actor => actor,
            },
            since: arguments.time("since")?,
            until: arguments.time("until")?,
            meta: Map::new(),
        })
    };
    let filter = known().map_err(within)?;
    Ok(MemoryFilter {
        meta: arguments.rest(),
        ..filter
    })
}

impl MemoryService {
    /// Searches the memory server, or the logbook if that does not answer.
    pub(crate) async fn query(
        &self,
        request: QueryRequest,
        caller: &Caller,
    ) -> Result<Value, Refusal> {
        let actor = request.actor_user_id.as_deref();
        let search = Search {
            query: request.query,
            spaces: self.readable_spaces(request.spaces, actor, caller).await?,
            filter: request.filter,
            top_k: request.top_k,
        };
        match self.search(&search).await {
            Ok(found) => {
                queried("backend");
                let source = self.backend().kind();
                Ok(answer(&search, found, source, None))
            }
            Err(error) => Ok(self.fall_back(&search, &error).await),
        }
    }

    async fn search(&self, search: &Search) -> Result<Vec<MemoryItem>, BackendError> {
        let budget = self.options().gateway_budget();
        let found = self.backend().search(search, budget);
        self.call_backend("search", found).await
    }

    /// Searches the logbook instead; the answer is marked as degraded.
    async fn fall_back(&self, search: &Search, error: &BackendError) -> Value {
        let shown = shown_error(&error.to_string());
        warn!(
            error = shown,
            "memories could not be searched; the logbook is searched instead"
        );
        // Filters apply afterwards, so more is fetched than returned.
        let limit = if search.filter.is_empty() {
            search.top_k
        } else {
            PAGE_ENTRIES_MAX
        };
        let found = self
            .logbook()
            .search_logbook(&search.query, &search.spaces, limit);
        match found.await {
            Ok(found) => {
                let found = found.into_iter().map(as_memory).collect();
                let message = format!(
                    "the memory server did not answer ({shown}); these results come from the \
                     logbook alone: rely on them less"
                );
                queried("fallback");
                answer(search, found, "logbook_fallback", Some(message))
            }
            Err(second) => {
                warn!(error = %second, "the logbook could not be searched either");
                queried("none");
                let message = format!(
                    "the memory server did not answer ({shown}), and the logbook could not be \
                     searched ({second})"
                );
                let mut body = answer(search, Vec::new(), "none", Some(message));
                body["ok"] = json!(false);
                body["error_code"] = json!("QUERY_FAILED");
                body["retryable"] = json!(true);
                body
            }
        }
    }
}

/// Builds the answer; `message` is set if the memory server did not answer. Spaces and filters apply here
/// whatever the backend made of them.
fn answer(
    search: &Search,
    mut found: Vec<MemoryItem>,
    source: &str,
    message: Option<String>,
) -> Value {
    found.retain(|item| search.spaces.contains(&item.space) && search.filter.fits(item));
    found.truncate(search.top_k as usize);
    json!({
        "ok": true,
        "total": found.len(),
        "results": found,
        "spaces_searched": search.spaces,
        "source": source,
        "degraded": message.is_some(),
        "message": message,
    })
}

/// A candidate or an event in the shape of a memory.
fn as_memory(hit: FallbackHit) -> MemoryItem {
    let beside = [("title", Some(hit.title)), ("confidence", hit.confidence)];
    let beside = beside
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), json!(value?))));
    MemoryItem {
        id: hit.id,
        text: hit.content,
        space: hit.space,
        kind: Some(hit.kind),
        actor: None,
        created_at: Some(hit.created_at),
        score: None,
        evidence: match hit.evidence_refs {
            Value::Array(evidence) => evidence,
            Value::Object(fields) if fields.is_empty() => Vec::new(),
            evidence => vec![evidence],
        },
        meta: beside.collect(),
        supersedes: None,
        superseded_by: None,
    }
}
