//! What is wrong with a server, found out before it matters.

use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    Answer, OpenMemory,
    dialect::Speaks,
    retold::{id, is_merged, is_whole, unheard_of},
    store::{PLACEHOLDERS, shortened},
};
use crate::{BackendError, NewMemory};

impl OpenMemory {
    /// Reaches the server, learns its dialect, and stores and removes a long text to see whether it
    /// comes back whole.
    pub(super) async fn check_in_turn(&self, ends: Instant) -> Answer<Vec<String>> {
        self.healthy(ends).await?;
        let mut warnings = Vec::new();
        match self.speaks(ends).await? {
            Speaks::Python => warnings.push(
                "this OpenMemory cannot be asked for single memories: what it says it stored is \
                 believed, and memories that may have been stored are looked for by searching"
                    .into(),
            ),
            Speaks::Js1 | Speaks::JsHead => {
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
            payload_md: unheard_of(12),
            ..NewMemory::default()
        };
        let metadata = json!({"sector": "semantic", "source": "consign", "space": PLACEHOLDERS});
        let body = json!({"content": sample.payload_md, "tags": [], "metadata": metadata});
        let answer = self.post(&["memory", "add"], &body, ends).await?;
        let Some(name) = id(&answer).filter(|_| !is_merged(&answer)) else {
            let why = "stored a sample under no name of its own";
            return Err(BackendError::Protocol(why.into()));
        };
        let row: Answer<Value> = self.get(self.at(&["memory", name]), ends).await;
        self.remove(name, ends).await?;
        let is_kept = is_whole(&row?, &sample);
        self.known().keeps_long_texts = is_kept;
        Ok(is_kept)
    }
}
