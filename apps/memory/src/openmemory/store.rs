//! Storing, and making sure of it.

use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    Answer, OpenMemory,
    dialect::Speaks,
    retold::{id, is_merged, is_named, is_whole, metadata, tags, unheard_of},
};
use crate::{BackendError, NewMemory, StoredMemory};

/// Servers that shorten do so from here on unless set otherwise; they count in units of UTF-16.
const LONG_UNITS: usize = 200;
/// A placeholder that is merged with another one is as good as impossible.
const PLACEHOLDERS_MAX: usize = 3;

impl OpenMemory {
    pub(super) async fn store_in_turn(
        &self,
        memory: &NewMemory,
        ends: Instant,
    ) -> Answer<StoredMemory> {
        let speaks = self.speaks(ends).await?;
        let answer = self
            .add(speaks, memory, &memory.payload_md, metadata(memory), ends)
            .await?;
        let sure = self.make_sure(speaks, memory, &answer, ends).await;
        // It was handed in, whatever could not be asked afterwards.
        sure.map_err(|error| match error {
            BackendError::Unreachable(why) => BackendError::Unknown(why),
            error => error,
        })
    }

    /// Finds out whether the server has what it was handed, and sees to it that it has.
    async fn make_sure(
        &self,
        speaks: Speaks,
        memory: &NewMemory,
        answer: &Value,
        ends: Instant,
    ) -> Answer<StoredMemory> {
        if answer.get("success") == Some(&Value::Bool(false)) {
            return Err(BackendError::Protocol(
                "said that it did not store it".into(),
            ));
        }
        let Some(name) = id(answer).map(str::to_owned) else {
            // It may have it all the same: only asking tells.
            return match self.find_until(memory, ends).await? {
                Some(stored) => Ok(stored),
                None => Err(BackendError::Protocol("stored it under no name".into())),
            };
        };
        match (speaks, is_merged(answer)) {
            (Speaks::Python, false) => Ok(StoredMemory { memory_id: name }),
            (Speaks::Python, true) => match self.find_until(memory, ends).await? {
                Some(stored) => Ok(stored),
                None => Err(merged()),
            },
            (_, true) => self.store_apart(speaks, memory, &name, ends).await,
            (_, false) => self.store_whole(memory, name, ends).await,
        }
    }

    /// Hands a text in.
    async fn add(
        &self,
        speaks: Speaks,
        memory: &NewMemory,
        content: &str,
        metadata: Value,
        ends: Instant,
    ) -> Answer<Value> {
        let mut body = json!({"content": content, "tags": tags(memory), "metadata": metadata});
        // For the newer server the key is the user.
        if speaks != Speaks::JsHead {
            body["user_id"] = json!(self.user_of(&memory.target_space));
        }
        self.post(&["memory", "add"], &body, ends).await
    }

    /// Makes sure that a text was kept whole. A short one is believed where long ones were seen to
    /// be; a long one never is: the server may have been started anew with other settings, and
    /// nothing but reading shows it.
    async fn store_whole(
        &self,
        memory: &NewMemory,
        name: String,
        ends: Instant,
    ) -> Answer<StoredMemory> {
        let is_long = memory.payload_md.encode_utf16().count() > LONG_UNITS;
        if is_long || !self.known().keeps_long_texts {
            let row = self.get(self.at(&["memory", &name]), ends).await?;
            let is_kept = is_whole(&row, memory);
            self.known().keeps_long_texts &= is_kept;
            if !is_kept {
                self.remove(&name, ends).await?;
                return Err(shortened());
            }
            self.known().keeps_long_texts |= is_long;
        }
        Ok(StoredMemory { memory_id: name })
    }

    /// The server says that it has the text already, as `name`. If that is our own memory, it is
    /// stored; if it is somebody else's, ours gets a row of its own: a text that resembles nothing,
    /// overwritten with the real one.
    async fn store_apart(
        &self,
        speaks: Speaks,
        memory: &NewMemory,
        name: &str,
        ends: Instant,
    ) -> Answer<StoredMemory> {
        let sha = memory.payload_sha();
        match self.get(self.at(&["memory", name]), ends).await {
            Ok(row) if is_named(&row, memory, &sha) && is_whole(&row, memory) => {
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
        // It may have a row of its own from before, whose storing nobody heard of.
        if let Some(stored) = self.find_until(memory, ends).await? {
            return Ok(stored);
        }
        let name = self.placeholder(speaks, memory, ends).await?;
        let stored = self.overwrite(memory, &name, ends).await;
        if let Err(error) = &stored {
            // Nobody finds it where it is, but it need not stay either. What may have become the
            // memory after all is left: whoever asks will find it.
            if !matches!(error, BackendError::Unknown(_)) {
                drop(self.remove(&name, ends).await);
            }
        }
        stored
    }

    async fn placeholder(
        &self,
        speaks: Speaks,
        memory: &NewMemory,
        ends: Instant,
    ) -> Answer<String> {
        for _ in 0..PLACEHOLDERS_MAX {
            let metadata =
                json!({"sector": "semantic", "source": "consign", "space": PLACEHOLDERS});
            let answer = self
                .add(speaks, memory, &unheard_of(8), metadata, ends)
                .await?;
            match id(&answer) {
                Some(name) if !is_merged(&answer) => return Ok(name.to_owned()),
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
        if !is_named(&row, memory, &memory.payload_sha()) {
            return Err(merged());
        }
        match is_whole(&row, memory) {
            true => Ok(StoredMemory {
                memory_id: name.to_owned(),
            }),
            false => Err(shortened()),
        }
    }

    /// Removes a row; that it is gone already is as well.
    pub(super) async fn remove(&self, name: &str, ends: Instant) -> Answer<()> {
        let url = self.at(&["memory", name]);
        // The older server wants a body.
        match self.call(Method::DELETE, url, Some(&json!({})), ends).await {
            Ok(_) | Err(BackendError::Api { status: 404, .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// The space of rows that are to become memories. No caller can ask for it: it has no colon.
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
