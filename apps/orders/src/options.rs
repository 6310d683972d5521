//! The settings of the order protocol, under the names their document gives them.

mod hidden;
mod policy;

use std::{path::PathBuf, time::Duration};

use consign_kernel::{Error, LEASE_MESSAGES_MAX, Result};
use consign_outbound::Secret;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Instruments;

pub(crate) use self::policy::LEDGER_PATIENCE;
pub use self::{
    hidden::Hidden,
    policy::{queue_policy, queue_work},
};

/// Which broker orders go to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Adapter {
    /// A broker made of paper, inside the process.
    #[default]
    Paper,
    /// JSON over HTTP.
    Http,
}

impl Adapter {
    /// As in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Paper => "paper",
            Self::Http => "http",
        }
    }
}

/// The header that names the adapter a message's order was accepted for.
pub(crate) const ADAPTER: &str = "adapter";

/// Everything there is to set. A zero turns off what says so.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OrdersOptions {
    /// Whether orders go through the outbox; if not, each is sent once, within its request.
    pub outbox_enabled: bool,
    /// Orders under way at once in one worker process.
    pub outbox_concurrency: u32,
    /// Most orders of one claim; never more than there are free slots.
    pub outbox_batch: u32,
    /// How long an idle worker rests before it looks again, if nobody wakes it.
    pub outbox_poll_interval_sec: f64,
    /// How long a worker may be silent before its orders are given to another.
    pub outbox_lock_lease_sec: f64,
    /// Sends of one order before it is aborted.
    pub outbox_max_attempts: u32,
    /// How long an order rests after each failed send; the last one repeats.
    pub outbox_backoff_sec: Vec<f64>,
    /// Which broker orders go to.
    pub broker_adapter: Adapter,
    /// Where the http adapter posts orders; empty is the same as none, here and below.
    pub broker_url: Option<String>,
    /// Where the http adapter asks what became of an order; `{key}` stands for the order's key.
    pub broker_status_url: Option<String>,
    /// How long the broker may take for an IOC order.
    pub broker_timeout_ms: u64,
    /// How long the broker may take for a FOK or GTC order.
    pub broker_timeout_fok_gtc_ms: u64,
    /// Who we are to the broker: `Authorization: Bearer`, or `X-Api-Key` beside a signature.
    pub broker_api_key: Option<Hidden>,
    /// The file that holds `broker_api_key`, read when a process starts.
    pub broker_api_key_file: Option<PathBuf>,
    /// What requests to the broker are signed with; none: they are not.
    pub broker_api_secret: Option<Hidden>,
    /// The file that holds `broker_api_secret`, read when a process starts.
    pub broker_api_secret_file: Option<PathBuf>,
    /// The header that carries an order's key to the broker.
    pub broker_idem_header: String,
    /// Whether the broker executes a key once however often it comes.
    pub broker_takes_keys: bool,
    /// Certificates to trust besides the system's, as PEM.
    pub broker_ca_file: Option<PathBuf>,
    /// How many of the last calls the circuit breaker looks at; 0 for no breaker.
    pub breaker_calls: u32,
    /// The share of them that must have failed for more than this to leave the broker alone.
    pub breaker_share: f64,
    /// For how long it is left alone.
    pub breaker_open_sec: f64,
    /// How long a key is remembered.
    pub idempo_ttl_hours: u64,
    /// What keys are hashed with before they are logged; none: a value of this process alone.
    pub idempo_secret: Option<Hidden>,
    /// Orders a minute of one client; 0 for no limit.
    pub rl_rate_per_min: u32,
    /// Orders of one client at once.
    pub rl_burst: u32,
    /// Orders a day (UTC) of one client; 0 for no limit.
    pub daily_quota: u32,
    /// How long an order may wait to be sent; 0: for ever.
    pub order_max_age_sec: u64,
    /// What may be traded, and on which grid.
    pub instruments: Instruments,
    /// The longest `Prefer: wait`.
    pub wait_max_sec: f64,
    /// The paper adapter's seed.
    pub paper_seed: u64,
    /// What the paper adapter does wrong, for rehearsals: see [`Script`](crate::Script).
    pub paper_script: String,
}

impl Default for OrdersOptions {
    fn default() -> Self {
        Self {
            outbox_enabled: true,
            outbox_concurrency: 4,
            outbox_batch: 32,
            outbox_poll_interval_sec: 0.5,
            outbox_lock_lease_sec: 120.0,
            outbox_max_attempts: 6,
            outbox_backoff_sec: vec![5.0, 10.0, 20.0, 40.0, 80.0, 160.0],
            broker_adapter: Adapter::Paper,
            broker_url: None,
            broker_status_url: None,
            broker_timeout_ms: 2_500,
            broker_timeout_fok_gtc_ms: 5_000,
            broker_api_key: None,
            broker_api_key_file: None,
            broker_api_secret: None,
            broker_api_secret_file: None,
            broker_idem_header: "Idempotency-Key".to_owned(),
            broker_takes_keys: true,
            broker_ca_file: None,
            breaker_calls: 20,
            breaker_share: 0.5,
            breaker_open_sec: 60.0,
            idempo_ttl_hours: 48,
            idempo_secret: None,
            rl_rate_per_min: 60,
            rl_burst: 30,
            daily_quota: 10_000,
            order_max_age_sec: 900,
            instruments: Instruments::default(),
            wait_max_sec: 30.0,
            paper_seed: 0,
            paper_script: String::new(),
        }
    }
}

const DAY_S: f64 = 24.0 * 3_600.0;

