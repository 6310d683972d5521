//! The settings of the payment protocol.

use std::{path::PathBuf, sync::Arc, time::Duration};

use consign_kernel::{
    Error, LEASE_MESSAGES_MAX, OnDead, OnUncertain, QueuePolicy, Result, RetrySchedule,
};
pub use consign_redact::Secret;
use consign_worker::{QueueWork, Sink};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    attempt::MISSING_RAIL_REFERENCE,
    rail::{HttpRail, Rail, Rails, SimulatedRail},
    stored::queue,
};

/// The kind of rail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RailKind {
    /// In-process; no money moves.
    #[default]
    Simulated,
    /// JSON over HTTP.
    Http,
    /// No rail: external workers claim payments over SQL or HTTP.
    None,
}

/// Message header with the rail for which the payment was accepted.
pub(crate) const RAIL: &str = "rail";

/// Order of dispatches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrderedBy {
    /// Oldest due first.
    #[default]
    Nothing,
    /// One at a time per participant, in sequence.
    Participant,
}

/// Effect of a failed payment on the next ones of its participant, if they are ordered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFailed {
    /// The next one is promoted.
    #[default]
    Continue,
    /// The next ones wait until it is requeued and dispatched.
    Block,
}

/// All settings of the app.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PaymentsOptions {
    /// Whether this process dispatches payments.
    pub enabled: bool,
    /// Maximum payments per claim.
    pub batch: u32,
    /// Lease time: without renewal for this long, another worker claims the payments. Workers
    /// renew, so it need not cover a whole batch.
    pub lease_sec: u64,
    /// Concurrent dispatches in one process.
    pub concurrency: u32,
    /// Time limit of a rail call.
    pub dispatch_timeout_sec: u64,
    /// Attempts before a payment fails.
    pub retry_ceiling: u32,
    /// Delay after the first failed attempt; doubles with each.
    pub backoff_base_ms: u64,
    /// Maximum delay.
    pub backoff_max_ms: u64,
    /// Order of dispatches.
    pub ordered_by: OrderedBy,
    /// Effect of a failed payment on the next ones of its participant.
    pub on_failed: OnFailed,
    /// The kind of rail.
    pub rail: RailKind,
    /// Accepted payment types; any other fails.
    pub rail_types: Vec<String>,
    /// URL to which the http rail posts payments.
    pub rail_url: Option<String>,
    /// URL of the http rail's status queries; `{reference}` is replaced by the `outbox_id`.
    pub rail_status_url: Option<String>,
    /// Credential at the rail: `Authorization: Bearer`.
    pub rail_token: Option<Secret>,
    /// File that holds `rail_token`, read at start.
    pub rail_token_file: Option<PathBuf>,
    /// Signing key of requests, as for webhooks: `whsec_` or `whsk_` and base64.
    pub rail_signing_secret: Option<Secret>,
    /// File that holds `rail_signing_secret`, read at start.
    pub rail_signing_secret_file: Option<PathBuf>,
    /// Header with the reference.
    pub rail_key_header: String,
    /// Additional trusted certificates, as PEM.
    pub rail_ca_file: Option<PathBuf>,
    /// Largest accepted amount in minor units.
    pub amount_minor_max: u64,
    /// Largest accepted request.
    pub request_bytes_max: usize,
    /// Whether requests must have a tenant.
    pub tenant_required: bool,
    /// Interval of the scan for payments to compare with the rail's records. It scans all payments.
    pub watch_interval_sec: u64,
}

impl Default for PaymentsOptions {
    fn default() -> Self {
        let types = ["PAYMENT", "TRANSFER", "REFUND", "REVERSAL"];
        Self {
            enabled: true,
            batch: 50,
            lease_sec: 60,
            concurrency: 10,
            dispatch_timeout_sec: 30,
            retry_ceiling: 20,
            backoff_base_ms: 1_000,
            backoff_max_ms: 60_000,
            ordered_by: OrderedBy::Nothing,
            on_failed: OnFailed::Continue,
            rail: RailKind::Simulated,
            rail_types: types.map(str::to_owned).to_vec(),
            rail_url: None,
            rail_status_url: None,
            rail_token: None,
            rail_token_file: None,
            rail_signing_secret: None,
            rail_signing_secret_file: None,
            rail_key_header: "Idempotency-Key".to_owned(),
            rail_ca_file: None,
            amount_minor_max: 1_000_000_000_000,
            request_bytes_max: 64 * 1024,
            tenant_required: true,
            watch_interval_sec: 900,
        }
    }
}

