use std::sync::Arc;

use consign_kernel::ManualClock;
use consign_memory::{Action, AuditStatus, Embedded, MemoryOptions, MemoryService, NewAudit};
use consign_sqlite::{Clock, SqliteOptions, SqliteStore};
use serde_json::json;

use super::*;
use crate::MemoryHere;

const AUDITS: i64 = 200;

/// So small that a short book takes many steps.
const LIMITS: Limits = Limits {
    writes: 15,
    span: 40,
    near: 10,
};

/// A book of audits, one a second; the first is ada's, the others bob's.
async fn shelf(directory: &std::path::Path) -> (AppState, Timestamp) {
    let begin: Timestamp = "2026-11-16T12:00:00Z".parse().unwrap();
    let clock = ManualClock::at(begin);
    let file = directory.join("queue.db");
    let options = SqliteOptions::new(file.to_str().unwrap()).unwrap();
    let options = options.clock(Clock::Manual(clock.clone()));
    let store = SqliteStore::open(&options.migrate_on_open(true)).await;
    let store = Arc::new(store.unwrap());
    for number in 0..AUDITS {
        let audit = NewAudit {
            actor_user_id: Some(if number == 0 { "ada" } else { "bob" }.into()),
            target_space: "private:x".into(),
            action: Action::Allow,
            reason: None,
            payload_sha: None,
            evidence_refs_json: json!({}),
            correlation_id: None,
            status: AuditStatus::Success,
        };
        assert_eq!(store.insert_audit(&audit).await.unwrap(), number + 1);
        clock.advance(jiff::SignedDuration::from_secs(1));
    }
    let options = MemoryOptions::default();
    let backend = Arc::new(Embedded::new(store.clone()));
    let service = MemoryService::new(store.clone(), backend, options.clone());
    let memory = MemoryHere {
        service: Arc::new(service),
        options,
    };
    (AppState::new(store).with_memory(memory), begin)
}

/// Everything that fits, and in how many steps it was found.
async fn read(state: &AppState, wanted: Wanted) -> (Vec<i64>, usize) {
    let reader = Reader {
        limits: LIMITS,
        ..wanted.reader(state).unwrap()
    };
    let (mut before, mut found, mut steps) = (reader.start().await.unwrap(), Vec::new(), 0);
    loop {
        let step = reader.step(before).await.unwrap();
        steps += 1;
        assert!(step.entries.len() <= LIMITS.writes as usize);
        found.extend(step.entries.iter().map(Entry::id));
        let is_further = |next: i64| before.is_none_or(|before| next < before);
        assert!(step.next.is_none_or(is_further), "a step goes on");
        before = step.next;
        if before.is_none() {
            return (found, steps);
        }
    }
}

fn writes() -> Wanted {
    Wanted {
        of: Book::Writes,
        ..Wanted::default()
    }
}

#[tokio::test]
async fn a_long_book_is_read_piece_by_piece_to_its_end() {
    let directory = tempfile::tempdir().unwrap();
    let (state, begin) = shelf(directory.path()).await;
    let at = |second: i64| begin + jiff::SignedDuration::from_secs(second);
    let newest_first = |ids: std::ops::RangeInclusive<i64>| ids.rev().collect::<Vec<_>>();
    let (all, steps) = read(&state, writes()).await;
    assert_eq!(all, newest_first(1..=AUDITS));
    assert_eq!(steps, 14, "so many at once");
    let rare = Wanted {
        actor: "ada".into(),
        ..writes()
    };
    let (found, steps) = read(&state, rare).await;
    assert_eq!((found, steps), (vec![1], 5), "no step looks through more");
    let early = Wanted {
        until: at(30).to_string(),
        ..writes()
    };
    let (found, steps) = read(&state, early).await;
    assert_eq!(found, newest_first(1..=30));
    assert!(steps <= 4, "{steps}: it begins near the time");
    let late = Wanted {
        since: at(150).to_string(),
        actor: "ada".into(),
        ..writes()
    };
    let (found, steps) = read(&state, late).await;
    assert_eq!((found, steps), (vec![], 2), "it ends near the time");
    let between = Wanted {
        since: at(100).to_string(),
        until: at(110).to_string(),
        ..writes()
    };
    assert_eq!(read(&state, between).await.0, newest_first(101..=110));
}

#[test]
fn times_are_read_as_forms_and_programs_write_them() {
    let at = |text: &str| time("since", text).unwrap();
    let noon = at("2026-11-16T12:00:00Z");
    assert!(noon.is_some());
    for same in [
        "2026-11-16T12:00",
        " 2026-11-16 12:00:00 ",
        "2026-11-16T13:00:00+01:00",
    ] {
        assert_eq!(at(same), noon, "{same}");
    }
    assert_eq!(at("  "), None);
    assert!(at("2026-11-16").is_some());
    for bad in ["yesterday", "12:00", "2026-13-01T00:00"] {
        assert!(time("since", bad).is_err(), "{bad}");
    }
}

#[test]
fn a_filter_stands_in_a_link_as_it_was_said() {
    let wanted = Wanted {
        of: Book::Writes,
        actor: " a&b ".into(),
        space: "team:x".into(),
        ..Wanted::default()
    };
    assert_eq!(wanted.query(), "&of=writes&actor=a%26b&space=team%3Ax");
    assert_eq!(Wanted::default().query(), "");
}
