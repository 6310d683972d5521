//! The store: a pool, and how statements are run on it.

use async_trait::async_trait;
use consign_kernel::{
    Attempt, AuditEntry, BeginAnswer, By, Claim, Counts, Cursor, DeadLetter, EndedLease, Enqueued,
    Expired, Explanation, Filter, Finding, LateResult, Lease, LeaseView, Listed, Message,
    MessageId, Moved, NewMessage, Page, Process, Pulse, Queue, QueueMinutes, QueueName,
    QueuePolicy, Redrive, RedriveId, RedrivePlan, ReleaseAnswer, RenewAnswer, Report, Resolution,
    Result, SettleAnswer, Store, Token, TokenPrefix, Totals,
};
use sqlx::{
    Postgres,
    postgres::{PgArguments, PgConnectOptions, PgPool, PgRow},
    query::Query,
};
use std::{str::FromStr, time::Duration};

use crate::{
    error::store_error,
    low_water::LowWater,
    migrate::{self, Component},
    options::{Pooler, PostgresOptions},
    pools::{self, Pools, Use},
    wakes::Wakes,
};

/// A statement with its arguments.
pub type Statement<'q> = Query<'q, Postgres, PgArguments>;

/// consign on PostgreSQL. Cheap to share behind an `Arc`.
#[derive(Debug)]
pub struct PostgresStore {
    pub(crate) pools: Pools,
    /// For transactions of the caller's own.
    callers: PgPool,
    /// Where the last claim of each queue found its messages.
    pub(crate) low_water: LowWater,
    /// How many messages a page of a list walks over.
    pub(crate) list_walk_max: u32,
    pub(crate) wakes: Wakes,
    /// The apps whose tables the database has.
    pub(crate) components: Vec<Component>,
}

impl PostgresStore {
    /// Connects, and refuses a schema that does not fit this program.
    pub async fn connect(options: &PostgresOptions) -> Result<Self> {
        // On a connection of its own: the pool would go on trying where the answer is no.
        migrate::require_current(options).await?;
        let connect = match options.pooler {
            // A database or a role may have other defaults: an isolation that the functions would refuse,
            // a path on which somebody else's functions stand, backslashes that mean something.
            Pooler::Session => connect_options(&options.url)?.options([
                ("default_transaction_isolation", "read committed"),
                ("search_path", "pg_catalog,pg_temp"),
                ("standard_conforming_strings", "on"),
            ]),
            // Poolers refuse such options; every transaction says it itself.
            Pooler::Transaction => connect_options(&options.url)?,
        };
        Ok(Self {
            pools: Pools::new(options, &connect),
            callers: pools::pool(options, options.connections_max, connect),
            low_water: LowWater::new(options.low_water),
            list_walk_max: options.list_walk_max,
            wakes: Wakes::new(options.wake_url().map(connect_options).transpose()?),
            components: options.components.clone(),
        })
    }

    /// A pool for transactions of the caller's own (see `enqueue_in`).
    ///
    /// The store itself does not use it: these connections, `connections_max` at most, come on top
    /// of the store's and are opened when the caller uses them. They have no time limits.
    pub fn pool(&self) -> &PgPool {
        &self.callers
    }

    /// Closes all connections; returns when those in use have been given back.
    pub async fn close(&self) {
        self.pools.close().await;
        self.callers.close().await;
    }

    /// Runs one statement as a transaction of its own.
    pub async fn rows(
        &self,
        use_: Use,
        statement: Statement<'_>,
    ) -> std::result::Result<Vec<PgRow>, sqlx::Error> {
        self.pools.rows(use_, statement).await
    }

    /// Runs the statement of a request, turning failures into the kernel's errors.
    pub async fn fetch(
        &self,
        attempted: &'static str,
        statement: Statement<'_>,
    ) -> Result<Vec<PgRow>> {
        self.fetch_as(Use::Request, attempted, statement).await
    }

