//! Asking for a memory by its space and hash.

use reqwest::Url;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    Answer, OpenMemory,
    dialect::Speaks,
    retold::{id, is_named, is_whole},
};
use crate::{BackendError, NewMemory, StoredMemory};

const PAGE: usize = 500;
/// How many of them are asked for when their texts are too long to come together.
const PAGE_OF_LONG: usize = 20;
/// How many memories the Python server is asked for, which can only search.
const SEARCHED: usize = 50;

impl OpenMemory {
    pub(super) async fn find_until(
        &self,
        memory: &NewMemory,
        ends: Instant,
    ) -> Answer<Option<StoredMemory>> {
        match self.speaks(ends).await? {
            Speaks::Python => self.find_by_search(memory, ends).await,
            Speaks::Js1 | Speaks::JsHead => self.find_in_list(memory, ends).await,
        }
    }

    /// Reads the memory of this name; where that is gone, or has become another one, looks for it
    /// everywhere.
    pub(super) async fn has_until(
        &self,
        memory: &NewMemory,
        memory_id: Option<&str>,
        ends: Instant,
    ) -> Answer<Option<StoredMemory>> {
        if let Some(name) = memory_id
            && self.speaks(ends).await? != Speaks::Python
        {
            let row = match self.get(self.at(&["memory", name]), ends).await {
                Ok(row) => Some(row),
                Err(BackendError::Api {
                    status: 403 | 404, ..
                }) => None,
                Err(error) => return Err(error),
            };
            let sha = memory.payload_sha();
            if row.is_some_and(|row| is_named(&row, memory, &sha) && is_whole(&row, memory)) {
                return Ok(Some(StoredMemory {
                    memory_id: name.to_owned(),
                }));
            }
        }
        self.find_until(memory, ends).await
    }

    /// Goes through everything the server has, newest first: its search guesses, forgets for a minute
    /// and remembers what was deleted, and what is uncertain was sent a moment ago.
    async fn find_in_list(
        &self,
        memory: &NewMemory,
        ends: Instant,
    ) -> Answer<Option<StoredMemory>> {
        let sha = memory.payload_sha();
        let user = match self.speaks(ends).await? {
            Speaks::JsHead => None,
            _ => self.user_of(&memory.target_space),
        };
        let (mut seen, mut most) = (0, PAGE);
        loop {
            let answer = match self.get(self.page(user, seen, most), ends).await {
                Err(BackendError::Protocol(_)) if most > PAGE_OF_LONG => {
                    most = PAGE_OF_LONG;
                    continue;
                }
                answer => answer?,
            };
            let Some(rows) = answer.get("items").and_then(Value::as_array) else {
                return Err(BackendError::Protocol(
                    "/memory/all answers no items".into(),
                ));
            };
            if let Some(stored) = among(rows, memory, &sha) {
                return Ok(Some(stored));
            }
            seen += rows.len();
            if rows.len() < most {
                return Ok(None);
            }
        }
    }

    pub(super) fn page(&self, user: Option<&str>, seen: usize, most: usize) -> Url {
        let mut url = self.at(&["memory", "all"]);
        let mut query = url.query_pairs_mut();
        query
            .append_pair("l", &most.to_string())
            .append_pair("u", &seen.to_string());
        if let Some(user) = user {
            query.append_pair("user_id", user);
        }
        drop(query);
        url
    }

    async fn find_by_search(
        &self,
        memory: &NewMemory,
        ends: Instant,
    ) -> Answer<Option<StoredMemory>> {
        let body = json!({
            "query": memory.payload_md, "limit": SEARCHED, "filters": {},
            "user_id": self.user_of(&memory.target_space),
        });
        let answer = self.post(&["memory", "search"], &body, ends).await?;
        let Some(rows) = answer.get("results").and_then(Value::as_array) else {
            return Err(BackendError::Protocol(
                "/memory/search answers no results".into(),
            ));
        };
        Ok(among(rows, memory, &memory.payload_sha()))
    }
}

fn among(rows: &[Value], memory: &NewMemory, sha: &str) -> Option<StoredMemory> {
    let row = rows
        .iter()
        .find(|row| is_named(row, memory, sha) && is_whole(row, memory))?;
    Some(StoredMemory {
        memory_id: id(row)?.to_owned(),
    })
}
