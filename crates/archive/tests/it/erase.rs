//! Erasures.

use consign_archive::{Erasure, Filter, Record};
use consign_kernel::{MessageId, Payload};
use serde_json::{Map, Value};

use crate::fixture::{Fixture, erased_by, facts, full_record, id_set, range, record, time};

const SECRET: &str = "Jane Doe";

#[test]
fn erased_text_is_in_no_file() {
    let fixture = Fixture::new();
    fixture.write(1, 10, 1, &[record(1), full_record(2, SECRET), record(3)]);
    assert!(fixture.texts().contains(SECRET));
    let held = fixture
        .archive
        .erase(&id_set(&[2, 7]), &erased_by("request 12"))
        .unwrap();
    assert_eq!(held, [MessageId(2)]);
    let texts = fixture.texts();
    assert!(!texts.contains(SECRET), "{texts}");
    assert_eq!(fixture.files().len(), 2);
}

#[test]
fn everything_else_stays() {
    let fixture = Fixture::new();
    let before = full_record(2, SECRET);
    let old = fixture.write(1, 10, 1, &[record(1), before.clone(), record(3)]);
    fixture
        .archive
        .erase(&id_set(&[2]), &erased_by("request 12"))
        .unwrap();

    let mut expected = before;
    expected.message.payload = Payload::from(Value::Null);
    expected.message.headers = Map::new();
    for attempt in &mut expected.attempts {
        (attempt.detail, attempt.result) = (None, None);
    }
    (expected.late[0].detail, expected.late[0].result) = (None, None);
    expected.dead.as_mut().unwrap().detail = None;
    expected.erased = Some(Erasure {
        at: time(3, 1),
        actor: "ada".into(),
        reason: "request 12".into(),
        digest: expected.digest.clone(),
    });
    let manifests = fixture.archive.manifests().unwrap();
    let manifest = &manifests[0];
    let read: Vec<Record> = fixture
        .archive
        .read(manifest)
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(read, [record(1), expected, record(3)]);
    assert_eq!(manifest.generation, old.generation + 1);
    assert_eq!(
        (manifest.counts, &manifest.queues),
        (old.counts, &old.queues)
    );
    assert_eq!(
        (&manifest.store, manifest.made_at),
        (&old.store, old.made_at)
    );
    assert_eq!(fixture.archive.verify(manifest).unwrap().erased, 1);
}

#[test]
fn is_idempotent() {
    let fixture = Fixture::new();
    fixture.write(1, 10, 1, &[full_record(2, SECRET), full_record(3, SECRET)]);
    let first = fixture
        .archive
        .erase(&id_set(&[2]), &erased_by("request 12"))
        .unwrap();
    let manifests = fixture.archive.manifests().unwrap();
    let again = fixture
        .archive
        .erase(&id_set(&[2]), &erased_by("request 13"))
        .unwrap();
    assert_eq!(first, again);
    assert_eq!(
        fixture.archive.manifests().unwrap(),
        manifests,
        "the file is not written again"
    );

    // The first erasure stays when another message of the file is erased.
    fixture
        .archive
        .erase(&id_set(&[2, 3]), &erased_by("request 14"))
        .unwrap();
    let reasons = [2, 3].map(|id| {
        let found = fixture.archive.find(MessageId(id)).unwrap().unwrap();
        found.erased.unwrap().reason
    });
    assert_eq!(reasons, ["request 12", "request 14"]);
    assert!(!fixture.texts().contains(SECRET));
}

#[test]
fn reaches_every_file_that_holds_the_message() {
    let fixture = Fixture::new();
    fixture.write(1, 10, 1, &[full_record(5, SECRET)]);
    fixture.write(
        5,
        20,
        2,
        &[full_record(5, SECRET), full_record(6, "Ann Roe")],
    );
    let untouched = fixture.write(30, 40, 3, &[full_record(31, "Ann Roe")]);
    let held = fixture
        .archive
        .erase(&id_set(&[5]), &erased_by("request 12"))
        .unwrap();
    assert_eq!(held, [MessageId(5)]);
    assert!(!fixture.texts().contains(SECRET));
    assert!(fixture.texts().contains("Ann Roe"));
    assert_eq!(fixture.archive.manifests().unwrap()[2], untouched);
    let erased = fixture.archive.list(&Filter::default(), 10).unwrap();
    let erased: Vec<bool> = erased
        .iter()
        .map(|record| record.erased.is_some())
        .collect();
    assert_eq!(erased, [false, false, true]);
}

#[test]
fn erased_records_can_be_archived() {
    // The database erased the message before it was archived.
    let fixture = Fixture::new();
    let mut record = full_record(2, SECRET);
    record.message.payload = Payload::from(Value::Null);
    record.erased = Some(Erasure {
        at: time(1, 9),
        actor: "ada".into(),
        reason: "request 11".into(),
        digest: record.digest.clone(),
    });
    let manifest = fixture.write(1, 10, 1, &[record.clone()]);
    assert_eq!(fixture.archive.verify(&manifest).unwrap().erased, 1);

    // A range that is written again does not bring the payload back.
    let mut writer = fixture.archive.begin(range(1, 10)).unwrap();
    writer.append(&crate::fixture::record(3)).unwrap();
    writer.finish(facts(2)).unwrap();
    assert_eq!(fixture.archive.find(MessageId(2)).unwrap(), Some(record));
}
