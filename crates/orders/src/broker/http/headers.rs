//! Text in headers, and what answers say in theirs.

use std::{fmt::Write, time::Duration};

use jiff::{SignedDuration, Timestamp, fmt::rfc2822};
use reqwest::header::{DATE, HeaderMap, HeaderValue, RETRY_AFTER};

/// The longest wait a broker may ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(3_600);

/// Text as a header's value. What a header cannot carry is written as `%XX`, and the percent sign
/// too: two different keys never become the same value.
pub(super) fn value(text: &str) -> HeaderValue {
    let is_plain = |c: char| matches!(c, '!'..='~') && !matches!(c, '"' | '%');
    HeaderValue::from_str(&encoded(text, is_plain)).expect("invariant: printable ASCII")
}

/// Text as one part of a path.
pub(super) fn path_part(text: &str) -> String {
    encoded(text, |c| {
        c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | '~')
    })
}

fn encoded(text: &str, is_plain: impl Fn(char) -> bool) -> String {
    let mut encoded = String::with_capacity(text.len());
    for c in text.chars() {
        if is_plain(c) {
            encoded.push(c);
            continue;
        }
        for byte in c.encode_utf8(&mut [0; 4]).bytes() {
            write!(encoded, "%{byte:02X}").expect("invariant: writing to a string does not fail");
        }
    }
    encoded
}

/// The wait an answer asks for: seconds, or a date, which is measured against the answer's own
/// clock if it tells the time.
pub(super) fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than fit mean "very long", not "no answer".
        let seconds = text.parse().unwrap_or(u64::MAX);
        return Some(Duration::from_secs(seconds).min(RETRY_AFTER_MAX));
    }
    let date = |text: &str| Some(rfc2822::parse(text.trim()).ok()?.timestamp());
    let until = date(text)?;
    let told = headers
        .get(DATE)
        .and_then(|value| date(value.to_str().ok()?));
    let wait = until.duration_since(told.unwrap_or(now));
    let wait = Duration::try_from(wait.max(SignedDuration::ZERO)).ok()?;
    Some(wait.min(RETRY_AFTER_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_keys_stay_different_and_cannot_leave_their_place() {
        for (text, in_header, in_path) in [
            ("me/key-00000001", "me/key-00000001", "me%2Fkey-00000001"),
            (
                "me/a b\r\nc: d",
                "me/a%20b%0D%0Ac:%20d",
                "me%2Fa%20b%0D%0Ac%3A%20d",
            ),
            (
                "me/Grüße%20",
                "me/Gr%C3%BC%C3%9Fe%2520",
                "me%2FGr%C3%BC%C3%9Fe%2520",
            ),
            ("../x?y#z", "../x?y#z", "..%2Fx%3Fy%23z"),
        ] {
            assert_eq!(value(text).to_str().unwrap(), in_header);
            assert_eq!(path_part(text), in_path);
        }
    }

    #[test]
    fn a_wait_is_read_in_seconds_or_as_a_date() {
        let now: Timestamp = "2026-11-16T00:00:00Z".parse().unwrap();
        let table = [
            ("2", None, Some(2)),
            ("99999999999999999999999", None, Some(3_600)),
            ("Mon, 16 Nov 2026 00:01:40 GMT", None, Some(100)),
            (
                "Mon, 16 Nov 2026 00:01:40 GMT",
                Some("Mon, 16 Nov 2026 00:01:30 GMT"),
                Some(10),
            ),
            ("Sun, 15 Nov 2026 00:00:00 GMT", None, Some(0)),
            ("soon", None, None),
            ("-5", None, None),
            ("", None, None),
        ];
        for (text, date, seconds) in table {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, text.parse().unwrap());
            if let Some(date) = date {
                headers.insert(DATE, date.parse().unwrap());
            }
            let expected = seconds.map(Duration::from_secs);
            assert_eq!(retry_after(&headers, now), expected, "{text:?} {date:?}");
        }
    }
}
