//! Formatting of times.

use jiff::{SignedDuration, Timestamp};

/// `2026-11-15 21:21:13Z (3m 5s ago)`.
pub fn stamp(at: Timestamp, now: Timestamp) -> String {
    format!("{} ({})", at.strftime("%Y-%m-%d %H:%M:%SZ"), age(at, now))
}

/// The same to the millisecond, for what happens in quick succession.
pub fn fine_stamp(at: Timestamp, now: Timestamp) -> String {
    let text = at.strftime("%Y-%m-%d %H:%M:%S%.3fZ");
    format!("{text} ({})", age(at, now))
}

/// How long ago, or in how long.
pub fn age(at: Timestamp, now: Timestamp) -> String {
    let gone = now.duration_since(at);
    if gone.is_negative() {
        format!("in {}", span(gone.abs()))
    } else {
        format!("{} ago", span(gone))
    }
}

/// A duration in its two largest units.
pub fn span(duration: SignedDuration) -> String {
    let seconds = duration.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    match () {
        () if seconds < 1 => format!("{}ms", duration.as_millis()),
        () if minutes < 1 => format!("{seconds}s"),
        () if hours < 1 => format!("{minutes}m {}s", seconds % 60),
        () if days < 1 => format!("{hours}h {}m", minutes % 60),
        () => format!("{days}d {}h", hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_shown_with_its_distance_in_two_units() {
        let now: Timestamp = "2026-11-15T21:21:13.250Z".parse().unwrap();
        let check = |ms: i64, expected: &str| {
            let at = now - SignedDuration::from_millis(ms);
            assert_eq!(age(at, now), expected);
        };
        check(0, "0ms ago");
        check(999, "999ms ago");
        check(59_999, "59s ago");
        check(61_000, "1m 1s ago");
        check(3_600_000 * 3 + 120_000, "3h 2m ago");
        check(86_400_000 * 400, "400d 0h ago");
        check(-5_000, "in 5s");
        assert_eq!(stamp(now, now), "2026-11-15 21:21:13Z (0ms ago)");
        assert_eq!(fine_stamp(now, now), "2026-11-15 21:21:13.250Z (0ms ago)");
    }
}
