//! A bucket of calls for each client.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard},
    time::Duration,
};

use tokio::time::Instant;

use super::{Allowance, Refused};
use crate::Client;

/// More clients than this are not remembered at once. Those with a full bucket need not be.
const CLIENTS_MAX: usize = 10_000;

#[derive(Clone, Copy, Debug)]
struct Bucket {
    tokens: f64,
    at: Instant,
}

/// Buckets of `burst` calls, refilled at a rate.
#[derive(Debug)]
pub(super) struct Buckets {
    per_minute: u32,
    per_second: f64,
    burst: f64,
    clients: Mutex<HashMap<Client, Bucket>>,
}

impl Buckets {
    pub(super) fn new(per_minute: u32, burst: u32) -> Self {
        Self {
            per_minute,
            per_second: f64::from(per_minute) / 60.0,
            burst: f64::from(burst.max(1)),
            clients: Mutex::default(),
        }
    }

    /// Takes one call. An empty bucket costs nothing more: a client that keeps asking is let in
    /// again at the same time as one that waits.
    pub(super) fn take(
        &self,
        client: &Client,
        now: Instant,
    ) -> (Allowance, std::result::Result<(), Refused>) {
        let mut clients = self.clients();
        if clients.len() >= CLIENTS_MAX && !clients.contains_key(client) {
            self.forget_some(&mut clients, now);
        }
        let full = Bucket {
            tokens: self.burst,
            at: now,
        };
        let bucket = clients.entry(client.clone()).or_insert(full);
        bucket.tokens = self.tokens(*bucket, now);
        bucket.at = bucket.at.max(now);
        // Rounding must not leave a caller waiting for a billionth of a call.
        let taken = if bucket.tokens + 1e-9 >= 1.0 {
            bucket.tokens -= 1.0;
            Ok(())
        } else {
            let wait = (1.0 - bucket.tokens) / self.per_second;
            let retry_after = Duration::from_secs_f64(wait);
            Err(Refused { retry_after })
        };
        let allowance = Allowance {
            limit: self.per_minute,
            remaining: (bucket.tokens + 1e-9).max(0.0) as u32,
        };
        (allowance, taken)
    }

    fn tokens(&self, bucket: Bucket, now: Instant) -> f64 {
        let passed = now.saturating_duration_since(bucket.at).as_secs_f64();
        (bucket.tokens + passed * self.per_second).min(self.burst)
    }

    /// Forgets full buckets; if there are none, the one that has been idle longest.
    fn forget_some(&self, clients: &mut HashMap<Client, Bucket>, now: Instant) {
        clients.retain(|_, bucket| self.tokens(*bucket, now) < self.burst);
        if clients.len() >= CLIENTS_MAX {
            let oldest = clients.iter().min_by_key(|(_, bucket)| bucket.at);
            if let Some(oldest) = oldest.map(|(client, _)| client.clone()) {
                clients.remove(&oldest);
            }
        }
    }

    fn clients(&self) -> MutexGuard<'_, HashMap<Client, Bucket>> {
        self.clients
            .lock()
            .expect("invariant: no panic under this lock")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(name: &str) -> Client {
        name.parse().unwrap()
    }

    /// O-21: a bucket of 30, refilled with one a second.
    #[test]
    fn o21_the_first_call_over_the_burst_is_refused_and_told_when_to_come_back() {
        let start = Instant::now();
        let buckets = Buckets::new(60, 30);
        let (me, other) = (client("me"), client("other"));
        for left in (0..30).rev() {
            let (allowance, taken) = buckets.take(&me, start);
            assert_eq!((allowance.limit, allowance.remaining), (60, left));
            assert_eq!(taken, Ok(()));
        }
        let (allowance, refused) = buckets.take(&me, start);
        assert_eq!(allowance.remaining, 0);
        let retry_after = refused.unwrap_err().retry_after;
        assert_eq!(retry_after, Duration::from_secs(1));
        assert_eq!(buckets.take(&other, start).1, Ok(()), "each has its own");
        let later = start + retry_after;
        assert_eq!(buckets.take(&me, later).1, Ok(()));
        assert!(buckets.take(&me, later).1.is_err());
    }

    #[test]
    fn asking_again_and_again_does_not_put_off_the_next_call() {
        let start = Instant::now();
        let buckets = Buckets::new(60, 1);
        let me = client("me");
        let mut passed = 0;
        for ms in (0..10_000).step_by(10) {
            let now = start + Duration::from_millis(ms);
            passed += u32::from(buckets.take(&me, now).1.is_ok());
        }
        assert_eq!(passed, 10);
    }

    #[test]
    fn clients_that_are_well_again_are_forgotten_first() {
        let start = Instant::now();
        let buckets = Buckets::new(60, 1);
        for number in 0..CLIENTS_MAX {
            assert!(
                buckets
                    .take(&client(&format!("c{number}")), start)
                    .1
                    .is_ok()
            );
        }
        let later = start + Duration::from_millis(500);
        assert!(buckets.take(&client("one more"), later).1.is_ok());
        assert_eq!(buckets.clients().len(), CLIENTS_MAX);
        let later = start + Duration::from_millis(1_200);
        assert!(buckets.take(&client("another"), later).1.is_ok());
        assert_eq!(
            buckets.clients().len(),
            2,
            "one has half a call, one is new"
        );
    }
}
