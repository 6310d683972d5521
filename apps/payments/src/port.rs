//! The port to what payments are remembered by.
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
//! How it stands is where its message is; what happened to it are that message's attempts. Nothing
//! here is a second truth, so whatever moves the message (a worker, SQL, an operator, an expiry)
//! moves the payment.
//!
//! # When is a repeated key the same payment?
//!
//! `(instruction_id, idempotency_key)` names a payment, compared byte by byte. Repeated, these are
//! compared with what is stored, in this order: `tenant_id` (absent differs from present),
//! `participant_id`, `rail_type`, each as text; then `payload`, as PostgreSQL compares `jsonb`: keys in
//! any order, numbers by value (`consign_kernel::Payload`); then `kyc_hold`. The first that
//! differs is the conflict (`P7004` in SQL). `correlation_id` and headers are not compared.
//!
//! # A success without a reference
//!
//! The money has moved and nobody can say under which name. Such an attempt is recorded as
//! uncertain with the code `MISSING_RAIL_REFERENCE` and the payment held with that reason: no
//! worker gets it again until a person has resolved or released it. The queue's `hold_codes` do that
//! (`consign_kernel::after_settle`), so it holds for every way to settle. A reference that two payments
//! of a participant and rail share is recorded as told, and reported by `reconcile` and `doctor`.

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
    PaymentView, RailBooks,
};

/// What the store says about a payment that was handed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enqueued {
    /// The payment: the new one, or the first under its key.
    pub outbox_id: OutboxId,
    /// Its number in its participant's sequence.
    pub sequence_id: i64,
    /// When it was first enqueued.
    pub created_at: Timestamp,
    /// How it stands now.
    pub state: PaymentState,
    /// Whether it was there already, so that nothing was written.
    pub duplicate: bool,
}

/// What became of a payment that was handed in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnqueueAnswer {
    /// It is there: since now, or since before with the same content.
    Enqueued(Enqueued),
    /// Its key names another payment. Nothing was written for it.
    Conflict {
        /// The payment that has the key; one of the same tenant, whose key is its own.
        outbox_id: OutboxId,
        /// What differs first: `participant_id`, `rail_type`, `payload` or `kyc_hold`.
        field: &'static str,
    },
}

/// What was recorded about one payment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completed {
    /// The payment.
    pub outbox_id: OutboxId,
    /// The attempt.
    pub attempt_no: u32,
    /// What that attempt says; `Failed` where the ceiling was reached.
    pub state: AttemptState,
    /// Where the payment is now.
    pub place: StateKind,
}

/// The answer to completions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompleteAnswer {
    /// One per completion, in order. What this token had recorded before is answered as it was.
    Completed(Vec<Completed>),
    /// The token is unknown, not this worker's, or its lease has expired or does not hold all of
    /// these, one that does not exist included (`P7002` in SQL). Nothing was written; what the rail
    /// said goes to [`witness_payments`](Payments::witness_payments).
    LeaseLost,
    /// This token has recorded something else about one of these before, see
    /// [`Completion::is_recorded_as`] (`P7002` in SQL, with the reason `recorded_otherwise`). Nothing
    /// was written; what the rail said goes to [`witness_payments`](Payments::witness_payments).
    RecordedOtherwise,
}

/// What an expiry did to one payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repaired {
    /// The payment.
    pub outbox_id: OutboxId,
    /// The attempt that was appended.
    pub attempt_no: u32,
    /// `ZombieRequeue`, or `Failed` at the ceiling.
    pub state: AttemptState,
}

/// Which payments to list. Absent fields fit everything.
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

/// The answer to moving one payment by hand; none: there is no such payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PaymentMoved {
    /// The payment.
    pub outbox_id: OutboxId,
    /// What became of it.
    pub answer: Move,
}

/// A payment in a lease, as an operator sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InFlight {
    /// The payment.
    pub outbox_id: OutboxId,
    /// Who holds it.
    pub claimed_by: String,
    /// The lease's number; its token is a permission and not shown.
    pub fence: Fence,
    /// Since when.
    pub claimed_at: Timestamp,
    /// Until when, unless renewed.
    pub lease_expires_at: Timestamp,
    /// Whether that is past: the next claim or repair takes it back.
    pub is_expired: bool,
    /// Whether the call of the rail has begun, or may have: the worker said so, or claimed it so.
    pub has_begun: bool,
}

/// The supervisor's figures.
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
    /// Of the leased, in leases that have ended.
    pub expired: u64,
    /// Held.
    pub held: u64,
    /// Failed and not requeued.
    pub failed: u64,
    /// Pending ones by attempts so far: 1, 2, 3, 4, and 5 or more.
    pub attempts_histogram: [u64; 5],
    /// When the oldest pending one was enqueued.
    pub oldest_pending_at: Option<Timestamp>,
    /// Attempts of the last hour by state.
    pub last_hour: BTreeMap<AttemptState, u64>,
}

