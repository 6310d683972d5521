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
/// While more than this is reserved, no further slots are.
const AHEAD_MAX: SignedDuration = SignedDuration::from_secs(5);

/// Times at which the holder may send a message each, by the store's clock. None where enough are reserved: then
/// `first_at` is when to call again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SendSlots {
    /// The store's clock at the time of the call.
    pub now: Timestamp,
    /// The time of the first slot, now or later; without slots, when there may be some again.
    pub first_at: Timestamp,
    /// From one slot to the next, in microseconds.
    pub apart_us: u64,
    /// How many.
    pub count: u32,
}

/// The last reservation of a queue's slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlotReservation {
    /// The time of the first slot that is not reserved.
    pub next_at: Timestamp,
    /// What the store's clock showed.
    pub at: Timestamp,
}

impl SlotReservation {
    /// The time of the first free slot by a clock that shows `now`. After the clock was set back it is as far
    /// ahead as it was at the reservation, so that no slot is handed out twice.
    fn next_at(&self, now: Timestamp) -> Timestamp {
        let set_back = self.at.duration_since(now).max(SignedDuration::ZERO);
        (self.next_at - set_back).max(now)
    }
}

impl SendSlots {
    /// Reserves up to `count` slots of a rate after those of the reservation before.
    pub fn reserve(
        rate_per_second: u32,
        last: Option<SlotReservation>,
        now: Timestamp,
        count: u32,
    ) -> (Self, SlotReservation) {
        let rate = u64::from(rate_per_second);
        let apart_us = 100_000_000_u64.div_ceil(rate * RATE_PERCENT);
        let most = (HORIZON.as_micros() as u64 / apart_us).clamp(1, PAGE_ENTRIES_MAX.into());
        let next_at = last.map_or(now, |last| last.next_at(now));
        let is_full = next_at.duration_since(now) > AHEAD_MAX;
        let slots = Self {
            now,
            first_at: if is_full {
                next_at - AHEAD_MAX
            } else {
                next_at
            },
            apart_us,
            count: if is_full { 0 } else { count.min(most as u32) },
        };
        let next_at = if is_full {
            next_at
        } else {
            slots.at(slots.count)
        };
        (slots, SlotReservation { next_at, at: now })
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
            let (mut last, mut sends) = (None, Vec::new());
            for call in 0..60 {
                let now = at(call * 37_003);
                let (slots, next) = SendSlots::reserve(rate, last, now, 20);
                last = Some(next);
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
        assert_eq!(next.next_at, first.at(3));
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
    fn no_slots_are_reserved_beyond_a_few_seconds() {
        let mut last = None;
        let mut reserve = |now| {
            let (slots, next) = SendSlots::reserve(1, last, at(now), 1);
            last = Some(next);
            (slots.count, slots.first_at.as_microsecond())
        };
        // 97 % of one per second: 1,030,928 µs apart.
        for nth in 0..5 {
            assert_eq!(reserve(0), (1, nth * 1_030_928));
        }
        let again = 5 * 1_030_928 - 5_000_000;
        assert_eq!(reserve(0), (0, again));
        assert_eq!(reserve(again - 1), (0, again));
        assert_eq!(reserve(again), (1, 5 * 1_030_928));
        assert_eq!(reserve(again), (0, again + 1_030_928));
    }

    #[test]
    fn after_the_clock_was_set_back_slots_are_as_far_ahead_as_before() {
        let hour = 3_600_000_000;
        let (first, last) = SendSlots::reserve(10, None, at(hour), 5);
        let (second, last) = SendSlots::reserve(10, Some(last), at(0), 1);
        let ahead = i64::from(first.count) * first.apart_us as i64;
        assert_eq!(second.first_at, at(ahead));
        let (third, _) = SendSlots::reserve(10, Some(last), at(10_000_000), 1);
        assert_eq!(third.first_at, at(10_000_000), "all are over");
    }
}
