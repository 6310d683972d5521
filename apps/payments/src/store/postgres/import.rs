//! Imports the tables of the former design, which deleted rows on claim.

use consign_kernel::Result;
use consign_postgres::{
    PostgresStore,
    extension::{Use, rows},
};
use sqlx::postgres::PgRow;

use crate::ImportReport;

/// Maximum payments listed with a reason.
const NAMED_MAX: usize = 100;

pub(super) async fn import(
    store: &PostgresStore,
    from_schema: &str,
    is_dry_run: bool,
) -> Result<ImportReport> {
    let sql = "SELECT outbox_id::text AS outbox_id, action, detail FROM consign.import_payment_outbox($1, $2)";
    let statement = sqlx::query(sql).bind(from_schema).bind(is_dry_run);
    let rows = store
        .fetch_as(Use::Report, "import payments", statement)
        .await?;
    let mut report = ImportReport::default();
    for row in &rows {
        match rows::column::<&str>(row, "action")? {
            "pending" => report.pending += 1,
            "requeued_dispatching" => report.requeued_dispatching += 1,
            "requeued_retryable" => report.requeued_retryable += 1,
            "finished" => report.finished += 1,
            "already_here" => report.already_here += 1,
            "paid_there" => report.paid_there += 1,
            "failed_there" => report.failed_there += 1,
            "tried_there" => report.tried_there += 1,
            "paid_twice" => name(&mut report.paid_twice, row)?,
            "refused" => name(&mut report.refused, row)?,
            other => return Err(rows::corrupt(format!("unknown import action {other:?}"))),
        }
    }
    Ok(report)
}

fn name(named: &mut Vec<String>, row: &PgRow) -> Result<()> {
    if named.len() < NAMED_MAX {
        let id: &str = rows::column(row, "outbox_id")?;
        let why: Option<&str> = rows::column(row, "detail")?;
        named.push(format!("{id}: {}", why.unwrap_or("no reason")));
    }
    Ok(())
}
