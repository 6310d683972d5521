//! `consign ls`: messages, newest first.

use clap::{Args, builder::PossibleValuesParser};
use consign_kernel::{Filter, LaneName, Listed, MessageId, StateKind};
use jiff::Timestamp;

use crate::{
    arguments::message_id,
    context::{Context, known_lane},
    failure::{Exit, Failure},
    output::{Table, or_dash},
    when::stamp,
};

/// List messages, newest first.
#[derive(Args, Debug)]
pub(crate) struct Ls {
    /// Only this lane
    #[arg(long)]
    lane: Option<LaneName>,
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
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    /// Only messages with smaller ids: the next page
    #[arg(long, value_name = "ID", value_parser = message_id)]
    before: Option<MessageId>,
}

impl Ls {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let store = context.store().await?;
        if let Some(lane) = &self.lane {
            known_lane(&*store, lane).await?;
        }
        let filter = Filter {
            lane: self.lane,
            state: self.state.map(|word| word.parse()).transpose()?,
            key: self.key,
            correlation_id: self.correlation_id,
            code: self.code,
        };
        let page = store.list(&filter, self.before, self.limit).await?;
        if context.out.is_json() {
            context.out.json(&page)?;
            return Ok(Exit::Fine);
        }
        match (page.items.is_empty(), page.next) {
            (true, None) => context.out.note("no messages match")?,
            (true, Some(_)) => context.out.note("none of the newest messages match")?,
            (false, _) => context.out.table(&table(&page.items, Timestamp::now()))?,
        }
        if let Some(next) = page.next {
            context.out.note(format!("more: --before {next}"))?;
        }
        Ok(Exit::Fine)
    }
}

fn table(messages: &[Listed], now: Timestamp) -> Table {
    let mut table = Table::new([
        ">id",
        "lane",
        "state",
        ">attempts",
        "key",
        "group",
        "enqueued",
    ]);
    for message in messages {
        table.row([
            message.id.to_string(),
            message.lane.to_string(),
            message.state.to_string(),
            message.attempts.to_string(),
            or_dash(message.key.as_deref()),
            or_dash(message.group.as_deref()),
            stamp(message.created_at, now),
        ]);
    }
    table
}
