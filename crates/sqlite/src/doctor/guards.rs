//! The triggers that guard what was recorded.

use std::collections::BTreeSet;

use sqlx::SqliteConnection;

use super::Report;
use consign_kernel::Migration;

use crate::{error::Result, sql};

pub(super) async fn examine(
    connection: &mut SqliteConnection,
    migrations: &[Migration],
    report: &mut Report,
) -> Result<()> {
    let found: Vec<String> = sqlx::query_scalar(sql!("doctor_triggers"))
        .fetch_all(&mut *connection)
        .await?;
    let found: BTreeSet<&str> = found.iter().map(String::as_str).collect();
    for name in expected(migrations).difference(&found) {
        report.add(
            "trigger_missing",
            format!("the trigger {name} is missing"),
            "create it as in `consign migrate print`, and check who removed it",
            None,
        );
    }
    let open: Option<i64> = sqlx::query_scalar(sql!("doctor_purging"))
        .fetch_optional(&mut *connection)
        .await?;
    if let Some(audit_id) = open {
        report.add(
            "purge_open",
            format!("a purge was left open under audit entry {audit_id}: rows can be removed"),
            "DELETE FROM purging, and find out who opened it",
            None,
        );
    }
    Ok(())
}

/// The triggers that the migrations leave behind.
fn expected(migrations: &[Migration]) -> BTreeSet<&'static str> {
    let mut names = BTreeSet::new();
    for line in migrations.iter().flat_map(|m| m.sql.lines()) {
        let words: Vec<&str> = line.split([' ', ';']).collect();
        match words[..] {
            ["CREATE", "TRIGGER", name, ..] => {
                names.insert(name);
            }
            ["DROP", "TRIGGER", name, ..] => {
                names.remove(name);
            }
            _ => {}
        }
    }
    names
}
