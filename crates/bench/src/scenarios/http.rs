//! Enqueues through the HTTP API.

use std::time::{Duration, Instant};

use anyhow::Result;
use hdrhistogram::Histogram;
use serde_json::json;
use tokio::task::JoinSet;

use super::{Answer, Plan, sqlite};
use crate::{
    Bound, Figure, Measure, Unit,
    http::Client,
    process::{Process, config},
    scratch::Scratch,
    subject::payload,
};

const CLIENTS: u32 = 4;
const BATCH: u32 = 100;
const LEAST: f64 = 10_000.0;

/// What clients saw.
struct Served {
    rate: f64,
    /// Times of requests in microseconds.
    times: Histogram<u64>,
}

pub(super) async fn run(plan: &Plan, scratch: &Scratch) -> Result<Answer> {
    // Nobody works on `inbox`; `through` is delivered while it is filled.
    let lanes = "[lanes.inbox]\n[lanes.through.sink]\nkind = \"discard\"\n";
    let directory = sqlite::directory(&plan.directory)?;
    let file = std::path::absolute(directory.path().join("http.db"))?;
    sqlite::open(directory.path(), "http.db").await?;
    let file = format!("sqlite:{}", file.display());
    let program = plan.program()?;
    let mut figures = Vec::new();
    for (database, url) in [("PostgreSQL", scratch.url()), ("SQLite", &file)] {
        let serve = program
            .start("serve", database, &config(url, lanes))
            .await?;
        for (name, lane, batch) in [
            ("by 100", "inbox", BATCH),
            ("by 100, delivered meanwhile", "through", BATCH),
            ("one by one", "inbox", 1),
        ] {
            let mut served = Vec::new();
            for _ in 0..plan.rounds {
                served.push(load(&serve, lane, batch, plan.counts.http).await?);
            }
            let name = format!("{database}, {name}");
            let cases = figures_of(&name, &served, (lane, batch) == ("inbox", BATCH));
            plan.say(format!("{name}: {:.0}/s", cases[0].value));
            figures.extend(cases);
        }
        serve.terminate().await?;
    }
    let notes = vec![format!(
        "{CLIENTS} clients with a connection each send the next request when the last is answered, {:.1} s a round; \
         clients, `consign serve` and the database share {} cores",
        plan.counts.http.as_secs_f64(),
        std::thread::available_parallelism().map_or(1, usize::from)
    )];
    Ok((figures, notes))
}

fn figures_of(name: &str, served: &[Served], judged: bool) -> Vec<Figure> {
    let rates: Vec<f64> = served.iter().map(|served| served.rate).collect();
    let rate = Figure::alone(name, Unit::MessagesPerSecond, &rates);
    let mut figures = vec![match judged {
        true => rate.target(Measure::Value, Bound::AtLeast, LEAST),
        false => rate,
    }];
    for percentile in [50.0, 99.0] {
        let times = served.iter().map(|served| &served.times);
        let times: Vec<f64> = times
            .map(|times| times.value_at_percentile(percentile) as f64 / 1e3)
            .collect();
        let name = format!("  {name}, p{percentile}");
        figures.push(Figure::alone(name, Unit::Milliseconds, &times));
    }
    figures
}

/// Several clients at once, for a while.
async fn load(serve: &Process, lane: &str, batch: u32, during: Duration) -> Result<Served> {
    let (path, body) = request(lane, batch);
    let mut clients = JoinSet::new();
    let started = Instant::now();
    for _ in 0..CLIENTS {
        let mut client = Client::connect(serve.address()?).await?;
        let (path, body) = (path.clone(), body.clone());
        clients.spawn(async move {
            let mut times = Vec::new();
            while started.elapsed() < during {
                let sent = Instant::now();
                client.post(&path, &body).await?;
                times.push(sent.elapsed());
            }
            anyhow::Ok(times)
        });
    }
    let mut times = Histogram::new(3)?;
    for client in clients.join_all().await {
        for time in client? {
            times.record(u64::try_from(time.as_micros())?)?;
        }
    }
    let messages = times.len() as f64 * f64::from(batch);
    let rate = messages / started.elapsed().as_secs_f64();
    Ok(Served { rate, times })
}

fn request(lane: &str, batch: u32) -> (String, String) {
    let payload = payload();
    if batch == 1 {
        let body = json!({"payload": payload}).to_string();
        return (format!("/v1/lanes/{lane}/messages"), body);
    }
    let message = json!({"lane": lane, "payload": payload});
    let messages = vec![message; batch as usize];
    let body = json!({"messages": messages}).to_string();
    ("/v1/messages".to_owned(), body)
}
