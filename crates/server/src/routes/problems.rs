//! What is wrong now, and acknowledging it.

use std::time::Duration;

use axum::{Extension, Json as Answer, extract::State};
use consign_kernel::{OpenProblem, ProblemKind, ProblemMark, Situation};

use crate::{
    dashboard::form::encoded,
    extract::Json,
    gate::access::Caller,
    problem::Problem,
    state::AppState,
    wire::{
        operate::by,
        problems::{AcknowledgeBody, ProblemList, ProblemView, ReopenBody, Reopened},
        shapes,
    },
};

/// List what is wrong now, the worst first
#[utoipa::path(
    get, path = "/v1/problems", operation_id = "list_problems", tag = "problems",
    responses((status = 200, description = "Problems; those that are acknowledged come last", body = ProblemList)),
)]
pub(crate) async fn list(State(state): State<AppState>) -> Result<Answer<ProblemList>, Problem> {
    let situation = state.situation().await?;
    let problems = open(&state, &situation);
    let view = |problem: OpenProblem| ProblemView {
        path: path(&problem),
        problem,
    };
    Ok(Answer(ProblemList {
        now: situation.attention.now,
        problems: problems.into_iter().map(view).collect(),
    }))
}

/// Acknowledge a problem for a time
///
/// It is listed last until the time ends, it gets worse in severity, or it begins again.
#[utoipa::path(
    post, path = "/v1/problems/acknowledge", operation_id = "acknowledge_problem", tag = "problems",
    request_body = AcknowledgeBody,
    responses((status = 200, description = "Acknowledged", body = shapes::Acknowledgement)),
)]
pub(crate) async fn acknowledge(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    Json(body): Json<AcknowledgeBody>,
) -> Result<Answer<consign_kernel::Acknowledgement>, Problem> {
    let by = by(&caller, body.reason)?;
    let problem = find(&state, &body.problem).await?;
    let mark = ProblemMark {
        problem: problem.key,
        severity: problem.severity,
        queue: problem.queue,
        lasts: Duration::from_millis(body.for_ms),
    };
    Ok(Answer(state.store.acknowledge(&mark, &by).await?))
}

/// End the acknowledgement of a problem
#[utoipa::path(
    post, path = "/v1/problems/reopen", operation_id = "reopen_problem", tag = "problems",
    request_body = ReopenBody,
    responses((status = 200, description = "Whether it was acknowledged", body = Reopened)),
)]
pub(crate) async fn reopen(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    Json(body): Json<ReopenBody>,
) -> Result<Answer<Reopened>, Problem> {
    let by = by(&caller, body.reason)?;
    let reopened = state.store.reopen(&body.problem, &by).await?;
    Ok(Answer(Reopened { reopened }))
}

/// What is wrong now, in the words of the apps whose queues it is about.
pub(crate) fn open(state: &AppState, situation: &Situation) -> Vec<OpenProblem> {
    let mut problems = situation.problems();
    for problem in &mut problems {
        let profile = problem.queue.as_ref().and_then(|it| state.profile(it));
        let held = profile.and_then(|profile| profile.held);
        if let (ProblemKind::Held, Some(held)) = (problem.kind, held) {
            problem.text = held(problem.count);
        }
    }
    problems
}

/// The open problem with a key.
pub(crate) async fn find(state: &AppState, key: &str) -> Result<OpenProblem, Problem> {
    let situation = state.situation().await?;
    let problems = open(state, &situation);
    let found = problems.into_iter().find(|problem| problem.key == key);
    found.ok_or_else(|| {
        let given = consign_kernel::quoted(key);
        Problem::out_of_bounds(
            "problem",
            given,
            "must be the key of a problem that is open now",
        )
    })
}

/// The page where a problem is fixed.
pub(crate) fn path(problem: &OpenProblem) -> String {
    let queue = problem.queue.as_ref().map_or("", |queue| queue.as_str());
    match problem.kind {
        ProblemKind::Deaths => {
            let code = encoded(problem.code.as_deref().unwrap_or_default());
            format!("/ui/dead?queue={queue}&code={code}")
        }
        ProblemKind::BlockedGroups => format!("/ui/dead?queue={queue}"),
        ProblemKind::Held => format!("/ui/queues/{queue}?state=held"),
        ProblemKind::ProcessGone => "/ui/leases".to_owned(),
        ProblemKind::NoWorker | ProblemKind::QueueOld | ProblemKind::BacklogGrows => {
            format!("/ui/queues/{queue}?state=ready")
        }
        ProblemKind::Breaker
        | ProblemKind::NothingDelivered
        | ProblemKind::Schedule
        | ProblemKind::Alerts
        | ProblemKind::Paused => format!("/ui/queues/{queue}"),
    }
}
