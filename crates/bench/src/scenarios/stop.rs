//! SIGTERM under load: duplicates, losses, and how long the end takes.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::{Answer, Plan};
use crate::{
    Bound, Figure, Measure, Unit, process::config, progress::Progress, receiver::Receiver,
    scratch::Scratch, subject::queue,
};

/// How long the far side takes over each delivery, so that some are always under way.
const DELIVERY: Duration = Duration::from_millis(3);
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) async fn run(plan: &Plan, scratch: &Scratch) -> Result<Answer> {
    let (stops, messages) = (plan.counts.stops, plan.counts.stop_messages);
    let receiver = Receiver::start(DELIVERY).await?;
    let config = config(scratch.url(), &receiver.queue("default", ""));
    let program = plan.program()?;
    let mut progress = Progress::from_here(scratch.connect().await?).await?;
    let (mut ends, mut wrong_exits) = (Vec::new(), 0_u32);
    for stop in 0..stops {
        let worker = program
            .start("work", &format!("worker-{stop}"), &config)
            .await?;
        scratch.fill_at_once(&queue(), messages, 100).await?;
        // Stopped at another moment each time: at the start, in the middle, near the end.
        let share = f64::from(stop % 10 + 1) / 12.0;
        let moment = receiver.seen() + (f64::from(messages) * share) as u64;
        receiver.wait_for(moment, PATIENCE).await?;
        let told = Instant::now();
        let status = worker.terminate().await?;
        ends.push(told.elapsed().as_secs_f64() * 1e3);
        wrong_exits += u32::from(status.code() != Some(0));
    }
    // The last one delivers what is left.
    let worker = program.start("work", "last", &config).await?;
    progress.until_nothing_left().await?;
    worker.terminate().await?;

    let enqueued = u64::from(stops) * u64::from(messages);
    let (delivered, repeats) = receiver.messages_and_repeats();
    plan.say(format!(
        "{stops} stops: {delivered} of {enqueued} messages, {repeats} repeats"
    ));
    let none = |name: &str, count: f64| {
        Figure::alone(name, Unit::Count, &[count]).target(Measure::Value, Bound::AtMost, 0.0)
    };
    let longest = ends.iter().copied().fold(0.0, f64::max);
    let figures = vec![
        none("messages delivered twice", repeats as f64),
        none("messages lost", enqueued.saturating_sub(delivered) as f64),
        none("exit codes other than 0", f64::from(wrong_exits)),
        Figure::alone("SIGTERM to exit", Unit::Milliseconds, &ends),
        Figure::alone("SIGTERM to exit, longest", Unit::Milliseconds, &[longest]),
    ];
    let notes = vec![format!(
        "{stops} stops, {messages} messages before each; http sink whose far side takes {} ms and counts; 16 deliveries at a time",
        DELIVERY.as_millis()
    )];
    Ok((figures, notes))
}
