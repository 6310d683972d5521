//! Orders that are sent within their request: no outbox, one send, no retry.

use std::{sync::Arc, time::Duration};

use consign_kernel::Error;
use tokio::time::{Instant, sleep_until};
use tracing::{Instrument, Span, error};

use super::{CountedAnswer, OrderService, PlaceCall, settled, unavailable};
use crate::{
    AcceptResult, Answer, FinalResult, Ledger, LedgerEntry, LedgerStatus, NewOrder, Reason,
    StoredOrder,
    failpoint::failpoint,
    metrics::{self, Outcome},
    sink::dispatch::{Dispatcher, Send},
};

/// How long recording may take after the broker's time limit. Then the order counts as failed with
/// an unknown outcome.
const RECORDING_MAX: Duration = Duration::from_secs(10);
const REST_MIN: Duration = Duration::from_millis(20);
const REST_MAX: Duration = Duration::from_secs(1);

impl OrderService {
    /// Sends an order now, if its key is new.
    pub(super) async fn send_now(
        &self,
        call: &PlaceCall<'_>,
        order: NewOrder,
        timeout: Duration,
    ) -> CountedAnswer {
        let give_up_after = timeout + RECORDING_MAX;
        let opened = match self.ledger.open_direct(&order, give_up_after).await {
            Ok(AcceptResult::New(_)) => Instant::now(),
            Ok(accepted) => return self.answered(call, accepted).await,
            Err(error) => return unavailable(&error),
        };
        metrics::written(LedgerStatus::Accepted.as_str(), false);
        failpoint("orders.after_commit").await;
        let sending = DirectSend {
            ledger: Arc::clone(&self.ledger),
            dispatcher: Arc::clone(&self.dispatcher),
            order,
            ends: opened + give_up_after,
        };
        // In its own task: a client that disconnects must not cancel a send.
        let task = tokio::spawn(sending.run().instrument(Span::current()));
        match task.await {
            Ok(Ok(entry)) => settled(&entry, Answer::of_entry(&entry, Some(201)), true),
            Ok(Err(error)) => unavailable(&error),
            Err(gone) => {
                error!("the task that sent an order failed: {gone}");
                let why = "the order may have been executed; repeat the request with the same key";
                let answer = Answer::refused(Reason::InternalError, why, serde_json::Value::Null);
                CountedAnswer::refused(answer, Outcome::Unavailable, Reason::InternalError)
            }
        }
    }
}

struct DirectSend {
    ledger: Arc<dyn Ledger>,
    dispatcher: Arc<Dispatcher>,
    order: NewOrder,
    /// From then on the ledger counts the order as failed.
    ends: Instant,
}

impl DirectSend {
    async fn run(self) -> Result<LedgerEntry, Error> {
        failpoint("orders.before_send").await;
        let (status, ended) = self.send().await;
        failpoint("orders.after_send").await;
        self.record(status, &ended).await
    }

    async fn send(&self) -> (LedgerStatus, FinalResult) {
        let stored = StoredOrder::parse(&self.order.payload);
        let order = stored.and_then(|stored| stored.order());
        let order = order.expect("invariant: the order was read from a request just now");
        let send = Send {
            order: &order,
            key: &self.order.message_key(),
            attempt_no: 1,
            headers: &self.order.headers,
            queued: Duration::ZERO,
        };
        let started = Instant::now();
        let answer = self.dispatcher.send(send).await;
        metrics::order_phase("broker_rtt", started.elapsed());
        match answer {
            Ok(result) => (LedgerStatus::Succeeded, result.ended()),
            Err(failure) => {
                let subject = (&order).into();
                let result = self.dispatcher.remembered(subject, &failure);
                (LedgerStatus::Failed, result.ended())
            }
        }
    }

    /// Records the result, with retries until the ledger counts the order as failed. The send is
    /// never repeated.
    async fn record(
        &self,
        status: LedgerStatus,
        ended: &FinalResult,
    ) -> Result<LedgerEntry, Error> {
        let mut rest = REST_MIN;
        loop {
            let error = match self.ledger.close_direct(&self.order, status, ended).await {
                Ok(Some(entry)) => {
                    if entry.result_digest.as_ref() == Some(&ended.result_digest) {
                        metrics::written(entry.status.as_str(), false)
                    } else {
                        self.dropped(
                            status,
                            ended,
                            "the ledger counts the order as failed already",
                        )
                    }
                    return Ok(entry);
                }
                Ok(None) => Error::Corrupt {
                    what: "the ledger row disappeared while the order was sent".into(),
                },
                Err(error) => error,
            };
            let next = Instant::now() + rest;
            if !error.is_retryable() || next >= self.ends {
                self.dropped(status, ended, error.code());
                return Err(error);
            }
            sleep_until(next).await;
            rest = (rest * 2).min(REST_MAX);
        }
    }

    /// The ledger will not have the broker's answer, so it is logged.
    fn dropped(&self, status: LedgerStatus, ended: &FinalResult, why: &str) {
        let key = self.order.key.as_str();
        metrics::result_dropped(status.as_str());
        error!(
            status = status.as_str(),
            result_digest = ended.result_digest,
            result = self.dispatcher.mask(&ended.exec_result, key),
            "the result of an order was not recorded: {why}"
        );
    }
}
