//! Formatting of numbers, times and documents.

use std::fmt;

use askama::filters::HtmlSafe;
use consign_kernel::Payload;
use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use serde_json::Value;

/// A number with its thousands apart.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A size in a unit that leaves few digits.
pub(super) fn bytes(number: u64) -> String {
    let units = [
        (1_000_000_000_000, "TB"),
        (1_000_000_000, "GB"),
        (1_000_000, "MB"),
        (1_000, "kB"),
    ];
    match units.into_iter().find(|(unit, _)| number >= *unit) {
        Some((unit, name)) => format!("{:.1} {name}", number as f64 / unit as f64),
        None => format!("{number} B"),
    }
}

/// So many of something.
pub fn many(number: u64, one: &str, more: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { more })
}

/// A length of time in one or two units.
pub(super) fn span(time: SignedDuration) -> String {
    let seconds = time.as_secs().unsigned_abs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => two((seconds / 60, "min"), (seconds % 60, "s")),
        3_600..172_800 => two((seconds / 3_600, "h"), (seconds % 3_600 / 60, "min")),
        _ => format!("{} days", count(seconds / 86_400)),
    }
}

fn two((large, unit): (u64, &str), (small, small_unit): (u64, &str)) -> String {
    match small {
        0 => format!("{large} {unit}"),
        _ if large >= 10 => format!("{large} {unit}"),
        _ => format!("{large} {unit} {small} {small_unit}"),
    }
}

/// How long something took.
pub(super) fn took(from: Timestamp, to: Timestamp) -> String {
    let time = to.duration_since(from);
    match time.as_millis() {
        ..0 => "0 ms".to_owned(),
        millis @ 0..10_000 => format!("{} ms", count(millis as u64)),
        _ => span(time),
    }
}

/// A time, relative and absolute. The script writes the absolute one in the viewer's time zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    at: Timestamp,
    span_text: String,
    at_text: String,
}

impl Moment {
    /// A time as seen at `now`.
    pub fn new(at: Timestamp, now: Timestamp) -> Self {
        let since = now.duration_since(at);
        let span_text = match since.as_secs() {
            1.. => format!("{} ago", span(since)),
            ..=-1 => format!("in {}", span(since)),
            0 => "now".to_owned(),
        };
        Self {
            at,
            span_text,
            at_text: clock(at, now),
        }
    }
}

/// A time in UTC, as short as it is clear at `now`. `localise` in `dashboard.js` does the same.
fn clock(at: Timestamp, now: Timestamp) -> String {
    let (at, now) = (at.to_zoned(TimeZone::UTC), now.to_zoned(TimeZone::UTC));
    let format = if at.date() == now.date() {
        "%H:%M:%S UTC"
    } else if at.year() == now.year() {
        "%-d %b %H:%M UTC"
    } else {
        "%-d %b %Y %H:%M UTC"
    };
    at.strftime(format).to_string()
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            at,
            span_text,
            at_text,
        } = self;
        write!(
            f,
            "<time datetime=\"{at}\" title=\"{at:.3}\"><span>{span_text}</span> \
             <span class=\"at\">{at_text}</span></time>"
        )
    }
}

// Only fixed letters, digits and punctuation.
impl HtmlSafe for Moment {}

/// A document over several lines.
pub(super) fn json(value: &Value) -> String {
    serde_json::to_string_pretty(value).expect("invariant: JSON values serialise")
}

/// A payload in lines, its numbers as they are.
pub(super) fn pretty(payload: &Payload) -> String {
    let mut lines = String::new();
    let mut depth = 0;
    let mut is_text = false;
    let mut is_escaped = false;
    let mut characters = payload.as_str().chars().peekable();
    while let Some(c) = characters.next() {
        if is_text {
            is_text = is_escaped || c != '"';
            is_escaped = c == '\\' && !is_escaped;
            lines.push(c);
            continue;
        }
        match c {
            '{' | '[' if !matches!(characters.peek(), Some('}' | ']')) => {
                depth += 1;
                lines.push(c);
                new_line(&mut lines, depth);
            }
            '}' | ']' if !lines.ends_with(['{', '[']) => {
                depth -= 1;
                new_line(&mut lines, depth);
                lines.push(c);
            }
            ',' => {
                lines.push(c);
                new_line(&mut lines, depth);
            }
            ':' => lines.push_str(": "),
            _ => {
                is_text = c == '"';
                lines.push(c);
            }
        }
    }
    lines
}

fn new_line(lines: &mut String, depth: usize) {
    lines.push('\n');
    lines.extend(std::iter::repeat_n("  ", depth));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_shown_in_lines_to_the_last_digit() {
        let text = r#"{"a,\"":[1,{"n":12345678901234567890123}],"b":{},"c":[],"d":":"}"#;
        let shown = "{\n  \"a,\\\"\": [\n    1,\n    {\n      \"n\": 12345678901234567890123\n    }\n  ],\n  \
                     \"b\": {},\n  \"c\": [],\n  \"d\": \":\"\n}";
        assert_eq!(pretty(&Payload::parse(text).unwrap()), shown);
        assert_eq!(pretty(&Payload::parse("1.0").unwrap()), "1.0");
    }

    #[test]
    fn numbers_and_times_are_shortened() {
        for (number, span_text) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (1_234_567, "1,234,567"),
        ] {
            assert_eq!(count(number), span_text);
        }
        for (seconds, span_text) in [
            (0, "0 s"),
            (59, "59 s"),
            (60, "1 min"),
            (185, "3 min 5 s"),
            (1_000, "16 min"),
            (7_500, "2 h 5 min"),
            (86_400 * 3, "3 days"),
        ] {
            assert_eq!(span(SignedDuration::from_secs(seconds)), span_text);
        }
        let now = Timestamp::from_second(1_000).unwrap();
        let at = |second| Moment::new(Timestamp::from_second(second).unwrap(), now).to_string();
        assert!(at(995).contains(">5 s ago<"), "{}", at(995));
        assert!(at(1_060).contains(">in 1 min<"), "{}", at(1_060));
        assert!(at(1_000).contains(">now<"));
        assert!(at(995).contains(">00:16:35 UTC<"), "{}", at(995));
        assert!(at(90_000).contains(">2 Jan 01:00 UTC<"), "{}", at(90_000));
        assert!(at(-1).contains(">31 Dec 1969 23:59 UTC<"), "{}", at(-1));
        assert!(
            at(995).contains("datetime=\"1970-01-01T00:16:35Z\""),
            "{}",
            at(995)
        );
    }
}
