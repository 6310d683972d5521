//! One fetch of a search, and the reading of its results; the next fetch is larger.

use std::collections::HashMap;

use futures_util::{FutureExt, future::join_all};
use serde_json::Value;
use tokio::time::Instant;

use super::Part;
use crate::{
    BackendError, MemoryItem,
    openmemory::{Answer, OpenMemory},
};

/// Concurrent reads.
const READERS: usize = 8;

pub(super) struct Round {
    /// Results to fetch.
    pub(super) fetched: u32,
    /// Matches so far, best first.
    pub(super) hits: Vec<MemoryItem>,
    /// Whether a larger fetch would find no more.
    pub(super) is_last: bool,
    /// Rows read so far by id; none for those that are gone or no match.
    read: HashMap<String, Option<MemoryItem>>,
}

impl Round {
    pub(super) fn new(fetched: u32) -> Self {
        Self {
            fetched,
            hits: Vec::new(),
            is_last: false,
            read: HashMap::new(),
        }
    }
}

impl OpenMemory {
    /// Reads the results in order until there are enough matches.
    pub(super) async fn read_each(
        &self,
        matches: &[Value],
        part: &Part<'_>,
        round: &mut Round,
        enough: usize,
        ends: Instant,
    ) -> Answer<()> {
        let mut hits = Vec::new();
        for some in matches.chunks(READERS) {
            self.read(some, part, &mut round.read, ends).await?;
            let read = some.iter().filter_map(|found| {
                let hit = round.read.get(name(found))?.clone()?;
                Some(MemoryItem {
                    score: found.get("score").and_then(Value::as_f64),
                    ..hit
                })
            });
            hits.extend(read);
            if hits.len() >= enough {
                break;
            }
        }
        round.hits = hits;
        Ok(())
    }

    /// Reads the rows that were not read before.
    async fn read(
        &self,
        some: &[Value],
        part: &Part<'_>,
        known: &mut HashMap<String, Option<MemoryItem>>,
        ends: Instant,
    ) -> Answer<()> {
        let mut reading = Vec::new();
        for name in some.iter().map(name) {
            if !known.contains_key(name) {
                let row = self.get(self.at(&["memory", name]), ends);
                reading.push(row.map(move |row| (name, row)));
            }
        }
        for (name, row) in join_all(reading).await {
            let hit = match row {
                Ok(row) => part.hit(&row),
                // Deleted since, or another tenant's.
                Err(BackendError::Api {
                    status: 403 | 404, ..
                }) => None,
                Err(error) => return Err(error),
            };
            known.insert(name.to_owned(), hit);
        }
        Ok(())
    }
}

fn name(found: &Value) -> &str {
    found.get("id").and_then(Value::as_str).unwrap_or_default()
}
