//! How often one client may call.

use std::time::{Duration, Instant};

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use consign_kernel::{Buckets, Rate};

use crate::{
    options::RateLimit,
    problem::{Problem, codes},
};

const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// A bucket of tokens for each client.
#[derive(Debug)]
pub(crate) struct Rates {
    limit: RateLimit,
    buckets: Buckets<String>,
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
        let rate = Rate::new(limit.per_second, Duration::from_secs(1), limit.burst);
        Self {
            limit,
            buckets: Buckets::new(rate),
        }
    }

    /// Takes one request out of the client's bucket; none if there is no limit.
    pub(crate) fn take(&self, client: &str, now: Instant) -> Result<Option<Quota>, Problem> {
        if self.limit.per_second == 0 {
            return Ok(None);
        }
        let (bucket, taken) = self.buckets.take(client, now);
        let quota = Quota {
            limit: self.limit,
            remaining: bucket.remaining(now),
            full_in: bucket.full_in(now),
        };
        match taken {
            Ok(()) => Ok(Some(quota)),
            Err(wait) => Err(quota.refuse(wait)),
        }
    }
}

impl Quota {
    fn refuse(self, wait: Duration) -> Problem {
        let RateLimit { per_second, burst } = self.limit;
        let detail = format!("one client may call {per_second} times a second, {burst} at once");
        let (quota, policy) = self.fields();
        Problem::new(codes::RATE_LIMITED, detail)
            .retry_after(wait)
            .with_header(RATE_LIMIT, &quota)
            .with_header(RATE_LIMIT_POLICY, &policy)
    }

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

    /// Adds the header fields with what is left.
    pub(crate) fn add_headers(self, headers: &mut HeaderMap) {
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
    fn returns_what_is_left_and_when_to_retry() {
        let rates = Rates::new(RateLimit {
            per_second: 10,
            burst: 30,
        });
        let now = Instant::now();
        for left in (0..30).rev() {
            let quota = rates.take("a", now).unwrap().unwrap();
            assert_eq!(quota.remaining, left);
        }
        let quota = Quota {
            limit: rates.limit,
            remaining: 0,
            full_in: Duration::from_secs(3),
        };
        let fields = ("\"client\";r=0;t=3".into(), "\"client\";q=30;w=3".into());
        assert_eq!(quota.fields(), fields);
        let wait = Duration::from_millis(100);
        let (refused, expected) = (rates.take("a", now).unwrap_err(), quota.refuse(wait));
        assert_eq!(format!("{refused:?}"), format!("{expected:?}"));
        assert!(rates.take("b", now).is_ok());
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
}
