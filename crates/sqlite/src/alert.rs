//! Alerts: recording what happened, and enqueueing what is due.

use std::collections::BTreeMap;

use async_trait::async_trait;
use consign_failpoint::kill_at;
use consign_kernel::{
    ALERT_MESSAGES_MAX, AlertReason, AlertStep, Alerts, MessageId, QueueName, QueuePolicy,
    RefusedAlert, alert_code,
    plan::{AlertBoard, AlertEvent, AlertKey, AlertRow, later},
};
use sqlx::{Row, sqlite::SqliteRow};

use crate::{
    SqliteStore,
    error::{Failure, Result},
    job::Work,
    queues, rows, sql,
    store::write,
};

#[async_trait]
impl Alerts for SqliteStore {
    async fn record_breaker_open(
        &self,
        queue: &QueueName,
        code: Option<&str>,
    ) -> consign_kernel::Result<()> {
        let code = alert_code(code);
        write!(self, "record an open breaker", (queue, code), |work| work
            .record_breaker_open(&queue, &code))
    }

    async fn step_alerts(&self, limit: u32) -> consign_kernel::Result<AlertStep> {
        let stepped = write!(self, "step the alerts", (), |work| work.step_alerts(limit))?;
        kill_at("alerts_committed");
        Ok(stepped)
    }
}

/// The policies of the queues that have alerts.
type Policies = BTreeMap<QueueName, QueuePolicy>;

