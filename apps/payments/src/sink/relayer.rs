//! The sink of the queue `payments`: validates, calls a rail, reports the outcome.
//!
//! It never settles and never retries; the worker does. A payment whose earlier dispatch may have
//! arrived is queried by its reference before it is sent again.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use consign_kernel::Outcome;
use consign_worker::{About, Delivery, Probe, Sink, Verdict, codes, failpoint::failpoint};
use metrics::{counter, histogram};
use tokio::time::timeout;
use tracing::error;

use crate::{
    MISSING_RAIL_REFERENCE, OutboxId, RailResult,
    check::{self, PaymentFault},
    classify::{self, DISPATCH_TIMEOUT},
    metrics::{ALARMS_TOTAL, DISPATCHES_TOTAL, RAIL_SECONDS, start_rail},
    options::RAIL,
    privacy::shown,
    rail::{Dispatch, RailLookup, Rails, SubmitResult},
};

/// The code of a payment type without a rail.
pub const UNKNOWN_RAIL_TYPE: &str = "UNKNOWN_RAIL_TYPE";

/// Sends payments to the rails of their types.
#[derive(Debug)]
pub struct RailSink {
    rails: Rails,
    destination: String,
}

impl RailSink {
    /// A sink over these rails.
    pub fn new(rails: Rails) -> Self {
        let all = || rails.types().filter_map(|rail_type| rails.get(rail_type));
        all().for_each(|rail| start_rail(rail.kind()));
        let mut places: Vec<&str> = all().map(|rail| rail.destination()).collect();
        places.dedup();
        Self {
            destination: places.join(", "),
            rails,
        }
    }

    /// Rejects a payment that was accepted for another rail than this worker's: a worker without
    /// settings would only simulate real payments.
    fn misdirected(&self, delivery: &Delivery) -> Option<Verdict> {
        let meant = delivery.message.headers.get(RAIL)?;
        let (_, rail_type) = check::name(delivery)?;
        let here = self.rails.get(&rail_type)?.kind();
        (meant != here).then(|| {
            let detail = format!(
                "the payment was accepted for the rail {meant}, but this worker uses {here}; \
                 set payments.rail and its settings on this worker too"
            );
            Verdict::misdirected(delivery, detail)
        })
    }

    async fn submit(&self, dispatch: &Dispatch, limit: Duration) -> Verdict {
        let Some(rail) = self.rails.get(&dispatch.rail_type) else {
            let configured: Vec<&str> = self.rails.types().collect();
            let why = format!(
                "no rail for this rail_type; configured: {}",
                configured.join(", ")
            );
            return Verdict::failed(Outcome::Dead, About::Message, UNKNOWN_RAIL_TYPE, why);
        };
        failpoint("payments.before_send").await;
        // Monotonic: clock changes must not make it negative.
        let since = Instant::now();
        let submitted = timeout(limit, rail.submit(dispatch, limit)).await;
        let took = since.elapsed();
        let submitted = submitted.unwrap_or_else(|_| SubmitResult::Lost {
            code: DISPATCH_TIMEOUT,
            why: format!("no answer within {} ms", limit.as_millis()),
        });
        failpoint("payments.after_send").await;
        let latency_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let verdict = classify::verdict(submitted, latency_ms);
        let outcome = consign_kernel::AttemptOutcome::from(verdict.outcome).as_str();
        histogram!(RAIL_SECONDS, "rail" => rail.kind()).record(took.as_secs_f64());
        counter!(DISPATCHES_TOTAL, "rail" => rail.kind(), "outcome" => outcome).increment(1);
        verdict
    }
}

