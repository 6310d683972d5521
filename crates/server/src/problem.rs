//! Errors as answers: RFC 9457 problem details with a stable code.

use std::time::Duration;

use axum::{
    body::Body,
    http::{HeaderName, HeaderValue, header},
    response::{IntoResponse, Response},
};
use consign_kernel::{Certainty, Error, with_causes};
use consign_memory::Correlation;
use serde_json::{Map, Value, json};

mod agents;
pub(crate) mod codes;
mod flat;

use codes::Meaning;
pub(crate) use flat::{Flat, flat_code};

/// When to come back after a failure that may pass by itself.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// How a route words what went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Voice {
    /// Problem details.
    Problem,
    /// `{"error", "message"}`, as the contracts of orders and payments want it.
    Flat,
    /// `{"ok": false, "error", "error_code", "correlation_id"}`, as agents are answered.
    Agents,
    /// A page for people.
    Page,
}

impl Voice {
    /// Whoever speaks such a contract is answered in its words, at whatever path below it.
    pub(crate) fn of_path(path: &str) -> Self {
        let is_below = |roots: &[&str]| roots.iter().any(|root| path.starts_with(root));
        if path == "/ui" || is_below(&["/ui/"]) {
            return Self::Page;
        }
        if is_below(&["/do/", "/v1/payments"]) {
            return Self::Flat;
        }
        match is_below(&["/mcp", "/memory/", "/reliability/", "/governance/"]) {
            true => Self::Agents,
            false => Self::Problem,
        }
    }
}

/// An answer that says what went wrong.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    pub(crate) meaning: &'static Meaning,
    pub(crate) detail: String,
    context: Map<String, Value>,
    headers: Vec<(HeaderName, HeaderValue)>,
    /// For the log only.
    cause: Option<String>,
}

/// What the log says about a failed request; travels with the response.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) code: &'static str,
    pub(crate) cause: String,
}

/// The problem that an answer tells of, for who words it otherwise; travels with the response.
#[derive(Clone, Debug)]
pub(crate) struct Unworded(pub(crate) Box<Problem>);

impl Problem {
    pub(crate) fn new(meaning: &'static Meaning, detail: impl Into<String>) -> Self {
        Self {
            meaning,
            detail: detail.into(),
            context: Map::new(),
            headers: Vec::new(),
            cause: None,
        }
    }

    /// The same with one more fact for programs.
    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.context.insert(name.to_owned(), value.into());
        self
    }

    /// The same with a header. Values that no header can carry are left out.
    pub(crate) fn with_header(mut self, name: HeaderName, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.push((name, value));
        }
        self
    }

    /// The same, to be tried again after `delay`, rounded up to whole seconds.
    pub(crate) fn retry_after(self, delay: Duration) -> Self {
        let seconds = delay.as_millis().div_ceil(1_000).max(1);
        self.with_header(header::RETRY_AFTER, &seconds.to_string())
    }

    /// The same with what the log should say about it.
    pub(crate) fn caused_by(mut self, cause: impl Into<String>) -> Self {
        self.cause = Some(cause.into());
        self
    }

    /// An argument that cannot be accepted.
    pub(crate) fn invalid(what: &str, why: &str) -> Self {
        Self::new(codes::INVALID_INPUT, format!("{what}: {why}")).with("what", what)
    }

    /// A message that does not exist.
    pub(crate) fn no_such_message(id: consign_kernel::MessageId) -> Self {
        Self::new(codes::NO_SUCH_MESSAGE, format!("there is no message {id}")).with("id", json!(id))
    }

    /// The same with the name of the request, where it has one.
    pub(crate) fn in_request(self, correlation: Option<&Correlation>) -> Self {
        match correlation {
            Some(correlation) => self.with("correlation_id", correlation.as_str()),
            None => self,
        }
    }

    /// The answer in the route's own words.
    pub(crate) fn in_voice(self, voice: Voice) -> Response {
        match voice {
            // Whoever asked makes a page of it: `refusal`.
            Voice::Problem | Voice::Page => self.into_response(),
            Voice::Flat => Flat::from(self).into_response(),
            Voice::Agents => agents::answer(self),
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
    pub(crate) fn with_body(self, body: &Value) -> Response {
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
        let unworded = Unworded(Box::new(self.clone()));
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
                    "redrive {id} does not exist; GET /v1/redrives lists those there are"
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
            // What the database says of itself is for the log, not for whoever calls.
            Error::Forbidden { .. } | Error::Corrupt { .. } => Self {
                detail: meaning.title.to_owned(),
                ..problem
            },
            _ => problem,
        }
    }
}

/// Who calls may have other means than the command line.
fn unknown_queue(problem: Problem, queue: String, suggestion: Option<String>) -> Problem {
    let near = suggestion.as_ref();
    let near = near.map(|name| format!(" (did you mean {name:?}?)"));
    let detail = format!(
        "queue {queue:?} does not exist{}; GET /v1/queues lists those there are, PUT /v1/queues/{queue} \
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

/// A defect: the client is told nothing but that.
pub(crate) fn internal(cause: impl Into<String>) -> Problem {
    let detail = "the request failed because of a defect in the server; its log has more";
    Problem::new(codes::INTERNAL, detail).caused_by(cause)
}
