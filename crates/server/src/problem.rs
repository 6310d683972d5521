//! Errors as answers: RFC 9457 problem details with a stable code.

use std::{sync::Arc, time::Duration};

use axum::{
    body::Body,
    http::{HeaderName, HeaderValue, header},
    response::{IntoResponse, Response},
};
use consign_kernel::{Certainty, Error, with_causes};
use serde_json::{Map, Value, json};

pub mod codes;
mod flat;

use codes::Meaning;
pub use flat::{Flat, flat_code};

use crate::extension::Extension;

/// When to come back after a failure that may pass by itself.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// How a route renders its problems.
#[derive(Clone, Copy, Debug)]
pub enum ErrorFormat {
    /// Problem details.
    Problem,
    /// `{"error", "message"}`, with codes in capitals.
    Flat,
    /// An app's own; codes are in capitals too.
    Custom(fn(Problem) -> Response),
    /// A page for people.
    Page,
}

impl ErrorFormat {
    /// The format of a path without a route: that of the app which has the paths around it.
    pub(crate) fn of_path(path: &str, extensions: &[Arc<dyn Extension>]) -> Self {
        if path == "/ui" || path.starts_with("/ui/") {
            return Self::Page;
        }
        let mut formats = extensions.iter().filter_map(|it| it.error_format(path));
        formats.next().unwrap_or(Self::Problem)
    }

    pub(crate) fn is_page(self) -> bool {
        matches!(self, Self::Page)
    }

    /// A code in the format's spelling.
    pub(crate) fn code(self, meaning: &Meaning) -> String {
        match self {
            Self::Problem | Self::Page => meaning.code.to_owned(),
            Self::Flat | Self::Custom(_) => flat_code(meaning),
        }
    }
}

/// An error answer.
#[derive(Clone, Debug)]
pub struct Problem {
    /// Which, with its status.
    pub meaning: &'static Meaning,
    /// What happened, for people.
    pub detail: String,
    context: Map<String, Value>,
    headers: Vec<(HeaderName, HeaderValue)>,
    /// For the log only.
    cause: Option<String>,
}

/// Facts that every problem of a request carries; an app puts them onto the request before the gate.
#[derive(Clone, Debug, Default)]
pub struct ProblemFacts(pub Map<String, Value>);

/// The text for the log about a failed request; an extension of the response.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) code: &'static str,
    pub(crate) cause: String,
}

/// The problem of an answer, for layers that render it otherwise; an extension of the response.
#[derive(Clone, Debug)]
pub(crate) struct ProblemExtension(pub(crate) Box<Problem>);

impl Problem {
    /// A problem of this kind.
    pub fn new(meaning: &'static Meaning, detail: impl Into<String>) -> Self {
        Self {
            meaning,
            detail: detail.into(),
            context: Map::new(),
            headers: Vec::new(),
            cause: None,
        }
    }

    /// The same with one more fact for programs.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.context.insert(name.to_owned(), value.into());
        self
    }

    /// The same with a header. Values that no header can carry are left out.
    #[must_use]
    pub fn with_header(mut self, name: HeaderName, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.push((name, value));
        }
        self
    }

    /// The same, to be tried again after `delay`, rounded up to whole seconds.
    #[must_use]
    pub fn retry_after(self, delay: Duration) -> Self {
        let seconds = delay.as_millis().div_ceil(1_000).max(1);
        self.with_header(header::RETRY_AFTER, &seconds.to_string())
    }

    /// The same with a text for the log.
    #[must_use]
    pub fn caused_by(mut self, cause: impl Into<String>) -> Self {
        self.cause = Some(cause.into());
        self
    }

    /// An argument that cannot be accepted.
    pub fn invalid(what: &str, why: &str) -> Self {
        Self::new(codes::INVALID_INPUT, format!("{what}: {why}")).with("what", what)
    }

    /// An argument whose value is out of bounds. `value` is a number or a quoted text.
    pub fn out_of_bounds(what: &str, value: impl std::fmt::Display, bounds: &str) -> Self {
        Self::invalid(what, &format!("is {value}; {bounds}"))
    }

    /// A message that does not exist.
    pub(crate) fn no_such_message(id: consign_kernel::MessageId) -> Self {
        Self::new(
            codes::NO_SUCH_MESSAGE,
            format!("message {id} does not exist"),
        )
        .with("id", json!(id))
    }

    /// The same with facts about its request.
    pub(crate) fn with_facts(mut self, facts: Option<ProblemFacts>) -> Self {
        if let Some(ProblemFacts(facts)) = facts {
            self.context.extend(facts);
        }
        self
    }

    /// A fact of this name.
    pub fn fact(&self, name: &str) -> Option<&Value> {
        self.context.get(name)
    }

    /// Whether the request may succeed when it is repeated.
    pub fn is_retryable(&self) -> bool {
        let mut names = self.headers.iter().map(|(name, _)| name);
        names.any(|name| *name == header::RETRY_AFTER)
    }

    /// The answer in a route's format.
    pub fn render(self, format: ErrorFormat) -> Response {
        match format {
            // `refusal` renders it as a page.
            ErrorFormat::Problem | ErrorFormat::Page => self.into_response(),
            ErrorFormat::Flat => Flat::from(self).into_response(),
            ErrorFormat::Custom(render) => render(self),
        }
    }

    fn body(&self) -> Value {
        let mut body = self.context.clone();
        let Meaning {
            code,
            status,
            title,
            ..
        } = *self.meaning;
        body.insert("type".into(), format!("/problems/{code}").into());
        body.insert("title".into(), title.into());
        body.insert("status".into(), status.as_u16().into());
        body.insert("detail".into(), self.detail.clone().into());
        body.insert("code".into(), code.into());
        Value::Object(body)
    }
}

