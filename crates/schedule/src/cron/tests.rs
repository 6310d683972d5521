//! When ticks come, above all where the local clock jumps.

use super::*;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// The ticks after a time, in local time with the offset.
fn ticks(expression: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
    let cron = Cron::parse(expression, zone).unwrap();
    let (mut time, mut ticks) = (at(after), Vec::new());
    for _ in 0..count {
        time = cron.after(time).unwrap();
        let local = time.to_zoned(cron.zone.clone());
        ticks.push(local.strftime("%m-%d %H:%M:%S%:z").to_string());
    }
    ticks
}

/// Expression, zone, the time after which, and the ticks.
type Row = (
    &'static str,
    &'static str,
    &'static str,
    &'static [&'static str],
);

fn check(table: &[Row]) {
    for (expression, zone, after, expected) in table {
        let found = ticks(expression, zone, after, expected.len());
        assert_eq!(found, *expected, "{expression} {zone} after {after}");
    }
}

#[rustfmt::skip]
const PLAIN: &[Row] = &[
    ("* * * * *", "UTC", "2026-01-01T00:00:00Z", &["01-01 00:01:00+00:00", "01-01 00:02:00+00:00"]),
    ("* * * * *", "UTC", "2026-01-01T00:00:59.9Z", &["01-01 00:01:00+00:00", "01-01 00:02:00+00:00"]),
    ("*/20 * * * * *", "UTC", "2026-01-01T00:00:00Z", &["01-01 00:00:20+00:00", "01-01 00:00:40+00:00"]),
    ("0 8 * * MON-FRI", "Europe/Berlin", "2026-01-02T12:00:00Z", &["01-05 08:00:00+01:00", "01-06 08:00:00+01:00"]),
    ("0 8 1,15 * *", "Asia/Kolkata", "2026-01-02T12:00:00Z", &["01-15 08:00:00+05:30", "02-01 08:00:00+05:30"]),
    ("0 0 L * *", "UTC", "2026-02-01T00:00:00Z", &["02-28 00:00:00+00:00", "03-31 00:00:00+00:00"]),
    ("0 0 29 2 *", "UTC", "2026-02-01T00:00:00Z", &["02-29 00:00:00+00:00", "02-29 00:00:00+00:00"]),
    ("0 0 13 * 5", "UTC", "2026-02-01T00:00:00Z", &["02-06 00:00:00+00:00", "02-13 00:00:00+00:00"]),
    ("0 9 * * 5#L", "UTC", "2026-02-01T00:00:00Z", &["02-27 09:00:00+00:00", "03-27 09:00:00+00:00"]),
    ("0 0 * * 7", "UTC", "2026-02-01T00:00:00Z", &["02-08 00:00:00+00:00", "02-15 00:00:00+00:00"]),
    ("@daily", "America/New_York", "2026-01-01T00:00:00Z", &["01-01 00:00:00-05:00", "01-02 00:00:00-05:00"]),
    ("@hourly", "UTC", "2026-01-01T00:00:00Z", &["01-01 01:00:00+00:00", "01-01 02:00:00+00:00"]),
];

#[test]
fn ticks_come_at_their_local_times() {
    check(PLAIN);
}

/// Europe/Berlin 02:00 to 03:00 on March 29, America/New_York 02:00 to 03:00 on March 8,
/// Australia/Lord_Howe 02:00 to 02:30 on October 4.
#[rustfmt::skip]
const SKIPPED: &[Row] = &[
    // What names times of the day is not lost, and comes once however many were skipped.
    ("30 2 * * *", "Europe/Berlin", "2026-03-28T23:30:00Z", &["03-29 03:00:00+02:00", "03-30 02:30:00+02:00"]),
    ("0,30 2 * * *", "Europe/Berlin", "2026-03-28T23:30:00Z", &["03-29 03:00:00+02:00", "03-30 02:00:00+02:00"]),
    ("15 1-3 * * *", "Europe/Berlin", "2026-03-28T23:30:00Z",
        &["03-29 01:15:00+01:00", "03-29 03:00:00+02:00", "03-29 03:15:00+02:00"]),
    ("0 2,3 * * *", "Europe/Berlin", "2026-03-28T23:30:00Z", &["03-29 03:00:00+02:00", "03-30 02:00:00+02:00"]),
    ("30 2 * * *", "America/New_York", "2026-03-07T08:00:00Z", &["03-08 03:00:00-04:00", "03-09 02:30:00-04:00"]),
    ("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00:00Z", &["10-04 02:30:00+11:00", "10-05 02:15:00+11:00"]),
    // What names intervals ticks whenever the local clock shows one of its times.
    ("30 * * * *", "Europe/Berlin", "2026-03-28T23:30:00Z",
        &["03-29 01:30:00+01:00", "03-29 03:30:00+02:00", "03-29 04:30:00+02:00"]),
    ("*/30 2 * * *", "Europe/Berlin", "2026-03-28T23:30:00Z", &["03-30 02:00:00+02:00", "03-30 02:30:00+02:00"]),
    ("0 */2 * * *", "Europe/Berlin", "2026-03-28T23:30:00Z", &["03-29 04:00:00+02:00", "03-29 06:00:00+02:00"]),
    ("*/20 * * * *", "Australia/Lord_Howe", "2026-10-03T15:20:00Z", &["10-04 02:40:00+11:00", "10-04 03:00:00+11:00"]),
];

