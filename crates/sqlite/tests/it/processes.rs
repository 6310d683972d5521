//! Several instances and several processes on one file.

use std::{collections::BTreeSet, process::Command, sync::Arc, time::Duration};

use consign_kernel::prelude::*;
use consign_sqlite::{Clock, SqliteOptions, SqliteStore};
use consign_testkit::Child;

use crate::harness::{drain, fixture, messages};

#[tokio::test(flavor = "multi_thread")]
async fn eight_tasks_over_three_instances_share_without_overlap() {
    let bench = fixture().await;
    bench.store.enqueue(&messages(1_000)).await.unwrap();
    let mut stores = Vec::new();
    for _ in 0..3 {
        stores.push(Arc::new(bench.open().await));
    }
    let tasks = (0..8).map(|n| {
        let store = Arc::clone(&stores[n % stores.len()]);
        tokio::spawn(async move { drain(&store, 7).await })
    });
    let mut seen = BTreeSet::new();
    for task in tasks.collect::<Vec<_>>() {
        for id in task.await.unwrap() {
            assert!(seen.insert(id), "message {id} was given out twice");
        }
    }
    assert_eq!(seen.len(), 1_000);
    assert_eq!(bench.store.doctor().await.unwrap(), []);
}

/// The name of a variable that turns a test of this binary into a worker process.
const FILE: &str = "CONSIGN_TEST_WORKER_FILE";

#[tokio::test(flavor = "multi_thread")]
async fn processes_share_a_file_without_overlap() {
    let bench = fixture().await;
    // Processes share the machine's clock, not the test's.
    let options = bench.options().clock(Clock::System);
    let store = SqliteStore::open(&options).await.unwrap();
    store.enqueue(&messages(600)).await.unwrap();
    let mut workers: Vec<Child> = (0..3).map(|_| start_worker(&bench.path())).collect();
    let mut seen = BTreeSet::new();
    for worker in &mut workers {
        let line = worker.expect_line("delivered").await;
        for id in line.split_whitespace().skip(1) {
            assert!(
                seen.insert(id.to_owned()),
                "message {id} was given out twice"
            );
        }
        assert!(worker.wait(Duration::from_secs(30)).await.success());
    }
    assert_eq!(seen.len(), 600);
    assert_eq!(bench.store.doctor().await.unwrap(), []);
}

fn start_worker(path: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "processes::a_worker_process", "--nocapture"]);
    command.env(FILE, path);
    Child::start(command)
}

/// Not a test by itself: what the worker processes of the test above run.
#[tokio::test]
async fn a_worker_process() {
    let Ok(path) = std::env::var(FILE) else {
        return;
    };
    let options = SqliteOptions::new(path).unwrap();
    let store = SqliteStore::open(&options).await.unwrap();
    let seen = drain(&store, 5).await;
    let ids: Vec<String> = seen.iter().map(ToString::to_string).collect();
    println!("\ndelivered {}", ids.join(" "));
}