impl Work<'_> {
    /// Keeps events of a queue for the next step, if the queue has alerts.
    pub(crate) async fn record_events(
        &mut self,
        policy: &QueuePolicy,
        events: &[AlertEvent],
    ) -> Result<()> {
        if policy.alert_queue.is_none() || events.is_empty() {
            return Ok(());
        }
        let row = |event: &AlertEvent| {
            let AlertKey {
                queue,
                reason,
                code,
            } = &event.key;
            let at = rows::micros(event.at);
            rows::json(&(queue, reason, code, event.count, event.message_id, at))
        };
        let events: Vec<String> = events.iter().map(row).collect();
        sqlx::query(sql!("alert_event_append"))
            .bind(format!("[{}]", events.join(",")))
            .execute(&mut *self.connection)
            .await?;
        Ok(())
    }

    async fn record_breaker_open(&mut self, name: &QueueName, code: &str) -> Result<()> {
        let Some(queue) = queues::queue(self.connection, name).await? else {
            return Err(queues::unknown_queue(self.connection, name).await);
        };
        let event = AlertEvent {
            key: AlertKey {
                queue: name.clone(),
                reason: AlertReason::BreakerOpen,
                code: code.to_owned(),
            },
            count: 1,
            message_id: None,
            at: self.now,
        };
        self.record_events(&queue.policy, &[event]).await
    }

    /// Counts up to `limit` events, and enqueues the alerts that are due.
    async fn step_alerts(&mut self, limit: u32) -> Result<AlertStep> {
        AlertStep::validate(limit)?;
        let events = self.take_events(limit).await?;
        let policies = self.alert_policies().await?;
        let before = self.alert_board().await?;
        let mut board = before.clone();
        let mut step = AlertStep {
            events: events.len() as u64,
            ..AlertStep::default()
        };
        for event in events {
            if let Some(policy) = policies.get(&event.key.queue) {
                board.count(event, policy.alert_interval());
            }
        }
        for (name, policy) in &policies {
            self.look_at_age(name, policy, &mut board).await?;
        }
        let policy = |name: &QueueName| policies.get(name);
        board.forget(self.now, policy);
        for key in board.due(self.now, policy) {
            let alert_queue = policies[&key.queue].alert_queue.clone();
            let alert_queue = alert_queue.expect("invariant: only such policies were read");
            self.raise(&key, alert_queue, &mut board, &mut step).await?;
        }
        self.keep_alerts(&before, &board).await?;
        Ok(step)
    }

    /// The oldest events, which are counted now, by what they are counted by.
    async fn take_events(&mut self, limit: u32) -> Result<Vec<AlertEvent>> {
        let taken = sqlx::query(sql!("alert_event_take"))
            .bind(limit)
            .fetch_all(&mut *self.connection)
            .await?;
        let event = |row: &SqliteRow| -> Result<_> {
            let event = AlertEvent {
                key: key(row)?,
                count: row.try_get::<i64, _>("count")?.unsigned_abs(),
                message_id: row.try_get::<Option<i64>, _>("message_id")?.map(MessageId),
                at: rows::timestamp(row.try_get("at")?)?,
            };
            Ok((row.try_get("id")?, event))
        };
        let events: Result<Vec<(i64, AlertEvent)>> = taken.iter().map(event).collect();
        let mut events = events?;
        events.sort_by(|(id, one), (other_id, other)| (&one.key, id).cmp(&(&other.key, other_id)));
        Ok(events.into_iter().map(|(_, event)| event).collect())
    }

    async fn alert_policies(&mut self) -> Result<Policies> {
        let found: Vec<(String, String)> = sqlx::query_as(sql!("alert_policies"))
            .fetch_all(&mut *self.connection)
            .await?;
        let policy = |(name, text): (String, String)| -> Result<_> {
            Ok((rows::queue_name(&name)?, rows::policy(&name, &text)?))
        };
        found.into_iter().map(policy).collect()
    }

    async fn alert_board(&mut self) -> Result<AlertBoard> {
        let found = sqlx::query(sql!("alert_list"))
            .fetch_all(&mut *self.connection)
            .await?;
        let row = |row: &SqliteRow| -> Result<_> {
            let alerted_at: Option<i64> = row.try_get("alerted_at")?;
            let alert = AlertRow {
                pending: row.try_get::<i64, _>("pending")?.unsigned_abs(),
                first_at: rows::timestamp(row.try_get("first_at")?)?,
                last_at: rows::timestamp(row.try_get("last_at")?)?,
                message_id: row.try_get::<Option<i64>, _>("message_id")?.map(MessageId),
                alerted_at: alerted_at.map(rows::timestamp).transpose()?,
                failure: row.try_get("failure")?,
            };
            Ok((key(row)?, alert))
        };
        Ok(AlertBoard(found.iter().map(row).collect::<Result<_>>()?))
    }

    /// Counts the due messages of a queue that is older than its limit.
    async fn look_at_age(
        &mut self,
        name: &QueueName,
        policy: &QueuePolicy,
        board: &mut AlertBoard,
    ) -> Result<()> {
        let key = AlertKey {
            queue: name.clone(),
            reason: AlertReason::QueueOld,
            code: String::new(),
        };
        let Some(age) = policy.alert_age() else {
            return Ok(());
        };
        if !board.may_alert(&key, self.now, policy.alert_interval()) {
            return Ok(());
        }
        let now = rows::micros(self.now);
        let oldest: Option<(i64, i64)> = sqlx::query_as(sql!("ready_oldest"))
            .bind(name.as_str())
            .bind(now)
            .fetch_optional(&mut *self.connection)
            .await?;
        let read = |(due_at, id)| -> Result<_> { Ok((rows::timestamp(due_at)?, MessageId(id))) };
        let oldest = oldest.map(read).transpose()?;
        let mut row = board.0.get(&key).cloned().unwrap_or_default();
        row.pending = 0;
        if let Some((due_at, id)) = oldest.filter(|(due_at, _)| later(*due_at, age) <= self.now) {
            let count: i64 = sqlx::query_scalar(sql!("ready_due_count"))
                .bind(name.as_str())
                .bind(now)
                .bind(ALERT_MESSAGES_MAX as i64)
                .fetch_one(&mut *self.connection)
                .await?;
            row.pending = count.unsigned_abs().min(ALERT_MESSAGES_MAX);
            row.first_at = due_at;
            row.last_at = self.now;
            row.message_id = Some(id);
        }
        board.0.insert(key, row);
        Ok(())
    }

    /// Enqueues one alert. A refusal comes before the first write, so the others are not affected.
    async fn raise(
        &mut self,
        key: &AlertKey,
        alert_queue: QueueName,
        board: &mut AlertBoard,
        step: &mut AlertStep,
    ) -> Result<()> {
        let alert = board.0[key].alert(key);
        match self.enqueue(&[alert.message(&alert_queue)]).await {
            Ok(_) => {
                board.record(key, self.now, None);
                step.raised.push(alert);
            }
            Err(Failure::Refused(error)) => {
                let failure = error.to_string();
                board.record(key, self.now, Some(failure.clone()));
                step.refused.push(RefusedAlert {
                    alert,
                    alert_queue,
                    failure,
                });
            }
            Err(failure) => return Err(failure),
        }
        Ok(())
    }

    /// Writes the rows that have changed.
    async fn keep_alerts(&mut self, before: &AlertBoard, after: &AlertBoard) -> Result<()> {
        let gone: Vec<&AlertKey> = before
            .0
            .keys()
            .filter(|key| !after.0.contains_key(key))
            .collect();
        if !gone.is_empty() {
            let gone: Vec<_> = gone
                .iter()
                .map(|key| (&key.queue, key.reason, &key.code))
                .collect();
            sqlx::query(sql!("alert_remove"))
                .bind(rows::json(&gone))
                .execute(&mut *self.connection)
                .await?;
        }
        let changed: Vec<String> = (after.0.iter())
            .filter(|(key, row)| before.0.get(key) != Some(row))
            .map(|(key, row)| {
                rows::json(&(
                    (&key.queue, key.reason, &key.code),
                    row.pending,
                    rows::micros(row.first_at),
                    rows::micros(row.last_at),
                    row.message_id,
                    row.alerted_at.map(rows::micros),
                    &row.failure,
                ))
            })
            .collect();
        if !changed.is_empty() {
            sqlx::query(sql!("alert_put"))
                .bind(format!("[{}]", changed.join(",")))
                .execute(&mut *self.connection)
                .await?;
        }
        Ok(())
    }
}

fn key(row: &SqliteRow) -> Result<AlertKey> {
    let word: &str = row.try_get("reason")?;
    let reason = AlertReason::from_word(word);
    Ok(AlertKey {
        queue: rows::queue_name(row.try_get("queue")?)?,
        reason: reason
            .ok_or_else(|| Failure::corrupt(format!("{word:?} is not the reason of an alert")))?,
        code: row.try_get("code")?,
    })
}
