//! A scripted worker: it runs the commands on standard input, one a line, and prints the results.
//!
//! `claimant URL` understands `enqueue KEY`, `claim`, `settle`, `step COUNT`, `tick`. Tests kill it between the lines.

use std::io::{BufRead, stdin};
use std::time::Duration;

use consign_kernel::{
    Claim, Lease, NewMessage, NextTick, Report, Schedule, Tick, TickPlan, Token, prelude::*,
};
use consign_postgres::{PostgresOptions, PostgresStore};
use uuid::Uuid;

type AnyError = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> Result<(), AnyError> {
    let url = std::env::args().nth(1).ok_or("usage: claimant URL")?;
    let options = PostgresOptions {
        connections_max: 1,
        ..PostgresOptions::new(url)
    };
    let store = PostgresStore::connect(&options).await?;
    // Prepared now, so that the settle to come is one message each way; the store keeps its connection.
    store.settle(Token(Uuid::nil()), &[]).await?;
    println!("connected");
    let mut lease: Option<Lease> = None;
    let mut next: Option<NextTick> = None;
    for line in stdin().lock().lines() {
        let line = line?;
        match line.split_once(' ').unwrap_or((&line, "")) {
            ("enqueue", key) => {
                let message = NewMessage::new("default".parse()?, serde_json::json!(1));
                let enqueued = store.enqueue(&[message.with_key(key)]).await?;
                println!("enqueued {}", enqueued[0].id);
            }
            ("claim", _) => {
                let claim = Claim::new("default".parse()?, "claimant", 100);
                lease = store
                    .claim(&claim.with_ttl(Duration::from_millis(500)))
                    .await?;
                let held = lease.as_ref().ok_or("nothing to claim")?;
                println!("claimed {}", held.token);
            }
            ("settle", _) => {
                let held = lease.take().ok_or("nothing claimed")?;
                let delivered = |claimed: &consign_kernel::ClaimedMessage| {
                    Report::delivered(claimed.message.id)
                };
                let reports: Vec<Report> = held.messages.iter().map(delivered).collect();
                println!("settled {:?}", store.settle(held.token, &reports).await?);
            }
            ("step", count) => {
                let stepped = store.step_redrive(count.parse()?).await?;
                println!("stepped {:?}", stepped.map(|redrive| redrive.moved));
            }
            ("tick", _) => {
                let from = match next.take() {
                    Some(from) => from,
                    None => store.upcoming(None, 1).await?.ticks.remove(0),
                };
                let plan = TickPlan {
                    ticks: vec![Tick {
                        at: from.at,
                        missed: 0,
                    }],
                    missed: 0,
                    dropped: 0,
                    next_at: from.at + jiff::SignedDuration::from_secs(1),
                    from,
                };
                let ticked = store.tick(&plan).await?;
                next = ticked.as_ref().map(Schedule::next_tick);
                println!("ticked {:?}", ticked.map(|schedule| schedule.ticks));
            }
            (word, _) => return Err(format!("do not know {word:?}").into()),
        }
    }
    Ok(())
}
