//! Access to pages, and the check of forms.

use axum::http::{HeaderMap, Method, header, request::Parts};
use uuid::Uuid;

use super::{
    GateState,
    access::{
        Access, Reach, bearer, check_host, check_local, check_reach, check_scopes, find, host_name,
        no_token, peer_address, unknown_token,
    },
};
use crate::{
    dashboard::{
        flash,
        form::Form,
        session::{Sessions, Visit},
    },
    problem::{Problem, codes},
};

/// Largest form. A reason has 4 KiB at most, three times that when encoded.
pub(crate) const FORM_BYTES_MAX: usize = 64 * 1024;

/// Reads much, and is no page.
pub(crate) const EXPORT: &str = "/ui/audit/export";

/// A visitor with access.
pub(super) struct Visitor {
    pub(super) visit: Visit,
    pub(super) tenant_id: Option<Uuid>,
}

/// Admits a visitor with a session or a token, or where none is needed.
pub(super) fn admit(
    shared: &GateState,
    (access, reach): (Access, Reach),
    request: &Parts,
) -> Result<Visitor, Problem> {
    let GateState {
        options,
        tenants,
        sessions,
        ..
    } = shared;
    let headers = &request.headers;
    if !options.needs_token() {
        check_local(options, peer_address(request), headers)?;
        check_host(options, request)?;
    }
    if !options.needs_token() || access == Access::Login {
        return Ok(visitor(
            sessions,
            sessions.anonymous_visit(headers),
            None,
            request,
        ));
    }
    if access == Access::Leave {
        let known = sessions.known(&options.tokens, headers);
        let visit = known.map_or_else(Visit::anonymous, |(_, visit)| visit);
        return Ok(visitor(sessions, visit, None, request));
    }
    let (entry, visit) = match bearer(headers) {
        Some(bearer) => {
            let entry = find(&options.tokens, bearer).ok_or_else(unknown_token)?;
            (entry, Visit::bearer(entry))
        }
        None => sessions
            .known(&options.tokens, headers)
            .ok_or_else(no_token)?,
    };
    let tenant_id = tenants.get(&entry.name).copied();
    check_reach(entry, tenant_id, reach)?;
    check_scopes(entry, access.scopes())?;
    Ok(visitor(sessions, visit, tenant_id, request))
}

fn visitor(sessions: &Sessions, visit: Visit, tenant_id: Option<Uuid>, request: &Parts) -> Visitor {
    let has_acted = flash::is_true(sessions, &visit, &request.uri, &request.headers);
    Visitor {
        visit: Visit { has_acted, ..visit },
        tenant_id,
    }
}

/// Whether the client accepts HTML, as browsers do.
pub(crate) fn wants_page(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter();
    let mut kinds = accepted
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    kinds.any(|kind| {
        let kind = kind.split(';').next().unwrap_or_default().trim();
        kind.eq_ignore_ascii_case("text/html")
    })
}

/// Checks the fetch metadata of a request before its body is read. Other sites may link to a
/// page; they may not make a browser fetch one, send a form, or have everything exported.
pub(super) fn check_way(request: &Parts) -> Result<(), Problem> {
    if is_form(request) {
        return check_site(&request.headers);
    }
    let header_value = |name: &str| {
        request
            .headers
            .get(name)
            .and_then(|header_value| header_value.to_str().ok())
    };
    let is_from_elsewhere = matches!(
        header_value("sec-fetch-site"),
        Some("cross-site" | "same-site")
    );
    let is_link = header_value("sec-fetch-mode").is_none_or(|mode| mode == "navigate")
        && header_value("sec-fetch-dest").is_none_or(|place| place == "document");
    let is_page = request.uri.path() != EXPORT;
    if !is_from_elsewhere || (is_link && is_page) {
        return Ok(());
    }
    let detail = "this request comes from a page of another site; it is accepted only from a page of \
                  this server";
    Err(Problem::new(codes::ORIGIN_NOT_ALLOWED, detail))
}

/// What changes something must come from a form that was made for this session, on a page of ours.
pub(super) fn check_form(request: &Parts, bytes: &[u8], visit: &Visit) -> Result<(), Problem> {
    if !is_form(request) {
        return Ok(());
    }
    let form = Form::read(&request.headers, bytes)?;
    if visit.owns(form.get("csrf")) {
        return Ok(());
    }
    let detail =
        "the form was made for another session, or for one that has ended; nothing was done";
    Err(Problem::new(codes::CSRF_MISMATCH, detail))
}

fn is_form(request: &Parts) -> bool {
    !matches!(request.method, Method::GET | Method::HEAD)
}

/// Whether it is a form without a sign of another origin.
pub(crate) fn is_own_form(request: &Parts) -> bool {
    is_form(request) && check_site(&request.headers).is_ok()
}

/// Browsers send the origin of a form.
fn check_site(headers: &HeaderMap) -> Result<(), Problem> {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let is_own = match (text("sec-fetch-site"), text("origin")) {
        // More reliable than a comparison of names where a proxy replaces the Host header.
        (Some(site), _) => matches!(site, "same-origin" | "none"),
        (None, Some(origin)) => {
            let host = text("host").unwrap_or_default();
            let name = origin.split_once("://").map_or("", |(_, rest)| rest);
            name == host || (!name.is_empty() && host_name(name) == host)
        }
        (None, None) => true,
    };
    if is_own {
        return Ok(());
    }
    let detail = "the form does not come from a page of this server; nothing was done";
    Err(Problem::new(codes::ORIGIN_NOT_ALLOWED, detail))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::{HeaderName, HeaderValue};

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = pairs.iter().map(|(name, value)| {
            let name = HeaderName::from_static(name);
            (name, HeaderValue::from_static(value))
        });
        pairs.collect()
    }

    #[test]
    fn browsers_want_pages_and_others_do_not() {
        let chrome = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
        for (accept, wanted) in [
            (chrome, true),
            ("Text/HTML;q=0.5", true),
            ("*/*", false),
            ("application/json", false),
            ("text/event-stream", false),
        ] {
            let accepted = headers(&[("accept", accept)]);
            assert_eq!(wants_page(&accepted), wanted, "{accept}");
        }
        assert!(!wants_page(&HeaderMap::new()));
    }

    #[test]
    fn distinguishes_forms_of_other_pages() {
        let host = ("host", "localhost:8787");
        for (header_value, is_own) in [
            (vec![host], true),
            (vec![host, ("origin", "http://localhost:8787")], true),
            (vec![host, ("origin", "http://localhost:9999")], false),
            (vec![host, ("origin", "https://evil.example")], false),
            (vec![host, ("origin", "null")], false),
            (vec![host, ("sec-fetch-site", "same-origin")], true),
            (vec![host, ("sec-fetch-site", "none")], true),
            (vec![host, ("sec-fetch-site", "same-site")], false),
            (vec![host, ("sec-fetch-site", "cross-site")], false),
            (
                vec![
                    host,
                    ("sec-fetch-site", "same-origin"),
                    ("origin", "https://ops.example"),
                ],
                true,
            ),
        ] {
            assert_eq!(
                check_site(&headers(&header_value)).is_ok(),
                is_own,
                "{header_value:?}"
            );
        }
    }
}
