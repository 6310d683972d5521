//! The `Retry-After` header.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp, fmt::rfc2822};
use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};

/// The wait that an answer requests: seconds, or a date, which is measured against the answer's own
/// `Date` if it has one.
pub fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        // More digits than fit mean "very long", not "no answer".
        return Some(Duration::from_secs(
            text.parse().unwrap_or(u64::from(u32::MAX)),
        ));
    }
    let date = |text: &str| Some(rfc2822::parse(text.trim()).ok()?.timestamp());
    let until = date(text)?;
    let retry_at = headers
        .get(DATE)
        .and_then(|value| date(value.to_str().ok()?));
    let wait = until
        .duration_since(retry_at.unwrap_or(now))
        .max(SignedDuration::ZERO);
    wait.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_read_in_seconds_or_as_a_date() {
        let now: Timestamp = "2026-11-16T00:00:00Z".parse().unwrap();
        let table = [
            ("120", None, Some(120)),
            (" 7 ", None, Some(7)),
            ("0", None, Some(0)),
            ("99999999999999999999999", None, Some(u64::from(u32::MAX))),
            ("Mon, 16 Nov 2026 00:01:40 GMT", None, Some(100)),
            (
                "Mon, 16 Nov 2026 00:01:40 GMT",
                Some("Mon, 16 Nov 2026 00:01:30 GMT"),
                Some(10),
            ),
            ("Sun, 15 Nov 2026 00:00:00 GMT", None, Some(0)),
            ("soon", None, None),
            ("-5", None, None),
            ("1.5", None, None),
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
