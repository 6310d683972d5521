//! `consign requeue`: a fresh set of tries for dead messages.

use clap::{ArgGroup, Args};
use consign_app::moves::report_moves;
use consign_kernel::{Filter, MessageId, Move, MoveResult, QueueName, RedrivePlan, Store};
use serde_json::json;

use super::preview::preview;
use crate::{
    arguments::{ByArgs, message_id},
    context::{Context, known_queue},
    failure::{Exit, Failure},
    output::{Output, count},
    progress::Progress,
};

/// One transaction each, so that workers are not kept waiting behind a long one.
const BATCH_MESSAGES: usize = 500;
const PAGE_LETTERS: u32 = 1_000;

/// Give dead messages a fresh set of tries.
///
/// Messages named by id are requeued at once. By filter, it prints a preview and requeues only
/// with --yes, oldest first.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("which").required(true).multiple(true).args(["ids", "queue", "code"]))]
pub(crate) struct Requeue {
    /// The messages
    #[arg(value_name = "ID", value_parser = message_id, conflicts_with_all = ["queue", "code"])]
    ids: Vec<MessageId>,
    /// Every dead message of this queue
    #[arg(long)]
    queue: Option<QueueName>,
    /// Every dead message with this code, as the preview and `consign explain` name it
    #[arg(long)]
    code: Option<String>,
    /// Requeue, instead of a preview
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    by: ByArgs,
}

impl Requeue {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let store = context.store().await?;
        let by = self.by.by("requeued by hand");
        if !self.ids.is_empty() {
            return report_moves(context.out, &store.requeue(&self.ids, &by).await?);
        }
        if let Some(queue) = &self.queue {
            known_queue(&*store, queue).await?;
        }
        let plan = RedrivePlan {
            queue: self.queue,
            code: self.code,
            ..RedrivePlan::default()
        };
        if !self.yes {
            return preview(context.out, &*store, &plan).await;
        }
        let matching = matching(&*store, plan).await?;
        let progress = Progress::new(Some(matching.len() as u64), context.out.is_json());
        let mut moves = Vec::new();
        for ids in matching.chunks(BATCH_MESSAGES) {
            let batch = store.requeue(ids, &by).await.map_err(|error| {
                let done = count(requeued(&moves), "message");
                let add_progress =
                    |text| format!("{text}. {done} had been requeued before; run it again");
                Failure::from(error).map_message(add_progress)
            })?;
            progress.add(batch.len());
            moves.extend(batch);
        }
        progress.clear();
        report(context.out, &moves)
    }
}

/// The dead messages that match, oldest first: the order in which they are requeued.
async fn matching(store: &dyn Store, plan: RedrivePlan) -> Result<Vec<MessageId>, Failure> {
    let filter = Filter {
        queue: plan.queue,
        code: plan.code,
        ..Filter::default()
    };
    let (mut ids, mut before) = (Vec::new(), None);
    loop {
        let page = store.dead(&filter, before, PAGE_LETTERS).await?;
        ids.extend(page.items.iter().map(|letter| letter.message_id));
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    ids.reverse();
    Ok(ids)
}

/// A message that another operator requeued meanwhile is not an error.
fn report(out: Output, moves: &[MoveResult]) -> Result<Exit, Failure> {
    let done = requeued(moves);
    let left = moves.len() as u64 - done;
    if out.is_json() {
        out.json(&json!({"preview": false, "requeued": done, "left": left}))?;
        return Ok(Exit::Fine);
    }
    out.line(format_args!("{} requeued", count(done, "message")))?;
    if left > 0 {
        let were = count(left, "message");
        out.line(format_args!(
            "{were} were no longer dead and were not changed"
        ))?;
    }
    Ok(Exit::Fine)
}

fn requeued(moves: &[MoveResult]) -> u64 {
    let moved = |moved: &&MoveResult| matches!(moved.answer, Move::Moved { .. });
    moves.iter().filter(moved).count() as u64
}
