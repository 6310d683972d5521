//! What all pages have in common.

use askama::Template;
use axum::{
    body::Body,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};

use consign_kernel::MessageId;

use super::assets::{SCRIPT, STYLE};
use crate::{
    extract::InPath,
    gate::access::Caller,
    problem::{Problem, internal},
};

/// The frame of a page: its title, its navigation, who looks at it.
#[derive(Clone, Debug)]
pub(super) struct Shell {
    pub(super) title: String,
    /// The path of the entry of the navigation that is current.
    pub(super) here: &'static str,
    /// Whether the navigation is shown.
    pub(super) is_inside: bool,
    /// Who has logged in, where that is needed.
    pub(super) name: Option<String>,
    pub(super) may_operate: bool,
    pub(super) csrf: String,
    /// Whether something has been done just now.
    pub(super) has_acted: bool,
    /// What that was.
    pub(super) done: Option<&'static str>,
    pub(super) style: &'static str,
    pub(super) script: &'static str,
}

impl Shell {
    pub(super) fn new(title: impl Into<String>, here: &'static str, caller: &Caller) -> Self {
        let visit = caller.visit.as_ref();
        Self {
            here,
            is_inside: true,
            name: visit.and_then(|visit| visit.name.clone()),
            may_operate: visit.is_some_and(|visit| visit.may_operate),
            has_acted: visit.is_some_and(|visit| visit.has_acted),
            csrf: visit
                .and_then(|visit| visit.csrf.clone())
                .unwrap_or_default(),
            ..Self::plain(title)
        }
    }

    /// The frame of a page for whom nothing is known of.
    pub(super) fn plain(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            here: "",
            is_inside: false,
            name: None,
            may_operate: false,
            csrf: String::new(),
            has_acted: false,
            done: None,
            style: &STYLE.path,
            script: &SCRIPT.path,
        }
    }

    /// The same, saying what has been done, if it has been: anybody can make a link.
    pub(super) fn with_done(self, word: Option<&str>) -> Self {
        Self {
            done: word.filter(|_| self.has_acted).and_then(done),
            ..self
        }
    }
}

/// What an action's word in the address says.
fn done(word: &str) -> Option<&'static str> {
    Some(match word {
        "requeue" => "Requeued: it has a fresh set of tries.",
        "hold" => "Held.",
        "unhold" => "Put back.",
        "resolve" => "Resolved.",
        "pause" => "Paused: nothing is claimed from this queue.",
        "resume" => "Resumed.",
        "paused_before" => "Nothing was done: somebody has paused this queue already.",
        "resumed_before" => "Nothing was done: somebody has resumed this queue already.",
        "redrive" => "Started.",
        "stop" => "Stopped.",
        _ => return None,
    })
}

/// A page as an answer.
pub(super) fn rendered(page: &impl Template) -> Response {
    match page.render() {
        Ok(text) => {
            let mut response = Response::new(Body::from(text));
            let html = HeaderValue::from_static("text/html; charset=utf-8");
            response.headers_mut().insert(header::CONTENT_TYPE, html);
            response
        }
        Err(error) => internal(format!("a page cannot be rendered: {error}")).into_response(),
    }
}

/// A part of a page.
pub(super) fn text(part: &impl Template) -> Result<String, Problem> {
    let text = part.render();
    text.map_err(|error| internal(format!("a page cannot be rendered: {error}")))
}

/// Whoever shortens the address of a page.
pub(super) async fn front() -> Response {
    see_other("/")
}

/// The address of a look at a payload shows none: looking takes a reason, and is kept on record.
pub(super) async fn hidden(InPath(id): InPath<MessageId>) -> Response {
    see_other(&format!("/ui/messages/{id}"))
}

/// Sends the browser to look at another page.
pub(super) fn see_other(path: &str) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SEE_OTHER;
    let path = HeaderValue::from_str(path).unwrap_or(HeaderValue::from_static("/"));
    response.headers_mut().insert(header::LOCATION, path);
    response
}
