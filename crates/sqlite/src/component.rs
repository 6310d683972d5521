//! What an app adds to a store: tables of its own, and hooks.
//!
//! A hook runs inside the engine's transaction when messages of its queue change state. What it writes
//! is committed with that change or not at all; a hook that fails fails the operation.

use std::{collections::HashMap, fmt, sync::Arc};

use async_trait::async_trait;
use consign_kernel::{
    Error, Message, MessageId, Migration, NewMessage, QueueName, QueuePolicy, Report, Resolution,
    Token, migration_order,
    plan::{LeasePlan, OperatorMove},
};
use jiff::Timestamp;
use serde_json::Value;
use sqlx::SqliteConnection;

use crate::{
    doctor,
    error::Result,
    job::Work,
    migrate::ENGINE_MIGRATIONS,
    read::MessageState,
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

/// What an app does at the events of its queue, which have the same names in PostgreSQL. Each is called
/// once per operation, with all messages of the queue that it concerns. Defaults do nothing.
///
/// The first four come before the first write, and may reject the operation.
#[async_trait]
pub trait Hook: fmt::Debug + Send + Sync {
    /// The queue it belongs to.
    fn queue(&self) -> &'static str;

    /// Completes a policy of its queue, or rejects one that the queue cannot have.
    fn policy(&self, _policy: &mut QueuePolicy) -> consign_kernel::Result<()> {
        Ok(())
    }

    /// Rejects messages that producers may not enqueue, before any key is looked up.
    fn check(&self, _messages: &[&NewMessage]) -> consign_kernel::Result<()> {
        Ok(())
    }

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

    /// Messages were enqueued, without those whose key was taken.
    async fn enqueued(&self, _work: &mut Work<'_>, _ids: &[MessageId]) -> Result<()> {
        Ok(())
    }

    /// Attempts were recorded under this lease, also by an operator's resolution.
    async fn settled(
        &self,
        _work: &mut Work<'_>,
        _lease: &LeaseRow,
        _plan: &LeasePlan,
    ) -> Result<()> {
        Ok(())
    }

    /// The lease expired or was ended.
    async fn expired(
        &self,
        _work: &mut Work<'_>,
        _lease: &LeaseRow,
        _plan: &LeasePlan,
    ) -> Result<()> {
        Ok(())
    }

    /// An operator requeued, held or unheld messages.
    async fn moved(
        &self,
        _work: &mut Work<'_>,
        _ids: &[MessageId],
        _action: OperatorMove,
    ) -> Result<()> {
        Ok(())
    }

    /// Whether an operator can discard and cancel messages of its queue; if not, they are refused.
    fn can_discard(&self) -> bool {
        false
    }

    /// An operator discarded or cancelled messages.
    async fn discarded(
        &self,
        _work: &mut Work<'_>,
        _ids: &[MessageId],
        _action: OperatorMove,
    ) -> Result<()> {
        Ok(())
    }

    /// Results of this token were recorded after its lease had ended.
    async fn late(&self, _work: &mut Work<'_>, _ids: &[MessageId], _token: Token) -> Result<()> {
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
    /// The hooks of the queues that these messages are in, each with its messages.
    pub(crate) fn hooks_among(
        &self,
        found: &HashMap<MessageId, MessageState>,
        ids: &[MessageId],
    ) -> Vec<(&dyn Hook, Vec<MessageId>)> {
        let own = |hook: &dyn Hook| {
            let is_own = |id: &&MessageId| {
                let state = found.get(*id);
                state.is_some_and(|state| state.queue.as_str() == hook.queue())
            };
            ids.iter().filter(is_own).copied().collect::<Vec<_>>()
        };
        let hooks = self.hooks().map(|hook| (hook, own(hook)));
        hooks.filter(|(_, ids)| !ids.is_empty()).collect()
    }
}
