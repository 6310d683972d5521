//! Fields derived from a record in the same way for every source.

use jiff::{Timestamp, tz::TimeZone};

/// A commit with more changed lines is a bulk change.
const BULK_LINES: u64 = 1000;
/// Maximum stored paths of a record.
pub(crate) const PATHS_MAX: usize = 50;
/// First and last year that every store can keep: 4713 BC, and the last with four digits.
const YEAR_MIN: i16 = -4712;
const YEAR_MAX: i16 = 9999;

/// Why a commit is a bulk change, if it is.
pub(crate) fn bulk_reason_of_lines(additions: u64, deletions: u64) -> Option<String> {
    let lines = additions.saturating_add(deletions);
    (lines > BULK_LINES).then(|| format!("large_diff:{lines}"))
}

/// Bytes as text that databases accept, and whether something was replaced: invalid UTF-8 and
/// U+0000.
pub(crate) fn text(bytes: &[u8]) -> (String, bool) {
    let mut text = String::with_capacity(bytes.len());
    let mut is_lossy = false;
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        if !chunk.invalid().is_empty() {
            text.push(char::REPLACEMENT_CHARACTER);
            is_lossy = true;
        }
    }
    if text.contains('\0') {
        text = text.replace('\0', "\u{fffd}");
        is_lossy = true;
    }
    (text, is_lossy)
}

/// A time that every store can keep: PostgreSQL has none before 4713 BC. A record with a time out
/// of range is stored without one.
pub(crate) fn time(time: Timestamp) -> Option<Timestamp> {
    let year = TimeZone::UTC.to_datetime(time).year();
    (YEAR_MIN..=YEAR_MAX).contains(&year).then_some(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_cannot_be_kept_are_none() {
        let table = [
            ("-009999-01-02T01:59:59Z", false),
            ("-004713-12-31T23:59:59Z", false),
            ("-004712-01-01T00:00:00Z", true),
            ("0000-01-01T00:00:00Z", true),
            ("2026-11-16T00:00:00Z", true),
            ("9999-12-30T22:00:00Z", true),
        ];
        for (text, is_kept) in table {
            let at: Timestamp = text.parse().unwrap();
            assert_eq!(time(at), is_kept.then_some(at), "{text}");
        }
        assert_eq!(time(Timestamp::MIN), None);
    }

    #[test]
    fn invalid_text_is_replaced_and_marked() {
        let table: [(&[u8], &str, bool); 5] = [
            (b"plain", "plain", false),
            ("Gr\u{fc}n".as_bytes(), "Gr\u{fc}n", false),
            (b"Gr\xfcn", "Gr\u{fffd}n", true),
            (b"a\0b", "a\u{fffd}b", true),
            (b"", "", false),
        ];
        for (bytes, expected, is_lossy) in table {
            assert_eq!(text(bytes), (expected.to_owned(), is_lossy), "{bytes:?}");
        }
    }

    /// Additions and deletions together, more than a thousand.
    #[test]
    fn many_lines_are_a_bulk_change() {
        assert_eq!(bulk_reason_of_lines(600, 400), None);
        let reason = bulk_reason_of_lines(600, 401);
        assert_eq!(reason.as_deref(), Some("large_diff:1001"));
    }
}
