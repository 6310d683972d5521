//! The steps of a departure: fixed, archived, removed, by one process at a time.

use consign_kernel::{
    DepartureCause, DepartureId, DepartureState, Filter, MessageId, OnUncertain, Outcome, Progress,
    QueuePolicy, Record, Refusal, Report, StateKind, Step,
};
use serde_json::json;

use super::retention::keeping;
use crate::{
    Harness,
    stage::{MAINTENANCE_TTL, Maintenance, Stage, by, done, refused, s, stranger},
};

/// The records of a departure, in pages of two.
async fn departing(stage: &Stage<'_>, id: DepartureId) -> Vec<Record> {
    let mut records: Vec<Record> = Vec::new();
    loop {
        let after = records.last().map(|record| record.message.id);
        let page = stage.store.departing(id, after, 2).await;
        let page = page.expect("departing answers");
        assert!(page.len() <= 2, "at most what was asked for");
        if page.is_empty() {
            return records;
        }
        records.extend(page);
    }
}

/// The record of a message as the other reads show it.
pub(super) async fn record(stage: &Stage<'_>, id: MessageId) -> Record {
    let explanation = stage.explain(id).await;
    let dead = stage.store.dead(&Filter::default(), None, 100).await;
    let dead = dead.expect("dead answers").items;
    let audit = stage.store.audit(Some(id), None, 100).await;
    let mut audit = audit.expect("audit answers");
    audit.reverse();
    Record {
        message: explanation.message,
        state: explanation.state.kind(),
        dead: dead.into_iter().find(|letter| letter.message_id == id),
        attempts: stage.history(id).await,
        late: stage.store.late(id).await.expect("late answers"),
        audit,
        erased: explanation.erased,
    }
}

pub(crate) async fn a_departure_has_every_record(harness: &dyn Harness) {
    let rules = QueuePolicy {
        on_uncertain: OnUncertain::Hold,
        ..keeping(Some(60), Some(60))
    };
    let stage = Stage::with(harness, rules).await;
    let maintenance = stage.maintenance().await;
    let store = &stage.store;
    // Delivered after a loss, with late results of two leases.
    let twice_lost = stage.message(0).with_key("k").with_group("g");
    let twice_lost = stage.enqueue_all(&[twice_lost]).await[0];
    let mut lost = Vec::new();
    for _ in 0..2 {
        lost.push(stage.claim(1).await);
        stage.crash().await;
    }
    stage.advance(s(5)).await;
    assert_eq!(stage.drain().await, [twice_lost]);
    for lease in lost.iter().rev() {
        let report = Report {
            code: Some("http_200".into()),
            result: Some(json!({"n": [1.5, null]})),
            ..Report::delivered(twice_lost)
        };
        store
            .record_late(lease.token, &[report])
            .await
            .expect("record_late answers");
        stage.advance(s(1)).await;
    }
    // Dead, requeued, held as uncertain, resolved as dead.
    let resolved = stage.dead_one().await;
    store.requeue(&[resolved], &by()).await.expect("it moves");
    let lease = stage.claim(1).await;
    stage.report(&lease, resolved, Outcome::Uncertain).await;
    let resolution = consign_kernel::Resolution::Dead;
    let moved = store.resolve(&[resolved], &resolution, &by()).await;
    moved.expect("resolve answers");
    store.reveal(resolved, &by()).await.expect("reveal answers");
    let plain = stage.delivered(2).await;
    let exact = consign_kernel::Payload::parse("[0.10, 12345678901234567890123]");
    let mut exact = consign_kernel::NewMessage::new(stage.queue.clone(), exact.expect("JSON"));
    exact
        .headers
        .insert("ü".into(), json!({"a": [1, "\u{1f980}"]}));
    let exact = stage.enqueue_all(&[exact]).await[0];
    stage.drain().await;
    stage.advance(s(60)).await;
    let stays = stage.delivered(1).await;

    let departure = maintenance.begin_of(5).await;
    let all = [twice_lost, resolved, plain[0], plain[1], exact];
    let mut expected = Vec::new();
    for id in all {
        expected.push(record(&stage, id).await);
    }
    assert_eq!(expected[0].late.len(), 2);
    assert_eq!(expected[1].audit.len(), 3);
    assert_eq!(expected[1].state, StateKind::Dead);
    assert_eq!(departing(&stage, departure.id).await, expected);
    let nobody = DepartureId(departure.id.0 + 1);
    assert_eq!(departing(&stage, nobody).await, []);
    maintenance.archive(&departure).await;
    assert_eq!(departing(&stage, departure.id).await, expected);
    assert_eq!(maintenance.depart(&departure).await, 5);
    assert_eq!(departing(&stage, departure.id).await, [], "it is over");
    assert_eq!(stage.existing(&stays).await, stays);
}

