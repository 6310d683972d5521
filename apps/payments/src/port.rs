//! The port of the payment protocol to a store.
//!
//! A payment is a message of the queue `payments` and a row beside it, written in one transaction
//! and never changed. Its key is the `outbox_id`, its group the participant, its payload
//!
//! ```json
//! {"outbox_id": "…", "instruction_id": "…", "idempotency_key": "…", "participant_id": "…",
//!  "sequence_id": 7, "rail_type": "…", "tenant_id": null, "correlation_id": null,
//!  "payload": {"amount_minor": 1250, "currency_code": "ZMW", "destination": "…"}}
//! ```
//!
//! Its state is where its message is; its history is that message's attempts. Nothing is stored
//! twice, so every change of the message (by a worker, SQL, an operator, an expiry) is a change of
//! the payment.
//!
//! # Repeated keys
//!
//! `(instruction_id, idempotency_key)` identifies a payment, compared byte by byte. A repeat is
//! compared with the stored payment in this order: `tenant_id` (absent differs from present),
//! `participant_id`, `rail_type`, each as text; then `payload`, as PostgreSQL compares `jsonb`:
//! keys in any order, numbers by value (`consign_kernel::Payload`); then `kyc_hold`. The first
//! difference is the conflict (`P7004` in SQL). `correlation_id` and headers are not compared.
//!
//! # A success without a reference
//!
//! The money has moved, but its reference is unknown. Such an attempt is recorded as uncertain with
//! the code `MISSING_RAIL_REFERENCE` and the payment held with that reason: it cannot be claimed
//! until an operator resolves or releases it. The queue's `hold_codes` do that
//! (`consign_kernel::after_settle`), so it holds for every way to settle. A reference that two
//! payments of a participant and rail share is recorded as reported, and listed by `reconcile` and
//! `doctor`.

use std::{collections::BTreeMap, time::Duration};

use async_trait::async_trait;
use consign_kernel::{
    By, Cursor, Error, Fence, LateResult, MessageId, Move, Page, Payload, Result, StateKind, Store,
    Token,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{
    AttemptState, AttemptView, ClaimedPayments, Completion, NewPayment, OutboxId, PaymentState,
    PaymentView, RailRecord,
};

/// The stored payment of an enqueue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaymentReceipt {
    /// The payment: the new one, or the first with its key.
    pub outbox_id: OutboxId,
    /// Its number in the participant's sequence.
    pub sequence_id: i64,
    /// When it was first enqueued.
    pub created_at: Timestamp,
    /// Current state.
    pub state: PaymentState,
    /// Whether it existed already, so that nothing was written.
    pub duplicate: bool,
}

/// Result of enqueueing a payment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnqueueAnswer {
    /// The payment is stored: now, or earlier with the same content.
    Enqueued(PaymentReceipt),
    /// Its key belongs to another payment. Nothing was written for it.
    Conflict {
        /// The payment that has the key, of the same tenant.
        outbox_id: OutboxId,
        /// The first difference: `participant_id`, `rail_type`, `payload` or `kyc_hold`.
        field: &'static str,
    },
}

/// What was recorded for one payment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompletionResult {
    /// The payment.
    pub outbox_id: OutboxId,
    /// The attempt.
    pub attempt_no: u32,
    /// State of that attempt; `Failed` where the ceiling was reached.
    pub state: AttemptState,
    /// State of the message now.
    pub message_state: StateKind,
}

/// Result of recording completions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompleteAnswer {
    /// One per completion, in order. A repeat returns what this token recorded before.
    Completed(Vec<CompletionResult>),
    /// The token is unknown or another worker's, or its lease expired or does not hold all of these
    /// payments, including ones that do not exist (`P7002` in SQL). Nothing was written; pass the
    /// rail's answers to [`record_late_payments`](Payments::record_late_payments).
    LeaseLost,
    /// This token recorded another result for one of these before, see
    /// [`Completion::is_recorded_as`] (`P7002` in SQL, with the reason `recorded_otherwise`).
    /// Nothing was written; pass the rail's answers to
    /// [`record_late_payments`](Payments::record_late_payments).
    RecordedOtherwise,
}

/// Result of an expiry for one payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RepairResult {
    /// The payment.
    pub outbox_id: OutboxId,
    /// The attempt that was appended.
    pub attempt_no: u32,
    /// `ZombieRequeue`, or `Failed` at the ceiling.
    pub state: AttemptState,
}

