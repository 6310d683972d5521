//! One broker call: sends the order, validates and masks the answer.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use jiff::Timestamp;
use serde_json::{Map, Value};
use tokio::time::{Instant, timeout};
use tracing::{Instrument, field::Empty, info_span};

use crate::{
    Broker, BrokerFailure, ExecResult, Instruments, LatencyMs, Masker, Order, OrdersOptions,
    OutgoingOrder, Reason, Subject, TimeInForce, broker::vetted, metrics,
};

/// Adapters enforce the time limit themselves; this much later the call is cancelled anyway.
const ADAPTER_GRACE: Duration = Duration::from_millis(500);

/// What is sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Send<'a> {
    pub(crate) order: &'a Order,
    /// `client/key`.
    pub(crate) key: &'a str,
    pub(crate) attempt_no: u32,
    pub(crate) headers: &'a Map<String, Value>,
    /// How long the order was queued.
    pub(crate) queued: Duration,
}

/// Calls the broker.
#[derive(Debug)]
pub(crate) struct Dispatcher {
    broker: Arc<dyn Broker>,
    instruments: Instruments,
    timeout_ioc: Duration,
    timeout_longer: Duration,
    masker: Masker,
    recent: Mutex<CallWindow>,
}

impl Dispatcher {
    pub(crate) fn new(broker: Arc<dyn Broker>, options: &OrdersOptions) -> Self {
        metrics::start_adapter(broker.name());
        Self {
            broker,
            instruments: options.instruments.clone(),
            timeout_ioc: Duration::from_millis(options.broker_timeout_ms),
            timeout_longer: Duration::from_millis(options.broker_timeout_fok_gtc_ms),
            masker: masker(options),
            recent: Mutex::default(),
        }
    }

    pub(crate) fn broker(&self) -> &dyn Broker {
        self.broker.as_ref()
    }

    pub(crate) fn timeout(&self, time_in_force: TimeInForce) -> Duration {
        match time_in_force {
            TimeInForce::Ioc => self.timeout_ioc,
            TimeInForce::Fok | TimeInForce::Gtc => self.timeout_longer,
        }
    }

    /// Sends an order once. The answer is validated and masked.
    pub(crate) async fn send(&self, send: Send<'_>) -> Result<ExecResult, BrokerFailure> {
        let adapter = self.broker.name();
        let span = info_span!(
            "broker.send",
            otel.kind = "client",
            adapter,
            attempt = send.attempt_no,
            rtt_ms = Empty,
            reason_code = Empty,
        );
        let limit = self.timeout(send.order.time_in_force);
        let outgoing = OutgoingOrder {
            order: send.order,
            key: send.key,
            timeout: limit,
            attempt_no: send.attempt_no,
            headers: send.headers,
        };
        let started = Instant::now();
        let call = timeout(limit + ADAPTER_GRACE, self.broker.send(&outgoing));
        let answer = match call.instrument(span.clone()).await {
            Ok(Ok(result)) => self.vet(result, send.order),
            Ok(Err(failure)) => Err(failure),
            Err(_) => {
                let why = format!("no answer within {} ms", limit.as_millis());
                Err(BrokerFailure::new(Reason::BrokerTimeout, why))
            }
        };
        let took = started.elapsed();
        let reason = answer.as_ref().err().map(|failure| failure.reason);
        span.record("rtt_ms", millis(took));
        if let Some(reason) = reason {
            span.record("reason_code", reason.as_str());
        }
        metrics::broker_called(adapter, reason, took);
        let is_down = matches!(reason, Some(Reason::BrokerTimeout | Reason::BrokerDown));
        metrics::broker_fail_ratio(adapter, self.note(is_down));
        match answer {
            Ok(result) => Ok(timed(result, send, took)),
            Err(failure) => Err(self.masked(failure, send.order)),
        }
    }

    /// Validates a broker's answer as the result of this order.
    pub(crate) fn vet(
        &self,
        result: ExecResult,
        order: &Order,
    ) -> Result<ExecResult, BrokerFailure> {
        let step = self.instruments.get(&order.instrument);
        vetted(result, order, step.map(|grid| grid.qty_step), &self.masker)
    }

