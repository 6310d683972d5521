//! What those who leave a page open cost the database.

use std::time::Duration;

use anyhow::Result;
use tokio::time::{Instant, interval_at};

use crate::{Bound, Figure, Measure, Unit, http::Client, scenarios::Plan};

const MOST_PER_VIEWER: f64 = 5.0;
const MANY: u32 = 20;
/// Until all viewers are connected, and until all are gone.
const REST: Duration = Duration::from_secs(4);

pub(super) async fn measure(
    plan: &Plan,
    database: &str,
    address: &str,
    messages: u32,
    statements: impl Fn() -> usize,
) -> Result<Vec<Figure>> {
    let overview = |count: u32| (0..count).map(|_| "overview:hour".to_owned()).collect();
    let different = (0..MANY).map(|n| match n % 4 {
        0 => format!("message:{}", messages / 2 + n),
        1 => format!("message:{}", messages / 100 * (n + 1) + 7),
        2 => format!(
            "queue:mail:{}",
            ["dead", "held", "ready", "leased", "waiting"][n as usize / 4]
        ),
        _ => [
            "dead",
            "processes",
            "overview:day",
            "queue:steps",
            "queue:billing",
        ][n as usize / 4]
            .to_owned(),
    });
    let cases: [(&str, Vec<String>); 3] = [
        ("1 viewer of the overview", overview(1)),
        ("20 viewers of the overview", overview(MANY)),
        ("20 viewers of different things", different.collect()),
    ];
    let mut figures = Vec::new();
    for (name, topics) in cases {
        pass(REST.min(plan.counts.viewing)).await;
        let alone = rate(plan.counts.viewing, &statements).await;
        let mut views = Vec::new();
        for topic in &topics {
            let mut client = Client::connect(address).await?;
            client.watch(&format!("/ui/events?topic={topic}")).await?;
            // The stream is read, as a browser does.
            views.push(tokio::spawn(client.drain()));
        }
        pass(REST.min(plan.counts.viewing)).await;
        let rate = rate(plan.counts.viewing, &statements).await;
        for view in views {
            view.abort();
        }
        let per_viewer = (rate - alone).max(0.0) / topics.len() as f64;
        plan.say(format!(
            "{database}, {name}: {per_viewer:.2} statements/s each"
        ));
        let figure = Figure::alone(
            format!("{database}, {name}, statements each"),
            Unit::PerSecond,
            &[per_viewer],
        );
        figures.push(figure.target(Measure::Value, Bound::AtMost, MOST_PER_VIEWER));
    }
    Ok(figures)
}

/// Statements per second, over a while.
async fn rate(during: Duration, statements: impl Fn() -> usize) -> f64 {
    let (before, started) = (statements(), Instant::now());
    pass(during).await;
    (statements() - before) as f64 / started.elapsed().as_secs_f64()
}

/// Lets time pass: here it is what is measured.
async fn pass(time: Duration) {
    interval_at(Instant::now() + time, time).tick().await;
}