#[async_trait]
impl Sink for RailSink {
    fn kind(&self) -> &'static str {
        "rail"
    }

    fn destination(&self) -> &str {
        &self.destination
    }

    async fn deliver(&self, delivery: &Delivery) -> Verdict {
        if let Some(verdict) = self.misdirected(delivery) {
            return verdict;
        }
        // The worker queries only where the queue's policy says so. The sink always queries before
        // a resend, also after an operator released a held payment.
        if delivery.in_doubt {
            match self.probe(delivery).await {
                Probe::NotDelivered => {}
                Probe::Decided(verdict) => return *verdict,
                Probe::Delivered(result) => {
                    return Verdict {
                        code: Some(codes::PROBED.to_owned()),
                        result,
                        ..Verdict::delivered()
                    };
                }
                Probe::CannotTell(why) => {
                    let why = format!("the outcome of an earlier dispatch is unknown: {why}");
                    let (outcome, code) = (Outcome::Uncertain, codes::PROBE_FAILED);
                    return Verdict::failed(outcome, About::Message, code, why);
                }
            }
        }
        let dispatch = match check::dispatch(delivery) {
            Ok(dispatch) => dispatch,
            Err(PaymentFault { code, why }) => {
                return Verdict::failed(Outcome::Dead, About::Message, code, why);
            }
        };
        let verdict = self.submit(&dispatch, own_limit(delivery.timeout)).await;
        alarm(dispatch.reference, &verdict);
        verdict
    }

    async fn probe(&self, delivery: &Delivery) -> Probe {
        if let Some(verdict) = self.misdirected(delivery) {
            return Probe::Decided(Box::new(verdict));
        }
        // Invalid payments are queried too: another worker may have sent them by other rules.
        let Some((reference, rail_type)) = check::name(delivery) else {
            return Probe::CannotTell("the message is not a payment".to_owned());
        };
        let Some(rail) = self.rails.get(&rail_type) else {
            return Probe::CannotTell(format!("no rail for rail_type {rail_type}"));
        };
        let limit = own_limit(delivery.timeout);
        let reply = match rail.query(reference, limit).await {
            RailLookup::NotFound => return Probe::NotDelivered,
            RailLookup::CannotTell(why) => return Probe::CannotTell(shown(&why)),
            RailLookup::Found(reply) => reply,
        };
        let verdict = classify::replied(reply, None);
        alarm(reference, &verdict);
        match verdict.outcome {
            Outcome::Delivered => Probe::Delivered(verdict.result),
            // The rail has the reference. Only "never received" permits a resend.
            Outcome::Retry => Probe::CannotTell(format!(
                "the rail has the payment with {}, which does not exclude that it was paid",
                shown(verdict.code.as_deref().unwrap_or_default())
            )),
            Outcome::Dead | Outcome::Uncertain => Probe::Decided(Box::new(verdict)),
        }
    }
}

/// Money moved without a reference: an operator must check it.
fn alarm(outbox_id: OutboxId, verdict: &Verdict) {
    if verdict.code.as_deref() != Some(MISSING_RAIL_REFERENCE) {
        return;
    }
    let rail_code = RailResult::from_value(verdict.result.as_ref()).rail_code;
    let rail_code = rail_code.as_deref().unwrap_or("none");
    error!(
        %outbox_id, rail_code,
        "payment {outbox_id}: the rail accepted it without a reference; held until an operator \
         resolves it from the rail's records"
    );
    counter!(ALARMS_TOTAL, "kind" => "missing_reference").increment(1);
}

