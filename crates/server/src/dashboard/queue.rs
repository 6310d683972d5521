//! One queue: what is in it, by state; its rules; pausing it.

use askama::Template;
use axum::{Extension, extract::State, response::Response};
use consign_kernel::{Error, PAGE_ENTRIES_MAX, QueueName, Situation, StateKind, nearest};
use serde::Deserialize;

use super::{
    charts::Charts,
    form::{Form, encoded},
    list::{MessageSlice, Query},
    live::Topic,
    problems::ProblemRow,
    queues::{QueueRow, Queues},
    rates::{Rates, Window},
    shell::{Shell, rendered, see_other, text},
    words::count,
};
use crate::{
    extract::{InPath, MaybeJson, Params},
    gate::access::Caller,
    problem::Problem,
    routes::{problems as api_problems, queues as api},
    state::AppState,
    wire::operate::ReasonBody,
};

#[derive(Template)]
#[template(path = "queue.html")]
struct QueuePage {
    shell: Shell,
    /// Absent where the list is the result of a search.
    topic: Option<String>,
    name: String,
    q: String,
    /// The place that is looked at; a search stays in it.
    state: Option<StateKind>,
    is_paused: bool,
    policy: Vec<(String, String)>,
    live: String,
}

#[derive(Template)]
#[template(path = "queue_live.html")]
struct QueueLiveTemplate {
    name: String,
    problems: Vec<ProblemRow>,
    row: QueueRow,
    charts: String,
    tabs: Vec<Tab>,
    found: MessageSlice,
}

/// One of the places messages can be in.
struct Tab {
    word: &'static str,
    count: Option<String>,
    path: String,
    is_current: bool,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct QueueQuery {
    state: Option<String>,
    q: Option<String>,
    before: Option<i64>,
    done: Option<String>,
    window: Option<String>,
}

pub(super) async fn show(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    InPath(name): InPath<QueueName>,
    Params(query): Params<QueueQuery>,
) -> Result<Response, Problem> {
    let queue = state.store.queue(&name).await?;
    let Some(queue) = queue else {
        return Err(unknown(&state, &name).await?);
    };
    let wanted = Query::new(
        Some(name.clone()),
        query.state.as_deref(),
        query.q,
        query.before,
    )?;
    let window = Window::read(query.window.as_deref());
    let policy = serde_json::to_value(&queue.policy).expect("invariant: policies serialise");
    let fields = policy.as_object().into_iter().flatten();
    let policy = fields.map(|(name, value)| (name.clone(), value.to_string()));
    let shell = Shell::new(format!("Queue {name}"), "", &caller).with_done(query.done.as_deref());
    Ok(rendered(&QueuePage {
        shell,
        topic: wanted
            .is_newest()
            .then(|| Topic::Queue(name.clone(), wanted.state, window).to_string()),
        q: wanted.q.clone().unwrap_or_default(),
        state: wanted.state,
        is_paused: queue.paused_at.is_some(),
        policy: policy.collect(),
        live: live(&state, &name, &wanted, window).await?,
        name: name.to_string(),
    }))
}

async fn unknown(state: &AppState, name: &QueueName) -> Result<Problem, Problem> {
    let queues = state.store.queues(None, PAGE_ENTRIES_MAX).await?;
    let names = queues.iter().map(|(queue, _)| queue.name.as_str());
    Ok(Problem::from(Error::UnknownQueue {
        queue: name.to_string(),
        suggestion: nearest(name.as_str(), names).map(str::to_owned),
    }))
}

/// The part that is kept up to date.
pub(super) async fn live(
    state: &AppState,
    name: &QueueName,
    wanted: &Query,
    window: Window,
) -> Result<String, Problem> {
    let Some(counted) = state.store.queue_counts(name).await? else {
        return Err(unknown(state, name).await?);
    };
    let queues = Queues::of(state, vec![counted]);
    let (queue, counts) = &queues.queues[0];
    let number = |kind| match kind {
        StateKind::Waiting => Some(counts.waiting),
        StateKind::Ready => Some(counts.ready + counts.scheduled),
        StateKind::Leased => Some(counts.leased),
        StateKind::Held => Some(counts.held),
        StateKind::Dead => Some(counts.dead),
        // There may be billions.
        StateKind::Delivered | StateKind::Discarded => None,
    };
    let q = wanted.q.as_deref().map(encoded);
    let q = |sign: char| q.as_ref().map_or(String::new(), |q| format!("{sign}q={q}"));
    let all = Tab {
        word: "all",
        count: None,
        path: format!("/ui/queues/{name}{}", q('?')),
        is_current: wanted.state.is_none(),
    };
    let tabs = StateKind::ALL.into_iter().map(|kind| Tab {
        word: kind.as_str(),
        count: number(kind).map(count),
        path: format!("/ui/queues/{name}?state={kind}{}", q('&')),
        is_current: wanted.state == Some(kind),
    });
    let rates = Rates::look(state, Some(name), window).await?;
    let page = format!("/ui/queues/{name}");
    let charts = Charts::new(format!("queue {name}"), &page, window, &rates.points(name));
    let store = state.store.as_ref();
    let situation = Situation::read(store, queues.queues.clone(), Some(name)).await?;
    let open = api_problems::open(state, &situation);
    let open = open.iter().filter(|it| it.queue.as_ref() == Some(name));
    text(&QueueLiveTemplate {
        name: name.to_string(),
        problems: open.map(|it| ProblemRow::new(it, queues.now)).collect(),
        row: queues.row(queue, counts),
        charts: text(&charts)?,
        tabs: std::iter::once(all).chain(tabs).collect(),
        found: wanted.find(state, &format!("/ui/queues/{name}")).await?,
    })
}

/// Whether another operator did it since the form was shown: the audit keeps that reason, and this
/// operator must not believe to have done it. Two at the very same moment both do it.
async fn is_paused(state: &AppState, name: &QueueName) -> Result<bool, Problem> {
    let queue = state.store.queue(name).await?;
    match queue {
        Some(queue) => Ok(queue.paused_at.is_some()),
        None => Err(unknown(state, name).await?),
    }
}

pub(super) async fn pause(
    state: State<AppState>,
    caller: Extension<Caller>,
    InPath(queue): InPath<QueueName>,
    form: Form,
) -> Result<Response, Problem> {
    if is_paused(&state, &queue).await? {
        return Ok(see_other(&format!("/ui/queues/{queue}?done=paused_before")));
    }
    let reason = form.reason();
    let body = MaybeJson(ReasonBody { reason });
    drop(api::pause(state, caller, InPath(queue.clone()), body).await?);
    Ok(see_other(&format!("/ui/queues/{queue}?done=pause")))
}

pub(super) async fn resume(
    state: State<AppState>,
    caller: Extension<Caller>,
    InPath(queue): InPath<QueueName>,
    form: Form,
) -> Result<Response, Problem> {
    if !is_paused(&state, &queue).await? {
        return Ok(see_other(&format!(
            "/ui/queues/{queue}?done=resumed_before"
        )));
    }
    let reason = form.reason();
    let body = MaybeJson(ReasonBody { reason });
    drop(api::resume(state, caller, InPath(queue.clone()), body).await?);
    Ok(see_other(&format!("/ui/queues/{queue}?done=resume")))
}
