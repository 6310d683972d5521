//! The send slots of a queue with a rate for all processes: reserved from the store, used in time or not at all.

use std::{collections::VecDeque, time::Duration};

use consign_kernel::SendSlots;
use jiff::Timestamp;
use tokio::time::Instant;

/// A slot that was not used so long after its time is lost. With what a rate leaves unused, this is how
/// processes together keep it.
const LATE_MAX: Duration = Duration::from_millis(20);
/// A store that did not answer is asked again after this long.
const RESERVE_AGAIN: Duration = Duration::from_millis(200);
/// Clocks drift: an older comparison with the store's clock counts no more.
const COMPARED_MAX: Duration = Duration::from_secs(60);

/// A comparison of the store's clock with this process's.
#[derive(Clone, Copy, Debug)]
struct Comparison {
    /// Here, when the store's clock showed `there`; wrong by up to half of `took`.
    here: Instant,
    there: Timestamp,
    took: Duration,
}

impl Comparison {
    /// This process's time of a time of the store.
    fn here(&self, at: Timestamp) -> Instant {
        let after = at.duration_since(self.there);
        let distance = after.unsigned_abs();
        if after.is_negative() {
            self.here.checked_sub(distance).unwrap_or(self.here)
        } else {
            self.here + distance
        }
    }

    /// Whether both cannot be of clocks that go alike: the store's clock was set.
    fn contradicts(&self, other: &Self) -> bool {
        let (here, there) = (self.here(other.there), other.here);
        let apart = here.max(there).duration_since(here.min(there));
        apart > (self.took + other.took) / 2 + Duration::from_millis(1)
    }
}

/// The slots at hand.
#[derive(Debug, Default)]
pub(super) struct Slots {
    times: VecDeque<Instant>,
    /// The most exact one of the last minute.
    compared: Option<Comparison>,
    is_reserving: bool,
    /// None is reserved before then.
    again_at: Option<Instant>,
}

impl Slots {
    /// How many to reserve for so many deliveries that could start; none while a reservation is under way.
    pub(super) fn missing(&mut self, wanted: usize, now: Instant) -> Option<u32> {
        self.drop_late(now);
        let missing = wanted.saturating_sub(self.times.len());
        self.again_at = self.again_at.filter(|at| now < *at);
        let may_reserve = missing > 0 && !self.is_reserving && self.again_at.is_none();
        may_reserve.then(|| u32::try_from(missing).unwrap_or(u32::MAX))
    }

    pub(super) fn started_reserving(&mut self) {
        self.is_reserving = true;
    }

    /// The store did not answer.
    pub(super) fn were_not_reserved(&mut self, now: Instant) {
        self.is_reserving = false;
        self.again_at = Some(now + RESERVE_AGAIN);
    }

    /// Takes in what was reserved by a call between these times. Where all slots of the next seconds are taken,
    /// the next call waits as long as the store requests.
    pub(super) fn reserved(&mut self, slots: Option<SendSlots>, sent: Instant, received: Instant) {
        self.is_reserving = false;
        let Some(slots) = slots else { return };
        let took = received.duration_since(sent);
        let new = Comparison {
            here: sent + took / 2,
            there: slots.now,
            took,
        };
        let is_better = |old: &Comparison| {
            took <= old.took
                || received.duration_since(old.here) > COMPARED_MAX
                || old.contradicts(&new)
        };
        let compared = self.compared.filter(|old| !is_better(old)).unwrap_or(new);
        self.compared = Some(compared);
        if slots.count == 0 {
            self.again_at = Some(compared.here(slots.first_at));
        }
        let times = (0..slots.count).map(|nth| compared.here(slots.at(nth)));
        self.times.extend(times);
    }

    /// Whether a slot may be used now, and if not, when the next one may, or when some may be reserved.
    pub(super) fn due(&mut self, now: Instant) -> Result<(), Option<Instant>> {
        self.drop_late(now);
        match self.times.front() {
            Some(at) if *at <= now => Ok(()),
            next => Err(next.copied().or(self.again_at)),
        }
    }

    /// Uses the slot that is due.
    pub(super) fn take(&mut self) {
        self.times.pop_front();
    }

    fn drop_late(&mut self, now: Instant) {
        while self.times.front().is_some_and(|at| *at + LATE_MAX < now) {
            self.times.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn slots(now: i64, first_at: i64, count: u32) -> Option<SendSlots> {
        let at = |ms| Timestamp::from_millisecond(ms).unwrap();
        Some(SendSlots {
            now: at(now),
            first_at: at(first_at),
            apart_us: 10_000,
            count,
        })
    }

    #[test]
    fn a_slot_is_used_in_time_or_lost() {
        let start = Instant::now();
        let mut held = Slots::default();
        assert_eq!(held.missing(3, start), Some(3));
        held.started_reserving();
        assert_eq!(held.missing(3, start), None, "one call at a time");
        held.reserved(slots(1_000, 1_010, 3), start, start);
        assert_eq!(held.due(start), Err(Some(start + 10 * MS)));
        assert_eq!(held.due(start + 10 * MS), Ok(()));
        held.take();
        // The second is lost at 40, the third is late by 10.
        assert_eq!(held.missing(3, start + 41 * MS), Some(2));
        assert_eq!(held.due(start + 41 * MS), Ok(()));
        held.take();
        assert_eq!(held.due(start + 41 * MS), Err(None));
    }

    #[test]
    fn the_quickest_answer_tells_the_clocks_apart() {
        let start = Instant::now();
        let mut held = Slots::default();
        held.reserved(slots(1_000, 1_000, 0), start, start + 2 * MS);
        // Received 300 ms after it was sent, read by the store right at the start.
        let sent = start + 100 * MS;
        held.reserved(slots(1_099, 1_500, 1), sent, sent + 300 * MS);
        assert_eq!(held.due(start), Err(Some(start + 501 * MS)));
    }

    #[test]
    fn none_is_reserved_before_the_store_has_some_again() {
        let start = Instant::now();
        let mut held = Slots::default();
        held.started_reserving();
        held.reserved(slots(1_000, 1_700, 0), start, start);
        assert_eq!(held.missing(3, start + 699 * MS), None);
        let due = held.due(start + 699 * MS);
        assert_eq!(due, Err(Some(start + 700 * MS)), "wakes up then");
        assert_eq!(held.missing(3, start + 700 * MS), Some(3));
    }

    #[test]
    fn a_clock_that_was_set_is_compared_anew() {
        let start = Instant::now();
        let mut held = Slots::default();
        held.reserved(slots(1_000, 1_000, 0), start, start + 2 * MS);
        let sent = start + 100 * MS;
        held.reserved(slots(3_600_000, 3_600_010, 1), sent, sent + 4 * MS);
        assert_eq!(held.due(start), Err(Some(sent + 12 * MS)));
    }

    #[test]
    fn a_queue_without_such_a_rate_has_no_slots() {
        let now = Instant::now();
        let mut held = Slots::default();
        held.started_reserving();
        held.reserved(None, now, now);
        assert_eq!(held.missing(1, now), Some(1), "it may have one by now");
        assert_eq!(held.due(now), Err(None));
    }
}
