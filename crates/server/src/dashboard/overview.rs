//! The first page: every queue, and what needs attention.

use askama::Template;
use axum::{
    Extension,
    extract::State,
    response::{IntoResponse, Response},
};

use consign_kernel::QueueName;
use serde::Deserialize;

use super::{
    live::Topic,
    queues::{Alert, QueueRow, Queues},
    rates::{QueueRates, Rates, Window},
    shell::{Shell, rendered, text},
    words::count,
};
use crate::{
    extract::Params, gate::access::Caller, problem::Problem, routes::about, state::AppState,
};

#[derive(Template)]
#[template(path = "overview.html")]
struct Overview {
    shell: Shell,
    topic: String,
    windows: [(&'static str, &'static str, bool); 2],
    live: String,
}

#[derive(Template)]
#[template(path = "overview_live.html")]
struct OverviewLiveTemplate {
    alerts: Vec<Alert>,
    apps: Vec<AppFigures>,
    queues: Vec<(QueueRow, QueueRates)>,
    /// Where the next page is, if there may be one.
    next: Option<String>,
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
    let windows = [
        ("Last hour", "/", window == Window::Hour),
        ("Last day", "/?window=day", window == Window::Day),
    ];
    Ok(rendered(&Overview {
        shell: Shell::new("Overview", "/", &caller),
        topic: Topic::Overview(window, query.after.clone()).to_string(),
        windows,
        live: live(&state, window, query.after.as_ref()).await?,
    }))
}

/// The part that is kept up to date.
pub(super) async fn live(
    state: &AppState,
    window: Window,
    after: Option<&QueueName>,
) -> Result<String, Problem> {
    let queues = Queues::look(state, after).await?;
    let next = queues.next();
    // Rates of very many queues would make the page too long.
    let rates = match next.or(after) {
        None => Rates::look(state, None, window).await?,
        Some(_) => Rates::none(window),
    };
    let rows = queues.queues.iter().map(|(queue, counts)| {
        let row = queues.row(queue, counts);
        (row, rates.of(&queue.name))
    });
    let all = queues.queues.iter();
    text(&OverviewLiveTemplate {
        alerts: all
            .flat_map(|(queue, counts)| queues.alerts_of(queue, counts))
            .collect(),
        apps: apps(state, &queues),
        queues: rows.collect(),
        next: next.map(|next| format!("/?window={}&after={next}", window.as_str())),
    })
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
