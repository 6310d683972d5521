//! Searching within spaces.
//!
//! The server has no spaces or filters, so both apply here: a search fetches more than it returns, drops
//! what is in other spaces or filtered out, and fetches more while too little is left. Where the server
//! has users, each private space is searched on its own.

mod round;

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicU64, Ordering},
};

use futures_util::future::try_join_all;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use self::round::Round;
use super::{Answer, OpenMemory, dialect::DialectState, row};
use crate::{BackendError, MemoryFilter, MemoryItem, Search};

/// Factor between results wanted and fetched, and between two fetches.
const OVERFETCH: u32 = 5;
/// Fetch limit: each result has to be read.
const FETCHED_MAX: u32 = 800;
/// Fetch limit of the newer server.
const FETCHED_MAX_HEAD: u32 = 200;
/// Concurrent searches of one request.
const SEARCHES: usize = 4;

/// Spaces of one search.
struct Part<'a> {
    /// Restricts the search to this user.
    user: Option<&'a str>,
    spaces: BTreeSet<&'a str>,
    filter: &'a MemoryFilter,
}

impl OpenMemory {
    pub(super) async fn search_until(
        &self,
        search: &Search,
        ends: Instant,
    ) -> Answer<Vec<MemoryItem>> {
        let dialect = self.detected_dialect(ends).await?;
        let parts = self.parts(dialect, search);
        let mut found = Vec::new();
        for some in parts.chunks(SEARCHES) {
            let mut searches = Vec::new();
            for part in some {
                searches.push(self.search_part(dialect, search, part, ends));
            }
            found.extend(try_join_all(searches).await?);
        }
        Ok(interleave(found, search.top_k as usize))
    }

