//! What all pages have in common.

use std::sync::Arc;

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
    gate::access::{Caller, NavigationEntry},
    problem::{Problem, internal},
};

/// The frame of a page: its title, its navigation, its visitor.
#[derive(Clone, Debug)]
pub struct Shell {
    pub(super) title: String,
    /// The path of the entry of the navigation that is current.
    pub(super) here: &'static str,
    pub(super) navigation: Arc<Vec<NavigationEntry>>,
    /// Whether the navigation is shown.
    pub(super) is_inside: bool,
    /// Who has logged in, where that is needed.
    pub(super) name: Option<String>,
    /// Whether they may act.
    pub may_operate: bool,
    /// What every form of the page sends in its field `csrf`.
    pub csrf: String,
    /// Whether something has been done just now.
    pub(super) has_acted: bool,
    /// What that was.
    pub(super) done: Option<&'static str>,
    pub(super) style: &'static str,
    pub(super) script: &'static str,
}

impl Shell {
    /// The frame of a page in the navigation at `here`.
    pub fn new(title: impl Into<String>, here: &'static str, caller: &Caller) -> Self {
        let visit = caller.visit.as_ref();
        Self {
            here,
            is_inside: true,
            navigation: Arc::clone(&caller.navigation),
            name: visit.and_then(|visit| visit.name.clone()),
            may_operate: visit.is_some_and(|visit| visit.may_operate),
            has_acted: visit.is_some_and(|visit| visit.has_acted),
            csrf: visit
                .and_then(|visit| visit.csrf.clone())
                .unwrap_or_default(),
            ..Self::plain(title)
        }
    }

    /// The frame of a page for an unknown visitor.
    pub(super) fn plain(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            here: "",
            is_inside: false,
            navigation: Arc::default(),
            name: None,
            may_operate: false,
            csrf: String::new(),
            has_acted: false,
            done: None,
            style: &STYLE.path,
            script: &SCRIPT.path,
        }
    }

    /// The same with the result of an action, if it was done: a link alone proves nothing.
    pub(super) fn with_done(self, word: Option<&str>) -> Self {
        Self {
            done: word.filter(|_| self.has_acted).and_then(done),
            ..self
        }
    }
}

/// The text for an action's name in the address.
fn done(word: &str) -> Option<&'static str> {
    Some(match word {
        "requeue" => "Requeued: it has a fresh set of tries.",
        "discard" => "Discarded: it is never delivered.",
        "cancel" => "Cancelled: it is never sent.",
        "erase" => "Erased: its content is gone.",
        "resend" => "Sent again: this is the copy.",
        "hold" => "Held.",
        "unhold" => "Put back.",
        "resolve" => "Resolved.",
        "pause" => "Paused: nothing is claimed from this queue.",
        "resume" => "Resumed.",
        "pause_schedule" => "Paused: its ticks are missed until it is resumed.",
        "resume_schedule" => "Resumed: the next tick is on.",
        "run_schedule" => "Enqueued a message beside the ticks.",
        "paused_before" => "Nothing was done: this queue was paused already.",
        "resumed_before" => "Nothing was done: this queue was resumed already.",
        "redrive" => "Started.",
        "acknowledge" => "Acknowledged: it is listed last until its time ends.",
        "reopen" => "Reopened.",
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

/// A page of an app: `main` in the frame.
pub fn page(shell: Shell, main: &impl Template) -> Response {
    match text(main) {
        Ok(main) => rendered(&AppPage { shell, main }),
        Err(problem) => problem.into_response(),
    }
}

#[derive(Template)]
#[template(path = "app.html")]
struct AppPage {
    shell: Shell,
    main: String,
}

/// A part of a page.
pub fn text(part: &impl Template) -> Result<String, Problem> {
    let text = part.render();
    text.map_err(|error| internal(format!("a page cannot be rendered: {error}")))
}

/// Redirects for shortened addresses.
pub(super) async fn front() -> Response {
    see_other("/")
}

/// The address for revealing a payload shows none: revealing needs a reason, and is recorded.
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
