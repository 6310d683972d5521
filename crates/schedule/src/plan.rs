//! A step of a schedule: which ticks get a message.

use consign_kernel::{MISSED_AFTER, MissedPolicy, NextTick, Result, TICKS_MAX, Tick, TickPlan};
use jiff::{SignedDuration, Timestamp};

use crate::Cron;

/// Missed ticks are counted no further: a tick a second makes more in a day and a half than anybody
/// wants to know exactly.
pub const MISSED_COUNT_MAX: u64 = 100_000;

/// The next step of a schedule, at a time of the database's clock that is not before its next tick.
///
/// Ticks that are due for longer than [`MISSED_AFTER`] are missed, and the policy decides about them; every
/// other tick gets its message, however late it is. The plan may leave ticks for further steps.
pub fn plan(from: &NextTick, now: Timestamp) -> Result<TickPlan> {
    let cron = Cron::parse(&from.cron, &from.time_zone)?;
    let cutoff = later(now, -(MISSED_AFTER.as_secs() as i64));
    let missed = count(&cron, from.at, cutoff)?;
    let timely = cron.between(from.at.max(cutoff), later(now, 1).max(from.at));
    let timely = timely.take_while(|tick| !matches!(tick, Ok(tick) if *tick > now));
    // One more than fit, to know where the next step begins.
    let timely: Vec<Timestamp> = timely.take(TICKS_MAX + 1).collect::<Result<_>>()?;
    let made_up = match from.missed {
        MissedPolicy::All => last(&cron, from.at, cutoff, from.missed_max as usize)?,
        // The first message of a tick that was not missed stands for those before it.
        MissedPolicy::Once if timely.is_empty() => last(&cron, from.at, cutoff, 1)?,
        MissedPolicy::Once | MissedPolicy::Skip => Vec::new(),
    };
    let dropped = missed.saturating_sub(made_up.len() as u64);
    let all: Vec<Timestamp> = made_up.iter().chain(&timely).copied().collect();
    let taken = &all[..all.len().min(TICKS_MAX)];
    let next_at = match all.get(TICKS_MAX) {
        Some(tick) => *tick,
        None => cron.after(now.max(from.at))?,
    };
    let mut ticks: Vec<Tick> = taken.iter().map(|at| Tick { at: *at, missed: 0 }).collect();
    if from.missed == MissedPolicy::Once
        && let Some(first) = ticks.first_mut()
    {
        first.missed = dropped;
    }
    Ok(TickPlan {
        from: from.clone(),
        ticks,
        missed: dropped + taken.iter().filter(|tick| **tick < cutoff).count() as u64,
        dropped,
        next_at,
    })
}

/// How many ticks are in `[from, until)`, at most [`MISSED_COUNT_MAX`].
fn count(cron: &Cron, from: Timestamp, until: Timestamp) -> Result<u64> {
    let ticks = cron.between(from, until).take(MISSED_COUNT_MAX as usize);
    ticks.map(|tick| tick.map(|_| 1)).sum()
}

/// The last `count` ticks in `[from, until)`.
///
/// Looks at spans before the end that become twice as long each time, so that years of ticks are not walked
/// through for the last of them.
fn last(cron: &Cron, from: Timestamp, until: Timestamp, count: usize) -> Result<Vec<Timestamp>> {
    let mut seconds: i64 = 60;
    loop {
        let start = later(until, -seconds).max(from);
        let mut ticks: Vec<Timestamp> = cron.between(start, until).collect::<Result<_>>()?;
        if ticks.len() >= count || start == from {
            ticks.drain(..ticks.len().saturating_sub(count));
            return Ok(ticks);
        }
        seconds = seconds.saturating_mul(2);
    }
}

