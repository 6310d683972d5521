//! `consign memory ls`: the outbox of memories, newest first.

use clap::{Args, ValueEnum};
use consign_app::{
    context::Context,
    failure::{Exit, Failure},
    output::{Table, or_dash},
    when::stamp,
};
use jiff::Timestamp;

use crate::{OutboxRow, OutboxStatus, app::logbook};

/// List the outbox of memories, newest first.
#[derive(Args, Debug)]
pub(super) struct Ls {
    /// Only in this status
    #[arg(long)]
    status: Option<Status>,
    /// Maximum number, up to 1000
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000), allow_negative_numbers = true)]
    limit: u32,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Status {
    Pending,
    Sent,
    Dead,
}

impl From<Status> for OutboxStatus {
    fn from(status: Status) -> Self {
        match status {
            Status::Pending => Self::Pending,
            Status::Sent => Self::Sent,
            Status::Dead => Self::Dead,
        }
    }
}

impl Ls {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let logbook = logbook(&context.open().await?);
        let status = self.status.map(OutboxStatus::from);
        let rows = logbook.outbox_rows(status, self.limit).await?;
        if context.out.is_json() {
            context.out.json(&rows)?;
        } else if rows.is_empty() {
            context.out.note("the outbox is empty")?;
        } else {
            context.out.table(&table(&rows, Timestamp::now()))?;
        }
        Ok(Exit::Fine)
    }
}

/// Its status, and whether its text was erased.
fn state(row: &OutboxRow) -> String {
    let status = row.status.as_str();
    if row.erased_at.is_some() {
        format!("{status}, erased")
    } else {
        status.to_owned()
    }
}

fn table(rows: &[OutboxRow], now: Timestamp) -> Table {
    let mut table = Table::new([
        ">outbox_id",
        "space",
        "status",
        ">retries",
        "next",
        "owner",
        "last error",
        "created",
    ]);
    for row in rows {
        let next = match row.status {
            OutboxStatus::Pending => row.next_attempt_at.map(|at| stamp(at, now)),
            OutboxStatus::Sent | OutboxStatus::Dead => None,
        };
        table.row([
            row.outbox_id.to_string(),
            row.target_space.clone(),
            state(row),
            row.retry_count.to_string(),
            or_dash(next.as_deref()),
            or_dash(row.locked_by.as_deref()),
            or_dash(row.last_error.as_deref()),
            stamp(row.created_at, now),
        ]);
    }
    table
}
