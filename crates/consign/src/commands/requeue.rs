//! `consign requeue`: a fresh set of tries for dead messages.

use std::collections::BTreeMap;

use clap::{ArgGroup, Args};
use consign_app::moves::report_moves;
use consign_kernel::{DeadLetter, Filter, MessageId, Move, MoveResult, QueueName, Store};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    arguments::{ByArgs, message_id},
    context::{Context, known_queue},
    failure::{Exit, Failure},
    output::{Output, Table, count, or_dash},
    progress::Progress,
    when::stamp,
};

/// One transaction each, so that workers are not kept waiting behind a long one.
const BATCH_MESSAGES: usize = 500;
const PAGE_LETTERS: u32 = 1_000;
const PREVIEW_ROWS: usize = 10;

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
        let filter = Filter {
            queue: self.queue,
            code: self.code,
            ..Filter::default()
        };
        let selection = select(&*store, &filter).await?;
        if !self.yes {
            selection.preview(context.out)?;
            return Ok(Exit::Fine);
        }
        let progress = Progress::new(Some(selection.ids.len() as u64), context.out.is_json());
        let mut moves = Vec::new();
        for ids in selection.ids.chunks(BATCH_MESSAGES) {
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

/// The dead messages a filter finds at one moment.
struct Selection {
    /// Oldest first: the order in which they are requeued.
    ids: Vec<MessageId>,
    counts: BTreeMap<(QueueName, String), u64>,
    /// The newest few, for the preview.
    first: Vec<DeadLetter>,
}

async fn select(store: &dyn Store, filter: &Filter) -> Result<Selection, Failure> {
    let mut selection = Selection {
        ids: Vec::new(),
        counts: BTreeMap::new(),
        first: Vec::new(),
    };
    let mut before = None;
    loop {
        let page = store.dead(filter, before, PAGE_LETTERS).await?;
        for letter in page.items {
            selection.ids.push(letter.message_id);
            let kind = (letter.queue.clone(), letter.code.clone());
            *selection.counts.entry(kind).or_default() += 1;
            if selection.first.len() < PREVIEW_ROWS {
                selection.first.push(letter);
            }
        }
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    selection.ids.reverse();
    Ok(selection)
}

impl Selection {
    fn preview(&self, out: Output) -> Result<(), Failure> {
        let total = self.ids.len() as u64;
        if out.is_json() {
            let kinds: Vec<Value> = self
                .counts
                .iter()
                .map(|((queue, code), count)| json!({"queue": queue, "code": code, "count": count}))
                .collect();
            return Ok(out.json(&json!({
                "preview": true, "total": total, "counts": kinds, "first": self.first,
            }))?);
        }
        if total == 0 {
            out.line("no dead messages match; there is nothing to requeue")?;
            return Ok(());
        }
        let mut counts = Table::new(["queue", "code", ">messages"]);
        for ((queue, code), count) in &self.counts {
            counts.row([queue.to_string(), code.clone(), count.to_string()]);
        }
        out.table(&counts)?;
        out.line("")?;
        out.table(&letters(&self.first, Timestamp::now()))?;
        if total > self.first.len() as u64 {
            let rest = total - self.first.len() as u64;
            out.line(format_args!("… and {rest} older"))?;
        }
        out.line("")?;
        out.line(format_args!(
            "{} would be requeued. Nothing was changed: run it again with --yes.",
            count(total, "message")
        ))?;
        Ok(())
    }
}

fn letters(letters: &[DeadLetter], now: Timestamp) -> Table {
    let mut table = Table::new([">id", "queue", "died", ">attempts", "code", "detail"]);
    for letter in letters {
        table.row([
            letter.message_id.to_string(),
            letter.queue.to_string(),
            stamp(letter.at, now),
            letter.attempt_no.to_string(),
            letter.code.clone(),
            or_dash(letter.detail.as_deref()),
        ]);
    }
    table
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
