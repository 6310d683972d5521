//! What moving messages by filter would take, shown before it is done.

use consign_kernel::{
    Counts, DeadLetter, Filter, MessageSummary, QueueName, RedriveAction, RedrivePlan, StateKind,
    Store,
};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::ls;
use crate::{
    failure::{Exit, Failure},
    output::{Output, Table, count, or_dash},
    when::stamp,
};

/// It need not count further.
const COUNT_MAX: u64 = 1_000_000;
/// Messages that are listed: the first.
const LISTED: u32 = 10;

/// Messages of a queue that have something in common: the code of their death, or their state.
struct Kind {
    queue: QueueName,
    word: String,
    messages: u64,
}

/// The first messages, in the order in which they would be moved.
enum First {
    Dead(Vec<DeadLetter>),
    Open(Vec<MessageSummary>),
}

struct Preview<'p> {
    plan: &'p RedrivePlan,
    /// How many messages match, up to a million.
    matching: u64,
    kinds: Vec<Kind>,
    first: First,
}

/// Prints what a redrive of this plan would move: how many of which kinds, and the first of them.
pub(super) async fn preview(
    out: Output,
    store: &dyn Store,
    plan: &RedrivePlan,
) -> Result<Exit, Failure> {
    let preview = match plan.cancelled_queue() {
        Some(queue) => Preview::of_open(store, plan, queue).await?,
        None => Preview::of_dead(store, plan).await?,
    };
    if out.is_json() {
        out.json(&preview.json())?;
    } else {
        preview.print(out)?;
    }
    Ok(Exit::Fine)
}

impl<'p> Preview<'p> {
    async fn of_dead(store: &dyn Store, plan: &'p RedrivePlan) -> Result<Self, Failure> {
        let filter = Filter {
            queue: plan.queue.clone(),
            code: plan.code.clone(),
            ..Filter::default()
        };
        let causes = store.dead_causes(&filter, COUNT_MAX).await?.into_iter();
        let mut kinds: Vec<Kind> = causes
            .map(|cause| Kind {
                queue: cause.queue,
                word: cause.code,
                messages: cause.messages,
            })
            .collect();
        kinds.sort_by(|a, b| (&a.queue, &a.word).cmp(&(&b.queue, &b.word)));
        Ok(Self {
            plan,
            matching: store.count_dead(&filter, COUNT_MAX).await?,
            kinds,
            first: First::Dead(store.first_dead(plan, LISTED).await?),
        })
    }

    async fn of_open(
        store: &dyn Store,
        plan: &'p RedrivePlan,
        queue: &QueueName,
    ) -> Result<Self, Failure> {
        let counted = store.queue_counts(queue).await?;
        let counts = counted.map_or_else(Counts::default, |(_, counts)| counts);
        let states = [
            (StateKind::Ready, counts.ready + counts.scheduled),
            (StateKind::Waiting, counts.waiting),
        ];
        let kind = |(state, messages): (StateKind, u64)| Kind {
            queue: queue.clone(),
            word: state.to_string(),
            messages,
        };
        let kinds: Vec<Kind> = states.map(kind).into_iter().collect();
        Ok(Self {
            plan,
            matching: kinds.iter().map(|kind| kind.messages).sum(),
            kinds: kinds.into_iter().filter(|it| it.messages > 0).collect(),
            first: First::Open(store.first_open(plan, LISTED).await?),
        })
    }

    /// How many it would take: of those that match, no more than the limit.
    fn total(&self) -> u64 {
        self.matching.min(self.plan.limit.unwrap_or(u64::MAX))
    }

    /// What its kinds have in common.
    fn column(&self) -> &'static str {
        match self.first {
            First::Dead(_) => "code",
            First::Open(_) => "state",
        }
    }

    fn json(&self) -> Value {
        let kind = |kind: &Kind| json!({"queue": kind.queue, self.column(): kind.word, "count": kind.messages});
        let kinds: Vec<Value> = self.kinds.iter().map(kind).collect();
        let first = match &self.first {
            First::Dead(letters) => json!(letters),
            First::Open(messages) => json!(messages),
        };
        json!({
            "preview": true, "total": self.total(), "plan": self.plan,
            "counts": kinds, "first": first,
        })
    }

    fn print(&self, out: Output) -> Result<(), Failure> {
        let total = self.total();
        if total == 0 {
            let what = match self.first {
                First::Dead(_) => "no dead messages match",
                First::Open(_) => "no message of the queue is ready or waiting",
            };
            let action = self.plan.action;
            out.line(format_args!("{what}; there is nothing to {action}"))?;
            return Ok(());
        }
        let mut kinds = Table::new(["queue", self.column(), ">messages"]);
        for kind in &self.kinds {
            let messages = kind.messages.to_string();
            kinds.row([kind.queue.to_string(), kind.word.clone(), messages]);
        }
        out.table(&kinds)?;
        out.line("")?;
        let now = Timestamp::now();
        let listed = match &self.first {
            First::Dead(letters) => {
                out.table(&dead_table(letters, now))?;
                letters.len()
            }
            First::Open(messages) => {
                out.table(&ls::table(messages, now))?;
                messages.len()
            }
        };
        let rest = total.saturating_sub(listed as u64);
        if rest > 0 {
            out.line(format_args!("… and {rest} newer"))?;
        }
        out.line("")?;
        out.line(format_args!(
            "{} would be {}. Nothing was changed: run it again with --yes.",
            self.share(),
            done(self.plan.action)
        ))?;
        Ok(())
    }

    /// How many it would take, and of how many.
    fn share(&self) -> String {
        let messages = count(self.total(), "message");
        if self.total() < self.matching {
            return format!("{messages} of the {} that match", self.matching);
        }
        let or_more = if self.matching == COUNT_MAX {
            " or more"
        } else {
            ""
        };
        messages + or_more
    }
}

fn dead_table(letters: &[DeadLetter], now: Timestamp) -> Table {
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

fn done(action: RedriveAction) -> &'static str {
    match action {
        RedriveAction::Requeue => "requeued",
        RedriveAction::Discard => "discarded",
        RedriveAction::Cancel => "cancelled",
    }
}
