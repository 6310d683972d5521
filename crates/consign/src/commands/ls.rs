//! `consign ls`: messages, newest first.

use std::{
    collections::BTreeMap,
    io::{self, IsTerminal as _, Write as _},
    path::PathBuf,
    time::Duration,
};

use clap::{Args, builder::PossibleValuesParser};
use consign_kernel::{
    Cursor, Filter, MessageId, MessageSummary, Page, QueueName, StateKind, Store,
};
use jiff::Timestamp;

use super::{archived, watch::watch};
use crate::{
    arguments::{header_text, message_id, past},
    context::{Context, known_queue},
    failure::{Exit, Failure},
    output::{Output, Table, or_dash},
    when::stamp,
};

/// List messages, newest first.
#[derive(Args, Debug)]
pub(crate) struct Ls {
    #[command(flatten)]
    search: Search,
    /// At most this many, up to 1000
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000), allow_negative_numbers = true)]
    limit: u32,
    /// Only messages with smaller ids: the next page
    #[arg(long, value_name = "ID", value_parser = message_id)]
    before: Option<MessageId>,
    /// List again every so many seconds, until Ctrl-C
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "2", value_parser = clap::value_parser!(u64).range(1..=3_600))]
    watch: Option<u64>,
    /// Read this archive instead of the database
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["code", "key_prefix", "group", "header", "since", "until", "watch"])]
    archive: Option<PathBuf>,
}

/// Which messages.
#[derive(Args, Clone, Debug)]
struct Search {
    /// Only this queue
    #[arg(long)]
    queue: Option<QueueName>,
    /// Only messages in this state
    #[arg(long, value_parser = PossibleValuesParser::new(StateKind::ALL.map(StateKind::as_str)))]
    state: Option<String>,
    /// Only dead messages with this code
    #[arg(long)]
    code: Option<String>,
    /// Only messages enqueued since then: 2h ago, or a time such as 2026-11-15T22:31:50Z
    #[arg(long, value_name = "TIME", value_parser = past)]
    since: Option<Timestamp>,
    /// Only messages enqueued before then
    #[arg(long, value_name = "TIME", value_parser = past)]
    until: Option<Timestamp>,
    /// Only this key
    #[arg(long)]
    key: Option<String>,
    /// Only messages with a key that begins with this text
    #[arg(long, value_name = "TEXT")]
    key_prefix: Option<String>,
    /// Only messages of this group
    #[arg(long)]
    group: Option<String>,
    /// Only messages whose header correlation_id is this text
    #[arg(long, visible_alias = "correlation")]
    correlation_id: Option<String>,
    /// Only messages with this header, a text; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = header_text)]
    header: Vec<(String, String)>,
}

impl Search {
    fn filter(self) -> Result<Filter, Failure> {
        if let (Some(since), Some(until)) = (self.since, self.until)
            && since >= until
        {
            let message =
                format!("--since {since} is not before --until {until}: nothing is between");
            return Err(Failure::usage(message));
        }
        let mut headers = BTreeMap::new();
        for (name, text) in self.header {
            if let Some(other) = headers.insert(name.clone(), text.clone())
                && other != text
            {
                let message =
                    format!("--header {name}: is both {other:?} and {text:?}; no message has both");
                return Err(Failure::usage(message));
            }
        }
        Ok(Filter {
            queue: self.queue,
            state: self.state.map(|word| word.parse()).transpose()?,
            key: self.key,
            key_prefix: self.key_prefix,
            group: self.group,
            correlation_id: self.correlation_id,
            headers,
            since: self.since,
            until: self.until,
            code: self.code,
        })
    }
}

impl Ls {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        if let Some(folder) = &self.archive {
            let search = self.search;
            let filter = consign_archive::Filter {
                queue: search.queue,
                state: search.state.map(|word| word.parse()).transpose()?,
                key: search.key,
                correlation_id: search.correlation_id,
                before: self.before,
            };
            return archived::list(context.out, folder, &filter, self.limit);
        }
        let filter = self.search.filter()?;
        let store = context.store().await?;
        if let Some(queue) = &filter.queue {
            known_queue(&*store, queue).await?;
        }
        let look = async || {
            let page = find(&*store, &filter, self.before, self.limit).await?;
            print(context.out, &filter, page, self.watch)
        };
        match self.watch {
            None => look().await.map(|()| Exit::Fine),
            Some(seconds) => watch(Duration::from_secs(seconds), look).await,
        }
    }
}

async fn find(
    store: &dyn Store,
    filter: &Filter,
    before: Option<Cursor>,
    limit: u32,
) -> Result<Page<MessageSummary>, Failure> {
    let mut progress = SearchProgress::new();
    let page = fill(before, limit, async |before, limit| {
        progress.show(before)?;
        Ok::<_, Failure>(store.list(filter, before, limit).await?)
    });
    let page = page.await;
    progress.clear()?;
    page
}

/// A page; of a watched list it takes the place of the one before on a terminal, and follows it elsewhere.
fn print(
    out: Output,
    filter: &Filter,
    page: Page<MessageSummary>,
    watched: Option<u64>,
) -> Result<(), Failure> {
    if out.is_json() {
        out.json(&page)?;
        return Ok(());
    }
    let now = Timestamp::now();
    if let Some(seconds) = watched {
        if io::stdout().is_terminal() {
            out.painted("\u{1b}[H\u{1b}[2J\u{1b}[3J")?;
        }
        let time = now.strftime("%Y-%m-%d %H:%M:%SZ");
        out.line(format_args!("{time}, every {seconds} s, until Ctrl-C"))?;
    }
    if page.items.is_empty() {
        out.note("no messages match")?;
    } else if filter.wanted_state() == Some(StateKind::Dead) {
        out.table(&dead_table(&page.items, now))?;
    } else {
        out.table(&table(&page.items, now))?;
    }
    if let Some(next) = page.next {
        out.note(format!("more: --before {next}"))?;
    }
    Ok(())
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
struct SearchProgress {
    is_wanted: bool,
    pages: u32,
}

impl SearchProgress {
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

pub(super) fn table(messages: &[MessageSummary], now: Timestamp) -> Table {
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
