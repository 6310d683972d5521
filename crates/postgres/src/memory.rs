//! The logbook: the port of the memory protocol over the functions and views of the migrations 0020 to
//! 0025.

mod audits;
mod facts;
mod outbox;
mod read;
mod reconcile;
mod search;
mod settings;
mod turns;

use std::time::Duration;

use async_trait::async_trait;
use consign_kernel::{MessageId, Result};
use consign_memory::{
    Attachment, AttachmentFilter, Audit, AuditEnd, AuditFilter, Candidate, Deferred,
    EnqueuedMemory, Event, EventFilter, FallbackHit, Found, Item, ItemFilter, ItemPage, Kept,
    KeptEvidence, Listing, Logbook, MemoryCounts, MemoryItem, NewAttachment, NewAudit,
    NewCandidate, NewEvent, NewEvidence, NewItem, NewMemory, NewUser, Opened, Opening,
    OutboxCounts, OutboxRow, OutboxStatus, ReconcileOptions, Reconciled, Search, Settings,
    SettingsChange, TurnKept,
};
use jiff::Timestamp;
use serde_json::Value;

use crate::PostgresStore;

/// As many as a list may have.
fn at_most(limit: u32) -> i32 {
    i32::try_from(limit.min(1_000)).unwrap_or(1_000)
}

