//! Evidence of rejected completions.

use consign_kernel::{MessageId, Report, Token};
use consign_sqlite::extension::{Result, late_rows, rows};

use super::{PaymentWork, complete::check, rows as payments, sql};
use crate::{Completion, OutboxId};

impl PaymentWork<'_, '_> {
    pub(super) async fn record_late_payments(
        &mut self,
        token: Token,
        worker: &str,
        completions: &[Completion],
    ) -> Result<Vec<OutboxId>> {
        check(completions)?;
        let ids: Vec<OutboxId> = completions.iter().map(|c| c.outbox_id).collect();
        let messages = payments::messages(self.connection, &ids).await?;
        let known: Vec<MessageId> = messages.iter().copied().flatten().collect();
        let earlier = self.completions_under(token, worker, &known).await?;
        let mut reports: Vec<Report> = Vec::new();
        for (completion, id) in completions.iter().zip(&messages) {
            // `in_doubt` is not part of the rail's answer.
            let evidence = Completion {
                in_doubt: None,
                ..completion.clone()
            };
            let Some(id) = *id else { continue };
            if !earlier
                .get(&id)
                .is_some_and(|earlier| earlier.is(&evidence))
            {
                reports.extend(evidence.evidence(id).map(Report::bounded));
            }
        }
        sqlx::query(sql!("payment_late_append"))
            .bind(late_rows(&reports))
            .bind(token.0)
            .bind(rows::micros(self.now))
            .bind(worker)
            .execute(&mut *self.connection)
            .await?;
        let kept = self.late_kept(&known, token, Some(worker)).await?;
        let is_on_record = |id: MessageId| kept.contains(&id) || earlier.contains_key(&id);
        let pairs = ids.into_iter().zip(messages);
        let on_record = pairs.filter(|(_, id)| id.is_some_and(is_on_record));
        Ok(on_record.map(|(id, _)| id).collect())
    }
}
