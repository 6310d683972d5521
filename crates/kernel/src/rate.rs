//! Token buckets: how a rate is enforced. The caller supplies the time.

use std::{
    borrow::Borrow,
    collections::HashMap,
    hash::Hash,
    sync::Mutex,
    time::{Duration, Instant},
};

/// Keys whose buckets are kept at most: a flood of keys must not become a flood of memory.
const KEYS_MAX: usize = 10_000;

/// So many a second, minute or day in the long run, and so many at once after a rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// The time one token takes to come back.
    period: Duration,
    /// The time an empty bucket takes to become full.
    capacity: Duration,
}

impl Rate {
    /// `count` tokens per `per`, and up to `burst` at once; both are at least one.
    pub fn new(count: u32, per: Duration, burst: u32) -> Self {
        let period = (per / count.max(1)).max(Duration::from_nanos(1));
        Self {
            period,
            capacity: period * burst.max(1),
        }
    }
}

/// A bucket of tokens, kept as the one instant at which it would be full.
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    rate: Rate,
    full_at: Instant,
}

impl Bucket {
    /// A full bucket.
    pub fn new(rate: Rate, now: Instant) -> Self {
        Self { rate, full_at: now }
    }

    /// The rate it enforces.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// Takes a token, or returns the time until there is one. A refusal costs nothing: a caller that
    /// keeps trying gets the next token at the same time as one that waits.
    pub fn take(&mut self, now: Instant) -> Result<(), Duration> {
        let missing = self.full_in(now) + self.rate.period;
        match missing.checked_sub(self.rate.capacity) {
            Some(wait) if !wait.is_zero() => Err(wait),
            _ => {
                self.full_at = now + missing;
                Ok(())
            }
        }
    }

    /// Tokens that could be taken now.
    pub fn remaining(&self, now: Instant) -> u32 {
        let left = self.rate.capacity.saturating_sub(self.full_in(now));
        let tokens = left.as_nanos() / self.rate.period.as_nanos();
        u32::try_from(tokens).unwrap_or(u32::MAX)
    }

    /// The time until it is full. A full bucket is as good as a new one.
    pub fn full_in(&self, now: Instant) -> Duration {
        self.full_at.saturating_duration_since(now)
    }
}

/// A bucket for each key, all of one rate.
#[derive(Debug)]
pub struct Buckets<K> {
    rate: Rate,
    keys: Mutex<HashMap<K, Bucket>>,
}

impl<K: Eq + Hash> Buckets<K> {
    /// Full buckets.
    pub fn new(rate: Rate) -> Self {
        Self {
            rate,
            keys: Mutex::default(),
        }
    }

    /// Takes a token of this key, or returns the time until there is one; and the bucket afterwards.
    pub fn take<Q>(&self, key: &Q, now: Instant) -> (Bucket, Result<(), Duration>)
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ToOwned<Owned = K> + ?Sized,
    {
        let mut keys = self
            .keys
            .lock()
            .expect("invariant: no panic under this lock");
        if let Some(bucket) = keys.get_mut(key) {
            let taken = bucket.take(now);
            return (*bucket, taken);
        }
        if keys.len() >= KEYS_MAX {
            make_room(&mut keys, now);
        }
        let mut bucket = Bucket::new(self.rate, now);
        let taken = bucket.take(now);
        keys.insert(key.to_owned(), bucket);
        (bucket, taken)
    }
}

/// Drops every full bucket, and if there are none all that are the nearest to it.
fn make_room<K>(keys: &mut HashMap<K, Bucket>, now: Instant) {
    let nearest = keys.values().map(|bucket| bucket.full_at).min();
    let full_at = nearest.map_or(now, |nearest| nearest.max(now));
    keys.retain(|_, bucket| bucket.full_at > full_at);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn per_second(count: u32, burst: u32) -> Rate {
        Rate::new(count, Duration::from_secs(1), burst)
    }

    #[test]
    fn enforces_the_rate_with_a_small_burst() {
        for (rate, burst) in [(1, 1), (3, 1), (100, 10), (2_000, 200)] {
            let start = Instant::now();
            let mut bucket = Bucket::new(per_second(rate, burst), start);
            let mut taken = 0;
            for ms in 0..10_000 {
                while bucket.take(start + Duration::from_millis(ms)).is_ok() {
                    taken += 1;
                }
            }
            let expected = rate * 10;
            assert!(
                (expected - 2..=expected + burst).contains(&taken),
                "{rate}/s: {taken} in 10 s"
            );
        }
    }

    #[test]
    fn an_empty_bucket_returns_the_wait_and_a_refusal_does_not_prolong_it() {
        let now = Instant::now();
        let mut bucket = Bucket::new(per_second(4, 2), now);
        assert_eq!((bucket.take(now), bucket.remaining(now)), (Ok(()), 1));
        assert_eq!((bucket.take(now), bucket.remaining(now)), (Ok(()), 0));
        for ms in [0, 100, 249] {
            let left = Duration::from_millis(250 - ms);
            assert_eq!(bucket.take(now + Duration::from_millis(ms)), Err(left));
        }
        let later = now + Duration::from_millis(250);
        assert_eq!(bucket.take(later), Ok(()));
        assert!(bucket.take(later).is_err());
        assert_eq!(bucket.full_in(later), Duration::from_millis(500));
        let rested = now + Duration::from_secs(60);
        assert_eq!(bucket.remaining(rested), 2);
        assert_eq!(bucket.full_in(rested), Duration::ZERO);
    }

    #[test]
    fn each_key_has_a_bucket_of_its_own() {
        let buckets: Buckets<String> = Buckets::new(per_second(10, 3));
        let start = Instant::now();
        for left in [2, 1, 0] {
            let (bucket, taken) = buckets.take("a", start);
            assert_eq!((taken, bucket.remaining(start)), (Ok(()), left));
        }
        assert!(buckets.take("a", start).1.is_err());
        assert!(buckets.take("b", start).1.is_ok());
        let later = start + Duration::from_millis(100);
        assert!(buckets.take("a", later).1.is_ok(), "one token came back");
        assert!(buckets.take("a", later).1.is_err());
    }

    #[test]
    fn a_flood_of_keys_does_not_fill_the_memory() {
        let buckets: Buckets<usize> = Buckets::new(per_second(1, 2));
        let start = Instant::now();
        assert!(buckets.take(&KEYS_MAX, start).1.is_ok());
        assert!(buckets.take(&KEYS_MAX, start).1.is_ok());
        for key in 1..KEYS_MAX {
            assert!(buckets.take(&key, start).1.is_ok());
        }
        let count = || buckets.keys.lock().unwrap().len();
        assert_eq!(count(), KEYS_MAX);
        assert!(buckets.take(&0, start).1.is_ok());
        assert_eq!(count(), 2, "the empty bucket and the new one");
        assert!(buckets.take(&KEYS_MAX, start).1.is_err());
    }
}
