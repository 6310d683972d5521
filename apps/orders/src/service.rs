//! The order service: places orders and reads their state.

mod beside;
mod check;
mod direct;
mod wait;

use std::{fmt, sync::Arc, time::Duration};

use consign_kernel::Error;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tokio::{sync::watch, time::Instant};
use tracing::{Instrument, error, field::Empty, info, info_span};
use uuid::Uuid;

pub use beside::OrderView;

use crate::{
    AcceptResult, Answer, Broker, Client, Ledger, LedgerEntry, LedgerStatus, Masker, NewOrder,
    OrderKey, OrderRequest, OrdersOptions, Reason, Rules, ServerFields, StoredOrder,
    acceptor::Acceptor,
    answer::RETRY_AFTER,
    failpoint::failpoint,
    keys::Keys,
    limits::{Allowance, Limits},
    metrics::{self, Outcome},
    sink::dispatch::{Dispatcher, millis},
};

/// A request to place an order.
#[derive(Clone, Debug)]
pub struct PlaceCall<'a> {
    /// The client.
    pub client: &'a Client,
    /// The header `Idempotency-Key`, as received.
    pub header_key: Option<&'a str>,
    /// The body, as received.
    pub body: &'a [u8],
    /// `Prefer: wait` of the client.
    pub wait: Option<Duration>,
    /// Headers that travel with the order, such as `traceparent`.
    pub headers: Map<String, Value>,
}

/// Places orders and reads their state. Shared by an `Arc`.
pub struct OrderService {
    ledger: Arc<dyn Ledger>,
    acceptor: Arc<Acceptor>,
    dispatcher: Arc<Dispatcher>,
    limits: Limits,
    rules: Rules,
    keys: Keys,
    options: OrdersOptions,
    /// True while the process drains: waiting requests are answered.
    draining: watch::Sender<bool>,
}

impl fmt::Debug for OrderService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OrderService")
            .field("dispatcher", &self.dispatcher)
            .finish_non_exhaustive()
    }
}

/// An answer and its outcome label.
struct CountedAnswer {
    answer: Answer,
    outcome: Outcome,
    reason: Option<Reason>,
    /// The key's hash and the request's digest, if the request was valid.
    about: Option<(String, String)>,
}

impl CountedAnswer {
    fn new(answer: Answer, outcome: Outcome, reason: Option<Reason>) -> Self {
        Self {
            answer,
            outcome,
            reason,
            about: None,
        }
    }

    fn refused(answer: Answer, outcome: Outcome, reason: Reason) -> Self {
        Self::new(answer, outcome, Some(reason))
    }

    /// One log line per request.
    fn log(&self, took: Duration) {
        let (key, digest) = self
            .about
            .as_ref()
            .map(|(key, digest)| (key, digest))
            .unzip();
        let status = self.answer.status;
        info!(
            idempotency_key = key,
            request_digest = digest,
            status,
            reason_code = self.reason.map(Reason::as_str),
            latency_ms = millis(took),
            "order request answered {status}"
        );
    }
}

impl OrderService {
    /// A service over this ledger. The broker is called only where orders bypass the outbox.
    pub fn new(ledger: Arc<dyn Ledger>, broker: Arc<dyn Broker>, options: &OrdersOptions) -> Self {
        Self {
            acceptor: Acceptor::new(Arc::clone(&ledger)),
            dispatcher: Arc::new(Dispatcher::new(broker, options)),
            limits: Limits::new(options),
            rules: Rules {
                instruments: options.instruments.clone(),
                ..Rules::default()
            },
            keys: Keys::new(options),
            options: options.clone(),
            draining: watch::Sender::new(false),
            ledger,
        }
    }

    /// Starts draining: requests that wait for a result are answered at once.
    pub fn drain(&self) {
        self.draining.send_replace(true);
    }

    /// Places an order, once per key however often the request is repeated.
    pub async fn place(&self, call: PlaceCall<'_>) -> Answer {
        let started = Instant::now();
        let span = info_span!("do.order", idempotency_key = Empty, instrument = Empty);
        let (allowance, taken) = self.limits.take(call.client);
        let settled = match taken {
            Err(refused) => {
                metrics::rate_limited();
                check::too_many(refused.retry_after, "too many calls at once")
            }
            Ok(()) => self.place_one(&call).instrument(span.clone()).await,
        };
        let took = started.elapsed();
        metrics::requested(settled.outcome, took);
        span.in_scope(|| settled.log(took));
        with_allowance(settled.answer, allowance)
    }

    async fn place_one(&self, call: &PlaceCall<'_>) -> CountedAnswer {
        let started = Instant::now();
        let request = check::request(call, &self.rules);
        metrics::order_phase("validation", started.elapsed());
        let (request, body) = match request {
            Ok(request) => request,
            Err(refused) => {
                self.limits.count(call.client);
                return *refused;
            }
        };
        let key = self.keys.hash(call.client, &request.idempotency_key);
        let span = tracing::Span::current();
        span.record("idempotency_key", &key);
        span.record("instrument", &request.instrument);
        let settled = self.place_valid(call, &request, body).await;
        CountedAnswer {
            about: Some((key, request.digest)),
            ..settled
        }
    }

