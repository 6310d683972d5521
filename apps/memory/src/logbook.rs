//! The port to the gateway's store: settings, users, audits, the outbox, facts, embedded memories.
//!
//! No policy. Every operation is one transaction; both stores implement all of them, and
//! `tests/it/cases` runs the same cases on both.
//!
//! # Audits of the outbox
//!
//! The outbox is the queue `memory`. A hook writes the audit of each outcome in the transaction that
//! records the outcome, whether that is of a worker, of SQL, of an operator or an expiry:
//!
//! | what happened | action, reason | status |
//! |---|---|---|
//! | an attempt `delivered` | allow, `outbox_flush_success` | success |
//! | an attempt `delivered` with the code `dedup_hit` | allow, `outbox_flush_dedup_hit` | success |
//! | an attempt that will be repeated, code `db_timeout` | redirect, `outbox_flush_db_timeout` | redirected |
//! | an attempt that will be repeated, code `db_error` | redirect, `outbox_flush_db_error` | redirected |
//! | any other attempt that will be repeated (not an expiry) | redirect, `outbox_flush_retry` | redirected |
//! | the message is dead | reject, `outbox_flush_dead` | failed |
//! | a result came after its lease had ended (`late`) | redirect, `outbox_flush_conflict` | redirected |
//!
//! If such an audit cannot be written, the outcome stands and reconciliation writes it later. Its
//! `correlation_id` is that of the lease (`corr-` and the fence in 16 hex digits), which all messages of
//! a batch share; `attempt_id` is `attempt-` and 12 hex digits of message and attempt; the audits of one
//! memory have the `outbox_id` in common. [`crate::audit_json`] has the shape of the document, in which
//! these audits fill `outbox_id`, `retry_count` (failed attempts, this one included), `next_attempt_at`,
//! `memory_id`, and in `extra` `correlation_id`, `worker_id`, `attempt_id`, `last_error`,
//! `original_outbox_id` (dedup), `intended_action`, `observed_status` and `observed_locked_by`
//! (conflict). The actor is the message's `actor_user_id`, else the owner of its private space.
//! `intended_action` is `success`, `dedup_hit`, `retry` (for `uncertain` too) or `dead`.
//!
//! An attempt's `result` is `{"memory_id": "…"}`, with `"original_outbox_id"` for a dedup hit; its
//! `detail` is the error, beginning with `connection_error: `, `api_error: 503 - ` or
//! `openmemory_error: `.

mod audit;
mod facts;
mod outbox;
mod reconcile;
mod settings;

pub use self::{
    audit::{Action, Audit, AuditEnd, AuditFilter, AuditStatus, NewAudit, OpenResult, Opening},
    facts::{
        Attachment, AttachmentFilter, Candidate, Event, EventFilter, FallbackHit, Item, ItemFilter,
        KeptEvidence, NewAttachment, NewCandidate, NewEvent, NewEvidence, NewItem, NewUser,
    },
    outbox::{DeferResult, EnqueuedMemory, KeepResult, KnownMemory, OutboxRow, OutboxStatus, Twin},
    reconcile::{Finding, Issue, MemoryCounts, OutboxCounts, ReconcileOptions, ReconcileOutcome},
    settings::{Settings, SettingsChange},
};

use std::time::Duration;

use async_trait::async_trait;
use consign_kernel::{MessageId, Result};
use jiff::Timestamp;
use serde_json::Value;

use crate::{ItemPage, Listing, MemoryItem, NewMemory, Search, WriteLockStore};

/// The store of the memory gateway.
#[async_trait]
pub trait Logbook: WriteLockStore {
    // Settings.

    /// The settings of a project; created with team writes off and an empty policy.
    async fn settings(&self, project_key: &str) -> Result<Settings>;

    /// Changes settings and writes the audit, in one transaction.
    async fn change_settings(&self, change: &SettingsChange, audit: &NewAudit) -> Result<Settings>;

    // Users. No other operation creates one.

    /// Whether this user exists and is active.
    async fn user_exists(&self, user_id: &str) -> Result<bool>;

    /// Creates a user, unless it exists.
    async fn create_user(&self, user: &NewUser) -> Result<()>;

