//! Many orders, many workers, many kills.

use std::{
    hash::{BuildHasher, RandomState},
    time::Duration,
};

use consign_testkit::{Step, eventually};

use super::{
    accept::join_all,
    bench::{Bench, on_both, place},
};
use crate::service::{SOON, Service};

const WORK: &[&str] = &["work", "--queue", "orders"];
const WORKERS: usize = 8;
const ORDERS: usize = 500;
/// A worker is killed whenever this many more orders were sent.
const SENDS_PER_KILL: usize = 25;
/// So slow that all the kills happen before the last order is executed: eight workers send 32 orders
/// at a time.
const EXECUTION: Duration = Duration::from_millis(300);

#[test]
fn eight_workers_send_five_hundred_orders_once_under_random_kills() {
    on_both(async |mut bench| {
        bench.set(&[
            ("outbox_lock_lease_sec", "1.5"),
            ("outbox_max_attempts", "30"),
            ("broker_timeout_ms", "5000"),
        ]);
        bench
            .broker
            .tell(|manner| manner.otherwise = Step::Slow(EXECUTION))
            .await;
        let server = bench.serve().await;
        bench.consign.run(["pause", "orders"]).expect(0);
        accept_all(&server).await;
        server.stop().await;
        let mut workers = join_all((0..WORKERS).map(|_| bench.work())).await;
        bench.consign.run(["resume", "orders"]).expect(0);
        let kills = kill_until_done(&bench, &mut workers).await;
        assert!(kills >= ORDERS / SENDS_PER_KILL / 2, "{kills} kills");
        workers.iter_mut().for_each(|worker| worker.child.kill9());

        let tallies = bench.broker.journal().tallies();
        assert_eq!(tallies.len(), ORDERS);
        let wrong: Vec<_> = tallies
            .iter()
            .filter(|(_, tally)| tally.executions != 1)
            .collect();
        assert!(wrong.is_empty(), "after {kills} kills: {wrong:?}");
        let mut sql = bench.sql().await;
        let succeeded = "SELECT count(*) FROM idempo_ledger WHERE status = 'succeeded'";
        assert_eq!(sql.number(succeeded).await, i64::try_from(ORDERS).unwrap());
        // Every send beyond the first is explained by an attempt that was cut off.
        let cut = "SELECT count(*) FROM attempt WHERE outcome IN ('uncertain', 'expired', 'retry')";
        let cut = usize::try_from(sql.number(cut).await).unwrap();
        let sends = bench.broker.send_count();
        assert!(
            sends <= ORDERS + cut,
            "{sends} sends, {cut} attempts cut off"
        );
        assert_eq!(bench.disagreements().await, [] as [serde_json::Value; 0]);
        bench.doctor();
    });
}

async fn accept_all(server: &Service) {
    for chunk in 0..ORDERS / 50 {
        let orders = (0..50).map(async |number| {
            let key = format!("key-{:04}", chunk * 50 + number);
            place(server, &key, &[]).await;
        });
        join_all(orders).await;
    }
}

/// Kills a random worker after every few sends and starts another in its place, until every order
/// has been executed and recorded.
async fn kill_until_done(bench: &Bench, workers: &mut [Service]) -> usize {
    let random = RandomState::new();
    let mut kills = 0;
    loop {
        let goal = (kills + 1) * SENDS_PER_KILL;
        let is_executed = || bench.broker.execution_count() >= ORDERS;
        eventually("more is sent, or all is executed", SOON, async || {
            bench.broker.send_count() >= goal || is_executed()
        })
        .await;
        if is_executed() {
            break;
        }
        let victim = random.hash_one(kills) as usize % workers.len();
        workers[victim].child.kill9();
        kills += 1;
        assert_eq!(bench.disagreements().await, [] as [serde_json::Value; 0]);
        // Not waited for: others are killed meanwhile.
        workers[victim] = Service::launch(&bench.consign, WORK, |_| {});
    }
    eventually("all is recorded", SOON, async || {
        unfinished(bench).await == 0
    })
    .await;
    kills
}

async fn unfinished(bench: &Bench) -> i64 {
    let sql = "SELECT count(*) FROM idempo_ledger WHERE status = 'accepted'";
    bench.eye().await.number(sql).await
}
