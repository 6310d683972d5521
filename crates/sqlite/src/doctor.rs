//! The invariants, checked on one snapshot.
//!
//! The conservation law first: every message is in exactly one of waiting, a ready batch, a lease,
//! held, dead, delivered. Then what travels with a message, the group heads, what has left, the tables of apps, the
//! triggers, and the file itself.

mod guards;
mod heads;
mod retention;
mod states;

use std::collections::BTreeMap;

use consign_kernel::{Finding, MessageId, alert_finding};
use jiff::Timestamp;
use sqlx::SqliteConnection;

use crate::{component::Components, error::Result, sql};

/// Findings of one kind shown in full; the rest are counted.
pub const SHOWN_MAX: usize = 100;

/// The code of damage of the file itself.
const FILE: &str = "file";
const REMEDY: &str = "stop consign, copy the file and its -wal aside, restore the last backup, or save \
                      what can be read with `sqlite3 FILE .recover`";

pub(crate) async fn examine(
    connection: &mut SqliteConnection,
    now: Timestamp,
    components: &Components,
) -> Result<Vec<Finding>> {
    let mut report = Report::default();
    let examined = match check_file(connection, &mut report).await {
        Ok(()) => examine_rows(connection, now, components, &mut report).await,
        Err(failure) => Err(failure),
    };
    match examined {
        // Where the file is damaged, a failed read is a finding too.
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
    components: &Components,
    report: &mut Report,
) -> Result<()> {
    let messages = states::examine(connection, report).await?;
    heads::examine(connection, &messages, report).await?;
    retention::examine(connection, report).await?;
    alerts(connection, report).await?;
    for component in components.iter() {
        component.examine(connection, now, report).await?;
    }
    guards::examine(connection, &components.migrations(), report).await?;
    documents(connection, report).await
}

/// SQLite's integrity check of the file.
async fn check_file(connection: &mut SqliteConnection, report: &mut Report) -> Result<()> {
    let lines: Vec<String> = sqlx::query_scalar(sql!("doctor_integrity"))
        .fetch_all(connection)
        .await?;
    for line in lines.iter().filter(|line| *line != "ok") {
        report.damaged(line);
    }
    Ok(())
}

/// Alerts that their queue does not take.
async fn alerts(connection: &mut SqliteConnection, report: &mut Report) -> Result<()> {
    let found: Vec<(String, String, String)> = sqlx::query_as(sql!("doctor_alerts"))
        .fetch_all(connection)
        .await?;
    for (queue, alert_queue, why) in found {
        let finding = alert_finding(&queue, &alert_queue, &why);
        report.add("alerts", finding.what, finding.remedy, None);
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
#[derive(Debug, Default)]
pub struct Report {
    by_code: BTreeMap<&'static str, Vec<Finding>>,
}

impl Report {
    fn damaged(&mut self, what: &str) {
        let what = format!("the database file is damaged: {what}");
        self.add(FILE, what, REMEDY, None);
    }

    /// Adds a finding: its code, what is wrong, what to do, and the messages it is about.
    pub fn add(
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
