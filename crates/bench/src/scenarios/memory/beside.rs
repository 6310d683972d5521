//! What the gateway costs, beside a direct call of the same memory server.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use hdrhistogram::Histogram;
use serde_json::{Value, json};

use super::{Plan, Texts, Way, at, bare::BareClient, record, store};
use crate::{Bound, Figure, Measure, Unit, http::Client, openmemory::OpenMemory, process::config};

/// How much a memory may take more than without the gateway.
const MORE_MS: f64 = 3.0;

/// Bare commits between two calls.
const COMMITS: u32 = 3;

/// Memories that are not measured.
const WARM_UP: u32 = 5;

/// One caller, because the memory server takes one write at a time.
pub(super) async fn measure(
    plan: &Plan,
    (database, url): (&str, &str),
    installed: &Path,
    texts: &Texts,
) -> Result<Vec<Figure>> {
    let server = OpenMemory::start(installed).await?;
    let settings = format!(
        "[memory]\nopenmemory_base_url = \"http://{}\"\nopenmemory_api_key = \"{}\"\n",
        server.address(),
        OpenMemory::KEY
    );
    let program = plan.program()?;
    let serve = program
        .start("serve", "openmemory", &config(url, &settings))
        .await?;
    let mut gateway = Client::connect(serve.address()?).await?;
    let mut direct = Client::connect(&server.address()).await?;
    // The first memories wait until the gateway has looked at the server.
    for _ in 0..WARM_UP {
        store(&mut gateway, Way::Http, &texts.next(), "allow").await?;
    }
    let mut bare = BareClient::open(url).await?;
    let (mut rounds, mut commits) = (Vec::new(), Vec::new());
    for _ in 0..plan.rounds {
        let mut times = [Histogram::new(3)?, Histogram::new(3)?, Histogram::new(3)?];
        for _ in 0..plan.counts.memory_pairs {
            let through = store(&mut gateway, Way::Http, &texts.next(), "allow").await?;
            record(&mut times[0], &[through])?;
            // Between any two, so that the server has the same time to itself after either.
            for _ in 0..COMMITS {
                record(&mut times[2], &[bare.commit().await?])?;
            }
            let without = add(&mut direct, &texts.next()).await?;
            record(&mut times[1], &[without])?;
            for _ in 0..COMMITS {
                record(&mut times[2], &[bare.commit().await?])?;
            }
        }
        rounds.push((at(&times[0], 50.0), at(&times[1], 50.0)));
        commits.push(at(&times[2], 50.0));
    }
    let name = format!("{database}, OpenMemory through the gateway, p50");
    let figure = Figure::beside(&name, Unit::Milliseconds, "direct call", &rounds);
    plan.say(format!("{name}: {:.1} ms", figure.value));
    let more: Vec<f64> = rounds
        .iter()
        .map(|(through, without)| (through - without).max(0.0))
        .collect();
    let name = format!("  {database}, more than a direct call, p50");
    let more = Figure::alone(name, Unit::Milliseconds, &more);
    let name = format!("  {database}, a bare commit, p50");
    let commit = Figure::alone(name, Unit::Milliseconds, &commits);
    serve.terminate().await?;
    Ok(vec![
        figure,
        more.target(Measure::Value, Bound::AtMost, MORE_MS),
        commit,
    ])
}

/// Stores a text without the gateway.
async fn add(client: &mut Client, text: &str) -> Result<Duration> {
    let authorization = format!("Bearer {}", OpenMemory::KEY);
    let headers = [("Authorization", authorization.as_str())];
    let body = json!({
        "content": text, "user_id": "bench", "tags": ["private:bench"],
        "metadata": {"sector": "semantic", "space": "private:bench"},
    });
    let body = body.to_string();
    let sent = Instant::now();
    let answer = client.post_with("/memory/add", &headers, &body).await?;
    let took = sent.elapsed();
    let answer: Value = serde_json::from_slice(&answer.body)?;
    ensure!(answer["id"].is_string(), "not stored: {answer}");
    Ok(took)
}
