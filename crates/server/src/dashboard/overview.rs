//! The first page: every lane, and what needs a person.

use askama::Template;
use axum::{
    Extension,
    extract::State,
    response::{IntoResponse, Response},
};

use consign_kernel::LaneName;
use serde::Deserialize;

use super::{
    lanes::{Alert, LaneRow, Lanes},
    live::Topic,
    rates::{LaneRates, Rates, Window},
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
struct Live {
    alerts: Vec<Alert>,
    protocols: Vec<Protocol>,
    lanes: Vec<(LaneRow, LaneRates)>,
    /// Where the next page is, if there may be one.
    next: Option<String>,
}

/// A protocol in its own words.
struct Protocol {
    title: &'static str,
    lane: &'static str,
    facts: Vec<(String, &'static str)>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Windowed {
    window: Option<String>,
    /// Lanes whose names come after this one.
    after: Option<LaneName>,
}

/// The overview for browsers, the index for others.
pub(crate) async fn front(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    Params(query): Params<Windowed>,
) -> Result<Response, Problem> {
    if caller.visit.is_none() {
        return Ok(about::index().await.into_response());
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
    after: Option<&LaneName>,
) -> Result<String, Problem> {
    let lanes = Lanes::look(state, after).await?;
    let next = lanes.next();
    // What every lane of very many did would be a page of its own.
    let rates = match next.or(after) {
        None => Rates::look(state, None, window).await?,
        Some(_) => Rates::none(window),
    };
    let rows = lanes.lanes.iter().map(|(lane, counts)| {
        let row = lanes.row(lane, counts);
        (row, rates.of(&lane.name))
    });
    let all = lanes.lanes.iter();
    text(&Live {
        alerts: all
            .flat_map(|(lane, counts)| lanes.alerts_of(lane, counts))
            .collect(),
        protocols: protocols(&lanes),
        lanes: rows.collect(),
        next: next.map(|next| format!("/?window={}&after={next}", window.as_str())),
    })
}

fn protocols(lanes: &Lanes) -> Vec<Protocol> {
    /// A lane, its title, and what it calls: to do, under way, held, given up.
    const WORDS: [(&str, &str, [&str; 4]); 3] = [
        (
            consign_orders::LANE,
            "Orders",
            ["to be placed", "at the broker", "in doubt", "given up"],
        ),
        (
            consign_payments::LANE,
            "Payments",
            ["pending", "being dispatched", "held", "failed"],
        ),
        (
            consign_memory::LANE,
            "Memories",
            ["deferred", "being stored", "held", "given up"],
        ),
    ];
    let known = WORDS.iter().filter_map(|(lane, title, words)| {
        let found = lanes
            .lanes
            .iter()
            .find(|(known, _)| known.name.as_str() == *lane);
        let (_, counts) = found?;
        let to_do = counts.waiting + counts.ready + counts.scheduled;
        let numbers = [to_do, counts.leased, counts.held, counts.dead];
        let facts = numbers.into_iter().map(count).zip(*words).collect();
        Some(Protocol { title, lane, facts })
    });
    known.collect()
}
