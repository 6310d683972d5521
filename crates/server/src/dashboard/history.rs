//! The page of history: what is kept, how it grows, and what keeps it from leaving.

use askama::Template;
use axum::{Extension, extract::State, response::Response};
use consign_kernel::{Growth, Obstacle, Period, QueuePolicy, QueueSample, Sample};
use jiff::{SignedDuration, Timestamp};

use super::{
    shell::{Shell, rendered},
    words::{Moment, bytes, count, many, span},
};
use crate::{gate::access::Caller, problem::Problem, state::AppState};

/// Queues on the page: those with the most messages. What keeps the oldest of each is looked up.
const ROWS: usize = 100;

#[derive(Template)]
#[template(path = "history.html")]
struct History {
    shell: Shell,
    facts: Vec<(&'static str, String)>,
    /// Why the maintenance does not let messages leave.
    stuck: Option<String>,
    rows: Vec<Row>,
    is_cut: bool,
}

struct Row {
    queue: String,
    messages: String,
    oldest: Option<Moment>,
    per_day: String,
    bytes_per_day: String,
    departed: String,
    totals: String,
    keeps: String,
    /// The oldest message, and what keeps it.
    obstacle: Option<(i64, String)>,
}

pub(super) async fn show(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, Problem> {
    let growth = state.store.growth().await?;
    let now = (state.clock)();
    let mut samples: Vec<&QueueSample> = growth.now.iter().flat_map(|now| &now.queues).collect();
    samples.sort_by_key(|sample| std::cmp::Reverse(sample.messages));
    let is_cut = samples.len() > ROWS;
    samples.truncate(ROWS);
    samples.sort_by(|a, b| a.queue.cmp(&b.queue));
    let mut rows = Vec::new();
    for sample in samples {
        rows.push(Row::read(&state, &growth, sample, now).await?);
    }
    let pass = growth.pass.as_ref().filter(|pass| pass.end != "done");
    Ok(rendered(&History {
        shell: Shell::new("History", "/ui/history", &caller),
        facts: growth
            .now
            .as_ref()
            .map_or_else(Vec::new, |sample| facts(sample, &growth)),
        stuck: pass.map(|pass| {
            let passes = many(pass.passes, "pass", "passes");
            let since = span(now.duration_since(pass.since));
            format!(
                "The maintenance ends with {} for {since} ({passes}).",
                pass.ends.join(", ")
            )
        }),
        rows,
        is_cut,
    }))
}

fn facts(sample: &Sample, growth: &Growth) -> Vec<(&'static str, String)> {
    let per_day = |period| match growth.of_database(period) {
        Some(change) if change < 0 => format!("{} less", bytes(change.unsigned_abs())),
        Some(change) => format!("{} more", bytes(change.unsigned_abs())),
        None => "not measured yet".to_owned(),
    };
    vec![
        ("Database", bytes(sample.size.bytes)),
        ("History", bytes(sample.size.history_bytes)),
        ("Per day, over the last 24 hours", per_day(Period::Day)),
        ("Per day, over the last 7 days", per_day(Period::Week)),
    ]
}

impl Row {
    async fn read(
        state: &AppState,
        growth: &Growth,
        sample: &QueueSample,
        now: Timestamp,
    ) -> Result<Self, Problem> {
        let oldest = match sample.oldest_id {
            Some(id) => state.store.explain(id).await?,
            None => None,
        };
        let queue = state.store.queue(&sample.queue).await?;
        let day = growth.of_queue(&sample.queue, Period::Day);
        let dash = || "–".to_owned();
        Ok(Self {
            queue: sample.queue.to_string(),
            messages: count(sample.messages),
            oldest: sample.oldest_at.map(|at| Moment::new(at, now)),
            per_day: day.map_or_else(dash, |day| count(day.messages)),
            bytes_per_day: day.map_or_else(dash, |day| bytes(day.bytes)),
            departed: count(sample.departed),
            totals: format!(
                "{} enqueued, {} delivered, {} dead, {} discarded, {} erased",
                count(sample.enqueued),
                count(sample.delivered),
                count(sample.dead),
                count(sample.discarded),
                count(sample.erased)
            ),
            keeps: queue.map_or_else(dash, |queue| keeps(&queue.policy)),
            obstacle: oldest.map(|oldest| (oldest.message.id.0, Obstacle::of(&oldest).to_string())),
        })
    }
}

/// How long a queue keeps finished messages.
fn keeps(policy: &QueuePolicy) -> String {
    let time = |keep_ms: Option<u64>| match keep_ms {
        Some(ms) => span(SignedDuration::from_millis(
            i64::try_from(ms).unwrap_or(i64::MAX),
        )),
        None => "for ever".to_owned(),
    };
    let (delivered, dead) = (time(policy.keep_ms), time(policy.keep_dead_ms));
    if delivered == dead {
        delivered
    } else {
        format!("{delivered}; dead {dead}")
    }
}
