//! Values on the command line: durations, sizes, headers, retry schedules, actor and reason.

use std::time::Duration;

use clap::Args;
use consign_kernel::{By, MessageId, RetrySchedule};
use jiff::{SignedDuration, Timestamp, civil::DateTime, tz::TimeZone};
use serde_json::Value;

use crate::failure::Failure;

/// The actor and the reason of an action.
#[derive(Args, Debug)]
pub struct ByArgs {
    /// The actor for the audit log [default: $USER]
    #[arg(long, value_name = "NAME")]
    pub actor: Option<String>,
    /// The reason for the audit log
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
}

impl ByArgs {
    /// Actor and reason, with a default reason.
    pub fn by(&self, reason: &str) -> By {
        let actor = self.actor.clone().or_else(user).unwrap_or("unknown".into());
        By::new(actor, self.reason.as_deref().unwrap_or(reason))
    }
}

impl ByArgs {
    /// Actor and reason of an action that cannot be undone, which needs a reason.
    pub fn by_with_reason(&self) -> Result<By, Failure> {
        if self.reason.is_none() {
            let why =
                "--reason: is missing; it cannot be undone, and the audit records why it was done";
            return Err(Failure::usage(why));
        }
        Ok(self.by(""))
    }
}

fn user() -> Option<String> {
    ["USER", "LOGNAME"]
        .into_iter()
        .filter_map(|name| std::env::var(name).ok())
        .find(|name| !name.trim().is_empty())
}

/// The id of a message.
pub fn message_id(text: &str) -> Result<MessageId, String> {
    text.parse().map(MessageId).map_err(|_| {
        let max = i64::MAX;
        format!("a message's id is a whole number up to {max}, as `consign ls` prints it")
    })
}

/// `250ms`, `30s`, `1h 30m`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let help = "a duration is written like 250ms, 30s, 5m or 1h30m";
    let parsed: SignedDuration = text.parse().map_err(|_| help.to_owned())?;
    Duration::try_from(parsed).map_err(|_| help.to_owned())
}

/// `2h` ago, `2026-11-15T22:31:50Z`, or `2026-11-15 22:31` and `2026-11-15` in UTC.
pub fn past(text: &str) -> Result<Timestamp, String> {
    let help = "a time is written like 2026-11-15T22:31:50Z or 2026-11-15 (UTC), or as how long ago: 90s, 2h";
    if let Ok(ago) = duration(text) {
        let ago = SignedDuration::try_from(ago).map_err(|_| help.to_owned())?;
        return Timestamp::now().checked_sub(ago).map_err(|_| help.into());
    }
    let civil = |text: &str| text.parse::<DateTime>().ok();
    let utc = |at: DateTime| at.to_zoned(TimeZone::UTC).ok().map(|at| at.timestamp());
    let absolute = text.parse().ok().or_else(|| civil(text).and_then(utc));
    absolute.ok_or_else(|| help.to_owned())
}

/// `2026-12-24T18:00:00+01:00`, `2026-12-24 17:00Z`.
pub fn time(text: &str) -> Result<Timestamp, String> {
    text.parse().map_err(|_| {
        "a time is written with its offset, like 2026-12-24T18:00:00+01:00 or 2026-12-24T17:00:00Z"
            .to_owned()
    })
}

/// `4096`, `64KiB`, `1MiB`.
pub fn bytes(text: &str) -> Result<usize, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" | "B" => 1,
        "KiB" => 1024,
        "MiB" => 1024 * 1024,
        _ => return Err("a size is written like 4096, 64KiB or 1MiB".into()),
    };
    let number: usize = digits
        .trim()
        .parse()
        .map_err(|_| "a size is written like 4096, 64KiB or 1MiB".to_owned())?;
    number
        .checked_mul(unit)
        .ok_or_else(|| "that is larger than any size".to_owned())
}

/// `name=value`.
pub fn header(text: &str) -> Result<(String, Value), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.into(), value.into())),
        _ => Err("a header is written name=value".into()),
    }
}

/// The same, where only a text is looked for.
pub fn header_text(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.into(), value.into())),
        _ => Err("a header is written name=value".into()),
    }
}

/// `fixed:5s`, `table:5s,30s,2m` or `exponential:base=1s,factor=2,max=1h,jitter=0.2`.
pub fn retry(text: &str) -> Result<RetrySchedule, String> {
    let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
    match kind {
        "fixed" => Ok(RetrySchedule::Fixed {
            delay_ms: millis(rest)?,
        }),
        "table" => {
            let delays_ms = rest.split(',').map(millis).collect::<Result<_, _>>()?;
            Ok(RetrySchedule::Table { delays_ms })
        }
        "exponential" => exponential(rest),
        _ => Err("a schedule is fixed:5s, table:5s,30s,2m or \
                  exponential:base=1s,factor=2,max=1h,jitter=0.2"
            .into()),
    }
}