/// A result that came after its lease had ended: the rail may have been paid twice, or once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LateSuccess {
    /// The payment.
    pub outbox_id: OutboxId,
    /// How it stands now.
    pub state: PaymentState,
    /// The evidence.
    pub late: LateResult,
}

/// A reference under which a rail knows several payments of one participant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReusedReference {
    /// Whose.
    pub participant_id: String,
    /// Over which rail.
    pub rail_type: String,
    /// The reference.
    pub rail_reference: String,
    /// The payments, oldest first.
    pub outbox_ids: Vec<OutboxId>,
}

/// What should be compared with the rail's own books.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reconciliation {
    /// Refused successes: the rail accepted, the lease was gone.
    pub late_successes: Vec<LateSuccess>,
    /// Held or failed although the rail may have them: the last attempt that reached it ended
    /// uncertain, or without a reference.
    pub uncertain: Vec<PaymentView>,
    /// Dispatched without a reference on record, except by a person's word.
    pub missing_references: Vec<OutboxId>,
    /// References that several payments share.
    pub reused_references: Vec<ReusedReference>,
    /// Whether a list was cut at the limit.
    pub is_cut: bool,
}

impl Reconciliation {
    /// Whether there is nothing to look at.
    pub fn is_clean(&self) -> bool {
        self.late_successes.is_empty()
            && self.uncertain.is_empty()
            && self.missing_references.is_empty()
            && self.reused_references.is_empty()
    }
}

/// What an import of the former tables did, or would do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportReport {
    /// Pending rows taken over.
    pub pending: u64,
    /// Payments whose last attempt was `DISPATCHING`: requeued with a `ZOMBIE_REQUEUE`.
    pub requeued_dispatching: u64,
    /// Payments left `RETRYABLE` without a pending row: requeued with a `ZOMBIE_REQUEUE`.
    pub requeued_retryable: u64,
    /// Finished payments taken over as history.
    pub finished: u64,
    /// Payments that were here already.
    pub already_here: u64,
    /// Payments that were here already and have been paid there since: dispatched.
    pub paid_there: u64,
    /// Payments that were here already and have failed there since: failed.
    pub failed_there: u64,
    /// Payments that were here already and have been tried there since: with that on record, and in
    /// doubt where the rail may have heard of it.
    pub tried_there: u64,
    /// Payments that were dispatched here and there under different references; at most 100.
    pub paid_twice: Vec<String>,
    /// What could not be taken over, and why; at most 100.
    pub refused: Vec<String>,
}

/// What the payment protocol asks of a store, beside what the kernel asks.
///
/// Each operation is one transaction; all times are the database's clock. Renewing, beginning and
/// giving back are the kernel's own operations on the queue [`QUEUE`](crate::QUEUE). A store also
/// offers an enqueue within the caller's transaction: `consign.enqueue_payment_outbox` in SQL,
/// [`store::enqueue_in_sqlite`](crate::store::enqueue_in_sqlite) in Rust.
#[async_trait]
pub trait Payments: Store {
    /// Enqueues payments and answers in order; one that conflicts leaves the others alone.
    ///
    /// Sequences are allocated per participant without gaps, in the order given; a duplicate, a
    /// conflict and a rollback use none up. Participants are locked in the order of their names,
    /// so that callers cannot lock each other out. `InvalidInput` refuses the whole call.
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

    /// The messages of payments, in order; none where there is no such payment. The mapping never
    /// changes.
    async fn payment_messages(&self, ids: &[OutboxId]) -> Result<Vec<Option<MessageId>>>;

    /// Leases up to `limit` (1 to 1,000) of the payments that are due to `worker` for `lease` (1 s
    /// to an hour, whole seconds); none when nothing is due, or nobody has enqueued yet. Outside these
    /// bounds it is `InvalidInput`; [`claim_of`](crate::claim_of) checks them.
    ///
    /// The kernel's claim, and with `begin` the lease presumes that the rail may be called from now
    /// on: if it ends without a word, each payment's `expired` attempt says so in its result
    /// ([`MAY_HAVE_BEGUN`](crate::MAY_HAVE_BEGUN)), and whoever claims it next is told that it is in
    /// doubt. Apart from that such a payment is treated as one that had not begun: it comes back, and
    /// at the ceiling it has failed. Giving the lease back (`release`) takes the presumption back; the
    /// caller says that it has sent nothing. Without `begin` nothing is presumed, for workers that say
    /// before every call that it begins (`begin`).
    ///
    /// `in_doubt` is the kernel's word: the last attempt that may have reached the rail ended without
    /// anybody knowing, or a success that came too late is on record.
    async fn claim_payments(
        &self,
        limit: u32,
        worker: &str,
        lease: Duration,
        begin: bool,
    ) -> Result<Option<ClaimedPayments>>;

    /// Records outcomes under a live lease: the kernel's settle with the payment's rules.
    ///
    /// `worker` must be the lease's owner. Refused in this order, before anything is written: a lost
    /// lease, also with no completions at all; what [`Completion::validate`] refuses and a payment
    /// named twice (`InvalidInput`); what this token has recorded otherwise before.
    ///
    /// Completing again under the same token and worker with the same state and reference answers
    /// with what was recorded. `retry_in` below a second is a second. A success without a reference is
    /// recorded and held, see the module. A `Retryable` one that leaves the payment in doubt
    /// ([`Completion::report`]) is held, not failed, on its last try.
    async fn complete(
        &self,
        token: Token,
        worker: &str,
        completions: &[Completion],
    ) -> Result<CompleteAnswer>;

