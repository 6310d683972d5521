//! How soon pages begin.

use std::time::Duration;

use anyhow::Result;
use hdrhistogram::Histogram;
use serde_json::json;
use tokio::{
    task::JoinHandle,
    time::{MissedTickBehavior, interval},
};

use super::THROUGH;
use crate::{Bound, Figure, Measure, Unit, http::Client, scenarios::Plan, subject::payload};

const LONGEST_MS: f64 = 50.0;
const LOAD_BATCH: u32 = 10;
const LOAD_EVERY: Duration = Duration::from_millis(100);
pub(super) const LOAD_PER_SECOND: u32 = 100;

/// Every kind of page, with a store's worth of messages behind it.
fn pages(messages: u32) -> Vec<(String, String)> {
    let old = messages / 2;
    let ready = messages - messages / 40;
    // As `fill_dashboard.sql` has it: dead.
    let dead = old / 100 * 100 + 7;
    let queue = ["waiting", "ready", "leased", "held", "dead", "delivered"].map(|state| {
        (
            format!("queue, {state}"),
            format!("/ui/queues/mail?state={state}"),
        )
    });
    let search =
        |what: &str, q: String| (format!("search by {what}"), format!("/ui/messages?q={q}"));
    let plain = |name: &str, path: &str| (name.to_owned(), path.to_owned());
    let mut pages = vec![
        plain("overview", "/"),
        plain("overview, last day", "/?window=day"),
        plain("queues", "/ui/queues"),
        plain("overview, last 7 days", "/?window=week"),
        plain("problems over HTTP", "/v1/problems"),
        plain("queue", "/ui/queues/mail"),
        plain("queue, last day", "/ui/queues/mail?window=day"),
        plain("queue, last 7 days", "/ui/queues/mail?window=week"),
        plain("queue with little in it", "/ui/queues/quiet"),
        plain(
            "queue with little delivered",
            "/ui/queues/steps?state=delivered",
        ),
        plain("queue, search by code", "/ui/queues/mail?q=code_2"),
        plain("messages", "/ui/messages"),
        plain("messages, ready", "/ui/messages?state=ready"),
        plain("messages, delivered", "/ui/messages?state=delivered"),
        (
            "messages, next page".to_owned(),
            format!("/ui/messages?before={old}"),
        ),
        search("id", old.to_string()),
        search("key", format!("key-{old}")),
        search("correlation id", format!("case-{}", old / 16)),
        search("code", "code_2".to_owned()),
        search("beginning of the key", format!("key-{}", old / 100)),
        plain("messages of a group", "/ui/queues/steps?group=group-1"),
        plain("messages of an hour", "/ui/messages?since=2h&until=1h"),
        plain(
            "dead, of an hour",
            "/ui/dead?queue=billing&since=2h&until=1h",
        ),
        search("what is not there", "nothing".to_owned()),
        plain(
            "search among the delivered",
            "/ui/messages?q=case-100&state=delivered",
        ),
        (
            "message, delivered".to_owned(),
            format!("/ui/messages/{old}"),
        ),
        ("message, dead".to_owned(), format!("/ui/messages/{dead}")),
        ("message, ready".to_owned(), format!("/ui/messages/{ready}")),
        plain("schedules", "/ui/schedules"),
        plain("processes", "/ui/processes"),
        plain("dead", "/ui/dead"),
        plain("dead, filtered", "/ui/dead?queue=billing&code=code_2"),
        plain(
            "preview of a redrive",
            "/ui/dead/preview?queue=billing&code=code_2&limit=500",
        ),
        plain("audit", "/ui/audit"),
        plain("audit, filtered", "/ui/audit?action=hold&queue=reports"),
        plain("memory", "/ui/memory"),
    ];
    pages.extend(queue);
    pages
}

pub(super) async fn measure(
    plan: &Plan,
    database: &str,
    address: &str,
    messages: u32,
) -> Result<Vec<Figure>> {
    let pages = pages(messages);
    let mut client = Client::connect(address).await?;
    // What every process does once is not what is measured.
    for (_, path) in &pages {
        client.page(path).await?;
    }
    let load = load(Client::connect(address).await?);
    let mut rounds: Vec<Vec<Histogram<u64>>> = Vec::new();
    for _ in 0..plan.rounds.min(3) {
        let mut times = vec![Histogram::new(3)?; pages.len()];
        for _ in 0..plan.counts.dashboard_calls {
            for ((_, path), times) in pages.iter().zip(&mut times) {
                let time = client.page(path).await?;
                times.record(u64::try_from(time.as_micros())?)?;
            }
        }
        rounds.push(times);
    }
    load.abort();
    let mut figures = Vec::new();
    for (index, (name, _)) in pages.iter().enumerate() {
        for percentile in [95.0, 50.0] {
            let times = rounds.iter().map(|times| &times[index]);
            let times: Vec<f64> = times
                .map(|times| times.value_at_percentile(percentile) as f64 / 1e3)
                .collect();
            figures.push(match percentile {
                95.0 => {
                    let name = format!("{database}, {name}, p95");
                    let figure = Figure::alone(name, Unit::Milliseconds, &times);
                    plan.say(format!("{}: {:.1} ms", figure.name, figure.value));
                    figure.target(Measure::Value, Bound::AtMost, LONGEST_MS)
                }
                _ => Figure::alone(
                    format!("  {database}, {name}, p50"),
                    Unit::Milliseconds,
                    &times,
                ),
            });
        }
    }
    Ok(figures)
}

/// Messages are enqueued and delivered while pages are requested, until it is stopped.
fn load(mut client: Client) -> JoinHandle<Result<()>> {
    tokio::spawn(async move {
        let message = json!({"queue": THROUGH, "payload": payload()});
        let body = json!({"messages": vec![message; LOAD_BATCH as usize]}).to_string();
        let mut ticks = interval(LOAD_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            client.post("/v1/messages", &body).await?;
        }
    })
}
