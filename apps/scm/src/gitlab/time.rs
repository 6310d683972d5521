//! Times of GitLab and the order of positions.

use jiff::{Timestamp, civil::DateTime, tz::TimeZone};

use crate::derive;

/// A time with its offset from UTC; without one it is UTC.
pub(super) fn parse(text: &str) -> Option<Timestamp> {
    if let Ok(time) = text.parse::<Timestamp>() {
        return derive::time(time);
    }
    let time = text.parse::<DateTime>().ok()?;
    derive::time(time.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

/// As in watermarks: in UTC. An invalid time is returned unchanged.
pub(super) fn normalized(text: &str) -> String {
    match parse(text) {
        Some(time) => time.to_string(),
        None => text.to_owned(),
    }
}

/// Whether a position is after the stored one: a later time, or the same time and a larger
/// tie-breaker. Any position is after none.
pub(super) fn advances<T: Ord>(
    stored: Option<(Timestamp, Option<T>)>,
    place: (Timestamp, T),
) -> bool {
    match stored {
        None => true,
        Some((time, _)) if time != place.0 => place.0 > time,
        Some((_, None)) => true,
        Some((_, Some(tie))) => place.1 > tie,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_normalized() {
        let table = [
            ("2024-01-15T20:00:00+08:00", "2024-01-15T12:00:00Z"),
            ("2024-01-15T12:00:00", "2024-01-15T12:00:00Z"),
            ("2024-01-15T12:00:00.120Z", "2024-01-15T12:00:00.12Z"),
            ("2012-09-20T11:50:22.001+00:00", "2012-09-20T11:50:22.001Z"),
            ("garbage", "garbage"),
            ("", ""),
        ];
        for (text, expected) in table {
            assert_eq!(normalized(text), expected);
        }
    }

    #[test]
    fn times_that_no_ledger_keeps_are_none() {
        assert_eq!(parse("-005000-01-01T00:00:00Z"), None);
        assert_eq!(parse("-005000-01-01T00:00:00"), None);
        assert!(parse("-004000-01-01T00:00:00Z").is_some());
    }

    #[test]
    fn places_advance_strictly() {
        let at = |text: &str| parse(text).unwrap();
        let (early, late) = (at("2024-01-15T12:00:00Z"), at("2024-01-15T12:00:01Z"));
        let same = at("2024-01-15T12:00:00+00:00");
        assert!(advances(None, (early, "a")));
        let table = [
            (Some("a"), (late, "a"), true),
            (Some("b"), (late, "a"), true),
            (Some("a"), (same, "b"), true),
            (Some("a"), (same, "a"), false),
            (Some("b"), (same, "a"), false),
            (None, (same, "a"), true),
        ];
        for (tie, place, expected) in table {
            assert_eq!(
                advances(Some((early, tie)), place),
                expected,
                "{tie:?} {place:?}"
            );
        }
        assert!(!advances(Some((late, Some("a"))), (early, "b")));
        assert!(
            advances(Some((early, Some(9))), (same, 10)),
            "numbers, not texts"
        );
    }
}
