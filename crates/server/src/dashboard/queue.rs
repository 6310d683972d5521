//! One queue: what is in it, by state; its rules; pausing it.

use askama::Template;
use axum::{Extension, extract::State, response::Response};
use consign_kernel::{Error, PAGE_ENTRIES_MAX, QueueName, Situation, StateKind, nearest};

use super::{
    bulk::Bulk,
    charts::Charts,
    form::Form,
    list::MessageSlice,
    live::Topic,
    policy_words::{Rule, rules},
    problems::ProblemRow,
    query::{Choices, Query, QueryFields, form},
    queues::{QueueRow, Queues},
    rates::{Rates, Window},
    shell::{Shell, rendered, see_other, text},
    words::{Moment, count},
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
    let window = Window::read(fields.window.as_deref());
    let path = format!("/ui/queues/{name}");
    let shell = Shell::new(format!("Queue {name}"), "/ui/queues", &caller);
    let topic = Topic::Queue(name.clone(), query.state, window).to_string();
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
        live: live(&state, &name, &query, window).await?,
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
    let rates = Rates::look(state, Some(name), window).await?;
    let charts = Charts::new(format!("queue {name}"), &path, window, &rates.points(name));
    let store = state.store.as_ref();
    let situation = Situation::read(store, queues.queues.clone(), Some(name)).await?;
    let open = api_problems::open(state, &situation);
    let open = open.iter().filter(|it| it.queue.as_ref() == Some(name));
    text(&QueueLiveTemplate {
        name: name.to_string(),
        problems: open.map(|it| ProblemRow::new(it, queues.now)).collect(),
        row: queues.row(queue, counts),
        charts: text(&charts)?,
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
