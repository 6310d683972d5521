//! Memories and their messages.

use consign_kernel::{NewMessage, QueueName, hex};
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{QUEUE, uri::mask_credentials_in_fields};

/// The name of the queue.
pub fn queue() -> QueueName {
    QUEUE.parse().expect("a queue's name")
}

/// The identity of a memory's text: SHA-256 over its UTF-8 bytes, in lower-case hex.
pub fn payload_sha(payload_md: &str) -> String {
    hex(digest(&SHA256, payload_md.as_bytes()).as_ref())
}

/// The key of a memory's message: one per space and content.
pub fn message_key(target_space: &str, payload_sha: &str) -> String {
    format!("{target_space}#{payload_sha}")
}

/// The key of a memory's nth row: a sent row does not change, so a repeat or another backend needs
/// a new row.
pub fn nth_key(target_space: &str, payload_sha: &str, n: u32) -> String {
    let key = message_key(target_space, payload_sha);
    match n {
        0 | 1 => key,
        n => format!("{key}#{n}"),
    }
}

/// Whether a key belongs to a memory.
pub fn is_key(key: &str, target_space: &str, payload_sha: &str) -> bool {
    let Some(rest) = key.strip_prefix(&message_key(target_space, payload_sha)) else {
        return false;
    };
    let n = rest.strip_prefix('#').map(str::parse::<u32>);
    rest.is_empty() || matches!(n, Some(Ok(n)) if nth_key(target_space, payload_sha, n) == key)
}

/// A memory for the outbox.
///
/// Its message has the payload `{"target_space", "payload_sha", "payload_md"}` and the key
/// [`nth_key`]: these identify a memory. All other fields are headers, so that a deferred memory
/// has the same fields as a direct one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NewMemory {
    /// Its space: `team:p`, `private:alice`, `org:shared`.
    pub target_space: String,
    /// The text.
    pub payload_md: String,
    /// Identity of its backend; `None`: that of the delivering worker.
    pub backend: Option<String>,
    /// Its item in the logbook.
    pub item_id: Option<i64>,
    /// Why it was not stored directly, if that was tried; shown until the first attempt.
    pub last_error: Option<String>,
    /// Whether the direct attempt may have succeeded: look it up before sending.
    pub may_be_stored: bool,
    /// Correlation id of its request.
    pub correlation_id: Option<String>,
    /// Its actor.
    pub actor_user_id: Option<String>,
    /// `PROCEDURE`, `DECISION` and so on.
    pub kind: Option<String>,
    /// Fields of the caller.
    pub meta_json: Map<String, Value>,
    /// Evidence as sent to the memory server.
    pub evidence: Vec<Value>,
    /// Id of the memory that it replaces.
    pub supersedes: Option<String>,
}

impl NewMemory {
    /// The hash of its text.
    pub fn payload_sha(&self) -> String {
        payload_sha(&self.payload_md)
    }

    /// Its message. Credentials in URIs beside the text are masked.
    pub fn message(&self) -> NewMessage {
        let sha = self.payload_sha();
        let payload = json!({
            "target_space": self.target_space, "payload_sha": sha, "payload_md": self.payload_md,
        });
        let mut headers = Map::new();
        let mut put = |name: &str, value: Value| {
            let is_empty = match &value {
                Value::Null | Value::Bool(false) => true,
                Value::Array(values) => values.is_empty(),
                Value::Object(fields) => fields.is_empty(),
                _ => false,
            };
            if !is_empty {
                headers.insert(name.to_owned(), value);
            }
        };
        put("backend", json!(self.backend));
        put("item_id", json!(self.item_id));
        put("last_error", json!(self.last_error));
        put("may_be_stored", json!(self.may_be_stored));
        put("correlation_id", json!(self.correlation_id));
        put("actor_user_id", json!(self.actor_user_id));
        put("kind", json!(self.kind));
        put("meta_json", Value::Object(self.meta_json.clone()));
        put("evidence", Value::Array(self.evidence.clone()));
        put("supersedes", json!(self.supersedes));
        mask_credentials_in_fields(&mut headers);
        let key = message_key(&self.target_space, &sha);
        NewMessage {
            headers,
            ..NewMessage::new(queue(), payload).with_key(key)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_memory_has_a_key_for_each_of_its_rows() {
        assert_eq!(nth_key("team:p", "a1", 1), "team:p#a1");
        assert_eq!(nth_key("team:p", "a1", 2), "team:p#a1#2");
        for (key, is_ours) in [
            ("team:p#a1", true),
            ("team:p#a1#2", true),
            ("team:p#a1#17", true),
            ("team:p#a1#1", false),
            ("team:p#a1#02", false),
            ("team:p#a1#+2", false),
            ("team:p#a1#", false),
            ("team:p#a12", false),
            ("team:q#a1", false),
        ] {
            assert_eq!(is_key(key, "team:p", "a1"), is_ours, "{key}");
        }
    }

    #[test]
    fn hashes_are_over_the_bytes_as_they_are() {
        let vectors = [
            (
                "",
                "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            ),
            (
                "test",
                "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
            ),
            (
                "hello",
                "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824",
            ),
            (
                "# Test\n",
                "47dd7b50af765df240fe2514f029fc697c907fc37a3267e22060f2f9f611975c",
            ),
            (
                "a\nb",
                "7e18f737311b2dc3b2f269dd78396b0351f14fb66efa879f768cb23181883c78",
            ),
        ];
        for (text, sha) in vectors {
            assert_eq!(payload_sha(text), sha, "{text:?}");
        }
    }
}
