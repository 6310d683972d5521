//! The first page: every queue, and what needs attention.

use askama::Template;
use axum::{
    Extension,
    extract::State,
    response::{IntoResponse, Response},
};

use consign_kernel::{QueueName, Situation};
use jiff::SignedDuration;
use serde::Deserialize;

use super::{
    charts::Charts,
    live::Topic,
    problems::ProblemRow,
    queues::{QueueRow, Queues},
    rates::{QueueRates, Rates, Window},
    shell::{Shell, rendered, text},
    words::{count, span},
};
use crate::{
    extract::Params,
    gate::access::Caller,
    problem::Problem,
    routes::{about, problems},
    state::AppState,
};

#[derive(Template)]
#[template(path = "overview.html")]
struct Overview {
    shell: Shell,
    topic: String,
    live: String,
}

#[derive(Template)]
#[template(path = "overview_live.html")]
struct OverviewLiveTemplate {
    figures: Figures,
    problems: Vec<ProblemRow>,
    apps: Vec<AppFigures>,
    queues: Vec<(QueueRow, QueueRates)>,
    /// Where the next page is, if there may be one.
    next: Option<String>,
    charts: String,
}

/// What all queues together do now.
struct Figures {
    per_minute: String,
    failing: String,
    is_failing: bool,
    backlog: String,
    oldest: String,
}

/// The figures of an app, with its own labels.
struct AppFigures {
    title: &'static str,
    queue: &'static str,
    facts: Vec<(String, &'static str)>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct OverviewParams {
    window: Option<String>,
    /// Queues whose names come after this one.
    after: Option<QueueName>,
    done: Option<String>,
}

/// The overview for browsers, the index for others.
pub(crate) async fn front(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    Params(query): Params<OverviewParams>,
) -> Result<Response, Problem> {
    if caller.visit.is_none() {
        return Ok(about::index(State(state)).await.into_response());
    }
    let window = Window::read(query.window.as_deref());
    Ok(rendered(&Overview {
        shell: Shell::new("Overview", "/", &caller).with_done(query.done.as_deref()),
        topic: Topic::Overview(window, query.after.clone()).to_string(),
        live: live(&state, window, query.after.as_ref()).await?,
    }))
}

/// The part that is kept up to date.
pub(super) async fn live(
    state: &AppState,
    window: Window,
    after: Option<&QueueName>,
) -> Result<String, Problem> {
    let situation = state.situation().await?;
    let queues = match after {
        None => Queues::first(state, &situation),
        Some(_) => Queues::look(state, after).await?,
    };
    let next = queues.next();
    let hour = Rates::of_rows(Window::Hour, queues.now, &situation.minutes);
    let figures = figures(&situation, &hour);
    let rates = match window {
        Window::Hour => hour,
        Window::Day | Window::Week => Rates::look(state, None, window).await?,
    };
    let charts = Charts::new("all queues".into(), "/", window, &rates.all());
    // Rates of very many queues would make the page too long.
    let rates = match next.or(after) {
        None => rates,
        Some(_) => Rates::none(window, queues.now),
    };
    let rows = queues.queues.iter().map(|(queue, counts)| {
        let row = queues.row(queue, counts);
        (row, rates.of(&queue.name))
    });
    let open = problems::open(state, &situation);
    text(&OverviewLiveTemplate {
        figures,
        problems: (open.iter())
            .map(|it| ProblemRow::new(it, queues.now))
            .collect(),
        apps: apps(state, &queues),
        queues: rows.collect(),
        next: next.map(|next| format!("/?window={}&after={next}", window.as_str())),
        charts: text(&charts)?,
    })
}

/// What all queues together did in the last hour, and what is due.
fn figures(situation: &Situation, hour: &Rates) -> Figures {
    let words = hour.words(&hour.all());
    let counts = situation.queues.iter().map(|(_, counts)| counts);
    let oldest = counts
        .clone()
        .filter_map(|counts| counts.oldest_due_at)
        .min();
    Figures {
        per_minute: words.per_minute,
        failing: words.errors,
        is_failing: words.has_errors,
        backlog: count(counts.map(|counts| counts.ready).sum()),
        oldest: oldest.map_or("–".into(), |at| {
            let age = situation.attention.now.duration_since(at);
            span(age.max(SignedDuration::ZERO))
        }),
    }
}

fn apps(state: &AppState, queues: &Queues) -> Vec<AppFigures> {
    let profiles = state.extensions.iter().filter_map(|it| it.queue());
    let known = profiles.filter_map(|profile| {
        let found = queues
            .queues
            .iter()
            .find(|(known, _)| known.name.as_str() == profile.queue);
        let (_, counts) = found?;
        let to_do = counts.waiting + counts.ready + counts.scheduled;
        let numbers = [to_do, counts.leased, counts.held, counts.dead];
        let facts = numbers.into_iter().map(count).zip(profile.counts).collect();
        Some(AppFigures {
            title: profile.title,
            queue: profile.queue,
            facts,
        })
    });
    known.collect()
}
