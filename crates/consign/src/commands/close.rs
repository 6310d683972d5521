//! `consign discard`, `consign cancel` and `consign skip`: closing messages without delivery.

use std::time::Duration;

use clap::{ArgGroup, Args};
use consign_app::moves::report_moves;
use consign_kernel::{
    By, MessageId, QueueName, Redrive, RedriveAction, RedrivePlan, RedriveState, Store,
};

use super::{preview::preview, redrive};
use crate::{
    arguments::{ByArgs, message_id},
    context::{Context, known_queue},
    failure::{Exit, Failure},
    progress::Progress,
};

/// Messages of a step: few enough that workers are not kept waiting behind a long transaction, and many, because each step
/// of a cancel walks over all messages of its queue.
const STEP_MESSAGES: u32 = 1_000;
/// A step finds nothing while another process takes one.
const STEP_PAUSE: Duration = Duration::from_millis(100);
/// Pauses without progress after which the rest is left to the services.
const STEP_PAUSES: u32 = 50;

/// Discard dead and held messages: final, and never delivered.
///
/// In an ordered queue the group of a discarded message goes on. Messages named by id are discarded
/// at once. By filter, it prints a preview of the dead ones, and discards only with --yes, oldest
/// first: as a redrive, which is audited and can be stopped. With --rate, `consign serve` or `consign
/// work` runs it.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("which").required(true).multiple(true).args(["ids", "queue", "code"]))]
pub(crate) struct Discard {
    /// The messages
    #[arg(value_name = "ID", value_parser = message_id, conflicts_with_all = ["queue", "code"])]
    ids: Vec<MessageId>,
    /// Every dead message of this queue
    #[arg(long)]
    queue: Option<QueueName>,
    /// Every dead message with this code, as the preview and `consign explain` name it
    #[arg(long)]
    code: Option<String>,
    #[command(flatten)]
    pace: PaceArgs,
    #[command(flatten)]
    by: ByArgs,
}

/// Cancel ready and waiting messages before they are sent, due or not.
///
/// In an ordered queue the group of a cancelled message goes on. Messages named by id are cancelled
/// at once. With --queue, it prints a preview, and cancels what is enqueued only with --yes, oldest
/// first: as a redrive, which is audited and can be stopped. With --rate, `consign serve` or `consign
/// work` runs it.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("which").required(true).args(["ids", "queue"]))]
pub(crate) struct Cancel {
    /// The messages
    #[arg(value_name = "ID", value_parser = message_id)]
    ids: Vec<MessageId>,
    /// Every ready and waiting message of this queue, also those due later
    #[arg(long)]
    queue: Option<QueueName>,
    #[command(flatten)]
    pace: PaceArgs,
    #[command(flatten)]
    by: ByArgs,
}

/// Discard or cancel the head of a group of an ordered queue, so that the group goes on.
#[derive(Args, Debug)]
pub(crate) struct Skip {
    /// The queue
    queue: QueueName,
    /// The group
    group: String,
    #[command(flatten)]
    by: ByArgs,
}

/// How messages are closed by filter.
#[derive(Args, Debug)]
struct PaceArgs {
    /// By filter: at most this many a second
    #[arg(long, value_name = "PER_SECOND", conflicts_with = "ids")]
    rate: Option<u32>,
    /// By filter: at most this many in all, oldest first
    #[arg(long, conflicts_with = "ids")]
    limit: Option<u64>,
    /// By filter: only preview, also with --yes
    #[arg(long, conflicts_with = "ids")]
    dry_run: bool,
    /// By filter: do it, instead of a preview
    #[arg(long, conflicts_with = "ids")]
    yes: bool,
}

impl Discard {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        if !self.ids.is_empty() {
            let by = self.by.by_with_reason()?;
            let store = context.store().await?;
            return report_moves(context.out, &store.discard(&self.ids, &by).await?);
        }
        let plan = RedrivePlan {
            action: RedriveAction::Discard,
            queue: self.queue,
            code: self.code,
            rate_per_second: self.pace.rate,
            limit: self.pace.limit,
        };
        self.pace.close(context, plan, &self.by).await
    }
}

impl Cancel {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        if !self.ids.is_empty() {
            let by = self.by.by_with_reason()?;
            let store = context.store().await?;
            return report_moves(context.out, &store.cancel(&self.ids, &by).await?);
        }
        let plan = RedrivePlan {
            action: RedriveAction::Cancel,
            queue: self.queue,
            rate_per_second: self.pace.rate,
            limit: self.pace.limit,
            ..RedrivePlan::default()
        };
        self.pace.close(context, plan, &self.by).await
    }
}

impl Skip {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let by = self.by.by_with_reason()?;
        let store = context.store().await?;
        match store.skip(&self.queue, &self.group, &by).await? {
            Some(moved) => report_moves(context.out, &[moved]),
            None => {
                let message = format!(
                    "group {} of queue {} has no head: nothing of it is unfinished; `consign ls \
                     --queue {}` shows groups",
                    consign_kernel::quoted(&self.group),
                    self.queue,
                    self.queue
                );
                Err(Failure::new(Exit::NotFound, "empty_group", message))
            }
        }
    }
}

impl PaceArgs {
    /// Previews a redrive, or starts it; without a rate it is run here.
    async fn close(
        &self,
        context: &Context,
        plan: RedrivePlan,
        by: &ByArgs,
    ) -> Result<Exit, Failure> {
        plan.validate()?;
        let store = context.store().await?;
        if let Some(queue) = &plan.queue {
            known_queue(&*store, queue).await?;
        }
        if self.dry_run || !self.yes {
            return preview(context.out, &*store, &plan).await;
        }
        let by = by.by_with_reason()?;
        let started = run(context, &*store, &plan, &by).await?;
        redrive::print(context.out, &started)
    }
}

async fn run(
    context: &Context,
    store: &dyn Store,
    plan: &RedrivePlan,
    by: &By,
) -> Result<Redrive, Failure> {
    let mut redrive = store.start_redrive(plan, by).await?;
    if plan.rate_per_second.is_some() {
        return Ok(redrive);
    }
    let progress = Progress::new(Some(redrive.total), context.out.is_json());
    let mut pauses = 0;
    while redrive.state == RedriveState::Running && pauses < STEP_PAUSES {
        // A step may be one of another redrive that waited longer.
        if store.step_redrive(STEP_MESSAGES).await?.is_none() {
            pauses += 1;
            tokio::time::sleep(STEP_PAUSE).await;
        }
        redrive = store.redrive(redrive.id).await?.unwrap_or(redrive);
        progress.set(redrive.moved, Some(redrive.total));
    }
    progress.clear();
    Ok(redrive)
}
