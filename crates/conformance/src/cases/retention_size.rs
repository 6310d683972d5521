//! Retention: what leaves while the database is too large.

use std::sync::Arc;

use consign_kernel::{DepartureCause::Size, NewMessage, Refusal, StateKind, Step};
use serde_json::json;

use super::retention::keeping;
use crate::{
    Harness,
    stage::{Stage, policy, s},
};

pub(crate) async fn by_size_delivered_messages_leave_before_their_time(harness: &dyn Harness) {
    let stage = Stage::with(harness, keeping(Some(3_600), Some(3_600))).await;
    let maintenance = stage.maintenance().await;
    let sent = stage.delivered(3).await;
    let dead = stage.dead_one().await;
    let ready = stage.enqueue(2).await;
    let held = stage.enqueue_one().await;
    let by = crate::stage::by();
    stage.store.hold(&[held], &by).await.expect("hold answers");
    let leased = stage.claim(1).await.messages[0].message.id;
    stage.advance(s(1)).await;
    assert_eq!(maintenance.leave().await, 0, "none is past its time");
    assert_eq!(maintenance.leave_by(Size).await, 3);
    assert_eq!(stage.existing(&sent).await, []);
    use StateKind::{Dead, Held, Leased, Ready};
    assert_eq!(leased, ready[0]);
    let staying = [dead, ready[0], ready[1], held];
    assert_eq!(stage.kinds(&staying).await, [Dead, Leased, Ready, Held]);
    let history = stage.history_of(&stage.queue).await;
    assert_eq!((history.enqueued, history.delivered), (7, 3));
    stage.advance(s(3_600)).await;
    assert_eq!(maintenance.leave_by(Size).await, 1, "dead after their time");
}

pub(crate) async fn by_size_the_oldest_leave_first(harness: &dyn Harness) {
    let stage = Stage::with(harness, keeping(Some(3_600), None)).await;
    let maintenance = stage.maintenance().await;
    let older = stage.delivered(2).await;
    // Where there are ranges, a departure is of one: the next messages are in another.
    assert_eq!(maintenance.begin().await, None);
    let younger = stage.delivered(2).await;
    let departure = maintenance
        .begin_by(Size)
        .await
        .expect("messages may leave");
    assert_eq!(departure.first, older[0]);
    maintenance.archive(&departure).await;
    maintenance.depart(&departure).await;
    assert_eq!(stage.existing(&older).await, []);
    maintenance.leave_by(Size).await;
    assert_eq!(stage.existing(&younger).await, []);
}

pub(crate) async fn by_size_nothing_leaves_that_its_queue_keeps_for_ever(harness: &dyn Harness) {
    let stage = Stage::with(harness, keeping(Some(3_600), None)).await;
    let maintenance = stage.maintenance().await;
    let for_ever = stage.add_queue("for-ever", &policy()).await;
    let dead_only = stage
        .add_queue("dead-only", &keeping(None, Some(3_600)))
        .await;
    let mut staying = Vec::new();
    for queue in [for_ever, dead_only] {
        let other = Stage {
            harness,
            store: Arc::clone(&stage.store),
            queue,
        };
        staying.extend(other.delivered(2).await);
    }
    stage.delivered(1).await;
    assert_eq!(maintenance.leave_by(Size).await, 1);
    assert_eq!(stage.existing(&staying).await, staying);
}

pub(crate) async fn by_size_an_archive_is_still_required(harness: &dyn Harness) {
    let stage = Stage::with(harness, keeping(Some(3_600), None)).await;
    let maintenance = stage.maintenance().await;
    let sent = stage.delivered(1).await;
    let departure = maintenance
        .begin_by(Size)
        .await
        .expect("messages may leave");
    assert!(departure.must_archive);
    let refused = maintenance.step(&departure).await;
    assert_eq!(refused, Step::Refused(Refusal::NoArchive));
    assert_eq!(stage.existing(&sent).await, sent);
}

pub(crate) async fn by_size_a_policy_change_gives_up_a_departure(harness: &dyn Harness) {
    let stage = Stage::with(harness, keeping(Some(3_600), None)).await;
    let maintenance = stage.maintenance().await;
    let sent = stage.delivered(1).await;
    let departure = maintenance
        .begin_by(Size)
        .await
        .expect("messages may leave");
    stage.add_queue("mail", &policy()).await;
    let refused = maintenance.step(&departure).await;
    assert_eq!(refused, Step::Refused(Refusal::Changed));
    assert_eq!(maintenance.begin_by(Size).await, None);
    assert_eq!(stage.existing(&sent).await, sent);
}

pub(crate) async fn the_size_of_the_database_grows_with_its_messages(harness: &dyn Harness) {
    let stage = Stage::with(harness, keeping(Some(0), None)).await;
    let size = async || {
        let size = stage.store.database_size().await;
        size.expect("database_size answers")
    };
    let empty = size().await;
    // Something that no store compresses.
    let mut seed = 7_u64;
    let mut word = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        format!("{:x}", seed >> 16)
    };
    let mut message = |_| {
        let text: String = (0..4_000).map(|_| word()).collect();
        NewMessage::new(stage.queue.clone(), json!(text))
    };
    let messages: Vec<_> = (0..40).map(&mut message).collect();
    stage.enqueue_all(&messages).await;
    let full = size().await;
    assert!(full.bytes > empty.bytes, "{full:?} after {empty:?}");
    assert!(
        full.history_bytes > empty.history_bytes,
        "{full:?} after {empty:?}"
    );
    assert!(full.history_bytes <= full.bytes, "{full:?}");
    stage.drain().await;
    let maintenance = stage.maintenance().await;
    assert_eq!(maintenance.leave().await, 40);
    let left = size().await;
    assert!(left.bytes < full.bytes, "{left:?} after {full:?}");
}