    // Audits.

    /// Writes an audit, pending or final.
    async fn insert_audit(&self, audit: &NewAudit) -> Result<i64>;

    /// Opens a write, in one round trip: checks the assumptions of its decision, checks that the text is
    /// not stored in the audit's backend (see [`Logbook::check_dedup`]), and inserts the pending audit.
    /// With `kept` the memory is stored here and the audit is inserted as ended, with its `memory_id`,
    /// and `stored_again` if it had been kept before and removed.
    async fn open_write(&self, opening: &Opening) -> Result<OpenResult>;

    /// Ends the pending audit of a request; returns whether there was one. An ended audit never changes,
    /// but for the error texts that an erasure removes.
    async fn finalize_audit(&self, correlation_id: &str, end: &AuditEnd) -> Result<bool>;

    /// Matching audits, newest first; at most 1,000.
    async fn audits(&self, filter: &AuditFilter, limit: u32) -> Result<Vec<Audit>>;

    // The outbox.

    /// Enqueues a memory and ends its request's audit with `end` and the outbox id (`:outbox:<id>` after
    /// the reason, `outbox_id` and the decision in the document), in one transaction. If a row with the
    /// same text for the same backend is pending, its id is returned instead; if one is dead, it is
    /// requeued. A sent row does not count: the caller has found that the backend lost the memory or does
    /// not answer, so the memory gets another row, under [`crate::nth_key`].
    async fn defer(
        &self,
        memory: &NewMemory,
        correlation_id: &str,
        end: &AuditEnd,
    ) -> Result<DeferResult>;

    /// Enqueues a memory without an audit, as the seed's primitive does: a sent twin is returned too. A
    /// memory without a backend matches rows of any backend.
    async fn enqueue_memory(&self, memory: &NewMemory) -> Result<EnqueuedMemory>;

    /// The latest record that this text was stored in this space: a sent message, or an audit `success`
    /// with a `memory_id`. With a backend, only its own records count, and those without one. The
    /// backend itself may have lost the memory since.
    async fn check_dedup(
        &self,
        target_space: &str,
        payload_sha: &str,
        backend: Option<&str>,
    ) -> Result<Option<KnownMemory>>;

    /// Whether a request may have stored this text without recording it: its audit is pending, or ended
    /// with `may_be_stored` in `extra`.
    async fn may_be_stored(
        &self,
        target_space: &str,
        payload_sha: &str,
        backend: &str,
    ) -> Result<bool>;

    /// A row of the outbox.
    async fn outbox_row(&self, outbox_id: MessageId) -> Result<Option<OutboxRow>>;

    /// Rows of the outbox, newest first.
    async fn outbox_rows(&self, status: Option<OutboxStatus>, limit: u32)
    -> Result<Vec<OutboxRow>>;

    /// Leases due rows to a worker, one lease each, oldest first. In the seed's lease protocol the
    /// operations below find the lease by worker and return false if the worker has no live one.
    async fn claim_outbox(
        &self,
        worker_id: &str,
        limit: u32,
        lease: Duration,
    ) -> Result<Vec<OutboxRow>>;

    /// Settles a row as sent. If the worker's lease has ended, returns false and records a late result,
    /// whose audit is a conflict; so do the two operations below.
    async fn ack_sent(
        &self,
        outbox_id: MessageId,
        worker_id: &str,
        memory_id: Option<&str>,
    ) -> Result<bool>;

    /// Settles a row as failed and due again at a time. Unlike the queue's policy, this has no attempt
    /// limit.
    async fn fail_retry(
        &self,
        outbox_id: MessageId,
        worker_id: &str,
        error: &str,
        next_attempt_at: Timestamp,
    ) -> Result<bool>;

    /// Settles a row as dead.
    async fn mark_dead_by_worker(
        &self,
        outbox_id: MessageId,
        worker_id: &str,
        error: &str,
    ) -> Result<bool>;

    /// Renews the worker's lease for the duration it was claimed for.
    async fn renew_lease(&self, outbox_id: MessageId, worker_id: &str) -> Result<bool>;

    // Facts.

