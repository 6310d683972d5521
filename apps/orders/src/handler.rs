//! What a worker does with an order: look at the ledger, send, say what came of it.
//!
//! Every verdict carries a code, and what the ledger is to remember should this attempt be the
//! last: the database copies it into the order's row in the transaction that records the attempt.

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
    Adapter, Asked, Broker, BrokerFailure, ExecResult, Ledger, Order, OrdersOptions, Reason,
    Stored, Subject,
    dispatch::{Dispatcher, Send, millis},
    keys::Keys,
    metrics,
    options::ADAPTER,
    park::park,
};

pub use self::verdict::codes;

/// When to look again at an order that was not sent, without a word from the broker.
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
    /// A sink to this broker, which asks this ledger before it sends.
    pub fn new(ledger: Arc<dyn Ledger>, broker: Arc<dyn Broker>, options: &OrdersOptions) -> Self {
        Self {
            ledger,
            destination: options.destination(),
            adapter: options.broker_adapter,
            dispatcher: Dispatcher::new(broker, options),
            keys: Keys::new(options),
        }
    }

    /// Refuses an order that was accepted for another adapter than this worker's: a worker without
    /// settings would execute live orders on paper.
    fn misdirected(&self, delivery: &Delivery) -> Option<Verdict> {
        let meant = delivery.message.headers.get(ADAPTER)?;
        let here = self.adapter.as_str();
        (meant != here).then(|| {
            let detail = format!(
                "it was accepted for the adapter {meant}, and this worker has {here}; \
                 set orders.broker_adapter and the broker's settings here too"
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
        park("orders.before_send").await;
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
        park("orders.after_send").await;
        match answer {
            Ok(result) => verdict::executed(&result, codes::EXECUTED),
            Err(failure) => {
                let failure = self.still_doubted(delivery, failure);
                verdict::failed(&self.dispatcher, (&order).into(), &failure)
            }
        }
    }

    /// A send that did not execute the order clears no earlier one, unless the broker says so of
    /// this key: the outcome of the order is in doubt for as long as nobody knows.
    fn still_doubted(&self, delivery: &Delivery, failure: BrokerFailure) -> BrokerFailure {
        let is_clear = failure.knows_order && self.dispatcher.broker().takes_keys();
        match delivery.in_doubt && !is_clear {
            true => failure.uncertain(),
            false => failure,
        }
    }

    /// Asks the broker about an order it may have got before.
    async fn ask(&self, stored: &Stored, limit: Duration) -> Asked {
        let adapter = self.dispatcher.broker().name();
        let key = message_key(stored);
        let question = self.dispatcher.broker().status(&key);
        let asked = match timeout(limit, question).await {
            Ok(asked) => asked,
            Err(_) => Asked::Unknown(format!("no answer within {} ms", limit.as_millis())),
        };
        let answer = match &asked {
            Asked::Executed(_) => "executed",
            Asked::NotExecuted => "not_executed",
            Asked::Unknown(_) => "unknown",
        };
        metrics::broker_queried(adapter, answer);
        asked
    }

    /// What the broker's knowledge of an order comes to; none: it was not executed.
    fn decided(&self, result: ExecResult, order: &Order) -> Option<Result<Verdict, String>> {
        match self.dispatcher.vet(result, order) {
            Ok(result) => Some(Ok(verdict::executed(&result, codes::PROBED))),
            Err(failure) if failure.is_uncertain => {
                Some(Err(self.dispatcher.masked(failure, order).message))
            }
            // It knows the order and did not execute it; another send may do better.
            Err(failure) if failure.reason.is_retried() => None,
            Err(failure) => {
                let failure = self.dispatcher.masked(failure, order);
                let verdict = verdict::failed(&self.dispatcher, order.into(), &failure);
                Some(Ok(verdict))
            }
        }
    }

    fn tell(&self, delivery: &Delivery, verdict: &Verdict, took: Duration) {
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
        park("orders.after_claim").await;
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
        span.in_scope(|| self.tell(delivery, &verdict, started.elapsed()));
        verdict
    }

    async fn probe(&self, delivery: &Delivery) -> Probe {
        if let Some(verdict) = self.misdirected(delivery) {
            return Probe::Decided(Box::new(verdict));
        }
        let read = Stored::read(&delivery.message.payload)
            .and_then(|stored| Ok((stored.order()?, stored)));
        let (order, stored) = match read {
            Ok(read) => read,
            Err(malformed) => {
                let verdict = self.malformed(delivery, &malformed.to_string());
                return Probe::Decided(verdict);
            }
        };
        let limit = self.dispatcher.timeout(order.time_in_force);
        match self.ask(&stored, limit).await {
            Asked::NotExecuted => Probe::NotDelivered,
            Asked::Unknown(why) => {
                Probe::CannotTell(self.dispatcher.mask(&why, stored.key.as_str()))
            }
            Asked::Executed(result) => match self.decided(*result, &order) {
                None => Probe::NotDelivered,
                Some(Ok(verdict)) => Probe::Decided(Box::new(verdict)),
                Some(Err(why)) => Probe::CannotTell(why),
            },
        }
    }
}

/// What the broker knows an order by.
pub(crate) fn message_key(stored: &Stored) -> String {
    format!("{}/{}", stored.client, stored.key.as_str())
}

/// How long an order has waited, as far as two clocks agree.
fn queued(delivery: &Delivery) -> Duration {
    let waited = Timestamp::now().duration_since(delivery.message.created_at);
    Duration::try_from(waited).unwrap_or_default()
}

/// What can still be said about an order whose message cannot be read.
fn subject(delivery: &Delivery) -> Subject {
    Subject::of_payload(&delivery.message.payload, delivery.message.created_at)
}

/// The end of an order that is not sent.
fn unsent(sink: &OrderSink, delivery: &Delivery, reason: Reason, why: &str) -> Box<Verdict> {
    metrics::unsent(reason.as_str());
    Box::new(verdict::ended(
        &sink.dispatcher,
        subject(delivery),
        reason,
        why,
    ))
}

/// The same, unless an earlier send left the order in doubt. Then it does not end at once, or the
/// doubt would be over as well: it is looked at again until its attempts are used up.
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
