//! The result of an action, shown on the next page.
//!
//! The address names it, and a link can have any address. So the answer to the action sets
//! a cookie, too: a code over that address, which only this session can have. It
//! lasts a minute, so that a page which reloads itself does not lose the text.

use axum::{
    http::{HeaderMap, HeaderValue, StatusCode, Uri, header},
    response::Response,
};
use consign_kernel::hex;
use ring::hmac;

use super::session::{Sessions, Visit, unhex};

const SECONDS: i64 = 60;

/// Whether the action in the address was done in this session.
pub(crate) fn is_true(sessions: &Sessions, visit: &Visit, uri: &Uri, headers: &HeaderMap) -> bool {
    let (Some(csrf), Some(place)) = (&visit.csrf, uri.path_and_query()) else {
        return false;
    };
    sessions
        .flash_codes(headers)
        .filter_map(unhex)
        .any(|code| hmac::verify(&key(csrf), place.as_str().as_bytes(), &code).is_ok())
}

/// The cookie for an answer that redirects to a page with the result of an action.
pub(crate) fn cookie(sessions: &Sessions, visit: &Visit, answer: &Response) -> Option<String> {
    let csrf = visit.csrf.as_deref()?;
    let place = answer.headers().get(header::LOCATION)?;
    if answer.status() != StatusCode::SEE_OTHER || !names_action(place) {
        return None;
    }
    let code = hmac::sign(&key(csrf), place.as_bytes());
    Some(sessions.done(&hex(code.as_ref()), SECONDS))
}

fn names_action(place: &HeaderValue) -> bool {
    let query = place.to_str().ok().and_then(|place| place.split_once('?'));
    query.is_some_and(|(_, query)| query.split('&').any(|pair| pair.starts_with("done=")))
}

/// Forms carry the secret code of their session.
fn key(csrf: &str) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, format!("done.{csrf}").as_bytes())
}
