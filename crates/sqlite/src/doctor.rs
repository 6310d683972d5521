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

/// What damage of the file itself is called.
const FILE: &str = "file";
const REMEDY: &str = "stop consign, copy the file and its -wal aside, restore the last backup, or save \
                      what can be read with `sqlite3 FILE .recover`";

pub(crate) async fn examine(
    connection: &mut SqliteConnection,
    now: Timestamp,
) -> Result<Vec<Finding>> {
    let mut report = Report::default();
    let examined = match check_file(connection, &mut report).await {
        Ok(()) => examine_rows(connection, now, &mut report).await,
        Err(failure) => Err(failure),
    };
    match examined {
        // Where the file is damaged, what reading it comes to is a finding too.
        Err(failure) if failure.is_damage() || report.by_code.contains_key(FILE) => {
            report.damaged(&failure.during("examine").to_string());
        }
        examined => examined?,
    }
    Ok(report.findings())
}

async fn examine_rows(
    connection: &mut SqliteConnection,
    now: Timestamp,
    report: &mut Report,
) -> Result<()> {
    let messages = places::examine(connection, report).await?;
    turns::examine(connection, &messages, report).await?;
    orders::examine(connection, report).await?;
    payments::examine(connection, now, report).await?;
    memory::examine(connection, now, report).await?;
    scm::examine(connection, report).await?;
    guards::examine(connection, report).await?;
    documents(connection, report).await
}

/// SQLite's own opinion of the file.
async fn check_file(connection: &mut SqliteConnection, report: &mut Report) -> Result<()> {
    let lines: Vec<String> = sqlx::query_scalar(sql!("doctor_integrity"))
        .fetch_all(connection)
        .await?;
    for line in lines.iter().filter(|line| *line != "ok") {
        report.damaged(line);
    }
    Ok(())
}

/// SQLite does not look into texts: bytes that changed in one are found by reading it.
async fn documents(connection: &mut SqliteConnection, report: &mut Report) -> Result<()> {
    let unreadable: Vec<(i64, String)> = sqlx::query_as(sql!("doctor_documents"))
        .fetch_all(connection)
        .await?;
    for (id, column) in unreadable {
        report.add(
            FILE,
            format!("the {column} of message {id} is not JSON: its bytes have changed on the disk"),
            REMEDY,
            Some(MessageId(id)),
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
    fn damaged(&mut self, what: &str) {
        let what = format!("the database file is damaged: {what}");
        self.add(FILE, what, REMEDY, None);
    }

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
