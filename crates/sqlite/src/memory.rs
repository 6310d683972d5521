//! The logbook of the memory gateway: see `migrations/0006_logbook.sql`. The audits of what becomes
//! of the queue's messages are written where their outcomes are: see `memory/follow.rs`.

mod audit;
mod component;
mod counts;
mod doctor;
mod facts;
mod follow;
mod known;
mod lease;
mod open;
mod outbox;
mod reconcile;
mod rows;
mod search;
mod settings;
mod told;
mod turns;
mod words;

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

pub(crate) use self::{counts::unreadable, outbox::check_memory};
pub(crate) use component::MemoryComponent;

use crate::{
    SqliteStore,
    store::{snapshot, write, write_unopened},
};

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
        write!(self, "make settings", (project_key), |work| work
            .make_settings(&project_key))
    }

    async fn change_settings(&self, change: &SettingsChange, audit: &NewAudit) -> Result<Settings> {
        write!(self, "change settings", (change, audit), |work| work
            .change_settings(&change, &audit))
    }

    async fn user_exists(&self, user_id: &str) -> Result<bool> {
        snapshot!(self, "look for a user", |tx| settings::user_exists(
            &mut tx, user_id
        ))
    }

    async fn create_user(&self, user: &NewUser) -> Result<()> {
        write!(self, "make a user", (user), |work| work.create_user(&user))
    }

    async fn insert_audit(&self, audit: &NewAudit) -> Result<i64> {
        write!(self, "write an audit", (audit), |work| work
            .insert_audit(&audit))
    }

    async fn open_write(&self, opening: &Opening) -> Result<Opened> {
        write_unopened!(self, "begin a write", (opening), |work| work
            .open_write(&opening))
    }

    async fn finalize_audit(&self, correlation_id: &str, end: &AuditEnd) -> Result<bool> {
        write_unopened!(self, "end an audit", (correlation_id, end), |work| work
            .finalize_audit(&correlation_id, &end, None))
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
    ) -> Result<Deferred> {
        write!(
            self,
            "defer a memory",
            (memory, correlation_id, end),
            |work| work.defer(&memory, &correlation_id, &end)
        )
    }

    async fn enqueue_memory(&self, memory: &NewMemory) -> Result<EnqueuedMemory> {
        write!(self, "enqueue a memory", (memory), |work| work
            .enqueue_memory(&memory))
    }

    async fn check_dedup(
        &self,
        target_space: &str,
        payload_sha: &str,
        backend: Option<&str>,
    ) -> Result<Option<Found>> {
        snapshot!(self, "look for a memory", |tx| known::check_dedup(
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
            known::may_be_stored(&mut tx, (target_space, payload_sha), backend)
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
        write!(self, "claim memories", (worker_id), |work| work
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
            |work| work.ack_sent(outbox_id, &worker_id, memory_id.as_deref())
        )
    }

    async fn fail_retry(
        &self,
        outbox_id: MessageId,
        worker_id: &str,
        error: &str,
        next_attempt_at: Timestamp,
    ) -> Result<bool> {
        write!(self, "put a memory off", (worker_id, error), |work| work
            .fail_retry(outbox_id, &worker_id, &error, next_attempt_at))
    }

    async fn mark_dead_by_worker(
        &self,
        outbox_id: MessageId,
        worker_id: &str,
        error: &str,
    ) -> Result<bool> {
        write!(self, "give a memory up", (worker_id, error), |work| work
            .mark_dead(outbox_id, &worker_id, &error))
    }

    async fn renew_lease(&self, outbox_id: MessageId, worker_id: &str) -> Result<bool> {
        write!(self, "renew a memory's lease", (worker_id), |work| work
            .renew_outbox(outbox_id, &worker_id))
    }

    async fn create_item(&self, item: &NewItem) -> Result<i64> {
        write!(self, "make an item", (item), |work| work.create_item(&item))
    }

    async fn add_event(&self, event: &NewEvent) -> Result<Option<i64>> {
        write!(self, "add an event", (event), |work| work.add_event(&event))
    }

    async fn attach(&self, attachment: &NewAttachment) -> Result<Option<i64>> {
        write!(self, "attach", (attachment), |work| work
            .attach(&attachment))
    }

    async fn item(&self, item_id: i64) -> Result<Option<Item>> {
        snapshot!(self, "read an item", |tx| facts::item_of(&mut tx, item_id))
    }

    async fn keep_evidence(&self, evidence: &NewEvidence) -> Result<Option<KeptEvidence>> {
        write!(self, "keep evidence", (evidence), |work| work
            .keep_evidence(&evidence))
    }

    async fn attachment(&self, attachment_id: i64) -> Result<Option<Attachment>> {
        snapshot!(self, "read an attachment", |tx| facts::attachment(
            &mut tx,
            attachment_id
        ))
    }

    async fn set_kv(&self, namespace: &str, key: &str, value: &Value) -> Result<()> {
        write!(self, "set a value", (namespace, key, value), |work| work
            .set_kv(&namespace, &key, &value))
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
        write!(self, "keep a candidate", (candidate), |work| work
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

    async fn keep(&self, memory: &NewMemory) -> Result<Kept> {
        write!(self, "keep a memory", (memory), |work| work.keep(&memory))
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
        write!(self, "replace a kept memory", (old, new), |work| work
            .supersede_kept(&old, &new))
    }

    async fn delete_kept(&self, memory_id: &str, audit: Option<&NewAudit>) -> Result<bool> {
        let audit = audit.cloned();
        write!(self, "remove a kept memory", (memory_id, audit), |work| {
            work.delete_kept(&memory_id, (*audit).as_ref())
        })
    }

    async fn memory_spaces(&self) -> Result<Vec<String>> {
        snapshot!(self, "list spaces", |tx| search::memory_spaces(&mut tx))
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
        let now = self.inner.clock.now();
        let seen = snapshot!(self, "look over the outbox", |tx| reconcile::look(
            &mut tx, options, now
        ))?;
        write!(self, "reconcile the outbox", (seen, options), |work| work
            .reconcile(&seen, &options))
    }

    async fn outbox_counts(&self) -> Result<OutboxCounts> {
        snapshot!(self, "count the outbox", |tx| counts::outbox_counts(
            &mut tx
        ))
    }

    async fn memory_counts(&self) -> Result<MemoryCounts> {
        let now = self.inner.clock.now();
        snapshot!(self, "count the outbox", |tx| counts::counts(&mut tx, now))
    }
}
