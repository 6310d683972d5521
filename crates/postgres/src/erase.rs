//! Erasure: content goes, history stays.

use async_trait::async_trait;
use consign_kernel::{
    By, Erase, Erasure, ErasureAnswer, ErasureResult, ErasureTarget, MessageId, Result, Step, Token,
};
use sqlx::postgres::PgRow;

use crate::{PostgresStore, pools::Use, retention::step, rows};

#[async_trait]
impl Erase for PostgresStore {
    async fn erase(&self, target: &ErasureTarget, by: &By) -> Result<Vec<ErasureResult>> {
        by.validate()?;
        target.validate()?;
        if target.is_impossible() {
            return Ok(Vec::new());
        }
        let By { actor, reason } = by;
        let statement = match target {
            ErasureTarget::Ids(ids) => {
                let sql = "SELECT * FROM consign.erase($1, $2, $3) ORDER BY id";
                let statement = sqlx::query(sql).bind(rows::ids(ids));
                statement.bind(actor).bind(reason)
            }
            ErasureTarget::Key { queue, key } => {
                let sql = "SELECT * FROM consign.erase_key($1, $2, $3, $4)";
                let statement = sqlx::query(sql).bind(queue.as_str()).bind(key);
                statement.bind(actor).bind(reason)
            }
            ErasureTarget::Correlation { id, after } => {
                let sql = "SELECT * FROM consign.erase_correlation($1, $2, $3, $4) ORDER BY id";
                let statement = sqlx::query(sql).bind(id).bind(actor).bind(reason);
                statement.bind(after.map(|after| after.0))
            }
        };
        let rows = self.fetch("erase messages", statement).await?;
        rows.iter().map(result).collect()
    }

    async fn due_erasures(&self, limit: u32) -> Result<Vec<(MessageId, Erasure)>> {
        let statement = sqlx::query(include_str!("../sql/due_erasures.sql")).bind(i64::from(limit));
        let rows = self
            .read_as(Use::Report, "read the erasures", statement)
            .await?;
        let due = |row| {
            let id = MessageId(rows::column(row, "message_id")?);
            let erasure = erasure(row)?;
            let erasure = erasure.ok_or_else(|| rows::corrupt("an erasure has no time"))?;
            Ok((id, erasure))
        };
        rows.iter().map(due).collect()
    }

    async fn record_cleared(&self, token: Token, ids: &[MessageId]) -> Result<Step<()>> {
        let statement = sqlx::query("SELECT consign.record_cleared($1, $2) AS refusal")
            .bind(token.0)
            .bind(rows::ids(ids));
        let rows = self.fetch("record cleared erasures", statement).await?;
        step(rows::only(&rows)?, |_| Ok(()))
    }
}

fn result(row: &PgRow) -> Result<ErasureResult> {
    let answer = match rows::column::<&str>(row, "answer")? {
        "erased" => ErasureAnswer::Erased,
        "already_erased" => ErasureAnswer::AlreadyErased,
        "not_final" => ErasureAnswer::NotFinal {
            state: rows::state(row)?,
        },
        "blocks_group" => ErasureAnswer::BlocksGroup,
        "needed" => ErasureAnswer::Needed,
        "app_queue" => ErasureAnswer::AppQueue,
        "departed" => ErasureAnswer::Departed,
        "no_such_message" => ErasureAnswer::NoSuchMessage,
        other => return Err(rows::corrupt(format!("answer {other:?}"))),
    };
    Ok(ErasureResult {
        id: MessageId(rows::column(row, "id")?),
        answer,
    })
}

/// The erasure of a message, from the columns of `erasure`; none where they are null.
pub(crate) fn erasure(row: &PgRow) -> Result<Option<Erasure>> {
    let Some(at) = rows::optional_time(row, "erased_at")? else {
        return Ok(None);
    };
    Ok(Some(Erasure {
        at,
        actor: rows::column(row, "erased_by")?,
        reason: rows::column(row, "erased_reason")?,
        digest: rows::column(row, "erased_digest")?,
    }))
}
