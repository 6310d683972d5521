//! The sink of the queue `orders`: checks the ledger, sends the order, reports the outcome.
//!
//! Every verdict carries a code and the result that the ledger stores if this attempt is the last:
//! the hook copies it into the order's row in the transaction that records the attempt.

mod before;
mod verdict;

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use consign_kernel::Outcome;
use consign_worker::{Delivery, Probe, Sink, Verdict};
use jiff::Timestamp;
use tokio::time::{Instant, timeout};
use tracing::{Instrument, field::Empty, info, info_span};

use crate::{
    Adapter, Broker, BrokerFailure, BrokerLookup, ExecResult, Ledger, Order, OrdersOptions, Reason,
    StoredOrder, Subject,
    failpoint::failpoint,
    keys::Keys,
    metrics,
    options::ADAPTER,
    sink::dispatch::{Dispatcher, Send, millis},
};

pub use self::verdict::codes;

/// Retry delay of an order that was not sent, where the broker gave none.
const AGAIN_IN: Duration = Duration::from_secs(1);

/// Sends the orders of the queue `orders` to a broker.
pub struct OrderSink {
    ledger: Arc<dyn Ledger>,
    dispatcher: Dispatcher,
    keys: Keys,
    destination: String,
    adapter: Adapter,
}

impl fmt::Debug for OrderSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OrderSink")
            .field("dispatcher", &self.dispatcher)
            .finish_non_exhaustive()
    }
}

impl OrderSink {
    /// A sink for this broker; it checks this ledger before every send.
    pub fn new(ledger: Arc<dyn Ledger>, broker: Arc<dyn Broker>, options: &OrdersOptions) -> Self {
        Self {
            ledger,
            destination: options.destination(),
            adapter: options.broker_adapter,
            dispatcher: Dispatcher::new(broker, options),
            keys: Keys::new(options),
        }
    }

    /// Rejects an order that was accepted for another adapter than this worker's: a worker without
    /// settings would execute live orders on paper.
    fn misdirected(&self, delivery: &Delivery) -> Option<Verdict> {
        let meant = delivery.message.headers.get(ADAPTER)?;
        let here = self.adapter.as_str();
        (meant != here).then(|| {
            let detail = format!(
                "the order was accepted for the adapter {meant}, but this worker uses {here}; \
                 set orders.broker_adapter and the broker's settings on this worker too"
            );
            Verdict::misdirected(delivery, detail)
        })
    }

    async fn process(&self, delivery: &Delivery) -> Verdict {
        if let Some(verdict) = self.misdirected(delivery) {
            return verdict;
        }
        let (stored, order) = match self.before_send(delivery).await {
            Ok(ready) => ready,
            Err(verdict) => return *verdict,
        };
        failpoint("orders.before_send").await;
        let key = message_key(&stored);
        let send = Send {
            order: &order,
            key: &key,
            attempt_no: delivery.attempt_no,
            headers: &delivery.message.headers,
            queued: queued(delivery),
        };
        let started = Instant::now();
        let answer = self.dispatcher.send(send).await;
        metrics::outbox_phase("send", started.elapsed());
        failpoint("orders.after_send").await;
        match answer {
            Ok(result) => verdict::executed(&result, codes::EXECUTED),
            Err(failure) => {
                let failure = self.still_doubted(delivery, failure);
                verdict::failed(&self.dispatcher, (&order).into(), &failure)
            }
        }
    }

    /// A failed send does not settle the outcome of an earlier one, unless the broker reported on
    /// this key: until then the order stays in doubt.
    fn still_doubted(&self, delivery: &Delivery, failure: BrokerFailure) -> BrokerFailure {
        let is_clear = failure.is_from_broker && self.dispatcher.broker().takes_keys();
        if delivery.in_doubt && !is_clear {
            failure.uncertain()
        } else {
            failure
        }
    }

    /// Queries the broker for an order that may have arrived earlier.
    async fn query_broker(&self, stored: &StoredOrder, limit: Duration) -> BrokerLookup {
        let adapter = self.dispatcher.broker().name();
        let key = message_key(stored);
        let question = self.dispatcher.broker().status(&key);
        let lookup = match timeout(limit, question).await {
            Ok(lookup) => lookup,
            Err(_) => BrokerLookup::Unknown(format!("no answer within {} ms", limit.as_millis())),
        };
        let answer = match &lookup {
            BrokerLookup::Executed(_) => "executed",
            BrokerLookup::NotExecuted => "not_executed",
            BrokerLookup::Unknown(_) => "unknown",
        };
        metrics::broker_queried(adapter, answer);
        lookup
    }

