//! What an app adds to a store: tables of its own, and hooks.
//!
//! A hook runs inside the engine's transaction when messages of its queue change state. What it writes
//! is committed with that change or not at all; a hook that fails fails the operation. What can be
//! rejected is rejected by the `check` functions, before the first write.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use consign_kernel::{
    Error, Message, MessageId, Migration, NewMessage, QueueName, QueuePolicy, Report, Resolution,
    Token, migration_order,
    plan::{DeadEntry, NewAttempt},
};
use jiff::Timestamp;
use serde_json::Value;
use sqlx::SqliteConnection;

use crate::{
    doctor,
    error::Result,
    job::Work,
    migrate::ENGINE_MIGRATIONS,
    rows::{self, LeaseRow},
};

/// An app's part of a store.
#[async_trait]
pub trait Component: fmt::Debug + Send + Sync {
    /// Its migrations, first to last. The first exists, and names the component.
    fn migrations(&self) -> &'static [Migration];

    /// Its name, as in `schema_version`.
    fn name(&self) -> &'static str {
        let first = self.migrations().first();
        first.map_or("", |migration| migration.component)
    }

    /// Its hook, if messages of a queue concern it.
    fn hook(&self) -> Option<&dyn Hook> {
        None
    }

    /// Checks the invariants of its tables on one snapshot.
    async fn examine(
        &self,
        _connection: &mut SqliteConnection,
        _now: Timestamp,
        _report: &mut doctor::Report,
    ) -> Result<()> {
        Ok(())
    }
}

/// What an app does when messages of its queue change state.
#[async_trait]
pub trait Hook: fmt::Debug + Send + Sync {
    /// The queue it belongs to.
    fn queue(&self) -> &'static str;

    /// Rejects a message that producers may not enqueue, before any key is looked up.
    fn check_enqueue(&self, _message: &NewMessage) -> consign_kernel::Result<()> {
        Ok(())
    }

    /// Rejects a policy that its queue cannot have.
    fn check_policy(&self, _policy: &QueuePolicy) -> consign_kernel::Result<()> {
        Ok(())
    }

    /// Adds what every policy of its queue has.
    fn complete_policy(&self, _policy: &mut QueuePolicy) {}

    /// Rejects reports that its queue cannot settle with.
    fn check_reports(&self, _reports: &[&Report]) -> consign_kernel::Result<()> {
        Ok(())
    }

    /// The result that an attempt keeps of an operator's resolution.
    fn resolve(
        &self,
        message: &Message,
        resolution: &Resolution,
    ) -> consign_kernel::Result<Option<Value>> {
        resolution.refuse_result(&message.queue)?;
        Ok(None)
    }

    /// Attempts under this lease were recorded.
    async fn settled(
        &self,
        _work: &mut Work<'_>,
        _lease: &LeaseRow,
        _attempts: &[NewAttempt],
    ) -> Result<()> {
        Ok(())
    }

    /// Messages of this lease are dead from here on.
    async fn died(
        &self,
        _work: &mut Work<'_>,
        _lease: &LeaseRow,
        _dead: &[DeadEntry],
    ) -> Result<()> {
        Ok(())
    }

    /// Dead messages were put back.
    async fn requeued(&self, _work: &mut Work<'_>, _ids: &[MessageId]) -> Result<()> {
        Ok(())
    }

    /// Which finished messages, from one id to another, must not leave yet. `at` is the time that counts.
    /// A message that is not needed stays so until it is requeued.
    async fn needed(
        &self,
        _connection: &mut SqliteConnection,
        _bounds: (MessageId, MessageId),
        _at: Timestamp,
    ) -> Result<Vec<MessageId>> {
        Ok(Vec::new())
    }

    /// Messages leave in this transaction; their rows and their keys' are gone already.
    async fn departed(&self, _work: &mut Work<'_>, _ids: &[MessageId]) -> Result<()> {
        Ok(())
    }

    /// Keys of messages that have left were forgotten.
    async fn forgotten(&self, _work: &mut Work<'_>, _ids: &[MessageId]) -> Result<()> {
        Ok(())
    }

    /// Whether messages of its queue can be erased: `erased` removes what the app has of their content.
    /// Those that are `needed` at the end of time are not erased.
    fn can_erase(&self) -> bool {
        false
    }

    /// The members of results that an erasure leaves.
    fn keeps(&self) -> &'static [&'static str] {
        &[]
    }

    /// Messages are erased in this transaction. Their payloads and results can still be read.
    async fn erased(&self, _work: &mut Work<'_>, _ids: &[MessageId]) -> Result<()> {
        Ok(())
    }

    /// Results of this token were recorded after its lease had ended. The messages may be of any queue.
    async fn late(&self, _work: &mut Work<'_>, _ids: &[MessageId], _token: Token) -> Result<()> {
        Ok(())
    }
}

/// The components of a store.
#[derive(Clone, Debug, Default)]
pub(crate) struct Components(Vec<Arc<dyn Component>>);

impl Components {
    pub(crate) fn add(&mut self, component: Arc<dyn Component>) {
        self.0.push(component);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &dyn Component> {
        self.0.iter().map(Arc::as_ref)
    }

    pub(crate) fn hooks(&self) -> impl Iterator<Item = &dyn Hook> {
        self.iter().filter_map(Component::hook)
    }

    /// Every migration, in the order in which they are applied.
    pub(crate) fn migrations(&self) -> Vec<Migration> {
        let apps = self.iter().map(Component::migrations);
        let all: Vec<_> = [ENGINE_MIGRATIONS].into_iter().chain(apps).collect();
        migration_order(&all)
    }

    /// The names of the apps, as a JSON array.
    pub(crate) fn names(&self) -> String {
        let names: Vec<&str> = self.iter().map(Component::name).collect();
        rows::json(&names)
    }

    /// Rejects a queue whose app this store was opened without: the app's hook would not run.
    pub(crate) fn check_app(&self, queue: &str, app: Option<&str>) -> consign_kernel::Result<()> {
        match app {
            Some(app) if !self.iter().any(|component| component.name() == app) => {
                Err(Error::AppNotEnabled {
                    queue: queue.to_owned(),
                    app: app.to_owned(),
                })
            }
            _ => Ok(()),
        }
    }

    /// What apps keep of the results of erased messages: a JSON array of [queue, member].
    pub(crate) fn kept_members(&self) -> String {
        let members = |hook: &dyn Hook| hook.keeps().iter().map(|it| (hook.queue(), *it)).collect();
        let members: Vec<(&str, &str)> = self.hooks().flat_map::<Vec<_>, _>(members).collect();
        rows::json(&members)
    }

    /// The hook of a queue.
    pub(crate) fn hook_of(&self, queue: &QueueName) -> Option<&dyn Hook> {
        self.hooks().find(|hook| hook.queue() == queue.as_str())
    }
}
