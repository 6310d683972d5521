//! Splits a batch that the database rejects, to find the rejected record.

use serde_json::json;

use super::Writer;
use crate::{Batch, LedgerError, Mode, Records, ScmError, Watermark};

impl Writer<'_, '_> {
    /// Every other error ends the synchronisation. A rejected record ends it too or is skipped; the
    /// records before it are written, and the watermark moves when the whole batch is done.
    pub(super) async fn refused(
        &mut self,
        batch: Batch,
        error: LedgerError,
    ) -> Result<(), ScmError> {
        let LedgerError::Refused(why) = error else {
            return Err(error.into());
        };
        // A missing watermark is the beginning.
        let beginning = || Watermark::default().to_value();
        let here = self.stored.clone().unwrap_or_else(beginning);
        // The last part first on the stack, so that history is written in order.
        let mut parts = halves(batch.records, why);
        while let Some((records, why)) = parts.pop() {
            let Some(why) = why else {
                let part = self.batch(records, here.clone());
                match self.this.ledger.record(&part).await {
                    Ok(recorded) => {
                        self.count(recorded);
                        self.stored = Some(here.clone());
                    }
                    Err(LedgerError::Refused(why)) => parts.extend(halves(part.records, why)),
                    Err(error) => return Err(error.into()),
                }
                continue;
            };
            self.skip(&records, why).await?;
        }
        let none = Records::none(self.stream);
        let moved = self.batch(none, batch.to);
        self.this.ledger.record(&moved).await?;
        self.stored = Some(moved.to);
        Ok(())
    }

    /// Skips one record.
    async fn skip(&mut self, record: &Records, why: String) -> Result<(), ScmError> {
        let name = record.first_name();
        if self.this.options.mode == Mode::Strict {
            return Err(LedgerError::Refused(format!("{name}: {why}")).into());
        }
        let payload = json!({"record": name, "error": why, "stream": self.stream});
        let repo_id = self.this.repo.repo_id;
        self.this
            .ledger
            .note(repo_id, "scm_record_skipped", &payload)
            .await?;
        tracing::warn!(repo_id, record = %name, error = %why, "a record was skipped");
        self.synced.skipped += 1;
        self.skipped.extend(record.changes());
        Ok(())
    }
}

/// The parts to try next, the last first. A single record is rejected by itself.
fn halves(records: Records, why: String) -> Vec<(Records, Option<String>)> {
    match records.len() {
        0 | 1 => vec![(records, Some(why))],
        length => {
            let (first, second) = records.split(length / 2);
            vec![(second, None), (first, None)]
        }
    }
}
