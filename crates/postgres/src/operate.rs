//! Operator actions on messages and leases.

use async_trait::async_trait;
use consign_kernel::{
    By, EndedLease, Error, Fence, Message, MessageId, MoveResult, Operate, Payload, QueueName,
    Resolution, Result, TokenPrefix,
};

use crate::{PostgresStore, rows};

#[async_trait]
impl Operate for PostgresStore {
    async fn requeue(&self, ids: &[MessageId], by: &By) -> Result<Vec<MoveResult>> {
        self.move_by_hand("SELECT * FROM consign.requeue($1, $2, $3)", ids, by)
            .await
    }

    async fn hold(&self, ids: &[MessageId], by: &By) -> Result<Vec<MoveResult>> {
        self.move_by_hand("SELECT * FROM consign.hold($1, $2, $3)", ids, by)
            .await
    }

    async fn unhold(&self, ids: &[MessageId], by: &By) -> Result<Vec<MoveResult>> {
        self.move_by_hand("SELECT * FROM consign.unhold($1, $2, $3)", ids, by)
            .await
    }

    async fn resolve(
        &self,
        ids: &[MessageId],
        resolution: &Resolution,
        by: &By,
    ) -> Result<Vec<MoveResult>> {
        by.validate()?;
        if let Some(text) = resolution.result() {
            // `jsonb` would keep the last of two equal names without an error.
            Payload::parse(text)
                .map_err(|why| Error::invalid("result", format!("must be JSON: {why}")))?;
        }
        let sql = "SELECT * FROM consign.resolve($1, $2, $3, $4, $5::text::jsonb)";
        let statement = sqlx::query(sql)
            .bind(rows::ids(ids))
            .bind(resolution.as_str())
            .bind(&by.actor)
            .bind(&by.reason)
            .bind(resolution.result());
        let rows = self.fetch("resolve messages", statement).await?;
        rows.iter().map(rows::moved).collect()
    }

    async fn discard(&self, ids: &[MessageId], by: &By) -> Result<Vec<MoveResult>> {
        self.move_by_hand("SELECT * FROM consign.discard($1, $2, $3)", ids, by)
            .await
    }

    async fn cancel(&self, ids: &[MessageId], by: &By) -> Result<Vec<MoveResult>> {
        self.move_by_hand("SELECT * FROM consign.cancel($1, $2, $3)", ids, by)
            .await
    }

    async fn skip(&self, queue: &QueueName, group: &str, by: &By) -> Result<Option<MoveResult>> {
        by.validate()?;
        if group.contains('\0') {
            // No group has such a name, and the database cannot look for it.
            return Ok(None);
        }
        let statement = sqlx::query("SELECT * FROM consign.skip($1, $2, $3, $4)")
            .bind(queue.as_str())
            .bind(group)
            .bind(&by.actor)
            .bind(&by.reason);
        let rows = self.fetch("skip the head of a group", statement).await?;
        rows.first().map(rows::moved).transpose()
    }

    async fn end_lease(&self, prefix: &TokenPrefix, by: &By) -> Result<EndedLease> {
        by.validate()?;
        let statement = sqlx::query("SELECT * FROM consign.terminate_lease($1, $2, $3)")
            .bind(prefix.as_str())
            .bind(&by.actor)
            .bind(&by.reason);
        let rows = self.fetch("end a lease", statement).await?;
        let row = rows::only(&rows)?;
        Ok(EndedLease {
            fence: Fence(rows::column(row, "fence")?),
            queue: rows::queue_name(row, "queue")?,
            owner: rows::column(row, "owner")?,
            messages: rows::count(row, "messages")?,
        })
    }

    async fn reveal(&self, id: MessageId, by: &By) -> Result<Option<Message>> {
        by.validate()?;
        let statement = sqlx::query("SELECT * FROM consign.reveal($1, $2, $3)")
            .bind(id.0)
            .bind(&by.actor)
            .bind(&by.reason);
        let rows = self.fetch("show a payload", statement).await?;
        let message = |row| rows::message(row, rows::queue_name(row, "queue")?);
        rows.first().map(message).transpose()
    }

    async fn resend(
        &self,
        id: MessageId,
        payload: Option<&Payload>,
        by: &By,
    ) -> Result<Option<MessageId>> {
        by.of_copy(MessageId(i64::MAX))?;
        let statement = sqlx::query("SELECT consign.resend($1, $2::jsonb, $3, $4) AS id")
            .bind(id.0)
            .bind(payload.map(|payload| payload.as_str().to_owned()))
            .bind(&by.actor)
            .bind(&by.reason);
        let rows = self.fetch("send a message again", statement).await?;
        let copy: Option<i64> = rows::column(rows::only(&rows)?, "id")?;
        Ok(copy.map(MessageId))
    }
}

impl PostgresStore {
    async fn move_by_hand(
        &self,
        function: &'static str,
        ids: &[MessageId],
        by: &By,
    ) -> Result<Vec<MoveResult>> {
        by.validate()?;
        let statement = sqlx::query(function)
            .bind(rows::ids(ids))
            .bind(&by.actor)
            .bind(&by.reason);
        let rows = self.fetch("move messages", statement).await?;
        rows.iter().map(rows::moved).collect()
    }
}
