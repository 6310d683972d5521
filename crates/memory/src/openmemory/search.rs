//! Searching, in the spaces that were asked for and nowhere else.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicU64, Ordering},
};

use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::{
    Answer, OpenMemory,
    dialect::Speaks,
    retold::{metadata_of, space_of},
};
use crate::{BackendError, Hit, Search};

/// Spaces are ours, not the server's: what it finds in others is dropped, so it is asked for more.
const OVERFETCH: u32 = 5;
const FETCHED_MAX: u32 = 200;
/// How many rows are read at a time.
const READERS: usize = 8;

impl OpenMemory {
    pub(super) async fn search_until(&self, search: &Search, ends: Instant) -> Answer<Vec<Hit>> {
        let speaks = self.speaks(ends).await?;
        let mut hits = match speaks {
            Speaks::Python => self.search_whole(search, ends).await?,
            Speaks::Js1 | Speaks::JsHead => self.search_names(speaks, search, ends).await?,
        };
        hits.truncate(search.top_k as usize);
        Ok(hits)
    }

    /// The Python server answers with everything that is needed.
    async fn search_whole(&self, search: &Search, ends: Instant) -> Answer<Vec<Hit>> {
        let body = json!({
            "query": search.query, "limit": fetched(search), "filters": search.filters,
            "user_id": self.only_user(search),
        });
        let answer = self.post(&["memory", "search"], &body, ends).await?;
        let Some(rows) = answer.get("results").and_then(Value::as_array) else {
            return Err(BackendError::Protocol(
                "/memory/search answers no results".into(),
            ));
        };
        let wanted = wanted(search);
        Ok(rows
            .iter()
            .filter_map(|row| hit(row, score(row), &wanted))
            .collect())
    }

    /// The others answer with names, some of them of memories that are gone: each is read.
    async fn search_names(
        &self,
        speaks: Speaks,
        search: &Search,
        ends: Instant,
    ) -> Answer<Vec<Hit>> {
        let mut filters: Map<String, Value> = search.filters.clone();
        filters.entry("sector").or_insert_with(|| json!("semantic"));
        // Answers are kept for a minute by what was asked; this asks something else each time, and
        // fits every memory all the same.
        filters.insert("min_score".into(), json!(never_asked()));
        if let (Speaks::Js1, Some(user)) = (speaks, self.only_user(search)) {
            filters.insert("user_id".into(), json!(user));
        }
        let body = json!({"query": search.query, "k": fetched(search), "filters": filters});
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
        self.read_each(matches, search, ends).await
    }

    async fn read_each(
        &self,
        matches: &[Value],
        search: &Search,
        ends: Instant,
    ) -> Answer<Vec<Hit>> {
        let wanted = wanted(search);
        let mut hits = Vec::new();
        for part in matches.chunks(READERS) {
            let mut reading = Vec::new();
            for found in part {
                let name = found.get("id").and_then(Value::as_str).unwrap_or_default();
                reading.push((score(found), self.get(self.at(&["memory", name]), ends)));
            }
            for (score, row) in together(reading).await {
                match row {
                    Ok(row) => hits.extend(hit(&row, score, &wanted)),
                    // Deleted since, or another tenant's.
                    Err(BackendError::Api {
                        status: 403 | 404, ..
                    }) => {}
                    Err(error) => return Err(error),
                }
            }
            if hits.len() >= search.top_k as usize {
                break;
            }
        }
        Ok(hits)
    }

    /// Whether it can read its memories at all.
    async fn reads(&self, ends: Instant) -> Answer<()> {
        self.healthy(ends).await?;
        let mut url = self.at(&["memory", "all"]);
        url.query_pairs_mut().append_pair("l", "1");
        self.get(url, ends).await.map(drop)
    }

    /// The user whose memories alone are asked for.
    fn only_user<'a>(&self, search: &'a Search) -> Option<&'a str> {
        match search.spaces.as_slice() {
            [space] => self.user_of(space),
            _ => None,
        }
    }
}

/// Waits for all, a few at a time by the caller's choice.
async fn together<T, F>(reading: Vec<(T, F)>) -> Vec<(T, F::Output)>
where
    F: Future,
{
    let (keys, futures): (Vec<T>, Vec<F>) = reading.into_iter().unzip();
    let outputs = futures_util::future::join_all(futures).await;
    keys.into_iter().zip(outputs).collect()
}

fn fetched(search: &Search) -> u32 {
    search.top_k.saturating_mul(OVERFETCH).clamp(1, FETCHED_MAX)
}

fn wanted(search: &Search) -> BTreeSet<&str> {
    search.spaces.iter().map(String::as_str).collect()
}

fn score(row: &Value) -> Option<f64> {
    row.get("score").and_then(Value::as_f64)
}

/// A row of a space that was asked for.
fn hit(row: &Value, score: Option<f64>, wanted: &BTreeSet<&str>) -> Option<Hit> {
    let metadata = metadata_of(row);
    let space = space_of(&metadata)
        .filter(|space| wanted.contains(space))?
        .to_owned();
    Some(Hit {
        id: row.get("id")?.as_str()?.to_owned(),
        content: row.get("content")?.as_str()?.to_owned(),
        score,
        space,
        metadata,
    })
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
