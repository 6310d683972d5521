//! Finding a memory by space and hash.

use reqwest::Url;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    Answer, OpenMemory,
    dialect::DialectState,
    row::{has_key, has_text, id},
};
use crate::{BackendError, NewMemory, StoredMemory};

const PAGE: usize = 500;
/// Page size if the texts of a full page exceed the answer limit.
const PAGE_OF_LONG: usize = 20;
/// Search limit on the Python server, which cannot list.
const SEARCHED: usize = 50;

impl OpenMemory {
    pub(super) async fn find_until(
        &self,
        memory: &NewMemory,
        ends: Instant,
    ) -> Answer<Option<StoredMemory>> {
        match self.detected_dialect(ends).await? {
            DialectState::Python => self.find_by_search(memory, ends).await,
            DialectState::Js1 | DialectState::JsHead => self.find_in_list(memory, ends).await,
        }
    }

    /// Reads the memory by id; if that is gone or has other content, finds it by space and hash.
    pub(super) async fn has_until(
        &self,
        memory: &NewMemory,
        memory_id: Option<&str>,
        ends: Instant,
    ) -> Answer<Option<StoredMemory>> {
        if let Some(name) = memory_id
            && self.detected_dialect(ends).await? != DialectState::Python
        {
            let row = match self.get(self.at(&["memory", name]), ends).await {
                Ok(row) => Some(row),
                Err(BackendError::Api {
                    status: 403 | 404, ..
                }) => None,
                Err(error) => return Err(error),
            };
            let sha = memory.payload_sha();
            if row.is_some_and(|row| has_key(&row, memory, &sha) && has_text(&row, memory)) {
                return Ok(Some(StoredMemory {
                    memory_id: name.to_owned(),
                }));
            }
        }
        self.find_until(memory, ends).await
    }

    /// Scans all rows, newest first: the server's search is approximate, caches results for a minute and
    /// returns deleted rows. A memory in doubt was sent recently, so it is found early.
    async fn find_in_list(
        &self,
        memory: &NewMemory,
        ends: Instant,
    ) -> Answer<Option<StoredMemory>> {
        let sha = memory.payload_sha();
        let user = match self.detected_dialect(ends).await? {
            DialectState::JsHead => None,
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
        .find(|row| has_key(row, memory, sha) && has_text(row, memory))?;
    Some(StoredMemory {
        memory_id: id(row)?.to_owned(),
    })
}
