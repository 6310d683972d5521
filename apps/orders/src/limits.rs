//! How much one client may ask for: a rate, and a number a day.

mod bucket;
mod quota;

use std::time::Duration;

use tokio::time::Instant;

use self::{bucket::Buckets, quota::Quotas};
use crate::{Client, Ledger, OrdersOptions};

/// What a client may still do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Allowance {
    /// Calls a minute.
    pub(crate) limit: u32,
    /// Calls that would pass right now.
    pub(crate) remaining: u32,
}

/// Why a call may not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    /// When the next call may pass.
    pub(crate) retry_after: Duration,
}

/// The limits of every client, as one process keeps them.
#[derive(Debug)]
pub(crate) struct Limits {
    buckets: Option<Buckets>,
    quotas: Option<Quotas>,
}

impl Limits {
    pub(crate) fn new(options: &OrdersOptions) -> Self {
        let rate = options.rl_rate_per_min;
        let per_day = options.daily_quota;
        Self {
            buckets: (rate > 0).then(|| Buckets::new(rate, options.rl_burst)),
            quotas: (per_day > 0).then(|| Quotas::new(per_day)),
        }
    }

    /// Takes a call out of the client's bucket. Every call counts, whatever becomes of it.
    pub(crate) fn take(&self, client: &Client) -> (Option<Allowance>, Result<(), Refused>) {
        let Some(buckets) = &self.buckets else {
            return (None, Ok(()));
        };
        let (allowance, taken) = buckets.take(client, Instant::now());
        (Some(allowance), taken)
    }

    /// Counts a call that was refused before the ledger was asked. It is taken out of the quota
    /// with the next one that goes on: a refused call writes nothing.
    pub(crate) fn count(&self, client: &Client) {
        if let Some(quotas) = &self.quotas {
            quotas.count(client);
        }
    }

    /// Takes a call out of the client's day.
    pub(crate) async fn take_of_day(
        &self,
        client: &Client,
        ledger: &dyn Ledger,
    ) -> consign_kernel::Result<Result<(), Refused>> {
        match &self.quotas {
            None => Ok(Ok(())),
            Some(quotas) => quotas.take(client, ledger).await,
        }
    }
}