#[async_trait]
impl Logbook for PostgresStore {
    async fn settings(&self, project_key: &str) -> Result<Settings> {
        self.settings_impl(project_key).await
    }
    async fn change_settings(&self, change: &SettingsChange, audit: &NewAudit) -> Result<Settings> {
        self.change_settings_impl(change, audit).await
    }
    async fn user_exists(&self, user_id: &str) -> Result<bool> {
        self.user_exists_impl(user_id).await
    }
    async fn create_user(&self, user: &NewUser) -> Result<()> {
        self.create_user_impl(user).await
    }
    async fn insert_audit(&self, audit: &NewAudit) -> Result<i64> {
        self.insert_audit_impl(audit).await
    }
    async fn open_write(&self, opening: &Opening) -> Result<Opened> {
        self.open_write_impl(opening).await
    }
    async fn finalize_audit(&self, correlation_id: &str, end: &AuditEnd) -> Result<bool> {
        self.finalize_audit_impl(correlation_id, end).await
    }
    async fn audits(&self, filter: &AuditFilter, limit: u32) -> Result<Vec<Audit>> {
        self.audits_impl(filter, limit).await
    }
    async fn defer(
        &self,
        memory: &NewMemory,
        correlation_id: &str,
        end: &AuditEnd,
    ) -> Result<Deferred> {
        self.defer_impl(memory, correlation_id, end).await
    }
    async fn enqueue_memory(&self, memory: &NewMemory) -> Result<EnqueuedMemory> {
        self.enqueue_memory_impl(memory).await
    }
    async fn check_dedup(
        &self,
        target_space: &str,
        payload_sha: &str,
        backend: Option<&str>,
    ) -> Result<Option<Found>> {
        self.check_dedup_impl(target_space, payload_sha, backend)
            .await
    }
    async fn may_be_stored(
        &self,
        target_space: &str,
        payload_sha: &str,
        backend: &str,
    ) -> Result<bool> {
        self.may_be_stored_impl(target_space, payload_sha, backend)
            .await
    }
    async fn outbox_row(&self, outbox_id: MessageId) -> Result<Option<OutboxRow>> {
        self.outbox_row_impl(outbox_id).await
    }
    async fn outbox_rows(
        &self,
        status: Option<OutboxStatus>,
        limit: u32,
    ) -> Result<Vec<OutboxRow>> {
        self.outbox_rows_impl(status, limit).await
    }
    async fn claim_outbox(
        &self,
        worker_id: &str,
        limit: u32,
        lease: Duration,
    ) -> Result<Vec<OutboxRow>> {
        self.claim_outbox_impl(worker_id, limit, lease).await
    }
    async fn ack_sent(
        &self,
        outbox_id: MessageId,
        worker_id: &str,
        memory_id: Option<&str>,
    ) -> Result<bool> {
        self.ack_sent_impl(outbox_id, worker_id, memory_id).await
    }
    async fn fail_retry(
        &self,
        outbox_id: MessageId,
        worker_id: &str,
        error: &str,
        next_attempt_at: Timestamp,
    ) -> Result<bool> {
        self.fail_retry_impl(outbox_id, worker_id, error, next_attempt_at)
            .await
    }
    async fn mark_dead_by_worker(
        &self,
        outbox_id: MessageId,
        worker_id: &str,
        error: &str,
    ) -> Result<bool> {
        self.mark_dead_impl(outbox_id, worker_id, error).await
    }
    async fn renew_lease(&self, outbox_id: MessageId, worker_id: &str) -> Result<bool> {
        self.renew_lease_impl(outbox_id, worker_id).await
    }
    async fn create_item(&self, item: &NewItem) -> Result<i64> {
        self.create_item_impl(item).await
    }
    async fn add_event(&self, event: &NewEvent) -> Result<Option<i64>> {
        self.add_event_impl(event).await
    }
    async fn attach(&self, attachment: &NewAttachment) -> Result<Option<i64>> {
        self.attach_impl(attachment).await
    }
    async fn item(&self, item_id: i64) -> Result<Option<Item>> {
        self.item_impl(item_id).await
    }
    async fn keep_evidence(&self, evidence: &NewEvidence) -> Result<Option<KeptEvidence>> {
        self.keep_evidence_impl(evidence).await
    }
    async fn attachment(&self, attachment_id: i64) -> Result<Option<Attachment>> {
        self.attachment_impl(attachment_id).await
    }
    async fn set_kv(&self, namespace: &str, key: &str, value: &Value) -> Result<()> {
        self.set_kv_impl(namespace, key, value).await
    }
    async fn get_kv(&self, namespace: &str, key: &str) -> Result<Option<Value>> {
        self.get_kv_impl(namespace, key).await
    }
    async fn items(&self, filter: &ItemFilter, limit: u32) -> Result<Vec<Item>> {
        self.items_impl(filter, limit).await
    }
    async fn events(&self, filter: &EventFilter, limit: u32) -> Result<Vec<Event>> {
        self.events_impl(filter, limit).await
    }
    async fn attachments(&self, filter: &AttachmentFilter, limit: u32) -> Result<Vec<Attachment>> {
        self.attachments_impl(filter, limit).await
    }
    async fn add_candidate(&self, candidate: &NewCandidate) -> Result<i64> {
        self.add_candidate_impl(candidate).await
    }
    async fn candidate(&self, candidate_id: i64) -> Result<Option<Candidate>> {
        self.candidate_impl(candidate_id).await
    }
    async fn search_logbook(
        &self,
        query: &str,
        spaces: &[String],
        limit: u32,
    ) -> Result<Vec<FallbackHit>> {
        self.search_logbook_impl(query, spaces, limit).await
    }
    async fn keep(&self, memory: &NewMemory) -> Result<Kept> {
        self.keep_impl(memory).await
    }
    async fn kept(&self, target_space: &str, payload_sha: &str) -> Result<Option<String>> {
        self.kept_impl(target_space, payload_sha).await
    }
    async fn search_kept(&self, search: &Search) -> Result<Vec<MemoryItem>> {
        self.search_kept_impl(search).await
    }
    async fn read_kept(&self, memory_id: &str) -> Result<Option<MemoryItem>> {
        self.read_kept_impl(memory_id).await
    }
    async fn list_kept(&self, listing: &Listing) -> Result<ItemPage> {
        self.list_kept_impl(listing).await
    }
    async fn supersede_kept(&self, old: &str, new: &str) -> Result<()> {
        self.supersede_kept_impl(old, new).await
    }
    async fn delete_kept(&self, memory_id: &str, audit: Option<&NewAudit>) -> Result<bool> {
        self.delete_kept_impl(memory_id, audit).await
    }
    async fn memory_spaces(&self) -> Result<Vec<String>> {
        self.memory_spaces_impl().await
    }
    async fn take_turn(&self, destination: &str, holder: &str, ttl: Duration) -> Result<bool> {
        self.take_turn_impl(destination, holder, ttl).await
    }
    async fn keep_turn(&self, destination: &str, holder: &str, ttl: Duration) -> Result<TurnKept> {
        self.keep_turn_impl(destination, holder, ttl).await
    }
    async fn leave_turn(&self, destination: &str, holder: &str) -> Result<()> {
        self.leave_turn_impl(destination, holder).await
    }
    async fn reconcile_memory(&self, options: &ReconcileOptions) -> Result<Reconciled> {
        self.reconcile_memory_impl(options).await
    }
    async fn outbox_counts(&self) -> Result<OutboxCounts> {
        self.outbox_counts_impl().await
    }
    async fn memory_counts(&self) -> Result<MemoryCounts> {
        self.memory_counts_impl().await
    }
}