/// A lease must outlast a dispatch by this margin: the time to begin it and to record its result,
/// if every renewal fails.
const LEASE_MARGIN_SEC: u64 = 5;

impl PaymentsOptions {
    /// The headers of a payment's message, with the rail for which it is accepted. Only a rail that
    /// moves money is named: a server that only accepts payments may leave the rail settings to its
    /// workers.
    pub(crate) fn addressed(&self, mut headers: Map<String, Value>) -> Map<String, Value> {
        if self.rail == RailKind::Http {
            headers.insert(RAIL.to_owned(), "http".into());
        }
        headers
    }

    /// Validates each value and their combinations; the error names the setting.
    pub fn validate(&self) -> Result<()> {
        let ranges = [
            ("batch", self.batch.into(), 1, LEASE_MESSAGES_MAX.into()),
            ("lease_sec", self.lease_sec, 1, 3_600),
            ("concurrency", self.concurrency.into(), 1, 1_000),
            ("dispatch_timeout_sec", self.dispatch_timeout_sec, 1, 3_600),
            ("retry_ceiling", self.retry_ceiling.into(), 1, 1_000),
            ("backoff_base_ms", self.backoff_base_ms, 1_000, 86_400_000),
            ("backoff_max_ms", self.backoff_max_ms, 1_000, 86_400_000),
            (
                "amount_minor_max",
                self.amount_minor_max,
                1,
                i64::MAX as u64,
            ),
            (
                "request_bytes_max",
                self.request_bytes_max as u64,
                1_024,
                1 << 20,
            ),
            ("watch_interval_sec", self.watch_interval_sec, 1, 86_400),
        ];
        for (key, value, least, most) in ranges {
            if !(least..=most).contains(&value) {
                return Err(refuse(
                    key,
                    format!("is {value}; must be {least} to {most}"),
                ));
            }
        }
        if self.backoff_base_ms > self.backoff_max_ms {
            return Err(refuse("backoff_base_ms", "must not exceed backoff_max_ms"));
        }
        let lease_least = self.dispatch_timeout_sec + LEASE_MARGIN_SEC;
        if self.lease_sec < lease_least {
            let why = format!(
                "must be at least {lease_least}: dispatch_timeout_sec and {LEASE_MARGIN_SEC} s to \
                 record the result; otherwise leases expire while the rail processes payments"
            );
            return Err(refuse("lease_sec", why));
        }
        self.validate_rail()
    }

    fn validate_rail(&self) -> Result<()> {
        if self.rail_types.is_empty() {
            return Err(refuse("rail_types", "is empty: every payment would fail"));
        }
        if self.rail_types.iter().any(|name| name.trim().is_empty()) {
            return Err(refuse("rail_types", "contains a blank entry"));
        }
        if self.rail == RailKind::Http {
            if self.rail_url.is_none() {
                return Err(refuse("rail_url", "is required by the http rail"));
            }
            if self.rail_status_url.is_none() {
                let why = "is required by the http rail: without it a payment in doubt cannot be queried and \
                           fails, though it may have been paid";
                return Err(refuse("rail_status_url", why));
            }
        }
        Ok(())
    }

    /// The rails of these options.
    pub fn rails(&self) -> Result<Rails> {
        self.validate()?;
        let rail: Arc<dyn Rail> = match self.rail {
            RailKind::Simulated => Arc::new(SimulatedRail::new()),
            RailKind::Http => Arc::new(HttpRail::new(self)?),
            RailKind::None => {
                let why = "is none: external workers dispatch payments";
                return Err(refuse("rail", why));
            }
        };
        Ok(Rails::new(rail, self.rail_types.iter().cloned()))
    }

    /// Interval of the scan for payments to compare with the rail's records.
    pub fn watch_interval(&self) -> Duration {
        Duration::from_secs(self.watch_interval_sec)
    }
}

fn refuse(key: &str, why: impl Into<String>) -> Error {
    Error::invalid(format!("payments.{key}"), why)
}