    async fn place_valid(
        &self,
        call: &PlaceCall<'_>,
        request: &OrderRequest,
        body: &str,
    ) -> CountedAnswer {
        let ledger = self.ledger.as_ref();
        match self.limits.take_of_day(call.client, ledger).await {
            Ok(Ok(())) => {}
            Ok(Err(over)) => {
                metrics::quota_exceeded();
                return check::too_many(over.retry_after, "the daily quota is used up");
            }
            Err(error) => return unavailable(&error),
        }
        let order = self.new_order(call, request, body);
        if self.options.outbox_enabled {
            self.enqueue(call, order).await
        } else {
            let timeout = self.dispatcher.timeout(request.time_in_force);
            self.send_now(call, order, timeout).await
        }
    }

    fn new_order(&self, call: &PlaceCall<'_>, request: &OrderRequest, body: &str) -> NewOrder {
        let filled = ServerFields::new(request, &self.rules, Timestamp::now(), Uuid::new_v4());
        let stored = StoredOrder::new(call.client.clone(), request, filled, body);
        NewOrder {
            client: call.client.clone(),
            key: request.idempotency_key.clone(),
            request_digest: request.digest.clone(),
            payload: stored.to_payload(),
            headers: self.options.addressed(call.headers.clone()),
            ttl: self.options.key_ttl(),
            max_age: self.options.max_age(),
        }
    }

    /// Writes the ledger row and the message.
    async fn enqueue(&self, call: &PlaceCall<'_>, order: NewOrder) -> CountedAnswer {
        let started = Instant::now();
        let accepted = self.acceptor.accept(order).await;
        metrics::order_phase("commit", started.elapsed());
        let accepted = match accepted {
            Ok(accepted) => accepted,
            Err(error) => return unavailable(&error),
        };
        if let AcceptResult::New(_) = accepted {
            metrics::written(LedgerStatus::Accepted.as_str(), true);
            failpoint("orders.after_commit").await;
        }
        self.answered(call, accepted).await
    }

    /// The answer for an order in the ledger, after the preferred wait.
    async fn answered(&self, call: &PlaceCall<'_>, accepted: AcceptResult) -> CountedAnswer {
        let (entry, is_new) = match accepted {
            AcceptResult::New(entry) => (entry, true),
            AcceptResult::Same(entry) => (entry, false),
            AcceptResult::Conflict(entry) => return check::conflict(&entry),
        };
        let wait = call.wait.map(|wait| wait.min(self.options.wait_max()));
        let was_open = entry.status == LedgerStatus::Accepted;
        let entry = match wait {
            Some(wait) if was_open => self.wait_for_result(entry, wait).await,
            _ => entry,
        };
        let answer = Answer::of_entry(&entry, is_new.then_some(201));
        let answer = match wait {
            Some(wait) if was_open => wait::applied(answer, wait),
            _ => answer,
        };
        settled(&entry, answer, is_new)
    }

    /// The state of a key of this client.
    pub async fn look(&self, client: &Client, key: &str) -> Answer {
        let unknown = || {
            let why = "order with this key does not exist";
            Answer::refused(Reason::OrderUnknown, why, json!({ "idempotency_key": key }))
        };
        // An invalid key cannot be in the ledger.
        let Ok(parsed) = key.parse::<OrderKey>() else {
            return unknown();
        };
        match self.ledger.entry(client, &parsed).await {
            Ok(Some(entry)) => Answer::state(&entry),
            Ok(None) => unknown(),
            Err(error) => unavailable(&error).answer,
        }
    }
}

fn settled(entry: &LedgerEntry, answer: Answer, is_new: bool) -> CountedAnswer {
    let outcome = match (is_new, entry.status) {
        (false, _) => Outcome::Replayed,
        (true, LedgerStatus::Accepted) => Outcome::Accepted,
        (true, LedgerStatus::Succeeded) => Outcome::Succeeded,
        (true, LedgerStatus::Failed) => Outcome::Failed,
    };
    CountedAnswer::new(answer, outcome, None)
}

/// The database is unavailable or rejected the order. The client may always repeat the request with
/// the same key.
fn unavailable(error: &Error) -> CountedAnswer {
    let code = error.code();
    let detail = without_key(error);
    error!(code, "recording an order failed: {detail}");
    let status = if error.is_retryable() { 503 } else { 500 };
    let why = "the order could not be recorded; repeat the request with the same key";
    let answer = Answer::refused_with(status, Reason::InternalError, why, Value::Null);
    let answer = if error.is_retryable() {
        answer.with_header(RETRY_AFTER, 1)
    } else {
        answer
    };
    CountedAnswer::refused(answer, Outcome::Unavailable, Reason::InternalError)
}

/// The error without the client's key.
fn without_key(error: &Error) -> String {
    match error {
        Error::KeyConflict { .. } => "its key belongs to a message without a ledger row".into(),
        other => Masker::default().mask(&other.to_string(), &[]),
    }
}

fn with_allowance(answer: Answer, allowance: Option<Allowance>) -> Answer {
    match allowance {
        None => answer,
        Some(allowance) => answer
            .with_header("x-ratelimit-limit", allowance.limit)
            .with_header("x-ratelimit-remaining", allowance.remaining),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys stand in logs as hashes only.
    #[test]
    fn an_error_is_logged_without_the_orders_key() {
        let conflict = Error::KeyConflict {
            queue: crate::QUEUE.parse().unwrap(),
            key: "desk-7/key-\"hidden\"".to_owned(),
            id: None,
        };
        assert!(
            conflict.to_string().contains("hidden"),
            "the error contains the key, so the test can fail"
        );
        assert!(!without_key(&conflict).contains("hidden"));
        assert_eq!(
            without_key(&Error::invalid("ttl", "too long")),
            Error::invalid("ttl", "too long").to_string()
        );
    }
}
