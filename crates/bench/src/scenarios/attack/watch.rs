//! What other clients see meanwhile: a trickle of enqueues and probes, each on its own connection.

use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use hdrhistogram::Histogram;
use serde_json::json;
use tokio::{
    task::JoinSet,
    time::{interval, timeout},
};

use crate::{http::Client, subject::payload};

/// Requests come at their times whatever became of those before, as from many clients.
const EVERY: Duration = Duration::from_millis(50);
/// A client timeout.
const PATIENCE: Duration = Duration::from_secs(30);

/// What became of them.
pub(super) struct ClientFigures {
    pub(super) answered: u64,
    /// Refused, cut off or not answered in time, probes included.
    pub(super) refused: u64,
    /// Times of enqueues in microseconds, refused ones included.
    pub(super) times: Histogram<u64>,
    pub(super) health_max: Duration,
}

enum Request {
    Enqueue,
    Health,
}

pub(super) async fn watch(address: &str, during: Duration) -> Result<ClientFigures> {
    let mut asking = JoinSet::new();
    let mut ticks = interval(EVERY);
    let started = Instant::now();
    for tick in 0.. {
        ticks.tick().await;
        if started.elapsed() >= during {
            break;
        }
        asking.spawn(asked(address.to_owned(), Request::Enqueue));
        if tick % 2 == 0 {
            asking.spawn(asked(address.to_owned(), Request::Health));
        }
    }
    let mut seen = ClientFigures {
        answered: 0,
        refused: 0,
        times: Histogram::new(3)?,
        health_max: Duration::ZERO,
    };
    for (request, took, ok) in asking.join_all().await {
        match request {
            Request::Enqueue => seen.times.record(u64::try_from(took.as_micros())?)?,
            Request::Health => seen.health_max = seen.health_max.max(took),
        }
        match (ok, request) {
            (Ok(()), Request::Enqueue) => seen.answered += 1,
            (Ok(()), Request::Health) => {}
            (Err(_), _) => seen.refused += 1,
        }
    }
    Ok(seen)
}

async fn asked(address: String, request: Request) -> (Request, Duration, Result<()>) {
    let sent = Instant::now();
    let answer = timeout(PATIENCE, async {
        let mut client = Client::connect(&address).await?;
        match request {
            Request::Enqueue => {
                let body = json!({"payload": payload()}).to_string();
                let answer = client.post("/v1/queues/other/messages", &body).await;
                answer.map(drop)
            }
            Request::Health => client.page("/healthz").await.map(drop),
        }
    })
    .await;
    let ok = answer.unwrap_or_else(|_| Err(anyhow!("no answer in time")));
    (request, sent.elapsed(), ok)
}
