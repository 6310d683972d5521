//! Signs of life, and looks at payloads.

use std::time::Duration;

use consign_kernel::{
    By, HEARTBEAT_QUEUES_MAX, Heartbeat, MessageId, OutcomeCounts, PROCESSES_KEPT, QueueMinutes,
    QueueStats,
};
use jiff::Timestamp;

use crate::{
    Harness,
    stage::{Stage, by, refused, s},
};

fn done(delivered: u64, retried: u64) -> OutcomeCounts {
    OutcomeCounts {
        delivered,
        retried,
        dead: 1,
        uncertain: 2,
        took_ms: delivered * 10,
    }
}

fn heartbeat(process: &str, queues: &[(&str, OutcomeCounts)]) -> Heartbeat {
    let queue = |(queue, done): &(&str, OutcomeCounts)| QueueStats {
        queue: queue.parse().expect("a queue's name"),
        done: *done,
    };
    Heartbeat {
        process: process.into(),
        version: "1.2.3".into(),
        running_for: Duration::from_secs(90),
        queues: queues.iter().map(queue).collect(),
    }
}

/// The beginning of the `step` minutes a time is in.
fn begin(at: Timestamp, step: i64) -> Timestamp {
    let seconds = at.as_second() - at.as_second().rem_euclid(step * 60);
    Timestamp::from_second(seconds).expect("a time")
}

pub(crate) async fn what_processes_do_adds_up_by_queue_and_minute(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let store = &stage.store;
    // Neither the beginning nor the end of a minute, whatever time it is.
    let now = stage.now().await;
    stage
        .advance(s(100 - now.as_second().rem_euclid(60) as u64))
        .await;
    let now = stage.now().await;
    let tell = async |heartbeat| {
        store
            .heartbeat(&heartbeat)
            .await
            .expect("heartbeat answers")
    };
    tell(heartbeat(
        "a",
        &[("mail", done(5, 1)), ("jobs", OutcomeCounts::default())],
    ))
    .await;
    tell(heartbeat("a", &[("mail", done(1, 0))])).await;
    tell(heartbeat(
        "b",
        &[("mail", done(2, 2)), ("jobs", done(7, 0))],
    ))
    .await;
    stage.advance(s(60)).await;
    tell(heartbeat("b", &[("mail", done(3, 0))])).await;

    let at = |queue: &str, at: Timestamp, done: OutcomeCounts| QueueMinutes {
        queue: queue.parse().expect("a queue's name"),
        minute: at,
        done,
    };
    let sum = |of: &[OutcomeCounts]| {
        let mut sum = OutcomeCounts::default();
        of.iter().for_each(|done| sum.add(*done));
        sum
    };
    let first = sum(&[done(5, 1), done(1, 0), done(2, 2)]);
    let minute = begin(now, 1);
    let next = begin(stage.now().await, 1);
    let all = store
        .queue_stats(None, 60, 1)
        .await
        .expect("queue_stats answers");
    let expected = [
        at("jobs", minute, done(7, 0)),
        at("mail", minute, first),
        at("mail", next, done(3, 0)),
    ];
    assert_eq!(all, expected);
    let mail = "mail".parse().expect("a queue's name");
    let one = store.queue_stats(Some(&mail), 60, 1).await;
    assert_eq!(one.expect("queue_stats answers"), expected[1..]);
    let latest = store.queue_stats(Some(&mail), 1, 1).await;
    assert_eq!(
        latest.expect("queue_stats answers"),
        expected[2..],
        "this minute"
    );
    let hours = store
        .queue_stats(Some(&mail), 1_440, 60)
        .await
        .expect("queue_stats answers");
    let total = sum(&hours.iter().map(|hour| hour.done).collect::<Vec<_>>());
    assert_eq!(total, sum(&[first, done(3, 0)]));
    assert_eq!(hours[0].minute, begin(now, 60));
}

