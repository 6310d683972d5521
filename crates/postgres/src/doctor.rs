//! The invariants, checked on a live database from one snapshot.

use consign_kernel::{Error, Finding, Result};
use sqlx::{Acquire as _, postgres::PgRow};

use crate::{PostgresStore, error::store_error, rows};

/// What each is about, and a statement that answers with findings: code, what, remedy, ids.
const CHECKS: &[(&str, &str)] = &[
    ("states", include_str!("../sql/doctor_states.sql")),
    ("attempts", include_str!("../sql/doctor_attempts.sql")),
    ("counters", include_str!("../sql/doctor_counters.sql")),
    ("batches", include_str!("../sql/doctor_batches.sql")),
    ("heads", include_str!("../sql/doctor_heads.sql")),
    ("guards", include_str!("../sql/doctor_guards.sql")),
    ("ranges", include_str!("../sql/doctor_ranges.sql")),
    ("erasures", include_str!("../sql/doctor_erasures.sql")),
    ("alerts", include_str!("../sql/doctor_alerts.sql")),
    ("hooks", include_str!("../sql/doctor_hooks.sql")),
];

impl PostgresStore {
    /// What was found, and which checks this login may not make.
    pub(crate) async fn findings(&self) -> Result<(Vec<Finding>, Vec<(&'static str, Error)>)> {
        let failed = |error| store_error("doctor", error);
        let mut tx = self.pool().begin().await.map_err(failed)?;
        // Messages move meanwhile; only one snapshot sees each in one state.
        sqlx::raw_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            .execute(&mut *tx)
            .await
            .map_err(failed)?;
        // The snapshot must not be older than the last replacement of a range, so the lock that
        // replacements wait for comes first. A login that may not read messages makes no check of them.
        let mut savepoint = tx.begin().await.map_err(failed)?;
        let locked = sqlx::raw_sql("LOCK TABLE ONLY consign.message IN ACCESS SHARE MODE")
            .execute(&mut *savepoint)
            .await
            .map_err(failed);
        match locked {
            Ok(_) => savepoint.commit().await.map_err(failed)?,
            Err(Error::Forbidden { .. }) => savepoint.rollback().await.map_err(failed)?,
            Err(error) => return Err(error),
        }
        let (mut findings, mut refused) = (Vec::new(), Vec::new());
        let apps = self.components.iter().flat_map(|app| app.checks);
        for (about, check) in CHECKS.iter().chain(apps) {
            let mut savepoint = tx.begin().await.map_err(failed)?;
            let rows = sqlx::query(*check)
                .persistent(false)
                .fetch_all(&mut *savepoint)
                .await
                .map_err(failed);
            match rows {
                Ok(rows) => {
                    for row in &rows {
                        findings.push(finding(row)?);
                    }
                    savepoint.commit().await.map_err(failed)?;
                }
                Err(error @ Error::Forbidden { .. }) => {
                    refused.push((*about, error));
                    savepoint.rollback().await.map_err(failed)?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok((findings, refused))
    }
}

fn finding(row: &PgRow) -> Result<Finding> {
    Ok(Finding {
        code: rows::column(row, "code")?,
        what: rows::column(row, "what")?,
        remedy: rows::column(row, "remedy")?,
        ids: rows::message_ids(rows::column(row, "ids")?),
    })
}