fn later(time: Timestamp, seconds: i64) -> Timestamp {
    time.saturating_add(SignedDuration::from_secs(seconds))
        .expect("invariant: adding a duration saturates")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn next(cron: &str, missed: MissedPolicy, missed_max: u32, next_at: &str) -> NextTick {
        NextTick {
            name: "daily".parse().unwrap(),
            cron: cron.to_owned(),
            time_zone: "Europe/Berlin".to_owned(),
            missed,
            missed_max,
            at: at(next_at),
        }
    }

    /// Ticks with what they stand for, missed, dropped, next.
    fn planned(from: &NextTick, now: &str) -> (Vec<(String, u64)>, u64, u64, String) {
        let plan = plan(from, at(now)).unwrap();
        plan.validate().unwrap();
        let ticks = plan.ticks.iter().map(|t| (t.at.to_string(), t.missed));
        (
            ticks.collect(),
            plan.missed,
            plan.dropped,
            plan.next_at.to_string(),
        )
    }

    fn plain(ticks: &[(&str, u64)]) -> Vec<(String, u64)> {
        let owned = ticks.iter().map(|(at, missed)| ((*at).to_owned(), *missed));
        owned.collect()
    }

    use MissedPolicy::{All, Once, Skip};

    #[test]
    fn a_tick_in_time_is_taken_whatever_the_policy() {
        for policy in [Skip, Once, All] {
            let from = next("0 8 * * *", policy, 10, "2026-01-10T07:00:00Z");
            // On time, and as late as it may be.
            for now in [
                "2026-01-10T07:00:00Z",
                "2026-01-10T07:00:00.4Z",
                "2026-01-10T07:01:00Z",
            ] {
                let expected = (
                    plain(&[("2026-01-10T07:00:00Z", 0)]),
                    0,
                    0,
                    "2026-01-11T07:00:00Z".to_owned(),
                );
                assert_eq!(planned(&from, now), expected, "{policy:?} at {now}");
            }
        }
    }

    #[test]
    fn ticks_of_a_minute_are_late_and_not_missed() {
        for policy in [Skip, Once, All] {
            let from = next("*/15 * * * * *", policy, 10, "2026-01-10T07:00:00Z");
            let (ticks, missed, dropped, next_at) = planned(&from, "2026-01-10T07:00:50Z");
            assert_eq!((ticks.len(), missed, dropped), (4, 0, 0));
            assert_eq!(next_at, "2026-01-10T07:01:00Z");
        }
    }

    #[test]
    fn a_missed_week_is_as_the_policy_says() {
        let now = "2026-01-17T12:00:00Z";
        let after = "2026-01-18T07:00:00Z".to_owned();
        let skip = next("0 8 * * *", Skip, 10, "2026-01-10T07:00:00Z");
        assert_eq!(planned(&skip, now), (vec![], 8, 8, after.clone()));
        let once = next("0 8 * * *", Once, 10, "2026-01-10T07:00:00Z");
        let last = ("2026-01-17T07:00:00Z", 7);
        assert_eq!(planned(&once, now), (plain(&[last]), 8, 7, after.clone()));
        let all = next("0 8 * * *", All, 3, "2026-01-10T07:00:00Z");
        let three = [
            "2026-01-15T07:00:00Z",
            "2026-01-16T07:00:00Z",
            "2026-01-17T07:00:00Z",
        ];
        let three = three.map(|tick| (tick, 0));
        assert_eq!(planned(&all, now), (plain(&three), 8, 5, after));
    }

    #[test]
    fn once_means_one_message_also_where_a_tick_is_in_time() {
        let from = next("0 * * * *", Once, 10, "2026-01-10T07:00:00Z");
        let expected = (
            plain(&[("2026-01-10T12:00:00Z", 5)]),
            5,
            5,
            "2026-01-10T13:00:00Z".to_owned(),
        );
        assert_eq!(planned(&from, "2026-01-10T12:00:10Z"), expected);
        let skip = next("0 * * * *", Skip, 10, "2026-01-10T07:00:00Z");
        let (ticks, missed, dropped, _) = planned(&skip, "2026-01-10T12:00:10Z");
        assert_eq!(
            (ticks, missed, dropped),
            (plain(&[("2026-01-10T12:00:00Z", 0)]), 5, 5)
        );
    }

    #[test]
    fn many_missed_ticks_are_taken_in_steps() {
        let mut from = next("* * * * *", All, 250, "2026-01-10T00:00:00Z");
        let now = at("2026-01-10T12:00:30Z");
        let (mut ticks, mut missed, mut dropped) = (Vec::new(), 0, 0);
        while from.at <= now {
            let plan = plan(&from, now).unwrap();
            plan.validate().unwrap();
            assert!(plan.ticks.len() <= TICKS_MAX);
            ticks.extend(plan.ticks.iter().map(|tick| tick.at));
            (missed, dropped) = (missed + plan.missed, dropped + plan.dropped);
            from.at = plan.next_at;
        }
        assert_eq!((missed, dropped), (720, 470), "each counted once");
        assert_eq!(ticks.len(), 251);
        assert_eq!(ticks[0], at("2026-01-10T07:50:00Z"));
        assert_eq!(ticks[250], at("2026-01-10T12:00:00Z"));
        assert!(ticks.is_sorted_by(|a, b| a < b), "each once, in order");
        assert_eq!(from.at, at("2026-01-10T12:01:00Z"));
    }

    #[test]
    fn years_of_ticks_end_in_one_step() {
        let from = next("* * * * * *", Once, 10, "2020-01-01T00:00:00Z");
        let plan = plan(&from, at("2026-01-01T00:00:00Z")).unwrap();
        plan.validate().unwrap();
        assert_eq!(
            (plan.missed, plan.dropped),
            (MISSED_COUNT_MAX, MISSED_COUNT_MAX)
        );
        assert_eq!(plan.ticks.len(), 61);
        assert_eq!(plan.next_at, at("2026-01-01T00:00:01Z"));
    }

    #[test]
    fn a_step_of_what_is_not_due_leads_forward_all_the_same() {
        let from = next("0 8 * * *", Once, 10, "2026-01-10T07:00:00Z");
        let plan = plan(&from, at("2026-01-09T00:00:00Z")).unwrap();
        assert_eq!(plan.ticks, []);
        plan.validate().unwrap();
        assert_eq!(plan.next_at, at("2026-01-11T07:00:00Z"));
    }
}
