use consign_kernel::ManualClock;
use consign_server::apps::start;
use consign_sqlite::{Clock, SqliteOptions, SqliteStore};
use serde_json::json;

use super::*;
use crate::{Action, AuditStatus, EmbeddedBackend, MemoryOptions, NewAudit};

const AUDITS: i64 = 200;

/// So small that few audits take many steps.
const LIMITS: Limits = Limits {
    writes: 15,
    span: 40,
    near: 10,
};

/// Audits, one a second; the first is ada's, the others bob's.
async fn fixture(directory: &std::path::Path) -> (WriteAudits, Timestamp) {
    let begin: Timestamp = "2026-11-16T12:00:00Z".parse().unwrap();
    let clock = ManualClock::at(begin);
    let file = directory.join("queue.db");
    let options = SqliteOptions::new(file.to_str().unwrap()).unwrap();
    let options = options
        .component(crate::store::sqlite_component())
        .clock(Clock::Manual(clock.clone()));
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
    let backend = Arc::new(EmbeddedBackend::new(store.clone()));
    let service = MemoryService::new(store.clone(), backend, options.clone());
    let http = MemoryHttp::new(Arc::new(service), &options);
    (WriteAudits(http), begin)
}

/// Everything that fits, and in how many steps it was found.
async fn read(audits: &WriteAudits, wanted: &[(&str, &str)]) -> (Vec<i64>, usize) {
    let reader = Reader {
        limits: LIMITS,
        ..audits.read(&AuditQuery::of(wanted)).unwrap()
    };
    let (mut before, mut found, mut steps) = (start(&reader).await.unwrap(), Vec::new(), 0);
    loop {
        let step = reader.step(before).await.unwrap();
        steps += 1;
        assert!(step.entries.len() <= LIMITS.writes as usize);
        found.extend(step.entries.iter().map(|entry| entry.id()));
        let is_further = |next: i64| before.is_none_or(|before| next < before);
        assert!(step.next.is_none_or(is_further), "a step goes on");
        before = step.next;
        if before.is_none() {
            return (found, steps);
        }
    }
}

#[tokio::test]
async fn a_long_audit_log_is_read_page_by_page() {
    let directory = tempfile::tempdir().unwrap();
    let (audits, begin) = fixture(directory.path()).await;
    let at = |second: i64| (begin + jiff::SignedDuration::from_secs(second)).to_string();
    let newest_first = |ids: std::ops::RangeInclusive<i64>| ids.rev().collect::<Vec<_>>();
    let (all, steps) = read(&audits, &[]).await;
    assert_eq!(all, newest_first(1..=AUDITS));
    assert_eq!(steps, 14, "so many at once");
    let (found, steps) = read(&audits, &[("actor", "ada")]).await;
    assert_eq!((found, steps), (vec![1], 5), "no step looks through more");
    let (found, steps) = read(&audits, &[("until", &at(30))]).await;
    assert_eq!(found, newest_first(1..=30));
    assert!(steps <= 4, "{steps}: it begins near the time");
    let (found, steps) = read(&audits, &[("since", &at(150)), ("actor", "ada")]).await;
    assert_eq!((found, steps), (vec![], 2), "it ends near the time");
    let (found, _) = read(&audits, &[("since", &at(100)), ("until", &at(110))]).await;
    assert_eq!(found, newest_first(101..=110));
}
