//! Errors as pages, and the headers of every page.

use std::sync::OnceLock;

use askama::Template;
use axum::{
    extract::Request,
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header, request::Parts},
    response::Response,
};

use super::{
    form::{Form, encoded},
    shell::{self, Shell},
};
use crate::{
    gate::pages::is_own_form,
    problem::{Problem, ProblemExtension, codes},
};

/// Pages take nothing from elsewhere and run nothing but our own script, whatever a message has in
/// it.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// A request, as far as an answer in words needs it.
#[derive(Debug)]
pub(crate) struct RequestInfo {
    /// Where to go back to, also after a login.
    path: String,
    /// Where a form was sent to; none for a link.
    action: Option<String>,
    /// Whether the answer is shown in a browser.
    by_person: bool,
    /// The reason in the form.
    reason: OnceLock<String>,
}

#[derive(Template)]
#[template(path = "refused.html")]
struct RefusalTemplate<'p> {
    shell: Shell,
    status: u16,
    code: &'p str,
    title: &'p str,
    detail: &'p str,
    remedy: &'p str,
    back: &'p str,
    action: Option<&'p str>,
    reason: Option<&'p str>,
    /// The login page, if another token would help.
    login: Option<String>,
}

impl RequestInfo {
    pub(crate) fn new(request: &Request) -> Self {
        let accept = request.headers().get(header::ACCEPT);
        let path = match *request.method() {
            Method::GET => request.uri().path_and_query().map(|path| path.as_str()),
            // Forms go to paths without a page, mostly one below that of theirs.
            _ => request.uri().path().rsplit_once('/').map(|(page, _)| page),
        };
        Self {
            path: path.unwrap_or("/").to_owned(),
            action: (request.method() != Method::GET).then(|| request.uri().path().to_owned()),
            reason: OnceLock::new(),
            by_person: accept.is_none_or(|accept| accept != "text/event-stream"),
        }
    }

    /// Remembers the reason in a form, to show it again if the form is rejected.
    pub(crate) fn keep(&self, request: &Parts, bytes: &[u8]) {
        if !is_own_form(request) {
            return;
        }
        let form = Form::read(&request.headers, bytes).ok();
        if let Some(reason) = form.and_then(|form| form.reason()) {
            self.reason.get_or_init(|| reason);
        }
    }

    /// The answer with the headers of every page; a problem is rendered as a page.
    pub(crate) fn answered(&self, mut response: Response) -> Response {
        if self.by_person
            && let Some(ProblemExtension(problem)) =
                response.extensions_mut().remove::<ProblemExtension>()
        {
            response = self.reworded(&problem, response);
        }
        set_headers(response.headers_mut());
        response
    }

    fn reworded(&self, problem: &Problem, response: Response) -> Response {
        let (mut parts, _) = response.into_parts();
        let code = problem.meaning.code;
        let is = |other: &codes::Meaning| code == other.code;
        let login = format!("/ui/login?next={}", encoded(&self.path));
        let elsewhere = match self.action.as_deref() {
            None if is(codes::UNAUTHORIZED) => Some(&*login),
            // A login form that was open for long is still accepted.
            Some("/ui/login") if is(codes::CSRF_MISMATCH) => Some("/ui/login?why=old"),
            _ => None,
        };
        if let Some(place) = elsewhere {
            let mut other = shell::see_other(place);
            *other.extensions_mut() = parts.extensions;
            return other;
        }
        let mut page = RefusalTemplate {
            shell: Shell::plain("Not done"),
            status: problem.meaning.status.as_u16(),
            code,
            title: problem.meaning.title,
            detail: &problem.detail,
            remedy: problem.meaning.remedy,
            back: &self.path,
            action: self.action.as_deref(),
            reason: self.reason.get().map(String::as_str),
            login: None,
        };
        if is(codes::UNAUTHORIZED) {
            page.title = "Your session has ended";
            page.detail = "Nothing was done.";
            page.remedy = "log in again and send the form once more";
            page.login = Some(login);
        } else if is(codes::SCOPE_MISSING) || is(codes::TENANT_BOUND) {
            page.login = Some(format!("{login}&other=1"));
        }
        let mut worded = shell::rendered(&page);
        parts.headers.remove(header::CONTENT_TYPE);
        parts.headers.remove(header::CONTENT_LENGTH);
        worded.headers_mut().extend(parts.headers);
        if worded.status() == StatusCode::OK {
            *worded.status_mut() = parts.status;
        }
        worded.extensions_mut().extend(parts.extensions);
        worded
    }
}

fn set_headers(headers: &mut HeaderMap) {
    let permissions = HeaderName::from_static("permissions-policy");
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // Not `no-referrer`: browsers would then send `Origin: null` with our own forms.
        (header::REFERRER_POLICY, "same-origin"),
        (permissions, "camera=(), geolocation=(), microphone=()"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
}

/// Sets a cookie, unless the answer sets one by itself.
pub(crate) fn with_cookie(headers: &mut HeaderMap, cookie: &str) {
    if headers.contains_key(header::SET_COOKIE) {
        return;
    }
    if let Ok(cookie) = HeaderValue::from_str(cookie) {
        headers.append(header::SET_COOKIE, cookie);
    }
}
