//! Dead letters: the list, and redrives of those that match.

use askama::Template;
use axum::{Extension, Json, extract::State, response::Response};
use consign_kernel::{
    CODE_BYTES_MAX, DeadLetter, Filter, QueueName, Redrive, RedriveAction, RedriveId, RedrivePlan,
    RedriveState, StateKind,
};
use jiff::Timestamp;
use serde::Deserialize;

use super::{
    bulk::Bulk,
    form::{Form, encoded},
    list::MessageSlice,
    live::Topic,
    query::{Choices, Query, QueryFields, form},
    shell::{Shell, rendered, see_other, text},
    words::{Moment, count},
};
use crate::{
    extract::{InPath, MaybeJson, Params},
    gate::access::Caller,
    problem::Problem,
    routes::{messages::views, redrives as api},
    state::AppState,
    wire::{
        messages::CauseView,
        operate::{ReasonBody, by},
    },
};

/// The page of dead letters.
const PATH: &str = "/ui/dead";
const ROWS: u32 = 50;
/// Messages shown before a redrive: the first it would take.
const SHOWN: u32 = 50;
const REDRIVES: u32 = 10;
/// Dead messages that are grouped for the page, which is rendered anew whenever one dies.
const GROUPED_MAX: u64 = 5_000;
/// Causes shown: the largest.
const CAUSES: usize = 20;

#[derive(Template)]
#[template(path = "dead.html")]
struct DeadTemplate {
    shell: Shell,
    topic: Option<String>,
    filter: String,
    bulk: Bulk,
    /// Queue and code of a redrive, unless the filter asks for more than that.
    redrive: Option<(String, String)>,
    live: String,
}

#[derive(Template)]
#[template(path = "dead_live.html")]
struct DeadLiveTemplate {
    causes: Vec<Cause>,
    letters: Vec<Letter>,
    older: Option<String>,
    /// Instead of the letters, where the filter asks for more than a queue and a code.
    found: Option<MessageSlice>,
    redrives: Vec<RedriveView>,
}

#[derive(Template)]
#[template(path = "preview.html")]
struct Preview {
    shell: Shell,
    action: RedriveAction,
    /// What would have been done, in words.
    done: &'static str,
    queue: Option<String>,
    code: Option<String>,
    limit: Option<u64>,
    rate: Option<u32>,
    count: String,
    is_none: bool,
    or_more: bool,
    /// How many are not shown, if any.
    rest: Option<String>,
    letters: Vec<Letter>,
}

#[derive(Template)]
#[template(path = "redrive.html")]
struct RedrivePage {
    shell: Shell,
    topic: String,
    redrive: RedriveView,
    live: String,
}

#[derive(Template)]
#[template(path = "redrive_live.html")]
struct RedriveLive {
    redrive: RedriveView,
}

/// What is dead for one reason.
struct Cause {
    link: String,
    code: String,
    queue: String,
    destination: String,
    messages: String,
    first: Moment,
    last: Moment,
}

/// A dead message.
struct Letter {
    id: i64,
    queue: String,
    at: Moment,
    attempt_no: u32,
    code: String,
    detail: String,
}