/// The policy of the queue `payments`.
pub fn queue_policy(options: &PaymentsOptions) -> QueuePolicy {
    QueuePolicy {
        lease_ttl_ms: options.lease_sec * 1_000,
        attempts_max: options.retry_ceiling,
        retry: RetrySchedule::Exponential {
            base_ms: options.backoff_base_ms,
            factor: 2.0,
            max_ms: options.backoff_max_ms,
            jitter: 0.0,
        },
        on_uncertain: OnUncertain::Probe,
        ordered: options.ordered_by == OrderedBy::Participant,
        // Meaningless without an order; unchanged then to keep the policy stable.
        on_dead: match (options.ordered_by, options.on_failed) {
            (OrderedBy::Participant, OnFailed::Continue) => OnDead::Continue,
            _ => OnDead::Block,
        },
        concurrency: options.concurrency,
        timeout_ms: options.dispatch_timeout_sec * 1_000,
        record_begin: true,
        presume_begun: true,
        hold_codes: vec![MISSING_RAIL_REFERENCE.to_owned()],
        ..QueuePolicy::default()
    }
}

/// Worker configuration of the queue `payments`.
pub fn queue_work(sink: Arc<dyn Sink>, options: &PaymentsOptions) -> QueueWork {
    QueueWork {
        claim_max: Some(options.batch),
        ..QueueWork::new(queue(), sink)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What cannot work is refused at start, by name.
    #[test]
    fn impossible_combinations_are_refused() {
        type Change = fn(&mut PaymentsOptions);
        let table: [(Change, Option<&str>); 14] = [
            (|_| {}, None),
            (|o| o.lease_sec = 34, Some("lease_sec")),
            (|o| (o.lease_sec, o.dispatch_timeout_sec) = (6, 1), None),
            (|o| o.dispatch_timeout_sec = 3_600, Some("lease_sec")),
            (|o| o.lease_sec = 3_601, Some("lease_sec")),
            (|o| o.batch = 0, Some("batch")),
            (|o| o.batch = 1_001, Some("batch")),
            (|o| o.concurrency = 0, Some("concurrency")),
            (|o| o.retry_ceiling = 0, Some("retry_ceiling")),
            (|o| o.backoff_max_ms = 999, Some("backoff_max_ms")),
            (|o| o.backoff_base_ms = 61_000, Some("backoff_base_ms")),
            (|o| o.rail_types.clear(), Some("rail_types")),
            (|o| o.rail = RailKind::Http, Some("rail_url")),
            (
                |o| {
                    o.rail = RailKind::Http;
                    o.rail_url = Some("https://rail.example/pay".into());
                },
                Some("rail_status_url"),
            ),
        ];
        for (index, (change, key)) in table.into_iter().enumerate() {
            let mut options = PaymentsOptions::default();
            change(&mut options);
            let refusal = options.validate().err().map(|error| error.to_string());
            match (refusal, key) {
                (None, None) => {}
                (Some(why), Some(key)) => {
                    assert!(
                        why.starts_with(&format!("payments.{key}:")),
                        "{index}: {why}"
                    );
                }
                (refusal, key) => panic!("case {index}: {refusal:?}, expected {key:?}"),
            }
        }
    }

    /// 1, 2, 4, 8, 16, 32, 60, 60 seconds.
    #[test]
    fn delays_follow_the_protocol() {
        let policy = queue_policy(&PaymentsOptions::default());
        policy.validate().unwrap();
        for (tries, seconds) in (1..).zip([1, 2, 4, 8, 16, 32, 60, 60]) {
            for chance in [0.0, 0.5, 0.99] {
                let delay = policy.retry.delay(tries, chance);
                assert_eq!(delay, Duration::from_secs(seconds), "after try {tries}");
            }
        }
        assert_eq!(policy.attempts_max, 20);
        assert!(policy.begins());
        assert!(!policy.ordered);
    }

    #[test]
    fn a_token_is_not_shown() {
        let options = PaymentsOptions {
            rail_token: Some(Secret::new("tulip")),
            ..PaymentsOptions::default()
        };
        assert!(!format!("{options:?}").contains("tulip"));
        assert!(!serde_json::to_string(&options).unwrap().contains("tulip"));
    }
}
