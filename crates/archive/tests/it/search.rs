//! Finds messages in several files.

use consign_archive::{Filter, Record};
use consign_kernel::{MessageId, QueueName, StateKind};

use crate::fixture::{Fixture, facts, full_record, ids, range, record};

/// Three files of odd ids, and dead messages of another queue at 5, 15 and 25.
fn fixture() -> Fixture {
    let fixture = Fixture::new();
    for first in [0, 10, 20] {
        let odd = (first..first + 10).filter(|id| id % 2 == 1);
        let records: Vec<Record> = odd
            .map(|id| match id % 10 {
                5 => full_record(id, "Jane Doe"),
                _ => record(id),
            })
            .collect();
        fixture.write(first, first + 9, 1, &records);
    }
    fixture
}

fn list(fixture: &Fixture, filter: &Filter, limit: usize) -> Vec<i64> {
    ids(&fixture.archive.list(filter, limit).unwrap())
}

#[test]
fn finds_a_message_by_id() {
    let fixture = fixture();
    for id in [1, 15, 29] {
        let found = fixture.archive.find(MessageId(id)).unwrap().unwrap();
        assert_eq!(found.message.id, MessageId(id));
    }
    assert_eq!(
        fixture.archive.find(MessageId(15)).unwrap(),
        Some(full_record(15, "Jane Doe"))
    );
    for id in [-1, 0, 16, 30] {
        assert!(
            fixture.archive.find(MessageId(id)).unwrap().is_none(),
            "{id}"
        );
    }
}

#[test]
fn finds_a_message_by_key() {
    let fixture = fixture();
    let (letters, parcels) = ("letters".parse().unwrap(), "parcels".parse().unwrap());
    let id = |queue: &QueueName, key| {
        let found = fixture.archive.find_key(queue, key).unwrap();
        found.map(|record| record.message.id.0)
    };
    assert_eq!(id(&letters, "key-1"), Some(1));
    assert_eq!(id(&parcels, "key-15"), Some(15));
    assert_eq!(id(&letters, "key-15"), None);
    assert_eq!(id(&"others".parse().unwrap(), "key-1"), None);

    // A key that was used again names the newer message.
    let mut again = record(31);
    again.message.key = Some("key-1".into());
    fixture.write(30, 39, 1, &[again]);
    assert_eq!(id(&letters, "key-1"), Some(31));
}

#[test]
fn lists_the_newest_first_up_to_the_limit() {
    let fixture = fixture();
    let all: Vec<i64> = (0..30).filter(|id| id % 2 == 1).rev().collect();
    for limit in [0, 1, 4, 5, 6, 14, 15, 100] {
        let expected = &all[..limit.min(all.len())];
        assert_eq!(list(&fixture, &Filter::default(), limit), expected);
    }
    let before = |before| Filter {
        before: Some(MessageId(before)),
        ..Filter::default()
    };
    assert_eq!(list(&fixture, &before(13), 3), [11, 9, 7]);
    assert_eq!(list(&fixture, &before(10), 2), [9, 7]);
    assert!(list(&fixture, &before(1), 3).is_empty());
}

#[test]
fn lists_what_matches_every_condition() {
    let fixture = fixture();
    let dead = Filter {
        state: Some(StateKind::Dead),
        ..Filter::default()
    };
    assert_eq!(list(&fixture, &dead, 2), [25, 15]);
    let queue = Filter {
        queue: Some("parcels".parse().unwrap()),
        before: Some(MessageId(25)),
        ..Filter::default()
    };
    assert_eq!(list(&fixture, &queue, 9), [15, 5]);
    let case = Filter {
        correlation_id: Some("case-7".into()),
        ..Filter::default()
    };
    assert_eq!(list(&fixture, &case, 9), [25, 15, 5]);
    let key = Filter {
        key: Some("key-7".into()),
        ..Filter::default()
    };
    assert_eq!(list(&fixture, &key, 9), [7]);
    let none = Filter {
        state: Some(StateKind::Dead),
        ..key
    };
    assert!(list(&fixture, &none, 9).is_empty());
}

#[test]
fn the_newest_file_counts_where_bounds_overlap() {
    let fixture = Fixture::new();
    // Message 7 was dead when it was archived first, and was delivered later.
    let mut delivered = full_record(7, "Jane Doe");
    delivered.state = StateKind::Delivered;
    delivered.dead = None;
    fixture.write(5, 20, 9, &[delivered.clone(), record(12)]);
    fixture.write(
        1,
        10,
        2,
        &[record(2), full_record(7, "Jane Doe"), record(9)],
    );
    fixture.write(20, 30, 3, &[record(21)]);
    assert_eq!(fixture.archive.find(MessageId(7)).unwrap(), Some(delivered));
    assert_eq!(list(&fixture, &Filter::default(), 9), [21, 12, 9, 7, 2]);
    assert_eq!(list(&fixture, &Filter::default(), 3), [21, 12, 9]);
    let dead = Filter {
        state: Some(StateKind::Dead),
        ..Filter::default()
    };
    assert!(list(&fixture, &dead, 9).is_empty());
    // A message that the newer file could hold but does not is found in the older one.
    assert!(fixture.archive.find(MessageId(9)).unwrap().is_some());
}

#[test]
fn readers_find_a_message_while_its_file_is_replaced() {
    let fixture = fixture();
    let archive = fixture.archive.clone();
    let writer = std::thread::spawn(move || {
        for _ in 0..100 {
            let mut writer = archive.begin(range(10, 19)).unwrap();
            writer.append(&record(12)).unwrap();
            writer.finish(facts(2)).unwrap();
        }
    });
    while !writer.is_finished() {
        assert!(fixture.archive.find(MessageId(11)).unwrap().is_some());
        assert_eq!(list(&fixture, &Filter::default(), 5), [29, 27, 25, 23, 21]);
        assert!(list(&fixture, &Filter::default(), 100).len() >= 15);
    }
    writer.join().unwrap();
}