pub(crate) async fn many_messages_leave_in_steps(harness: &dyn Harness) {
    let stage = Stage::with(harness, keeping(Some(60), None)).await;
    let maintenance = stage.maintenance().await;
    let sent = stage.delivered(2_500).await;
    stage.advance(s(60)).await;
    let stays = stage.enqueue_one().await;
    let departure = maintenance.begin_of(2_500).await;
    maintenance.archive(&departure).await;
    assert_eq!(maintenance.depart(&departure).await, 2_500);
    assert_eq!(maintenance.begin().await, None);
    for n in [0, 1, 999, 1_000, 1_001, 2_499] {
        assert!(!stage.exists(sent[n]).await, "message {n}");
    }
    let history = stage.history_of(&stage.queue).await;
    assert_eq!((history.messages, history.departed), (1, 2_500));
    assert_eq!(stage.drain().await, [stays]);
}

pub(crate) async fn a_requeue_keeps_a_dead_message(harness: &dyn Harness) {
    let stage = Stage::with(harness, keeping(None, Some(60))).await;
    let maintenance = stage.maintenance().await;
    let dead = stage.dead(3).await;
    stage.advance(s(60)).await;
    let departure = maintenance.begin_of(3).await;
    maintenance.archive(&departure).await;
    let requeued = stage.store.requeue(&dead[..1], &by()).await;
    requeued.expect("requeue answers");
    let changed = Step::Refused(Refusal::Changed);
    assert_eq!(maintenance.step(&departure).await, changed);
    assert_eq!(stage.existing(&dead).await, dead, "nothing was removed");
    assert_eq!(maintenance.step(&departure).await, changed, "given up");
    let again = maintenance.begin_of(2).await;
    assert_ne!(again.id, departure.id, "begun anew");
    assert_eq!(again.state, DepartureState::Open, "and archived anew");
    assert_eq!(maintenance.leave().await, 2);
    assert_eq!(stage.existing(&dead).await, dead[..1]);
    assert_eq!(stage.history(dead[0]).await.len(), 1);
    assert_eq!(stage.drain().await, dead[..1], "it is delivered after all");
}

pub(crate) async fn a_record_about_a_message_restarts_its_departure(harness: &dyn Harness) {
    let stage = Stage::with(harness, keeping(Some(60), None)).await;
    let maintenance = stage.maintenance().await;
    let sent = stage.enqueue(2).await;
    let lost = stage.claim(2).await;
    stage.crash().await;
    // What comes back from a loss comes back in halves.
    while let Some(lease) = stage.try_claim(2).await {
        stage.deliver(&lease).await;
    }
    stage.advance(s(60)).await;
    let changed = Step::Refused(Refusal::Changed);
    let departure = maintenance.begin_of(2).await;
    maintenance.archive(&departure).await;
    let late = [Report::delivered(sent[0])];
    let kept = stage.store.record_late(lost.token, &late).await;
    kept.expect("record_late answers");
    assert_eq!(maintenance.step(&departure).await, changed);
    stage.advance(s(60)).await;
    let departure = maintenance.begin_of(2).await;
    maintenance.archive(&departure).await;
    let revealed = stage.store.reveal(sent[1], &by()).await;
    revealed.expect("reveal answers");
    assert_eq!(maintenance.step(&departure).await, changed);
    // An archive of what has changed is of no use either.
    let archived = (stage.store).record_archive(maintenance.token, departure.id, "late");
    assert_eq!(
        archived.await.expect("record_archive answers"),
        Step::Refused(Refusal::Changed)
    );
    assert_eq!(maintenance.leave().await, 1);
    assert_eq!(stage.existing(&sent).await, sent[1..]);
    stage.advance(s(60)).await;
    assert_eq!(maintenance.leave().await, 1);
}