pub(crate) async fn processes_show_until_a_day_after_their_last_heartbeat(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let store = &stage.store;
    let tell = async |heartbeat| {
        store
            .heartbeat(&heartbeat)
            .await
            .expect("heartbeat answers")
    };
    let queues = [
        ("mail", done(1, 1)),
        ("jobs", OutcomeCounts::default()),
        ("mail", OutcomeCounts::default()),
    ];
    tell(heartbeat("a", &queues)).await;
    tell(heartbeat("b", &[])).await;
    let then = stage.now().await;
    let known = store.processes().await.expect("processes answers");
    assert_eq!(known.len(), 2);
    let a = &known[0];
    assert_eq!((a.name.as_str(), a.version.as_str()), ("a", "1.2.3"));
    assert_eq!((a.started_at, a.seen_at), (then - s(90), then));
    let queues: Vec<&str> = a.queues.iter().map(|queue| queue.as_str()).collect();
    assert_eq!(queues, ["jobs", "mail"]);
    assert_eq!((known[1].name.as_str(), known[1].queues.len()), ("b", 0));

    stage.advance(s(20 * 3_600)).await;
    tell(heartbeat("b", &[])).await;
    stage.advance(s(6 * 3_600)).await;
    let known = store.processes().await.expect("processes answers");
    let names: Vec<&str> = known.iter().map(|process| process.name.as_str()).collect();
    assert_eq!(names, ["b"], "the other sent no heartbeat for a day");
    tell(heartbeat("b", &[])).await;
    let old = store
        .queue_stats(None, 10_000, 1)
        .await
        .expect("queue_stats answers");
    assert_eq!(old, [], "what is older than a day is forgotten");
}

pub(crate) async fn an_impossible_heartbeat_is_refused(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let mad = OutcomeCounts {
        delivered: u64::MAX,
        ..OutcomeCounts::default()
    };
    for wrong in [
        heartbeat("", &[]),
        heartbeat(" ", &[]),
        heartbeat("a\0", &[]),
        heartbeat("a\nb", &[]),
        heartbeat("a\u{1b}[2J", &[]),
        heartbeat("a\u{9b}2J", &[]),
        Heartbeat {
            version: "1\n".into(),
            ..heartbeat("a", &[])
        },
        heartbeat("a", &vec![("mail", done(1, 0)); HEARTBEAT_QUEUES_MAX + 1]),
        heartbeat(&"a".repeat(257), &[]),
        heartbeat("a", &[("mail", mad)]),
    ] {
        refused(stage.store.heartbeat(&wrong).await, "invalid_input");
    }
    assert_eq!(
        stage.store.processes().await.expect("processes answers"),
        []
    );
}

pub(crate) async fn keeps_the_processes_with_the_latest_heartbeats(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let store = &stage.store;
    let tell = async |heartbeat| {
        store
            .heartbeat(&heartbeat)
            .await
            .expect("heartbeat answers")
    };
    tell(heartbeat("the first", &[])).await;
    tell(heartbeat("the second", &[])).await;
    stage.advance(s(1)).await;
    for number in 0..PROCESSES_KEPT - 2 {
        tell(heartbeat(&format!("made up {number}"), &[])).await;
    }
    stage.advance(s(1)).await;
    tell(heartbeat("the first", &[])).await;
    let names = async || {
        let known = store.processes().await.expect("processes answers");
        let names = known.into_iter().map(|process| process.name);
        names.collect::<Vec<_>>()
    };
    assert_eq!(names().await.len(), PROCESSES_KEPT);
    stage.advance(s(1)).await;
    tell(heartbeat("one more", &[])).await;
    let names = names().await;
    assert_eq!(names.len(), PROCESSES_KEPT);
    let is_known = |name: &str| names.iter().any(|known| known == name);
    let known = ["the first", "the second", "one more"].map(is_known);
    assert_eq!(
        known,
        [true, false, true],
        "the one with the oldest heartbeat goes"
    );
}

pub(crate) async fn records_who_views_a_payload(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let id = stage.dead_one().await;
    let looks = async || {
        let audit = stage.store.audit(Some(id), None, 100).await;
        let audit = audit.expect("audit answers");
        let look = |entry: &consign_kernel::AuditEntry| entry.action == "reveal";
        audit.into_iter().filter(look).collect::<Vec<_>>()
    };
    assert_eq!(looks().await, []);
    let curious = By::new("grace", "a customer asks");
    let shown = stage
        .store
        .reveal(id, &curious)
        .await
        .expect("reveal answers");
    let message = stage.explain(id).await.message;
    assert_eq!(shown, Some(message));
    let [look] = &looks().await[..] else {
        panic!("one look, one record");
    };
    assert_eq!(
        (look.actor.as_str(), look.reason.as_str()),
        ("grace", "a customer asks")
    );
    assert_eq!(
        look.queue.as_ref(),
        shown.as_ref().map(|message| &message.queue)
    );

    let nobody = stage.store.reveal(MessageId(i64::MAX), &by()).await;
    assert_eq!(nobody.expect("reveal answers"), None);
    refused(
        stage.store.reveal(id, &By::new("grace", " ")).await,
        "invalid_input",
    );
    assert_eq!(looks().await.len(), 1, "who is refused sees nothing");
}