fn exponential(text: &str) -> Result<RetrySchedule, String> {
    let (mut base_ms, mut factor, mut max_ms, mut jitter) = (1_000, 2.0, 3_600_000, 0.2);
    for part in text.split(',').filter(|part| !part.is_empty()) {
        match part.split_once('=') {
            Some(("base", value)) => base_ms = millis(value)?,
            Some(("max", value)) => max_ms = millis(value)?,
            Some(("factor", value)) => factor = number(value)?,
            Some(("jitter", value)) => jitter = number(value)?,
            _ => return Err(format!("{part:?} is none of base=, factor=, max=, jitter=")),
        }
    }
    Ok(RetrySchedule::Exponential {
        base_ms,
        factor,
        max_ms,
        jitter,
    })
}

fn millis(text: &str) -> Result<u64, String> {
    let ms = duration(text)?.as_millis();
    u64::try_from(ms).map_err(|_| "that is too long".to_owned())
}

fn number(text: &str) -> Result<f64, String> {
    text.parse()
        .map_err(|_| format!("{text:?} is not a number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_as_people_write_them() {
        let check = |text: &str, ms: u64| {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        };
        check("250ms", 250);
        check("30s", 30_000);
        check("1h30m", 5_400_000);
        check("1h 30m", 5_400_000);
        check("0s", 0);
        for bad in ["", "30", "-5s", "soon", "1 fortnight"] {
            assert!(duration(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn times_are_absolute_or_ago() {
        for (text, expected) in [
            ("2026-11-15T22:31:50Z", "2026-11-15T22:31:50Z"),
            (
                "2026-11-15T22:31:50.123456+01:00",
                "2026-11-15T21:31:50.123456Z",
            ),
            ("2026-11-15 22:31", "2026-11-15T22:31:00Z"),
            ("2026-11-15", "2026-11-15T00:00:00Z"),
        ] {
            let expected: Timestamp = expected.parse().unwrap();
            assert_eq!(past(text), Ok(expected), "{text}");
        }
        let ago = Timestamp::now() - past("2h").unwrap();
        assert!((ago.total(jiff::Unit::Second).unwrap() - 7_200.0).abs() < 60.0);
        for bad in ["", "30", "-5s", "soon", "2026-13-01", "yesterday"] {
            assert!(past(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_time_needs_its_offset() {
        let expected = Ok("2026-12-24T17:00:00Z".parse().unwrap());
        for text in [
            "2026-12-24T17:00:00Z",
            "2026-12-24 18:00+01:00",
            "2026-12-24T18:00:00+01:00[Europe/Berlin]",
        ] {
            assert_eq!(time(text), expected, "{text}");
        }
        for bad in [
            "",
            "tomorrow",
            "2026-12-24",
            "2026-12-24T18:00:00",
            "1798131600",
        ] {
            assert!(time(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn sizes_are_parsed_with_units() {
        assert_eq!(bytes("4096"), Ok(4096));
        assert_eq!(bytes("64KiB"), Ok(65_536));
        assert_eq!(bytes("1 MiB"), Ok(1_048_576));
        for bad in [
            "",
            "x",
            "1MB",
            "-1",
            "99999999999999999999",
            "9999999999999999MiB",
        ] {
            assert!(bytes(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn every_kind_of_schedule_can_be_written() {
        let fixed = RetrySchedule::Fixed { delay_ms: 5_000 };
        assert_eq!(retry("fixed:5s"), Ok(fixed));
        let delays_ms = vec![5_000, 120_000];
        assert_eq!(retry("table:5s,2m"), Ok(RetrySchedule::Table { delays_ms }));
        assert_eq!(retry("exponential"), Ok(RetrySchedule::default()));
        let grown = RetrySchedule::Exponential {
            base_ms: 500,
            factor: 3.0,
            max_ms: 60_000,
            jitter: 0.0,
        };
        assert_eq!(
            retry("exponential:base=500ms,factor=3,max=1m,jitter=0"),
            Ok(grown)
        );
        for bad in [
            "",
            "fixed",
            "fixed:x",
            "table:",
            "linear:1s",
            "exponential:bass=1s",
        ] {
            assert!(retry(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_header_value_may_contain_an_equals_sign() {
        assert_eq!(header("a=b=c"), Ok(("a".into(), "b=c".into())));
        assert!(header("=x").is_err());
        assert!(header("x").is_err());
    }
}