pub(crate) async fn a_departure_under_way_keeps_its_times(harness: &dyn Harness) {
    let stage = Stage::with(harness, keeping(Some(60), None)).await;
    let maintenance = stage.maintenance().await;
    let sent = stage.delivered(1).await;
    stage.advance(s(30)).await;
    let younger = stage.delivered(1).await;
    stage.advance(s(30)).await;
    let departure = maintenance.begin_of(1).await;
    stage.advance(s(30)).await;
    let again = maintenance.begin().await;
    assert_eq!(again.as_ref(), Some(&departure), "the one under way");
    maintenance.archive(&departure).await;
    assert_eq!(maintenance.depart(&departure).await, 1);
    assert_eq!(stage.existing(&sent).await, []);
    assert_eq!(stage.existing(&younger).await, younger, "the next one's");
    assert_eq!(maintenance.leave().await, 1);
}

pub(crate) async fn a_policy_change_gives_up_a_departure(harness: &dyn Harness) {
    let stage = Stage::with(harness, keeping(Some(60), None)).await;
    let maintenance = stage.maintenance().await;
    let sent = stage.delivered(1).await;
    stage.advance(s(60)).await;
    let open = maintenance.begin_of(1).await;
    stage.add_queue("mail", &QueuePolicy::default()).await;
    let given_up = Step::Refused(Refusal::Changed);
    assert_eq!(maintenance.step(&open).await, given_up);
    assert_eq!(maintenance.begin().await, None, "kept for ever now");
    stage.add_queue("mail", &keeping(Some(60), None)).await;
    let archived = maintenance.begin_of(1).await;
    maintenance.archive(&archived).await;
    stage.add_queue("other", &QueuePolicy::default()).await;
    assert_eq!(maintenance.step(&archived).await, given_up);
    assert_eq!(stage.existing(&sent).await, sent);
    assert_eq!(maintenance.leave().await, 1);
}

pub(crate) async fn an_archive_is_required_unless_the_policy_disables_it(harness: &dyn Harness) {
    let stage = Stage::with(harness, keeping(Some(0), None)).await;
    let maintenance = stage.maintenance().await;
    let sent = stage.delivered(2).await;
    let departure = maintenance.begin_of(2).await;
    assert_eq!(departure.state, DepartureState::Open);
    assert!(departure.must_archive, "by default");
    assert_eq!(
        maintenance.step(&departure).await,
        Step::Refused(Refusal::NoArchive)
    );
    assert_eq!(stage.existing(&sent).await, sent);
    maintenance.archive(&departure).await;
    let archived = maintenance.begin().await.expect("it is under way");
    assert_eq!(archived.state, DepartureState::Archived);
    assert_eq!(archived.id, departure.id);
    assert_eq!(maintenance.depart(&departure).await, 2);

    let without = QueuePolicy {
        archive: false,
        ..keeping(Some(0), None)
    };
    stage.add_queue("mail", &without).await;
    // A queue from which nothing leaves requires nothing.
    stage.add_queue("other", &keeping(Some(0), None)).await;
    stage.delivered(2).await;
    let departure = maintenance.begin_of(2).await;
    assert!(!departure.must_archive);
    assert_eq!(maintenance.depart(&departure).await, 2);
}

pub(crate) async fn without_an_archive_messages_leave_that_need_none(harness: &dyn Harness) {
    let stage = Stage::with(harness, keeping(Some(0), None)).await;
    let maintenance = stage.maintenance().await;
    assert_eq!(maintenance.begin_unarchived().await, Step::Done(None));
    let archived = stage.delivered(2).await;
    let unarchived = QueuePolicy {
        archive: false,
        ..keeping(Some(0), None)
    };
    let other = Stage {
        harness,
        store: stage.store.clone(),
        queue: stage.add_queue("other", &unarchived).await,
    };
    let sent = other.delivered(2).await;
    let Step::Done(Some(departure)) = maintenance.begin_unarchived().await else {
        panic!("two messages need no archive");
    };
    assert_eq!((departure.messages, departure.must_archive), (2, false));
    assert_eq!(maintenance.depart(&departure).await, 2);
    assert_eq!(stage.existing(&sent).await, []);
    assert_eq!(
        maintenance.begin_unarchived().await,
        Step::Refused(Refusal::NoArchive)
    );
    assert_eq!(stage.existing(&archived).await, archived);
    assert_eq!(maintenance.leave().await, 2, "with an archive");
}

