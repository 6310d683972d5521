//! How often one client may call.

use std::{
    collections::HashMap,
    sync::Mutex,
    time::{Duration, Instant},
};

use axum::http::{HeaderMap, HeaderName, HeaderValue};

use crate::{
    options::RateLimit,
    problem::{Problem, codes},
};

const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// Clients remembered at most: a flood of addresses must not become a flood of memory.
const CLIENTS_MAX: usize = 10_000;

/// A bucket of tokens per client, each kept as the one instant at which it would be full.
#[derive(Debug)]
pub(crate) struct Rates {
    limit: RateLimit,
    full_at: Mutex<HashMap<String, Instant>>,
}

/// What is left to a client.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Quota {
    limit: RateLimit,
    remaining: u32,
    /// Until the bucket is full again.
    full_in: Duration,
}

impl Rates {
    pub(crate) fn new(limit: RateLimit) -> Self {
        Self {
            limit,
            full_at: Mutex::default(),
        }
    }

    /// Takes one request out of the client's bucket; none if there is no limit.
    pub(crate) fn take(&self, client: &str, now: Instant) -> Result<Option<Quota>, Problem> {
        if self.limit.per_second == 0 {
            return Ok(None);
        }
        let each = Duration::from_secs(1) / self.limit.per_second;
        let whole = each * self.limit.burst.max(1);
        let mut clients = self
            .full_at
            .lock()
            .expect("invariant: no panic under this lock");
        if clients.len() >= CLIENTS_MAX {
            // A full bucket is as good as none.
            clients.retain(|_, full_at| *full_at > now);
        }
        let missing = clients.get(client).map_or(Duration::ZERO, |full_at| {
            full_at.saturating_duration_since(now)
        });
        if missing + each > whole {
            return Err(self.refuse(missing + each - whole, missing));
        }
        if clients.len() < CLIENTS_MAX || clients.contains_key(client) {
            clients.insert(client.to_owned(), now + missing + each);
        }
        Ok(Some(self.quota(missing + each)))
    }

    fn quota(&self, missing: Duration) -> Quota {
        let used = missing.as_secs_f64() * f64::from(self.limit.per_second);
        Quota {
            limit: self.limit,
            remaining: self.limit.burst.saturating_sub(used.ceil() as u32),
            full_in: missing,
        }
    }

    fn refuse(&self, wait: Duration, missing: Duration) -> Problem {
        let RateLimit { per_second, burst } = self.limit;
        let detail = format!("one client may call {per_second} times a second, {burst} at once");
        let (quota, policy) = self.quota(missing).fields();
        Problem::new(codes::RATE_LIMITED, detail)
            .retry_after(wait)
            .with_header(RATE_LIMIT, &quota)
            .with_header(RATE_LIMIT_POLICY, &policy)
    }
}

impl Quota {
    /// The values of the two header fields.
    fn fields(self) -> (String, String) {
        let RateLimit { per_second, burst } = self.limit;
        let window = burst.div_ceil(per_second).max(1);
        let reset = self.full_in.as_millis().div_ceil(1_000);
        (
            format!("\"client\";r={};t={reset}", self.remaining),
            format!("\"client\";q={burst};w={window}"),
        )
    }

    /// Tells the client what is left.
    pub(crate) fn tell(self, headers: &mut HeaderMap) {
        let (quota, policy) = self.fields();
        for (name, value) in [(RATE_LIMIT, quota), (RATE_LIMIT_POLICY, policy)] {
            if let Ok(value) = HeaderValue::from_str(&value) {
                headers.insert(name, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_empties_refills_and_is_nobody_elses() {
        let rates = Rates::new(RateLimit {
            per_second: 10,
            burst: 3,
        });
        let start = Instant::now();
        for left in [2, 1, 0] {
            let quota = rates.take("a", start).unwrap().unwrap();
            assert_eq!(quota.remaining, left);
        }
        assert!(rates.take("a", start).is_err());
        assert!(rates.take("b", start).is_ok());
        let later = start + Duration::from_millis(100);
        assert!(rates.take("a", later).is_ok(), "one is back after a tenth");
        assert!(rates.take("a", later).is_err());
        let rested = start + Duration::from_secs(60);
        assert_eq!(rates.take("a", rested).unwrap().unwrap().remaining, 2);
    }

    #[test]
    fn zero_is_no_limit() {
        let rates = Rates::new(RateLimit {
            per_second: 0,
            burst: 0,
        });
        for _ in 0..1_000 {
            assert_eq!(rates.take("a", Instant::now()).unwrap(), None);
        }
    }

    #[test]
    fn many_clients_do_not_fill_the_memory() {
        let rates = Rates::new(RateLimit {
            per_second: 1,
            burst: 1,
        });
        let now = Instant::now();
        for client in 0..CLIENTS_MAX + 100 {
            assert!(rates.take(&client.to_string(), now).is_ok());
        }
        assert!(rates.full_at.lock().unwrap().len() <= CLIENTS_MAX);
    }
}
