//! Exchanging a token for a session, and ending it.

use std::sync::Arc;

use askama::Template;
use axum::{
    Extension,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::Response,
};
use serde::Deserialize;

use super::{
    form::{Form, encoded},
    refusal::with_cookie,
    shell::{Shell, rendered, see_other},
};
use crate::{
    extract::Params,
    gate::{
        GateState,
        access::{Access, Caller, Reach, check_reach, check_scopes, find},
    },
    options::TokenEntry,
    problem::Problem,
};

#[derive(Template)]
#[template(path = "login.html")]
struct Login {
    shell: Shell,
    next: String,
    refused: Option<String>,
    /// The same page once more, for a visitor who followed a link of another site.
    again: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Destination {
    next: Option<String>,
    done: Option<String>,
    /// Why it is shown.
    why: Option<String>,
    /// Shows it to a visitor with a session, too.
    other: Option<String>,
    /// Whether the browser has been sent here by ourselves.
    again: Option<String>,
}

/// The form.
pub(super) async fn show(
    Extension(shared): Extension<Arc<GateState>>,
    Params(destination): Params<Destination>,
    headers: HeaderMap,
) -> Response {
    let next = local(destination.next.as_deref());
    let tokens = &shared.options.tokens;
    let known = shared.sessions.known(tokens, &headers);
    // A session without access must not prevent another login.
    let refused = match known.map(|(entry, _)| may_look(&shared, entry)) {
        Some(Ok(())) if destination.other.is_none() => return see_other(next),
        _ if !shared.options.needs_token() => return see_other(next),
        _ if tokens.is_empty() => Some(format!(
            "Login is not possible: {}.",
            shared.for_apps_only()
        )),
        Some(Err((_, why))) => Some(why),
        _ if destination.why.as_deref() == Some("old") => {
            Some("That form was too old: please log in once more.".to_owned())
        }
        None if shared.sessions.has_session_cookie(&headers) => {
            Some("Your session has ended: please log in again.".to_owned())
        }
        _ => None,
    };
    let is_out = destination.done.as_deref() == Some("logout") && refused.is_none();
    let is_out = is_out && shared.sessions.has_logged_out(&headers);
    let visit = shared.sessions.anonymous_visit(&headers);
    let shell = Shell {
        csrf: visit.csrf.unwrap_or_default(),
        done: is_out.then_some("Logged out."),
        ..Shell::plain("Log in")
    };
    let again = destination.again.is_none() && is_from_elsewhere(&headers);
    let mut page = rendered(&Login {
        shell,
        again: again.then(|| format!("/ui/login?again=1&next={}", encoded(next))),
        next: next.to_owned(),
        refused,
    });
    if let Some(cookie) = visit.cookie {
        with_cookie(page.headers_mut(), &cookie);
    }
    page
}

/// Takes a token.
pub(super) async fn enter(
    Extension(shared): Extension<Arc<GateState>>,
    Extension(caller): Extension<Caller>,
    form: Form,
) -> Response {
    let next = local(form.get("next"));
    match session(&shared, form.get("token").unwrap_or_default().trim()) {
        Ok(cookie) => {
            let mut response = see_other(next);
            with_cookie(response.headers_mut(), &cookie);
            response
        }
        Err((status, why)) => {
            let client = &caller.client;
            tracing::warn!(%client, status = status.as_u16(), "refused a login");
            let visit = caller
                .visit
                .unwrap_or_else(|| shared.sessions.anonymous_visit(&HeaderMap::new()));
            let shell = Shell {
                csrf: visit.csrf.unwrap_or_default(),
                ..Shell::plain("Log in")
            };
            let mut page = rendered(&Login {
                shell,
                next: next.to_owned(),
                refused: Some(why),
                again: None,
            });
            *page.status_mut() = status;
            page
        }
    }
}

/// Ends the session in this browser.
pub(super) async fn leave(Extension(shared): Extension<Arc<GateState>>) -> Response {
    let mut response = see_other("/ui/login?done=logout");
    for cookie in [shared.sessions.ended(), shared.sessions.left()] {
        if let Ok(cookie) = HeaderValue::from_str(&cookie) {
            response.headers_mut().append(header::SET_COOKIE, cookie);
        }
    }
    response
}

/// The session cookie for this token, or why there is none.
fn session(shared: &GateState, token: &str) -> Result<String, (StatusCode, String)> {
    let unknown = || {
        let why = "The server rejects this token: it is not in server.tokens.".to_owned();
        (StatusCode::UNAUTHORIZED, why)
    };
    let entry = find(&shared.options.tokens, token).ok_or_else(unknown)?;
    may_look(shared, entry)?;
    Ok(shared.sessions.open(entry))
}

/// Whether a token opens pages, or why it does not.
fn may_look(shared: &GateState, entry: &TokenEntry) -> Result<(), (StatusCode, String)> {
    let tenant_id = shared.tenant_of(&entry.name);
    let checked = check_reach(entry, tenant_id, Reach::AllTenants)
        .and_then(|()| check_scopes(entry, Access::PAGES.scopes()));
    checked.map_err(|problem: Problem| (problem.meaning.status, problem.detail))
}

/// Whether a page of another site led here. Browsers then keep the session's cookie back, and send
/// it as soon as a page of ours leads on.
fn is_from_elsewhere(headers: &HeaderMap) -> bool {
    let site = headers.get("sec-fetch-site");
    site.is_some_and(|site| site == "cross-site" || site == "same-site")
}

/// The next page: one of this server, whatever the link is.
fn local(next: Option<&str>) -> &str {
    let next = next.unwrap_or("/");
    let is_ours = next == "/" || next.starts_with("/?") || next.starts_with("/ui/");
    let is_plain = next
        .bytes()
        .all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    // Actions are no pages, and a login that leads to the login leads nowhere.
    let is_page = !next.starts_with("/ui/log");
    if is_ours && is_plain && is_page {
        next
    } else {
        "/"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_pages_are_gone_to() {
        for (given, next) in [
            ("/", "/"),
            ("/?window=day", "/?window=day"),
            ("/ui/messages/7", "/ui/messages/7"),
            ("/ui/messages?q=a%20b", "/ui/messages?q=a%20b"),
            ("//evil.example/ui/", "/"),
            ("/\\evil.example", "/"),
            ("/ui/\\..", "/"),
            ("https://evil.example", "/"),
            ("javascript:alert(1)", "/"),
            ("/ui/\r\nset-cookie: a=b", "/"),
            ("/ui/login", "/"),
            ("/ui/logout", "/"),
            ("/v1/queues", "/"),
            ("", "/"),
        ] {
            assert_eq!(local(Some(given)), next, "{given}");
        }
        assert_eq!(local(None), "/");
    }
}