    /// The verdict for the broker's status of an order; `None` if it was not executed.
    fn decided(&self, result: ExecResult, order: &Order) -> Option<Result<Verdict, String>> {
        match self.dispatcher.vet(result, order) {
            Ok(result) => Some(Ok(verdict::executed(&result, codes::PROBED))),
            Err(failure) if failure.is_uncertain => {
                Some(Err(self.dispatcher.masked(failure, order).message))
            }
            // The broker has the order and did not execute it; another send may succeed.
            Err(failure) if failure.reason.is_retried() => None,
            Err(failure) => {
                let failure = self.dispatcher.masked(failure, order);
                let verdict = verdict::failed(&self.dispatcher, order.into(), &failure);
                Some(Ok(verdict))
            }
        }
    }

    fn log(&self, delivery: &Delivery, verdict: &Verdict, took: Duration) {
        let key = self.keys.of_message(&delivery.message);
        let status = match verdict.outcome {
            Outcome::Delivered => "succeeded",
            Outcome::Dead => "aborted",
            Outcome::Retry | Outcome::Uncertain => "failed",
        };
        info!(
            idempotency_key = key,
            outbox_id = %delivery.message.id,
            status,
            attempts = delivery.attempt_no,
            reason_code = verdict.code.as_deref(),
            adapter = self.dispatcher.broker().name(),
            latency_ms = millis(took),
            "order {} was processed: {status}",
            delivery.message.id
        );
    }
}

#[async_trait]
impl Sink for OrderSink {
    fn kind(&self) -> &'static str {
        "orders"
    }

    fn destination(&self) -> &str {
        &self.destination
    }

    async fn deliver(&self, delivery: &Delivery) -> Verdict {
        failpoint("orders.after_claim").await;
        let span = info_span!(
            "outbox.process",
            idempotency_key = self.keys.of_message(&delivery.message),
            outbox_id = %delivery.message.id,
            attempt = delivery.attempt_no,
            reason_code = Empty,
        );
        let started = Instant::now();
        let verdict = self.process(delivery).instrument(span.clone()).await;
        if let Some(code) = &verdict.code {
            span.record("reason_code", code.as_str());
        }
        span.in_scope(|| self.log(delivery, &verdict, started.elapsed()));
        verdict
    }

    async fn probe(&self, delivery: &Delivery) -> Probe {
        if let Some(verdict) = self.misdirected(delivery) {
            return Probe::Decided(Box::new(verdict));
        }
        let read = StoredOrder::read(&delivery.message.payload)
            .and_then(|stored| Ok((stored.order()?, stored)));
        let (order, stored) = match read {
            Ok(read) => read,
            Err(malformed) => {
                let verdict = self.malformed(delivery, &malformed.to_string());
                return Probe::Decided(verdict);
            }
        };
        let limit = self.dispatcher.timeout(order.time_in_force);
        match self.query_broker(&stored, limit).await {
            BrokerLookup::NotExecuted => Probe::NotDelivered,
            BrokerLookup::Unknown(why) => {
                Probe::CannotTell(self.dispatcher.mask(&why, stored.key.as_str()))
            }
            BrokerLookup::Executed(result) => match self.decided(*result, &order) {
                None => Probe::NotDelivered,
                Some(Ok(verdict)) => Probe::Decided(Box::new(verdict)),
                Some(Err(why)) => Probe::CannotTell(why),
            },
        }
    }
}

/// The order's key at the broker.
pub(crate) fn message_key(stored: &StoredOrder) -> String {
    format!("{}/{}", stored.client, stored.key.as_str())
}

/// How long the order was queued; 0 if the clocks disagree.
fn queued(delivery: &Delivery) -> Duration {
    let waited = Timestamp::now().duration_since(delivery.message.created_at);
    Duration::try_from(waited).unwrap_or_default()
}

/// What is readable of a message that is not a valid order.
fn subject(delivery: &Delivery) -> Subject {
    Subject::of_payload(&delivery.message.payload, delivery.message.created_at)
}

/// Ends an order without sending it.
fn unsent(sink: &OrderSink, delivery: &Delivery, reason: Reason, why: &str) -> Box<Verdict> {
    metrics::unsent(reason.as_str());
    Box::new(verdict::ended(
        &sink.dispatcher,
        subject(delivery),
        reason,
        why,
    ))
}

/// Ends an order without sending it, unless an earlier send left it in doubt: then it is retried
/// until its attempts are used up, because ending it would hide the doubt.
fn unsent_unless_in_doubt(
    sink: &OrderSink,
    delivery: &Delivery,
    reason: Reason,
    why: &str,
) -> Box<Verdict> {
    if !delivery.in_doubt {
        return unsent(sink, delivery, reason, why);
    }
    let subject = subject(delivery);
    let key = subject.idempotency_key.clone().unwrap_or_default();
    let failure = BrokerFailure::new(reason, sink.dispatcher.mask(why, &key)).uncertain();
    let failure = failure.with_retry_in(Some(AGAIN_IN));
    Box::new(verdict::failed(&sink.dispatcher, subject, &failure))
}
