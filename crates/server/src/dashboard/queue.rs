//! One queue: what is in it, by state; its rules; pausing it.

use askama::Template;
use axum::{Extension, extract::State, response::Response};
use consign_kernel::{Error, PAGE_ENTRIES_MAX, QueueName, StateKind, nearest};

use super::{
    bulk::Bulk,
    form::Form,
    list::MessageSlice,
    live::Topic,
    policy_words::{Rule, rules},
    query::{Choices, Query, QueryFields, form},
    queues::{Alert, QueueRow, Queues},
    rates::{QueueRates, Rates, Window},
    shell::{Shell, rendered, see_other, text},
    words::{Moment, count},
};
use crate::{
    extract::{InPath, MaybeJson, Params},
    gate::access::Caller,
    problem::Problem,
    routes::queues as api,
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
    filter: String,
    bulk: Bulk,
    paused: Option<Moment>,
    policy: Vec<Rule>,
    live: String,
}

#[derive(Template)]
#[template(path = "queue_live.html")]
struct QueueLiveTemplate {
    name: String,
    alerts: Vec<Alert>,
    row: QueueRow,
    rates: Vec<(&'static str, QueueRates)>,
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

pub(super) async fn show(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    InPath(name): InPath<QueueName>,
    Params(fields): Params<QueryFields>,
) -> Result<Response, Problem> {
    let queue = state.store.queue(&name).await?;
    let Some(queue) = queue else {
        return Err(unknown(&state, &name).await?);
    };
    let now = (state.clock)();
    let query = Query {
        queue: Some(name.clone()),
        ..fields.read(now)?
    };
    let path = format!("/ui/queues/{name}");
    let shell = Shell::new(format!("Queue {name}"), "/ui/queues", &caller);
    let topic = Topic::Queue(name.clone(), query.state).to_string();
    let choices = Choices {
        queue: false,
        state: false,
    };
    Ok(rendered(&QueuePage {
        shell: shell.with_done(fields.done.as_deref()),
        topic: query.is_newest().then_some(topic),
        filter: form(&state, &query, (&path, "In this queue"), choices).await?,
        bulk: Bulk::new(&query, &path, query.filter().wanted_state()),
        paused: queue.paused_at.map(|at| Moment::new(at, now)),
        policy: rules(&queue.policy),
        live: live(&state, &name, &query).await?,
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
    let path = format!("/ui/queues/{name}");
    let tab = |word, kind: Option<StateKind>| {
        let query = Query {
            state: kind,
            before: None,
            ..wanted.clone()
        };
        Tab {
            word,
            count: kind.and_then(number).map(count),
            path: query.link(&path),
            is_current: wanted.state == kind,
        }
    };
    let states = StateKind::ALL.into_iter();
    let states = states.map(|kind| tab(kind.as_str(), Some(kind)));
    let tabs = std::iter::once(tab("all", None)).chain(states);
    let mut rates = Vec::new();
    for (words, window) in [("Last hour", Window::Hour), ("Last day", Window::Day)] {
        let looked = Rates::look(state, Some(name), window).await?;
        rates.push((words, looked.of(name)));
    }
    text(&QueueLiveTemplate {
        name: name.to_string(),
        alerts: queues.alerts_of(queue, counts),
        row: queues.row(queue, counts),
        rates,
        tabs: tabs.collect(),
        found: wanted.find(state, &path).await?,
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
