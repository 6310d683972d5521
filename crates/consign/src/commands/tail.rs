//! `consign tail`: what happens in a queue, as it happens.

use std::{collections::BTreeMap, time::Duration};

use clap::Args;
use consign_kernel::{
    Attempt, Filter, MessageId, MessageSummary, Page, QueueName, StateKind, Store,
};
use serde_json::json;

use super::watch::watch;
use crate::{
    arguments::duration,
    context::{Context, known_queue},
    failure::{Exit, Failure},
    output::{Output, plain},
};

/// The newest messages of a queue that are followed, and as many of those in leases.
const FOLLOWED_MAX: u32 = 1_000;
/// Messages of which attempts are read in one look: more are counted.
const TOLD_MAX: usize = 200;

/// Follow a queue: its messages as they are enqueued, and their attempts.
///
/// Looks at the newest 1000 messages and at 1000 in leases every second, until Ctrl-C. An attempt of an
/// older message that began and ended between two looks is not shown; of very many in one second, some are
/// only counted.
#[derive(Args, Debug)]
pub(crate) struct Tail {
    /// The queue
    queue: QueueName,
    /// How long to wait between two looks
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "1s")]
    interval: Duration,
}

impl Tail {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        if self.interval < Duration::from_millis(100) {
            let message =
                "--interval: must be 100ms or longer, so that the database has other work too";
            return Err(Failure::usage(message));
        }
        let store = context.store().await?;
        known_queue(&*store, &self.queue).await?;
        let remark = format!("following queue {}, until Ctrl-C", self.queue);
        let mut followed = Followed {
            queue: self.queue,
            view: None,
            attempts: BTreeMap::new(),
        };
        followed.look(&*store, context.out).await?;
        // What is enqueued from now on is shown.
        context.out.note(remark)?;
        watch(self.interval, async || {
            followed.look(&*store, context.out).await
        })
        .await
    }
}

/// What was seen of a queue.
struct Followed {
    queue: QueueName,
    /// The oldest and the newest message of the last look; none before it. What was not seen between them
    /// is new: its transaction ended late.
    view: Option<(MessageId, MessageId)>,
    /// How many attempts each message had.
    attempts: BTreeMap<MessageId, u32>,
}

impl Followed {
    /// Prints what has changed since the last look.
    async fn look(&mut self, store: &dyn Store, out: Output) -> Result<(), Failure> {
        let page = self.listed(store, None).await?;
        // Below it a page has not looked.
        let oldest = page.next.unwrap_or(MessageId(0));
        let mut seen = page.items;
        let is_full = seen.len() >= FOLLOWED_MAX as usize;
        let newest = seen.first().map_or(MessageId(0), |listed| listed.id);
        seen.extend(self.listed(store, Some(StateKind::Leased)).await?.items);
        seen.sort_by_key(|listed| listed.id);
        seen.dedup_by_key(|listed| listed.id);
        let Some(view) = self.view.replace((oldest, newest)) else {
            self.attempts = counted(&seen);
            return Ok(());
        };
        if is_full && oldest > view.1 {
            out.note("more messages were enqueued than are shown")?;
        }
        let mut told = 0;
        for listed in &seen {
            let is_new = listed.id > view.0 && !self.attempts.contains_key(&listed.id);
            if is_new {
                enqueued(out, listed)?;
            }
            // Of a message that comes into view late, what happened before is not news.
            let before = match self.attempts.get(&listed.id) {
                Some(before) => *before,
                None if is_new => 0,
                None => listed.attempts,
            };
            if listed.attempts > before && told < TOLD_MAX {
                told += 1;
                for attempt in store.history(listed.id).await? {
                    if attempt.attempt_no > before {
                        attempted(out, listed, &attempt)?;
                    }
                }
            } else if listed.attempts > before {
                told += 1;
            }
        }
        if told > TOLD_MAX {
            let more = told - TOLD_MAX;
            out.note(format!("and attempts of {more} more messages"))?;
        }
        // One that left the view, and is leased again later, continues from here.
        let mut counts = counted(&seen);
        self.attempts.append(&mut counts);
        while self.attempts.len() > 4 * FOLLOWED_MAX as usize {
            self.attempts.pop_first();
        }
        Ok(())
    }

    async fn listed(
        &self,
        store: &dyn Store,
        state: Option<StateKind>,
    ) -> Result<Page<MessageSummary>, Failure> {
        let filter = Filter {
            queue: Some(self.queue.clone()),
            state,
            ..Filter::default()
        };
        Ok(store.list(&filter, None, FOLLOWED_MAX).await?)
    }
}

fn counted(listed: &[MessageSummary]) -> BTreeMap<MessageId, u32> {
    listed.iter().map(|it| (it.id, it.attempts)).collect()
}

fn enqueued(out: Output, listed: &MessageSummary) -> Result<(), Failure> {
    if out.is_json() {
        let event = json!({
            "event": "enqueued", "at": listed.created_at, "id": listed.id, "queue": listed.queue,
            "key": listed.key, "group": listed.group,
        });
        return Ok(out.json(&event)?);
    }
    let at = listed.created_at.strftime("%H:%M:%S%.3fZ");
    let mut text = format!("{at}  {:>8}  enqueued", listed.id);
    for (name, value) in [("key", &listed.key), ("group", &listed.group)] {
        if let Some(value) = value {
            text.push_str(&format!("  {name} {}", plain(value)));
        }
    }
    Ok(out.painted(text)?)
}

fn attempted(out: Output, listed: &MessageSummary, attempt: &Attempt) -> Result<(), Failure> {
    if out.is_json() {
        let event = json!({
            "event": "attempt", "at": attempt.finished_at, "id": listed.id, "queue": listed.queue,
            "attempt_no": attempt.attempt_no, "outcome": attempt.outcome, "owner": attempt.owner,
            "code": attempt.code, "detail": attempt.detail, "next_due_at": attempt.next_due_at,
        });
        return Ok(out.json(&event)?);
    }
    let at = attempt.finished_at.strftime("%H:%M:%S%.3fZ");
    let outcome = out.paint(attempt.outcome.as_str());
    let mut text = format!(
        "{at}  {:>8}  attempt {}: {outcome}",
        listed.id, attempt.attempt_no
    );
    if let Some(code) = &attempt.code {
        text.push_str(&format!(", {}", plain(code)));
    }
    if let Some(detail) = &attempt.detail {
        text.push_str(&format!(" ({})", plain(detail)));
    }
    if let Some(due) = attempt.next_due_at {
        text.push_str(&format!("; due {}", due.strftime("%H:%M:%S%.3fZ")));
    }
    Ok(out.painted(text)?)
}
