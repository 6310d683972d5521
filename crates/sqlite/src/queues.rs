//! Queues: creating, changing, pausing, counting.

use std::collections::HashMap;

use async_trait::async_trait;
use consign_kernel::{
    By, Counts, Error, MessageId, PAGE_ENTRIES_MAX, Queue, QueueName, QueuePolicy, Queues, Totals,
    nearest,
};
use jiff::Timestamp;
use sqlx::{FromRow, SqliteConnection, sqlite::SqliteRow};

use crate::{
    SqliteStore,
    component::Components,
    error::{Failure, Result},
    job::Work,
    rows::{self, QueueColumns},
    sql,
    store::{snapshot, write},
};

#[async_trait]
impl Queues for SqliteStore {
    async fn put_queue(
        &self,
        name: &QueueName,
        policy: &QueuePolicy,
        by: &By,
    ) -> consign_kernel::Result<Queue> {
        write!(self, "put queue", (name, policy, by), |work| work
            .put_queue(&name, &policy, &by))
    }

    async fn pause(&self, name: &QueueName, by: &By) -> consign_kernel::Result<Queue> {
        write!(self, "pause", (name, by), |work| work.pause(&name, &by))
    }

    async fn resume(&self, name: &QueueName, by: &By) -> consign_kernel::Result<Queue> {
        write!(self, "resume", (name, by), |work| work.resume(&name, &by))
    }

    async fn queue(&self, name: &QueueName) -> consign_kernel::Result<Option<Queue>> {
        snapshot!(self, "read a queue", |tx| queue(&mut tx, name))
    }

    async fn queues(
        &self,
        after: Option<&QueueName>,
        limit: u32,
    ) -> consign_kernel::Result<Vec<(Queue, Counts)>> {
        let now = self.now();
        snapshot!(self, "read the queues", |tx| queues(
            &mut tx, now, after, limit
        ))
    }

    async fn queue_counts(
        &self,
        name: &QueueName,
    ) -> consign_kernel::Result<Option<(Queue, Counts)>> {
        let now = self.now();
        snapshot!(self, "read a queue", |tx| queue_counts(&mut tx, now, name))
    }

    async fn totals(&self) -> consign_kernel::Result<Totals> {
        let now = self.now();
        snapshot!(self, "read the queues", |tx| totals(&mut tx, now))
    }
}

impl Work<'_> {
    /// Creates a queue or changes its policy.
    pub async fn put_queue(
        &mut self,
        name: &QueueName,
        policy: &QueuePolicy,
        by: &By,
    ) -> Result<Queue> {
        by.validate()?;
        let mut policy = policy.clone();
        let app: Option<String> = sqlx::query_scalar(sql!("hook_app"))
            .bind(name.as_str())
            .fetch_optional(&mut *self.connection)
            .await?;
        self.components.check_app(name.as_str(), app.as_deref())?;
        if let Some(hook) = self.components.hook_of(name) {
            hook.policy(&mut policy)?;
        }
        policy.validate()?;
        self.check_alert_queue(name, &policy).await?;
        let old = queue(self.connection, name).await?.map(|old| old.policy);
        if old
            .as_ref()
            .is_some_and(|old| old.ordered != policy.ordered)
            && !self.is_idle(name).await?
        {
            return Err(Error::QueueNotEmpty {
                queue: name.clone(),
            }
            .into());
        }
        let row: QueueColumns = sqlx::query_as(sql!("queue_put"))
            .bind(name.as_str())
            .bind(rows::json(&policy))
            .fetch_one(&mut *self.connection)
            .await?;
        if old.is_some_and(|old| old.unblocks(&policy)) {
            self.unblock(name, &policy).await?;
        }
        // It was begun by another policy.
        sqlx::query(sql!("departure_give_up"))
            .execute(&mut *self.connection)
            .await?;
        self.record_actions(by, "queue", &[(Some(name), None)])
            .await?;
        rows::queue(row)
    }

    /// Lets the groups go on that dead messages block.
    async fn unblock(&mut self, name: &QueueName, policy: &QueuePolicy) -> Result<()> {
        let dead: Vec<i64> = sqlx::query_scalar(sql!("group_head_dead"))
            .bind(name.as_str())
            .fetch_all(&mut *self.connection)
            .await?;
        let dead: Vec<_> = dead.into_iter().map(|id| (MessageId(id), true)).collect();
        self.promote_after(name, policy, &dead).await
    }

    async fn check_alert_queue(&mut self, name: &QueueName, policy: &QueuePolicy) -> Result<()> {
        let Some(alert_queue) = &policy.alert_queue else {
            return Ok(());
        };
        let exists = queue(self.connection, alert_queue).await?.is_some();
        let app: Option<String> = sqlx::query_scalar(sql!("hook_app"))
            .bind(alert_queue.as_str())
            .fetch_optional(&mut *self.connection)
            .await?;
        Ok(policy.check_alert_queue(name, exists, app.is_some())?)
    }

    async fn is_idle(&mut self, name: &QueueName) -> Result<bool> {
        let idle = sqlx::query_scalar(sql!("queue_is_idle"))
            .bind(name.as_str())
            .fetch_one(&mut *self.connection)
            .await?;
        Ok(idle)
    }

    pub(crate) async fn pause(&mut self, name: &QueueName, by: &By) -> Result<Queue> {
        by.validate()?;
        let row: Option<QueueColumns> = sqlx::query_as(sql!("queue_pause"))
            .bind(name.as_str())
            .bind(rows::micros(self.now))
            .fetch_optional(&mut *self.connection)
            .await?;
        let Some(row) = row else {
            return Err(unknown_queue(self.connection, name).await);
        };
        self.record_actions(by, "pause", &[(Some(name), None)])
            .await?;
        rows::queue(row)
    }

    pub(crate) async fn resume(&mut self, name: &QueueName, by: &By) -> Result<Queue> {
        by.validate()?;
        let row: Option<QueueColumns> = sqlx::query_as(sql!("queue_resume"))
            .bind(name.as_str())
            .fetch_optional(&mut *self.connection)
            .await?;
        let Some(row) = row else {
            return Err(unknown_queue(self.connection, name).await);
        };
        self.record_actions(by, "resume", &[(Some(name), None)])
            .await?;
        self.woken.insert(name.clone());
        rows::queue(row)
    }

    /// Records an operator action on queues or messages.
    pub async fn record_actions(
        &mut self,
        by: &By,
        action: &str,
        on: &[(Option<&QueueName>, Option<MessageId>)],
    ) -> Result<()> {
        if on.is_empty() {
            return Ok(());
        }
        sqlx::query(sql!("audit_append"))
            .bind(rows::json(&on))
            .bind(rows::micros(self.now))
            .bind(&by.actor)
            .bind(action)
            .bind(&by.reason)
            .execute(&mut *self.connection)
            .await?;
        Ok(())
    }

    /// The policies of these queues. Rejects queues of apps that the store was opened without.
    pub async fn policies<'l>(
        &mut self,
        names: impl IntoIterator<Item = &'l QueueName>,
    ) -> Result<HashMap<QueueName, QueuePolicy>> {
        let names: Vec<&QueueName> = names.into_iter().collect();
        let found = sqlx::query(sql!("queues_named"))
            .bind(rows::json(&names))
            .fetch_all(&mut *self.connection)
            .await?;
        policies_of(&found, self.components)
    }
}