/// Filter of a list. Absent fields match everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PaymentFilter {
    /// Of this tenant.
    pub tenant_id: Option<Uuid>,
    /// Of this participant.
    pub participant_id: Option<String>,
    /// Of this instruction.
    pub instruction_id: Option<String>,
    /// In this state.
    pub state: Option<PaymentState>,
}

/// Result of a manual operation on one payment; `None` if it does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PaymentMoveResult {
    /// The payment.
    pub outbox_id: OutboxId,
    /// Result of the operation.
    pub answer: Move,
}

/// A leased payment, for operators.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InFlight {
    /// The payment.
    pub outbox_id: OutboxId,
    /// Owner of the lease.
    pub claimed_by: String,
    /// The lease's fence; its token is secret and not shown.
    pub fence: Fence,
    /// When it was claimed.
    pub claimed_at: Timestamp,
    /// When the lease expires unless renewed.
    pub lease_expires_at: Timestamp,
    /// Whether it has expired: the next claim or repair ends it.
    pub is_expired: bool,
    /// Whether the rail call has begun or may have: the worker reported it, or claimed it so.
    pub has_begun: bool,
}

/// Counts of payments.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaymentsStatus {
    /// Not finished and not held: waiting, ready, scheduled or leased.
    pub pending: u64,
    /// Of these, ready and due.
    pub due: u64,
    /// Of these, due later.
    pub scheduled: u64,
    /// Of these, waiting for an earlier one of their participant.
    pub waiting: u64,
    /// Of these, in leases.
    pub leased: u64,
    /// Of the leased, in expired leases.
    pub expired: u64,
    /// Held.
    pub held: u64,
    /// Failed and not requeued.
    pub failed: u64,
    /// Pending payments by attempts so far: 1, 2, 3, 4, and 5 or more.
    pub attempts_histogram: [u64; 5],
    /// When the oldest pending one was enqueued.
    pub oldest_pending_at: Option<Timestamp>,
    /// Attempts of the last hour by state.
    pub last_hour: BTreeMap<AttemptState, u64>,
}

/// A success that was reported after its lease had ended: the rail may have paid once or twice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LateSuccess {
    /// The payment.
    pub outbox_id: OutboxId,
    /// Current state.
    pub state: PaymentState,
    /// The evidence.
    pub late: LateResult,
}

/// A rail reference shared by several payments of one participant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReusedReference {
    /// The participant.
    pub participant_id: String,
    /// Rail type.
    pub rail_type: String,
    /// The reference.
    pub rail_reference: String,
    /// The payments, oldest first.
    pub outbox_ids: Vec<OutboxId>,
}

/// Payments to compare with the rail's records.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reconciliation {
    /// Late successes: the rail accepted, but the lease was lost.
    pub late_successes: Vec<LateSuccess>,
    /// Held or failed although the rail may have them: the last attempt that may have reached it
    /// ended uncertain, or without a reference.
    pub uncertain: Vec<PaymentView>,
    /// Dispatched without a recorded reference, except by an operator's resolution.
    pub missing_references: Vec<OutboxId>,
    /// References that several payments share.
    pub reused_references: Vec<ReusedReference>,
    /// Whether a list was cut at the limit.
    pub is_cut: bool,
}

impl Reconciliation {
    /// Whether every list is empty.
    pub fn is_clean(&self) -> bool {
        self.late_successes.is_empty()
            && self.uncertain.is_empty()
            && self.missing_references.is_empty()
            && self.reused_references.is_empty()
    }
}

/// Result of an import from the former tables, or of its dry run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportReport {
    /// Imported pending rows.
    pub pending: u64,
    /// Payments whose last attempt was `DISPATCHING`: requeued with a `ZOMBIE_REQUEUE`.
    pub requeued_dispatching: u64,
    /// Payments left `RETRYABLE` without a pending row: requeued with a `ZOMBIE_REQUEUE`.
    pub requeued_retryable: u64,
    /// Finished payments imported as history.
    pub finished: u64,
    /// Payments that existed already.
    pub already_here: u64,
    /// Existing payments that were paid in the former system since: dispatched.
    pub paid_there: u64,
    /// Existing payments that failed in the former system since: failed.
    pub failed_there: u64,
    /// Existing payments that were attempted in the former system since: the attempts are recorded,
    /// and the payment is in doubt where the rail may have it.
    pub tried_there: u64,
    /// Payments dispatched in both systems with different references; at most 100.
    pub paid_twice: Vec<String>,
    /// Rows that could not be imported, and why; at most 100.
    pub refused: Vec<String>,
}

