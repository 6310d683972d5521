//! The store operations of a queue, each as a task that ends in an event.
//!
//! Tasks, so that a sink that hogs its queue's task does not hold up the database, and so that a
//! large claim is parsed on another core. What must not be lost is repeated until the
//! database answers; the queue bounds how many of these are under way.

use std::{future::Future, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use consign_failpoint::stop_at;
use consign_kernel::{
    BeginAnswer, Certainty, Claim, Error, Fence, Lease, MessageId, PAGE_ENTRIES_MAX, Queue,
    QueueName, ReleaseAnswer, Report, Result, SendSlots, SettleAnswer, Token,
};
use futures_util::FutureExt;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::{debug, error};

use crate::{
    attempt::panic_text,
    backoff::{Backoff, chance},
    context::Context,
};

/// Tries of an operation that the store refuses for a reason of its own.
const REFUSALS_MAX: u32 = 8;

/// The result of a store operation.
#[derive(Debug)]
pub(crate) enum Event {
    /// A claim was answered.
    Claimed {
        sent: Instant,
        answer: Result<Option<Lease>>,
    },
    /// A wait ended.
    Waited {
        wait_max: Duration,
        took: Duration,
        answer: Result<bool>,
    },
    /// Send slots were reserved.
    Reserved {
        sent: Instant,
        answer: Result<Option<SendSlots>>,
    },
    /// The queue was read.
    Read(Result<Option<Queue>>),
    /// That the breaker opened was recorded, or could not be.
    OpeningRecorded,
    /// A settle was answered.
    Settled {
        fence: Fence,
        reports: Vec<Report>,
        answer: SettleAnswer,
        took: Duration,
    },
    /// A begin was answered.
    Begun { fence: Fence, answer: BeginAnswer },
    /// A release was answered.
    Released { fence: Fence, answer: ReleaseAnswer },
    /// Late results were recorded.
    LateRecorded {
        fence: Fence,
        offered: usize,
        kept: usize,
    },
}

pub(crate) async fn claim(context: Arc<Context>, limit: u32, bytes_max: usize) -> Event {
    let request = Claim::new(context.queue.clone(), context.options.owner.clone(), limit)
        .with_bytes_max(bytes_max as u64);
    let sent = Instant::now();
    let answer = guarded(&context, "claim", context.store.claim(&request)).await;
    Event::Claimed { sent, answer }
}

pub(crate) async fn wait(context: Arc<Context>, wait_max: Duration) -> Event {
    let started = Instant::now();
    // A long wait is no failure of the store.
    let limit = wait_max + context.options.store_timeout;
    let answer = bounded("wait", limit, context.store.wait(&context.queue, wait_max)).await;
    Event::Waited {
        wait_max,
        took: started.elapsed(),
        answer: record_availability(&context, answer),
    }
}

pub(crate) async fn reserve_slots(context: Arc<Context>, count: u32) -> Event {
    let count = count.min(PAGE_ENTRIES_MAX);
    let sent = Instant::now();
    let reserve = context.store.reserve_slots(&context.queue, count);
    let answer = guarded(&context, "reserve send slots", reserve).await;
    Event::Reserved { sent, answer }
}

pub(crate) async fn read(context: Arc<Context>) -> Event {
    Event::Read(
        guarded(
            &context,
            "read the queue",
            context.store.queue(&context.queue),
        )
        .await,
    )
}

pub(crate) async fn record_opening(context: Arc<Context>) -> Event {
    let code = context.breaker.opening_code();
    let recording = context
        .store
        .record_breaker_open(&context.queue, code.as_deref());
    let recorded = guarded(&context, "record an open breaker", recording).await;
    if let Err(error) = recorded {
        debug!(queue = %context.queue, %error, "that the breaker opened was not recorded");
    }
    Event::OpeningRecorded
}

pub(crate) async fn settle(
    context: Arc<Context>,
    fence: Fence,
    token: Token,
    mut reports: Vec<Report>,
) -> Event {
    let mut patience = RetryLimit::new(fence);
    loop {
        let started = Instant::now();
        let answer = guarded(&context, "settle", context.store.settle(token, &reports)).await;
        let answer = match answer {
            Ok(answer) => Some(answer),
            Err(error) => {
                if !error.is_retryable() {
                    strip(&mut reports, &error);
                }
                let goes_on = patience.wait(&context, "settle", &error).await;
                (!goes_on).then_some(SettleAnswer::LeaseLost)
            }
        };
        if let Some(answer) = answer {
            stop_in(&context.queue, "settled").await;
            return Event::Settled {
                fence,
                reports,
                answer,
                took: started.elapsed(),
            };
        }
    }
}

/// The failpoint `QUEUE.POINT`; its name is not made in a release build.
async fn stop_in(queue: &QueueName, point: &str) {
    if cfg!(debug_assertions) {
        stop_at(&format!("{queue}.{point}")).await;
    }
}

/// The store rejected the sink's detail. That must not cost the outcome.
fn strip(reports: &mut [Report], error: &Error) {
    for report in reports {
        report.result = None;
        report.detail = Some(format!("the sink's detail could not be recorded: {error}"));
    }
}

pub(crate) async fn begin(
    context: Arc<Context>,
    fence: Fence,
    token: Token,
    ids: Vec<MessageId>,
) -> Event {
    stop_in(&context.queue, "before_begin").await;
    let operation = || context.store.begin(token, &ids);
    let answer = retry_until_answered(&context, fence, "begin", operation).await;
    Event::Begun {
        fence,
        answer: answer.unwrap_or(BeginAnswer::LeaseLost),
    }
}

pub(crate) async fn release(context: Arc<Context>, fence: Fence, token: Token) -> Event {
    let operation = || context.store.release(token);
    let answer = retry_until_answered(&context, fence, "release", operation).await;
    Event::Released {
        fence,
        answer: answer.unwrap_or(ReleaseAnswer::LeaseLost),
    }
}

/// Records results of a lost lease as evidence.
pub(crate) async fn record_late(
    context: Arc<Context>,
    fence: Fence,
    token: Token,
    reports: Vec<Report>,
) -> Event {
    let operation = || context.store.record_late(token, &reports);
    let kept = retry_until_answered(&context, fence, "record_late", operation).await;
    Event::LateRecorded {
        fence,
        offered: reports.len(),
        kept: kept.unwrap_or_default().len(),
    }
}

/// Repeats an operation until the store answers; none when it keeps failing. Only for what may
/// be repeated.
async fn retry_until_answered<T, F>(
    context: &Context,
    fence: Fence,
    attempted: &'static str,
    operation: impl Fn() -> F,
) -> Option<T>
where
    F: Future<Output = Result<T>>,
{
    let mut patience = RetryLimit::new(fence);
    loop {
        match guarded(context, attempted, operation()).await {
            Ok(answer) => return Some(answer),
            Err(error) => {
                if !patience.wait(context, attempted, &error).await {
                    return None;
                }
            }
        }
    }
}

/// How often an operation about a lease is repeated: for ever while the database is unavailable, a few
/// times on other errors. One lease that fails must not block the others.
struct RetryLimit {
    fence: Fence,
    backoff: Backoff,
    refusals: u32,
}

impl RetryLimit {
    fn new(fence: Fence) -> Self {
        Self {
            fence,
            backoff: Backoff::for_database(),
            refusals: 0,
        }
    }

    /// Waits before the next try; `false` when there should be none.
    async fn wait(&mut self, context: &Context, attempted: &str, error: &Error) -> bool {
        self.refusals += u32::from(!error.is_retryable());
        if self.refusals >= REFUSALS_MAX {
            let (queue, fence, code) = (&context.queue, self.fence, error.code());
            error!(
                %queue, %fence, code,
                "queue {queue}: the store will not {attempted} lease {fence} ({error}); the lease \
                 expires by itself"
            );
            return false;
        }
        sleep_until(Instant::now() + self.backoff.next(chance())).await;
        true
    }
}
/// One try of an operation, with the time the worker allows it.
async fn guarded<T>(
    context: &Context,
    attempted: &'static str,
    operation: impl Future<Output = Result<T>>,
) -> Result<T> {
    let limit = context.options.store_timeout;
    record_availability(context, bounded(attempted, limit, operation).await)
}

fn record_availability<T>(context: &Context, answer: Result<T>) -> Result<T> {
    match &answer {
        Ok(_) => context.database_answered(),
        Err(error) => context.database_failed(error),
    }
    answer
}

/// One try of an operation: a store that hangs or panics is one that is not available.
pub(crate) async fn bounded<T>(
    attempted: &'static str,
    limit: Duration,
    operation: impl Future<Output = Result<T>>,
) -> Result<T> {
    let unavailable = |why: String| Error::Unavailable {
        attempted,
        certainty: Certainty::Unknown,
        source: why.into(),
    };
    match timeout(limit, AssertUnwindSafe(operation).catch_unwind()).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(panic)) => {
            let text = panic_text(panic.as_ref());
            Err(unavailable(format!("the store panicked: {text}")))
        }
        Err(_) => Err(unavailable(format!("no answer within {limit:?}"))),
    }
}