pub(crate) async fn without_an_archive_a_departure_that_needs_one_is_given_up(
    harness: &dyn Harness,
) {
    let stage = Stage::with(harness, keeping(Some(0), None)).await;
    let maintenance = stage.maintenance().await;
    let sent = stage.delivered(2).await;
    let departure = maintenance.begin_of(2).await;
    assert_eq!(
        maintenance.begin_unarchived().await,
        Step::Refused(Refusal::NoArchive)
    );
    let given_up = Step::Refused(Refusal::Changed);
    assert_eq!(maintenance.step(&departure).await, given_up);
    // One that is archived needs no other.
    let departure = maintenance.begin_of(2).await;
    maintenance.archive(&departure).await;
    let Step::Done(Some(again)) = maintenance.begin_unarchived().await else {
        panic!("it is under way");
    };
    assert_eq!(again.id, departure.id);
    assert_eq!(maintenance.depart(&again).await, 2);
    assert_eq!(stage.existing(&sent).await, []);
}

pub(crate) async fn one_process_at_a_time_maintains(harness: &dyn Harness) {
    let stage = Stage::with(harness, keeping(Some(0), None)).await;
    let another = harness.another().await;
    let lease = async |token, ttl| {
        let leased = another.lease_maintenance("another", token, ttl).await;
        leased.expect("lease_maintenance answers")
    };
    let first = stage.maintenance().await;
    assert_eq!(lease(None, MAINTENANCE_TTL).await, None);
    assert_eq!(lease(Some(stranger()), MAINTENANCE_TTL).await, None);
    stage.advance(MAINTENANCE_TTL - s(1)).await;
    assert_eq!(lease(None, s(10)).await, None, "a second is left");
    first.begin().await;
    stage.advance(s(1)).await;
    assert_eq!(lease(None, s(10)).await, None, "it was renewed");
    stage.advance(MAINTENANCE_TTL - s(1)).await;
    let taken = lease(None, s(10)).await.expect("it is over");
    assert_ne!(taken, first.token);
    let own = Some(first.token);
    let renewed = stage.store.lease_maintenance("maintainer", own, s(10));
    assert_eq!(renewed.await.expect("lease_maintenance answers"), None);
    // What is over, but not taken, can be renewed.
    stage.advance(s(20)).await;
    assert_eq!(lease(Some(taken), s(10)).await, Some(taken));
}

pub(crate) async fn a_lost_maintenance_lease_changes_nothing(harness: &dyn Harness) {
    let rules = QueuePolicy {
        keep_keys_ms: Some(0),
        ..keeping(Some(0), None)
    };
    let stage = Stage::with(harness, rules).await;
    let first = stage.maintenance().await;
    let keyed = stage.message(0).with_key("k");
    stage.enqueue_all(&[keyed]).await;
    stage.drain().await;
    assert_eq!(first.leave().await, 1);
    let sent = stage.delivered(1).await;
    let departure = first.begin_of(1).await;
    first.archive(&departure).await;
    let refuses_all = async |token| {
        let store = &stage.store;
        let lost = Refusal::LeaseLost;
        let prepared = store.prepare_ranges(token, 1_000_000, s(0)).await;
        assert_eq!(prepared.expect("it answers"), Step::Refused(lost));
        let begun = store
            .begin_departure(token, DepartureCause::Age, true)
            .await;
        assert_eq!(begun.expect("it answers"), Step::Refused(lost));
        let archived = store.record_archive(token, departure.id, "other").await;
        assert_eq!(archived.expect("it answers"), Step::Refused(lost));
        let left = store.depart(token, departure.id).await;
        assert_eq!(left.expect("it answers"), Step::Refused(lost));
        let forgotten = store.forget_keys(token, 10).await;
        assert_eq!(forgotten.expect("it answers"), Step::Refused(lost));
        assert_eq!(stage.existing(&sent).await, sent);
        assert_eq!(stage.history_of(&stage.queue).await.former_keys, 1);
    };
    refuses_all(stranger()).await;
    stage.advance(MAINTENANCE_TTL).await;
    refuses_all(first.token).await;
    let second = stage.maintenance().await;
    refuses_all(first.token).await;
    assert_eq!(second.leave().await, 1);
    let forgotten = stage.store.forget_keys(second.token, 10).await;
    assert_eq!(done(forgotten), 1);
}

