//! The store operations of a lane, each as a task that ends in an event.
//!
//! Tasks, so that a sink that hogs its lane's task does not hold up the database, and so that a
//! large claim is taken apart on another core. What must not be lost is repeated until the
//! database answers; the lane bounds how many of these are under way.

use std::{future::Future, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use consign_kernel::{
    BeginAnswer, Certainty, Claim, Error, Fence, Lane, Lease, MessageId, ReleaseAnswer, Report,
    Result, SettleAnswer, Token,
};
use futures_util::FutureExt;
use tokio::time::{Instant, sleep_until, timeout};

use crate::{attempt::panic_text, backoff::Backoff, chance::chance, context::Context};

/// What came of a store operation.
#[derive(Debug)]
pub(crate) enum Event {
    /// A claim was answered.
    Claimed {
        sent: Instant,
        answer: Result<Option<Lease>>,
    },
    /// A wait ended.
    Waited {
        asked: Duration,
        took: Duration,
        answer: Result<bool>,
    },
    /// The lane was read.
    Read(Result<Option<Lane>>),
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
    /// Evidence was handed in.
    Witnessed { fence: Fence, offered: usize },
}

pub(crate) async fn claim(context: Arc<Context>, limit: u32) -> Event {
    let request = Claim::new(context.lane.clone(), context.options.owner.clone(), limit);
    let sent = Instant::now();
    let answer = guarded(&context, "claim", context.store.claim(&request)).await;
    Event::Claimed { sent, answer }
}

pub(crate) async fn wait(context: Arc<Context>, asked: Duration) -> Event {
    let started = Instant::now();
    // The wait itself is no sign of trouble, however long.
    let limit = asked + context.options.store_timeout;
    let answer = bounded("wait", limit, context.store.wait(&context.lane, asked)).await;
    Event::Waited {
        asked,
        took: started.elapsed(),
        answer: noted(&context, answer),
    }
}

pub(crate) async fn read(context: Arc<Context>) -> Event {
    Event::Read(guarded(&context, "read the lane", context.store.lane(&context.lane)).await)
}

pub(crate) async fn settle(
    context: Arc<Context>,
    fence: Fence,
    token: Token,
    mut reports: Vec<Report>,
) -> Event {
    let mut backoff = Backoff::for_database();
    loop {
        let started = Instant::now();
        let answer = guarded(&context, "settle", context.store.settle(token, &reports)).await;
        match answer {
            Ok(answer) => {
                return Event::Settled {
                    fence,
                    reports,
                    answer,
                    took: started.elapsed(),
                };
            }
            // The lost reply of a settle that did happen is answered `AlreadySettled` next time.
            Err(error) if error.is_retryable() => {}
            // The store refused to keep what the sink said. That must not cost the outcome.
            Err(error) => reports.iter_mut().for_each(|report| {
                report.result = None;
                report.detail = Some(format!("the sink's words could not be recorded: {error}"));
            }),
        }
        rest(&mut backoff).await;
    }
}

pub(crate) async fn begin(
    context: Arc<Context>,
    fence: Fence,
    token: Token,
    ids: Vec<MessageId>,
) -> Event {
    let answer = answered(&context, "begin", || context.store.begin(token, &ids)).await;
    Event::Begun { fence, answer }
}

pub(crate) async fn release(context: Arc<Context>, fence: Fence, token: Token) -> Event {
    let answer = answered(&context, "release", || context.store.release(token)).await;
    Event::Released { fence, answer }
}

/// Hands in results of a lost lease. They change nothing but what people can find out.
pub(crate) async fn witness(
    context: Arc<Context>,
    fence: Fence,
    token: Token,
    reports: Vec<Report>,
) -> Event {
    let offered = reports.len();
    answered(&context, "witness", || offer(&context, token, &reports)).await;
    Event::Witnessed { fence, offered }
}

async fn offer(context: &Context, token: Token, reports: &[Report]) -> Result<()> {
    context.store.witness(token, reports).await.map(drop)
}

/// Repeats an operation until the store answers. Only for what may be repeated.
async fn answered<T, F>(context: &Context, attempted: &'static str, operation: impl Fn() -> F) -> T
where
    F: Future<Output = Result<T>>,
{
    let mut backoff = Backoff::for_database();
    loop {
        match guarded(context, attempted, operation()).await {
            Ok(answer) => return answer,
            Err(_) => rest(&mut backoff).await,
        }
    }
}

async fn rest(backoff: &mut Backoff) {
    sleep_until(Instant::now() + backoff.next(chance())).await;
}

/// One try of an operation, with the time the worker allows it.
async fn guarded<T>(
    context: &Context,
    attempted: &'static str,
    operation: impl Future<Output = Result<T>>,
) -> Result<T> {
    let limit = context.options.store_timeout;
    noted(context, bounded(attempted, limit, operation).await)
}

fn noted<T>(context: &Context, answer: Result<T>) -> Result<T> {
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
