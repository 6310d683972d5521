//! Leases that are renewed, and leases that are lost.

use std::time::{Duration, Instant};

use consign_memory::OutboxStatus;
use consign_testkit::eventually;

use super::{deferred, flushed, has_status};
use crate::support::{SOON, ServerMode, told};

/// Another worker took the row while the memory server was storing it.
#[tokio::test]
async fn a_late_result_is_recorded_and_changes_nothing() {
    let (fixture, id) = deferred("team:p").await;
    fixture.server.behave(ServerMode::Wait);
    let worker = fixture.worker("worker-1");
    eventually("it is on its way", SOON, || async {
        fixture.server.stores() == 2
    })
    .await;
    fixture.sql("UPDATE lease SET expires_at = 1").await;
    let claimed = fixture
        .store
        .claim_outbox("other", 10, Duration::from_secs(600))
        .await;
    assert_eq!(claimed.unwrap().len(), 1);
    fixture.server.release();
    let is_told = || async { !flushed(&fixture, &id).await.is_empty() };
    eventually("it was told", SOON, is_told).await;
    worker.drain();
    worker.finished().await;
    let audits = flushed(&fixture, &id).await;
    let words: Vec<String> = audits.iter().map(told).collect();
    assert_eq!(words, ["redirect outbox_flush_conflict redirected"]);
    let extra = &audits[0].evidence_refs_json["extra"];
    assert_eq!(extra["intended_action"], "success");
    assert_eq!(extra["observed_status"], "pending");
    assert_eq!(extra["observed_locked_by"], "other");
    let row = fixture.row(&id).await;
    assert_eq!(row.locked_by.as_deref(), Some("other"));
    assert_eq!(row.status, OutboxStatus::Pending);
}

/// A slow memory server does not cost the lease.
#[tokio::test]
async fn a_lease_is_renewed_while_the_memory_server_takes_its_time() {
    let (fixture, id) = deferred("team:p").await;
    let ttl = Duration::from_millis(600);
    fixture
        .put_queue(|policy| policy.lease_ttl_ms = ttl.as_millis() as u64)
        .await;
    fixture.server.behave(ServerMode::Wait);
    let worker = fixture.worker("worker-1");
    eventually("it is on its way", SOON, || async {
        fixture.server.stores() == 2
    })
    .await;
    let since = Instant::now();
    eventually("three leases' time has passed", SOON, || async {
        let claimed = fixture.store.claim_outbox("other", 10, ttl).await.unwrap();
        assert_eq!(claimed, [], "it is still the first one's");
        since.elapsed() > ttl * 3
    })
    .await;
    fixture.server.release();
    eventually("it is sent", SOON, || {
        has_status(&fixture, &id, OutboxStatus::Sent)
    })
    .await;
    worker.drain();
    worker.finished().await;
    assert_eq!(fixture.server.writes(), 1);
    let words: Vec<String> = flushed(&fixture, &id).await.iter().map(told).collect();
    assert_eq!(words, ["allow outbox_flush_success success"]);
}
