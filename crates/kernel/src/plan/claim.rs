//! What a claim takes.

/// Those of the due batches, oldest first, that a claim may take from: the oldest alone if it came
/// back from an expiry, otherwise all that did not.
pub fn claimable<B>(mut due: Vec<B>, is_isolated: impl Fn(&B) -> bool) -> Vec<B> {
    if due.first().is_some_and(&is_isolated) {
        due.truncate(1);
    } else {
        due.retain(|batch| !is_isolated(batch));
    }
    due
}

/// What a claim takes of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// All of it; the claim may go on with the next batch.
    Whole,
    /// Its first messages; the claim ends here, and the rest of the batch stays.
    Part(usize),
    /// Nothing; the claim ends before it.
    Nothing,
}

/// What a claim may still take, batch by batch.
#[derive(Debug)]
pub struct Room {
    messages: usize,
    bytes: u64,
    is_untouched: bool,
}

impl Room {
    /// The room of a claim that has taken nothing. Its first message fits whatever its size.
    pub fn new(messages: u32, bytes: u64) -> Self {
        Self {
            messages: messages as usize,
            bytes,
            is_untouched: true,
        }
    }

    /// How many messages of a batch of this length fit if their sizes allow it.
    pub fn at_most(&self, length: usize) -> usize {
        length.min(self.messages)
    }

    /// Takes from a batch of this many messages and bytes; none if the size of each message decides.
    pub fn take_by_total(&mut self, length: usize, bytes: u64) -> Option<Share> {
        if self.messages > 0 && bytes > self.bytes {
            return None;
        }
        let taken = self.at_most(length);
        self.bytes = self.bytes.saturating_sub(bytes);
        Some(self.take(length, taken))
    }

    /// Takes from a batch of this many messages, with the size of each, of the first `at_most` at least.
    pub fn take_by_sizes(&mut self, length: usize, sizes: impl IntoIterator<Item = u64>) -> Share {
        let mut taken = 0;
        for size in sizes.into_iter().take(self.messages) {
            let rest = self.bytes.checked_sub(size);
            if rest.is_none() && !(self.is_untouched && taken == 0) {
                break;
            }
            self.bytes = rest.unwrap_or(0);
            taken += 1;
        }
        self.take(length, taken)
    }

    fn take(&mut self, length: usize, taken: usize) -> Share {
        self.messages -= taken;
        self.is_untouched &= taken == 0;
        match taken {
            0 => Share::Nothing,
            _ if taken == length => Share::Whole,
            _ => Share::Part(taken),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_isolated_batch_is_taken_alone_when_it_is_the_oldest_and_never_otherwise() {
        let (isolated, other) = (true, false);
        for (due, taken) in [
            (vec![], vec![]),
            (vec![isolated, other], vec![isolated]),
            (vec![isolated, isolated], vec![isolated]),
            (vec![other, isolated, other], vec![other, other]),
        ] {
            assert_eq!(claimable(due, |batch| *batch), taken);
        }
    }

    #[test]
    fn messages_fit_until_the_bytes_are_used_up_but_the_first_always_does() {
        use Share::{Nothing, Part, Whole};
        type Batches = Vec<Vec<u64>>;
        let table: [(Batches, u32, u64, Vec<Share>); 8] = [
            (vec![vec![3, 3, 3]], 10, 9, vec![Whole]),
            (vec![vec![3, 3, 3]], 10, 8, vec![Part(2)]),
            (vec![vec![3, 3, 3]], 2, 9, vec![Part(2)]),
            (vec![vec![9, 1]], 10, 8, vec![Part(1)]),
            (vec![vec![9], vec![1]], 10, 8, vec![Whole, Nothing]),
            (vec![vec![5], vec![9, 1]], 10, 8, vec![Whole, Nothing]),
            (vec![vec![5], vec![2, 1, 1]], 10, 8, vec![Whole, Part(2)]),
            (vec![vec![5], vec![2, 1]], 1, 8, vec![Whole, Nothing]),
        ];
        for (batches, limit, bytes, shares) in table {
            let (mut sized, mut total) = (Room::new(limit, bytes), Room::new(limit, bytes));
            for (sizes, share) in batches.iter().zip(shares) {
                let length = sizes.len();
                assert_eq!(sized.take_by_sizes(length, sizes.iter().copied()), share);
                let by_total = total.take_by_total(length, sizes.iter().sum());
                let by_total =
                    by_total.unwrap_or_else(|| total.take_by_sizes(length, sizes.iter().copied()));
                assert_eq!(by_total, share, "{sizes:?} of {limit} and {bytes}");
            }
        }
    }
}
