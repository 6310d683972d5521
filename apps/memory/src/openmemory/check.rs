//! Checking a server before memories depend on it.

use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    Answer, OpenMemory,
    dialect::DialectState,
    row::{has_text, id, is_deduplicated, random_words},
    store::{PLACEHOLDERS, shortened},
};
use crate::{BackendError, NewMemory};

impl OpenMemory {
    /// Connects, detects the dialect, and stores, reads and removes a long text.
    pub(super) async fn check_locked(&self, ends: Instant) -> Answer<Vec<String>> {
        self.healthy(ends).await?;
        let mut warnings = Vec::new();
        match self.detected_dialect(ends).await? {
            DialectState::Python => warnings.push(
                "this OpenMemory (Python) cannot read single memories: stores are not verified, \
                 and memories that may have been stored are looked up by search"
                    .into(),
            ),
            DialectState::Js1 | DialectState::JsHead => {
                if !self.keeps_long_texts(ends).await? {
                    warnings.push(shortened().to_string());
                }
            }
        }
        Ok(warnings)
    }

    async fn keeps_long_texts(&self, ends: Instant) -> Answer<bool> {
        let sample = NewMemory {
            target_space: PLACEHOLDERS.into(),
            payload_md: random_words(12),
            ..NewMemory::default()
        };
        let metadata = json!({"sector": "semantic", "source": "consign", "space": PLACEHOLDERS});
        let body = json!({"content": sample.payload_md, "tags": [], "metadata": metadata});
        let answer = self.post(&["memory", "add"], &body, ends).await?;
        let Some(name) = id(&answer).filter(|_| !is_deduplicated(&answer)) else {
            let why = "stored a sample without an id of its own";
            return Err(BackendError::Protocol(why.into()));
        };
        let row: Answer<Value> = self.get(self.at(&["memory", name]), ends).await;
        self.remove(name, ends).await?;
        let is_kept = has_text(&row?, &sample);
        self.facts().keeps_long_texts = is_kept;
        Ok(is_kept)
    }
}
