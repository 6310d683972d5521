//! `Prefer: wait=N` (RFC 7240): how long a client would wait for a final answer.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderName};

const PREFER: HeaderName = HeaderName::from_static("prefer");

/// The seconds the client prefers to wait, if the header can be parsed. Of a repeated preference
/// the first counts; one that cannot be parsed is ignored.
pub fn wait(headers: &HeaderMap) -> Option<Duration> {
    let values = headers.get_all(PREFER).iter();
    let mut preferences = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|text| split(text, ','));
    let wait = preferences.find_map(|preference| {
        // What follows a semicolon are parameters, of which `wait` has none.
        let preference = split(preference, ';').next()?;
        let (name, value) = preference.split_once('=').unwrap_or((preference, ""));
        let is_wait = name.trim().eq_ignore_ascii_case("wait");
        is_wait.then(|| value.trim().trim_matches('"').to_owned())
    })?;
    let is_number = !wait.is_empty() && wait.bytes().all(|byte| byte.is_ascii_digit());
    // More digits than a number holds still mean "very long"; the server has a limit of its own.
    is_number.then(|| Duration::from_secs(wait.parse().unwrap_or(u32::MAX).into()))
}

/// Splits at a separator outside of quotes.
fn split(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let mut is_quoted = false;
    let mut is_escaped = false;
    text.split(move |c: char| {
        let was_escaped = std::mem::take(&mut is_escaped);
        match c {
            '"' if !was_escaped => is_quoted = !is_quoted,
            '\\' if is_quoted && !was_escaped => is_escaped = true,
            _ => {}
        }
        c == separator && !is_quoted
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait_of(values: &[&'static str]) -> Option<u64> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(PREFER, value.parse().unwrap());
        }
        wait(&headers).map(|wait| wait.as_secs())
    }

    #[test]
    fn a_wait_is_found_among_other_preferences() {
        for (values, expected) in [
            (&[][..], None),
            (&["wait=5"], Some(5)),
            (&["respond-async, wait=10"], Some(10)),
            (&["Wait = \"7\""], Some(7)),
            (
                &["return=minimal; foo=\"a, wait=9\"", "WAIT=3;x=1"],
                Some(3),
            ),
            (&["wait=1, wait=2"], Some(1)),
            (&["wait=0"], Some(0)),
            (&["wait=99999999999999999999"], Some(u64::from(u32::MAX))),
        ] {
            assert_eq!(wait_of(values), expected, "{values:?}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_not_there() {
        for value in [
            "wait",
            "wait=",
            "wait=soon",
            "wait=-1",
            "wait=1.5",
            "waits=3",
            "x=\"wait=3\"",
        ] {
            assert_eq!(wait_of(&[value]), None, "{value}");
        }
    }
}
