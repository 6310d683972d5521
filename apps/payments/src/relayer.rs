//! The sink of the queue `payments`: checks, asks a rail, says what came of it.
//!
//! It never settles and never retries by itself: that is the worker's. A payment whose earlier
//! dispatch may have arrived is asked about by its reference before it is sent again.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use consign_kernel::Outcome;
use consign_worker::{About, Delivery, Probe, Sink, Verdict, codes, park::park};
use metrics::{counter, histogram};
use tokio::time::timeout;
use tracing::error;

use crate::{
    MISSING_RAIL_REFERENCE, OutboxId, RailResult,
    check::{self, Unfit},
    classify::{self, DISPATCH_TIMEOUT},
    metrics::{ALARMS_TOTAL, DISPATCHES_TOTAL, RAIL_SECONDS, start_rail},
    options::RAIL,
    privacy::shown,
    rail::{Dispatch, Known, Rails, Submitted},
};

/// The code of a payment for which there is no rail.
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

    /// Refuses a payment that was accepted for another rail than this worker's: a worker without
    /// settings would simulate payments that are to be made.
    fn misdirected(&self, delivery: &Delivery) -> Option<Verdict> {
        let meant = delivery.message.headers.get(RAIL)?;
        let (_, rail_type) = check::name(delivery)?;
        let here = self.rails.get(&rail_type)?.kind();
        (meant != here).then(|| {
            let detail = format!(
                "it was accepted for the rail {meant}, and this worker has {here}; \
                 set payments.rail and its settings here too"
            );
            Verdict::misdirected(delivery, detail)
        })
    }

    async fn submit(&self, dispatch: &Dispatch, limit: Duration) -> Verdict {
        let Some(rail) = self.rails.get(&dispatch.rail_type) else {
            let known: Vec<&str> = self.rails.types().collect();
            let why = format!(
                "there is no rail for it; there is one for {}",
                known.join(", ")
            );
            return Verdict::failed(Outcome::Dead, About::Message, UNKNOWN_RAIL_TYPE, why);
        };
        park("payments.before_send").await;
        // Monotonic, so that no step of the clock makes it negative.
        let since = Instant::now();
        let submitted = timeout(limit, rail.submit(dispatch, limit)).await;
        let took = since.elapsed();
        let submitted = submitted.unwrap_or_else(|_| Submitted::Lost {
            code: DISPATCH_TIMEOUT,
            why: format!("no answer within {} ms", limit.as_millis()),
        });
        park("payments.after_send").await;
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
        // Whoever drives this asks only where the queue says so. Here nothing is sent unasked, also not
        // where a person has released what was held.
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
                    let why = format!("whether it arrived earlier is not known: {why}");
                    let (outcome, code) = (Outcome::Uncertain, codes::PROBE_FAILED);
                    return Verdict::failed(outcome, About::Message, code, why);
                }
            }
        }
        let dispatch = match check::dispatch(delivery) {
            Ok(dispatch) => dispatch,
            Err(Unfit { code, why }) => {
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
        // Also of a payment that is not fit to be sent: it is asked about because somebody may have
        // sent it all the same, by other rules.
        let Some((reference, rail_type)) = check::name(delivery) else {
            return Probe::CannotTell("the message names no payment to ask about".to_owned());
        };
        let Some(rail) = self.rails.get(&rail_type) else {
            return Probe::CannotTell(format!("there is no rail for {rail_type}"));
        };
        let limit = own_limit(delivery.timeout);
        let reply = match rail.query(reference, limit).await {
            Known::NotFound => return Probe::NotDelivered,
            Known::CannotTell(why) => return Probe::CannotTell(shown(&why)),
            Known::Found(reply) => reply,
        };
        let verdict = classify::replied(reply, None);
        alarm(reference, &verdict);
        match verdict.outcome {
            Outcome::Delivered => Probe::Delivered(verdict.result),
            // It knows the reference. Only that it never got it is a reason to send again.
            Outcome::Retry => Probe::CannotTell(format!(
                "the rail has it and says {}, but not that it was never paid",
                shown(verdict.code.as_deref().unwrap_or_default())
            )),
            Outcome::Dead | Outcome::Uncertain => Probe::Decided(Box::new(verdict)),
        }
    }
}

/// Money has moved and nobody knows under which name: somebody must look.
fn alarm(outbox_id: OutboxId, verdict: &Verdict) {
    if verdict.code.as_deref() != Some(MISSING_RAIL_REFERENCE) {
        return;
    }
    let rail_code = RailResult::from_value(verdict.result.as_ref()).rail_code;
    let rail_code = rail_code.as_deref().unwrap_or("none");
    error!(
        %outbox_id, rail_code,
        "payment {outbox_id}: the rail accepted it without a reference; it is held until somebody \
         has looked at the rail's books"
    );
    counter!(ALARMS_TOTAL, "kind" => "missing_reference").increment(1);
}

