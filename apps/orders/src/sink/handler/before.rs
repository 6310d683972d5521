//! Checks before an order is sent.

use std::time::Duration;

use consign_kernel::{Certainty, Error, Outcome, Result};
use consign_worker::{About, Delivery, Verdict};
use tokio::time::{Instant, sleep_until, timeout};
use tracing::error;

use super::{AGAIN_IN, OrderSink, codes, subject, unsent, unsent_unless_in_doubt, verdict};
use crate::{
    BrokerFailure, BrokerLookup, LedgerEntry, LedgerStatus, Order, Reason, StoredOrder,
    VerifiedOrder, metrics, options::LEDGER_PATIENCE,
};

/// Time limit of one ledger read.
const LOOK_MAX: Duration = Duration::from_secs(3);
const REST_MIN: Duration = Duration::from_millis(20);
const REST_MAX: Duration = Duration::from_millis(500);

impl OrderSink {
    /// The order to send, or the verdict instead.
    pub(super) async fn before_send(
        &self,
        delivery: &Delivery,
    ) -> std::result::Result<(StoredOrder, Order), Box<Verdict>> {
        let stored = StoredOrder::read(&delivery.message.payload)
            .map_err(|malformed| self.malformed(delivery, &malformed.to_string()))?;
        let started = Instant::now();
        let verified = self.look(&stored).await;
        metrics::outbox_phase("verify", started.elapsed());
        let verified = match verified {
            Ok(Some(verified)) => verified,
            Ok(None) => return Err(self.missing(delivery, &stored)),
            Err(error) => return Err(self.not_looked_up(delivery, &error)),
        };
        self.judge(delivery, &stored, &verified)?;
        let order = stored
            .order()
            .map_err(|malformed| self.malformed(delivery, &malformed.to_string()))?;
        if verified.is_expired {
            return Err(self.expired(delivery, &stored, &order).await);
        }
        Ok((stored, order))
    }

    /// Reads the ledger, with retries: nothing has been sent yet, and an unavailable database must
    /// not cost the order an attempt.
    async fn look(&self, stored: &StoredOrder) -> Result<Option<VerifiedOrder>> {
        let ends = Instant::now() + LEDGER_PATIENCE;
        let mut rest = REST_MIN;
        loop {
            let question = self.ledger.verify(&stored.client, &stored.key);
            let error = match timeout(LOOK_MAX, question).await {
                Ok(Ok(verified)) => return Ok(verified),
                Ok(Err(error)) => error,
                Err(_) => Error::Unavailable {
                    attempted: "read the ledger",
                    certainty: Certainty::Definite,
                    source: format!("no answer within {LOOK_MAX:?}").into(),
                },
            };
            let next = Instant::now() + rest;
            if !error.is_retryable() || next >= ends {
                return Err(error);
            }
            sleep_until(next).await;
            rest = (rest * 2).min(REST_MAX);
        }
    }

    /// Whether the ledger permits the send.
    fn judge(
        &self,
        delivery: &Delivery,
        stored: &StoredOrder,
        verified: &VerifiedOrder,
    ) -> std::result::Result<(), Box<Verdict>> {
        let entry = &verified.entry;
        if entry.request_digest != stored.request_digest {
            metrics::unsent(Reason::IdempotencyConflict.as_str());
            let why = "the ledger has another order under this key; this one was not sent";
            // Without a result for the ledger: its row belongs to the other order.
            let code = Reason::IdempotencyConflict.as_str();
            return Err(Box::new(Verdict::failed(
                Outcome::Dead,
                About::Message,
                code,
                why,
            )));
        }
        match entry.status {
            LedgerStatus::Accepted if entry.outbox_id != Some(delivery.message.id) => {
                Err(self.not_its_row(delivery, stored))
            }
            LedgerStatus::Accepted => Ok(()),
            LedgerStatus::Succeeded | LedgerStatus::Failed => {
                Err(Box::new(self.synced(delivery, entry)))
            }
        }
    }