    /// One part for each private space where the server has users; one for all others.
    fn parts<'a>(&self, dialect: DialectState, search: &'a Search) -> Vec<Part<'a>> {
        let spaces: BTreeSet<&str> = search.spaces.iter().map(String::as_str).collect();
        let user_of = |space| {
            self.user_of(space)
                .filter(|_| dialect != DialectState::JsHead)
        };
        let (owned, shared): (BTreeSet<&str>, BTreeSet<&str>) = spaces
            .into_iter()
            .partition(|space| user_of(space).is_some());
        let owned = owned.into_iter().map(|space| Part {
            user: user_of(space),
            spaces: BTreeSet::from([space]),
            filter: &search.filter,
        });
        let shared = (!shared.is_empty()).then_some(Part {
            user: None,
            spaces: shared,
            filter: &search.filter,
        });
        owned.chain(shared).collect()
    }

    async fn search_part(
        &self,
        dialect: DialectState,
        search: &Search,
        part: &Part<'_>,
        ends: Instant,
    ) -> Answer<Vec<MemoryItem>> {
        let wanted = search.top_k as usize;
        let most = match dialect {
            DialectState::JsHead => FETCHED_MAX_HEAD,
            DialectState::Js1 | DialectState::Python => FETCHED_MAX,
        };
        // No further fetch after half of the time.
        let enough = Instant::now() + ends.saturating_duration_since(Instant::now()) / 2;
        let mut round = Round::new(search.top_k.saturating_mul(OVERFETCH).clamp(1, most));
        loop {
            let is_first = round.hits.is_empty();
            match self
                .search_round(dialect, search, part, &mut round, ends)
                .await
            {
                Ok(()) => {}
                // Earlier results are better than an error.
                Err(_) if !is_first => break,
                Err(error) => return Err(error),
            }
            let is_over = round.is_last || round.fetched >= most || Instant::now() >= enough;
            if round.hits.len() >= wanted || is_over {
                break;
            }
            round.fetched = round.fetched.saturating_mul(OVERFETCH).min(most);
        }
        Ok(round.hits)
    }

    async fn search_round(
        &self,
        dialect: DialectState,
        search: &Search,
        part: &Part<'_>,
        round: &mut Round,
        ends: Instant,
    ) -> Answer<()> {
        match dialect {
            DialectState::Python => self.search_whole(search, part, round, ends).await,
            DialectState::Js1 | DialectState::JsHead => {
                self.search_names(search, part, round, ends).await
            }
        }
    }

    /// The Python server answers with full rows.
    async fn search_whole(
        &self,
        search: &Search,
        part: &Part<'_>,
        round: &mut Round,
        ends: Instant,
    ) -> Answer<()> {
        let body = json!({
            "query": search.query, "limit": round.fetched, "filters": {}, "user_id": part.user,
        });
        let answer = self.post(&["memory", "search"], &body, ends).await?;
        let Some(rows) = answer.get("results").and_then(Value::as_array) else {
            return Err(BackendError::Protocol(
                "/memory/search answers no results".into(),
            ));
        };
        round.is_last = rows.len() < round.fetched as usize;
        let hits = rows.iter().filter_map(|row| part.hit(row));
        round.hits = hits.collect();
        Ok(())
    }

    /// The JavaScript servers answer with ids, some of deleted memories, so each is read.
    async fn search_names(
        &self,
        search: &Search,
        part: &Part<'_>,
        round: &mut Round,
        ends: Instant,
    ) -> Answer<()> {
        let mut filters = Map::new();
        filters.insert("sector".into(), json!("semantic"));
        // The server caches answers for a minute by request; a unique value below every score avoids
        // the cache and excludes nothing.
        filters.insert("min_score".into(), json!(unique_min_score()));
        if let Some(user) = part.user {
            filters.insert("user_id".into(), json!(user));
        }
        let body = json!({"query": search.query, "k": round.fetched, "filters": filters});
        let answer = self.post(&["memory", "query"], &body, ends).await?;
        let Some(matches) = answer.get("matches").and_then(Value::as_array) else {
            return Err(BackendError::Protocol(
                "/memory/query answers no matches".into(),
            ));
        };
        if matches.is_empty() {
            // The older server also answers so when its search fails.
            self.check_readable(ends).await?;
        }
        self.read_each(matches, part, round, search.top_k as usize, ends)
            .await?;
        if matches.len() < round.fetched as usize {
            // The server filters users among the best three times as many rows.
            let looked_at = round.fetched.saturating_mul(3);
            round.is_last = part.user.is_none() || !self.has_more_than(looked_at, ends).await?;
        }
        Ok(())
    }

    /// Fails if the server cannot read its rows.
    async fn check_readable(&self, ends: Instant) -> Answer<()> {
        self.healthy(ends).await?;
        self.has_more_than(0, ends).await.map(drop)
    }

    /// Whether the server has more rows than `count`.
    async fn has_more_than(&self, count: u32, ends: Instant) -> Answer<bool> {
        let page = self.get(self.page(None, count as usize, 1), ends).await?;
        let items = page.get("items").and_then(Value::as_array);
        Ok(items.is_some_and(|items| !items.is_empty()))
    }
}

impl Part<'_> {
    /// A row in the searched spaces that passes the filter.
    fn hit(&self, row: &Value) -> Option<MemoryItem> {
        let item = row::item(row)?;
        let is_here = self.spaces.contains(item.space.as_str());
        (is_here && self.filter.fits(&item)).then_some(item)
    }
}

/// The best of each part, then the second best of each, and so on: scores of different searches cannot
/// be compared.
fn interleave(found: Vec<Vec<MemoryItem>>, most: usize) -> Vec<MemoryItem> {
    let mut found: Vec<_> = found.into_iter().map(Vec::into_iter).collect();
    let mut hits = Vec::new();
    loop {
        let row: Vec<MemoryItem> = found.iter_mut().filter_map(Iterator::next).collect();
        if row.is_empty() || hits.len() >= most {
            hits.truncate(most);
            return hits;
        }
        hits.extend(row);
    }
}

/// A score below every memory's, different for each call.
fn unique_min_score() -> f64 {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let call = CALLS.fetch_add(1, Ordering::Relaxed) % 1_000_000;
    let process = f64::from(std::process::id() % 1_000) * 1e-6;
    #[expect(clippy::cast_precision_loss, reason = "below a million")]
    let call = call as f64 * 1e-9;
    -1.0 - process - call
}
