//! The rows of a server: what is sent, and what is read back.

use consign_kernel::hex;
use jiff::Timestamp;
use ring::rand::{SecureRandom, SystemRandom};
use serde_json::{Map, Value, json};

use crate::{MemoryItem, NewMemory};

/// The metadata field of the caller's own values.
const META: &str = "meta_json";

/// A random text that the server merges with no other: words of 32 hex digits.
pub(super) fn random_words(words: usize) -> String {
    let word = |_| {
        let mut bytes = [0; 16];
        let filled = SystemRandom::new().fill(&mut bytes);
        filled.expect("invariant: the system has random numbers");
        hex(&bytes)
    };
    (0..words).map(word).collect::<Vec<String>>().join(" ")
}

/// The metadata of a memory. The caller's own values have a field of their own, so that they cannot
/// replace ours.
pub(super) fn metadata(memory: &NewMemory) -> Value {
    json!({
        // Without it the older servers guess the sector to search.
        "sector": "semantic",
        "source": "consign",
        "space": memory.target_space,
        "target_space": memory.target_space,
        "payload_sha": memory.payload_sha(),
        "kind": memory.kind,
        "actor_user_id": memory.actor_user_id,
        "item_id": memory.item_id,
        "correlation_id": memory.correlation_id,
        "evidence_refs": memory.evidence,
        "supersedes": memory.supersedes,
        META: memory.meta_json,
    })
}

/// The tags of a memory, for users of the server's own interface.
pub(super) fn tags(memory: &NewMemory) -> Vec<String> {
    let kind = memory.kind.as_ref().map(|kind| format!("kind:{kind}"));
    [format!("space:{}", memory.target_space)]
        .into_iter()
        .chain(kind)
        .filter(|tag| tag.len() <= 256)
        .collect()
}

/// The id in an answer of any dialect.
pub(super) fn id(answer: &Value) -> Option<&str> {
    let places = [
        answer.pointer("/data/id"),
        answer.get("id"),
        answer.get("memory_id"),
    ];
    places
        .into_iter()
        .flatten()
        .find_map(Value::as_str)
        .filter(|id| !id.is_empty())
}

/// Whether the server merged the text with another row.
pub(super) fn is_deduplicated(answer: &Value) -> bool {
    let places = [
        answer.get("deduplicated"),
        answer.pointer("/data/deduplicated"),
    ];
    places
        .into_iter()
        .flatten()
        .any(|it| it == &Value::Bool(true))
}

/// The metadata of a row, which some servers return as text.
pub(super) fn metadata_of(row: &Value) -> Value {
    match row.get("metadata") {
        Some(Value::String(text)) => serde_json::from_str(text).unwrap_or(Value::Null),
        Some(metadata) => metadata.clone(),
        None => Value::Null,
    }
}

/// The space of a row; none for rows of other programs.
pub(super) fn space_of(metadata: &Value) -> Option<&str> {
    metadata
        .get("space")
        .or_else(|| metadata.get("target_space"))?
        .as_str()
}

/// A row as a memory; none for rows of other programs.
pub(super) fn item(row: &Value) -> Option<MemoryItem> {
    let metadata = metadata_of(row);
    let text = |name: &str| metadata.get(name)?.as_str().map(str::to_owned);
    Some(MemoryItem {
        id: row.get("id")?.as_str()?.to_owned(),
        text: row.get("content")?.as_str()?.to_owned(),
        space: space_of(&metadata)?.to_owned(),
        kind: text("kind"),
        actor: text("actor_user_id"),
        created_at: row.get("created_at").and_then(moment),
        score: row.get("score").and_then(Value::as_f64),
        evidence: match metadata.get("evidence_refs") {
            Some(Value::Array(evidence)) => evidence.clone(),
            _ => Vec::new(),
        },
        meta: match metadata.get(META) {
            Some(Value::Object(meta)) => meta.clone(),
            _ => Map::new(),
        },
        supersedes: text("supersedes"),
        superseded_by: None,
    })
}

/// Milliseconds since 1970, which some servers return as text.
fn moment(value: &Value) -> Option<Timestamp> {
    let millis = match value {
        Value::String(text) => text.parse().ok()?,
        value => value.as_i64()?,
    };
    Timestamp::from_millisecond(millis).ok()
}

/// Whether a row has the space and hash of this memory.
pub(super) fn has_key(row: &Value, memory: &NewMemory, sha: &str) -> bool {
    let metadata = metadata_of(row);
    let payload_sha = metadata.get("payload_sha").and_then(Value::as_str);
    space_of(&metadata) == Some(&memory.target_space) && payload_sha == Some(sha)
}

/// Whether a row has the whole text.
pub(super) fn has_text(row: &Value, memory: &NewMemory) -> bool {
    row.get("content").and_then(Value::as_str) == Some(&memory.payload_md)
}
