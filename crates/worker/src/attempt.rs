//! One delivery, from the probe to its verdict.
//!
//! Whatever a sink does, a delivery has exactly one verdict: a panic is caught, a delivery that hangs
//! times out.

use std::{any::Any, future::Future, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use consign_kernel::{OnUncertain, Outcome, codes::EXPIRED_BEFORE_DELIVERY, plan};
use futures_util::FutureExt;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::{Instrument, Level, Span, field::Empty, info_span, warn};

use crate::{About, Delivery, Probe, Verdict, context::Context, local::files_are_used_up};

/// How long a delivery waits when the process lacks what it needs.
const LOCAL_PAUSE: Duration = Duration::from_secs(1);

/// Codes that the worker gives to attempts.
pub mod codes {
    /// The delivery took longer than the queue allows; it may have arrived.
    pub const TIMEOUT: &str = "timeout";
    /// The sink panicked.
    pub const PANIC: &str = "panic";
    /// The probe found the earlier delivery; it was not sent again.
    pub const PROBED: &str = "probed";
    /// The probe could not determine whether an earlier delivery arrived; it was not sent again.
    pub const PROBE_FAILED: &str = "probe_failed";
    /// The worker ended while the delivery was under way.
    pub const INTERRUPTED: &str = "interrupted";
}

/// Delivers one message, unless it would be sent at `send_until` or later.
pub(crate) async fn attempt(
    context: Arc<Context>,
    mut delivery: Delivery,
    on_uncertain: OnUncertain,
    send_until: Option<Instant>,
) -> Verdict {
    if !tracing::enabled!(target: "consign_worker::deliver", Level::INFO) {
        return resolve(&context, &mut delivery, on_uncertain, send_until).await;
    }
    let span = span(&delivery);
    if let Some(hook) = &context.options.span_hook {
        hook(&span, &delivery);
    }
    let work = resolve(&context, &mut delivery, on_uncertain, send_until);
    let verdict = work.instrument(span.clone()).await;
    span.record("outcome", outcome_word(verdict.outcome));
    if let Some(code) = &verdict.code {
        span.record("error.type", code.as_str());
    }
    verdict
}

fn span(delivery: &Delivery) -> Span {
    let message = &delivery.message;
    info_span!(
        target: "consign_worker::deliver",
        "deliver",
        otel.name = format!("deliver {}", message.queue),
        otel.kind = "producer",
        messaging.system = "consign",
        messaging.operation.type = "send",
        messaging.destination.name = %message.queue,
        messaging.message.id = %message.id,
        attempt = delivery.attempt_no,
        fence = delivery.fence.0,
        outcome = Empty,
        error.type = Empty,
    )
}

fn outcome_word(outcome: Outcome) -> &'static str {
    consign_kernel::AttemptOutcome::from(outcome).as_str()
}

/// Probes first where an earlier delivery may have arrived and the queue's policy is `probe`, then sends.
async fn resolve(
    context: &Context,
    delivery: &mut Delivery,
    on_uncertain: OnUncertain,
    send_until: Option<Instant>,
) -> Verdict {
    if delivery.in_doubt && on_uncertain == OnUncertain::Probe {
        match probe(context, delivery).await {
            // Nor does the sink need to doubt it any more.
            Probe::NotDelivered => delivery.in_doubt = false,
            Probe::Delivered(result) => {
                return Verdict {
                    code: Some(codes::PROBED.to_owned()),
                    result,
                    ..Verdict::delivered()
                };
            }
            Probe::Decided(verdict) => return *verdict,
            // Counted as a try, so that a sink whose probes never answer ends with an operator, not in a loop
            // and not in a blind resend.
            Probe::CannotTell(why) => {
                let detail =
                    format!("the probe cannot determine whether an earlier attempt arrived: {why}");
                return Verdict::failed(
                    Outcome::Uncertain,
                    About::Message,
                    codes::PROBE_FAILED,
                    detail,
                );
            }
        }
    }
    match send(context, delivery, send_until).await {
        Ok(verdict) => verdict,
        Err(Interruption::Time) => Verdict::failed(
            Outcome::Uncertain,
            About::Sink,
            codes::TIMEOUT,
            format!("no answer within {:?}", delivery.timeout),
        ),
        // What had been sent before the panic is not known.
        Err(Interruption::Panic(text)) => Verdict::failed(
            Outcome::Uncertain,
            About::Message,
            codes::PANIC,
            format!("the sink panicked: {text}"),
        ),
    }
}

/// Sends, and repeats it while this process lacks file descriptors or memory. The lease is renewed
/// meanwhile; when it is lost, this is dropped.
async fn send(
    context: &Context,
    delivery: &Delivery,
    send_until: Option<Instant>,
) -> Result<Verdict, Interruption> {
    loop {
        if send_until.is_some_and(|until| until <= Instant::now()) {
            return Ok(expired(delivery));
        }
        let verdict = bounded(delivery, context.sink.deliver(delivery)).await?;
        let is_unsent = verdict.outcome == Outcome::Retry && verdict.about == About::Sink;
        if verdict.about != About::Process && !(is_unsent && files_are_used_up()) {
            return Ok(verdict);
        }
        let detail = verdict.detail.as_deref().unwrap_or("no detail");
        pause_for_want(delivery, detail).await;
    }
}

/// The verdict on a message whose time passed. What an earlier delivery left in doubt stays so.
fn expired(delivery: &Delivery) -> Verdict {
    let report = plan::expired_report(delivery.message.id, delivery.in_doubt);
    let detail = "its time passed before it was sent";
    Verdict::failed(
        report.outcome,
        About::Unsent,
        EXPIRED_BEFORE_DELIVERY,
        detail,
    )
}

async fn pause_for_want(delivery: &Delivery, detail: &str) {
    let (queue, id) = (&delivery.message.queue, delivery.message.id);
    warn!(
        %queue, message_id = %id,
        "queue {queue}: message {id} waits, because this process lacks open files or memory: {detail}"
    );
    sleep_until(Instant::now() + LOCAL_PAUSE).await;
}

/// Probes, and repeats it while this process lacks file descriptors or memory.
async fn probe(context: &Context, delivery: &Delivery) -> Probe {
    loop {
        let probe = match bounded(delivery, context.sink.probe(delivery)).await {
            Ok(probe) => probe,
            Err(Interruption::Time) => {
                Probe::CannotTell(format!("no answer within {:?}", delivery.timeout))
            }
            Err(Interruption::Panic(text)) => {
                Probe::CannotTell(format!("the sink panicked: {text}"))
            }
        };
        match &probe {
            Probe::CannotTell(why) if files_are_used_up() => pause_for_want(delivery, why).await,
            _ => return probe,
        }
    }
}

/// Why a call of a sink has no result.
enum Interruption {
    Time,
    Panic(String),
}

async fn bounded<T>(delivery: &Delivery, call: impl Future<Output = T>) -> Result<T, Interruption> {
    match timeout(delivery.timeout, AssertUnwindSafe(call).catch_unwind()).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(panic)) => Err(Interruption::Panic(panic_text(panic.as_ref()))),
        Err(_) => Err(Interruption::Time),
    }
}

/// The message of a panic.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}