    /// The ledger has the order's result already; its message ends the same way.
    fn synced(&self, delivery: &Delivery, entry: &LedgerEntry) -> Verdict {
        metrics::unsent(codes::LEDGER_SYNCED);
        let id = delivery.message.id;
        let status = entry.status.as_str();
        tracing::warn!(
            outbox_id = %id, status,
            "the ledger has order {id} as {status} already; it was not sent again"
        );
        match entry.status {
            LedgerStatus::Succeeded => verdict::synced(entry),
            _ => Verdict::failed(
                Outcome::Dead,
                About::Message,
                codes::LEDGER_SYNCED,
                "the ledger has the order as failed; it was not sent",
            ),
        }
    }

    pub(super) fn malformed(&self, delivery: &Delivery, why: &str) -> Box<Verdict> {
        unsent_unless_in_doubt(self, delivery, Reason::ValidationError, why)
    }

    /// Without a ledger row a send could be a repeat. This is never expected, so it is logged as an
    /// error.
    fn missing(&self, delivery: &Delivery, stored: &StoredOrder) -> Box<Verdict> {
        let id = delivery.message.id;
        error!(
            outbox_id = %id,
            idempotency_key = self.keys.hash(&stored.client, &stored.key),
            code = Reason::LedgerMissing.as_str(),
            "order {id} has no row in the ledger; it was not sent. Find out what removed the row"
        );
        let why = "the ledger has no row for this order; it was not sent";
        unsent(self, delivery, Reason::LedgerMissing, why)
    }

    /// The row belongs to another message, or to a request that sends the order itself: this
    /// message must not send it a second time.
    fn not_its_row(&self, delivery: &Delivery, stored: &StoredOrder) -> Box<Verdict> {
        let id = delivery.message.id;
        error!(
            outbox_id = %id,
            idempotency_key = self.keys.hash(&stored.client, &stored.key),
            code = Reason::LedgerMissing.as_str(),
            "the ledger has another message than {id} for this order; it was not sent. Find \
             out what wrote it"
        );
        let why = "the ledger has this order with another message; this one was not sent";
        unsent(self, delivery, Reason::LedgerMissing, why)
    }

    /// The order's time to send is over. If an earlier send may have arrived, the broker is queried
    /// first: an executed order does not expire.
    async fn expired(
        &self,
        delivery: &Delivery,
        stored: &StoredOrder,
        order: &Order,
    ) -> Box<Verdict> {
        let reason = Reason::OrderExpired;
        if delivery.in_doubt && self.dispatcher.broker().has_status_query() {
            let limit = self.dispatcher.timeout(order.time_in_force);
            let executed = match self.query_broker(stored, limit).await {
                BrokerLookup::Executed(result) => self.decided(*result, order),
                BrokerLookup::NotExecuted => None,
                BrokerLookup::Unknown(why) => Some(Err(why)),
            };
            match executed {
                None => {
                    let why = "the order expired before it could be sent; it was not executed";
                    return unsent(self, delivery, reason, why);
                }
                Some(Ok(verdict)) => return Box::new(verdict),
                Some(Err(_)) => {}
            }
        }
        let why = if delivery.in_doubt {
            "the order expired and was not sent again, but the outcome of an earlier send is \
                 unknown"
        } else {
            "the order expired before it could be sent; it was not sent"
        };
        unsent_unless_in_doubt(self, delivery, reason, why)
    }

    /// The ledger was unavailable, so nothing was sent.
    fn not_looked_up(&self, delivery: &Delivery, error: &Error) -> Box<Verdict> {
        let why = format!("nothing was sent: cannot read the ledger ({error})");
        let failure = BrokerFailure::new(Reason::InternalError, why).with_retry_in(Some(AGAIN_IN));
        let failure = self.still_doubted(delivery, failure);
        let verdict = verdict::failed(&self.dispatcher, subject(delivery), &failure);
        Box::new(verdict)
    }
}
