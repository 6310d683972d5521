//! Limits per client: a rate, and a daily quota.

mod quota;

use std::time::Duration;

use consign_kernel::{Buckets, Rate};
use tokio::time::Instant;

use self::quota::Quotas;
use crate::{Client, Ledger, OrdersOptions};

/// Remaining calls of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Allowance {
    /// Calls a minute.
    pub(crate) limit: u32,
    /// Calls that would pass now.
    pub(crate) remaining: u32,
}

/// Why a call is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LimitRefusal {
    /// When the next call may pass.
    pub(crate) retry_after: Duration,
}

/// The limits of all clients in one process.
#[derive(Debug)]
pub(crate) struct Limits {
    rate_per_min: u32,
    buckets: Option<Buckets<Client>>,
    quotas: Option<Quotas>,
}

impl Limits {
    pub(crate) fn new(options: &OrdersOptions) -> Self {
        let rate = options.rl_rate_per_min;
        let per_day = options.daily_quota;
        let buckets = || Buckets::new(Rate::new(rate, Duration::from_secs(60), options.rl_burst));
        Self {
            rate_per_min: rate,
            buckets: (rate > 0).then(buckets),
            quotas: (per_day > 0).then(|| Quotas::new(per_day)),
        }
    }

    /// Takes a call from the client's bucket. Every call counts, including rejected ones.
    pub(crate) fn take(&self, client: &Client) -> (Option<Allowance>, Result<(), LimitRefusal>) {
        let Some(buckets) = &self.buckets else {
            return (None, Ok(()));
        };
        let now = Instant::now().into_std();
        let (bucket, taken) = buckets.take(client, now);
        let allowance = Allowance {
            limit: self.rate_per_min,
            remaining: bucket.remaining(now),
        };
        let taken = taken.map_err(|retry_after| LimitRefusal { retry_after });
        (Some(allowance), taken)
    }

    /// Counts a call that was rejected before the ledger was used. It is charged with the next
    /// accepted one, because a rejected call writes nothing.
    pub(crate) fn count(&self, client: &Client) {
        if let Some(quotas) = &self.quotas {
            quotas.count(client);
        }
    }

    /// Takes a call from the client's daily quota.
    pub(crate) async fn take_of_day(
        &self,
        client: &Client,
        ledger: &dyn Ledger,
    ) -> consign_kernel::Result<Result<(), LimitRefusal>> {
        match &self.quotas {
            None => Ok(Ok(())),
            Some(quotas) => quotas.take(client, ledger).await,
        }
    }
}
