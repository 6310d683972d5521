//! Many callers while the memory server takes everything and answers nothing.

use anyhow::Result;
use hdrhistogram::Histogram;
use tokio::task::JoinSet;

use super::{Plan, Texts, Way, at, record, store};
use crate::{
    Bound, Figure, Measure, Unit,
    http::Client,
    openmemory::HangingServer,
    options::Counts,
    process::{Process, config},
};

/// How long the gateway waits for the memory server: its default.
const BUDGET_MS: f64 = 3_000.0;
/// How much longer a caller may wait.
const BEYOND_MS: f64 = 50.0;

pub(super) async fn measure(
    plan: &Plan,
    database: &str,
    url: &str,
    texts: &Texts,
) -> Result<Vec<Figure>> {
    let server = HangingServer::start().await?;
    let settings = format!(
        "[memory]\nopenmemory_base_url = \"http://{}\"\nopenmemory_dialect = \"js1\"\n",
        server.address()
    );
    let program = plan.program()?;
    let serve = program
        .start("serve", "hanging", &config(url, &settings))
        .await?;
    let mut rounds = Vec::new();
    for _ in 0..plan.rounds {
        let times = callers(&serve, texts, &plan.counts).await?;
        rounds.push((at(&times, 99.0), BUDGET_MS));
    }
    let count = plan.counts.memory_callers;
    let name = format!("{database}, {count} callers of a server that hangs, p99");
    let figure = Figure::beside(&name, Unit::Milliseconds, "budget", &rounds);
    plan.say(format!("{name}: {:.0} ms", figure.value));
    // Killed: what its worker has under way would keep it until the grace period ends.
    serve.kill().await?;
    let most = BUDGET_MS + BEYOND_MS;
    Ok(vec![figure.target(Measure::Value, Bound::AtMost, most)])
}

/// Every client stores so many memories, one after the other; all of them are deferred.
async fn callers(serve: &Process, texts: &Texts, counts: &Counts) -> Result<Histogram<u64>> {
    let mut callers = JoinSet::new();
    let each = counts.memory_hangs;
    for _ in 0..counts.memory_callers {
        let mut client = Client::connect(serve.address()?).await?;
        let texts = texts.clone();
        callers.spawn(async move {
            let mut times = Vec::new();
            for _ in 0..each {
                let text = texts.next();
                times.push(store(&mut client, Way::Http, &text, "deferred").await?);
            }
            anyhow::Ok(times)
        });
    }
    let mut times = Histogram::new(3)?;
    for caller in callers.join_all().await {
        record(&mut times, &caller?)?;
    }
    Ok(times)
}
