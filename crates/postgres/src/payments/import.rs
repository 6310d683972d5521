//! Taking over the tables of the design that deleted on claim.

use consign_kernel::Result;
use consign_payments::ImportReport;

use crate::{PostgresStore, rows};

/// Most reasons for what was refused.
const REFUSED_MAX: usize = 100;

impl PostgresStore {
    pub(super) async fn import_impl(
        &self,
        from_schema: &str,
        is_dry_run: bool,
    ) -> Result<ImportReport> {
        let sql = "SELECT outbox_id::text AS outbox_id, action, detail FROM consign.import_payment_outbox($1, $2)";
        let statement = sqlx::query(sql).bind(from_schema).bind(is_dry_run);
        let rows = self.fetch("import payments", statement).await?;
        let mut report = ImportReport::default();
        for row in &rows {
            match rows::column::<&str>(row, "action")? {
                "pending" => report.pending += 1,
                "requeued_dispatching" => report.requeued_dispatching += 1,
                "requeued_retryable" => report.requeued_retryable += 1,
                "finished" => report.finished += 1,
                "already_here" => report.already_here += 1,
                "refused" if report.refused.len() < REFUSED_MAX => {
                    let id: &str = rows::column(row, "outbox_id")?;
                    let why: Option<&str> = rows::column(row, "detail")?;
                    let why = why.unwrap_or("no reason given");
                    report.refused.push(format!("{id}: {why}"));
                }
                "refused" => {}
                other => return Err(rows::corrupt(format!("action {other:?}"))),
            }
        }
        Ok(report)
    }
}
