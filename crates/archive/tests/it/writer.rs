//! What a writer accepts, and what a range keeps when it is written again.

use consign_archive::{Error, Filter};
use consign_kernel::{MessageId, StateKind};

use crate::fixture::{Fixture, counts, facts, full_record, ids, range, record};

#[test]
fn rejects_ids_out_of_order_or_bounds() {
    let fixture = Fixture::new();
    let mut writer = fixture.archive.begin(range(5, 10)).unwrap();
    writer.append(&record(6)).unwrap();
    for id in [4, 11] {
        let error = writer.append(&record(id)).unwrap_err();
        assert!(matches!(error, Error::OutOfRange { .. }), "{error}");
    }
    for id in [5, 6] {
        let error = writer.append(&record(id)).unwrap_err();
        assert!(matches!(error, Error::OutOfOrder { .. }), "{error}");
    }
    // What was rejected was not written.
    writer.append(&record(10)).unwrap();
    let manifest = writer.finish(facts(1)).unwrap();
    assert_eq!(manifest.counts, counts(2, 2, 0));
    for (first, last) in [(10, 9), (-1, 5)] {
        let error = fixture.archive.begin(range(first, last)).unwrap_err();
        assert!(matches!(error, Error::InvalidRange { .. }), "{error}");
    }
}

#[test]
fn rejects_unfinished_messages_and_foreign_digests() {
    let fixture = Fixture::new();
    let mut writer = fixture.archive.begin(range(1, 10)).unwrap();
    let mut ready = record(1);
    ready.state = StateKind::Ready;
    let error = writer.append(&ready).unwrap_err().to_string();
    assert_eq!(
        error,
        "message 1 cannot be archived: it is ready; only finished messages leave the database"
    );
    let mut foreign = record(1);
    foreign.digest = record(2).digest;
    let error = writer.append(&foreign).unwrap_err().to_string();
    assert!(error.contains("digest"), "{error}");
    assert_eq!(writer.finish(facts(1)).unwrap().counts, counts(0, 0, 0));
}

#[test]
fn a_range_that_is_written_again_keeps_its_earlier_records() {
    let fixture = Fixture::new();
    let first = fixture.write(
        1,
        10,
        1,
        &[record(2), full_record(4, "Jane Doe"), record(6)],
    );
    // Messages that stayed in the database leave later, under the same bounds.
    let mut changed = full_record(4, "Jane Doe");
    changed.audit.clear();
    let second = fixture.write(1, 10, 2, &[record(1), changed.clone(), record(9)]);
    assert_eq!((first.generation, second.generation), (1, 2));
    assert_eq!(second.made_at, facts(2).made_at);
    let manifests = fixture.archive.manifests().unwrap();
    assert_eq!(manifests, std::slice::from_ref(&second));
    let all = fixture.archive.list(&Filter::default(), 10).unwrap();
    assert_eq!(ids(&all), [9, 6, 4, 2, 1]);
    assert_eq!(fixture.archive.find(MessageId(4)).unwrap(), Some(changed));
    assert_eq!(second.counts.messages, 5);
    assert_eq!(fixture.files().len(), 2, "the old data file is removed");

    // The same records again change nothing but the generation.
    let third = fixture.write(1, 10, 2, &all.into_iter().rev().collect::<Vec<_>>());
    assert_eq!(third.sha256_uncompressed, second.sha256_uncompressed);
}

#[test]
fn a_writer_can_be_moved_to_another_thread() {
    let fixture = Fixture::new();
    let mut writer = fixture.archive.begin(range(1, 10)).unwrap();
    writer.append(&record(1)).unwrap();
    let written = std::thread::spawn(move || {
        writer.append(&record(2)).unwrap();
        writer.finish(facts(1)).unwrap()
    });
    assert_eq!(written.join().unwrap().counts.messages, 2);
}
