//! Lists of messages: by queue and state, or by a search; page by page.

use askama::Template;
use axum::{Extension, extract::State, response::Response};
use consign_kernel::{Cursor, Filter, MessageId, MessageSummary, QueueName, StateKind};
use jiff::Timestamp;
use serde::Deserialize;

use super::{
    form::encoded,
    shell::{Shell, rendered},
    words::Moment,
};
use crate::{extract::Params, gate::access::Caller, problem::Problem, state::AppState};

const ROWS: u32 = 50;

/// A filter of messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Query {
    pub(super) queue: Option<QueueName>,
    pub(super) state: Option<StateKind>,
    /// An id, a key, a correlation id or a code.
    pub(super) q: Option<String>,
    pub(super) before: Option<Cursor>,
}

/// Messages, and where there are more.
#[derive(Debug, Template)]
#[template(path = "rows.html")]
pub(super) struct MessageSlice {
    rows: Vec<Row>,
    older: Option<String>,
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
}

impl Query {
    pub(super) fn new(
        queue: Option<QueueName>,
        state: Option<&str>,
        q: Option<String>,
        before: Option<i64>,
    ) -> Result<Self, Problem> {
        let state = state.filter(|word| !word.is_empty());
        let q = q.map(|q| q.trim().to_owned()).filter(|q| !q.is_empty());
        Ok(Self {
            queue,
            state: state.map(str::parse).transpose()?,
            q,
            before: before.map(MessageId),
        })
    }

    /// Whether it shows the newest messages, which change by themselves.
    pub(super) fn is_newest(&self) -> bool {
        self.q.is_none() && self.before.is_none()
    }

    /// The messages; `path` is the page's.
    pub(super) async fn find(&self, state: &AppState, path: &str) -> Result<MessageSlice, Problem> {
        let (listed, next) = match &self.q {
            Some(q) => self.look_for(state, q).await?,
            None => {
                let filter = Filter {
                    queue: self.queue.clone(),
                    state: self.state,
                    ..Filter::default()
                };
                let page = state.store.list(&filter, self.before, ROWS).await?;
                (page.items, page.next)
            }
        };
        let now = (state.clock)();
        Ok(MessageSlice {
            rows: listed
                .into_iter()
                .map(|listed| Row::new(listed, now))
                .collect(),
            older: next.map(|next| self.older(path, next)),
        })
    }

    /// By id, by key, by correlation id, and by the code that dead ones have: all of them by id.
    async fn look_for(
        &self,
        state: &AppState,
        q: &str,
    ) -> Result<(Vec<MessageSummary>, Option<Cursor>), Problem> {
        if q.contains('\0') {
            return Ok((Vec::new(), None));
        }
        let mut found: Vec<MessageSummary> = self.by_id(state, q).await?.into_iter().collect();
        let filter = Filter {
            queue: self.queue.clone(),
            state: self.state,
            ..Filter::default()
        };
        let text = || Some(q.to_owned());
        let ways = [
            Filter {
                key: text(),
                ..filter.clone()
            },
            Filter {
                correlation_id: text(),
                ..filter.clone()
            },
            Filter {
                code: text(),
                ..filter
            },
        ];
        // Each search has returned its matches down to some id; what lies below the highest of those is
        // for the next page.
        let mut horizon: Option<Cursor> = None;
        for way in &ways {
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

    async fn by_id(&self, state: &AppState, q: &str) -> Result<Option<MessageSummary>, Problem> {
        let Ok(id) = q.parse().map(MessageId) else {
            return Ok(None);
        };
        if self.before.is_some_and(|before| id >= before) {
            return Ok(None);
        }
        let Some(it) = state.store.explain(id).await? else {
            return Ok(None);
        };
        let kind = it.state.kind();
        let (code, detail) = match it.state {
            consign_kernel::State::Dead { code, detail, .. } => (Some(code), detail),
            _ => (None, None),
        };
        let is_wanted = self.queue.as_ref().is_none_or(|l| *l == it.message.queue)
            && self.state.is_none_or(|state| state == kind);
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

    fn older(&self, path: &str, next: Cursor) -> String {
        let mut link = format!("{path}?before={next}");
        if let Some(state) = self.state {
            link.push_str(&format!("&state={state}"));
        }
        if let Some(q) = &self.q {
            link.push_str(&format!("&q={}", encoded(q)));
        }
        link
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
        }
    }
}

#[derive(Template)]
#[template(path = "messages.html")]
struct Messages {
    shell: Shell,
    q: String,
    states: Vec<(&'static str, bool)>,
    found: MessageSlice,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct MessagesQuery {
    state: Option<String>,
    q: Option<String>,
    before: Option<i64>,
}

pub(super) async fn show(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    Params(query): Params<MessagesQuery>,
) -> Result<Response, Problem> {
    let wanted = Query::new(None, query.state.as_deref(), query.q, query.before)?;
    let states = StateKind::ALL.map(|kind| (kind.as_str(), wanted.state == Some(kind)));
    Ok(rendered(&Messages {
        shell: Shell::new("Messages", "/ui/messages", &caller),
        found: wanted.find(&state, "/ui/messages").await?,
        q: wanted.q.unwrap_or_default(),
        states: states.to_vec(),
    }))
}
