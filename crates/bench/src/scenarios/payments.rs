//! Payments over SQL, as a worker in any language calls it, beside the design they come from.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use sqlx::{Connection, PgConnection, Row, types::Uuid};

use super::{Answer, Plan};
use crate::{
    Bound, Figure, Measure, Unit,
    drain::{self, WorkStep, Worker},
    scratch::Scratch,
};

const BATCH: u32 = 100;
const WORKER: &str = "bench-worker-1";
const LEAST: f64 = 3.0;

pub(super) async fn run(plan: &Plan, scratch: &Scratch) -> Result<Answer> {
    let mut connection = scratch.connect().await?;
    sqlx::raw_sql(include_str!("../../sql/payments_control.sql"))
        .execute(&mut connection)
        .await?;
    connection.close().await?;
    let mut subject = Consign::connect(scratch).await?;
    let mut each = Control::connect(scratch, Commit::Each).await?;
    let mut together = Control::connect(scratch, Commit::Together).await?;
    let payments = plan.counts.wal;
    let (mut beside_each, mut beside_together) = (Vec::new(), Vec::new());
    for round in 0..plan.rounds {
        fill(scratch, "fill_consign", round, 0, payments).await?;
        let own = drain::rate(&mut subject, payments, BATCH).await?;
        fill(scratch, "fill", round, 0, payments).await?;
        let other = drain::rate(&mut each, payments, BATCH).await?;
        fill(scratch, "fill", round, 1, payments).await?;
        let third = drain::rate(&mut together, payments, BATCH).await?;
        plan.say(format!(
            "{own:.0}/s, control {other:.0}/s, {third:.0}/s with one commit a batch"
        ));
        beside_each.push((own, other));
        beside_together.push((own, third));
    }
    let unit = Unit::MessagesPerSecond;
    let name = "claimed by 100, completed by 100";
    let figures = vec![
        Figure::beside(name, unit, "a row at a time", &beside_each).target(
            Measure::Ratio,
            Bound::AtLeast,
            LEAST,
        ),
        Figure::beside(
            format!("  {name}, the control with one commit a batch"),
            unit,
            "a row at a time, committed together",
            &beside_together,
        ),
    ];
    let notes = vec![format!(
        "one connection a side, {payments} payments a round, each enqueued by a call of its own; consign: claim_outbox_batch and \
         complete_outbox_attempts; the control: lease columns on the pending row, complete_outbox_attempt for every row, a \
         transaction each as its relayer does it, and as a second figure all of a batch in one transaction"
    )];
    Ok((figures, notes))
}

/// Fills one side, in transactions of 100, and brings everything to rest.
async fn fill(
    scratch: &Scratch,
    procedure: &'static str,
    round: u32,
    side: u32,
    payments: u32,
) -> Result<()> {
    let sql = match procedure {
        "fill" => "CALL consign_bench_payments.fill($1, $2, $3)",
        _ => "CALL consign_bench_payments.fill_consign($1, $2, $3)",
    };
    let mut connection = scratch.connect().await?;
    sqlx::raw_sql("SET synchronous_commit = off")
        .execute(&mut connection)
        .await?;
    sqlx::query(sql)
        .bind(format!("round-{round}-{side}"))
        .bind(i32::try_from(payments)?)
        .bind(i32::try_from(BATCH)?)
        .execute(&mut connection)
        .await
        .with_context(|| sql.to_owned())?;
    connection.close().await?;
    scratch.run("VACUUM (ANALYZE)").await?;
    scratch.checkpoint().await
}

/// A worker in SQL on consign.
struct Consign {
    connection: PgConnection,
}

impl Consign {
    async fn connect(scratch: &Scratch) -> Result<Self> {
        let connection = scratch.connect().await?;
        Ok(Self { connection })
    }
}

impl Worker for Consign {
    async fn work(&mut self, limit: u32) -> Result<Option<WorkStep>> {
        let started = Instant::now();
        let rows = sqlx::query(
            "SELECT outbox_id, payload::text AS payload, lease_token FROM consign.claim_outbox_batch($1, $2, 60)",
        )
        .bind(i32::try_from(limit)?)
        .bind(WORKER)
        .fetch_all(&mut self.connection)
        .await
        .context("consign: claim")?;
        let Some(first) = rows.first() else {
            return Ok(None);
        };
        let token: Uuid = first.try_get("lease_token")?;
        let mut ids: Vec<Uuid> = Vec::with_capacity(rows.len());
        for row in &rows {
            let payload: &str = row.try_get("payload")?;
            ensure!(payload.starts_with('{'), "a payload comes back");
            ids.push(row.try_get("outbox_id")?);
        }
        let claimed = Instant::now();
        let references: Vec<String> = ids.iter().map(|id| format!("rail-{id}")).collect();
        let done = sqlx::query(
            "SELECT * FROM consign.complete_outbox_attempts($1, $2, $3, \
             array_fill('DISPATCHED'::consign.outbox_attempt_state, ARRAY[cardinality($3)]), $4)",
        )
        .bind(token)
        .bind(WORKER)
        .bind(&ids)
        .bind(&references)
        .fetch_all(&mut self.connection)
        .await
        .context("consign: complete")?;
        ensure!(done.len() == ids.len(), "an answer for every payment");
        Ok(Some(WorkStep {
            messages: u32::try_from(ids.len())?,
            claim: claimed - started,
            settle: claimed.elapsed(),
        }))
    }
}

/// Whether completions of a batch are one transaction.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Commit {
    Each,
    Together,
}

/// A worker of the control.
struct Control {
    connection: PgConnection,
    commit: Commit,
}

impl Control {
    async fn connect(scratch: &Scratch, commit: Commit) -> Result<Self> {
        let connection = scratch.connect().await?;
        Ok(Self { connection, commit })
    }

    async fn complete(&mut self, leased: &[(Uuid, Uuid)]) -> Result<()> {
        for (id, token) in leased {
            sqlx::query(
                "SELECT consign_bench_payments.complete_outbox_attempt($1, $2, $3, 'DISPATCHED', $4)",
            )
            .bind(id)
            .bind(token)
            .bind(WORKER)
            .bind(format!("rail-{id}"))
            .execute(&mut self.connection)
            .await
            .context("control: complete")?;
        }
        Ok(())
    }
}

impl Worker for Control {
    async fn work(&mut self, limit: u32) -> Result<Option<WorkStep>> {
        let started = Instant::now();
        let rows = sqlx::query(
            "SELECT outbox_id, payload::text AS payload, lease_token \
             FROM consign_bench_payments.claim_outbox_batch($1, $2, 60)",
        )
        .bind(i32::try_from(limit)?)
        .bind(WORKER)
        .fetch_all(&mut self.connection)
        .await
        .context("control: claim")?;
        if rows.is_empty() {
            return Ok(None);
        }
        let mut leased: Vec<(Uuid, Uuid)> = Vec::with_capacity(rows.len());
        for row in &rows {
            let payload: &str = row.try_get("payload")?;
            ensure!(payload.starts_with('{'), "a payload comes back");
            leased.push((row.try_get("outbox_id")?, row.try_get("lease_token")?));
        }
        let claimed = Instant::now();
        let begins = self.commit == Commit::Together;
        if begins {
            sqlx::raw_sql("BEGIN").execute(&mut self.connection).await?;
        }
        self.complete(&leased).await?;
        if begins {
            sqlx::raw_sql("COMMIT")
                .execute(&mut self.connection)
                .await?;
        }
        Ok(Some(WorkStep {
            messages: u32::try_from(leased.len())?,
            claim: claimed - started,
            settle: claimed.elapsed(),
        }))
    }
}