/// A redrive.
pub(super) struct RedriveView {
    id: i64,
    state: RedriveState,
    /// What is done to them, in words.
    done: &'static str,
    /// Which messages, in words.
    what: String,
    total: u64,
    moved: u64,
    skipped: u64,
    done_words: String,
    total_words: String,
    actor: String,
    reason: String,
    started: Moment,
    finished: Option<Moment>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct PreviewQuery {
    action: Option<String>,
    queue: Option<String>,
    code: Option<String>,
    limit: Option<String>,
    rate_per_second: Option<String>,
}

impl PreviewQuery {
    fn filter(&self) -> Result<Filter, Problem> {
        let filled = |text: &Option<String>| text.clone().filter(|text| !text.trim().is_empty());
        let code = filled(&self.code);
        let is_wrong = |code: &&String| code.len() > CODE_BYTES_MAX || code.contains('\0');
        if let Some(code) = code.as_ref().filter(is_wrong) {
            let why = format!("must be at most {CODE_BYTES_MAX} bytes without U+0000");
            return Err(Problem::out_of_bounds(
                "code",
                consign_kernel::quoted(code),
                &why,
            ));
        }
        Ok(Filter {
            queue: filled(&self.queue).map(|queue| queue.parse()).transpose()?,
            code,
            ..Filter::default()
        })
    }
}

impl Cause {
    fn new(view: CauseView, now: Timestamp) -> Self {
        let cause = view.cause;
        Self {
            link: format!(
                "/ui/dead?queue={}&code={}",
                cause.queue,
                encoded(&cause.code)
            ),
            code: cause.code,
            queue: cause.queue.to_string(),
            destination: view.destination.unwrap_or_default(),
            messages: count(cause.messages),
            first: Moment::new(cause.first_at, now),
            last: Moment::new(cause.last_at, now),
        }
    }
}

pub(super) async fn show(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    Params(fields): Params<QueryFields>,
) -> Result<Response, Problem> {
    let query = Query {
        state: None,
        ..fields.read((state.clock)())?
    };
    let choices = Choices {
        queue: true,
        state: false,
    };
    let shell = Shell::new("Dead letters", PATH, &caller);
    let queue = query.queue.as_ref().map(QueueName::to_string);
    let redrive = (queue.unwrap_or_default(), query.code.clone());
    let redrive = (redrive.0, redrive.1.unwrap_or_default());
    Ok(rendered(&DeadTemplate {
        shell: shell.with_done(fields.done.as_deref()),
        topic: (query == everything()).then(|| Topic::Dead.to_string()),
        filter: form(&state, &query, (PATH, "Dead letters"), choices).await?,
        bulk: Bulk::new(&query, PATH, Some(StateKind::Dead)),
        redrive: query.is_redrivable().then_some(redrive),
        live: live(&state, &query).await?,
    }))
}

/// The newest dead messages, whatever they are.
pub(super) fn everything() -> Query {
    Query::default()
}

/// The part that is kept up to date.
pub(super) async fn live(state: &AppState, query: &Query) -> Result<String, Problem> {
    let redrives = state.store.redrives(REDRIVES).await?;
    let now = (state.clock)();
    let redrives = redrives.into_iter().map(|it| RedriveView::new(it, now));
    let mut live = DeadLiveTemplate {
        causes: Vec::new(),
        letters: Vec::new(),
        older: None,
        found: None,
        redrives: redrives.collect(),
    };
    if !query.is_redrivable() {
        let dead = Query {
            state: Some(StateKind::Dead),
            ..query.clone()
        };
        live.found = Some(dead.find(state, PATH).await?);
        return text(&live);
    }
    let filter = query.filter();
    let page = state.store.dead(&filter, query.before, ROWS).await?;
    let grouped = state.store.dead_causes(&filter, GROUPED_MAX).await?;
    let causes = views(state, grouped).causes.into_iter();
    live.causes = causes.take(CAUSES).map(|it| Cause::new(it, now)).collect();
    live.letters = letters(page.items, now);
    let older = |next| Query {
        before: Some(next),
        ..query.clone()
    };
    live.older = page.next.map(|next| older(next).link(PATH));
    text(&live)
}

/// The preview of a redrive.
pub(super) async fn preview(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    Params(query): Params<PreviewQuery>,
) -> Result<Response, Problem> {
    let filter = query.filter()?;
    let plan = RedrivePlan {
        action: action(query.action.as_deref())?,
        queue: filter.queue.clone(),
        code: filter.code.clone(),
        rate_per_second: number("rate", query.rate_per_second.as_deref())?,
        limit: number("limit", query.limit.as_deref())?,
    };
    plan.validate()?;
    let preview = api::preview(&state, plan, SHOWN).await?;
    let rest = preview.count.saturating_sub(preview.samples.len() as u64);
    Ok(rendered(&Preview {
        action: preview.plan.action,
        done: done_word(preview.plan.action),
        shell: Shell::new("Redrive: preview", "/ui/dead", &caller),
        queue: filter.queue.map(String::from),
        code: filter.code,
        limit: preview.plan.limit,
        rate: preview.plan.rate_per_second,
        is_none: preview.count == 0,
        count: count(preview.count),
        or_more: preview.or_more,
        rest: (rest > 0).then(|| count(rest)),
        letters: letters(preview.samples, (state.clock)()),
    }))
}

fn number<T: std::str::FromStr>(what: &str, text: Option<&str>) -> Result<Option<T>, Problem> {
    let text = text.map(str::trim).filter(|text| !text.is_empty());
    let number = text.map(str::parse).transpose();
    let value = || consign_kernel::quoted(text.unwrap_or_default());
    number.map_err(|_| Problem::out_of_bounds(what, value(), "must be a whole number"))
}

fn action(word: Option<&str>) -> Result<RedriveAction, Problem> {
    let word = word.filter(|word| !word.is_empty());
    Ok(word.map(str::parse).transpose()?.unwrap_or_default())
}

fn done_word(action: RedriveAction) -> &'static str {
    match action {
        RedriveAction::Requeue => "requeued",
        RedriveAction::Discard => "discarded",
        RedriveAction::Cancel => "cancelled",
    }
}

