//! Signs of life, and looks at payloads.

use std::time::Duration;

use consign_kernel::{
    Backlog, BreakerReport, BreakerState, By, HEARTBEAT_QUEUES_MAX, Heartbeat, MessageId,
    OutcomeCounts, PROCESSES_KEPT, ProcessBreaker, QueueMinutes, QueueStats,
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
        latency: [delivered, retried, 0, 0, 0, 0, 0, 0, 0, 3],
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
        ..Heartbeat::default()
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
        backlog: Backlog::default(),
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

pub(crate) async fn stats_of_hours_stay_for_a_week(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let store = &stage.store;
    let beat = async |queues: &[(&str, OutcomeCounts)]| {
        let recorded = store.heartbeat(&heartbeat("a", queues)).await;
        recorded.expect("heartbeat answers");
    };
    let stats = async |minutes, step| {
        let stats = store.queue_stats(None, minutes, step).await;
        stats.expect("queue_stats answers")
    };
    let begun = stage.now().await;
    beat(&[("mail", done(5, 1))]).await;
    beat(&[("mail", done(2, 0))]).await;
    let mut both = done(5, 1);
    both.add(done(2, 0));
    stage.advance(s(5 * 24 * 3_600)).await;
    beat(&[("mail", done(1, 0)), ("jobs", done(4, 0))]).await;
    let now = stage.now().await;
    let row = |queue: &str, at, step, done| QueueMinutes {
        queue: queue.parse().expect("a queue's name"),
        minute: begin(at, step),
        done,
        backlog: Backlog::default(),
    };
    assert_eq!(
        stats(10_080, 120).await,
        [
            row("jobs", now, 120, done(4, 0)),
            row("mail", begun, 120, both),
            row("mail", now, 120, done(1, 0)),
        ]
    );
    assert_eq!(stats(10_080, 1).await.len(), 2, "of minutes, a day is kept");
    assert_eq!(
        stats(1, 60).await.len(),
        2,
        "the hour that the minute is in"
    );
    stage.advance(s(3 * 24 * 3_600)).await;
    beat(&[]).await;
    assert_eq!(
        stats(20_000, 1_440).await.len(),
        2,
        "what is older than a week is removed"
    );
}

pub(crate) async fn the_backlog_is_sampled_once_a_minute(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let store = &stage.store;
    let sample = async || {
        store
            .sample_backlog()
            .await
            .expect("sample_backlog answers")
    };
    let backlog = async |step| {
        let stats = store.queue_stats(None, 120, step).await;
        let stats = stats.expect("queue_stats answers");
        stats.iter().map(|row| row.backlog).collect::<Vec<_>>()
    };
    sample().await;
    assert_eq!(backlog(1).await, [], "nothing is due");
    // The beginning of a minute that is not the first of its hour, whatever time it is.
    let now = stage.now().await;
    let minutes = now.as_second().div_euclid(60) + 1;
    let minutes = minutes + i64::from(minutes.rem_euclid(60) >= 50) * 20;
    let wait = minutes * 60 + 1 - now.as_second();
    stage.advance(s(wait.unsigned_abs())).await;
    stage.enqueue(3).await;
    stage.advance(s(20)).await;
    sample().await;
    stage.enqueue(2).await;
    stage.advance(s(10)).await;
    sample().await;
    let [first] = backlog(1).await[..] else {
        panic!("one sample of the minute");
    };
    assert_eq!(first.due, 3, "the first of the minute stays");
    assert_eq!(first.oldest_ms / 1_000, 20);
    stage.advance(s(60)).await;
    sample().await;
    stage.drain().await;
    stage.advance(s(60)).await;
    sample().await;
    let [_, second] = backlog(1).await[..] else {
        panic!("the minute without due messages has no sample");
    };
    assert_eq!((second.due, second.oldest_ms / 1_000), (5, 90));
    let [hour] = backlog(60).await[..] else {
        panic!("one row of the hour");
    };
    assert_eq!(
        (hour.due, hour.oldest_ms / 1_000),
        (5, 90),
        "the most of the hour"
    );
}

pub(crate) async fn processes_show_their_breakers(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let store = &stage.store;
    let breaker = |queue: &str, state, seconds| BreakerReport {
        queue: queue.parse().expect("a queue's name"),
        destination: format!("https://{queue}.example"),
        state,
        lasts: s(seconds),
    };
    let beat = async |breakers: Vec<BreakerReport>, is_last| {
        let heartbeat = Heartbeat {
            breakers,
            is_last,
            ..heartbeat("a", &[("mail", OutcomeCounts::default())])
        };
        store
            .heartbeat(&heartbeat)
            .await
            .expect("heartbeat answers");
        let known = store.processes().await.expect("processes answers");
        known.into_iter().next().expect("one process")
    };
    let process = beat(
        vec![
            breaker("mail", BreakerState::HalfOpen, 40),
            breaker("jobs", BreakerState::Open, 5),
            breaker("fine", BreakerState::Closed, 5),
        ],
        false,
    )
    .await;
    let now = stage.now().await;
    let expected = |queue: &str, state, seconds| ProcessBreaker {
        queue: queue.parse().expect("a queue's name"),
        destination: format!("https://{queue}.example"),
        state,
        since: now - s(seconds),
    };
    assert_eq!(
        process.breakers,
        [
            expected("jobs", BreakerState::Open, 5),
            expected("mail", BreakerState::HalfOpen, 40)
        ]
    );
    assert_eq!(process.queues.len(), 1);
    assert_eq!(beat(Vec::new(), false).await.breakers, []);
    let ended = beat(vec![breaker("mail", BreakerState::Open, 5)], true).await;
    assert_eq!((ended.breakers.len(), ended.queues.len()), (0, 0));
}

pub(crate) async fn an_impossible_heartbeat_is_refused(harness: &dyn Harness) {
    let stage = Stage::new(harness).await;
    let mad = OutcomeCounts {
        delivered: u64::MAX,
        ..OutcomeCounts::default()
    };
    let mut late = OutcomeCounts::default();
    late.latency[9] = 1 << 40;
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
        heartbeat("a", &[("mail", late)]),
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
