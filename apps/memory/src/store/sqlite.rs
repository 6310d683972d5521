//! The logbook in SQLite: see `migrations/0001_tables.sql`. Audits of message outcomes are written
//! in the transaction of the outcome: see `hook.rs`.

mod audit;
mod component;
mod counts;
mod dedup;
mod doctor;
mod facts;
mod hook;
mod lease;
mod open;
mod outbox;
mod outbox_event;
mod reconcile;
mod rows;
mod search;
mod settings;
mod words;
mod work;
mod write_lock;

use std::time::Duration;

use crate::{
    Attachment, AttachmentFilter, Audit, AuditEnd, AuditFilter, Candidate, DeferResult,
    EnqueuedMemory, Event, EventFilter, FallbackHit, Item, ItemFilter, ItemPage, KeepResult,
    KeptEvidence, KnownMemory, Listing, Logbook, MemoryCounts, MemoryItem, NewAttachment, NewAudit,
    NewCandidate, NewEvent, NewEvidence, NewItem, NewMemory, NewUser, OpenResult, Opening,
    OutboxCounts, OutboxRow, OutboxStatus, ReconcileOptions, ReconcileOutcome, Search, Settings,
    SettingsChange,
};
use async_trait::async_trait;
use consign_kernel::{MessageId, Result};
use jiff::Timestamp;
use serde_json::Value;

use consign_sqlite::SqliteStore;
use consign_sqlite::extension::{snapshot, write, write_unopened};

/// The text of one or several statements under `sql/`.
macro_rules! sql {
    ($name:literal) => {
        include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/src/store/sqlite/sql/",
            $name,
            ".sql"
        ))
    };
    ($first:literal, $($next:literal),+) => {
        concat!(
            $crate::store::sqlite::sql!($first),
            $(";\n", $crate::store::sqlite::sql!($next)),+
        )
    };
}
use sql;
pub use work::LogbookWork;

pub(super) use component::MemoryComponent;

#[async_trait]
impl Logbook for SqliteStore {
    async fn settings(&self, project_key: &str) -> Result<Settings> {
        let found = snapshot!(self, "read settings", |tx| settings::settings(
            &mut tx,
            project_key
        ))?;
        if let Some(settings) = found {
            return Ok(settings);
        }
        write!(self, "make settings", (project_key), |work| LogbookWork(
            work
        )
        .make_settings(&project_key))
    }

    async fn change_settings(&self, change: &SettingsChange, audit: &NewAudit) -> Result<Settings> {
        write!(self, "change settings", (change, audit), |work| async {
            LogbookWork(work).change_settings(&change, &audit).await
        })
    }

    async fn user_exists(&self, user_id: &str) -> Result<bool> {
        snapshot!(self, "look for a user", |tx| settings::user_exists(
            &mut tx, user_id
        ))
    }

    async fn create_user(&self, user: &NewUser) -> Result<()> {
        write!(self, "make a user", (user), |work| LogbookWork(work)
            .create_user(&user))
    }

    async fn insert_audit(&self, audit: &NewAudit) -> Result<i64> {
        write!(self, "write an audit", (audit), |work| LogbookWork(work)
            .insert_audit(&audit))
    }

    async fn open_write(&self, opening: &Opening) -> Result<OpenResult> {
        write_unopened!(self, "begin a write", (opening), |work| LogbookWork(work)
            .open_write(&opening))
    }

    async fn finalize_audit(&self, correlation_id: &str, end: &AuditEnd) -> Result<bool> {
        write_unopened!(self, "end an audit", (correlation_id, end), |work| async {
            LogbookWork(work)
                .finalize_audit(&correlation_id, &end, None)
                .await
        })
    }

    async fn audits(&self, filter: &AuditFilter, limit: u32) -> Result<Vec<Audit>> {
        snapshot!(self, "list audits", |tx| audit::audits(
            &mut tx, filter, limit
        ))
    }

    async fn defer(
        &self,
        memory: &NewMemory,
        correlation_id: &str,
        end: &AuditEnd,
    ) -> Result<DeferResult> {
        write!(
            self,
            "defer a memory",
            (memory, correlation_id, end),
            |work| LogbookWork(work).defer(&memory, &correlation_id, &end)
        )
    }

    async fn enqueue_memory(&self, memory: &NewMemory) -> Result<EnqueuedMemory> {
        write!(self, "enqueue a memory", (memory), |work| LogbookWork(work)
            .enqueue_memory(&memory))
    }

