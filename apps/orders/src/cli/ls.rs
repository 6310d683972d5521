//! `consign orders ls`: orders, newest first.

use clap::{Args, builder::PossibleValuesParser};
use consign_app::{
    context::Context,
    failure::{Exit, Failure},
    output::Table,
    when::stamp,
};
use jiff::Timestamp;
use serde::Serialize;

use super::Row;
use crate::{Client, LedgerEntry, LedgerFilter, LedgerStatus, OrderKey, app::ledger};

const STATUSES: [LedgerStatus; 3] = [
    LedgerStatus::Accepted,
    LedgerStatus::Succeeded,
    LedgerStatus::Failed,
];

/// List orders, newest first.
#[derive(Args, Debug)]
pub(super) struct Ls {
    /// Only this client's
    #[arg(long, value_name = "NAME")]
    client: Option<Client>,
    /// Only in this status
    #[arg(long, value_parser = PossibleValuesParser::new(STATUSES.map(LedgerStatus::as_str)))]
    status: Option<String>,
    /// Maximum number, up to 1000
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000), allow_negative_numbers = true)]
    limit: u32,
    /// The next page: the cursor that the page before printed
    #[arg(long, value_name = "CURSOR", value_parser = cursor)]
    before: Option<Cursor>,
}

/// The JSON shape of a page. Not a tree of values, which would round the numbers of responses.
#[derive(Serialize)]
struct Page<'a> {
    items: Vec<Row<'a>>,
    next: Option<String>,
}

/// The last row of the page before.
type Cursor = (Timestamp, Client, OrderKey);

/// `TIME/CLIENT/KEY`.
fn cursor(text: &str) -> Result<Cursor, String> {
    let help = || "a cursor is TIME/CLIENT/KEY, as the page before printed it".to_owned();
    let mut parts = text.splitn(3, '/');
    let mut part = || parts.next().ok_or_else(help);
    Ok((
        part()?.parse().map_err(|_| help())?,
        part()?.parse().map_err(|_| help())?,
        part()?.parse().map_err(|_| help())?,
    ))
}

impl Ls {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let opened = context.open().await?;
        let word = self.status.as_deref();
        let filter = LedgerFilter {
            client: self.client,
            status: STATUSES
                .into_iter()
                .find(|status| Some(status.as_str()) == word),
        };
        let entries = ledger(&opened)
            .entries(&filter, self.before.as_ref(), self.limit)
            .await?;
        let is_full = entries.len() as u64 == u64::from(self.limit);
        let next = entries.last().filter(|_| is_full).map(|entry| {
            let (at, client, key) = (entry.first_seen_at, &entry.client, entry.key.as_str());
            format!("{at}/{client}/{key}")
        });
        if context.out.is_json() {
            let items = entries.iter().map(Row::new).collect();
            context.out.json(&Page { items, next })?;
            return Ok(Exit::Fine);
        }
        if entries.is_empty() {
            context.out.note("no orders match")?;
            return Ok(Exit::Fine);
        }
        context.out.table(&table(&entries, Timestamp::now()))?;
        if let Some(next) = next {
            context.out.note(format!("more: --before '{next}'"))?;
        }
        Ok(Exit::Fine)
    }
}

fn table(entries: &[LedgerEntry], now: Timestamp) -> Table {
    let mut table = Table::new([
        ">outbox",
        "client",
        "key",
        "status",
        ">http",
        ">conflicts",
        "first seen",
        "expires",
    ]);
    for entry in entries {
        table.row([
            entry.outbox_id.map_or("-".to_owned(), |id| id.to_string()),
            entry.client.to_string(),
            entry.key.as_str().to_owned(),
            entry.status.as_str().to_owned(),
            entry.http_status.to_string(),
            entry.conflicts.to_string(),
            stamp(entry.first_seen_at, now),
            stamp(entry.expires_at, now),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_is_printed() {
        let (at, client, key) = cursor("2026-11-16T03:20:00.123456Z/shop/a/b/c/d/e").unwrap();
        assert_eq!(at.to_string(), "2026-11-16T03:20:00.123456Z");
        assert_eq!((client.as_str(), key.as_str()), ("shop", "a/b/c/d/e"));
        for bad in ["", "2026", "2026-11-16T03:20:00Z/shop", "x/shop/order-01"] {
            assert!(cursor(bad).is_err(), "{bad}");
        }
    }
}
