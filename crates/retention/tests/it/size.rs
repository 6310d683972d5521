//! The bound by size, and what a pass records.

use consign_kernel::{DepartureCause, Refusal, prelude::*};
use consign_retention::End;
use jiff::SignedDuration;

use crate::support::{Stage, queue};

const HOUR_MS: u64 = 3_600_000;

#[tokio::test]
async fn above_its_size_the_database_lets_messages_leave_before_their_time() {
    let mut stage = Stage::keeping(Some(HOUR_MS), true).await;
    let ids = stage.deliver(20).await;
    let bytes = stage.store.database_size().await.unwrap().bytes;
    stage.size_max_bytes = Some(bytes);
    let archive = Some(stage.archive());
    let pass = stage.maintenance(archive).pass().await.unwrap();
    assert_eq!((pass.departed, pass.end), (0, End::Done), "not above it");
    stage.clock.advance(SignedDuration::from_millis(1));
    stage.size_max_bytes = Some(bytes - 1);
    let archive = Some(stage.archive());
    let pass = stage.maintenance(archive).pass().await.unwrap();
    assert_eq!((pass.departed, pass.end), (20, End::Done));
    assert_eq!(stage.archived(), ids.into_iter().collect());
    assert_eq!(stage.stored().await.len(), 1, "what is ready stays");
}

#[tokio::test]
async fn without_an_archive_the_bound_is_not_met() {
    let mut stage = Stage::keeping(Some(HOUR_MS), true).await;
    stage.deliver(5).await;
    stage.size_max_bytes = Some(1);
    let pass = stage.maintenance(None).pass().await.unwrap();
    assert_eq!(
        (pass.departed, pass.end),
        (0, End::Refused(Refusal::NoArchive))
    );
    assert_eq!(stage.stored().await.len(), 6);
}

#[tokio::test]
async fn a_bound_that_cannot_be_met_has_a_name() {
    // A queue without `keep_ms` keeps everything, whatever the size.
    let mut stage = Stage::keeping(None, false).await;
    stage.deliver(5).await;
    stage.size_max_bytes = Some(1);
    for passes in 1..=2 {
        let pass = stage.maintenance(None).pass().await.unwrap();
        assert_eq!((pass.departed, pass.end), (0, End::OverSize));
        let recorded = stage.store.growth().await.unwrap().pass.unwrap();
        assert_eq!(
            (recorded.end.as_str(), recorded.passes),
            ("over_size", passes)
        );
        stage.clock.advance(SignedDuration::from_millis(1));
    }
    assert_eq!(stage.stored().await.len(), 6);
}

#[tokio::test]
async fn a_pass_records_its_end_and_a_sample() {
    let stage = Stage::new(true).await;
    stage.deliver(3).await;
    for (archive, end, passes) in [
        (None, "no_archive", 1),
        (None, "no_archive", 2),
        (Some(stage.archive()), "done", 1),
    ] {
        stage.maintenance(archive).pass().await.unwrap();
        let growth = stage.store.growth().await.unwrap();
        let pass = growth.pass.unwrap();
        assert_eq!((pass.end.as_str(), pass.passes), (end, passes));
        let sample = growth.now.unwrap();
        assert_eq!(sample.queue(&queue()).unwrap().enqueued, 4);
        stage.clock.advance(SignedDuration::from_millis(1));
    }
    // A pass that fails is recorded too.
    stage.deliver(1).await;
    let archive = stage.archive();
    std::fs::remove_dir_all(archive.folder()).unwrap();
    std::fs::write(archive.folder(), "not a folder").unwrap();
    stage.maintenance(Some(archive)).pass().await.unwrap_err();
    let growth = stage.store.growth().await.unwrap();
    assert_eq!(growth.pass.unwrap().end, "failed");
}

#[tokio::test]
async fn a_departure_by_size_that_was_killed_is_finished_by_the_next_pass() {
    let mut stage = Stage::keeping(Some(HOUR_MS), true).await;
    let ids = stage.deliver(5).await;
    let ttl = std::time::Duration::from_secs(60);
    let leased = stage.store.lease_maintenance("killed", None, ttl).await;
    let token = leased.unwrap().unwrap();
    let begun = stage
        .store
        .begin_departure(token, DepartureCause::Size, true);
    begun.await.unwrap();
    stage.let_the_lease_end();
    stage.size_max_bytes = None;
    let archive = Some(stage.archive());
    let pass = stage.maintenance(archive).pass().await.unwrap();
    assert_eq!((pass.departed, pass.end), (5, End::Done));
    assert_eq!(stage.archived(), ids.into_iter().collect());
}
