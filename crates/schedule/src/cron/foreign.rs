//! Expressions as anybody may write them, and every second around a jump of the clock.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn field(max: u8) -> impl Strategy<Value = String> {
    prop_oneof![
        3 => Just("*".to_owned()),
        2 => (0..=max).prop_map(|n| n.to_string()),
        1 => (1..=max).prop_map(|step| format!("*/{step}")),
        1 => (0..=max, 0..=max).prop_map(|(a, b)| format!("{}-{}", a.min(b), a.max(b))),
        1 => (0..=max, 0..=max).prop_map(|(a, b)| format!("{a},{b}")),
    ]
}

const JUMPS: [(&str, &str); 5] = [
    ("Europe/Berlin", "2026-03-28T20:00:00Z"),
    ("Europe/Berlin", "2026-10-24T20:00:00Z"),
    ("America/New_York", "2026-11-01T00:00:00Z"),
    ("Australia/Lord_Howe", "2026-10-03T10:00:00Z"),
    ("Australia/Lord_Howe", "2026-04-04T10:00:00Z"),
];

/// The ticks of a day by the rule itself: the local time of every minute is looked at.
fn by_hand(cron: &Cron, start: Timestamp) -> BTreeSet<Timestamp> {
    let mut ticks = BTreeSet::new();
    let mut shown: Option<DateTime> = None;
    for minute in 1..=24 * 60 {
        let time = start + SignedDuration::from_mins(minute);
        let local = cron.zone.to_datetime(time);
        let fits = |local: &DateTime| {
            let next = cron.expression.find_next_occurrence(local, true);
            next.is_ok_and(|next| next == *local)
        };
        if cron.names_times {
            // Every time from the last one shown on, so that skipped ones count and repeated ones do not.
            let mut missing = shown.map_or(local, |shown| shown + SignedDuration::from_mins(1));
            while missing <= local {
                if fits(&missing) {
                    ticks.insert(time);
                }
                missing += SignedDuration::from_mins(1);
            }
            shown = Some(shown.map_or(local, |shown| shown.max(local)));
        } else if fits(&local) {
            ticks.insert(time);
        }
    }
    ticks
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in ".{0,40}", zone in ".{0,20}") {
        drop(Cron::parse(&text, "UTC"));
        drop(Cron::parse("* * * * *", &zone));
    }

    #[test]
    fn likely_texts_are_read_or_refused(text in "[0-9*/,LW#?@a-zA-Z+ -]{0,40}") {
        if let Ok(cron) = Cron::parse(&text, "Europe/Berlin") {
            let time = Timestamp::UNIX_EPOCH;
            if let Ok(next) = cron.after(time) {
                prop_assert!(next > time);
            }
        }
    }

    #[test]
    fn ticks_around_a_jump_are_those_of_the_rule(
        minute in field(59), hour in field(23), jump in 0..JUMPS.len(),
    ) {
        let (zone, start) = JUMPS[jump];
        let cron = Cron::parse(&format!("{minute} {hour} * * *"), zone).unwrap();
        let start: Timestamp = start.parse().unwrap();
        let end = start + SignedDuration::from_hours(24);
        let mut ticks = BTreeSet::new();
        let mut time = start;
        loop {
            let next = cron.after(time).unwrap();
            prop_assert!(next > time);
            if next > end {
                break;
            }
            ticks.insert(next);
            time = next;
        }
        prop_assert_eq!(&ticks, &by_hand(&cron, start));
        // A tick is the same wherever the search begins.
        for tick in &ticks {
            let before = ticks.range(..*tick).next_back().copied().unwrap_or(start);
            for from in [*tick - SignedDuration::from_nanos(1), before + tick.duration_since(before) / 2] {
                prop_assert_eq!(cron.after(from).unwrap(), *tick, "from {}", from);
            }
        }
    }
}
