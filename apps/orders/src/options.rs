//! Settings of the order protocol, with the names of its document.

mod policy;

use std::{path::PathBuf, time::Duration};

use consign_kernel::{Error, Result};
use consign_redact::Secret;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Instruments, settings::ORDERS};

pub(crate) use self::policy::LEDGER_PATIENCE;
pub use self::policy::{queue_policy, queue_work};

/// The broker adapter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Adapter {
    /// In-process paper broker.
    #[default]
    Paper,
    /// JSON over HTTP.
    Http,
}

impl Adapter {
    /// The value in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Paper => "paper",
            Self::Http => "http",
        }
    }
}

/// Message header with the adapter for which the order was accepted.
pub(crate) const ADAPTER: &str = "adapter";

/// All settings of the app. A zero turns a limit off where it says so.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OrdersOptions {
    /// Whether orders go through the outbox; if not, each is sent once, within its request.
    pub outbox_enabled: bool,
    /// Concurrent orders in one worker process.
    pub outbox_concurrency: u32,
    /// Maximum orders per claim; never more than free slots.
    pub outbox_batch: u32,
    /// Poll interval of an idle worker without wake-ups.
    pub outbox_poll_interval_sec: f64,
    /// Lease time: without renewal for this long, another worker claims the orders.
    pub outbox_lock_lease_sec: f64,
    /// Maximum sends of one order.
    pub outbox_max_attempts: u32,
    /// Delays between sends; the last one repeats.
    pub outbox_backoff_sec: Vec<f64>,
    /// The broker adapter.
    pub broker_adapter: Adapter,
    /// URL to which the http adapter posts orders; empty counts as unset, here and below.
    pub broker_url: Option<String>,
    /// URL of the http adapter's status queries; `{key}` is replaced by the order's key.
    pub broker_status_url: Option<String>,
    /// Time limit of an IOC order.
    pub broker_timeout_ms: u64,
    /// Time limit of a FOK or GTC order.
    pub broker_timeout_fok_gtc_ms: u64,
    /// Credential at the broker: `Authorization: Bearer`, or `X-Api-Key` with a signature.
    pub broker_api_key: Option<Secret>,
    /// File that holds `broker_api_key`, read at start.
    pub broker_api_key_file: Option<PathBuf>,
    /// Signing key of requests to the broker; unset: requests are not signed.
    pub broker_api_secret: Option<Secret>,
    /// File that holds `broker_api_secret`, read at start.
    pub broker_api_secret_file: Option<PathBuf>,
    /// Header with the order's key at the broker.
    pub broker_idem_header: String,
    /// Whether the broker executes a repeated key only once.
    pub broker_takes_keys: bool,
    /// Additional trusted certificates, as PEM.
    pub broker_ca_file: Option<PathBuf>,
    /// Number of calls that the circuit breaker considers; 0 for no breaker.
    pub breaker_calls: u32,
    /// Share of failed calls above which the breaker opens.
    pub breaker_share: f64,
    /// How long the breaker stays open.
    pub breaker_open_sec: f64,
    /// Lifetime of a key.
    pub idempo_ttl_hours: u64,
    /// Secret for hashing keys in logs; unset: a random value of this process.
    pub idempo_secret: Option<Secret>,
    /// Orders per minute and client; 0 for no limit.
    pub rl_rate_per_min: u32,
    /// Burst per client.
    pub rl_burst: u32,
    /// Orders per day (UTC) and client; 0 for no limit.
    pub daily_quota: u32,
    /// Maximum time until an order is sent; 0: unlimited.
    pub order_max_age_sec: u64,
    /// Tradable instruments.
    #[serde(default)]
    pub instruments: Instruments,
    /// The longest `Prefer: wait`.
    pub wait_max_sec: f64,
    /// The paper adapter's seed.
    pub paper_seed: u64,
    /// Scripted faults of the paper adapter, for rehearsals: see [`Script`](crate::Script).
    pub paper_script: String,
}

impl Default for OrdersOptions {
    /// The declared defaults.
    fn default() -> Self {
        ORDERS
            .options(Value::Null)
            .expect("invariant: every setting that must be set has a default")
    }
}

const DAY_S: f64 = 24.0 * 3_600.0;

