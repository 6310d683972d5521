//! Reading a memory from its message.

use consign_kernel::{Message, Payload};
use serde_json::{Map, Value};

use crate::{NewMemory, is_key};

/// The memory of a message, or why the message is malformed.
pub(crate) fn read(message: &Message) -> Result<NewMemory, String> {
    let payload = message.payload.members().unwrap_or_default();
    let text = |name: &str| {
        let text = payload.get(name).and_then(Payload::text);
        text.ok_or_else(|| format!("its payload has no text {name:?}"))
    };
    let header = |name: &str| message.headers.get(name);
    let word = |name: &str| header(name).and_then(Value::as_str).map(str::to_owned);
    let memory = NewMemory {
        target_space: text("target_space")?,
        payload_md: text("payload_md")?,
        backend: word("backend"),
        item_id: header("item_id").and_then(Value::as_i64),
        last_error: word("last_error"),
        may_be_stored: header("may_be_stored") == Some(&Value::Bool(true)),
        correlation_id: word("correlation_id"),
        actor_user_id: word("actor_user_id"),
        kind: word("kind"),
        meta_json: match header("meta_json") {
            Some(Value::Object(fields)) => fields.clone(),
            _ => Map::new(),
        },
        evidence: match header("evidence") {
            Some(Value::Array(evidence)) => evidence.clone(),
            _ => Vec::new(),
        },
        supersedes: word("supersedes"),
    };
    let sha = memory.payload_sha();
    if text("payload_sha")? != sha {
        return Err("its hash is not that of its text".to_owned());
    }
    let key = message.key.as_deref();
    if !key.is_some_and(|key| is_key(key, &memory.target_space, &sha)) {
        return Err("its key is not that of its space and text".to_owned());
    }
    Ok(memory)
}

#[cfg(test)]
mod tests {
    use consign_kernel::MessageId;
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;

    fn message(memory: &NewMemory) -> Message {
        let new = memory.message();
        Message {
            id: MessageId(1),
            queue: new.queue,
            key: new.key,
            group: None,
            payload: new.payload,
            headers: new.headers,
            created_at: Timestamp::UNIX_EPOCH,
            expires_at: None,
        }
    }

    /// A deferred memory has every field of a direct one.
    #[test]
    fn a_message_keeps_every_field_of_its_memory() {
        let memory = NewMemory {
            target_space: "private:alice".to_owned(),
            payload_md: "# Test\n".to_owned(),
            backend: Some("openmemory:http://m.example".to_owned()),
            item_id: Some(7),
            last_error: Some("connection_error: gone".to_owned()),
            may_be_stored: true,
            correlation_id: Some("corr-0123456789abcdef".to_owned()),
            actor_user_id: Some("alice".to_owned()),
            kind: Some("DECISION".to_owned()),
            meta_json: json!({"a": [1, {"b": null}]}).as_object().unwrap().clone(),
            evidence: vec![json!({"uri": "git://r/c/1", "sha256": ""})],
            supersedes: Some("mem-1".to_owned()),
        };
        assert_eq!(read(&message(&memory)), Ok(memory));
        let bare = NewMemory {
            target_space: "team:p".to_owned(),
            ..NewMemory::default()
        };
        assert_eq!(read(&message(&bare)), Ok(bare));
    }

    #[test]
    fn an_inconsistent_message_is_malformed() {
        let memory = NewMemory {
            target_space: "team:p".to_owned(),
            payload_md: "test".to_owned(),
            ..NewMemory::default()
        };
        fn change(message: &mut Message, name: &str, value: Value) {
            let mut payload: Value = message.payload.read().unwrap();
            payload[name] = value;
            message.payload = payload.into();
        }
        type Damage = fn(&mut Message);
        let damages: [Damage; 5] = [
            |message| message.payload = json!("test").into(),
            |message| change(message, "payload_md", json!(7)),
            |message| change(message, "payload_md", json!("Test")),
            |message| change(message, "target_space", json!("team:q")),
            |message| message.key = None,
        ];
        for (index, damage) in damages.into_iter().enumerate() {
            let mut message = message(&memory);
            damage(&mut message);
            assert!(read(&message).is_err(), "damage {index}");
        }
    }
}
