//! Storing a memory, and verifying that it is stored.

use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    Answer, OpenMemory,
    dialect::DialectState,
    row::{has_key, has_text, id, is_deduplicated, metadata, random_words, tags},
};
use crate::{BackendError, NewMemory, StoredMemory};

/// Servers with `OM_USE_SUMMARY_ONLY` shorten texts above this length in UTF-16 units.
const LONG_UNITS: usize = 200;
/// Attempts to store a placeholder that the server does not merge.
const PLACEHOLDERS_MAX: usize = 3;

impl OpenMemory {
    pub(super) async fn store_locked(
        &self,
        memory: &NewMemory,
        ends: Instant,
    ) -> Answer<StoredMemory> {
        let dialect = self.detected_dialect(ends).await?;
        let answer = self
            .add(dialect, memory, &memory.payload_md, metadata(memory), ends)
            .await?;
        let verified = self.verify(dialect, memory, &answer, ends).await;
        // It was sent, whatever failed afterwards.
        verified.map_err(|error| match error {
            BackendError::Unreachable(why) => BackendError::Unknown(why),
            error => error,
        })
    }

    /// Verifies that the server has what was sent, and repairs what it merged.
    async fn verify(
        &self,
        dialect: DialectState,
        memory: &NewMemory,
        answer: &Value,
        ends: Instant,
    ) -> Answer<StoredMemory> {
        if answer.get("success") == Some(&Value::Bool(false)) {
            return Err(BackendError::Protocol(
                "answered success: false; it is not stored".into(),
            ));
        }
        let Some(name) = id(answer).map(str::to_owned) else {
            // It may be stored without an id in the answer.
            return match self.find_until(memory, ends).await? {
                Some(stored) => Ok(stored),
                None => Err(BackendError::Protocol("answered without an id".into())),
            };
        };
        match (dialect, is_deduplicated(answer)) {
            (DialectState::Python, false) => Ok(StoredMemory { memory_id: name }),
            (DialectState::Python, true) => match self.find_until(memory, ends).await? {
                Some(stored) => Ok(stored),
                None => Err(merged()),
            },
            (_, true) => self.store_unmerged(dialect, memory, &name, ends).await,
            (_, false) => self.verify_text(memory, name, ends).await,
        }
    }

    async fn add(
        &self,
        dialect: DialectState,
        memory: &NewMemory,
        content: &str,
        metadata: Value,
        ends: Instant,
    ) -> Answer<Value> {
        let mut body = json!({"content": content, "tags": tags(memory), "metadata": metadata});
        // On the newer server the key determines the user.
        if dialect != DialectState::JsHead {
            body["user_id"] = json!(self.user_of(&memory.target_space));
        }
        self.post(&["memory", "add"], &body, ends).await
    }

    /// Verifies that the server kept the whole text. A short one is not read back once a long one was kept
    /// whole; a long one always is, because the server may have been restarted with other settings.
    async fn verify_text(
        &self,
        memory: &NewMemory,
        name: String,
        ends: Instant,
    ) -> Answer<StoredMemory> {
        let is_long = memory.payload_md.encode_utf16().count() > LONG_UNITS;
        if is_long || !self.facts().keeps_long_texts {
            let row = self.get(self.at(&["memory", &name]), ends).await?;
            let is_kept = has_text(&row, memory);
            self.facts().keeps_long_texts &= is_kept;
            if !is_kept {
                self.remove(&name, ends).await?;
                return Err(shortened());
            }
            self.facts().keeps_long_texts |= is_long;
        }
        Ok(StoredMemory { memory_id: name })
    }

    /// The server merged the text with the row `name`. If that is this memory, it is stored. Otherwise it
    /// gets a row of its own: a random text, which resembles nothing, is stored and then overwritten.
    async fn store_unmerged(
        &self,
        dialect: DialectState,
        memory: &NewMemory,
        name: &str,
        ends: Instant,
    ) -> Answer<StoredMemory> {
        let sha = memory.payload_sha();
        match self.get(self.at(&["memory", name]), ends).await {
            Ok(row) if has_key(&row, memory, &sha) && has_text(&row, memory) => {
                return Ok(StoredMemory {
                    memory_id: name.to_owned(),
                });
            }
            Ok(_)
            | Err(BackendError::Api {
                status: 403 | 404, ..
            }) => {}
            Err(error) => return Err(error),
        }
        // An earlier attempt with an unknown result may have given it a row of its own.
        if let Some(stored) = self.find_until(memory, ends).await? {
            return Ok(stored);
        }
        let name = self.placeholder(dialect, memory, ends).await?;
        let stored = self.overwrite(memory, &name, ends).await;
        if let Err(error) = &stored {
            // The placeholder is of no use, unless the overwrite may have happened: then the next
            // attempt finds the memory.
            if !matches!(error, BackendError::Unknown(_)) {
                drop(self.remove(&name, ends).await);
            }
        }
        stored
    }

    async fn placeholder(
        &self,
        dialect: DialectState,
        memory: &NewMemory,
        ends: Instant,
    ) -> Answer<String> {
        for _ in 0..PLACEHOLDERS_MAX {
            let metadata =
                json!({"sector": "semantic", "source": "consign", "space": PLACEHOLDERS});
            let answer = self
                .add(dialect, memory, &random_words(8), metadata, ends)
                .await?;
            match id(&answer) {
                Some(name) if !is_deduplicated(&answer) => return Ok(name.to_owned()),
                _ => {}
            }
        }
        Err(merged())
    }

    async fn overwrite(
        &self,
        memory: &NewMemory,
        name: &str,
        ends: Instant,
    ) -> Answer<StoredMemory> {
        let url = self.at(&["memory", name]);
        let body = json!({
            "content": memory.payload_md, "tags": tags(memory), "metadata": metadata(memory),
        });
        self.call(Method::PATCH, url.clone(), Some(&body), ends)
            .await?;
        let row = self.get(url, ends).await?;
        if !has_key(&row, memory, &memory.payload_sha()) {
            return Err(merged());
        }
        if !has_text(&row, memory) {
            return Err(shortened());
        }
        Ok(StoredMemory {
            memory_id: name.to_owned(),
        })
    }

    /// Removes a row; a missing one is no error.
    pub(super) async fn remove(&self, name: &str, ends: Instant) -> Answer<()> {
        let url = self.at(&["memory", name]);
        // The older server requires a body.
        match self.call(Method::DELETE, url, Some(&json!({})), ends).await {
            Ok(_) | Err(BackendError::Api { status: 404, .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// The space of placeholder rows. No request can name it: it has no colon.
pub(super) const PLACEHOLDERS: &str = "consign-placeholder";

fn merged() -> BackendError {
    BackendError::Protocol("merged it with another memory: it is not stored".into())
}

pub(super) fn shortened() -> BackendError {
    BackendError::Protocol(
        "keeps only a summary of texts over 200 characters: it is not stored; start the server \
         with OM_USE_SUMMARY_ONLY=false"
            .into(),
    )
}
