//! Ending under load, and the end of a worker that had no chance to drain.

use std::time::{Duration, Instant};

use consign_testkit::eventually;
use rustix::process::{Pid, Resource, Rlimit, prlimit};

use crate::{
    receiver::{Receiver, ReplyMode},
    service::{SOON, Service, fill, unfinished},
    support::{Consign, migrated_database},
};

const MESSAGES: usize = 400;

#[tokio::test]
async fn draining_under_load_delivers_nothing_twice() {
    let consign = Consign::new();
    let receiver = Receiver::start(ReplyMode::Takes(Duration::from_millis(15))).await;
    consign.configure(&format!(
        "[queues.events]\nconcurrency = 20\n[queues.events.sink]\n{}",
        receiver.sink()
    ));
    consign.run(["queues", "set", "events"]).expect(0);
    fill(&consign, "events", MESSAGES);
    let mut rounds = 0;
    while unfinished(&consign, "events") > 0 {
        let before = receiver.seen().len();
        let service = Service::work(&consign, &[]).await;
        receiver.began((before + 60).min(MESSAGES)).await;
        service.stop().await;
        rounds += 1;
    }
    assert!(rounds >= 3, "it must have been interrupted: {rounds}");
    let seen = receiver.seen();
    assert_eq!(seen.len(), MESSAGES);
    let twice: Vec<_> = seen.iter().filter(|(_, count)| **count != 1).collect();
    assert!(twice.is_empty(), "after {rounds} rounds: {twice:?}");
    let last = consign.json(["show", &MESSAGES.to_string()]);
    assert_eq!(last["attempts"].as_array().unwrap().len(), 1, "{last}");
}

#[tokio::test]
async fn a_worker_without_file_descriptors_burns_no_tries() {
    let consign = Consign::new();
    let receiver = Receiver::start(ReplyMode::Takes(Duration::ZERO)).await;
    consign.configure(&format!(
        "[queues.events]\nattempts_max = 1\n[queues.events.sink]\n{}",
        receiver.sink()
    ));
    let service = Service::work(&consign, &[]).await;
    let pid = Pid::from_raw(service.child.id().try_into().unwrap());
    // What is open stays open; nothing else can be opened.
    let none = Rlimit {
        current: Some(0),
        maximum: Some(1_000),
    };
    prlimit(pid, Resource::Nofile, none).unwrap();
    fill(&consign, "events", 1);
    service.logs("lacks open files or memory").await;
    let waiting = consign.json(["show", "1"]);
    assert_eq!(
        waiting["attempts"].as_array().unwrap().len(),
        0,
        "{waiting}"
    );
    let enough = Rlimit {
        current: Some(1_000),
        maximum: Some(1_000),
    };
    prlimit(pid, Resource::Nofile, enough).unwrap();
    eventually("it is delivered", SOON, async || {
        unfinished(&consign, "events") == 0
    })
    .await;
    let shown = consign.json(["show", "1"]);
    assert_eq!(shown["attempts"].as_array().unwrap().len(), 1, "{shown}");
    assert_eq!(shown["attempts"][0]["outcome"], "delivered", "{shown}");
    service.stop().await;
}

#[tokio::test]
async fn a_killed_workers_messages_are_delivered_by_another_within_its_lease_and_a_second() {
    const LEASE: Duration = Duration::from_millis(2_000);
    let database = migrated_database().await;
    let consign = Consign::at(database.url());
    let receiver = Receiver::start(ReplyMode::Hangs).await;
    consign.configure(&format!(
        "[queues.events]\nlease_ttl_ms = {}\ntimeout_ms = 60000\n[queues.events.sink]\n{}",
        LEASE.as_millis(),
        receiver.sink()
    ));
    let mut victim = Service::work(&consign, &[]).await;
    fill(&consign, "events", 5);
    receiver.began(5).await;
    let heir = Service::work(&consign, &[]).await;
    receiver.set(ReplyMode::Takes(Duration::ZERO));
    // The victim has no time to record the receiver's answers.
    victim.child.kill9();
    let killed = Instant::now();
    eventually("everything is delivered", SOON, async || {
        unfinished(&consign, "events") == 0
    })
    .await;
    let took = killed.elapsed();
    assert!(took <= LEASE + Duration::from_secs(1), "{took:?}");
    heir.stop().await;
}