/// Slightly less than the worker allows: the sink's own verdict is more precise than a
/// cancellation.
fn own_limit(limit: Duration) -> Duration {
    limit - (limit / 20).min(Duration::from_millis(100))
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;

    use consign_kernel::{Fence, Message, MessageId};
    use jiff::Timestamp;
    use serde_json::{Map, Value, json};
    use uuid::Uuid;

    use super::*;
    use crate::{
        SimulatedRail,
        stored::{StoredPayment, queue, tests::payment},
    };

    const ID: OutboxId = OutboxId(Uuid::from_u128(7));

    pub(crate) fn delivery(payload: Value) -> Delivery {
        delivery_of_type(payload, "PAYMENT")
    }

    fn delivery_of_type(payload: Value, rail_type: &str) -> Delivery {
        let new = crate::NewPayment {
            payload: payload.into(),
            rail_type: rail_type.to_owned(),
            ..payment()
        };
        let message = StoredPayment::new(&new, ID, 1).message(&new);
        Delivery {
            message: Arc::new(Message {
                id: MessageId(1),
                queue: queue(),
                key: message.key,
                group: message.group,
                payload: message.payload,
                headers: Map::new(),
                created_at: Timestamp::UNIX_EPOCH,
                expires_at: None,
            }),
            attempt_no: 1,
            in_doubt: false,
            fence: Fence(1),
            timeout: Duration::from_millis(200),
        }
    }

    fn fit(scenario: &str) -> Value {
        json!({"amount_minor": 5, "currency_code": "ZMW", "destination": "a", "scenario": scenario})
    }

    fn sink() -> (RailSink, Arc<SimulatedRail>) {
        let rail = Arc::new(SimulatedRail::new());
        let rails = Rails::new(Arc::clone(&rail) as Arc<dyn crate::Rail>, ["PAYMENT"]);
        (RailSink::new(rails), rail)
    }

    fn result_of(verdict: &Verdict) -> (Outcome, &str) {
        (verdict.outcome, verdict.code.as_deref().unwrap_or("-"))
    }

    /// A worker without settings has the simulated rail.
    #[tokio::test]
    async fn a_payment_accepted_for_another_rail_is_not_sent() {
        let (sink, rail) = sink();
        let mut delivery = delivery(fit("SIMULATE_SUCCESS"));
        let mut message = Message::clone(&delivery.message);
        message.headers.insert(RAIL.to_owned(), "http".into());
        delivery.message = Arc::new(message);
        for (in_doubt, outcome) in [(false, Outcome::Retry), (true, Outcome::Uncertain)] {
            delivery.in_doubt = in_doubt;
            let verdict = sink.deliver(&delivery).await;
            assert_eq!(
                (verdict.outcome, verdict.code.as_deref()),
                (outcome, Some("misdirected"))
            );
            let detail = verdict.detail.unwrap_or_default();
            assert!(detail.contains("set payments.rail"), "{detail}");
        }
        assert_eq!((rail.submissions(ID), rail.queries(ID)), (0, 0));
    }

    /// Each scenario is sent twice, as by a worker that never probes; the rail pays at most once.
    #[tokio::test]
    async fn every_scenario_has_its_outcome() {
        use Outcome::{Dead, Delivered, Retry, Uncertain};
        let (missing, error) = (MISSING_RAIL_REFERENCE, "DISPATCH_ERROR");
        let yes = (Delivered, "-");
        let table = [
            ("SIMULATE_SUCCESS", yes, "delivered", yes, 1),
            (
                "SIMULATE_TRANSIENT_FAILURE",
                (Retry, "TEMPORARILY_UNAVAILABLE"),
                "not",
                yes,
                1,
            ),
            (
                "SIMULATE_PERMANENT_FAILURE",
                (Dead, "INVALID_ACCOUNT"),
                "decided",
                (Dead, "INVALID_ACCOUNT"),
                0,
            ),
            ("SIMULATE_UNREACHABLE", (Retry, error), "not", yes, 1),
            ("SIMULATE_BUSY", (Retry, "RAIL_BUSY"), "not", yes, 1),
            ("SIMULATE_LOST_REQUEST", (Uncertain, error), "not", yes, 1),
            (
                "SIMULATE_LOST_REPLY",
                (Uncertain, error),
                "delivered",
                yes,
                1,
            ),
            (
                "SIMULATE_TIMEOUT",
                (Uncertain, "DISPATCH_TIMEOUT"),
                "delivered",
                yes,
                1,
            ),
            (
                "SIMULATE_CANNOT_TELL",
                (Uncertain, error),
                "cannot tell",
                (Uncertain, error),
                1,
            ),
            (
                "SIMULATE_MISSING_REFERENCE",
                (Uncertain, missing),
                "decided",
                (Uncertain, missing),
                1,
            ),
            ("SIMULATE_REUSED_REFERENCE", yes, "delivered", yes, 1),
            (
                "SIMULATE_NONSENSE",
                (Dead, "UNKNOWN_SCENARIO"),
                "decided",
                (Dead, "UNKNOWN_SCENARIO"),
                0,
            ),
        ];
        for (scenario, first, expected, second, executions) in table {
            let (sink, rail) = sink();
            let delivery = delivery(fit(scenario));
            let result = sink.deliver(&delivery).await;
            assert_eq!(result_of(&result), first, "{scenario}");
            let probe = probe_of(&sink.probe(&delivery).await);
            assert_eq!(probe, expected, "{scenario}");
            let result = sink.deliver(&delivery).await;
            assert_eq!(result_of(&result), second, "{scenario}");
            assert_eq!(rail.executions(ID), executions, "{scenario}");
        }
    }

    fn probe_of(probe: &Probe) -> &'static str {
        match probe {
            Probe::Delivered(_) => "delivered",
            Probe::NotDelivered => "not",
            Probe::CannotTell(_) => "cannot tell",
            Probe::Decided(_) => "decided",
        }
    }

    /// Bad payments and unknown rail types fail with no call made.
    #[tokio::test]
    async fn an_invalid_payment_never_reaches_a_rail() {
        let (sink, rail) = sink();
        let bad = delivery(json!({"amount_minor": 0, "currency_code": "ZMW", "destination": "a"}));
        let unknown = delivery_of_type(fit("SIMULATE_SUCCESS"), "CARRIER_PIGEON");
        for (delivery, code) in [(bad, "INVALID_AMOUNT"), (unknown, UNKNOWN_RAIL_TYPE)] {
            assert_eq!(
                result_of(&sink.deliver(&delivery).await),
                (Outcome::Dead, code)
            );
        }
        assert_eq!(rail.submissions(ID), 0);
    }

    #[tokio::test]
    async fn a_reference_is_kept_with_the_attempt() {
        let (sink, _) = sink();
        let verdict = sink.deliver(&delivery(fit("SIMULATE_SUCCESS"))).await;
        let result = RailResult::from_value(verdict.result.as_ref());
        assert_eq!(result.rail_reference, Some(format!("SIM-{ID}")));
        assert_eq!(result.rail_code.as_deref(), Some("ACCEPTED"));
        assert!(result.latency_ms.is_some());
    }

    /// A payment that is invalid here may have been sent by a worker in SQL: it is in doubt, and
    /// only the rail has its outcome.
    #[tokio::test]
    async fn an_invalid_payment_in_doubt_is_queried() {
        let (sink, rail) = sink();
        let paid = delivery(fit("SIMULATE_SUCCESS"));
        sink.deliver(&paid).await;
        let mut unfit = vec![delivery(json!({"amount_minor": "5"}))];
        let mut broken = delivery(fit("SIMULATE_SUCCESS"));
        let message = Arc::get_mut(&mut broken.message).unwrap();
        message.payload = json!({"rail_type": "PAYMENT", "sequence_id": "one"}).into();
        unfit.push(broken);
        for delivery in unfit {
            let probe = sink.probe(&delivery).await;
            assert!(matches!(probe, Probe::Delivered(_)), "{probe:?}");
        }
        assert_eq!(rail.queries(ID), 2);
        let mut nameless = delivery(fit("SIMULATE_SUCCESS"));
        Arc::get_mut(&mut nameless.message).unwrap().payload = json!("?").into();
        let probe = sink.probe(&nameless).await;
        assert!(matches!(probe, Probe::CannotTell(_)), "{probe:?}");
        // A payment that the rail never received gets its own verdict.
        let (sink, _) = self::sink();
        let never = delivery(json!({"amount_minor": "5"}));
        assert_eq!(sink.probe(&never).await, Probe::NotDelivered);
    }

    /// In a queue that holds uncertain payments, the sink queries, not the worker.
    #[tokio::test]
    async fn a_payment_in_doubt_is_never_sent_without_a_query() {
        let table = [
            ("SIMULATE_LOST_REPLY", Outcome::Delivered, "probed", 1),
            (
                "SIMULATE_CANNOT_TELL",
                Outcome::Uncertain,
                "probe_failed",
                1,
            ),
            ("SIMULATE_LOST_REQUEST", Outcome::Delivered, "-", 2),
        ];
        for (scenario, outcome, code, submissions) in table {
            let (sink, rail) = sink();
            let mut delivery = delivery(fit(scenario));
            sink.deliver(&delivery).await;
            delivery.in_doubt = true;
            let verdict = sink.deliver(&delivery).await;
            assert_eq!(result_of(&verdict), (outcome, code), "{scenario}");
            assert_eq!(rail.submissions(ID), submissions, "{scenario}");
        }
    }

    /// A rail that returns a scripted reply to a query.
    #[derive(Debug)]
    struct ScriptedRail(crate::rail::RailReply);

    #[async_trait]
    impl crate::Rail for ScriptedRail {
        fn kind(&self) -> &'static str {
            "oracle"
        }

        fn destination(&self) -> &str {
            "oracle"
        }

        async fn submit(&self, _: &Dispatch, _: Duration) -> SubmitResult {
            SubmitResult::Replied(self.0.clone())
        }

        async fn query(&self, _: OutboxId, _: Duration) -> RailLookup {
            RailLookup::Found(self.0.clone())
        }
    }

    /// A rail with the reference has received the payment: a temporary rejection does not permit a
    /// resend.
    #[tokio::test]
    async fn a_rejected_query_does_not_permit_a_resend() {
        let table = [
            (None, "", "cannot tell"),
            (Some(true), "TRY_LATER", "cannot tell"),
            (None, "SOMETHING", "cannot tell"),
            (Some(false), "", "decided"),
            (None, "FRAUD_BLOCK", "decided"),
        ];
        for (retryable, code, expected) in table {
            let reply = crate::rail::RailReply {
                retryable,
                error_code: (!code.is_empty()).then(|| code.to_owned()),
                ..Default::default()
            };
            let sink = RailSink::new(Rails::new(Arc::new(ScriptedRail(reply)), ["PAYMENT"]));
            let probe = match sink.probe(&delivery(fit("SIMULATE_SUCCESS"))).await {
                Probe::CannotTell(_) => "cannot tell",
                Probe::Decided(_) => "decided",
                Probe::NotDelivered | Probe::Delivered(_) => "believed",
            };
            assert_eq!(probe, expected, "{retryable:?} {code}");
        }
    }

    /// A rail whose type was removed from the configuration may still have been paid.
    #[tokio::test]
    async fn a_payment_in_doubt_without_a_rail_stays_in_doubt() {
        let sink = RailSink::new(Rails::default());
        let probe = sink.probe(&delivery(fit("SIMULATE_SUCCESS"))).await;
        assert!(matches!(probe, Probe::CannotTell(_)), "{probe:?}");
    }
}