impl OrdersOptions {
    /// The headers of an order's message, with the adapter it is accepted for. The paper adapter is
    /// the default and not named: a server that only accepts may leave the broker to its workers.
    pub(crate) fn addressed(&self, mut headers: Map<String, Value>) -> Map<String, Value> {
        if self.broker_adapter != Adapter::Paper {
            headers.insert(ADAPTER.to_owned(), self.broker_adapter.as_str().into());
        }
        headers
    }

    /// Refuses what cannot work, each value and all of them together; names the setting.
    pub fn validate(&self) -> Result<()> {
        self.validate_numbers()?;
        self.validate_broker()?;
        let refuse = |key: &str, why: &str| Err(Error::invalid(format!("orders.{key}"), why));
        if self.outbox_backoff_sec.is_empty() {
            return refuse("outbox_backoff_sec", "must hold at least one delay");
        }
        let is_delay = |delay: &f64| (0.0..=DAY_S).contains(delay);
        if !self.outbox_backoff_sec.iter().all(is_delay) {
            return refuse(
                "outbox_backoff_sec",
                "holds a delay that is not 0 s to 24 h",
            );
        }
        if self.rl_rate_per_min > 0 && self.rl_burst == 0 {
            return refuse("rl_burst", "must be at least 1, or nothing could ever pass");
        }
        // A key that is forgotten while its order may still be sent would let a repeat in.
        if Duration::from_secs(self.order_max_age_sec) > self.key_ttl() {
            let why = "must not be longer than idempo_ttl_hours: a key is remembered at least as \
                       long as its order may be sent";
            return refuse("order_max_age_sec", why);
        }
        crate::queue_policy(self).validate()
    }

    fn validate_numbers(&self) -> Result<()> {
        let table = [
            (
                "outbox_concurrency",
                f64::from(self.outbox_concurrency),
                1.0,
                1_000.0,
            ),
            (
                "outbox_batch",
                f64::from(self.outbox_batch),
                1.0,
                f64::from(LEASE_MESSAGES_MAX),
            ),
            (
                "outbox_poll_interval_sec",
                self.outbox_poll_interval_sec,
                0.001,
                3_600.0,
            ),
            // Renewed at a third of its life: below this a slow commit would lose it.
            (
                "outbox_lock_lease_sec",
                self.outbox_lock_lease_sec,
                0.3,
                DAY_S,
            ),
            (
                "outbox_max_attempts",
                f64::from(self.outbox_max_attempts),
                1.0,
                10_000.0,
            ),
            (
                "broker_timeout_ms",
                self.broker_timeout_ms as f64,
                1.0,
                600_000.0,
            ),
            (
                "broker_timeout_fok_gtc_ms",
                self.broker_timeout_fok_gtc_ms as f64,
                1.0,
                600_000.0,
            ),
            ("breaker_calls", f64::from(self.breaker_calls), 0.0, 64.0),
            ("breaker_share", self.breaker_share, 0.0, 1.0),
            ("breaker_open_sec", self.breaker_open_sec, 0.001, DAY_S),
            (
                "idempo_ttl_hours",
                self.idempo_ttl_hours as f64,
                1.0,
                366.0 * 24.0,
            ),
            (
                "order_max_age_sec",
                self.order_max_age_sec as f64,
                0.0,
                366.0 * DAY_S,
            ),
            ("wait_max_sec", self.wait_max_sec, 0.0, 3_600.0),
        ];
        for (key, value, least, most) in table {
            if !(least..=most).contains(&value) {
                let why = format!("is {value}; it must be from {least} to {most}");
                return Err(Error::invalid(format!("orders.{key}"), why));
            }
        }
        Ok(())
    }

    fn validate_broker(&self) -> Result<()> {
        let refuse = |key: &str, why: &str| Err(Error::invalid(format!("orders.{key}"), why));
        match (self.broker_adapter, self.broker_url()) {
            (Adapter::Http, None) => refuse("broker_url", "is needed by the http adapter"),
            // Orders that were meant for a market would be traded on paper.
            (Adapter::Paper, Some(_)) => refuse(
                "broker_url",
                "is of no use to the paper adapter; set broker_adapter to http, or remove it",
            ),
            (Adapter::Paper, None) if !self.broker_takes_keys => refuse(
                "broker_takes_keys",
                "must be true: the paper adapter takes keys",
            ),
            _ => Ok(()),
        }
    }

    /// The same with the credentials that files hold.
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
            let Some(file) = file else { continue };
            let refuse = |why| Error::invalid(format!("orders.{name}_file"), why);
            if value.as_ref().is_some_and(|value| !value.is_empty()) {
                return Err(refuse(format!("is given beside {name}; keep one of them")));
            }
            let secret = Secret::from_file(&file).map_err(refuse)?;
            *value = Some(secret.reveal().to_owned().into());
        }
        Ok(self)
    }

    pub(crate) fn broker_url(&self) -> Option<&str> {
        said(&self.broker_url)
    }

    pub(crate) fn broker_status_url(&self) -> Option<&str> {
        said(&self.broker_status_url)
    }

    /// Where orders go, for people: without what may be secret in an address.
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

    /// The longest a broker may take for any order.
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

    /// The longest wait a client may prefer.
    pub fn wait_max(&self) -> Duration {
        seconds(self.wait_max_sec)
    }
}

fn said(text: &Option<String>) -> Option<&str> {
    text.as_deref().filter(|text| !text.is_empty())
}

/// A validated number of seconds.
fn seconds(value: f64) -> Duration {
    Duration::try_from_secs_f64(value).unwrap_or_default()
}

#[cfg(test)]
mod tests;
