//! The settings of the payment protocol.

use std::{path::PathBuf, sync::Arc, time::Duration};

use consign_kernel::{
    Error, LEASE_MESSAGES_MAX, OnDead, OnUncertain, QueuePolicy, Result, RetrySchedule,
};
pub use consign_outbound::Secret;
use consign_worker::{QueueWork, Sink};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    attempt::MISSING_RAIL_REFERENCE,
    rail::{HttpRail, Rail, Rails, SimulatedRail},
    stored::queue,
};

/// Which rail payments go to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RailKind {
    /// Inside the process; no money moves.
    #[default]
    Simulated,
    /// JSON over HTTP.
    Http,
    /// None of ours: whoever claims payments over SQL or HTTP dispatches them.
    None,
}

/// The header that names the rail a message's payment was accepted for.
pub(crate) const RAIL: &str = "rail";

/// In which order payments are dispatched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrderedBy {
    /// Oldest due first, and otherwise in any.
    #[default]
    Nothing,
    /// One after the other for each participant, by their sequence.
    Participant,
}

/// What a failed payment does to the next ones of its participant, if they are ordered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFailed {
    /// It is finished; the next one takes its turn.
    #[default]
    Continue,
    /// They wait until it has been requeued and dispatched.
    Block,
}

/// Everything there is to set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PaymentsOptions {
    /// Whether this process dispatches payments at all.
    pub enabled: bool,
    /// Most payments of one claim.
    pub batch: u32,
    /// How long a worker may be silent before its payments are given to another. It renews its
    /// leases, so this need not cover a whole batch.
    pub lease_sec: u64,
    /// Dispatches under way at once in one process.
    pub concurrency: u32,
    /// How long a rail may take.
    pub dispatch_timeout_sec: u64,
    /// Attempts before a payment has failed.
    pub retry_ceiling: u32,
    /// How long a payment rests after its first failed attempt; doubles with each.
    pub backoff_base_ms: u64,
    /// How long it rests at most.
    pub backoff_max_ms: u64,
    /// In which order payments are dispatched.
    pub ordered_by: OrderedBy,
    /// What a failed payment does to the next ones of its participant.
    pub on_failed: OnFailed,
    /// Which rail payments go to.
    pub rail: RailKind,
    /// The types of payment it takes; any other fails.
    pub rail_types: Vec<String>,
    /// Where the http rail takes payments.
    pub rail_url: Option<String>,
    /// Where it can be asked about one; `{reference}` stands for the `outbox_id`.
    pub rail_status_url: Option<String>,
    /// Who we are to the rail: `Authorization: Bearer`.
    pub rail_token: Option<Secret>,
    /// The file that holds `rail_token`, read when a process starts.
    pub rail_token_file: Option<PathBuf>,
    /// What requests are signed with, like webhooks: `whsec_` or `whsk_` and base64.
    pub rail_signing_secret: Option<Secret>,
    /// The file that holds `rail_signing_secret`, read when a process starts.
    pub rail_signing_secret_file: Option<PathBuf>,
    /// The header that carries the reference.
    pub rail_key_header: String,
    /// Certificates to trust besides the system's, as PEM.
    pub rail_ca_file: Option<PathBuf>,
    /// The largest amount the ingress takes, in minor units.
    pub amount_minor_max: u64,
    /// The largest request the ingress takes.
    pub request_bytes_max: usize,
    /// Whether the ingress wants to know whose a payment is.
    pub tenant_required: bool,
    /// How often to look for what must be compared with the rail's books. It looks at all payments.
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

/// A lease must outlast a dispatch by this much: the time to begin it and to record what came of
/// it, should every renewal fail.
const LEASE_MARGIN_SEC: u64 = 5;

impl PaymentsOptions {
    /// The headers of a payment's message, with the rail it is accepted for. Only one that moves money
    /// is named: a server that only accepts may leave the rail to its workers.
    pub(crate) fn addressed(&self, mut headers: Map<String, Value>) -> Map<String, Value> {
        if self.rail == RailKind::Http {
            headers.insert(RAIL.to_owned(), "http".into());
        }
        headers
    }

    /// Refuses what cannot work, each value and all of them together; names the setting.
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
                return Err(refuse(key, format!("must be from {least} to {most}")));
            }
        }
        if self.backoff_base_ms > self.backoff_max_ms {
            return Err(refuse("backoff_base_ms", "must not exceed backoff_max_ms"));
        }
        let lease_least = self.dispatch_timeout_sec + LEASE_MARGIN_SEC;
        if self.lease_sec < lease_least {
            let why = format!(
                "must be at least {lease_least}: dispatch_timeout_sec and {LEASE_MARGIN_SEC} s to \
                 record what came of it, or payments are given away while the rail has them"
            );
            return Err(refuse("lease_sec", why));
        }
        self.validate_rail()
    }

    fn validate_rail(&self) -> Result<()> {
        if self.rail_types.is_empty() {
            return Err(refuse(
                "rail_types",
                "is empty, so every payment would fail",
            ));
        }
        if self.rail_types.iter().any(|name| name.trim().is_empty()) {
            return Err(refuse("rail_types", "holds a blank"));
        }
        if self.rail == RailKind::Http {
            if self.rail_url.is_none() {
                return Err(refuse("rail_url", "is missing; the http rail needs it"));
            }
            if self.rail_status_url.is_none() {
                let why = "is missing; without it a payment in doubt can never be asked about and \
                           would end failed, though it may have been paid";
                return Err(refuse("rail_status_url", why));
            }
        }
        Ok(())
    }

    /// The rails these options describe.
    pub fn rails(&self) -> Result<Rails> {
        self.validate()?;
        let rail: Arc<dyn Rail> = match self.rail {
            RailKind::Simulated => Arc::new(SimulatedRail::new()),
            RailKind::Http => Arc::new(HttpRail::new(self)?),
            RailKind::None => {
                let why = "is none: payments are left to whoever claims them";
                return Err(refuse("rail", why));
            }
        };
        Ok(Rails::new(rail, self.rail_types.iter().cloned()))
    }

    /// How often to look for what must be compared with the rail's books.
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
        // Of no meaning without an order, and not to be changed under messages for nothing.
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

/// The queue `payments` as a worker is to work on it.
pub fn queue_work(sink: Arc<dyn Sink>, options: &PaymentsOptions) -> QueueWork {
    QueueWork {
        claim_max: Some(options.batch),
        ..QueueWork::new(queue(), sink)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// P-23, P-11: what cannot work is refused at start, by name.
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

    /// D4: 1, 2, 4, 8, 16, 32, 60, 60 seconds.
    #[test]
    fn the_queue_rests_as_the_protocol_says() {
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
