//! What goes wrong, as a page; and what every page tells its browser.

use askama::Template;
use axum::{
    extract::Request,
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header},
    response::Response,
};

use super::{
    form::encoded,
    shell::{self, Shell},
};
use crate::problem::{Problem, Unworded, codes};

/// Pages take nothing from elsewhere and run nothing but our own script, whatever a message has in
/// it.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// A request, as far as an answer in words needs it.
#[derive(Debug)]
pub(crate) struct Asked {
    /// Where to go back to after a login.
    path: String,
    /// Whether a person looks at the answer.
    by_person: bool,
}

#[derive(Template)]
#[template(path = "refused.html")]
struct Refused<'p> {
    shell: Shell,
    status: u16,
    code: &'p str,
    title: &'p str,
    detail: &'p str,
    remedy: &'p str,
    back: String,
}

impl Asked {
    pub(crate) fn new(request: &Request) -> Self {
        let accept = request.headers().get(header::ACCEPT);
        let path = match *request.method() {
            Method::GET => request.uri().path_and_query().map(|path| path.as_str()),
            // Forms go to paths without a page, mostly one below that of theirs.
            _ => request.uri().path().rsplit_once('/').map(|(page, _)| page),
        };
        Self {
            path: path.unwrap_or("/").to_owned(),
            by_person: accept.is_none_or(|accept| accept != "text/event-stream"),
        }
    }

    /// The answer with what every page says, in words where it tells of a problem.
    pub(crate) fn answered(&self, mut response: Response) -> Response {
        if self.by_person
            && let Some(Unworded(problem)) = response.extensions_mut().remove::<Unworded>()
        {
            response = self.reworded(&problem, response);
        }
        set_headers(response.headers_mut());
        response
    }

    fn reworded(&self, problem: &Problem, response: Response) -> Response {
        let (mut parts, _) = response.into_parts();
        if problem.meaning.code == codes::UNAUTHORIZED.code {
            let mut login = shell::see_other(&format!("/ui/login?next={}", encoded(&self.path)));
            *login.extensions_mut() = parts.extensions;
            return login;
        }
        let page = Refused {
            shell: Shell::plain("Not done"),
            status: problem.meaning.status.as_u16(),
            code: problem.meaning.code,
            title: problem.meaning.title,
            detail: &problem.detail,
            remedy: problem.meaning.remedy,
            back: self.path.clone(),
        };
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
