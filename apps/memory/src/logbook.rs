//! The port to what the gateway remembers.
//!
//! Facts only, no policy. Every operation is one transaction; both stores implement all of them, and
//! `consign_conformance::memory` says what they must do.
//!
//! # Whatever moves a message writes its audit
//!
//! The outbox is the queue `memory`. Like the ledger of orders, the audits of its outcomes are written
//! by the database in the transaction that records the outcome, whoever records it (a worker, SQL, a
//! person, an expiry):
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
//! Should writing such an audit fail, the outcome stands all the same and `reconcile` writes it later.
//! Their `correlation_id` is that of the lease (`corr-` and its fence as 16 hex digits), so all of a
//! batch share it; `attempt_id` is `attempt-` and 12 hex digits of message and attempt; the common key
//! of a memory's stages is `outbox_id`. `evidence_refs_json` is shaped as in [`crate`]'s facts: at the
//! top `gateway_event`, `outbox_id`, `source` = `outbox_worker`, `payload_sha`, `correlation_id`,
//! `worker_id`, `attempt_id`, `retry_count`, `memory_id` and `next_attempt_at` where there are any, and
//! `extra` with `correlation_id`, `worker_id`, `attempt_id`, `last_error`, `original_outbox_id` (dedup),
//! `intended_action`, `observed_status` and `observed_locked_by` (conflict). `original_outbox_id` and
//! `intended_action` stand at the top too. The actor is the message's `actor_user_id`, else the owner
//! of its private space. `retry_count` counts the attempts that failed, this one included.
//! `intended_action` is `success`, `dedup_hit`, `retry` (for `uncertain` too) or `dead`.
//!
//! What an attempt says: `result` is `{"memory_id": "…"}`, with `"original_outbox_id"` for a dedup hit;
//! `detail` is the error, beginning with `connection_error: `, `api_error: 503 - ` or
//! `openmemory_error: `.

mod audit;
mod facts;
mod outbox;
mod reconcile;
mod search;
mod settings;
mod turn;
mod write;

pub use self::{
    audit::{Action, Audit, AuditEnd, AuditFilter, AuditStatus, NewAudit},
    facts::{
        Attachment, AttachmentFilter, Candidate, Event, EventFilter, Item, ItemFilter,
        KeptEvidence, NewAttachment, NewCandidate, NewEvent, NewEvidence, NewItem, NewUser,
    },
    outbox::{Deferred, EnqueuedMemory, Found, OutboxRow, OutboxStatus, Twin},
    reconcile::{Finding, Issue, MemoryCounts, OutboxCounts, ReconcileOptions, Reconciled},
    search::{FallbackHit, Kept},
    settings::{Settings, SettingsChange},
    turn::{TURN_PLACE, TurnKept},
    write::{Opened, Opening},
};

use std::time::Duration;

use async_trait::async_trait;
use consign_kernel::{MessageId, Result};
use jiff::Timestamp;
use serde_json::Value;

use crate::{ItemPage, Listing, MemoryItem, NewMemory, Search};

/// What the gateway remembers.
#[async_trait]
pub trait Logbook: Send + Sync {
    // Settings.

    /// The settings of a project; made with team writes off and an empty policy if there are none.
    async fn settings(&self, project_key: &str) -> Result<Settings>;

    /// Changes settings and writes the audit of it, both or neither.
    async fn change_settings(&self, change: &SettingsChange, audit: &NewAudit) -> Result<Settings>;

    // Users. Nothing but these creates one.

    /// Whether this user is known and active.
    async fn user_exists(&self, user_id: &str) -> Result<bool>;

    /// Makes a user; nothing if there is one.
    async fn create_user(&self, user: &NewUser) -> Result<()>;

    // Audits.

    /// Writes an audit, pending or final.
    async fn insert_audit(&self, audit: &NewAudit) -> Result<i64>;

    /// Begins a write: makes sure that what it was decided by still holds and that it is not stored
    /// already (as [`Logbook::check_dedup`] says of the backend that the audit names), and writes its
    /// audit, which is pending; or keeps it here, and then its audit has ended well: `memory_id` is
    /// written into it, also into `gateway_event`, and `stored_again` into `extra` if it had been kept
    /// before and was gone. One trip to the database, and one to its disk.
    async fn open_write(&self, opening: &Opening) -> Result<Opened>;

