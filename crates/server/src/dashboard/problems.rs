//! What is wrong now, as the overview and the page of a queue show it; acknowledging it.

use std::time::Duration;

use askama::Template;
use axum::{Extension, extract::State, response::Response};
use consign_kernel::{OpenProblem, QueueName, Severity, Trend};
use jiff::Timestamp;
use serde::Deserialize;

use super::{
    form::{Form, encoded},
    shell::{Shell, rendered, see_other},
    words::Moment,
};
use crate::{
    extract::{Json, Params},
    gate::access::Caller,
    problem::Problem,
    routes::problems as api,
    state::AppState,
    wire::problems::{AcknowledgeBody, ReopenBody},
};

/// A problem in words.
pub(super) struct ProblemRow {
    pub(super) severity: Severity,
    pub(super) queue: String,
    pub(super) text: String,
    pub(super) path: String,
    /// Since when, as far as is known.
    pub(super) since: Option<Moment>,
    /// Whether it gets worse, where that is known.
    pub(super) trend: Option<&'static str>,
    /// Where it is acknowledged.
    pub(super) acknowledge: String,
    pub(super) known: Option<KnownRow>,
}

/// An acknowledgement in words.
pub(super) struct KnownRow {
    pub(super) actor: String,
    pub(super) reason: String,
    pub(super) until: Moment,
}

impl ProblemRow {
    pub(super) fn new(problem: &OpenProblem, now: Timestamp) -> Self {
        let known = problem.acknowledged.as_ref();
        Self {
            severity: problem.severity,
            queue: problem
                .queue
                .as_ref()
                .map_or("–".into(), QueueName::to_string),
            text: problem.text.clone(),
            path: api::path(problem),
            since: problem.since.map(|since| Moment::new(since, now)),
            trend: match problem.trend {
                Trend::Worse => Some("getting worse"),
                Trend::Better => Some("getting better"),
                Trend::Same => None,
            },
            acknowledge: format!("/ui/problems?problem={}", encoded(&problem.key)),
            known: known.map(|known| KnownRow {
                actor: known.actor.clone(),
                reason: known.reason.clone(),
                until: Moment::new(known.until, now),
            }),
        }
    }
}

#[derive(Template)]
#[template(path = "problem.html")]
struct ProblemPage {
    shell: Shell,
    key: String,
    problems: Vec<ProblemRow>,
    times: [(u64, &'static str); 5],
}

#[derive(Debug, Deserialize)]
pub(super) struct ProblemQuery {
    problem: String,
}

/// One problem, with the forms that acknowledge and reopen it.
pub(super) async fn show(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    Params(query): Params<ProblemQuery>,
) -> Result<Response, Problem> {
    let problem = api::find(&state, &query.problem).await?;
    let now = state.situation().await?.attention.now;
    Ok(rendered(&ProblemPage {
        shell: Shell::new("Problem", "/", &caller),
        problems: vec![ProblemRow::new(&problem, now)],
        key: problem.key,
        times: [
            (1, "1 hour"),
            (4, "4 hours"),
            (24, "1 day"),
            (72, "3 days"),
            (168, "7 days"),
        ],
    }))
}

/// Acknowledges a problem.
pub(super) async fn acknowledge(
    state: State<AppState>,
    caller: Extension<Caller>,
    form: Form,
) -> Result<Response, Problem> {
    let hours = form.number::<u64>("hours")?.unwrap_or(1);
    let lasts = Duration::from_secs(hours.saturating_mul(3_600));
    let body = AcknowledgeBody {
        problem: form.get("problem").unwrap_or_default().to_owned(),
        for_ms: u64::try_from(lasts.as_millis()).unwrap_or(u64::MAX),
        reason: form.reason(),
    };
    drop(api::acknowledge(state, caller, Json(body)).await?);
    Ok(see_other("/?done=acknowledge"))
}

/// Ends the acknowledgement of a problem.
pub(super) async fn reopen(
    state: State<AppState>,
    caller: Extension<Caller>,
    form: Form,
) -> Result<Response, Problem> {
    let body = ReopenBody {
        problem: form.get("problem").unwrap_or_default().to_owned(),
        reason: form.reason(),
    };
    drop(api::reopen(state, caller, Json(body)).await?);
    Ok(see_other("/?done=reopen"))
}