pub(crate) async fn a_departure_goes_on_after_its_process(harness: &dyn Harness) {
    let stage = Stage::with(harness, keeping(Some(60), None)).await;
    let first = stage.maintenance().await;
    let sent = stage.delivered(3).await;
    stage.advance(s(60)).await;
    let open = first.begin_of(3).await;
    stage.advance(MAINTENANCE_TTL).await;
    let another = harness.another().await;
    let second = Maintenance::lease(&another).await;
    let found = second.begin().await.expect("the one under way");
    assert_eq!(found, open, "as it was left");
    second.archive(&open).await;
    stage.delivered(1).await;
    stage.advance(MAINTENANCE_TTL).await;
    let third = stage.maintenance().await;
    let found = third.begin().await.expect("the one under way");
    let archived = consign_kernel::Departure {
        state: DepartureState::Archived,
        ..open
    };
    assert_eq!(found, archived, "with its archive");
    assert_eq!(third.depart(&found).await, 3);
    assert_eq!(stage.existing(&sent).await, []);
}

pub(crate) async fn a_departure_that_is_over_stays_over(harness: &dyn Harness) {
    let stage = Stage::with(harness, keeping(Some(0), None)).await;
    let maintenance = stage.maintenance().await;
    stage.delivered(1).await;
    let departure = maintenance.begin_of(1).await;
    maintenance.archive(&departure).await;
    assert_eq!(maintenance.depart(&departure).await, 1);
    let later = stage.delivered(1).await;
    let over = Progress {
        removed: 0,
        is_over: true,
    };
    // As after a lost reply.
    assert_eq!(maintenance.step(&departure).await, Step::Done(over));
    maintenance.archive(&departure).await;
    assert_eq!(stage.existing(&later).await, later);
    let next = maintenance.begin_of(1).await;
    assert_ne!(next.id, departure.id);
    assert_eq!(next.state, DepartureState::Open);
}

pub(crate) async fn the_departure_is_on_record(harness: &dyn Harness) {
    let stage = Stage::with(harness, keeping(Some(60), None)).await;
    let maintenance = stage.maintenance().await;
    stage.delivered(1_500).await;
    stage.advance(s(60)).await;
    let before = stage.store.audit(None, None, 100).await;
    let before = before.expect("audit answers");
    let departure = maintenance.begin_of(1_500).await;
    maintenance.archive(&departure).await;
    let now = stage.now().await;
    assert_eq!(maintenance.depart(&departure).await, 1_500);
    let after = stage.store.audit(None, None, 100).await;
    let after = after.expect("audit answers");
    assert_eq!(after[1..], before, "one entry, whatever the steps");
    let entry = &after[0];
    assert_eq!(entry.action, "depart");
    assert_eq!(entry.actor, "maintainer");
    assert_eq!(
        (entry.at, &entry.queue, entry.message_id),
        (now, &None, None)
    );
    let by = departure.by("maintainer", Some("archive"));
    assert_eq!(entry.reason, by.reason);
    for part in [
        format!("departure {}:", departure.id),
        "1500 messages".to_owned(),
        format!("from {} to {}", departure.first, departure.last),
        "archive archive".to_owned(),
    ] {
        assert!(entry.reason.contains(&part), "{part}: {entry:?}");
    }
}

pub(crate) async fn rejects_names_that_cannot_be_recorded(harness: &dyn Harness) {
    let stage = Stage::with(harness, keeping(Some(0), None)).await;
    let store = &stage.store;
    let long = "x".repeat(257);
    for owner in ["", " ", "a\nb", "a\0b", &long] {
        let leased = store.lease_maintenance(owner, None, s(10)).await;
        refused(leased, "invalid_input");
    }
    for ttl in [s(0), s(86_401)] {
        refused(
            store.lease_maintenance("maintainer", None, ttl).await,
            "invalid_input",
        );
    }
    let maintenance = stage.maintenance().await;
    stage.delivered(1).await;
    let departure = maintenance.begin_of(1).await;
    let long = "x".repeat(2_049);
    for archive in ["", "a\nb", "a\0b", &long] {
        let recorded = store.record_archive(maintenance.token, departure.id, archive);
        refused(recorded.await, "invalid_input");
    }
    let found = maintenance.begin().await.expect("it is under way");
    assert_eq!(found.state, DepartureState::Open);
}