impl Problem {
    /// The answer with a body of another contract.
    pub fn with_body(self, body: &Value) -> Response {
        self.answer("application/json", body)
    }

    fn answer(self, kind: &'static str, body: &Value) -> Response {
        let mut response = Response::new(Body::from(body.to_string()));
        *response.status_mut() = self.meaning.status;
        let kind = HeaderValue::from_static(kind);
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        response.headers_mut().extend(self.headers);
        response.extensions_mut().insert(Failure {
            code: self.meaning.code,
            cause: self.cause.unwrap_or(self.detail),
        });
        response
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = self.body();
        let unworded = ProblemExtension(Box::new(self.clone()));
        let mut response = self.answer("application/problem+json", &body);
        response.extensions_mut().insert(unworded);
        response
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let meaning = codes::of_store(&error);
        let problem = Self::new(meaning, error.to_string()).caused_by(with_causes(&error));
        match error {
            Error::UnknownQueue { queue, suggestion } => unknown_queue(problem, queue, suggestion),
            Error::UnknownRedrive { id } => Self {
                detail: format!(
                    "redrive {id} does not exist; GET /v1/redrives lists existing ones"
                ),
                ..problem
            },
            Error::UnknownSchedule { name } => Self {
                detail: format!(
                    "schedule {name} does not exist; GET /v1/schedules lists existing ones"
                ),
                ..problem
            },
            Error::KeyConflict { queue, key, id } => problem
                .with("queue", queue.as_str())
                .with("key", key)
                .with("id", json!(id)),
            Error::PayloadTooLarge {
                index,
                queue,
                bytes,
                bytes_max,
            } => problem
                .with("index", index)
                .with("queue", queue.as_str())
                .with("bytes", bytes)
                .with("bytes_max", bytes_max),
            Error::InvalidInput { what, .. } => problem.with("what", what),
            Error::QueueNotEmpty { queue } => problem.with("queue", queue.as_str()),
            Error::Schema {
                component,
                found,
                needed,
                ..
            } => problem
                .with("component", component)
                .with("found", found)
                .with("needed", needed),
            Error::Unavailable { certainty, .. } => unavailable(problem, certainty),
            Error::Locked { .. } => problem.with("outcome", "not_done").retry_after(RETRY_AFTER),
            // The database's own message is for the log, not for callers.
            Error::Forbidden { .. } | Error::Corrupt { .. } => Self {
                detail: meaning.title.to_owned(),
                ..problem
            },
            _ => problem,
        }
    }
}

/// A caller of the API may not have the command line.
fn unknown_queue(problem: Problem, queue: String, suggestion: Option<String>) -> Problem {
    let near = suggestion.as_ref();
    let near = near.map(|name| format!(" (did you mean {name:?}?)"));
    let detail = format!(
        "queue {queue:?} does not exist{}; GET /v1/queues lists existing ones, PUT /v1/queues/{queue} \
         creates it. A queue of a configuration file exists once `consign serve` or `consign work` \
         has started with that file",
        near.unwrap_or_default()
    );
    Problem { detail, ..problem }
        .with("queue", queue)
        .with("suggestion", suggestion)
}

fn unavailable(problem: Problem, certainty: Certainty) -> Problem {
    let (outcome, more) = match certainty {
        Certainty::Definite => ("not_done", "nothing was written"),
        Certainty::Unknown => (
            "unknown",
            "it may have happened all the same; repeat it with the same key or token to find out",
        ),
    };
    Problem {
        detail: format!("{}; {more}", problem.detail),
        ..problem
    }
    .with("outcome", outcome)
    .retry_after(RETRY_AFTER)
}

/// A defect: the answer has no details.
pub fn internal(cause: impl Into<String>) -> Problem {
    let detail = "the request failed because of a defect in the server; its log has more";
    Problem::new(codes::INTERNAL, detail).caused_by(cause)
}
