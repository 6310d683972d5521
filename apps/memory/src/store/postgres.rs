//! The logbook in PostgreSQL: the port of the memory protocol over the functions and views of its migrations.

mod audits;
mod facts;
mod outbox;
mod read;
mod reconcile;
mod search;
mod settings;
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

use consign_kernel::{Migration, migrations};
use consign_postgres::{Component, PostgresStore};

const MIGRATIONS: &[Migration] = migrations!["memory";
    (1, "tables", "postgres/migrations/0001_tables.sql"),
    (2, "outbox", "postgres/migrations/0002_outbox.sql"),
    (3, "hooks", "postgres/migrations/0003_hooks.sql"),
    (4, "search", "postgres/migrations/0004_search.sql"),
    (5, "reconcile", "postgres/migrations/0005_reconcile.sql"),
    (6, "roles", "postgres/migrations/0006_roles.sql"),
];

/// The component `memory`.
pub(super) const COMPONENT: Component = Component {
    migrations: MIGRATIONS,
    checks: &[("memories", include_str!("postgres/sql/doctor_memory.sql"))],
};

/// Clamps the limit of a list.
fn at_most(limit: u32) -> i32 {
    i32::try_from(limit.min(1_000)).unwrap_or(1_000)
}

#[async_trait]
impl Logbook for PostgresStore {
    async fn settings(&self, project_key: &str) -> Result<Settings> {
        settings::settings(self, project_key).await
    }
    async fn change_settings(&self, change: &SettingsChange, audit: &NewAudit) -> Result<Settings> {
        settings::change_settings(self, change, audit).await
    }
    async fn user_exists(&self, user_id: &str) -> Result<bool> {
        settings::user_exists(self, user_id).await
    }
    async fn create_user(&self, user: &NewUser) -> Result<()> {
        settings::create_user(self, user).await
    }
    async fn insert_audit(&self, audit: &NewAudit) -> Result<i64> {
        audits::insert_audit(self, audit).await
    }
    async fn open_write(&self, opening: &Opening) -> Result<OpenResult> {
        audits::open_write(self, opening).await
    }
    async fn finalize_audit(&self, correlation_id: &str, end: &AuditEnd) -> Result<bool> {
        audits::finalize_audit(self, correlation_id, end).await
    }
    async fn audits(&self, filter: &AuditFilter, limit: u32) -> Result<Vec<Audit>> {
        audits::audits(self, filter, limit).await
    }
    async fn defer(
        &self,
        memory: &NewMemory,
        correlation_id: &str,
        end: &AuditEnd,
    ) -> Result<DeferResult> {
        outbox::defer(self, memory, correlation_id, end).await
    }
    async fn enqueue_memory(&self, memory: &NewMemory) -> Result<EnqueuedMemory> {
        outbox::enqueue_memory(self, memory).await
    }
    async fn check_dedup(
        &self,
        target_space: &str,
        payload_sha: &str,
        backend: Option<&str>,
    ) -> Result<Option<KnownMemory>> {
        outbox::check_dedup(self, target_space, payload_sha, backend).await
    }
    async fn may_be_stored(
        &self,
        target_space: &str,
        payload_sha: &str,
        backend: &str,
    ) -> Result<bool> {
        outbox::may_be_stored(self, target_space, payload_sha, backend).await
    }
    async fn outbox_row(&self, outbox_id: MessageId) -> Result<Option<OutboxRow>> {
        outbox::outbox_row(self, outbox_id).await
    }
    async fn outbox_rows(
        &self,
        status: Option<OutboxStatus>,
        limit: u32,
    ) -> Result<Vec<OutboxRow>> {
        outbox::outbox_rows(self, status, limit).await
    }
    async fn claim_outbox(
        &self,
        worker_id: &str,
        limit: u32,
        lease: Duration,
    ) -> Result<Vec<OutboxRow>> {
        outbox::claim_outbox(self, worker_id, limit, lease).await
    }
    async fn ack_sent(
        &self,
        outbox_id: MessageId,
        worker_id: &str,
        memory_id: Option<&str>,
    ) -> Result<bool> {
        outbox::ack_sent(self, outbox_id, worker_id, memory_id).await
    }
    async fn fail_retry(
        &self,
        outbox_id: MessageId,
        worker_id: &str,
        error: &str,
        next_attempt_at: Timestamp,
    ) -> Result<bool> {
        outbox::fail_retry(self, outbox_id, worker_id, error, next_attempt_at).await
    }
    async fn mark_dead_by_worker(
        &self,
        outbox_id: MessageId,
        worker_id: &str,
        error: &str,
    ) -> Result<bool> {
        outbox::mark_dead(self, outbox_id, worker_id, error).await
    }
    async fn renew_lease(&self, outbox_id: MessageId, worker_id: &str) -> Result<bool> {
        outbox::renew_lease(self, outbox_id, worker_id).await
    }
    async fn create_item(&self, item: &NewItem) -> Result<i64> {
        facts::create_item(self, item).await
    }
    async fn add_event(&self, event: &NewEvent) -> Result<Option<i64>> {
        facts::add_event(self, event).await
    }
    async fn attach(&self, attachment: &NewAttachment) -> Result<Option<i64>> {
        facts::attach(self, attachment).await
    }
    async fn item(&self, item_id: i64) -> Result<Option<Item>> {
        read::item(self, item_id).await
    }
    async fn keep_evidence(&self, evidence: &NewEvidence) -> Result<Option<KeptEvidence>> {
        facts::keep_evidence(self, evidence).await
    }
    async fn attachment(&self, attachment_id: i64) -> Result<Option<Attachment>> {
        read::attachment(self, attachment_id).await
    }
    async fn set_kv(&self, namespace: &str, key: &str, value: &Value) -> Result<()> {
        facts::set_kv(self, namespace, key, value).await
    }
    async fn get_kv(&self, namespace: &str, key: &str) -> Result<Option<Value>> {
        facts::get_kv(self, namespace, key).await
    }
    async fn items(&self, filter: &ItemFilter, limit: u32) -> Result<Vec<Item>> {
        read::items(self, filter, limit).await
    }
    async fn events(&self, filter: &EventFilter, limit: u32) -> Result<Vec<Event>> {
        read::events(self, filter, limit).await
    }
    async fn attachments(&self, filter: &AttachmentFilter, limit: u32) -> Result<Vec<Attachment>> {
        read::attachments(self, filter, limit).await
    }
    async fn add_candidate(&self, candidate: &NewCandidate) -> Result<i64> {
        facts::add_candidate(self, candidate).await
    }
    async fn candidate(&self, candidate_id: i64) -> Result<Option<Candidate>> {
        read::candidate(self, candidate_id).await
    }
    async fn search_logbook(
        &self,
        query: &str,
        spaces: &[String],
        limit: u32,
    ) -> Result<Vec<FallbackHit>> {
        search::search_logbook(self, query, spaces, limit).await
    }
    async fn keep(&self, memory: &NewMemory) -> Result<KeepResult> {
        search::keep(self, memory).await
    }
    async fn kept(&self, target_space: &str, payload_sha: &str) -> Result<Option<String>> {
        search::kept(self, target_space, payload_sha).await
    }
    async fn search_kept(&self, search: &Search) -> Result<Vec<MemoryItem>> {
        search::search_kept(self, search).await
    }
    async fn read_kept(&self, memory_id: &str) -> Result<Option<MemoryItem>> {
        search::read_kept(self, memory_id).await
    }
    async fn list_kept(&self, listing: &Listing) -> Result<ItemPage> {
        search::list_kept(self, listing).await
    }
    async fn supersede_kept(&self, old: &str, new: &str) -> Result<()> {
        search::supersede_kept(self, old, new).await
    }
    async fn delete_kept(&self, memory_id: &str, audit: Option<&NewAudit>) -> Result<bool> {
        search::delete_kept(self, memory_id, audit).await
    }
    async fn memory_spaces(&self) -> Result<Vec<String>> {
        search::memory_spaces(self).await
    }
    async fn reconcile_memory(&self, options: &ReconcileOptions) -> Result<ReconcileOutcome> {
        reconcile::reconcile_memory(self, options).await
    }
    async fn outbox_counts(&self) -> Result<OutboxCounts> {
        reconcile::outbox_counts(self).await
    }
    async fn memory_counts(&self) -> Result<MemoryCounts> {
        reconcile::memory_counts(self).await
    }
}
