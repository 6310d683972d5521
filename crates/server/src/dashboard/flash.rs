//! What was just done, said on the page that comes next.
//!
//! The address names it, and anybody can make an address. So the answer to the action gives the
//! browser a cookie, too: a code over that address, which only this session could have got. It
//! lasts a minute, so that a page which is loaded again by itself does not swallow the words.

use axum::{
    http::{HeaderMap, HeaderValue, StatusCode, Uri, header},
    response::Response,
};
use ring::hmac;

use super::session::{Sessions, Visit, hex, unhex};

const SECONDS: i64 = 60;

/// Whether the address tells the truth.
pub(crate) fn is_true(sessions: &Sessions, visit: &Visit, uri: &Uri, headers: &HeaderMap) -> bool {
    let (Some(csrf), Some(place)) = (&visit.csrf, uri.path_and_query()) else {
        return false;
    };
    sessions
        .told(headers)
        .filter_map(unhex)
        .any(|code| hmac::verify(&key(csrf), place.as_str().as_bytes(), &code).is_ok())
}

/// The cookie for an answer that leads to a page which says what was done.
pub(crate) fn cookie(sessions: &Sessions, visit: &Visit, answer: &Response) -> Option<String> {
    let csrf = visit.csrf.as_deref()?;
    let place = answer.headers().get(header::LOCATION)?;
    if answer.status() != StatusCode::SEE_OTHER || !tells(place) {
        return None;
    }
    let code = hmac::sign(&key(csrf), place.as_bytes());
    Some(sessions.done(&hex(code.as_ref()), SECONDS))
}

fn tells(place: &HeaderValue) -> bool {
    let query = place.to_str().ok().and_then(|place| place.split_once('?'));
    query.is_some_and(|(_, query)| query.split('&').any(|pair| pair.starts_with("done=")))
}

/// Forms carry the code of their session, which nobody else knows.
fn key(csrf: &str) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, format!("done.{csrf}").as_bytes())
}
