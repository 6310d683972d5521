//! How long the first page of a long list takes.

use std::{sync::Arc, time::Instant};

use anyhow::{Context as _, Result, ensure};
use consign_kernel::{Filter, MessageId, StateKind, Store};
use hdrhistogram::Histogram;
use jiff::Timestamp;

use super::{Answer, Plan, sqlite};
use crate::{
    Bound, Figure, Measure, Unit, drain,
    scratch::Scratch,
    subject::{StoreWorker, enqueue, queue},
};

/// Messages on a page, the default of `consign ls`.
const PAGE: u32 = 50;
const LONGEST_MS: f64 = 100.0;
/// Preparation only: large transactions are quickest.
const FILL_BATCH: u32 = 1_000;
const DRAIN_BATCH: u32 = 500;

pub(super) async fn run(plan: &Plan, scratch: Option<&Scratch>) -> Result<Answer> {
    let messages = plan.counts.listed;
    let mut figures = Vec::new();
    if let Some(scratch) = scratch {
        plan.say(format!("PostgreSQL: {messages} messages"));
        scratch.fill(&queue(), messages, FILL_BATCH).await?;
        let store = scratch.store().await?;
        deliver_most(store.clone(), messages).await?;
        scratch.settle_down().await?;
        figures.extend(pages(plan, "PostgreSQL", store.as_ref()).await?);
    }
    let directory = sqlite::directory(&plan.directory)?;
    let store = sqlite::open(directory.path(), "list.db").await?;
    plan.say(format!("SQLite: {messages} messages"));
    enqueue(store.as_ref(), &queue(), messages, FILL_BATCH).await?;
    deliver_most(store.clone(), messages).await?;
    figures.extend(pages(plan, "SQLite", store.as_ref()).await?);
    let notes = vec![format!(
        "{messages} messages, the oldest nine tenths delivered; first page of {PAGE} by Store::list, {} calls each",
        plan.counts.list_calls
    )];
    Ok((figures, notes))
}

/// Delivers the oldest nine tenths, as in a database that has been at work for long.
async fn deliver_most(store: Arc<dyn Store>, messages: u32) -> Result<()> {
    let most = messages / 10 * 9 / DRAIN_BATCH * DRAIN_BATCH;
    let mut worker = StoreWorker::new(store, queue());
    drain::rate(&mut worker, most, DRAIN_BATCH).await?;
    Ok(())
}

async fn pages(plan: &Plan, database: &str, store: &dyn Store) -> Result<Vec<Figure>> {
    let in_state = |state| Filter {
        state: Some(state),
        ..Filter::default()
    };
    let in_queue = Filter {
        queue: Some(queue()),
        ..Filter::default()
    };
    let any = Filter::default;
    let middle = Some(middle(store).await?);
    let rare = || Some("rare".to_owned());
    let header = [("tenant".to_owned(), "rare".to_owned())].into();
    let mut figures = Vec::new();
    for (name, filter) in [
        ("all", any()),
        ("one queue", in_queue),
        ("ready", in_state(StateKind::Ready)),
        ("delivered", in_state(StateKind::Delivered)),
        (
            "since",
            Filter {
                since: middle,
                ..any()
            },
        ),
        (
            "until",
            Filter {
                until: middle,
                ..any()
            },
        ),
        (
            "rare group",
            Filter {
                group: rare(),
                ..any()
            },
        ),
        (
            "rare key prefix",
            Filter {
                key_prefix: rare(),
                ..any()
            },
        ),
        (
            "rare header",
            Filter {
                headers: header,
                ..any()
            },
        ),
        (
            "rare group until",
            Filter {
                group: rare(),
                until: middle,
                ..in_state(StateKind::Delivered)
            },
        ),
    ] {
        let times = times(store, &filter, plan.counts.list_calls, name).await?;
        for (percentile, limit) in [(50.0, None), (99.0, Some(LONGEST_MS))] {
            let ms = times.value_at_percentile(percentile) as f64 / 1e3;
            let name = format!("{database}, {name}, p{percentile}");
            let figure = Figure::alone(name, Unit::Milliseconds, &[ms]);
            figures.push(match limit {
                Some(limit) => figure.target(Measure::Value, Bound::AtMost, limit),
                None => figure,
            });
        }
        plan.say(format!("{database}, {name}: {:.1} ms", times.mean() / 1e3));
    }
    Ok(figures)
}

/// When a message in the middle of the list was enqueued.
async fn middle(store: &dyn Store) -> Result<Timestamp> {
    let newest = store.list(&Filter::default(), None, 1).await?;
    let newest = newest.items.first().context("there are messages")?.id;
    let half = Some(MessageId(newest.0 / 2));
    let page = store.list(&Filter::default(), half, 1).await?;
    Ok(page.items.first().context("there are messages")?.created_at)
}

/// Times of several calls, in microseconds. A page of what is rare is empty: it looked as far as it may. One that begins at
/// a time may be short: where it begins is known to a minute.
async fn times(
    store: &dyn Store,
    filter: &Filter,
    calls: u32,
    name: &str,
) -> Result<Histogram<u64>> {
    let expected = if name.starts_with("rare") {
        0
    } else {
        PAGE as usize
    };
    let mut times = Histogram::new(3)?;
    for _ in 0..calls {
        let started = Instant::now();
        let page = store.list(filter, None, PAGE).await?;
        times.record(u64::try_from(started.elapsed().as_micros())?)?;
        let found = page.items.len();
        let is_right = found == expected || name == "until" && found < expected;
        ensure!(is_right, "{name}: {found} of {expected} messages");
    }
    Ok(times)
}
