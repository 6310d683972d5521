//! A memory as a server tells it back.

use jiff::Timestamp;
use ring::rand::{SecureRandom, SystemRandom};
use serde_json::{Map, Value, json};

use crate::{MemoryItem, NewMemory};

/// Where the caller's own values are in the metadata.
const META: &str = "meta_json";

/// A text that resembles no other: words of 32 hex digits.
pub(super) fn unheard_of(words: usize) -> String {
    let word = |_| {
        let mut bytes = [0; 16];
        let filled = SystemRandom::new().fill(&mut bytes);
        filled.expect("invariant: the system has random numbers");
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    };
    (0..words).map(word).collect::<Vec<String>>().join(" ")
}

/// What we say about a memory. What the caller wants kept with it has a place of its own: it must not
/// be taken for ours.
pub(super) fn metadata(memory: &NewMemory) -> Value {
    json!({
        // Without it the older servers search only where they guess it could be.
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

/// The tags of a memory, for people who look at the server.
pub(super) fn tags(memory: &NewMemory) -> Vec<String> {
    let kind = memory.kind.as_ref().map(|kind| format!("kind:{kind}"));
    [format!("space:{}", memory.target_space)]
        .into_iter()
        .chain(kind)
        .filter(|tag| tag.len() <= 256)
        .collect()
}

/// The name a server gives a memory, in whichever dialect.
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

/// Whether the server says that it had it already.
pub(super) fn is_merged(answer: &Value) -> bool {
    let places = [
        answer.get("deduplicated"),
        answer.pointer("/data/deduplicated"),
    ];
    places
        .into_iter()
        .flatten()
        .any(|it| it == &Value::Bool(true))
}

/// The metadata of a row, which some servers give as text.
pub(super) fn metadata_of(row: &Value) -> Value {
    match row.get("metadata") {
        Some(Value::String(text)) => serde_json::from_str(text).unwrap_or(Value::Null),
        Some(metadata) => metadata.clone(),
        None => Value::Null,
    }
}

/// The space of a row; none: it is not one of ours.
pub(super) fn space_of(metadata: &Value) -> Option<&str> {
    metadata
        .get("space")
        .or_else(|| metadata.get("target_space"))?
        .as_str()
}

/// A row as one of ours; none: it is not one.
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

/// Milliseconds since 1970, which some servers write as a text.
fn moment(value: &Value) -> Option<Timestamp> {
    let millis = match value {
        Value::String(text) => text.parse().ok()?,
        value => value.as_i64()?,
    };
    Timestamp::from_millisecond(millis).ok()
}

/// Whether a row is this memory by its name tag: our hash, in our space.
pub(super) fn is_named(row: &Value, memory: &NewMemory, sha: &str) -> bool {
    let metadata = metadata_of(row);
    let payload_sha = metadata.get("payload_sha").and_then(Value::as_str);
    space_of(&metadata) == Some(&memory.target_space) && payload_sha == Some(sha)
}

/// Whether a row holds the text as it was sent.
pub(super) fn is_whole(row: &Value, memory: &NewMemory) -> bool {
    row.get("content").and_then(Value::as_str) == Some(&memory.payload_md)
}
