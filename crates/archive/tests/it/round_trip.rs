//! What is read is what was written.

use consign_archive::{ArchivedAttempt, Record};
use consign_kernel::MessageId;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::damage::refresh;
use crate::fixture::{
    Fixture, TOKEN, counts, erased_by, facts, full_record, range, record, with_payload,
};

#[test]
fn records_are_read_as_they_were_written() {
    let fixture = Fixture::new();
    let records = [record(3), full_record(4, "Jane Doe"), record(9)];
    let manifest = fixture.write(1, 10, 1, &records);

    let read: Vec<Record> = fixture
        .archive
        .read(&manifest)
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(read, records);
    let verified = fixture.archive.verify(&manifest).unwrap();
    assert_eq!(verified.counts, counts(3, 4, 1));
    assert_eq!(
        verified.queues[&"letters".parse().unwrap()],
        counts(2, 2, 0)
    );
    assert_eq!(
        verified.queues[&"parcels".parse().unwrap()],
        counts(1, 2, 1)
    );
    assert_eq!(verified.erased, 0);
}

#[test]
fn the_manifest_describes_the_data_file() {
    let fixture = Fixture::new();
    let written = fixture.write(1, 10, 1, &[record(3)]);
    let data = "messages-00000000000000000001-00000000000000000010-1.jsonl.zst";
    let manifest = "messages-00000000000000000001-00000000000000000010.json";
    assert_eq!(fixture.files(), [data, manifest].map(String::from).into());
    assert_eq!(fixture.archive.manifests().unwrap(), [written]);

    let text = std::fs::read_to_string(fixture.path(manifest)).unwrap();
    let value: Value = serde_json::from_str(&text).unwrap();
    let bytes = std::fs::read(fixture.path(data)).unwrap();
    let lines = zstd::decode_all(&bytes[..]).unwrap();
    let sha256 = |bytes: &[u8]| {
        let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
        let hex = digest.as_ref().iter().map(|byte| format!("{byte:02x}"));
        hex.collect::<String>()
    };
    let expected = json!({
        "format": 1,
        "first": 1,
        "last": 10,
        "generation": 1,
        "file": data,
        "store": "postgres",
        "schema_version": 42,
        "made_at": "2026-02-01T10:11:12.123456Z",
        "counts": {"messages": 1, "attempts": 1, "late": 0},
        "queues": {"letters": {"messages": 1, "attempts": 1, "late": 0}},
        "bytes": bytes.len(),
        "bytes_uncompressed": lines.len(),
        "sha256": sha256(&bytes),
        "sha256_uncompressed": sha256(&lines),
    });
    assert_eq!(value, expected);
}

#[test]
fn a_line_is_one_flat_object() {
    let line = serde_json::to_value(full_record(4, "Jane Doe")).unwrap();
    let names: Vec<&String> = line.as_object().unwrap().keys().collect();
    let expected = [
        "attempts",
        "audit",
        "created_at",
        "dead",
        "digest",
        "erased",
        "expires_at",
        "group",
        "headers",
        "id",
        "key",
        "late",
        "payload",
        "queue",
        "state",
    ];
    assert_eq!(names, expected);
    assert_eq!(line["id"], 4);
    assert_eq!(line["state"], "dead");
    assert_eq!(line["created_at"], "2026-01-01T10:11:12.123456Z");
    assert_eq!(line["payload"]["name"], "Jane Doe");
    assert_eq!(line["dead"]["code"], "http_410");
}

#[test]
fn a_line_of_a_version_without_expiries_is_read() {
    let record = full_record(4, "Jane Doe");
    let line = serde_json::to_string(&record).unwrap();
    let at = serde_json::to_string(&record.message.expires_at).unwrap();
    let older = line.replace(&format!(",\"expires_at\":{at}"), "");
    assert!(older.len() < line.len(), "{line}");
    let mut read: Record = serde_json::from_str(&older).unwrap();
    assert_eq!(read.message.expires_at.take(), None);
    read.message.expires_at = record.message.expires_at;
    assert_eq!(read, record);
}

#[test]
fn lease_tokens_are_not_archived() {
    let fixture = Fixture::new();
    fixture.write(1, 10, 1, &[full_record(4, "Jane Doe")]);
    let texts = fixture.texts();
    assert!(texts.contains("http_410"));
    assert!(
        !texts.contains("token") && !texts.contains(TOKEN),
        "{texts}"
    );
}

#[test]
fn numbers_of_payloads_stay_exact() {
    let large = format!("1{}7", "0".repeat(399));
    let text = format!(
        r#"{{"a":0.1000000000000000000000001,"b":{large},"c":-{large},"d":1.50,"e":18446744073709551616}}"#
    );
    let fixture = Fixture::new();
    let manifest = fixture.write(
        1,
        10,
        1,
        &[with_payload(1, &text), with_payload(2, "1e400")],
    );
    let read: Vec<Record> = fixture
        .archive
        .read(&manifest)
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(read[0].message.payload.as_str(), text);
    assert_eq!(
        read[1].message.payload.as_str(),
        format!("1{}", "0".repeat(400))
    );
    // Erasing another message copies them.
    let ids = [MessageId(2)].into();
    fixture
        .archive
        .erase(&ids, &erased_by("request 12"))
        .unwrap();
    let found = fixture.archive.find(MessageId(1)).unwrap().unwrap();
    assert_eq!(found.message.payload.as_str(), text);
}

#[test]
fn an_empty_range_is_archived() {
    let fixture = Fixture::new();
    let manifest = fixture.write(1, 10, 1, &[]);
    assert_eq!(
        fixture.archive.verify(&manifest).unwrap().counts,
        counts(0, 0, 0)
    );
    assert!(fixture.archive.find(MessageId(1)).unwrap().is_none());
}

#[test]
fn fields_of_a_newer_version_are_ignored_and_kept() {
    let mut line = serde_json::to_value(record(3)).unwrap();
    line["priority"] = json!({"level": 9});
    line["attempts"][0]["region"] = json!("eu");
    let read: Record = serde_json::from_value(line.clone()).unwrap();
    assert_eq!(read, record(3));

    // A file with such a line is copied without loss when another message is erased or added.
    let fixture = Fixture::new();
    let mut manifest = fixture.write(1, 10, 1, &[record(3)]);
    let newer = format!("{line}\n");
    fixture.replace_lines(&manifest, |_| newer.clone());
    refresh(&fixture, &mut manifest, &newer);
    fixture.archive.verify(&manifest).unwrap();
    let mut writer = fixture.archive.begin(range(1, 10)).unwrap();
    writer.append(&record(5)).unwrap();
    writer.finish(facts(2)).unwrap();
    assert!(fixture.texts().contains(&newer));
    let ids = [MessageId(5)].into();
    fixture
        .archive
        .erase(&ids, &erased_by("request 12"))
        .unwrap();
    assert!(fixture.texts().contains(&newer));
}

proptest! {
    /// A caller compares what it reads with the database: the last digit of a fraction counts.
    #[test]
    fn fractions_in_results_stay_equal(number in any::<f64>().prop_filter("JSON", |n| n.is_finite())) {
        let mut record = full_record(4, "Jane Doe");
        let attempt: &mut ArchivedAttempt = &mut record.attempts[1];
        attempt.result = Some(json!({"rate": number}));
        let line = serde_json::to_string(&record).unwrap();
        let read: Record = serde_json::from_str(&line).unwrap();
        prop_assert_eq!(read, record);
    }
}