    /// Ends the pending audit of a request; answers whether there was one. A final one never changes.
    async fn finalize_audit(&self, correlation_id: &str, end: &AuditEnd) -> Result<bool>;

    /// Audits that fit, newest first; at most 1,000.
    async fn audits(&self, filter: &AuditFilter, limit: u32) -> Result<Vec<Audit>>;

    // The outbox.

    /// Enqueues a memory and ends its request's audit with `end`, into which the outbox id is
    /// written (`:outbox:<id>` after the reason, `outbox_id` in the JSON; in `gateway_event`, if
    /// there is one, `outbox_id` and `decision` follow), both or neither. A twin for the same backend
    /// that is pending is answered instead of enqueued, and its id is written; a dead one is
    /// requeued. One that was sent says nothing here: whoever defers has found that the backend does
    /// not have it, or could not be asked; the memory gets a row of its own, under [`crate::nth_key`].
    async fn defer(
        &self,
        memory: &NewMemory,
        correlation_id: &str,
        end: &AuditEnd,
    ) -> Result<Deferred>;

    /// Enqueues a memory without any audit, as the seed's primitive does: a twin that was sent is
    /// answered too. A memory that names no backend is a twin of whichever is there.
    async fn enqueue_memory(&self, memory: &NewMemory) -> Result<EnqueuedMemory>;

    /// Whether this text was stored in this space already: by a message that was sent, or directly
    /// (a final audit `success` with a `memory_id`); the latest. With a backend only what was stored
    /// there counts, and what names none. Whether the backend still has it, only the backend knows.
    async fn check_dedup(
        &self,
        target_space: &str,
        payload_sha: &str,
        backend: Option<&str>,
    ) -> Result<Option<Found>>;

    /// Whether a request may have stored this text there without anybody having written that down:
    /// its audit is pending, or ended with `may_be_stored` in its `extra`.
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

    /// Leases due rows to a worker, a lease for each, oldest first. The seed's lease protocol: what
    /// follows knows the lease by the worker's name and answers false when the worker has no live one.
    async fn claim_outbox(
        &self,
        worker_id: &str,
        limit: u32,
        lease: Duration,
    ) -> Result<Vec<OutboxRow>>;

    /// It is stored. A worker that had a lease and lost it is answered false, and what it says is kept as
    /// a late result, which is a conflict; so with the two below.
    async fn ack_sent(
        &self,
        outbox_id: MessageId,
        worker_id: &str,
        memory_id: Option<&str>,
    ) -> Result<bool>;

    /// It failed and is due again at a time. Unlike the worker's policy, this has no ceiling.
    async fn fail_retry(
        &self,
        outbox_id: MessageId,
        worker_id: &str,
        error: &str,
        next_attempt_at: Timestamp,
    ) -> Result<bool>;

    /// It cannot be stored.
    async fn mark_dead_by_worker(
        &self,
        outbox_id: MessageId,
        worker_id: &str,
        error: &str,
    ) -> Result<bool>;

    /// Starts the worker's lease anew, with the length it was claimed for.
    async fn renew_lease(&self, outbox_id: MessageId, worker_id: &str) -> Result<bool>;

    // Facts.

    /// Makes an item.
    async fn create_item(&self, item: &NewItem) -> Result<i64>;

    /// An item.
    async fn item(&self, item_id: i64) -> Result<Option<Item>>;

    /// Adds an event; with `status_to`, the item changes to it in the same transaction. None: there
    /// is no such item.
    async fn add_event(&self, event: &NewEvent) -> Result<Option<i64>>;

    /// Attaches something to an item; the same (item, kind, sha256) is attached once and answered
    /// again. None: there is no such item.
    async fn attach(&self, attachment: &NewAttachment) -> Result<Option<i64>>;

    /// Attaches evidence to an item, which may be made for it, and writes the audit of it: all or
    /// nothing. None: there is no such item.
    async fn keep_evidence(&self, evidence: &NewEvidence) -> Result<Option<KeptEvidence>>;

    /// An attachment.
    async fn attachment(&self, attachment_id: i64) -> Result<Option<Attachment>>;

