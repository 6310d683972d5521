//! Send slots: how several processes keep one rate. The store hands out the times, by its clock.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::{
    PAGE_ENTRIES_MAX,
    error::{Error, Result},
};

/// The part of a rate that is handed out, in percent. The rest covers what passes between the time of a slot
/// and the send, so that no second sees more sends than the rate.
const RATE_PERCENT: u64 = 97;
/// A call reserves what fits into this long: slots of a process that ends are lost.
const HORIZON: Duration = Duration::from_millis(500);
/// No slots are handed out so far ahead, unless the clock was set back.
const AHEAD_MAX: SignedDuration = SignedDuration::from_mins(5);

/// Times at which the holder may send a message each, by the store's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SendSlots {
    /// The store's clock at the time of the call.
    pub now: Timestamp,
    /// The time of the first slot, now or later.
    pub first_at: Timestamp,
    /// From one slot to the next, in microseconds.
    pub apart_us: u64,
    /// How many.
    pub count: u32,
}

impl SendSlots {
    /// Reserves up to `count` slots of a rate, and returns the time of the next one after them. `next_at`: the
    /// time that the reservation before this one returned.
    pub fn reserve(
        rate_per_second: u32,
        next_at: Option<Timestamp>,
        now: Timestamp,
        count: u32,
    ) -> (Self, Timestamp) {
        let rate = u64::from(rate_per_second);
        let apart_us = 100_000_000_u64.div_ceil(rate * RATE_PERCENT);
        let most = (HORIZON.as_micros() as u64 / apart_us).clamp(1, PAGE_ENTRIES_MAX.into());
        let count = count.min(most as u32);
        let is_sane = |at: &Timestamp| at.duration_since(now) <= AHEAD_MAX;
        let first_at = next_at.filter(is_sane).map_or(now, |at| at.max(now));
        let slots = Self {
            now,
            first_at,
            apart_us,
            count,
        };
        (slots, slots.at(count))
    }

    /// The time of the nth slot, from 0.
    pub fn at(&self, nth: u32) -> Timestamp {
        let after = self.apart_us * u64::from(nth);
        self.first_at + SignedDuration::from_micros(after as i64)
    }

    /// Rejects a reservation of nothing, and one longer than a page.
    pub fn validate_count(count: u32) -> Result<()> {
        if !(1..=PAGE_ENTRIES_MAX).contains(&count) {
            let why = format!("must be from 1 to {PAGE_ENTRIES_MAX}");
            return Err(Error::out_of_bounds("slots", count, why));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: i64) -> Timestamp {
        Timestamp::from_microsecond(micros).unwrap()
    }

    #[test]
    fn no_second_has_more_slots_than_the_rate_even_if_each_is_used_a_little_late() {
        let late = SignedDuration::from_millis(25);
        for rate in [1_u32, 2, 7, 50, 999, 10_000] {
            let (mut next_at, mut sends) = (None, Vec::new());
            for call in 0..60 {
                let now = at(call * 37_003);
                let (slots, next) = SendSlots::reserve(rate, next_at, now, 20);
                next_at = Some(next);
                sends.extend((0..slots.count).map(|nth| slots.at(nth)));
            }
            for (index, first) in sends.iter().enumerate() {
                let end = *first + late + SignedDuration::from_secs(1);
                // The first one is late, all others are in time.
                let within = sends[index..].iter().take_while(|send| **send < end);
                assert!(within.count() <= rate as usize, "{rate}/s");
            }
        }
    }

    #[test]
    fn slots_follow_each_other_and_begin_now_after_a_rest() {
        let (first, next) = SendSlots::reserve(100, None, at(0), 3);
        assert_eq!((first.first_at, first.count), (at(0), 3));
        assert_eq!(next, first.at(3));
        let (second, next) = SendSlots::reserve(100, Some(next), at(1), 2);
        assert_eq!(second.first_at, first.at(3));
        let (rested, _) = SendSlots::reserve(100, Some(next), at(9_000_000), 2);
        assert_eq!(rested.first_at, at(9_000_000));
    }

    #[test]
    fn a_call_reserves_half_a_second_at_most_and_one_slot_at_least() {
        for (rate, wanted, count) in [
            (1, 5, 1),
            (100, 500, 48),
            (100, 7, 7),
            (10_000, 1_000, 1_000),
        ] {
            let (slots, _) = SendSlots::reserve(rate, None, at(0), wanted);
            assert_eq!(slots.count, count, "{rate}/s");
        }
    }

    #[test]
    fn after_the_clock_was_set_back_slots_begin_now() {
        let (slots, _) = SendSlots::reserve(10, Some(at(3_600_000_000)), at(0), 1);
        assert_eq!(slots.first_at, at(0));
        let (slots, _) = SendSlots::reserve(10, Some(at(300_000_000)), at(0), 1);
        assert_eq!(slots.first_at, at(300_000_000), "in five minutes");
    }
}