    /// The same for another use.
    pub async fn fetch_as(
        &self,
        use_: Use,
        attempted: &'static str,
        statement: Statement<'_>,
    ) -> Result<Vec<PgRow>> {
        match self.rows(use_, statement).await {
            Ok(rows) => Ok(rows),
            Err(error) => Err(self.advised(store_error(attempted, error)).await),
        }
    }

    /// The same for a request that writes nothing.
    pub async fn read(
        &self,
        attempted: &'static str,
        statement: Statement<'_>,
    ) -> Result<Vec<PgRow>> {
        self.read_as(Use::Request, attempted, statement).await
    }

    /// The same for another use that writes nothing.
    pub async fn read_as(
        &self,
        use_: Use,
        attempted: &'static str,
        statement: Statement<'_>,
    ) -> Result<Vec<PgRow>> {
        let rows = self.fetch_as(use_, attempted, statement).await;
        rows.map_err(consign_kernel::Error::of_read)
    }
}

/// Options for one connection to `url`.
pub(crate) fn connect_options(url: &str) -> Result<PgConnectOptions> {
    let options = PgConnectOptions::from_str(url)
        .map_err(|error| consign_kernel::Error::invalid("database URL", error.to_string()))?;
    Ok(options.application_name("consign"))
}

#[async_trait]
impl Store for PostgresStore {
    async fn put_queue(&self, name: &QueueName, policy: &QueuePolicy, by: &By) -> Result<Queue> {
        self.put_queue_impl(name, policy, by).await
    }
    async fn queue(&self, name: &QueueName) -> Result<Option<Queue>> {
        self.queue_impl(name).await
    }
    async fn may_work(&self, name: &QueueName) -> Result<bool> {
        self.may_work_impl(name).await
    }
    async fn queues(&self, after: Option<&QueueName>, limit: u32) -> Result<Vec<(Queue, Counts)>> {
        self.queues_impl(after, limit).await
    }
    async fn queue_counts(&self, name: &QueueName) -> Result<Option<(Queue, Counts)>> {
        self.queue_counts_impl(name).await
    }
    async fn totals(&self) -> Result<Totals> {
        self.totals_impl().await
    }
    async fn pause(&self, name: &QueueName, by: &By) -> Result<Queue> {
        self.set_paused("SELECT * FROM consign.pause($1, $2, $3)", name, by)
            .await
    }
    async fn resume(&self, name: &QueueName, by: &By) -> Result<Queue> {
        self.set_paused("SELECT * FROM consign.resume($1, $2, $3)", name, by)
            .await
    }
    async fn enqueue(&self, messages: &[NewMessage]) -> Result<Vec<Enqueued>> {
        self.enqueue_impl(messages).await
    }
    async fn claim(&self, claim: &Claim) -> Result<Option<Lease>> {
        self.claim_impl(claim).await
    }
    async fn renew(&self, token: Token, ttl: Duration) -> Result<RenewAnswer> {
        self.renew_impl(token, ttl).await
    }
    async fn release(&self, token: Token) -> Result<ReleaseAnswer> {
        self.release_impl(token).await
    }
    async fn begin(&self, token: Token, ids: &[MessageId]) -> Result<BeginAnswer> {
        self.begin_impl(token, ids).await
    }
    async fn settle(&self, token: Token, reports: &[Report]) -> Result<SettleAnswer> {
        self.settle_impl(token, reports).await
    }
    async fn witness(&self, token: Token, reports: &[Report]) -> Result<Vec<MessageId>> {
        self.witness_impl(token, reports).await
    }
    async fn expire(&self, limit: u32) -> Result<Expired> {
        self.expire_impl(limit).await
    }
    async fn wait(&self, queue: &QueueName, timeout: Duration) -> Result<bool> {
        self.wait_impl(queue, timeout).await
    }
    async fn requeue(&self, ids: &[MessageId], by: &By) -> Result<Vec<Moved>> {
        self.move_by_hand("SELECT * FROM consign.requeue($1, $2, $3)", ids, by)
            .await
    }
    async fn hold(&self, ids: &[MessageId], by: &By) -> Result<Vec<Moved>> {
        self.move_by_hand("SELECT * FROM consign.hold($1, $2, $3)", ids, by)
            .await
    }
    async fn unhold(&self, ids: &[MessageId], by: &By) -> Result<Vec<Moved>> {
        self.move_by_hand("SELECT * FROM consign.unhold($1, $2, $3)", ids, by)
            .await
    }
    async fn resolve(
        &self,
        ids: &[MessageId],
        resolution: &Resolution,
        by: &By,
    ) -> Result<Vec<Moved>> {
        self.resolve_impl(ids, resolution, by).await
    }
    async fn end_lease(&self, prefix: &TokenPrefix, by: &By) -> Result<EndedLease> {
        self.end_lease_impl(prefix, by).await
    }
    async fn reveal(&self, id: MessageId, by: &By) -> Result<Option<Message>> {
        self.reveal_impl(id, by).await
    }
    async fn pulse(&self, pulse: &Pulse) -> Result<()> {
        self.pulse_impl(pulse).await
    }
    async fn pulses(
        &self,
        queue: Option<&QueueName>,
        minutes: u32,
        step: u32,
    ) -> Result<Vec<QueueMinutes>> {
        self.pulses_impl(queue, minutes, step).await
    }
    async fn processes(&self) -> Result<Vec<Process>> {
        self.processes_impl().await
    }
    async fn start_redrive(&self, plan: &RedrivePlan, by: &By) -> Result<Redrive> {
        self.start_redrive_impl(plan, by).await
    }
    async fn step_redrive(&self, limit: u32) -> Result<Option<Redrive>> {
        self.step_redrive_impl(limit).await
    }
    async fn stop_redrive(&self, id: RedriveId, by: &By) -> Result<Redrive> {
        self.turn_redrive("SELECT * FROM consign.stop_redrive($1, $2, $3)", id, by)
            .await
    }
    async fn resume_redrive(&self, id: RedriveId, by: &By) -> Result<Redrive> {
        self.turn_redrive("SELECT * FROM consign.resume_redrive($1, $2, $3)", id, by)
            .await
    }
    async fn probe(&self) -> Result<()> {
        let statement = sqlx::query("SELECT FROM consign.queue WHERE name = 'default'");
        self.read_as(Use::Probe, "probe", statement).await.map(drop)
    }
    async fn explain(&self, id: MessageId) -> Result<Option<Explanation>> {
        self.explain_impl(id).await
    }
    async fn history(&self, id: MessageId) -> Result<Vec<Attempt>> {
        self.history_impl(id).await
    }
    async fn late(&self, id: MessageId) -> Result<Vec<LateResult>> {
        self.late_impl(id).await
    }
    async fn list(
        &self,
        filter: &Filter,
        before: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<Listed>> {
        self.list_impl(filter, before, limit).await
    }
    async fn dead(
        &self,
        filter: &Filter,
        before: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<DeadLetter>> {
        self.dead_impl(filter, before, limit).await
    }
    async fn leases(&self, limit: u32) -> Result<Vec<LeaseView>> {
        self.leases_impl(limit).await
    }
    async fn count_dead(&self, filter: &Filter, at_most: u64) -> Result<u64> {
        self.count_dead_impl(filter, at_most).await
    }
    async fn first_dead(&self, plan: &RedrivePlan, limit: u32) -> Result<Vec<DeadLetter>> {
        self.first_dead_impl(plan, limit).await
    }
    async fn redrive(&self, id: RedriveId) -> Result<Option<Redrive>> {
        self.redrive_impl(id).await
    }
    async fn redrives(&self, limit: u32) -> Result<Vec<Redrive>> {
        self.redrives_impl(limit).await
    }
    async fn audit(
        &self,
        id: Option<MessageId>,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<AuditEntry>> {
        self.audit_impl(id, before, limit).await
    }
    async fn doctor(&self) -> Result<Vec<Finding>> {
        self.doctor_impl().await
    }
}
