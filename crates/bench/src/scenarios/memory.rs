//! Memories through the gateway: how fast, how much slower than without it, and how long callers
//! wait when the memory server hangs.

mod bare;
mod beside;
mod hanging;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use hdrhistogram::Histogram;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{Answer, Plan, sqlite};
use crate::{
    Figure, Unit,
    http::Client,
    process::{Process, config},
    scratch::Scratch,
};

/// Who stores at once.
const CLIENTS: usize = 8;
/// Words of a memory: about 170 characters.
const WORDS: u64 = 10;
/// The headers that MCP requires.
const HEADERS: [(&str, &str); 2] = [
    ("Accept", "application/json, text/event-stream"),
    ("MCP-Protocol-Version", "2025-11-25"),
];

/// By which address a memory is handed in.
#[derive(Clone, Copy, Debug)]
enum Way {
    Http,
    Mcp,
}

/// What clients saw.
struct ClientFigures {
    rate: f64,
    /// Times of requests in microseconds.
    times: Histogram<u64>,
}

pub(super) async fn run(plan: &Plan, scratch: &Scratch) -> Result<Answer> {
    let directory = sqlite::directory(&plan.directory)?;
    let file = std::path::absolute(directory.path().join("memory.db"))?;
    sqlite::open(directory.path(), "memory.db").await?;
    let file = format!("sqlite:{}", file.display());
    let texts = Texts::default();
    let mut figures = Vec::new();
    let mut notes = vec![format!(
        "{CLIENTS} clients with a connection each, {:.1} s a round; a memory is one commit where it is kept in the \
         database itself, and two where a memory server is called in between; clients, `consign serve` and the database share {} cores",
        plan.counts.http.as_secs_f64(),
        std::thread::available_parallelism().map_or(1, usize::from)
    )];
    for (database, url) in [("PostgreSQL", scratch.url()), ("SQLite", file.as_str())] {
        figures.extend(embedded(plan, database, url, &texts).await?);
        if let Some(installed) = &plan.openmemory {
            figures.extend(beside::measure(plan, (database, url), installed, &texts).await?);
        }
        // The last one: what is put off here would be delivered while the others measure.
        figures.extend(hanging::measure(plan, database, url, &texts).await?);
    }
    notes.push(match &plan.openmemory {
        Some(_) => "a direct call is POST /memory/add with a text of the same kind, in turns with memory_store, one caller; \
                    a bare commit is one row of an audit's size, by one connection in the same minutes".to_owned(),
        None => "no OpenMemory was named (--openmemory, CONSIGN_TEST_OPENMEMORY): the gateway's price beside a direct \
                 call was not measured; `scripts/require openmemory` installs one"
            .to_owned(),
    });
    Ok((figures, notes))
}

/// `memory_store` into the embedded backend, by both addresses.
async fn embedded(plan: &Plan, database: &str, url: &str, texts: &Texts) -> Result<Vec<Figure>> {
    let program = plan.program()?;
    let serve = program.start("serve", "embedded", &config(url, "")).await?;
    let mut figures = Vec::new();
    for (name, way) in [("HTTP", Way::Http), ("MCP", Way::Mcp)] {
        let mut served = Vec::new();
        for _ in 0..plan.rounds {
            served.push(load(&serve, way, texts, plan.counts.http).await?);
        }
        let name = format!("{database}, embedded, {name}");
        let rates: Vec<f64> = served.iter().map(|served| served.rate).collect();
        let figure = Figure::alone(&name, Unit::PerSecond, &rates);
        plan.say(format!("{name}: {:.0}/s", figure.value));
        figures.push(figure);
        for percentile in [50.0, 99.0] {
            let times = served.iter().map(|served| &served.times);
            let times: Vec<f64> = times.map(|times| at(times, percentile)).collect();
            let name = format!("  {name}, p{percentile}");
            figures.push(Figure::alone(name, Unit::Milliseconds, &times));
        }
    }
    serve.terminate().await?;
    Ok(figures)
}

/// Several clients at once, for a while.
async fn load(serve: &Process, way: Way, texts: &Texts, during: Duration) -> Result<ClientFigures> {
    let mut clients = JoinSet::new();
    let started = Instant::now();
    for _ in 0..CLIENTS {
        let mut client = Client::connect(serve.address()?).await?;
        let texts = texts.clone();
        clients.spawn(async move {
            let mut times = Vec::new();
            while started.elapsed() < during {
                times.push(store(&mut client, way, &texts.next(), "allow").await?);
            }
            anyhow::Ok(times)
        });
    }
    let mut times = Histogram::new(3)?;
    for client in clients.join_all().await {
        record(&mut times, &client?)?;
    }
    let rate = times.len() as f64 / started.elapsed().as_secs_f64();
    Ok(ClientFigures { rate, times })
}

/// Stores a memory, and returns how long the answer took; it must be the one that is expected.
async fn store(client: &mut Client, way: Way, text: &str, expected: &str) -> Result<Duration> {
    let arguments = json!({"payload_md": text, "target_space": "private:bench"});
    let sent = Instant::now();
    let answer = match way {
        Way::Http => {
            let body = arguments.to_string();
            client.post("/memory/store", &body).await?
        }
        Way::Mcp => {
            let body = json!({
                "jsonrpc": "2.0", "id": 1, "method": "tools/call",
                "params": {"name": "memory_store", "arguments": arguments},
            });
            let body = body.to_string();
            client.post_with("/mcp", &HEADERS, &body).await?
        }
    };
    let took = sent.elapsed();
    let mut answer: Value = serde_json::from_slice(&answer.body)?;
    if let Some(text) = answer["result"]["content"][0]["text"].as_str() {
        answer = serde_json::from_str(text)?;
    }
    ensure!(answer["action"] == expected, "not {expected}: {answer}");
    Ok(took)
}

fn record(times: &mut Histogram<u64>, taken: &[Duration]) -> Result<()> {
    for time in taken {
        times.record(u64::try_from(time.as_micros())?)?;
    }
    Ok(())
}

/// A percentile in milliseconds.
fn at(times: &Histogram<u64>, percentile: f64) -> f64 {
    times.value_at_percentile(percentile) as f64 / 1e3
}

/// Texts that resemble each other as little as can be: OpenMemory takes similar ones for the same.
#[derive(Clone, Debug, Default)]
struct Texts {
    next: Arc<AtomicU64>,
}

impl Texts {
    fn next(&self) -> String {
        let first = self.next.fetch_add(1, Relaxed) * WORDS;
        let words = (first..first + WORDS).map(|number| format!("{:016x}", scattered(number)));
        words.collect::<Vec<_>>().join(" ")
    }
}

/// Numbers in a row, far from each other: the finalizer of splitmix64.
fn scattered(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
