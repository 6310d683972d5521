//! A gateway over a store, and a scripted memory server.

mod database;
mod server;

use std::{path::Path, sync::Arc, time::Duration};

use consign_kernel::{By, MessageId, QueuePolicy, RetrySchedule, Store};
use consign_memory::{
    Audit, AuditFilter, Caller, FlushSink, Logbook, MemoryOptions, MemoryService, NewUser,
    OutboxRow, Settings, SettingsChange, queue, queue_policy, queue_work, tools,
};
use consign_scm::ScmLedger;
use consign_testkit::eventually;
use consign_worker::{Worker, WorkerHandle, WorkerOptions};
use serde_json::{Value, json};
use tempfile::TempDir;

use self::database::Database;
pub(crate) use self::{
    database::{WriteBlock, on_postgres},
    server::{FakeServer, ServerMode},
};

/// Runs tests of the same file over PostgreSQL as well.
macro_rules! also_on_postgres {
    ($($name:ident)*) => {
        mod on_postgres {
            $(#[test]
            fn $name() {
                crate::support::on_postgres(super::$name);
            })*
        }
    };
}
pub(crate) use also_on_postgres;

/// A store with everything that a gateway and its tests need.
pub(crate) trait TestStore: Store + Logbook {}

impl<S: Store + Logbook> TestStore for S {}

/// Generous: a busy machine must not fail a test.
pub(crate) const SOON: Duration = Duration::from_secs(20);
/// How long a request to the gateway of a fixture may take; its logbook must be done by then as well.
pub(crate) const BUDGET: Duration = Duration::from_millis(1_000);

/// A gateway, its logbook and its memory server.
pub(crate) struct Fixture {
    directory: TempDir,
    database: Database,
    pub(crate) store: Arc<dyn TestStore>,
    pub(crate) scm: Arc<dyn ScmLedger>,
    pub(crate) server: Arc<FakeServer>,
    pub(crate) options: MemoryOptions,
    pub(crate) service: MemoryService,
}

impl Fixture {
    pub(crate) async fn new() -> Self {
        Self::with(|_| {}).await
    }

    /// With other settings than the usual ones.
    pub(crate) async fn with(change: impl FnOnce(&mut MemoryOptions)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::fresh(directory.path()).await;
        let store = database.store();
        let scm = database.scm();
        let mut options = MemoryOptions {
            project_key: "p".to_owned(),
            gateway_budget_ms: BUDGET.as_millis() as u64,
            artifacts_root: directory.path().join("artifacts"),
            ..MemoryOptions::default()
        };
        change(&mut options);
        options.validate().unwrap();
        let server = Arc::new(FakeServer::new());
        let service = MemoryService::new(store.clone(), server.clone(), options.clone());
        let fixture = Self {
            directory,
            database,
            store,
            scm,
            server,
            options,
            service,
        };
        fixture.put_queue(|_| {}).await;
        fixture
    }

    /// Where its files are.
    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Sets the queue's policy: the protocol's with these changes.
    pub(crate) async fn put_queue(&self, change: impl FnOnce(&mut QueuePolicy)) {
        let mut policy = queue_policy(&self.options);
        change(&mut policy);
        let by = By::new("test", "test");
        self.store.put_queue(&queue(), &policy, &by).await.unwrap();
    }

    /// Retries at once, for tests that wait for them.
    pub(crate) async fn hurry(&self) {
        let retry = RetrySchedule::Fixed { delay_ms: 1 };
        self.put_queue(|policy| policy.retry = retry).await;
    }

    /// Opens the team space to all users, with or without evidence.
    pub(crate) async fn open_team(&self) -> Settings {
        self.set_policy(json!({"require_evidence": false})).await
    }

    /// Opens the team's space under a policy.
    pub(crate) async fn set_policy(&self, policy: Value) -> Settings {
        let change = SettingsChange {
            project_key: "p".to_owned(),
            team_write_enabled: Some(true),
            policy_json: policy.as_object().unwrap().clone(),
            replace: true,
            updated_by: None,
        };
        let audit = consign_memory::NewAudit {
            actor_user_id: None,
            target_space: "governance:p".to_owned(),
            action: consign_memory::Action::Allow,
            reason: Some("governance_update:admin_key".to_owned()),
            payload_sha: None,
            evidence_refs_json: json!({}),
            correlation_id: None,
            status: consign_memory::AuditStatus::Success,
        };
        self.store.change_settings(&change, &audit).await.unwrap()
    }

    /// From now on nothing can be added to a table.
    pub(crate) async fn break_writes(&self, table: &str) {
        self.forbid("INSERT", table).await;
    }

    /// From now on nothing in a table can change.
    pub(crate) async fn break_updates(&self, table: &str) {
        self.forbid("UPDATE", table).await;
    }