    /// Keeps what the rail said about payments whose completion was refused, as evidence, never as
    /// an outcome. Answers which of them are on record now, in the order given.
    ///
    /// Kept where `worker` once had the payment under this token and has it no more: its lease has
    /// ended (the kernel's `witness`), or its attempt is recorded and is not `delivered` under the
    /// same reference. What is recorded so already is on record without being kept again. Under a live
    /// lease nothing is kept; complete there. The first evidence of a token about a payment stands.
    /// What [`Completion::validate`] refuses and a payment named twice are `InvalidInput`.
    async fn witness_payments(
        &self,
        token: Token,
        worker: &str,
        completions: &[Completion],
    ) -> Result<Vec<OutboxId>>;

    /// Ends up to `limit` expired leases of the queue, oldest first: each payment gets an attempt
    /// (`ZombieRequeue`, at the ceiling `Failed`) and is due again after a second. Claims do the same
    /// by themselves, and take what they find at once.
    async fn repair(&self, limit: u32) -> Result<Vec<Repaired>>;

    /// Payments in leases, those that end first at the top; at most `limit`.
    async fn in_flight(&self, limit: u32) -> Result<Vec<InFlight>>;

    /// The supervisor's figures; of one tenant, if given.
    async fn payments_status(&self, tenant_id: Option<Uuid>) -> Result<PaymentsStatus>;

    /// What should be compared with the rail's books, at most `limit` of each.
    async fn reconcile_payments(&self, limit: u32) -> Result<Reconciliation>;

    /// Takes over the tables of the design that deleted on claim.
    async fn import_payments(&self, from_schema: &str, is_dry_run: bool) -> Result<ImportReport> {
        let (_, _) = (from_schema, is_dry_run);
        let why = "this store cannot import; the former tables are PostgreSQL's";
        Err(Error::invalid("import", why))
    }

    /// Every attempt of a payment, first to last; none if there is no such payment.
    async fn payment_attempts(&self, id: OutboxId) -> Result<Option<Vec<AttemptView>>> {
        let found = self.payment_messages(&[id]).await?;
        let Some(message_id) = found.first().copied().flatten() else {
            return Ok(None);
        };
        let history = self.history(message_id).await?;
        let views = history.iter().map(|attempt| AttemptView::new(id, attempt));
        Ok(Some(views.collect()))
    }

    /// Parks payments that wait: compliance holds and the like. Answers in order.
    async fn hold_payments(&self, ids: &[OutboxId], by: &By) -> Result<Vec<PaymentMoved>> {
        let messages = self.payment_messages(ids).await?;
        let moved = self.hold(&known(&messages), by).await?;
        Ok(answers(ids, &messages, &moved))
    }

    /// Puts held payments back. Answers in order.
    async fn release_payments(&self, ids: &[OutboxId], by: &By) -> Result<Vec<PaymentMoved>> {
        let messages = self.payment_messages(ids).await?;
        let moved = self.unhold(&known(&messages), by).await?;
        Ok(answers(ids, &messages, &moved))
    }

    /// Gives failed payments a fresh set of tries. Answers in order.
    async fn requeue_payments(&self, ids: &[OutboxId], by: &By) -> Result<Vec<PaymentMoved>> {
        let messages = self.payment_messages(ids).await?;
        let moved = self.requeue(&known(&messages), by).await?;
        Ok(answers(ids, &messages, &moved))
    }

    /// Records what has become of a held payment, as a person found in the rail's books.
    async fn resolve_payment(
        &self,
        id: OutboxId,
        found: &RailBooks,
        by: &By,
    ) -> Result<PaymentMoved> {
        let resolution = found.resolution()?;
        let messages = self.payment_messages(&[id]).await?;
        let moved = match known(&messages)[..] {
            [] => Vec::new(),
            [..] => self.resolve(&known(&messages), &resolution, by).await?,
        };
        let answers = answers(&[id], &messages, &moved);
        Ok(answers[0])
    }
}

fn known(messages: &[Option<MessageId>]) -> Vec<MessageId> {
    messages.iter().copied().flatten().collect()
}

fn answers(
    ids: &[OutboxId],
    messages: &[Option<MessageId>],
    moved: &[consign_kernel::Moved],
) -> Vec<PaymentMoved> {
    let answer = |message: Option<MessageId>| {
        let found = moved.iter().find(|moved| Some(moved.id) == message);
        found.map_or(Move::NoSuchMessage, |moved| moved.answer)
    };
    let pairs = ids.iter().zip(messages);
    pairs
        .map(|(outbox_id, message)| PaymentMoved {
            outbox_id: *outbox_id,
            answer: answer(*message),
        })
        .collect()
}
