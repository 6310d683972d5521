//! What PostgreSQL has beside the messages of memories leaves with them.

use consign_conformance::stage::{Maintenance, s};

use crate::{
    cases::fixture::{MemoryFixture, memory, rules},
    harness::postgres_fixture,
};
use consign_kernel::QueuePolicy;

/// `logbook.requeued` has a row for each memory that was requeued.
#[tokio::test(flavor = "multi_thread")]
async fn the_requeues_of_memories_that_left_are_forgotten() {
    let harness = postgres_fixture().await;
    let keeping = QueuePolicy {
        keep_ms: Some(60_000),
        keep_dead_ms: None,
        ..rules()
    };
    let fixture = MemoryFixture::with(&harness, keeping).await;
    let maintenance = Maintenance::lease(&fixture.stage.store).await;
    let mut ids = Vec::new();
    for text in ["leaves", "stays"] {
        let id = fixture.put_text(text).await;
        fixture.claim("w1", 1).await;
        assert!(fixture.bury(id, "w1", "no").await);
        let again = fixture.book.enqueue_memory(&memory(text)).await;
        assert_eq!(again.expect("enqueue_memory answers").outbox_id, id);
        fixture.claim("w1", 1).await;
        ids.push(id);
    }
    assert!(fixture.ack(ids[0], "w1", Some("mem-1")).await);
    assert!(fixture.bury(ids[1], "w1", "no").await);
    fixture.stage.advance(s(60)).await;
    assert_eq!(maintenance.leave().await, 1);
    let pool = harness.postgres();
    let requeued: Vec<i64> = sqlx::query_scalar("SELECT message_id FROM logbook.requeued")
        .fetch_all(pool.pool())
        .await
        .unwrap();
    assert_eq!(requeued, [ids[1].0]);
}