/// Starts the previewed redrive.
pub(super) async fn start(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    form: Form,
) -> Result<Response, Problem> {
    let plan = RedrivePlan {
        action: action(form.get("action"))?,
        queue: form.get("queue").map(str::parse).transpose()?,
        code: form.get("code").map(str::to_owned),
        rate_per_second: form.number("rate_per_second")?,
        limit: form.number("limit")?,
    };
    let redrive = api::begin(&state, &plan, &by(&caller, form.reason())?).await?;
    Ok(see_other(&format!(
        "/ui/redrives/{}?done=redrive",
        redrive.id
    )))
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct DoneParams {
    done: Option<String>,
}

pub(super) async fn redrive(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    InPath(id): InPath<RedriveId>,
    Params(query): Params<DoneParams>,
) -> Result<Response, Problem> {
    let redrive = find_redrive(&state, id).await?;
    let shell = Shell::new(format!("Redrive {id}"), "/ui/dead", &caller);
    Ok(rendered(&RedrivePage {
        shell: shell.with_done(query.done.as_deref()),
        topic: Topic::Redrive(id).to_string(),
        live: redrive_live(&state, id).await?,
        redrive,
    }))
}

async fn find_redrive(state: &AppState, id: RedriveId) -> Result<RedriveView, Problem> {
    let redrive = state.store.redrive(id).await?;
    let unknown = || Problem::from(consign_kernel::Error::UnknownRedrive { id });
    Ok(RedriveView::new(
        redrive.ok_or_else(unknown)?,
        (state.clock)(),
    ))
}

/// The progress of a redrive.
pub(super) async fn redrive_live(state: &AppState, id: RedriveId) -> Result<String, Problem> {
    let redrive = find_redrive(state, id).await?;
    text(&RedriveLive { redrive })
}

pub(super) async fn stop(
    state: State<AppState>,
    caller: Extension<Caller>,
    InPath(id): InPath<RedriveId>,
    form: Form,
) -> Result<Response, Problem> {
    let reason = form.reason();
    let body = MaybeJson(ReasonBody { reason });
    let Json(redrive) = api::stop(state, caller, InPath(id), body).await?;
    Ok(see_other(&format!("/ui/redrives/{}?done=stop", redrive.id)))
}

pub(super) async fn resume(
    state: State<AppState>,
    caller: Extension<Caller>,
    InPath(id): InPath<RedriveId>,
    form: Form,
) -> Result<Response, Problem> {
    let reason = form.reason();
    let body = MaybeJson(ReasonBody { reason });
    let Json(redrive) = api::resume(state, caller, InPath(id), body).await?;
    Ok(see_other(&format!(
        "/ui/redrives/{}?done=resume",
        redrive.id
    )))
}

fn letters(letters: Vec<DeadLetter>, now: Timestamp) -> Vec<Letter> {
    let letters = letters.into_iter().map(|letter| Letter {
        id: letter.message_id.0,
        queue: letter.queue.to_string(),
        at: Moment::new(letter.at, now),
        attempt_no: letter.attempt_no,
        code: letter.code,
        detail: letter.detail.unwrap_or_default(),
    });
    letters.collect()
}

impl RedriveView {
    fn new(redrive: Redrive, now: Timestamp) -> Self {
        let RedrivePlan {
            action,
            queue,
            code,
            rate_per_second,
            limit,
        } = redrive.plan;
        let mut what = match queue {
            Some(queue) => format!("queue {queue}"),
            None => "all queues".to_owned(),
        };
        if let Some(code) = code {
            what.push_str(&format!(", code {code}"));
        }
        if let Some(limit) = limit {
            what.push_str(&format!(", at most {}", count(limit)));
        }
        if let Some(rate) = rate_per_second {
            what.push_str(&format!(", {} a second", count(rate.into())));
        }
        let total = redrive.total.min(limit.unwrap_or(u64::MAX));
        Self {
            id: redrive.id.0,
            state: redrive.state,
            done: done_word(action),
            what,
            total,
            moved: redrive.moved,
            skipped: redrive.skipped,
            done_words: count(redrive.moved),
            total_words: count(total),
            actor: redrive.by.actor,
            reason: redrive.by.reason,
            started: Moment::new(redrive.started_at, now),
            finished: redrive.finished_at.map(|at| Moment::new(at, now)),
        }
    }

    fn is_running(&self) -> bool {
        self.state == RedriveState::Running
    }

    fn is_stopped(&self) -> bool {
        self.state == RedriveState::Stopped
    }
}
