//! The invariants, checked on one snapshot.
//!
//! The conservation law first: every message is in exactly one of waiting, a ready run, a lease,
//! held, dead, delivered. Then what travels with a message, the turns, the ledger of orders, the
//! payments, the memories, the repositories, the triggers, and the file itself.

mod guards;
mod memory;
mod orders;
mod payments;
mod places;
mod scm;
mod turns;

use std::collections::BTreeMap;

use consign_kernel::{Finding, MessageId};
use jiff::Timestamp;
use sqlx::SqliteConnection;

use crate::{error::Result, sql};

/// Findings of one kind shown in full; the rest are counted.
const SHOWN_MAX: usize = 100;

pub(crate) async fn examine(
    connection: &mut SqliteConnection,
    now: Timestamp,
) -> Result<Vec<Finding>> {
    let mut report = Report::default();
    check_file(connection, &mut report).await?;
    let messages = places::examine(connection, &mut report).await?;
    turns::examine(connection, &messages, &mut report).await?;
    orders::examine(connection, &mut report).await?;
    payments::examine(connection, now, &mut report).await?;
    memory::examine(connection, now, &mut report).await?;
    scm::examine(connection, &mut report).await?;
    guards::examine(connection, &mut report).await?;
    Ok(report.findings())
}

/// SQLite's own opinion of the file.
async fn check_file(connection: &mut SqliteConnection, report: &mut Report) -> Result<()> {
    let lines: Vec<String> = sqlx::query_scalar(sql!("doctor_quick_check"))
        .fetch_all(connection)
        .await?;
    for line in lines.iter().filter(|line| *line != "ok") {
        report.add(
            "file",
            format!("the database file is damaged: {line}"),
            "stop consign, copy the file and its -wal aside, restore the last backup, or save what \
             can be read with `sqlite3 FILE .recover`",
            None,
        );
    }
    Ok(())
}

/// What was found, by code.
#[derive(Default)]
struct Report {
    by_code: BTreeMap<&'static str, Vec<Finding>>,
}

impl Report {
    fn add(
        &mut self,
        code: &'static str,
        what: String,
        remedy: impl Into<String>,
        id: impl IntoIterator<Item = MessageId>,
    ) {
        self.by_code.entry(code).or_default().push(Finding {
            code: code.to_owned(),
            what,
            remedy: remedy.into(),
            ids: id.into_iter().collect(),
        });
    }

    fn findings(self) -> Vec<Finding> {
        let mut all = Vec::new();
        for (code, mut findings) in self.by_code {
            let hidden = findings.split_off(findings.len().min(SHOWN_MAX));
            all.append(&mut findings);
            if let Some(last) = hidden.last() {
                all.push(Finding {
                    code: code.to_owned(),
                    what: format!("and {} more of the same kind", hidden.len()),
                    remedy: last.remedy.clone(),
                    ids: hidden
                        .iter()
                        .flat_map(|f| f.ids.clone())
                        .take(SHOWN_MAX)
                        .collect(),
                });
            }
        }
        all
    }
}