impl OrdersOptions {
    /// The headers of an order's message, with the adapter for which it is accepted. The default
    /// `paper` is not named: a server that only accepts orders may leave the broker settings to its
    /// workers.
    pub(crate) fn addressed(&self, mut headers: Map<String, Value>) -> Map<String, Value> {
        if self.broker_adapter != Adapter::Paper {
            headers.insert(ADAPTER.to_owned(), self.broker_adapter.as_str().into());
        }
        headers
    }

    /// Validates each value and their combinations; the error names the setting.
    pub fn validate(&self) -> Result<()> {
        ORDERS.check(self)?;
        self.validate_broker()?;
        let refuse = |key: &str, why: &str| Err(Error::invalid(format!("orders.{key}"), why));
        if self.outbox_backoff_sec.is_empty() {
            return refuse("outbox_backoff_sec", "must contain at least one delay");
        }
        let is_delay = |delay: &f64| (0.0..=DAY_S).contains(delay);
        if !self.outbox_backoff_sec.iter().all(is_delay) {
            return refuse(
                "outbox_backoff_sec",
                "contains a delay that is not 0 s to 24 h",
            );
        }
        if self.rl_rate_per_min > 0 && self.rl_burst == 0 {
            return refuse(
                "rl_burst",
                "must be at least 1: with 0 every call is rejected",
            );
        }
        // A key that expires before its order would let a repeat be sent.
        if Duration::from_secs(self.order_max_age_sec) > self.key_ttl() {
            let why = "must not be longer than idempo_ttl_hours: a key must live at least as \
                       long as its order may be sent";
            return refuse("order_max_age_sec", why);
        }
        crate::queue_policy(self).validate()
    }

    fn validate_broker(&self) -> Result<()> {
        let refuse = |key: &str, why: &str| Err(Error::invalid(format!("orders.{key}"), why));
        match (self.broker_adapter, self.broker_url()) {
            (Adapter::Http, None) => refuse("broker_url", "is required by the http adapter"),
            // Orders for a real market would be traded on paper.
            (Adapter::Paper, Some(_)) => refuse(
                "broker_url",
                "is not used by the paper adapter; set broker_adapter to http, or remove it",
            ),
            (Adapter::Paper, None) if !self.broker_takes_keys => refuse(
                "broker_takes_keys",
                "must be true: the paper adapter takes keys",
            ),
            _ => Ok(()),
        }
    }

    /// Reads the credentials from their files.
    pub fn with_files(mut self) -> Result<Self> {
        let files = [
            (
                "broker_api_key",
                &mut self.broker_api_key,
                self.broker_api_key_file.take(),
            ),
            (
                "broker_api_secret",
                &mut self.broker_api_secret,
                self.broker_api_secret_file.take(),
            ),
        ];
        for (name, value, file) in files {
            let given = Secret::given(name, value.as_ref(), file.as_deref());
            *value = given.map_err(|why| Error::invalid(format!("orders.{name}_file"), why))?;
        }
        Ok(self)
    }

    pub(crate) fn broker_url(&self) -> Option<&str> {
        non_empty(&self.broker_url)
    }

    pub(crate) fn broker_status_url(&self) -> Option<&str> {
        non_empty(&self.broker_status_url)
    }

    /// Where orders go, for people: without secret parts of a URL.
    pub(crate) fn destination(&self) -> String {
        match self
            .broker_url()
            .unwrap_or_default()
            .parse::<reqwest::Url>()
        {
            Ok(url) => url.origin().ascii_serialization(),
            Err(_) => self.broker_adapter.as_str().to_owned(),
        }
    }

    /// The longest time limit of any order.
    pub(crate) fn broker_timeout_max(&self) -> Duration {
        let longest = self.broker_timeout_ms.max(self.broker_timeout_fok_gtc_ms);
        Duration::from_millis(longest)
    }

    pub(crate) fn key_ttl(&self) -> Duration {
        Duration::from_secs(self.idempo_ttl_hours.saturating_mul(3_600))
    }

    pub(crate) fn max_age(&self) -> Option<Duration> {
        let age = Duration::from_secs(self.order_max_age_sec);
        (!age.is_zero()).then_some(age)
    }

    /// The longest `Prefer: wait`.
    pub fn wait_max(&self) -> Duration {
        seconds(self.wait_max_sec)
    }
}

fn non_empty(text: &Option<String>) -> Option<&str> {
    text.as_deref().filter(|text| !text.is_empty())
}

/// A validated number of seconds.
fn seconds(value: f64) -> Duration {
    Duration::try_from_secs_f64(value).unwrap_or_default()
}

#[cfg(test)]
mod tests;
