//! How many bytes of messages a worker holds, in all its queues together.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

/// The bytes that are left to hold.
#[derive(Debug)]
pub(crate) struct Budget {
    free: AtomicUsize,
}

impl Budget {
    pub(crate) fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self {
            free: AtomicUsize::new(bytes_max),
        })
    }

    /// As much of `requested` as is free.
    pub(crate) fn reserve(self: &Arc<Self>, requested: usize) -> Reservation {
        let mut bytes = 0;
        let take = |free: usize| {
            bytes = free.min(requested);
            Some(free - bytes)
        };
        // Nothing else is read by it: the number alone must be right.
        self.free
            .fetch_update(Relaxed, Relaxed, take)
            .expect("invariant: it always takes something, if only nothing");
        Reservation {
            budget: Arc::clone(self),
            bytes,
            owed: 0,
        }
    }
}

/// A part of a budget, returned when it is dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    budget: Arc<Budget>,
    bytes: usize,
    /// Held beyond what was free: the first message of a claim has no limit.
    owed: usize,
}

impl Reservation {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// What is held for it, also beyond the budget.
    pub(crate) fn held(&self) -> usize {
        self.bytes + self.owed
    }

    /// The claim brought so many bytes.
    pub(crate) fn settle(&mut self, held: usize) {
        self.owed = held.saturating_sub(self.bytes);
        self.release(self.bytes.saturating_sub(held));
    }

    /// So many bytes of it are no longer held.
    pub(crate) fn release(&mut self, bytes: usize) {
        let from_owed = bytes.min(self.owed);
        self.owed -= from_owed;
        let bytes = (bytes - from_owed).min(self.bytes);
        self.bytes -= bytes;
        self.budget.free.fetch_add(bytes, Relaxed);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.release(self.held());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_reserved_comes_back_once() {
        let budget = Budget::new(100);
        let mut first = budget.reserve(80);
        let second = budget.reserve(80);
        assert_eq!((first.bytes(), second.bytes()), (80, 20));
        assert_eq!(budget.reserve(1).bytes(), 0);
        first.settle(50);
        assert_eq!(budget.reserve(80).bytes(), 30);
        first.release(10);
        first.release(1_000);
        drop(second);
        drop(first);
        assert_eq!(budget.reserve(1_000).bytes(), 100);
    }

    #[test]
    fn a_message_beyond_the_budget_does_not_enlarge_it() {
        let budget = Budget::new(100);
        let mut large = budget.reserve(40);
        large.settle(1_000);
        assert_eq!(large.held(), 1_000);
        large.release(970);
        assert_eq!(large.held(), 30);
        drop(large);
        assert_eq!(budget.reserve(1_000).bytes(), 100);
    }
}