    async fn check_dedup(
        &self,
        target_space: &str,
        payload_sha: &str,
        backend: Option<&str>,
    ) -> Result<Option<KnownMemory>> {
        snapshot!(self, "look for a memory", |tx| dedup::check_dedup(
            &mut tx,
            (target_space, payload_sha),
            backend
        ))
    }

    async fn may_be_stored(
        &self,
        target_space: &str,
        payload_sha: &str,
        backend: &str,
    ) -> Result<bool> {
        snapshot!(self, "look for a memory in doubt", |tx| {
            dedup::may_be_stored(&mut tx, (target_space, payload_sha), backend)
        })
    }

    async fn outbox_row(&self, outbox_id: MessageId) -> Result<Option<OutboxRow>> {
        let found = snapshot!(self, "read the outbox", |tx| outbox::rows_of(
            &mut tx,
            &[outbox_id]
        ))?;
        Ok(found.into_iter().next())
    }

    async fn outbox_rows(
        &self,
        status: Option<OutboxStatus>,
        limit: u32,
    ) -> Result<Vec<OutboxRow>> {
        snapshot!(self, "list the outbox", |tx| outbox::list(
            &mut tx, status, limit
        ))
    }

    async fn claim_outbox(
        &self,
        worker_id: &str,
        limit: u32,
        lease: Duration,
    ) -> Result<Vec<OutboxRow>> {
        write!(self, "claim memories", (worker_id), |work| LogbookWork(
            work
        )
        .claim_outbox(&worker_id, limit, lease))
    }

    async fn ack_sent(
        &self,
        outbox_id: MessageId,
        worker_id: &str,
        memory_id: Option<&str>,
    ) -> Result<bool> {
        let memory_id = memory_id.map(str::to_owned);
        write!(
            self,
            "acknowledge a memory",
            (worker_id, memory_id),
            |work| LogbookWork(work).ack_sent(outbox_id, &worker_id, memory_id.as_deref())
        )
    }

    async fn fail_retry(
        &self,
        outbox_id: MessageId,
        worker_id: &str,
        error: &str,
        next_attempt_at: Timestamp,
    ) -> Result<bool> {
        write!(self, "defer a retry", (worker_id, error), |work| async {
            LogbookWork(work)
                .fail_retry(outbox_id, &worker_id, &error, next_attempt_at)
                .await
        })
    }

    async fn mark_dead_by_worker(
        &self,
        outbox_id: MessageId,
        worker_id: &str,
        error: &str,
    ) -> Result<bool> {
        write!(
            self,
            "mark a memory dead",
            (worker_id, error),
            |work| async {
                LogbookWork(work)
                    .mark_dead(outbox_id, &worker_id, &error)
                    .await
            }
        )
    }

    async fn renew_lease(&self, outbox_id: MessageId, worker_id: &str) -> Result<bool> {
        write!(self, "renew a memory's lease", (worker_id), |work| async {
            LogbookWork(work).renew_outbox(outbox_id, &worker_id).await
        })
    }

    async fn create_item(&self, item: &NewItem) -> Result<i64> {
        write!(self, "make an item", (item), |work| LogbookWork(work)
            .create_item(&item))
    }

    async fn add_event(&self, event: &NewEvent) -> Result<Option<i64>> {
        write!(self, "add an event", (event), |work| LogbookWork(work)
            .add_event(&event))
    }

    async fn attach(&self, attachment: &NewAttachment) -> Result<Option<i64>> {
        write!(self, "attach", (attachment), |work| LogbookWork(work)
            .attach(&attachment))
    }

    async fn item(&self, item_id: i64) -> Result<Option<Item>> {
        snapshot!(self, "read an item", |tx| facts::item_of(&mut tx, item_id))
    }

    async fn keep_evidence(&self, evidence: &NewEvidence) -> Result<Option<KeptEvidence>> {
        write!(self, "keep evidence", (evidence), |work| LogbookWork(work)
            .keep_evidence(&evidence))
    }

    async fn attachment(&self, attachment_id: i64) -> Result<Option<Attachment>> {
        snapshot!(self, "read an attachment", |tx| facts::attachment(
            &mut tx,
            attachment_id
        ))
    }

