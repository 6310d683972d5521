//! An archive in a temporary folder, and records for it.

use std::{collections::BTreeSet, fs, path::PathBuf};

use consign_archive::{
    Archive, ArchivedAttempt, ArchivedLate, Counts, Death, ErasedBy, IdRange, Manifest,
    ManifestFacts, Record, payload_digest,
};
use consign_kernel::{
    Attempt, AttemptOutcome, AuditEntry, Fence, LateResult, Message, MessageId, Outcome, Payload,
    StateKind, Token,
};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

pub(crate) struct Fixture {
    /// Removed at the end.
    _folder: tempfile::TempDir,
    pub(crate) archive: Archive,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let archive = Archive::open(folder.path().join("archive")).unwrap();
        Self {
            _folder: folder,
            archive,
        }
    }

    /// Archives records as one range, as read on a day of February 2026.
    pub(crate) fn write(&self, first: i64, last: i64, day: i8, records: &[Record]) -> Manifest {
        let mut writer = self.archive.begin(range(first, last)).unwrap();
        for record in records {
            writer.append(record).unwrap();
        }
        writer.finish(facts(day)).unwrap()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.archive.folder().join(name)
    }

    /// The files of the folder but the lock.
    pub(crate) fn files(&self) -> BTreeSet<String> {
        let entries = fs::read_dir(self.archive.folder()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name != ".lock").collect()
    }

    /// The text of every file, decompressed.
    pub(crate) fn texts(&self) -> String {
        let mut texts = String::new();
        for name in self.files() {
            let bytes = fs::read(self.path(&name)).unwrap();
            texts.push_str(&String::from_utf8_lossy(&bytes));
            if name.contains(".zst") {
                let lines = zstd::decode_all(&bytes[..]).unwrap();
                texts.push_str(&String::from_utf8(lines).unwrap());
            }
        }
        texts
    }

    /// Replaces a data file by other lines.
    pub(crate) fn replace_lines(&self, manifest: &Manifest, change: impl Fn(String) -> String) {
        let path = self.path(&manifest.file);
        let lines = zstd::decode_all(&fs::read(&path).unwrap()[..]).unwrap();
        let lines = change(String::from_utf8(lines).unwrap());
        fs::write(&path, zstd::encode_all(lines.as_bytes(), 3).unwrap()).unwrap();
    }
}

pub(crate) fn range(first: i64, last: i64) -> IdRange {
    let (first, last) = (MessageId(first), MessageId(last));
    IdRange { first, last }
}

pub(crate) fn facts(day: i8) -> ManifestFacts {
    ManifestFacts {
        store: "postgres".into(),
        schema_version: 42,
        made_at: time(2, day),
    }
}

pub(crate) fn time(month: i8, day: i8) -> Timestamp {
    format!("2026-{month:02}-{day:02}T10:11:12.123456Z")
        .parse()
        .unwrap()
}

pub(crate) fn erased_by(reason: &str) -> ErasedBy {
    ErasedBy {
        at: time(3, 1),
        actor: "ada".into(),
        reason: reason.into(),
    }
}

pub(crate) fn counts(messages: u64, attempts: u64, late: u64) -> Counts {
    Counts {
        messages,
        attempts,
        late,
    }
}

/// A delivered message of queue `letters` with a small payload.
pub(crate) fn record(id: i64) -> Record {
    with_payload(id, &format!(r#"{{"number":{id}}}"#))
}

pub(crate) fn with_payload(id: i64, payload: &str) -> Record {
    let payload: Payload = payload.parse().unwrap();
    Record {
        digest: payload_digest(&payload),
        message: Message {
            id: MessageId(id),
            queue: "letters".parse().unwrap(),
            key: Some(format!("key-{id}")),
            group: None,
            payload,
            headers: Map::new(),
            created_at: time(1, 1),
            expires_at: None,
        },
        state: StateKind::Delivered,
        attempts: vec![ArchivedAttempt::from(attempt(id, 1))],
        late: Vec::new(),
        audit: Vec::new(),
        dead: None,
        erased: None,
    }
}

/// A dead message of queue `parcels` in which every field has a value, with `secret` in all that an
/// erasure removes.
pub(crate) fn full_record(id: i64, secret: &str) -> Record {
    let payload = format!(r#"{{"name":"{secret}","amount":12.50}}"#);
    let mut record = with_payload(id, &payload);
    record.message.queue = "parcels".parse().unwrap();
    record.message.group = Some("customer-7".into());
    record.message.expires_at = Some(time(2, 1));
    let headers = json!({"correlation_id": "case-7", "user": secret, "weight": 0.1});
    if let Value::Object(headers) = headers {
        record.message.headers = headers;
    }
    record.state = StateKind::Dead;
    let detail = Some(format!("rejected {secret}"));
    let result = Some(json!({"echo": secret, "rate": 0.30000000000000004}));
    let mut second = attempt(id, 2);
    second.outcome = AttemptOutcome::Dead;
    (second.detail, second.result) = (detail.clone(), result.clone());
    record.attempts.push(second.into());
    record.late.push(ArchivedLate::from(LateResult {
        message_id: MessageId(id),
        token: token(),
        fence: Fence(77),
        owner: "worker-1".into(),
        outcome: Outcome::Delivered,
        code: Some("http_200".into()),
        detail: detail.clone(),
        result,
        at: time(1, 5),
    }));
    record.audit.push(AuditEntry {
        id: 5,
        at: time(1, 4),
        actor: "ada".into(),
        action: "requeue".into(),
        queue: Some("parcels".parse().unwrap()),
        message_id: Some(MessageId(id)),
        reason: "receiver is back".into(),
    });
    record.dead = Some(Death {
        at: time(1, 6),
        code: "http_410".into(),
        detail,
    });
    record
}

/// The token of every lease.
pub(crate) const TOKEN: &str = "6f1c1b1e-97a5-4c8f-9c39-0e8d5a3b7d42";

fn token() -> Token {
    serde_json::from_value(json!(TOKEN)).unwrap()
}

fn attempt(id: i64, attempt_no: u32) -> Attempt {
    Attempt {
        message_id: MessageId(id),
        attempt_no,
        outcome: AttemptOutcome::Delivered,
        owner: "worker-1".into(),
        fence: Fence(77),
        token: token(),
        claimed_at: time(1, 2),
        finished_at: time(1, 3),
        code: Some("http_200".into()),
        detail: None,
        result: None,
        next_due_at: None,
    }
}

pub(crate) fn ids(records: &[Record]) -> Vec<i64> {
    records.iter().map(|record| record.message.id.0).collect()
}

pub(crate) fn id_set(ids: &[i64]) -> BTreeSet<MessageId> {
    ids.iter().copied().map(MessageId).collect()
}