    /// Sets a value.
    async fn set_kv(&self, namespace: &str, key: &str, value: &Value) -> Result<()>;

    /// A value.
    async fn get_kv(&self, namespace: &str, key: &str) -> Result<Option<Value>>;

    /// Items that fit, newest first.
    async fn items(&self, filter: &ItemFilter, limit: u32) -> Result<Vec<Item>>;

    /// Events that fit, newest first.
    async fn events(&self, filter: &EventFilter, limit: u32) -> Result<Vec<Event>>;

    /// Attachments that fit, newest first.
    async fn attachments(&self, filter: &AttachmentFilter, limit: u32) -> Result<Vec<Attachment>>;

    /// Keeps what an analysis found, with the run it came from.
    async fn add_candidate(&self, candidate: &NewCandidate) -> Result<i64>;

    /// A candidate.
    async fn candidate(&self, candidate_id: i64) -> Result<Option<Candidate>>;

    // Searching.

    /// Full-text search over candidates and events, in these spaces only, best first. Query text is
    /// words, never a language: nothing in it is an operator or a wildcard. What has any of the words
    /// fits, and is better the more it has of them; of equals, the newer one. An event's title is its
    /// item's, its content the strings of its payload (but for `space`), a line each.
    async fn search_logbook(
        &self,
        query: &str,
        spaces: &[String],
        limit: u32,
    ) -> Result<Vec<FallbackHit>>;

    // The embedded memory.

    /// Keeps a memory; the same text in the same space is kept once and answered again. The one that it
    /// supersedes, if that is there, is neither found nor kept any more: its text may be kept again.
    async fn keep(&self, memory: &NewMemory) -> Result<Kept>;

    /// The memory of this text in this space.
    async fn kept(&self, target_space: &str, payload_sha: &str) -> Result<Option<String>>;

    /// Full-text search over kept memories, best first, by everything of the filter but `meta`.
    async fn search_kept(&self, search: &Search) -> Result<Vec<MemoryItem>>;

    /// The kept memory of this name.
    async fn read_kept(&self, memory_id: &str) -> Result<Option<MemoryItem>>;

    /// Kept memories, newest first, by everything of the filter but `meta`; pages of at most 1,000.
    async fn list_kept(&self, listing: &Listing) -> Result<ItemPage>;

    /// Marks a kept memory of the same space as replaced by another, unless it was replaced before.
    async fn supersede_kept(&self, old: &str, new: &str) -> Result<()>;

    /// Removes a kept memory with the versions that it replaced, and writes the audit of that, if there
    /// is one: both or neither. Answers whether it was there; if not, nothing is written.
    async fn delete_kept(&self, memory_id: &str, audit: Option<&NewAudit>) -> Result<bool>;

    /// Every space that a memory was ever stored in, whichever backend has it.
    async fn memory_spaces(&self) -> Result<Vec<String>>;

    // Turns: who may write to a memory server that must not be written to by two at once. Unlike
    // everything else here they need not outlive a crash of the database.

    /// Takes the turn at a destination if it is free: nobody has it, or nobody has kept it for its
    /// `ttl`, or the holder asks again; and nobody else is next. Whoever finds it taken is next, if
    /// nobody else is, for as long as [`TURN_PLACE`].
    async fn take_turn(&self, destination: &str, holder: &str, ttl: Duration) -> Result<bool>;

    /// Has the turn last `ttl` from now, if it is the holder's.
    async fn keep_turn(&self, destination: &str, holder: &str, ttl: Duration) -> Result<TurnKept>;

    /// Gives the turn back, if it is the holder's.
    async fn leave_turn(&self, destination: &str, holder: &str) -> Result<()>;

    // Looking after it.

    /// Finds what does not fit together, oldest first, and repairs what may be repaired.
    async fn reconcile_memory(&self, options: &ReconcileOptions) -> Result<Reconciled>;

    /// How many rows of the outbox stand how, and how many audits are pending: what is looked at all
    /// the time. Does not walk the audits.
    async fn outbox_counts(&self) -> Result<OutboxCounts>;

    /// The figures of the reliability report, read at one moment. May take long: it walks them all.
    async fn memory_counts(&self) -> Result<MemoryCounts>;
}
