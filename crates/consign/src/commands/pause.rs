//! `consign pause` and `consign resume`: whether a queue may be claimed from.

use clap::Args;
use consign_kernel::{Queue, QueueName};

use crate::{
    arguments::ByArgs,
    context::Context,
    failure::{Exit, Failure},
};

/// Stop claims from a queue; leases in flight may finish.
#[derive(Args, Debug)]
pub(crate) struct Pause {
    /// The queue
    queue: QueueName,
    #[command(flatten)]
    by: ByArgs,
}

/// Resume claims from a paused queue.
#[derive(Args, Debug)]
pub(crate) struct Resume {
    /// The queue
    queue: QueueName,
    #[command(flatten)]
    by: ByArgs,
}

impl Pause {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let store = context.store().await?;
        let by = self.by.by("paused by hand");
        let queue = store.pause(&self.queue, &by).await?;
        report(context, &queue)
    }
}

impl Resume {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let store = context.store().await?;
        let by = self.by.by("resumed by hand");
        let queue = store.resume(&self.queue, &by).await?;
        report(context, &queue)
    }
}

fn report(context: &Context, queue: &Queue) -> Result<Exit, Failure> {
    let name = &queue.name;
    if context.out.is_json() {
        context.out.json(queue)?;
    } else if queue.paused_at.is_some() {
        context.out.line(format_args!(
            "queue {name} is paused; leases in flight may finish. `consign resume {name}` ends it"
        ))?;
    } else {
        context.out.line(format_args!("queue {name} is running"))?;
    }
    Ok(Exit::Fine)
}
