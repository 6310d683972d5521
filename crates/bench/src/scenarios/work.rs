//! `consign work` from end to end, beside bare claims and settles.

use std::time::Duration;

use anyhow::Result;
use consign_kernel::{By, QueueName, QueuePolicy, prelude::*};

use super::{Answer, Plan};
use crate::{
    Bound, Figure, Measure, Unit, drain,
    process::{Process, config},
    progress::Progress,
    scratch::Scratch,
    subject::StoreWorker,
    usage::processor_time,
};

/// Messages per enqueueing transaction.
const BATCHES: &[u32] = &[100, 500];
/// Messages per claim: as many as the worker claims when its sink is quick.
const CLAIM: u32 = 500;
/// Delivered before anything is measured, so that connections and plans are there.
const WARM_UP: u32 = 2_000;
const SHARE_MIN: f64 = 0.6;
const TOGETHER_MIN: f64 = 100_000.0;

/// What one drain showed.
#[derive(Clone, Copy)]
struct DrainFigures {
    rate: f64,
    /// Microseconds of processor time per message: of the workers, and of the database server.
    workers_us: f64,
    server_us: Option<f64>,
}

struct Queues {
    bare: QueueName,
    one: QueueName,
    two: QueueName,
}

pub(super) async fn run(plan: &Plan, scratch: &Scratch) -> Result<Answer> {
    let queues = Queues {
        bare: "bare".parse()?,
        one: "one".parse()?,
        two: "two".parse()?,
    };
    let store = scratch.store().await?;
    let by = By::new("bench", "a queue to measure");
    store
        .put_queue(&queues.bare, &QueuePolicy::default(), &by)
        .await?;
    let mut bare = StoreWorker::new(store, queues.bare.clone());
    let program = plan.program()?;
    let mut processes = Vec::new();
    // All run from the beginning; a queue that is empty costs next to nothing.
    for (name, queue) in [("one", "one"), ("two-a", "two"), ("two-b", "two")] {
        let queue = format!("[queues.{queue}.sink]\nkind = \"discard\"\n");
        let config = config(scratch.url(), &queue);
        processes.push(program.start("work", name, &config).await?);
    }
    let [one, two_a, two_b] = &processes[..] else {
        anyhow::bail!("invariant: three were started")
    };
    for queue in [&queues.one, &queues.two] {
        worked(scratch, queue, WARM_UP, 100, &[]).await?;
    }
    let mut figures = Vec::new();
    for batch in BATCHES {
        let mut rounds = Vec::new();
        for _ in 0..plan.rounds {
            let messages = plan.counts.work;
            let alone = bare_rate(scratch, &mut bare, &queues.bare, messages, *batch).await?;
            let single = worked(scratch, &queues.one, messages, *batch, &[one]).await?;
            let both = worked(scratch, &queues.two, messages, *batch, &[two_a, two_b]).await?;
            plan.say(format!(
                "by {batch}: bare {alone:.0}/s, one process {:.0}/s, two {:.0}/s",
                single.rate, both.rate
            ));
            rounds.push((alone, single, both));
        }
        figures.extend(figures_of(*batch, &rounds));
    }
    for process in processes {
        process.terminate().await?;
    }
    let notes = vec![format!(
        "{} messages a round, enqueued in one transaction while the workers wait; sink `discard`; first claim to last settle by the database's clock; \
         bare: one connection, claims of {CLAIM}; database and workers share {} cores",
        plan.counts.work,
        std::thread::available_parallelism().map_or(1, usize::from)
    )];
    Ok((figures, notes))
}

fn figures_of(batch: u32, rounds: &[(f64, DrainFigures, DrainFigures)]) -> Vec<Figure> {
    let unit = Unit::MessagesPerSecond;
    let pairs = |pair: fn(&(f64, DrainFigures, DrainFigures)) -> (f64, f64)| -> Vec<(f64, f64)> {
        rounds.iter().map(pair).collect()
    };
    let single = pairs(|(bare, one, _)| (one.rate, *bare));
    let both = pairs(|(_, one, two)| (two.rate, one.rate));
    let name = |text: &str| format!("enqueued by {batch}: {text}");
    let together = Figure::beside(name("two processes"), unit, "one process", &both);
    let single = Figure::beside(name("one process"), unit, "bare", &single);
    let mut figures = vec![single.target(Measure::Ratio, Bound::AtLeast, SHARE_MIN)];
    figures.extend(cpu(rounds.iter().map(|(_, one, _)| one)));
    figures.push(match batch {
        500 => together.target(Measure::Value, Bound::AtLeast, TOGETHER_MIN),
        _ => together,
    });
    figures.extend(cpu(rounds.iter().map(|(_, _, two)| two)));
    figures
}

/// What the workers and the server spent on each message: what waiting and neighbours change least.
fn cpu<'a>(drained: impl Iterator<Item = &'a DrainFigures>) -> Option<Figure> {
    let pairs: Option<Vec<(f64, f64)>> = drained
        .map(|drained| Some((drained.workers_us, drained.server_us?)))
        .collect();
    let unit = Unit::MicrosecondsPerMessage;
    Some(Figure::beside("  processor time", unit, "server", &pairs?))
}

async fn bare_rate(
    scratch: &Scratch,
    worker: &mut StoreWorker,
    queue: &QueueName,
    messages: u32,
    batch: u32,
) -> Result<f64> {
    scratch.settle_down().await?;
    let mut progress = Progress::from_here(scratch.connect().await?).await?;
    scratch.fill_at_once(queue, messages, batch).await?;
    drain::rate(worker, messages, CLAIM).await?;
    progress.rate(messages).await
}

/// Enqueues for processes that wait, and lets them finish.
async fn worked(
    scratch: &Scratch,
    queue: &QueueName,
    messages: u32,
    batch: u32,
    processes: &[&Process],
) -> Result<DrainFigures> {
    scratch.settle_down().await?;
    let mut progress = Progress::from_here(scratch.connect().await?).await?;
    let used = || -> Result<Duration> {
        let times = processes.iter().map(|process| processor_time(process.pid));
        times.sum()
    };
    let before = (used()?, progress.server_time().await?);
    // The session that enqueues has ended and taken its own time with it.
    scratch.fill_at_once(queue, messages, batch).await?;
    progress.until_nothing_left().await?;
    let workers = used()?.saturating_sub(before.0);
    let server = match (before.1, progress.server_time().await?) {
        (Some(before), Some(after)) => after.checked_sub(before),
        _ => None,
    };
    let each = |time: Duration| time.as_secs_f64() * 1e6 / f64::from(messages);
    Ok(DrainFigures {
        rate: progress.rate(messages).await?,
        workers_us: each(workers),
        server_us: server.map(each),
    })
}
