//! The invariants, checked on a live database from one snapshot.

use consign_kernel::{Finding, Result};
use sqlx::postgres::PgRow;

use crate::{PostgresStore, error::store_error, rows};

/// Each statement answers with findings: code, what, remedy, ids.
const CHECKS: &[&str] = &[
    include_str!("../sql/doctor_places.sql"),
    include_str!("../sql/doctor_attempts.sql"),
    include_str!("../sql/doctor_counters.sql"),
    include_str!("../sql/doctor_runs.sql"),
    include_str!("../sql/doctor_turns.sql"),
    include_str!("../sql/doctor_payments.sql"),
    include_str!("../sql/doctor_guards.sql"),
    include_str!("../sql/doctor_orders.sql"),
    include_str!("../sql/doctor_memory.sql"),
    include_str!("../sql/doctor_scm.sql"),
];

impl PostgresStore {
    pub(crate) async fn doctor_impl(&self) -> Result<Vec<Finding>> {
        match self.findings().await {
            Ok(findings) => Ok(findings),
            Err(error) => Err(self.advised(error.of_read()).await),
        }
    }

    async fn findings(&self) -> Result<Vec<Finding>> {
        let failed = |error| store_error("doctor", error);
        let mut tx = self.pool().begin().await.map_err(failed)?;
        // Messages move while this looks; only one snapshot sees each in one place.
        sqlx::raw_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            .execute(&mut *tx)
            .await
            .map_err(failed)?;
        let mut findings = Vec::new();
        for check in CHECKS {
            let rows = sqlx::query(*check)
                .persistent(false)
                .fetch_all(&mut *tx)
                .await
                .map_err(failed)?;
            for row in &rows {
                findings.push(finding(row)?);
            }
        }
        Ok(findings)
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
