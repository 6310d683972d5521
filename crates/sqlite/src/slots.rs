//! What all processes together keep of a queue: how many messages are leased, and when they are sent.

use consign_kernel::{QueueName, SendSlots, SlotReservation};

use crate::{error::Result, job::Work, queues::unknown_queue, rows, sql};

impl Work<'_> {
    /// Messages of a queue in leases.
    pub(crate) async fn leased(&mut self, queue: &QueueName) -> Result<u64> {
        let leased: i64 = sqlx::query_scalar(sql!("lease_messages"))
            .bind(queue.as_str())
            .fetch_one(&mut *self.connection)
            .await?;
        Ok(u64::try_from(leased).unwrap_or(0))
    }

    /// Reserves send slots, if the queue has a rate for all processes.
    pub(crate) async fn reserve_slots(
        &mut self,
        queue: &QueueName,
        count: u32,
    ) -> Result<Option<SendSlots>> {
        let Some((_, policy)) = self.policies([queue]).await?.into_iter().next() else {
            return Err(unknown_queue(self.connection, queue).await);
        };
        let Some(rate) = policy.total_rate_per_second else {
            return Ok(None);
        };
        let last: Option<(i64, i64)> = sqlx::query_as(sql!("slot_at"))
            .bind(queue.as_str())
            .fetch_optional(&mut *self.connection)
            .await?;
        let last = match last {
            Some((next_at, at)) => Some(SlotReservation {
                next_at: rows::timestamp(next_at)?,
                at: rows::timestamp(at)?,
            }),
            None => None,
        };
        let (slots, last) = SendSlots::reserve(rate, last, self.now, count);
        sqlx::query(sql!("slot_set"))
            .bind(queue.as_str())
            .bind(rows::micros(last.next_at))
            .bind(rows::micros(last.at))
            .execute(&mut *self.connection)
            .await?;
        Ok(Some(slots))
    }
}