    async fn set_kv(&self, namespace: &str, key: &str, value: &Value) -> Result<()> {
        write!(self, "set a value", (namespace, key, value), |work| async {
            LogbookWork(work).set_kv(&namespace, &key, &value).await
        })
    }

    async fn get_kv(&self, namespace: &str, key: &str) -> Result<Option<Value>> {
        snapshot!(self, "read a value", |tx| facts::get_kv(
            &mut tx, namespace, key
        ))
    }

    async fn items(&self, filter: &ItemFilter, limit: u32) -> Result<Vec<Item>> {
        snapshot!(self, "list items", |tx| facts::items(
            &mut tx, filter, limit
        ))
    }

    async fn events(&self, filter: &EventFilter, limit: u32) -> Result<Vec<Event>> {
        snapshot!(self, "list events", |tx| facts::events(
            &mut tx, filter, limit
        ))
    }

    async fn attachments(&self, filter: &AttachmentFilter, limit: u32) -> Result<Vec<Attachment>> {
        snapshot!(self, "list attachments", |tx| facts::attachments(
            &mut tx, filter, limit
        ))
    }

    async fn add_candidate(&self, candidate: &NewCandidate) -> Result<i64> {
        write!(self, "keep a candidate", (candidate), |work| LogbookWork(
            work
        )
        .add_candidate(&candidate))
    }

    async fn candidate(&self, candidate_id: i64) -> Result<Option<Candidate>> {
        snapshot!(self, "read a candidate", |tx| facts::candidate(
            &mut tx,
            candidate_id
        ))
    }

    async fn search_logbook(
        &self,
        query: &str,
        spaces: &[String],
        limit: u32,
    ) -> Result<Vec<FallbackHit>> {
        snapshot!(self, "search the logbook", |tx| search::search_logbook(
            &mut tx, query, spaces, limit
        ))
    }

    async fn keep(&self, memory: &NewMemory) -> Result<KeepResult> {
        write!(self, "keep a memory", (memory), |work| LogbookWork(work)
            .keep(&memory))
    }

    async fn kept(&self, target_space: &str, payload_sha: &str) -> Result<Option<String>> {
        snapshot!(self, "look for a kept memory", |tx| search::kept(
            &mut tx,
            target_space,
            payload_sha
        ))
    }

    async fn search_kept(&self, search: &Search) -> Result<Vec<MemoryItem>> {
        snapshot!(self, "search kept memories", |tx| search::search_kept(
            &mut tx, search
        ))
    }

    async fn read_kept(&self, memory_id: &str) -> Result<Option<MemoryItem>> {
        snapshot!(self, "read a kept memory", |tx| search::read_kept(
            &mut tx, memory_id
        ))
    }

    async fn list_kept(&self, listing: &Listing) -> Result<ItemPage> {
        snapshot!(self, "list kept memories", |tx| search::list_kept(
            &mut tx, listing
        ))
    }

    async fn supersede_kept(&self, old: &str, new: &str) -> Result<()> {
        write!(self, "replace a kept memory", (old, new), |work| async {
            LogbookWork(work).supersede_kept(&old, &new).await
        })
    }

    async fn delete_kept(&self, memory_id: &str, audit: Option<&NewAudit>) -> Result<bool> {
        let audit = audit.cloned();
        write!(
            self,
            "remove a kept memory",
            (memory_id, audit),
            |work| async {
                LogbookWork(work)
                    .delete_kept(&memory_id, (*audit).as_ref())
                    .await
            }
        )
    }

    async fn memory_spaces(&self) -> Result<Vec<String>> {
        snapshot!(self, "list spaces", |tx| search::memory_spaces(&mut tx))
    }

    async fn reconcile_memory(&self, options: &ReconcileOptions) -> Result<ReconcileOutcome> {
        let now = self.now();
        let seen = snapshot!(self, "survey the outbox", |tx| reconcile::look(
            &mut tx, options, now
        ))?;
        write!(
            self,
            "reconcile the outbox",
            (seen, options),
            |work| async { LogbookWork(work).reconcile(&seen, &options).await }
        )
    }

    async fn outbox_counts(&self) -> Result<OutboxCounts> {
        snapshot!(self, "count the outbox", |tx| counts::outbox_counts(
            &mut tx
        ))
    }

    async fn memory_counts(&self) -> Result<MemoryCounts> {
        let now = self.now();
        snapshot!(self, "count the outbox", |tx| counts::counts(&mut tx, now))
    }
}
