//! What is looked at before an order is sent.

use std::time::Duration;

use consign_kernel::{Certainty, Error, Outcome, Result};
use consign_worker::{About, Delivery, Verdict};
use tokio::time::{Instant, sleep_until, timeout};
use tracing::error;

use super::{AGAIN_IN, OrderSink, codes, subject, unsent, unsent_unless_in_doubt, verdict};
use crate::{
    Asked, BrokerFailure, LedgerEntry, LedgerStatus, Order, Reason, Stored, Verified, metrics,
    options::LEDGER_PATIENCE,
};

/// How long one look at the ledger may take.
const LOOK_MAX: Duration = Duration::from_secs(3);
const REST_MIN: Duration = Duration::from_millis(20);
const REST_MAX: Duration = Duration::from_millis(500);

impl OrderSink {
    /// The order to send, or what became of it instead.
    pub(super) async fn before_send(
        &self,
        delivery: &Delivery,
    ) -> std::result::Result<(Stored, Order), Box<Verdict>> {
        let stored = Stored::read(&delivery.message.payload)
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

    /// Asks the ledger, again and again for a while: nothing has been sent yet, and an attempt that
    /// fails because our own database is away is an attempt less for the order.
    async fn look(&self, stored: &Stored) -> Result<Option<Verified>> {
        let ends = Instant::now() + LEDGER_PATIENCE;
        let mut rest = REST_MIN;
        loop {
            let question = self.ledger.verify(&stored.client, &stored.key);
            let error = match timeout(LOOK_MAX, question).await {
                Ok(Ok(verified)) => return Ok(verified),
                Ok(Err(error)) => error,
                Err(_) => Error::Unavailable {
                    attempted: "look at the ledger",
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

    /// Whether the ledger lets the order go.
    fn judge(
        &self,
        delivery: &Delivery,
        stored: &Stored,
        verified: &Verified,
    ) -> std::result::Result<(), Box<Verdict>> {
        let entry = &verified.entry;
        if entry.request_digest != stored.request_digest {
            metrics::unsent(Reason::IdempotencyConflict.as_str());
            let why = "the ledger holds another order under this key; this one was not sent";
            // Without what the ledger is to remember: it is about the other order.
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

    /// The ledger knows how the order ended: so did its message.
    fn synced(&self, delivery: &Delivery, entry: &LedgerEntry) -> Verdict {
        metrics::unsent(codes::LEDGER_SYNCED);
        let id = delivery.message.id;
        let status = entry.status.as_str();
        tracing::warn!(
            outbox_id = %id, status,
            "order {id} was {status} in the ledger already; it was not sent again"
        );
        match entry.status {
            LedgerStatus::Succeeded => verdict::synced(entry),
            _ => Verdict::failed(
                Outcome::Dead,
                About::Message,
                codes::LEDGER_SYNCED,
                "the ledger says that the order failed; it was not sent",
            ),
        }
    }

    pub(super) fn malformed(&self, delivery: &Delivery, why: &str) -> Box<Verdict> {
        unsent_unless_in_doubt(self, delivery, Reason::ValidationError, why)
    }

    /// Nothing tells whether the order may be sent. That should not happen, so somebody is told.
    fn missing(&self, delivery: &Delivery, stored: &Stored) -> Box<Verdict> {
        let id = delivery.message.id;
        error!(
            outbox_id = %id,
            idempotency_key = self.keys.hash(&stored.client, &stored.key),
            code = Reason::LedgerMissing.as_str(),
            "order {id} has no row in the ledger; it was not sent. Find out who removed the row"
        );
        let why = "the ledger has no row for this order; it was not sent";
        unsent(self, delivery, Reason::LedgerMissing, why)
    }

    /// The row is of another message, or of a call that sends it itself: sent by this one too, the
    /// order would be sent twice.
    fn not_its_row(&self, delivery: &Delivery, stored: &Stored) -> Box<Verdict> {
        let id = delivery.message.id;
        error!(
            outbox_id = %id,
            idempotency_key = self.keys.hash(&stored.client, &stored.key),
            code = Reason::LedgerMissing.as_str(),
            "message {id} is not the one that the ledger has for its order; it was not sent. Find \
             out who wrote it"
        );
        let why = "the ledger has this order with another message; this one was not sent";
        unsent(self, delivery, Reason::LedgerMissing, why)
    }

    /// Its time is over. If an earlier send may have arrived, the broker is asked first: an executed
    /// order did not expire.
    async fn expired(&self, delivery: &Delivery, stored: &Stored, order: &Order) -> Box<Verdict> {
        let reason = Reason::OrderExpired;
        if delivery.in_doubt && self.dispatcher.broker().can_be_asked() {
            let limit = self.dispatcher.timeout(order.time_in_force);
            let known = match self.ask(stored, limit).await {
                Asked::Executed(result) => self.decided(*result, order),
                Asked::NotExecuted => None,
                Asked::Unknown(why) => Some(Err(why)),
            };
            match known {
                None => {
                    let why = "the order waited for longer than it may; it was not executed";
                    return unsent(self, delivery, reason, why);
                }
                Some(Ok(verdict)) => return Box::new(verdict),
                Some(Err(_)) => {}
            }
        }
        let why = match delivery.in_doubt {
            true => {
                "the order waited for longer than it may and was not sent again, but nobody knows \
                 what became of an earlier send"
            }
            false => "the order waited for longer than it may; it was not sent",
        };
        unsent_unless_in_doubt(self, delivery, reason, why)
    }

    /// The ledger could not be asked, so nothing was sent.
    fn not_looked_up(&self, delivery: &Delivery, error: &Error) -> Box<Verdict> {
        let why = format!("nothing was sent: the ledger could not be asked ({error})");
        let failure = BrokerFailure::new(Reason::InternalError, why).with_retry_in(Some(AGAIN_IN));
        let failure = self.still_doubted(delivery, failure);
        let verdict = verdict::failed(&self.dispatcher, subject(delivery), &failure);
        Box::new(verdict)
    }
}
