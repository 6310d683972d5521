//! Orders that are sent within their request: no outbox, one send, no retry.

use std::{sync::Arc, time::Duration};

use consign_kernel::Error;
use tokio::time::{Instant, sleep_until};
use tracing::{Instrument, Span, error};

use super::{OrderService, PlaceCall, Settled, settled, unavailable};
use crate::{
    Accepted, Answer, Ended, Ledger, LedgerEntry, LedgerStatus, NewOrder, Reason, Stored,
    dispatch::{Dispatcher, Send},
    metrics::{self, Outcome},
    park::park,
};

/// How long the result may take to be recorded after the broker's time is over. Then the order
/// counts as failed with an unknown outcome.
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
    ) -> Settled {
        let give_up_after = timeout + RECORDING_MAX;
        let opened = match self.ledger.open_direct(&order, give_up_after).await {
            Ok(Accepted::New(_)) => Instant::now(),
            Ok(accepted) => return self.answered(call, accepted).await,
            Err(error) => return unavailable(&error),
        };
        metrics::written(LedgerStatus::Accepted.as_str(), false);
        park("orders.after_commit").await;
        let sending = Sending {
            ledger: Arc::clone(&self.ledger),
            dispatcher: Arc::clone(&self.dispatcher),
            order,
            ends: opened + give_up_after,
        };
        // In a task of its own: a client that hangs up must not end a send halfway.
        let task = tokio::spawn(sending.run().instrument(Span::current()));
        match task.await {
            Ok(Ok(entry)) => settled(&entry, Answer::of_entry(&entry, Some(201)), true),
            Ok(Err(error)) => unavailable(&error),
            Err(gone) => {
                error!("sending an order ended early: {gone}");
                let why = "the order may have been executed; ask again with the same key";
                let answer = Answer::refused(Reason::InternalError, why, serde_json::Value::Null);
                Settled::refused(answer, Outcome::Unavailable, Reason::InternalError)
            }
        }
    }
}

struct Sending {
    ledger: Arc<dyn Ledger>,
    dispatcher: Arc<Dispatcher>,
    order: NewOrder,
    /// From when the ledger counts the order as failed.
    ends: Instant,
}

impl Sending {
    async fn run(self) -> Result<LedgerEntry, Error> {
        park("orders.before_send").await;
        let (status, ended) = self.send().await;
        park("orders.after_send").await;
        self.record(status, &ended).await
    }

    async fn send(&self) -> (LedgerStatus, Ended) {
        let stored = Stored::parse(&self.order.payload);
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

    /// Records the result, again and again until the ledger would not take it any more. The send is
    /// never repeated.
    async fn record(&self, status: LedgerStatus, ended: &Ended) -> Result<LedgerEntry, Error> {
        let mut rest = REST_MIN;
        loop {
            let error = match self.ledger.close_direct(&self.order, status, ended).await {
                Ok(Some(entry)) => {
                    match entry.result_digest.as_ref() == Some(&ended.result_digest) {
                        true => metrics::written(entry.status.as_str(), false),
                        false => self.dropped(status, ended, "the ledger had given it up by then"),
                    }
                    return Ok(entry);
                }
                Ok(None) => Error::Corrupt {
                    what: "the row of an order vanished while it was sent".into(),
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

    /// The broker's answer will not be found in the ledger. The log is the last place that knows it.
    fn dropped(&self, status: LedgerStatus, ended: &Ended, why: &str) {
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
