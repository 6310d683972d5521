//! `consign ls`: messages, newest first.

use std::{
    io::{self, IsTerminal as _, Write as _},
    path::PathBuf,
};

use clap::{Args, builder::PossibleValuesParser};
use consign_kernel::{Cursor, Filter, MessageId, MessageSummary, Page, QueueName, StateKind};
use jiff::Timestamp;

use super::archived;
use crate::{
    arguments::message_id,
    context::{Context, known_queue},
    failure::{Exit, Failure},
    output::{Table, or_dash},
    when::stamp,
};

/// List messages, newest first.
#[derive(Args, Debug)]
pub(crate) struct Ls {
    /// Only this queue
    #[arg(long)]
    queue: Option<QueueName>,
    /// Only messages in this state
    #[arg(long, value_parser = PossibleValuesParser::new(StateKind::ALL.map(StateKind::as_str)))]
    state: Option<String>,
    /// Only this key
    #[arg(long)]
    key: Option<String>,
    /// Only messages whose header correlation_id is this text
    #[arg(long)]
    correlation_id: Option<String>,
    /// Only dead messages with this code
    #[arg(long)]
    code: Option<String>,
    /// At most this many, up to 1000
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000), allow_negative_numbers = true)]
    limit: u32,
    /// Only messages with smaller ids: the next page
    #[arg(long, value_name = "ID", value_parser = message_id)]
    before: Option<MessageId>,
    /// Read this archive instead of the database
    #[arg(long, value_name = "FOLDER", conflicts_with = "code")]
    archive: Option<PathBuf>,
}

impl Ls {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        if let Some(folder) = &self.archive {
            let filter = consign_archive::Filter {
                queue: self.queue,
                state: self.state.map(|word| word.parse()).transpose()?,
                key: self.key,
                correlation_id: self.correlation_id,
                before: self.before,
            };
            return archived::list(context.out, folder, &filter, self.limit);
        }
        let store = context.store().await?;
        if let Some(queue) = &self.queue {
            known_queue(&*store, queue).await?;
        }
        let filter = Filter {
            queue: self.queue,
            state: self.state.map(|word| word.parse()).transpose()?,
            key: self.key,
            correlation_id: self.correlation_id,
            code: self.code,
            ..Filter::default()
        };
        let mut progress = Progress::new();
        let page = fill(self.before, self.limit, async |before, limit| {
            progress.show(before)?;
            Ok::<_, Failure>(store.list(&filter, before, limit).await?)
        });
        let page = page.await;
        progress.clear()?;
        let page = page?;
        if context.out.is_json() {
            context.out.json(&page)?;
            return Ok(Exit::Fine);
        }
        if page.items.is_empty() {
            context.out.note("no messages match")?
        } else {
            let table = if is_of_dead(&filter) {
                dead_table(&page.items, Timestamp::now())
            } else {
                table(&page.items, Timestamp::now())
            };
            context.out.table(&table)?
        }
        if let Some(next) = page.next {
            context.out.note(format!("more: --before {next}"))?;
        }
        Ok(Exit::Fine)
    }
}

/// As many as the limit, or all there are. For a rare match, a store answers with
/// short pages, or empty ones, that have the start of the next.
async fn fill<T, E>(
    mut before: Option<Cursor>,
    limit: u32,
    mut list: impl AsyncFnMut(Option<Cursor>, u32) -> Result<Page<T>, E>,
) -> Result<Page<T>, E> {
    let mut items = Vec::new();
    loop {
        let page = list(before, limit - items.len() as u32).await?;
        items.extend(page.items);
        match page.next {
            Some(next) if items.len() < limit as usize => before = Some(next),
            next => return Ok(Page { items, next }),
        }
    }
}

/// The progress of a long search.
struct Progress {
    is_wanted: bool,
    pages: u32,
}

impl Progress {
    fn new() -> Self {
        Self {
            is_wanted: io::stderr().is_terminal(),
            pages: 0,
        }
    }

    fn show(&mut self, before: Option<Cursor>) -> io::Result<()> {
        self.pages += 1;
        match before {
            Some(before) if self.is_wanted && self.pages > 1 => {
                write!(io::stderr(), "\rlooking at messages below {before} …\x1b[K")
            }
            _ => Ok(()),
        }
    }

    fn clear(&self) -> io::Result<()> {
        if self.is_wanted && self.pages > 1 {
            write!(io::stderr(), "\r\x1b[K")
        } else {
            Ok(())
        }
    }
}

/// A state, and whether the content was erased.
pub(super) fn state_of(state: StateKind, is_erased: bool) -> String {
    let erased = if is_erased { ", erased" } else { "" };
    format!("{state}{erased}")
}

fn is_of_dead(filter: &Filter) -> bool {
    filter.code.is_some() || filter.state == Some(StateKind::Dead)
}

/// Dead messages with the reason, which stands last because it may be long.
fn dead_table(messages: &[MessageSummary], now: Timestamp) -> Table {
    let mut table = Table::new([
        ">id",
        "queue",
        ">attempts",
        "key",
        "group",
        "enqueued",
        "code",
        "reason",
    ]);
    for message in messages {
        table.row([
            message.id.to_string(),
            message.queue.to_string(),
            message.attempts.to_string(),
            or_dash(message.key.as_deref()),
            or_dash(message.group.as_deref()),
            stamp(message.created_at, now),
            or_dash(message.code.as_deref()),
            or_dash(message.detail.as_deref()),
        ]);
    }
    table
}

fn table(messages: &[MessageSummary], now: Timestamp) -> Table {
    let mut table = Table::new([
        ">id",
        "queue",
        "state",
        ">attempts",
        "key",
        "group",
        "enqueued",
    ]);
    for message in messages {
        table.row([
            message.id.to_string(),
            message.queue.to_string(),
            state_of(message.state, message.erased),
            message.attempts.to_string(),
            or_dash(message.key.as_deref()),
            or_dash(message.group.as_deref()),
            stamp(message.created_at, now),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a store answers that has messages 9, 5, 4 and 1 for us and looks at two ids per page.
    async fn short(before: Option<Cursor>, limit: u32) -> Result<Page<i64>, ()> {
        let below = before.map_or(10, |before| before.0);
        let looked_at = (below - 2..below).rev();
        let fits: Vec<i64> = looked_at.filter(|id| [9, 5, 4, 1].contains(id)).collect();
        let floor = (below > 2).then_some(below - 2);
        let shown: Vec<i64> = fits.iter().copied().take(limit as usize).collect();
        let next = if fits.len() > shown.len() {
            shown.last().copied()
        } else {
            floor
        };
        let (items, next) = (shown, next.map(MessageId));
        Ok(Page { items, next })
    }

    #[tokio::test]
    async fn short_pages_are_followed_until_there_are_enough() {
        let cases = [
            (None, 10, vec![9, 5, 4, 1], None),
            (None, 4, vec![9, 5, 4, 1], None),
            (None, 2, vec![9, 5], Some(5)),
            (None, 1, vec![9], Some(8)),
            (Some(9), 1, vec![5], Some(5)),
            (Some(4), 3, vec![1], None),
            (Some(1), 3, vec![], None),
        ];
        for (before, limit, items, next) in cases {
            let found = fill(before.map(MessageId), limit, short).await.unwrap();
            let next = next.map(MessageId);
            assert_eq!(
                (found.items, found.next),
                (items, next),
                "{before:?} {limit}"
            );
        }
    }
}