    /// Masks secrets in the failure's message.
    pub(crate) fn masked(&self, failure: BrokerFailure, order: &Order) -> BrokerFailure {
        let message = self.mask(&failure.message, order.idempotency_key.as_str());
        let traded = failure
            .traded
            .map(|traded| Box::new(traded.masked(&self.masker)));
        BrokerFailure {
            message,
            traded,
            ..failure
        }
    }

    pub(crate) fn mask(&self, text: &str, key: &str) -> String {
        self.masker.mask(text, &[key])
    }

    /// The result of an order that was not executed. `message` is masked already.
    pub(crate) fn failed(&self, subject: Subject, reason: Reason, message: &str) -> ExecResult {
        ExecResult::failed(
            subject,
            self.broker.name(),
            reason,
            message,
            Timestamp::now(),
        )
    }

    /// The result to store if this failure is the last attempt. An uncertain outcome takes
    /// precedence over the last reason. `failure` is masked already.
    pub(crate) fn remembered(&self, subject: Subject, failure: &BrokerFailure) -> ExecResult {
        let result = if failure.is_uncertain {
            let message = format!("the order may have been executed: {}", failure.message);
            self.failed(subject, Reason::BrokerTimeout, &message)
        } else {
            self.failed(subject, failure.reason, &failure.message)
        };
        match &failure.traded {
            Some(traded) => traded.added_to(result),
            None => result,
        }
    }

    fn note(&self, is_down: bool) -> f64 {
        let mut recent = self
            .recent
            .lock()
            .expect("invariant: no panic under this lock");
        recent.add(is_down)
    }
}

fn masker(options: &OrdersOptions) -> Masker {
    let secrets = [
        &options.broker_api_key,
        &options.broker_api_secret,
        &options.idempo_secret,
    ];
    let secrets = secrets.into_iter().flatten();
    Masker::new(secrets.map(|secret| secret.reveal().to_owned()))
}

/// Adds the client's key and the latencies to the result.
fn timed(result: ExecResult, send: Send<'_>, took: Duration) -> ExecResult {
    let key = send.order.idempotency_key.as_str();
    ExecResult {
        idempotency_key: Some(key.to_owned()),
        latency_ms: LatencyMs {
            queue: millis(send.queued),
            broker_rtt: millis(took),
            total: millis(send.queued + took),
        },
        ..result
    }
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The last 20 calls, the latest in the lowest bit: set where the broker was unreachable.
#[derive(Debug, Default)]
struct CallWindow {
    down: u32,
    count: u32,
}

impl CallWindow {
    const CALLS: u32 = 20;

    /// Records a call; returns the share of failed calls.
    fn add(&mut self, is_down: bool) -> f64 {
        let kept = (1 << Self::CALLS) - 1;
        self.down = ((self.down << 1) | u32::from(is_down)) & kept;
        self.count = (self.count + 1).min(Self::CALLS);
        f64::from(self.down.count_ones()) / f64::from(self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::{Paper, Script};

    #[test]
    fn the_timeout_depends_on_the_time_in_force() {
        let paper = Arc::new(Paper::new(7, Script::default()));
        let dispatcher = Dispatcher::new(paper, &OrdersOptions::default());
        let expected_ms = [
            (TimeInForce::Ioc, 2_500),
            (TimeInForce::Fok, 5_000),
            (TimeInForce::Gtc, 5_000),
        ];
        for (time_in_force, ms) in expected_ms {
            let timeout = dispatcher.timeout(time_in_force);
            assert_eq!(timeout, Duration::from_millis(ms), "{time_in_force:?}");
        }
    }

    #[test]
    fn the_share_is_of_the_last_twenty_calls() {
        let mut recent = CallWindow::default();
        assert_eq!(recent.add(true), 1.0);
        assert_eq!(recent.add(false), 0.5);
        for _ in 0..18 {
            recent.add(true);
        }
        assert_eq!(recent.add(true), 0.95);
        for _ in 0..20 {
            recent.add(false);
        }
        assert_eq!(recent.add(false), 0.0);
    }
}
