//! Limits that several processes keep together.

use std::time::{Duration, Instant};

use consign_testkit::eventually;

use crate::{
    orders::bench::{Bench, on_both},
    receiver::{Receiver, ReplyMode},
    service::{Service, fill, unfinished},
};

const PROCESSES: usize = 4;
const RATE: usize = 50;
const AT_ONCE: usize = 8;
const SECOND: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(60);

/// Four processes that deliver a queue of these limits to one receiver.
async fn start(bench: &mut Bench, mode: ReplyMode, limits: &[&str]) -> (Receiver, Vec<Service>) {
    let receiver = Receiver::start(mode).await;
    bench.configure(&format!("[queues.mail.sink]\n{}", receiver.sink()));
    let set = ["queues", "set", "mail"].into_iter();
    let set = set.chain(["--total-concurrency", "8"]);
    bench
        .consign
        .run(set.chain(limits.iter().copied()))
        .expect(0);
    let mut processes = Vec::new();
    for _ in 0..PROCESSES {
        processes.push(Service::work(&bench.consign, &["--queue", "mail"]).await);
    }
    (receiver, processes)
}

async fn stop(processes: Vec<Service>) {
    for process in processes {
        process.stop().await;
    }
}

/// The most deliveries that began within a time.
fn most_within(times: &[Instant], span: Duration) -> usize {
    let from = |(index, start): (usize, &Instant)| {
        let later = times[index..].iter();
        later.take_while(|at| **at - *start < span).count()
    };
    times.iter().enumerate().map(from).max().unwrap_or(0)
}

/// The receiver answers nothing until all that may be sent at once has been sent.
#[test]
fn processes_together_deliver_as_many_at_once_as_the_queue_allows_and_no_more() {
    on_both(async |mut bench| {
        let (receiver, processes) = start(&mut bench, ReplyMode::Hangs, &[]).await;
        fill(&bench.consign, "mail", 150);
        receiver.began(AT_ONCE).await;
        receiver.set(ReplyMode::Takes(Duration::from_millis(30)));
        eventually("all are delivered", PATIENCE, async || {
            unfinished(&bench.consign, "mail") == 0
        })
        .await;
        assert_eq!(receiver.most_under_way(), AT_ONCE);
        assert_eq!(receiver.times().len(), 150, "each once");
        stop(processes).await;
    });
}

/// How much of the rate is used depends on the machine: on a loaded one, slots pass unused. So two seconds that
/// use it are waited for, while no second may exceed it.
#[test]
fn processes_together_use_a_rate_and_never_exceed_it() {
    on_both(async |mut bench| {
        let mode = ReplyMode::Takes(Duration::from_millis(20));
        let rate = RATE.to_string();
        let (receiver, processes) = start(&mut bench, mode, &["--total-rate", &rate]).await;
        fill(&bench.consign, "mail", RATE * PATIENCE.as_secs() as usize);
        eventually("95 % of the rate is used", PATIENCE, async || {
            most_within(&receiver.times(), 2 * SECOND) * 100 >= 2 * RATE * 95
        })
        .await;
        stop(processes).await;
        // What was sent before a second and arrives in it was in a lease: at most as many as are sent at once.
        let most = most_within(&receiver.times(), SECOND);
        assert!(most <= RATE + AT_ONCE, "{most} in a second");
        assert!(receiver.most_under_way() <= AT_ONCE);
        let repeated = receiver.seen().into_values().filter(|count| *count > 1);
        assert_eq!(repeated.count(), 0, "each once");
    });
}