    /// From now on stored memories cannot be looked up.
    pub(crate) async fn break_dedup(&self) {
        let rename = "ALTER TABLE write_audit RENAME COLUMN payload_sha TO gone";
        self.sql(rename).await;
    }

    /// What was broken works again.
    pub(crate) async fn mend(&self, table: &str) {
        for what in ["INSERT", "UPDATE"] {
            self.sql(&self.database.allowing(what, table)).await;
        }
    }

    async fn forbid(&self, what: &str, table: &str) {
        self.sql(&self.database.forbidding(what, table)).await;
    }

    /// Changes the database outside of the store.
    pub(crate) async fn sql(&self, statement: &str) {
        self.database.execute(statement).await;
    }

    /// No row of the database holds a text.
    pub(crate) async fn holds_nowhere(&self, text: &str) {
        let found = self.database.rows_with(text).await;
        assert!(found.is_empty(), "{found:#?}");
    }

    /// The store as another process would have it.
    pub(crate) async fn another_store(&self) -> Arc<dyn TestStore> {
        self.database.another_store().await
    }

    /// No audit is ended until this is dropped.
    pub(crate) async fn lock(&self) -> WriteBlock {
        self.database.lock().await
    }

    pub(crate) async fn make_user(&self, user_id: &str) {
        let user = NewUser {
            user_id: user_id.to_owned(),
            display_name: user_id.to_owned(),
        };
        self.store.create_user(&user).await.unwrap();
    }

    /// Calls a tool without a token.
    pub(crate) async fn call(
        &self,
        tool: &str,
        arguments: impl Into<tools::ToolArguments>,
    ) -> Value {
        self.call_as(&Caller::anonymous(), tool, arguments).await
    }

    pub(crate) async fn call_as(
        &self,
        caller: &Caller,
        tool: &str,
        arguments: impl Into<tools::ToolArguments>,
    ) -> Value {
        let answer = tools::call(&self.service, tool, arguments, caller).await;
        assert_eq!(answer.body["correlation_id"], json!(answer.correlation_id));
        assert_eq!(answer.body["ok"], json!(answer.ok));
        answer.body
    }

    /// Stores a text in the team's space.
    pub(crate) async fn remember(&self, text: &str) -> Value {
        let arguments = json!({"payload_md": text, "target_space": "team:p"});
        self.call("memory_store", arguments).await
    }

    /// Every audit of writes and deliveries, oldest first.
    pub(crate) async fn audits(&self) -> Vec<Audit> {
        let audits = self.store.audits(&AuditFilter::default(), 1_000).await;
        let mut audits = audits.unwrap();
        audits.reverse();
        audits.retain(|audit| !audit.target_space.starts_with("governance:"));
        audits
    }

    /// The audits in short: action, reason, status.
    pub(crate) async fn told(&self) -> Vec<String> {
        let audits = self.audits().await;
        audits.iter().map(told).collect()
    }

    pub(crate) async fn row(&self, outbox_id: &Value) -> OutboxRow {
        let id = MessageId(outbox_id.as_i64().expect("an outbox id"));
        let row = self.store.outbox_row(id).await.unwrap();
        row.expect("a row of the outbox")
    }

    pub(crate) async fn rows(&self) -> Vec<OutboxRow> {
        self.store.outbox_rows(None, 1_000).await.unwrap()
    }

    /// A worker of the queue.
    pub(crate) fn worker(&self, owner: &str) -> WorkerHandle {
        self.worker_for(owner, self.server.clone())
    }

    /// A worker whose memories go to a server of its own.
    pub(crate) fn worker_for(&self, owner: &str, server: Arc<FakeServer>) -> WorkerHandle {
        let sink = FlushSink::new(self.store.clone(), server, &self.options);
        let work = queue_work(Arc::new(sink), &self.options);
        let options = WorkerOptions {
            poll_min: Duration::from_millis(5),
            poll_max: Duration::from_millis(20),
            wait_max: Duration::from_millis(20),
            ..WorkerOptions::new(owner)
        };
        Worker::start(self.store.clone(), vec![work], options)
    }

    /// Works until a condition holds.
    pub(crate) async fn work_until<C, F>(&self, what: &str, condition: C)
    where
        C: FnMut() -> F,
        F: Future<Output = bool>,
    {
        let worker = self.worker("worker-1");
        eventually(what, SOON, condition).await;
        worker.drain();
        worker.finished().await;
    }
}

pub(crate) fn told(audit: &Audit) -> String {
    let reason = audit.reason.as_deref().unwrap_or("-");
    let (action, status) = (audit.action.as_str(), audit.status.as_str());
    format!("{action} {reason} {status}")
}