/// The policies in rows of name, policy and app.
pub(crate) fn policies_of(
    rows: &[SqliteRow],
    components: &Components,
) -> Result<HashMap<QueueName, QueuePolicy>> {
    let named = |row: &SqliteRow| {
        let (name, text, app) = <(String, String, Option<String>)>::from_row(row)?;
        components.check_app(&name, app.as_deref())?;
        Ok((rows::queue_name(&name)?, rows::policy(&name, &text)?))
    };
    rows.iter().map(named).collect()
}

/// A queue by its name.
pub async fn queue(connection: &mut SqliteConnection, name: &QueueName) -> Result<Option<Queue>> {
    let row: Option<QueueColumns> = sqlx::query_as(sql!("queue"))
        .bind(name.as_str())
        .fetch_optional(connection)
        .await?;
    row.map(rows::queue).transpose()
}

type CountColumns = (
    String,
    String,
    Option<i64>,
    i64,
    i64,
    i64,
    i64,
    i64,
    i64,
    Option<i64>,
);

pub(crate) async fn queues(
    connection: &mut SqliteConnection,
    now: Timestamp,
    after: Option<&QueueName>,
    limit: u32,
) -> Result<Vec<(Queue, Counts)>> {
    let found: Vec<CountColumns> = sqlx::query_as(sql!("queues_counted"))
        .bind(rows::micros(now))
        .bind(after.map(QueueName::as_str))
        .bind(limit.min(PAGE_ENTRIES_MAX))
        .fetch_all(connection)
        .await?;
    found.into_iter().map(counted).collect()
}

pub(crate) async fn queue_counts(
    connection: &mut SqliteConnection,
    now: Timestamp,
    name: &QueueName,
) -> Result<Option<(Queue, Counts)>> {
    let found: Option<CountColumns> = sqlx::query_as(sql!("queue_counted"))
        .bind(rows::micros(now))
        .bind(name.as_str())
        .fetch_optional(connection)
        .await?;
    found.map(counted).transpose()
}

pub(crate) async fn totals(connection: &mut SqliteConnection, now: Timestamp) -> Result<Totals> {
    type Columns = (i64, i64, i64, i64, i64, i64, i64, Option<i64>);
    let (queues, waiting, ready, scheduled, leased, held, dead, oldest): Columns =
        sqlx::query_as(sql!("queues_total"))
            .bind(rows::micros(now))
            .fetch_one(connection)
            .await?;
    Ok(Totals {
        queues: queues.unsigned_abs(),
        counts: counts((waiting, ready, scheduled, leased, held, dead, oldest))?,
    })
}

fn counted(columns: CountColumns) -> Result<(Queue, Counts)> {
    let (name, policy, paused_at, waiting, ready, scheduled, leased, held, dead, oldest) = columns;
    let counts = counts((waiting, ready, scheduled, leased, held, dead, oldest))?;
    Ok((rows::queue((name, policy, paused_at))?, counts))
}

type Numbers = (i64, i64, i64, i64, i64, i64, Option<i64>);

fn counts((waiting, ready, scheduled, leased, held, dead, oldest): Numbers) -> Result<Counts> {
    Ok(Counts {
        waiting: waiting.unsigned_abs(),
        ready: ready.unsigned_abs(),
        scheduled: scheduled.unsigned_abs(),
        leased: leased.unsigned_abs(),
        held: held.unsigned_abs(),
        dead: dead.unsigned_abs(),
        oldest_due_at: oldest.map(rows::timestamp).transpose()?,
    })
}

/// The error of a queue that does not exist, with the nearest name that does.
pub(crate) async fn unknown_queue(connection: &mut SqliteConnection, name: &QueueName) -> Failure {
    let names: sqlx::Result<Vec<String>> = sqlx::query_scalar(sql!("queue_names"))
        .fetch_all(connection)
        .await;
    match names {
        Ok(names) => Failure::Refused(Error::UnknownQueue {
            queue: name.to_string(),
            suggestion: nearest(name.as_str(), names.iter().map(String::as_str)).map(str::to_owned),
        }),
        Err(error) => error.into(),
    }
}
