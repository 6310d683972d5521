//! Limits that several processes keep together.

use std::time::Duration;

use consign_testkit::eventually;

use crate::{
    receiver::{Receiver, ReplyMode},
    service::{Service, fill, unfinished},
    support::Consign,
};

const PROCESSES: usize = 4;
const MESSAGES: usize = 150;
const PATIENCE: Duration = Duration::from_secs(60);

/// Four processes deliver a queue of these limits; returns what its receiver saw.
async fn deliver(consign: &Consign, limits: &[&str]) -> Receiver {
    let receiver = Receiver::start(ReplyMode::Takes(Duration::from_millis(30))).await;
    consign.configure(&format!("[queues.mail.sink]\n{}", receiver.sink()));
    let set = ["queues", "set", "mail"].into_iter();
    consign.run(set.chain(limits.iter().copied())).expect(0);
    let mut processes = Vec::new();
    for _ in 0..PROCESSES {
        processes.push(Service::work(consign, &["--queue", "mail"]).await);
    }
    fill(consign, "mail", MESSAGES);
    eventually("all are delivered", PATIENCE, async || {
        unfinished(consign, "mail") == 0
    })
    .await;
    assert_eq!(receiver.times().len(), MESSAGES, "each once");
    for process in processes {
        process.stop().await;
    }
    receiver
}

#[tokio::test]
async fn processes_together_deliver_no_more_at_once_than_the_queue_allows() {
    let consign = Consign::new();
    let receiver = deliver(&consign, &["--total-concurrency", "3"]).await;
    assert_eq!(receiver.most_under_way(), 3);
}

#[tokio::test]
async fn processes_together_keep_a_rate() {
    let consign = Consign::new();
    let receiver = deliver(&consign, &["--total-rate", "50"]).await;
    let times = receiver.times();
    let took = times[MESSAGES - 1] - times[0];
    // Slots are 20.6 ms apart. The first may be used 20 ms late, and the machine is busy.
    let least = Duration::from_micros(20_619) * (MESSAGES as u32 - 1);
    assert!(took > least - Duration::from_millis(200), "{took:?}");
}