/// A little less than the worker allows: a verdict of our own tells more than being cut off.
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
        stored::{Stored, queue, tests::payment},
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
        let message = Stored::new(&new, ID, 1).message(&new);
        Delivery {
            message: Arc::new(Message {
                id: MessageId(1),
                queue: queue(),
                key: message.key,
                group: message.group,
                payload: message.payload,
                headers: Map::new(),
                created_at: Timestamp::UNIX_EPOCH,
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

    fn told(verdict: &Verdict) -> (Outcome, &str) {
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

    /// EXW, P-15, P-16, P-17: each scenario sent twice, as a worker would that never asks; what the
    /// rail says when it is asked; and it never pays twice.
    #[tokio::test]
    async fn every_scenario_comes_to_what_it_says() {
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
        for (scenario, first, asked, second, executions) in table {
            let (sink, rail) = sink();
            let delivery = delivery(fit(scenario));
            assert_eq!(told(&sink.deliver(&delivery).await), first, "{scenario}");
            let probe = match sink.probe(&delivery).await {
                Probe::Delivered(_) => "delivered",
                Probe::NotDelivered => "not",
                Probe::CannotTell(_) => "cannot tell",
                Probe::Decided(_) => "decided",
            };
            assert_eq!(probe, asked, "{scenario}");
            assert_eq!(told(&sink.deliver(&delivery).await), second, "{scenario}");
            assert_eq!(rail.executions(ID), executions, "{scenario}");
        }
    }

    /// P-15: bad payments and unknown rail types fail with no call made.
    #[tokio::test]
    async fn what_is_unfit_never_reaches_a_rail() {
        let (sink, rail) = sink();
        let bad = delivery(json!({"amount_minor": 0, "currency_code": "ZMW", "destination": "a"}));
        let stranger = delivery_of_type(fit("SIMULATE_SUCCESS"), "CARRIER_PIGEON");
        for (delivery, code) in [(bad, "INVALID_AMOUNT"), (stranger, UNKNOWN_RAIL_TYPE)] {
            assert_eq!(told(&sink.deliver(&delivery).await), (Outcome::Dead, code));
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

    /// What cannot be sent by our rules may have been sent by those of a worker in SQL: it is in doubt,
    /// and the rail knows.
    #[tokio::test]
    async fn what_is_unfit_and_in_doubt_is_asked_about() {
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
        // One that the rail never got is sent to its end: its own verdict says why.
        let (sink, _) = self::sink();
        let never = delivery(json!({"amount_minor": "5"}));
        assert_eq!(sink.probe(&never).await, Probe::NotDelivered);
    }

    /// In a queue that holds what is uncertain, the worker leaves asking to the sink.
    #[tokio::test]
    async fn what_is_in_doubt_is_never_sent_unasked() {
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
            assert_eq!(told(&verdict), (outcome, code), "{scenario}");
            assert_eq!(rail.submissions(ID), submissions, "{scenario}");
        }
    }

    /// A rail that answers what it is told when it is asked.
    #[derive(Debug)]
    struct Oracle(crate::rail::RailReply);

    #[async_trait]
    impl crate::Rail for Oracle {
        fn kind(&self) -> &'static str {
            "oracle"
        }

        fn destination(&self) -> &str {
            "oracle"
        }

        async fn submit(&self, _: &Dispatch, _: Duration) -> Submitted {
            Submitted::Replied(self.0.clone())
        }

        async fn query(&self, _: OutboxId, _: Duration) -> Known {
            Known::Found(self.0.clone())
        }
    }

    /// A rail that knows a reference has got it: a no for now is no leave to send it again.
    #[tokio::test]
    async fn a_no_to_a_question_does_not_say_that_nothing_came() {
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
            let sink = RailSink::new(Rails::new(Arc::new(Oracle(reply)), ["PAYMENT"]));
            let probe = match sink.probe(&delivery(fit("SIMULATE_SUCCESS"))).await {
                Probe::CannotTell(_) => "cannot tell",
                Probe::Decided(_) => "decided",
                Probe::NotDelivered | Probe::Delivered(_) => "believed",
            };
            assert_eq!(probe, expected, "{retryable:?} {code}");
        }
    }

    /// A rail whose type is gone from the configuration may still have been paid.
    #[tokio::test]
    async fn a_payment_in_doubt_without_a_rail_stays_in_doubt() {
        let sink = RailSink::new(Rails::default());
        let probe = sink.probe(&delivery(fit("SIMULATE_SUCCESS"))).await;
        assert!(matches!(probe, Probe::CannotTell(_)), "{probe:?}");
    }
}
