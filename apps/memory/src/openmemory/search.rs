//! Searching, in the spaces that were asked for and nowhere else.
//!
//! Spaces are ours, not the server's. It is asked for more than is wanted, what it finds elsewhere is
//! dropped, and while that leaves too little it is asked for more still: memories of other spaces that
//! fit better must not hide those of this one. Where the server knows users, a private space is asked
//! for by itself. Filters are ours too, and narrow what it finds in the same way.

mod round;

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicU64, Ordering},
};

use futures_util::future::try_join_all;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use self::round::Round;
use super::{Answer, OpenMemory, dialect::Speaks, retold};
use crate::{BackendError, MemoryFilter, MemoryItem, Search};

/// How much more than is wanted it is asked for, and how much more each time.
const OVERFETCH: u32 = 5;
/// More is not asked for: each name has to be read.
const FETCHED_MAX: u32 = 800;
/// What the newer server takes at most.
const FETCHED_MAX_HEAD: u32 = 200;
/// How many searches of one request go on at a time.
const SEARCHES: usize = 4;

/// Spaces that can be asked for together.
struct Part<'a> {
    /// Whose memories alone are asked for.
    user: Option<&'a str>,
    spaces: BTreeSet<&'a str>,
    /// The server knows nothing of what is filtered by.
    filter: &'a MemoryFilter,
}

impl OpenMemory {
    pub(super) async fn search_until(
        &self,
        search: &Search,
        ends: Instant,
    ) -> Answer<Vec<MemoryItem>> {
        let speaks = self.speaks(ends).await?;
        let parts = self.parts(speaks, search);
        let mut found = Vec::new();
        for some in parts.chunks(SEARCHES) {
            let mut searches = Vec::new();
            for part in some {
                searches.push(self.search_part(speaks, search, part, ends));
            }
            found.extend(try_join_all(searches).await?);
        }
        Ok(woven(found, search.top_k as usize))
    }

    /// Private spaces one by one where the server knows their users; all others together.
    fn parts<'a>(&self, speaks: Speaks, search: &'a Search) -> Vec<Part<'a>> {
        let spaces: BTreeSet<&str> = search.spaces.iter().map(String::as_str).collect();
        let user_of = |space| self.user_of(space).filter(|_| speaks != Speaks::JsHead);
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
        speaks: Speaks,
        search: &Search,
        part: &Part<'_>,
        ends: Instant,
    ) -> Answer<Vec<MemoryItem>> {
        let wanted = search.top_k as usize;
        let most = match speaks {
            Speaks::JsHead => FETCHED_MAX_HEAD,
            Speaks::Js1 | Speaks::Python => FETCHED_MAX,
        };
        // Half of the time is for going on.
        let enough = Instant::now() + ends.saturating_duration_since(Instant::now()) / 2;
        let mut round = Round::new(search.top_k.saturating_mul(OVERFETCH).clamp(1, most));
        loop {
            let is_first = round.hits.is_empty();
            match self
                .search_round(speaks, search, part, &mut round, ends)
                .await
            {
                Ok(()) => {}
                // What was found before is better than nothing.
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
        speaks: Speaks,
        search: &Search,
        part: &Part<'_>,
        round: &mut Round,
        ends: Instant,
    ) -> Answer<()> {
        match speaks {
            Speaks::Python => self.search_whole(search, part, round, ends).await,
            Speaks::Js1 | Speaks::JsHead => self.search_names(search, part, round, ends).await,
        }
    }

    /// The Python server answers with everything that is needed.
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

    /// The others answer with names, some of them of memories that are gone: each is read.
    async fn search_names(
        &self,
        search: &Search,
        part: &Part<'_>,
        round: &mut Round,
        ends: Instant,
    ) -> Answer<()> {
        let mut filters = Map::new();
        filters.insert("sector".into(), json!("semantic"));
        // Answers are kept for a minute by what was asked; this asks something else each time, and
        // fits every memory all the same.
        filters.insert("min_score".into(), json!(never_asked()));
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
            // The older server says the same when its search fails.
            self.reads(ends).await?;
        }
        self.read_each(matches, part, round, search.top_k as usize, ends)
            .await?;
        if matches.len() < round.fetched as usize {
            // It looks for users only among those it would have answered with, three times as many.
            let looked_at = round.fetched.saturating_mul(3);
            round.is_last = part.user.is_none() || !self.has_more_than(looked_at, ends).await?;
        }
        Ok(())
    }

    /// Whether it can read its memories at all.
    async fn reads(&self, ends: Instant) -> Answer<()> {
        self.healthy(ends).await?;
        self.has_more_than(0, ends).await.map(drop)
    }

    /// Whether it has more memories than so many.
    async fn has_more_than(&self, count: u32, ends: Instant) -> Answer<bool> {
        let page = self.get(self.page(None, count as usize, 1), ends).await?;
        let items = page.get("items").and_then(Value::as_array);
        Ok(items.is_some_and(|items| !items.is_empty()))
    }
}

impl Part<'_> {
    /// A row of a space that was asked for, if it is what was asked for.
    fn hit(&self, row: &Value) -> Option<MemoryItem> {
        let item = retold::item(row)?;
        let is_here = self.spaces.contains(item.space.as_str());
        (is_here && self.filter.fits(&item)).then_some(item)
    }
}

/// The best of each, then the second best of each, and so on: what was asked for apart cannot be
/// compared.
fn woven(found: Vec<Vec<MemoryItem>>, most: usize) -> Vec<MemoryItem> {
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

/// A salience below every memory's, another one each time.
fn never_asked() -> f64 {
    static ASKED: AtomicU64 = AtomicU64::new(0);
    let asked = ASKED.fetch_add(1, Ordering::Relaxed) % 1_000_000;
    let process = f64::from(std::process::id() % 1_000) * 1e-6;
    #[expect(clippy::cast_precision_loss, reason = "below a million")]
    let asked = asked as f64 * 1e-9;
    -1.0 - process - asked
}
