//! Orders through `POST /do/order`, beside plain inserts of the same row.

mod plain;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use hdrhistogram::Histogram;
use serde_json::{Value, json};
use tokio::{task::JoinSet, time::timeout};

use self::plain::PlainTarget;
use super::{Answer, Plan, sqlite};
use crate::{
    Bound, Figure, Measure, Unit,
    http::Client,
    process::{Process, config},
    scratch::Scratch,
};

/// Who calls at once, over HTTP and for the plain inserts alike.
const CLIENTS: usize = 16;
/// Orders that are repeated.
const REPLAYED: u64 = 200;
/// How much of a plain insert's rate is good.
const LEAST: f64 = 0.5;
/// How long the repeated orders may take to be executed.
const PATIENCE: Duration = Duration::from_secs(120);
/// Without limits, and with a broker that answers at once.
const ORDERS: &str = "[orders]\nrl_rate_per_min = 1000000000\nrl_burst = 1000000000\n\
                      daily_quota = 4000000000\noutbox_concurrency = 32\n";

/// What clients saw.
struct ClientFigures {
    rate: f64,
    /// Times of requests in microseconds.
    times: Histogram<u64>,
}

pub(super) async fn run(plan: &Plan, scratch: &Scratch) -> Result<Answer> {
    let directory = sqlite::directory(&plan.directory)?;
    let file = std::path::absolute(directory.path().join("orders.db"))?;
    sqlite::open(directory.path(), "orders.db").await?;
    let file = format!("sqlite:{}", file.display());
    let program = plan.program()?;
    let mut figures = Vec::new();
    for (database, url, plain) in [
        (
            "PostgreSQL",
            scratch.url(),
            PlainTarget::postgres(scratch.url()).await?,
        ),
        (
            "SQLite",
            &file,
            PlainTarget::sqlite(directory.path()).await?,
        ),
    ] {
        let serve = program
            .start("serve", database, &config(url, ORDERS))
            .await?;
        figures.extend(compare(plan, database, &serve, plain).await?);
        serve.terminate().await?;
    }
    let notes = vec![format!(
        "{CLIENTS} clients with a connection each, {:.1} s a round; the plain insert writes the ledger's row and nothing \
         else, one transaction each, with the same number of clients and no HTTP in between; queue `orders` is paused \
         except where orders are executed meanwhile; clients, `consign serve` and the database share {} cores",
        plan.counts.http.as_secs_f64(),
        std::thread::available_parallelism().map_or(1, usize::from)
    )];
    Ok((figures, notes))
}

/// All cases on one database, each round beside plain inserts.
async fn compare(
    plan: &Plan,
    database: &str,
    serve: &Process,
    plain: PlainTarget,
) -> Result<Vec<Figure>> {
    let during = plan.counts.http;
    let orders = Orders::default();
    let mut figures = Vec::new();
    settle_some(serve, &orders).await?;
    for (name, paused, replays, judged) in [
        ("accepted", true, false, true),
        ("accepted, executed meanwhile", false, false, false),
        ("replayed", true, true, false),
    ] {
        set_paused(serve, paused).await?;
        let mut rounds = Vec::new();
        let mut served = Vec::new();
        for _ in 0..plan.rounds {
            let alone = plain.rate(CLIENTS, during, &orders).await?;
            let round = load(serve, &orders, replays, during).await?;
            rounds.push((round.rate, alone));
            served.push(round);
        }
        let name = format!("{database}, {name}");
        let figure = Figure::beside(&name, Unit::PerSecond, "plain insert", &rounds);
        let ratio = figure.ratio.unwrap_or(f64::NAN);
        plan.say(format!("{name}: {:.0}/s, {ratio:.2}x", figure.value));
        figures.push(if judged {
            figure.target(Measure::Ratio, Bound::AtLeast, LEAST)
        } else {
            figure
        });
        for percentile in [50.0, 99.0] {
            let times = served.iter().map(|served| &served.times);
            let times: Vec<f64> = times
                .map(|times| times.value_at_percentile(percentile) as f64 / 1e3)
                .collect();
            let name = format!("  {name}, p{percentile}");
            figures.push(Figure::alone(name, Unit::Milliseconds, &times));
        }
    }
    Ok(figures)
}

/// Numbers orders, so that none is repeated by mistake.
#[derive(Debug, Default, Clone)]
pub(super) struct Orders {
    next: Arc<AtomicU64>,
}

impl Orders {
    /// The key and the body of a new order.
    pub(super) fn order(&self) -> (String, String) {
        // The first are those that are repeated.
        order(REPLAYED + self.next.fetch_add(1, Relaxed))
    }
}

fn order(number: u64) -> (String, String) {
    let key = format!("bench-order-{number:012}");
    let body = json!({
        "idempotency_key": key, "order_id": format!("ord-{number}"), "instrument": "USDJPY", "side": "BUY",
        "qty": 0.1, "price": null, "time_in_force": "IOC", "tags": ["bench"], "trace_id": format!("trace-{number}"),
        "risk_constraints": {"max_dd": 0.05, "max_consecutive_loss": 3, "max_spread": 0.002},
        "requested_at": "2026-01-01T00:00:00Z",
    });
    (key, body.to_string())
}

/// Executes some orders, to repeat them.
async fn settle_some(serve: &Process, _orders: &Orders) -> Result<()> {
    let mut client = Client::connect(serve.address()?).await?;
    for number in 0..REPLAYED {
        place(&mut client, &order(number)).await?;
    }
    let executed = async {
        for number in 0..REPLAYED {
            loop {
                let answer = place(&mut client, &order(number)).await?;
                let answer: Value = serde_json::from_slice(&answer)?;
                if answer["status"] == "ok" {
                    break;
                }
                tokio::task::yield_now().await;
            }
        }
        anyhow::Ok(())
    };
    timeout(PATIENCE, executed)
        .await
        .context("the orders were not executed")?
}

async fn place(client: &mut Client, (key, body): &(String, String)) -> Result<Vec<u8>> {
    let headers = [("Idempotency-Key", key.as_str())];
    let answer = client.post_with("/do/order", &headers, body).await?;
    Ok(answer.body)
}

async fn set_paused(serve: &Process, paused: bool) -> Result<()> {
    let action = if paused { "pause" } else { "resume" };
    let mut client = Client::connect(serve.address()?).await?;
    let path = format!("/v1/queues/orders/{action}");
    client
        .post(&path, &json!({"reason": "benchmark"}).to_string())
        .await?;
    Ok(())
}

/// Several clients at once, for a while.
async fn load(
    serve: &Process,
    orders: &Orders,
    replays: bool,
    during: Duration,
) -> Result<ClientFigures> {
    let mut clients = JoinSet::new();
    let started = Instant::now();
    for at in 0..CLIENTS as u64 {
        let mut client = Client::connect(serve.address()?).await?;
        let orders = orders.clone();
        clients.spawn(async move {
            let mut times = Vec::new();
            while started.elapsed() < during {
                let order = if replays {
                    order((at + times.len() as u64) % REPLAYED)
                } else {
                    orders.order()
                };
                let sent = Instant::now();
                place(&mut client, &order).await?;
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
    ensure!(!times.is_empty(), "nothing was answered");
    let rate = times.len() as f64 / started.elapsed().as_secs_f64();
    Ok(ClientFigures { rate, times })
}
