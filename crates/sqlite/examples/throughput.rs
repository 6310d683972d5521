//! Messages per second through the `Store` trait: enqueue, then claim and settle, durably.
//!
//! `cargo run --release -p consign-sqlite --example throughput -- [messages] [run length] [workers]`

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use consign_kernel::{Claim, Filter, NewMessage, QueueName, Report, prelude::*};
use consign_sqlite::{SqliteOptions, SqliteStore};
use serde_json::json;

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Outcome<()> {
    let numbers: Vec<usize> = std::env::args()
        .skip(1)
        .map(|text| text.parse())
        .collect::<Result<_, _>>()?;
    let number = |index: usize, default: usize| numbers.get(index).copied().unwrap_or(default);
    let (total, length, workers) = (number(0, 100_000), number(1, 100), number(2, 1));

    let directory = tempfile::tempdir_in(".")?;
    let file = directory.path().join("queue.db");
    let options = SqliteOptions::new(file.to_string_lossy())?.migrate_on_open(true);
    let store = Arc::new(SqliteStore::open(&options).await?);
    let queue: QueueName = "default".parse()?;

    let payload = json!({ "text": "x".repeat(188) });
    let begun = Instant::now();
    for _ in 0..total.div_ceil(length) {
        let batch = vec![NewMessage::new(queue.clone(), payload.clone()); length];
        store.enqueue(&batch).await?;
    }
    tell("enqueue", total, begun.elapsed());

    let begun = Instant::now();
    // A whole run, so that giving it back leaves all runs as they were.
    let claim = Claim::new(queue.clone(), "the first", u32::try_from(length)?);
    let lease = store.claim(&claim).await?.ok_or("nothing to claim")?;
    eprintln!("claim {length} of {total} ready: {:?}", begun.elapsed());
    store.release(lease.token).await?;
    let begun = Instant::now();
    store.list(&Filter::default(), None, 100).await?;
    eprintln!("list 100 of {total} ready: {:?}", begun.elapsed());
    let begun = Instant::now();
    store.explain(lease.messages[0].message.id).await?;
    eprintln!("explain 1 of {total} ready: {:?}", begun.elapsed());

    let done = Arc::new(AtomicUsize::new(0));
    let begun = Instant::now();
    let working: Vec<_> = (0..workers)
        .map(|n| {
            tokio::spawn(work(
                Arc::clone(&store),
                queue.clone(),
                n,
                length,
                Arc::clone(&done),
            ))
        })
        .collect();
    for worker in working {
        worker.await??;
    }
    tell(
        "claim + settle",
        done.load(Ordering::Relaxed),
        begun.elapsed(),
    );

    let begun = Instant::now();
    store.list(&Filter::default(), None, 100).await?;
    eprintln!("list 100 of {total} delivered: {:?}", begun.elapsed());
    let begun = Instant::now();
    let findings = store.doctor().await?;
    eprintln!(
        "doctor: {} findings in {:?}",
        findings.len(),
        begun.elapsed()
    );
    Ok(())
}

async fn work(
    store: Arc<SqliteStore>,
    queue: QueueName,
    number: usize,
    length: usize,
    done: Arc<AtomicUsize>,
) -> Outcome<()> {
    let claim = Claim::new(queue, format!("worker-{number}"), u32::try_from(length)?);
    while let Some(lease) = store.claim(&claim).await? {
        let ids = lease.messages.iter().map(|claimed| claimed.message.id);
        let reports: Vec<Report> = ids.map(Report::delivered).collect();
        store.settle(lease.token, &reports).await?;
        done.fetch_add(reports.len(), Ordering::Relaxed);
    }
    Ok(())
}

fn tell(what: &str, count: usize, took: Duration) {
    eprintln!(
        "{what}: {count} in {took:.2?}, {:.0}/s",
        count as f64 / took.as_secs_f64()
    );
}