#[test]
fn a_tick_that_the_local_clock_skips_comes_after_the_jump() {
    check(SKIPPED);
}

/// Europe/Berlin 03:00 to 02:00 on October 25, America/New_York 02:00 to 01:00 on November 1,
/// Australia/Lord_Howe 02:00 to 01:30 on April 5.
#[rustfmt::skip]
const REPEATED: &[Row] = &[
    ("30 2 * * *", "Europe/Berlin", "2026-10-24T23:45:00Z", &["10-25 02:30:00+02:00", "10-26 02:30:00+01:00"]),
    ("0,30 2,3 * * *", "Europe/Berlin", "2026-10-24T23:45:00Z",
        &["10-25 02:00:00+02:00", "10-25 02:30:00+02:00", "10-25 03:00:00+01:00"]),
    ("0 3 * * *", "Europe/Berlin", "2026-10-24T23:45:00Z", &["10-25 03:00:00+01:00", "10-26 03:00:00+01:00"]),
    ("30 1 * * *", "America/New_York", "2026-10-31T12:00:00Z", &["11-01 01:30:00-04:00", "11-02 01:30:00-05:00"]),
    ("45 1 * * *", "Australia/Lord_Howe", "2026-04-04T00:00:00Z", &["04-05 01:45:00+11:00", "04-06 01:45:00+10:30"]),
    ("30 * * * *", "Europe/Berlin", "2026-10-24T23:45:00Z",
        &["10-25 02:30:00+02:00", "10-25 02:30:00+01:00", "10-25 03:30:00+01:00"]),
    ("*/30 2 * * *", "Europe/Berlin", "2026-10-24T23:45:00Z",
        &["10-25 02:00:00+02:00", "10-25 02:30:00+02:00", "10-25 02:00:00+01:00", "10-25 02:30:00+01:00"]),
    ("*/15 * * * *", "Australia/Lord_Howe", "2026-04-04T14:30:00Z",
        &["04-05 01:45:00+11:00", "04-05 01:30:00+10:30", "04-05 01:45:00+10:30", "04-05 02:00:00+10:30"]),
    // 02:10, the second time.
    ("30 2 * * *", "Europe/Berlin", "2026-10-25T01:10:00Z", &["10-26 02:30:00+01:00", "10-27 02:30:00+01:00"]),
    ("*/30 * * * *", "Europe/Berlin", "2026-10-25T01:10:00Z", &["10-25 02:30:00+01:00", "10-25 03:00:00+01:00"]),
];

#[test]
fn a_time_that_the_local_clock_shows_twice_has_one_tick_or_two() {
    check(REPEATED);
}

/// Apia went over the date line: it had no December 30, 2011.
#[test]
fn a_day_that_a_zone_skips_has_its_tick_when_the_next_one_begins() {
    assert_eq!(
        ticks("0 8 * * *", "Pacific/Apia", "2011-12-29T12:00:00Z", 3),
        [
            "12-29 08:00:00-10:00",
            "12-31 00:00:00+14:00",
            "12-31 08:00:00+14:00"
        ]
    );
}

#[test]
fn bad_expressions_are_refused_with_the_reason() {
    for (expression, text) in [
        ("", "cannot be an empty string"),
        ("* * *", "must have 5 or 6 fields"),
        ("* * * * * * *", "five fields"),
        ("61 * * * *", "Number out of bounds"),
        ("*/0 * * * *", "Step cannot be zero"),
        ("@reboot", "@hourly, @daily"),
        ("0 0 * * MONDAY", "illegal character"),
        ("every day", "five fields"),
    ] {
        let error = Cron::parse(expression, "UTC").unwrap_err().to_string();
        assert!(error.starts_with("cron: is "), "{error}");
        assert!(error.contains(text), "{error}");
    }
    let long = format!("{}* * * * *", "0,".repeat(130));
    assert!(
        Cron::parse(&long, "UTC")
            .unwrap_err()
            .to_string()
            .contains("256 bytes")
    );
    let never = Cron::parse("0 0 30 2 *", "UTC").unwrap();
    let error = never
        .after(at("2026-01-01T00:00:00Z"))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("has no tick after 2026-01-01T00:00:00Z"),
        "{error}"
    );
}

#[test]
fn unknown_time_zones_are_refused_with_a_suggestion() {
    for (name, text) in [
        ("Europe/Berln", "Did you mean \"Europe/Berlin\"?"),
        ("", "IANA"),
        ("+02:00", "IANA"),
        ("CET-1CEST", "IANA"),
        ("Etc/Unknown", "IANA"),
        ("../../etc/passwd", "IANA"),
    ] {
        let error = Cron::parse("* * * * *", name).unwrap_err().to_string();
        assert!(
            error.starts_with("time_zone: is ") && error.contains(text),
            "{error}"
        );
    }
}

/// A container often has no `/usr/share/zoneinfo`.
#[test]
fn time_zones_are_built_in() {
    let built_in = jiff::tz::TimeZoneDatabase::bundled();
    for name in ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe"] {
        assert!(built_in.get(name).is_ok(), "{name}");
    }
}
