//! What goes wrong, and that nothing is lost or stored twice for it.

use consign_memory::OutboxStatus;
use consign_scm::Provider;

use super::bench::{Bench, counts, reason};
use crate::support::ServerMode;

/// A wrong key stops the consumption until it is fixed.
#[tokio::test]
async fn a_memory_server_that_refuses_us_stops_it() {
    for status in [401, 403, 404] {
        let bench = Bench::new(Provider::Git).await;
        bench.record(&["first", "second"]).await;
        bench.fixture.server.behave(ServerMode::Status(status));
        let done = bench.consume().await;
        assert_eq!(
            (counts(&done), reason(&done)),
            ([0; 4], Some("OPENMEMORY_REFUSED")),
            "{status}"
        );
        assert_eq!(bench.cursor().await, None);
        assert_eq!(bench.fixture.rows().await.len(), 0);
        bench.fixture.server.behave(ServerMode::Well);
        assert_eq!(counts(&bench.consume().await), [2, 0, 0, 0]);
    }
}

/// A rejected text cannot be changed: it is dead, and the next one is stored.
#[tokio::test]
async fn a_card_that_is_refused_for_its_content_is_put_into_the_outbox() {
    for status in [400, 413, 422, 500, 503, 408, 429] {
        let bench = Bench::new(Provider::Git).await;
        bench.record(&["first"]).await;
        bench.fixture.server.behave(ServerMode::Status(status));
        let done = bench.consume().await;
        assert_eq!(
            (counts(&done), reason(&done)),
            ([0, 0, 1, 0], None),
            "{status}"
        );
        assert_eq!(bench.fixture.rows().await.len(), 1);
        assert!(bench.cursor().await.is_some());
    }
}

#[tokio::test]
async fn a_card_that_is_refused_for_its_content_dies_visibly() {
    let bench = Bench::new(Provider::Git).await;
    bench.record(&["first"]).await;
    bench.fixture.hurry().await;
    bench.fixture.server.behave(ServerMode::Status(422));
    bench.consume().await;
    bench
        .fixture
        .work_until("it is dead", async || {
            bench.fixture.rows().await[0].status == OutboxStatus::Dead
        })
        .await;
    let told = bench.fixture.told().await;
    assert!(
        told.last()
            .unwrap()
            .starts_with("reject outbox_flush_dead failed"),
        "{told:?}"
    );
}

/// Without an audit nothing is stored, and the cursor does not move.
#[tokio::test]
async fn it_stops_where_nothing_can_be_audited() {
    let bench = Bench::new(Provider::Svn).await;
    bench.record(&["first", "second"]).await;
    bench.fixture.break_writes("write_audit").await;
    let done = bench.consume().await;
    assert_eq!(
        (counts(&done), reason(&done)),
        ([0; 4], Some("AUDIT_WRITE_FAILED"))
    );
    assert_eq!(bench.fixture.server.stores(), 0);
    bench.fixture.mend("write_audit").await;
    assert_eq!(counts(&bench.consume().await), [2, 0, 0, 0]);
}

/// The memory server has it, but it is not recorded: it is looked up before it is sent again.
#[tokio::test]
async fn what_was_stored_without_an_end_of_its_audit_is_not_stored_again() {
    let bench = Bench::new(Provider::Git).await;
    bench.record(&["first", "second", "third"]).await;
    bench.fixture.break_updates("write_audit").await;
    let done = bench.consume().await;
    assert_eq!(
        (counts(&done), reason(&done)),
        ([1, 0, 0, 0], Some("AUDIT_NOT_ENDED"))
    );
    assert_eq!(bench.cursor().await, None);
    assert_eq!(bench.fixture.server.writes(), 1, "the next one waits");
    bench.fixture.mend("write_audit").await;
    let done = bench.consume().await;
    assert_eq!(reason(&done), None);
    assert_eq!(done.cards(), 3);
    let positions = bench.positions().await;
    assert_eq!(done.position, positions[2]);
    assert_eq!(bench.fixture.server.kept().len(), 3);
    assert_eq!(bench.fixture.server.writes(), 3, "none is stored twice");
}

/// Neither stored nor kept: the change is still to come.
#[tokio::test]
async fn it_stops_where_nothing_can_be_put_off() {
    let bench = Bench::new(Provider::Git).await;
    bench.record(&["first"]).await;
    bench.fixture.server.behave(ServerMode::Down);
    bench.fixture.break_writes("message").await;
    let done = bench.consume().await;
    let reason = reason(&done).unwrap();
    assert!(reason.starts_with("OUTBOX_"), "{reason}");
    assert_eq!(bench.cursor().await, None);
    bench.fixture.mend("message").await;
    assert_eq!(counts(&bench.consume().await), [0, 0, 1, 0]);
}

/// The answer was lost, the memory was not.
#[tokio::test]
async fn a_delivery_after_a_lost_answer_queries_the_server_first() {
    let bench = Bench::new(Provider::Git).await;
    bench.record(&["first", "second"]).await;
    bench.fixture.hurry().await;
    bench.consume().await;
    bench.record(&["third"]).await;
    bench.fixture.server.behave(ServerMode::LoseAnswers);
    assert_eq!(counts(&bench.consume().await), [0, 0, 1, 0]);
    bench.fixture.server.behave(ServerMode::Well);
    bench
        .fixture
        .work_until("the outbox is empty", async || {
            bench.fixture.rows().await[0].status == OutboxStatus::Sent
        })
        .await;
    assert_eq!(bench.fixture.server.kept().len(), 3);
}

crate::support::also_on_postgres! {
    it_stops_where_nothing_can_be_audited
    what_was_stored_without_an_end_of_its_audit_is_not_stored_again
}