/// The store operations of the payment protocol, beside the kernel's.
///
/// Each operation is one transaction; all times are the database's clock. Renew, begin and release
/// are the kernel's operations on the queue [`QUEUE`](crate::QUEUE). A store also offers an enqueue
/// within the caller's transaction: `consign.enqueue_payment_outbox` in SQL,
/// [`store::enqueue_in_sqlite`](crate::store::enqueue_in_sqlite) in Rust.
#[async_trait]
pub trait Payments: Store {
    /// Enqueues payments; results are in input order. A conflict does not affect the others.
    ///
    /// Sequences are allocated per participant without gaps, in input order; a duplicate, a
    /// conflict and a rollback use no number. Participants are locked in the order of their names,
    /// which prevents deadlocks. `InvalidInput` rejects the whole call.
    async fn enqueue_payments(&self, payments: &[NewPayment]) -> Result<Vec<EnqueueAnswer>>;

    /// A payment with its payload.
    async fn payment(&self, id: OutboxId) -> Result<Option<(PaymentView, Payload)>>;

    /// Payments, newest first, below the cursor (the last one's `message_id`); at most `limit`, and
    /// at most 1,000.
    async fn payments(
        &self,
        filter: &PaymentFilter,
        before: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<PaymentView>>;

    /// The messages of payments, in input order; `None` where the payment does not exist. The
    /// mapping never changes.
    async fn payment_messages(&self, ids: &[OutboxId]) -> Result<Vec<Option<MessageId>>>;

    /// Leases up to `limit` (1 to 1,000) due payments to `worker` for `lease` (1 s to an hour,
    /// whole seconds); `None` if nothing is due, or the queue does not exist yet. Values out of
    /// bounds are `InvalidInput`; [`claim_of`](crate::claim_of) checks them.
    ///
    /// The kernel's claim. With `begin` the lease presumes that the worker may call the rail at any
    /// time: if it expires without a result, each payment's `expired` attempt has
    /// [`MAY_HAVE_BEGUN`](crate::MAY_HAVE_BEGUN) in its result, and the next claim is in doubt.
    /// Otherwise such a payment is treated as not begun: it is due again, and fails at the ceiling.
    /// `release` withdraws the presumption; the caller states that nothing was sent. Without
    /// `begin` nothing is presumed, for workers that call `begin` before every dispatch.
    ///
    /// `in_doubt` is the kernel's: the last attempt that may have reached the rail ended with an
    /// unknown outcome, or a late success is stored.
    async fn claim_payments(
        &self,
        limit: u32,
        worker: &str,
        lease: Duration,
        begin: bool,
    ) -> Result<Option<ClaimedPayments>>;

    /// Records outcomes under a live lease: the kernel's settle with the payment's rules.
    ///
    /// `worker` must be the lease's owner. Rejected in this order, before anything is written: a
    /// lost lease, also without completions; what [`Completion::validate`] rejects and a repeated
    /// payment (`InvalidInput`); results that differ from what this token recorded before.
    ///
    /// A repeat with the same token, worker, state and reference returns what was recorded.
    /// `retry_in` below a second is a second. A success without a reference is recorded and held,
    /// see the module. A `Retryable` completion that leaves the payment in doubt
    /// ([`Completion::report`]) is held, not failed, on its last try.
    async fn complete(
        &self,
        token: Token,
        worker: &str,
        completions: &[Completion],
    ) -> Result<CompleteAnswer>;

    /// Stores the rail's answers for payments whose completion was rejected, as evidence, never as
    /// an outcome. Returns the payments whose evidence is stored, in input order.
    ///
    /// Stored where `worker` once had the payment under this token and has it no more: its lease
    /// has ended (the kernel's `record_late`), or its attempt is recorded and is not `delivered`
    /// with the same reference. An identical record is returned without being stored again. Under a
    /// live lease nothing is stored; use `complete` there. The first evidence of a token for a
    /// payment is kept. What [`Completion::validate`] rejects and a repeated payment are
    /// `InvalidInput`.
    async fn record_late_payments(
        &self,
        token: Token,
        worker: &str,
        completions: &[Completion],
    ) -> Result<Vec<OutboxId>>;

    /// Ends up to `limit` expired leases of the queue, oldest first: each payment gets an attempt
    /// (`ZombieRequeue`, at the ceiling `Failed`) and is due again after a second. Claims do the
    /// same, and make the payments due at once.
    async fn repair(&self, limit: u32) -> Result<Vec<RepairResult>>;

    /// Leased payments, the earliest expiry first; at most `limit`.
    async fn in_flight(&self, limit: u32) -> Result<Vec<InFlight>>;

    /// Counts of payments, of one tenant if set.
    async fn payments_status(&self, tenant_id: Option<Uuid>) -> Result<PaymentsStatus>;

    /// Payments to compare with the rail's records, at most `limit` of each kind.
    async fn reconcile_payments(&self, limit: u32) -> Result<Reconciliation>;

    /// Imports the tables of the former design, which deleted rows on claim.
    async fn import_payments(&self, from_schema: &str, is_dry_run: bool) -> Result<ImportReport> {
        let (_, _) = (from_schema, is_dry_run);
        let why = "SQLite stores cannot import: the former tables are in PostgreSQL";
        Err(Error::invalid("import", why))
    }

    /// Every attempt of a payment, in order; `None` if the payment does not exist.
    async fn payment_attempts(&self, id: OutboxId) -> Result<Option<Vec<AttemptView>>> {
        let found = self.payment_messages(&[id]).await?;
        let Some(message_id) = found.first().copied().flatten() else {
            return Ok(None);
        };
        let history = self.history(message_id).await?;
        let views = history.iter().map(|attempt| AttemptView::new(id, attempt));
        Ok(Some(views.collect()))
    }

    /// Holds pending payments, for example for compliance. Results are in input order.
    async fn hold_payments(&self, ids: &[OutboxId], by: &By) -> Result<Vec<PaymentMoveResult>> {
        let messages = self.payment_messages(ids).await?;
        let moved = self.hold(&existing(&messages), by).await?;
        Ok(answers(ids, &messages, &moved))
    }

    /// Releases held payments. Results are in input order.
    async fn release_payments(&self, ids: &[OutboxId], by: &By) -> Result<Vec<PaymentMoveResult>> {
        let messages = self.payment_messages(ids).await?;
        let moved = self.unhold(&existing(&messages), by).await?;
        Ok(answers(ids, &messages, &moved))
    }

    /// Requeues failed payments with their full number of attempts. Results are in input order.
    async fn requeue_payments(&self, ids: &[OutboxId], by: &By) -> Result<Vec<PaymentMoveResult>> {
        let messages = self.payment_messages(ids).await?;
        let moved = self.requeue(&existing(&messages), by).await?;
        Ok(answers(ids, &messages, &moved))
    }

    /// Resolves a held payment as an operator found in the rail's records.
    async fn resolve_payment(
        &self,
        id: OutboxId,
        found: &RailRecord,
        by: &By,
    ) -> Result<PaymentMoveResult> {
        let resolution = found.resolution()?;
        let messages = self.payment_messages(&[id]).await?;
        let moved = match existing(&messages)[..] {
            [] => Vec::new(),
            [..] => self.resolve(&existing(&messages), &resolution, by).await?,
        };
        let answers = answers(&[id], &messages, &moved);
        Ok(answers[0])
    }
}

fn existing(messages: &[Option<MessageId>]) -> Vec<MessageId> {
    messages.iter().copied().flatten().collect()
}

fn answers(
    ids: &[OutboxId],
    messages: &[Option<MessageId>],
    moved: &[consign_kernel::MoveResult],
) -> Vec<PaymentMoveResult> {
    let answer = |message: Option<MessageId>| {
        let found = moved.iter().find(|moved| Some(moved.id) == message);
        found.map_or(Move::NoSuchMessage, |moved| moved.answer)
    };
    let pairs = ids.iter().zip(messages);
    pairs
        .map(|(outbox_id, message)| PaymentMoveResult {
            outbox_id: *outbox_id,
            answer: answer(*message),
        })
        .collect()
}
