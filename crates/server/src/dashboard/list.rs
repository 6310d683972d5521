//! Lists of messages: by queue and state, or by a search; page by page.

use askama::Template;
use axum::{Extension, extract::State, response::Response};
use consign_kernel::{Cursor, Filter, MessageId, MessageSummary, StateKind};
use jiff::Timestamp;

use super::{
    bulk::Bulk,
    query::{Choices, Query, QueryFields, form},
    shell::{Shell, rendered},
    words::Moment,
};
use crate::{extract::Params, gate::access::Caller, problem::Problem, state::AppState};

const ROWS: u32 = 50;

/// Messages, and where there are more.
#[derive(Debug, Template)]
#[template(path = "rows.html")]
pub(super) struct MessageSlice {
    rows: Vec<Row>,
    older: Option<String>,
    /// Whether they may be of several queues.
    has_queues: bool,
    /// Whether a filter may be why there is nothing.
    is_filtered: bool,
}

#[derive(Debug)]
struct Row {
    id: i64,
    queue: String,
    key: String,
    group: String,
    state: StateKind,
    created: Moment,
    attempts: u32,
    erased: bool,
    code: String,
    detail: String,
}

impl Query {
    /// The messages; `path` is the page's.
    pub(super) async fn find(&self, state: &AppState, path: &str) -> Result<MessageSlice, Problem> {
        let ways = self.ways(state);
        let (listed, next) = match (&self.q, &ways[..]) {
            (Some(q), _) if q.contains('\0') => (Vec::new(), None),
            (None, [way]) => {
                let page = state.store.list(way, self.before, ROWS).await?;
                (page.items, page.next)
            }
            _ => self.merged(state, &ways).await?,
        };
        let now = (state.clock)();
        let older = |next| {
            let query = Self {
                before: Some(next),
                ..self.clone()
            };
            query.link(path)
        };
        Ok(MessageSlice {
            rows: listed
                .into_iter()
                .map(|listed| Row::new(listed, now))
                .collect(),
            older: next.map(older),
            has_queues: self.queue.is_none(),
            is_filtered: !self.is_newest() || self.state.is_some(),
        })
    }

    /// What any of the filters finds, and the message whose id is the word: all of them by id.
    async fn merged(
        &self,
        state: &AppState,
        ways: &[Filter],
    ) -> Result<(Vec<MessageSummary>, Option<Cursor>), Problem> {
        let mut found: Vec<MessageSummary> = self.by_id(state).await?.into_iter().collect();
        // Each search has returned its matches down to some id; what lies below the highest of those is
        // for the next page.
        let mut horizon: Option<Cursor> = None;
        for way in ways {
            let page = state.store.list(way, self.before, ROWS).await?;
            horizon = horizon.max(page.next);
            found.extend(page.items);
        }
        found.retain(|listed| horizon.is_none_or(|horizon| listed.id >= horizon));
        found.sort_by_key(|listed| std::cmp::Reverse(listed.id));
        found.dedup_by_key(|listed| listed.id);
        if found.len() > ROWS as usize {
            found.truncate(ROWS as usize);
            horizon = found.last().map(|listed| listed.id);
        }
        Ok((found, horizon))
    }

    async fn by_id(&self, state: &AppState) -> Result<Option<MessageSummary>, Problem> {
        let id = self.q.as_deref().and_then(|q| q.parse().ok());
        let id = id.map(MessageId);
        let Some(id) = id.filter(|id| self.before.is_none_or(|before| *id < before)) else {
            return Ok(None);
        };
        let Some(it) = state.store.explain(id).await? else {
            return Ok(None);
        };
        let filter = self.filter();
        let kind = it.state.kind();
        let (code, detail) = match it.state {
            consign_kernel::State::Dead { code, detail, .. } => (Some(code), detail),
            _ => (None, None),
        };
        let is_wanted = filter.covers(&it.message)
            && self.destination.is_none()
            && filter.wanted_state().is_none_or(|state| state == kind)
            && (filter.code.is_none() || filter.code == code);
        Ok(is_wanted.then_some(MessageSummary {
            id,
            state: kind,
            queue: it.message.queue,
            key: it.message.key,
            group: it.message.group,
            created_at: it.message.created_at,
            expires_at: it.message.expires_at,
            attempts: it.attempts,
            code,
            detail,
            erased: it.erased.is_some(),
        }))
    }
}

impl Row {
    fn new(listed: MessageSummary, now: Timestamp) -> Self {
        Self {
            id: listed.id.0,
            queue: listed.queue.to_string(),
            key: listed.key.unwrap_or_default(),
            group: listed.group.unwrap_or_default(),
            state: listed.state,
            created: Moment::new(listed.created_at, now),
            attempts: listed.attempts,
            erased: listed.erased,
            code: listed.code.unwrap_or_default(),
            detail: listed.detail.unwrap_or_default(),
        }
    }
}

#[derive(Template)]
#[template(path = "messages.html")]
struct Messages {
    shell: Shell,
    filter: String,
    bulk: Bulk,
    found: MessageSlice,
}

pub(super) async fn show(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    Params(fields): Params<QueryFields>,
) -> Result<Response, Problem> {
    let path = "/ui/messages";
    let query = fields.read((state.clock)())?;
    let choices = Choices {
        queue: true,
        state: true,
    };
    Ok(rendered(&Messages {
        shell: Shell::new("Messages", path, &caller),
        filter: form(&state, &query, (path, "Messages"), choices).await?,
        bulk: Bulk::new(&query, path, query.filter().wanted_state()),
        found: query.find(&state, path).await?,
    }))
}
