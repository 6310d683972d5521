//! What needs an operator, and what operators acknowledged.

use async_trait::async_trait;
use consign_kernel::{
    ACKNOWLEDGEMENTS_MAX, ATTENTION_MAX, Acknowledgement, AlertReason, Attention, BlockedGroups,
    By, OverdueSchedule, ProblemMark, Problems, Severity, StuckAlert, TICK_LATE_MAX,
};
use jiff::Timestamp;
use sqlx::SqliteConnection;

use crate::{
    SqliteStore,
    error::{Failure, Result},
    job::Work,
    rows, sql,
    store::{snapshot, write},
};

#[async_trait]
impl Problems for SqliteStore {
    async fn attention(&self) -> consign_kernel::Result<Attention> {
        let now = self.now();
        snapshot!(self, "read what needs an operator", |tx| attention(
            &mut tx, now
        ))
    }

    async fn acknowledge(
        &self,
        mark: &ProblemMark,
        by: &By,
    ) -> consign_kernel::Result<Acknowledgement> {
        write!(self, "acknowledge a problem", (mark, by), |work| work
            .acknowledge(&mark, &by))
    }

    async fn reopen(&self, problem: &str, by: &By) -> consign_kernel::Result<bool> {
        write!(self, "reopen a problem", (problem, by), |work| work
            .reopen(&problem, &by))
    }
}

impl Work<'_> {
    async fn acknowledge(&mut self, mark: &ProblemMark, by: &By) -> Result<Acknowledgement> {
        by.validate()?;
        mark.validate()?;
        let recorded = by.of_problem(&mark.problem)?;
        let acknowledgement = mark.at(self.now, by);
        sqlx::query(sql!("acknowledgement_forget"))
            .bind(rows::micros(self.now))
            .execute(&mut *self.connection)
            .await?;
        sqlx::query(sql!("acknowledgement_put"))
            .bind(&mark.problem)
            .bind(mark.severity.as_str())
            .bind(rows::micros(acknowledgement.at))
            .bind(rows::micros(acknowledgement.until))
            .bind(&by.actor)
            .bind(&by.reason)
            .execute(&mut *self.connection)
            .await?;
        self.record_actions(&recorded, "acknowledge", &[(mark.queue.as_ref(), None)])
            .await?;
        Ok(acknowledgement)
    }

    async fn reopen(&mut self, problem: &str, by: &By) -> Result<bool> {
        by.validate()?;
        let recorded = by.of_problem(problem)?;
        let removed = sqlx::query(sql!("acknowledgement_remove"))
            .bind(problem)
            .execute(&mut *self.connection)
            .await?;
        if removed.rows_affected() == 0 {
            return Ok(false);
        }
        self.record_actions(&recorded, "reopen", &[(None, None)])
            .await?;
        Ok(true)
    }
}

async fn attention(connection: &mut SqliteConnection, now: Timestamp) -> Result<Attention> {
    let blocked: Vec<(String, i64, i64)> = sqlx::query_as(sql!("attention_blocked"))
        .bind(ATTENTION_MAX)
        .fetch_all(&mut *connection)
        .await?;
    let blocked = blocked.into_iter().map(|(queue, groups, since)| {
        Ok(BlockedGroups {
            queue: rows::queue_name(&queue)?,
            groups: groups.unsigned_abs(),
            since: rows::timestamp(since)?,
        })
    });
    type AlertColumns = (String, String, String, i64, i64, String);
    let alerts: Vec<AlertColumns> = sqlx::query_as(sql!("attention_alerts"))
        .bind(ATTENTION_MAX)
        .fetch_all(&mut *connection)
        .await?;
    let overdue: Vec<(String, String, i64)> = sqlx::query_as(sql!("attention_overdue"))
        .bind(rows::micros(now) - TICK_LATE_MAX.as_micros() as i64)
        .bind(ATTENTION_MAX)
        .fetch_all(&mut *connection)
        .await?;
    let overdue = overdue.into_iter().map(|(name, queue, due_at)| {
        Ok(OverdueSchedule {
            name: name
                .parse()
                .map_err(|_| Failure::corrupt(format!("{name:?} is not the name of a schedule")))?,
            queue: rows::queue_name(&queue)?,
            due_at: rows::timestamp(due_at)?,
        })
    });
    type Columns = (String, String, i64, i64, String, String);
    let known: Vec<Columns> = sqlx::query_as(sql!("acknowledgement_list"))
        .bind(rows::micros(now))
        .bind(ACKNOWLEDGEMENTS_MAX)
        .fetch_all(connection)
        .await?;
    let known = known
        .into_iter()
        .map(|(problem, severity, at, until, actor, reason)| {
            Ok(Acknowledgement {
                problem,
                severity: Severity::from_word(&severity)
                    .ok_or_else(|| Failure::corrupt(format!("{severity:?} is not a severity")))?,
                at: rows::timestamp(at)?,
                until: rows::timestamp(until)?,
                actor,
                reason,
            })
        });
    Ok(Attention {
        now,
        blocked: blocked.collect::<Result<_>>()?,
        alerts: alerts.into_iter().map(alert).collect::<Result<_>>()?,
        overdue: overdue.collect::<Result<_>>()?,
        acknowledgements: known.collect::<Result<_>>()?,
    })
}

fn alert(
    (queue, reason, code, pending, since, failure): (String, String, String, i64, i64, String),
) -> Result<StuckAlert> {
    Ok(StuckAlert {
        queue: rows::queue_name(&queue)?,
        reason: AlertReason::from_word(&reason)
            .ok_or_else(|| Failure::corrupt(format!("{reason:?} is not the reason of an alert")))?,
        code,
        pending: pending.unsigned_abs(),
        since: rows::timestamp(since)?,
        failure,
    })
}
