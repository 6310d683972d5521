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
/// More clients than connections to the database.
const CROWDS: [u32; 2] = [64, 200];
/// p99 in p50s: requests are answered in turn.
const UNFAIR: f64 = 10.0;

/// What clients saw.
struct ClientFigures {
    rate: f64,
    /// Times of requests in microseconds.
    times: Histogram<u64>,
    /// Requests that were answered 503.
    refused: u64,
}

pub(super) async fn run(plan: &Plan, scratch: &Scratch) -> Result<Answer> {
    // `inbox` has no worker; `through` is delivered while it is filled.
    let queues = "[queues.inbox]\n[queues.through.sink]\nkind = \"discard\"\n";
    let directory = sqlite::directory(&plan.directory)?;
    let file = std::path::absolute(directory.path().join("http.db"))?;
    sqlite::open(directory.path(), "http.db").await?;
    let file = format!("sqlite:{}", file.display());
    let program = plan.program()?;
    let mut figures = Vec::new();
    for (database, url) in [("PostgreSQL", scratch.url()), ("SQLite", &file)] {
        let serve = program
            .start("serve", database, &config(url, queues))
            .await?;
        for (name, queue, batch) in [
            ("by 100", "inbox", BATCH),
            ("by 100, delivered meanwhile", "through", BATCH),
            ("one by one", "inbox", 1),
        ] {
            let mut served = Vec::new();
            for _ in 0..plan.rounds {
                served.push(load(&serve, queue, (CLIENTS, batch), plan.counts.http).await?);
            }
            let name = format!("{database}, {name}");
            let cases = figures_of(&name, &served, (queue, batch) == ("inbox", BATCH));
            plan.say(format!("{name}: {:.0}/s", cases[0].value));
            figures.extend(cases);
        }
        if database == "PostgreSQL" {
            for clients in CROWDS {
                figures.extend(crowded(plan, &serve, clients).await?);
            }
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

fn figures_of(name: &str, served: &[ClientFigures], judged: bool) -> Vec<Figure> {
    let rates: Vec<f64> = served.iter().map(|served| served.rate).collect();
    let rate = Figure::alone(name, Unit::MessagesPerSecond, &rates);
    let mut figures = vec![if judged {
        rate.target(Measure::Value, Bound::AtLeast, LEAST)
    } else {
        rate
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

/// More clients than the server has connections: none is refused, and all wait alike.
async fn crowded(plan: &Plan, serve: &Process, clients: u32) -> Result<Vec<Figure>> {
    let mut served = Vec::new();
    for _ in 0..plan.rounds {
        served.push(load(serve, "inbox", (clients, 1), plan.counts.http).await?);
    }
    let name = format!("PostgreSQL, one by one, {clients} clients");
    let mut figures = figures_of(&name, &served, false);
    plan.say(format!("{name}: {:.0}/s", figures[0].value));
    let tails: Vec<(f64, f64)> = served
        .iter()
        .map(|served| {
            let at = |percentile| served.times.value_at_percentile(percentile) as f64 / 1e3;
            (at(99.0), at(50.0))
        })
        .collect();
    let tail = format!("  {name}, p99");
    figures.pop();
    figures.push(
        Figure::beside(tail, Unit::Milliseconds, "p50", &tails).target(
            Measure::Ratio,
            Bound::AtMost,
            UNFAIR,
        ),
    );
    let refused: Vec<f64> = served.iter().map(|served| served.refused as f64).collect();
    let refused = Figure::alone(format!("  {name}, answered 503"), Unit::Count, &refused);
    figures.push(refused.target(Measure::Value, Bound::AtMost, 0.0));
    Ok(figures)
}

/// Several clients at once, for a while.
async fn load(
    serve: &Process,
    queue: &str,
    (clients, batch): (u32, u32),
    during: Duration,
) -> Result<ClientFigures> {
    let (path, body) = request(queue, batch);
    let started = Instant::now();
    let mut asking = JoinSet::new();
    for _ in 0..clients {
        let mut client = Client::connect(serve.address()?).await?;
        let (path, body) = (path.clone(), body.clone());
        asking.spawn(async move {
            let (mut times, mut refused) = (Vec::new(), 0);
            while started.elapsed() < during {
                let sent = Instant::now();
                match client.post(&path, &body).await {
                    Ok(_) => times.push(sent.elapsed()),
                    Err(error) if error.to_string().starts_with("HTTP/1.1 503") => refused += 1,
                    Err(error) => return Err(error),
                }
            }
            Ok((times, refused))
        });
    }
    let (mut times, mut refused) = (Histogram::new(3)?, 0);
    for client in asking.join_all().await {
        let (answered, unanswered) = client?;
        refused += unanswered;
        for time in answered {
            times.record(u64::try_from(time.as_micros())?)?;
        }
    }
    let messages = times.len() as f64 * f64::from(batch);
    let rate = messages / started.elapsed().as_secs_f64();
    Ok(ClientFigures {
        rate,
        times,
        refused,
    })
}

fn request(queue: &str, batch: u32) -> (String, String) {
    let payload = payload();
    if batch == 1 {
        let body = json!({"payload": payload}).to_string();
        return (format!("/v1/queues/{queue}/messages"), body);
    }
    let message = json!({"queue": queue, "payload": payload});
    let messages = vec![message; batch as usize];
    let body = json!({"messages": messages}).to_string();
    ("/v1/messages".to_owned(), body)
}
