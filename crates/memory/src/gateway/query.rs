//! Searching memories.

use serde_json::{Map, Value, json};
use tokio::time::{Instant, timeout};
use tracing::warn;

use super::MemoryService;
use crate::{
    BackendError, Caller, FallbackHit, Hit, Search,
    audit_json::shown_error,
    metrics::{self, queried},
    tools::{Arguments, Refusal, wrong},
};

/// Spaces searched at once, at most.
const SPACES_MAX: usize = 50;

/// A search, as it was asked for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct QueryRequest {
    query: String,
    spaces: Vec<String>,
    filters: Map<String, Value>,
    top_k: u32,
}

impl QueryRequest {
    pub(crate) fn take(arguments: &mut Arguments) -> Result<Self, Refusal> {
        let request = Self {
            query: arguments.named("query")?,
            spaces: arguments.texts("spaces")?,
            filters: arguments.object("filters")?.unwrap_or_default(),
            top_k: arguments.limit("top_k", 10, 100)?,
        };
        if request.spaces.len() > SPACES_MAX {
            return Err(wrong("spaces", &format!("are more than {SPACES_MAX}")));
        }
        if request.spaces.iter().any(|space| space.trim().is_empty()) {
            return Err(wrong("spaces", "holds an empty name"));
        }
        Ok(request)
    }
}

impl MemoryService {
    /// Searches the memory server, or the logbook if that does not answer.
    pub(crate) async fn query(
        &self,
        request: QueryRequest,
        caller: &Caller,
    ) -> Result<Value, Refusal> {
        let mut spaces = request.spaces;
        if spaces.is_empty() {
            spaces.push(self.options().team_space());
        }
        for space in &spaces {
            self.check_space(caller, space)?;
        }
        let search = Search {
            query: request.query,
            spaces,
            filters: request.filters,
            top_k: request.top_k,
        };
        match self.search(&search).await {
            Ok(mut hits) => {
                // Whatever the memory server makes of spaces, what was not asked for stays there.
                hits.retain(|hit| search.spaces.contains(&hit.space));
                hits.truncate(search.top_k as usize);
                let source = self.backend().kind();
                let results = hits.into_iter().map(|hit| found(hit, source)).collect();
                queried("backend");
                Ok(answer(&search, results, None))
            }
            Err(error) => Ok(self.fall_back(&search, &error).await),
        }
    }

    async fn search(&self, search: &Search) -> Result<Vec<Hit>, BackendError> {
        let budget = self.options().gateway_budget();
        let since = Instant::now();
        let hits = timeout(budget, self.backend().search(search, budget)).await;
        let hits = hits.unwrap_or_else(|_| {
            let why = format!("no answer within {} ms", budget.as_millis());
            Err(BackendError::Unknown(why))
        });
        metrics::backend_call(self.backend().kind(), "search", since, hits.is_ok());
        hits
    }

    /// Seed 003: the logbook answers, marked as less reliable.
    async fn fall_back(&self, search: &Search, error: &BackendError) -> Value {
        let shown = shown_error(&error.to_string());
        warn!(
            error = shown,
            "memories could not be searched; the logbook is searched instead"
        );
        let (query, spaces) = (&search.query, &search.spaces);
        let hits = self.logbook().search_logbook(query, spaces, search.top_k);
        match hits.await {
            Ok(mut hits) => {
                hits.retain(|hit| spaces.contains(&hit.space));
                let results = hits.into_iter().map(remembered).collect();
                let unfiltered = match search.filters.is_empty() {
                    true => "",
                    false => "; filters were not applied",
                };
                let message = format!(
                    "the memory server did not answer ({shown}); these results come from the \
                     logbook alone: rely on them less{unfiltered}"
                );
                queried("fallback");
                answer(search, results, Some(message))
            }
            Err(second) => {
                warn!(error = %second, "nor could the logbook be searched");
                queried("nobody");
                let message = format!(
                    "the memory server did not answer ({shown}), and the logbook could not be \
                     searched ({second})"
                );
                let mut body = answer(search, Vec::new(), Some(message));
                body["ok"] = json!(false);
                body["error_code"] = json!("QUERY_FAILED");
                body["retryable"] = json!(true);
                body
            }
        }
    }
}

/// A message means that the memory server did not answer.
fn answer(search: &Search, results: Vec<Value>, message: Option<String>) -> Value {
    json!({
        "ok": true,
        "total": results.len(),
        "results": results,
        "spaces_searched": search.spaces,
        "degraded": message.is_some(),
        "message": message,
    })
}

fn found(hit: Hit, source: &str) -> Value {
    json!({
        "id": hit.id, "content": hit.content, "score": hit.score, "space": hit.space,
        "metadata": hit.metadata, "source": source,
    })
}

fn remembered(hit: FallbackHit) -> Value {
    json!({
        "id": hit.id, "content": hit.content, "title": hit.title, "kind": hit.kind,
        "confidence": hit.confidence, "evidence_refs": hit.evidence_refs, "space": hit.space,
        "created_at": hit.created_at, "source": "logbook_fallback",
    })
}