    /// Creates an item.
    async fn create_item(&self, item: &NewItem) -> Result<i64>;

    /// An item.
    async fn item(&self, item_id: i64) -> Result<Option<Item>>;

    /// Adds an event; with `status_to`, the item's status changes in the same transaction. None if the
    /// item does not exist.
    async fn add_event(&self, event: &NewEvent) -> Result<Option<i64>>;

    /// Attaches a URI to an item; a repeated (item, kind, sha256) returns the first id. None if the item
    /// does not exist.
    async fn attach(&self, attachment: &NewAttachment) -> Result<Option<i64>>;

    /// Attaches evidence to an item, which may be created for it, and writes the audit, in one
    /// transaction. None if the item does not exist.
    async fn keep_evidence(&self, evidence: &NewEvidence) -> Result<Option<KeptEvidence>>;

    /// An attachment.
    async fn attachment(&self, attachment_id: i64) -> Result<Option<Attachment>>;

    /// Sets a value.
    async fn set_kv(&self, namespace: &str, key: &str, value: &Value) -> Result<()>;

    /// A value.
    async fn get_kv(&self, namespace: &str, key: &str) -> Result<Option<Value>>;

    /// Matching items, newest first.
    async fn items(&self, filter: &ItemFilter, limit: u32) -> Result<Vec<Item>>;

    /// Matching events, newest first.
    async fn events(&self, filter: &EventFilter, limit: u32) -> Result<Vec<Event>>;

    /// Matching attachments, newest first.
    async fn attachments(&self, filter: &AttachmentFilter, limit: u32) -> Result<Vec<Attachment>>;

    /// Adds a candidate of an analysis run.
    async fn add_candidate(&self, candidate: &NewCandidate) -> Result<i64>;

    /// A candidate.
    async fn candidate(&self, candidate_id: i64) -> Result<Option<Candidate>>;

    // Search.

    /// Full-text search over candidates and events in these spaces, best first. The query is words without
    /// operators or wildcards; a hit has any of them, and ranks by how many, then newest first. An event's
    /// title is its item's, its content the strings of its payload except `space`, a line each.
    async fn search_logbook(
        &self,
        query: &str,
        spaces: &[String],
        limit: u32,
    ) -> Result<Vec<FallbackHit>>;

    // The embedded backend.

    /// Stores a memory; the same text in the same space returns the first one. A superseded memory is no
    /// longer found, and its text may be stored again.
    async fn keep(&self, memory: &NewMemory) -> Result<KeepResult>;

    /// The id of the memory with this text in this space.
    async fn kept(&self, target_space: &str, payload_sha: &str) -> Result<Option<String>>;

    /// Full-text search over kept memories, best first, by everything of the filter but `meta`.
    async fn search_kept(&self, search: &Search) -> Result<Vec<MemoryItem>>;

    /// A memory by id.
    async fn read_kept(&self, memory_id: &str) -> Result<Option<MemoryItem>>;

    /// Kept memories, newest first, by everything of the filter but `meta`; pages of at most 1,000.
    async fn list_kept(&self, listing: &Listing) -> Result<ItemPage>;

    /// Marks a memory as replaced by another of the same space, unless it was replaced before.
    async fn supersede_kept(&self, old: &str, new: &str) -> Result<()>;

    /// Removes a memory with the versions that it replaced, and writes the audit, if given, in one
    /// transaction. Returns whether it existed; if not, nothing is written.
    async fn delete_kept(&self, memory_id: &str, audit: Option<&NewAudit>) -> Result<bool>;

    /// Every space that a memory was ever stored in, for all backends.
    async fn memory_spaces(&self) -> Result<Vec<String>>;

    // Maintenance.

    /// Finds inconsistencies of outbox and audits, oldest first, and repairs what may be repaired.
    async fn reconcile_memory(&self, options: &ReconcileOptions) -> Result<ReconcileOutcome>;

    /// Outbox rows by status and pending audits. Cheap: does not scan the audits.
    async fn outbox_counts(&self) -> Result<OutboxCounts>;

    /// The figures of the reliability report from one snapshot. Slow: scans all audits.
    async fn memory_counts(&self) -> Result<MemoryCounts>;
}
