//! Late results: kept beside the attempts, without effect on the message's state.

use std::collections::BTreeSet;

use consign_kernel::{
    AttemptOutcome, Fence, LateResult, MessageId, Outcome, QueueName, Report, Token,
    plan::reject_repeats, stored_result,
};
use sqlx::SqliteConnection;
use uuid::Uuid;

use crate::{
    error::{Failure, Result},
    job::Work,
    rows, sql,
};

impl Work<'_> {
    /// Keeps results about messages this token held and lost; answers which are on record.
    pub async fn record_late(
        &mut self,
        token: Token,
        reports: &[Report],
    ) -> Result<Vec<MessageId>> {
        let reports: Vec<Report> = reports.iter().cloned().map(Report::bounded).collect();
        reject_repeats(&reports)?;
        let ids: Vec<MessageId> = reports.iter().map(|report| report.id).collect();
        let found = self.states(&ids.iter().copied().collect()).await?;
        let queues: BTreeSet<&QueueName> = found.values().map(|found| &found.queue).collect();
        self.policies(queues).await?;
        sqlx::query(sql!("late_append"))
            .bind(late_rows(&reports))
            .bind(token.0)
            .bind(rows::micros(self.now))
            .bind(self.components.kept_members())
            .execute(&mut *self.connection)
            .await?;
        let kept = self.late_kept(&ids, token, None).await?;
        for (hook, ids) in self.components.hooks_among(&found, &kept) {
            hook.late(self, &ids, token).await?;
        }
        Ok(kept)
    }

    /// Those of these messages that have a late result of this token (and owner), in order.
    pub async fn late_kept(
        &mut self,
        ids: &[MessageId],
        token: Token,
        owner: Option<&str>,
    ) -> Result<Vec<MessageId>> {
        let kept: Vec<i64> = sqlx::query_scalar(sql!("late_kept"))
            .bind(rows::id_array(ids))
            .bind(token.0)
            .bind(owner)
            .fetch_all(&mut *self.connection)
            .await?;
        Ok(kept.into_iter().map(MessageId).collect())
    }
}

/// Reports as parameters of `late_append.sql`.
pub fn late_rows(reports: &[Report]) -> String {
    let row = |report: &Report| {
        let outcome = AttemptOutcome::from(report.outcome).as_str();
        let result = report.result.as_ref().map(rows::json);
        rows::json(&(report.id, outcome, &report.code, &report.detail, result))
    };
    let rows: Vec<String> = reports.iter().map(row).collect();
    format!("[{}]", rows.join(","))
}

type LateColumns = (
    i64,
    Uuid,
    i64,
    String,
    String,
    Option<String>,
    Option<String>,
    Option<String>,
    i64,
);

/// The late results about a message.
pub async fn late(connection: &mut SqliteConnection, id: MessageId) -> Result<Vec<LateResult>> {
    let found: Vec<LateColumns> = sqlx::query_as(sql!("late_list"))
        .bind(id.0)
        .fetch_all(connection)
        .await?;
    let late = |(id, token, fence, owner, outcome, code, detail, result, at): LateColumns| {
        Ok(LateResult {
            message_id: MessageId(id),
            token: Token(token),
            fence: Fence(fence),
            owner,
            outcome: reported(&outcome)?,
            code,
            detail,
            result: result.as_deref().map(stored_result),
            at: rows::timestamp(at)?,
        })
    };
    found.into_iter().map(late).collect()
}

fn reported(word: &str) -> Result<Outcome> {
    let outcome = rows::attempt_outcome(word)?.reported();
    outcome.ok_or_else(|| {
        Failure::corrupt(format!(
            "outcome {word:?} of a late result is not one that workers report"
        ))
    })
}
