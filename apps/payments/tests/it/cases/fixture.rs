//! The queue `payments` with its payments: what every case needs.

use std::sync::Arc;

use consign_conformance::stage::{Stage, by, policy, queue};
use consign_kernel::{Lease, Move, OnUncertain, QueuePolicy};
use consign_payments::{
    AttemptState, AttemptView, CompleteAnswer, Completion, CompletionResult, EnqueueAnswer,
    NewPayment, OutboxId, PaymentReceipt, PaymentView, Payments, QUEUE, RailRecord,
};
use serde_json::{Map, json};

use super::PaymentsHarness;

/// Who works in the cases.
pub(crate) const WORKER: &str = "worker-1";

/// A fresh store with the queue `payments`: leases of 10 s, three tries, rests of 1 s and then 2 s.
pub(crate) struct PaymentsFixture<'a> {
    pub(crate) stage: Stage<'a>,
    pub(crate) payments: Arc<dyn Payments>,
}

/// The rules of the queue on every fixture.
pub(crate) fn rules() -> QueuePolicy {
    QueuePolicy {
        on_uncertain: OnUncertain::Probe,
        record_begin: true,
        ..policy()
    }
}

/// The rail's record of a paid payment.
pub(crate) fn paid(reference: &str) -> RailRecord {
    RailRecord::Dispatched {
        rail_reference: reference.to_owned(),
    }
}

/// The `n`-th payment of a participant.
pub(crate) fn payment_of(participant: &str, n: usize) -> NewPayment {
    NewPayment {
        instruction_id: format!("ins-{participant}-{n}"),
        idempotency_key: format!("key-{n}"),
        participant_id: participant.to_owned(),
        rail_type: "PAYMENT".to_owned(),
        tenant_id: None,
        correlation_id: None,
        payload: json!({"amount_minor": 1_000 + n, "currency_code": "ZMW", "destination": "acc-1"})
            .into(),
        headers: Map::new(),
        kyc_hold: false,
    }
}

/// The `n`-th payment of the usual participant.
pub(crate) fn payment(n: usize) -> NewPayment {
    payment_of("bank-a", n)
}

/// An answer that is no conflict.
#[track_caller]
pub(crate) fn enqueued(answer: &EnqueueAnswer) -> PaymentReceipt {
    match answer {
        EnqueueAnswer::Enqueued(enqueued) => *enqueued,
        conflict => panic!("no conflict expected: {conflict:?}"),
    }
}

/// The records of an answer that is no lost lease.
#[track_caller]
pub(crate) fn completed(answer: CompleteAnswer) -> Vec<CompletionResult> {
    match answer {
        CompleteAnswer::Completed(completed) => completed,
        refused => panic!("the lease is live: {refused:?}"),
    }
}

/// A dispatch under a reference of its own.
pub(crate) fn dispatched(id: OutboxId) -> Completion {
    Completion::dispatched(id, format!("REF-{id}"))
}

/// A failure to be tried again.
pub(crate) fn retryable(id: OutboxId) -> Completion {
    Completion::failed(id, AttemptState::Retryable, "RAIL_DOWN")
}

/// A failure for good.
pub(crate) fn failed(id: OutboxId) -> Completion {
    Completion::failed(id, AttemptState::Failed, "INVALID_ACCOUNT")
}

/// The payments of a lease, in its order.
pub(crate) fn held_by(lease: &Lease) -> Vec<OutboxId> {
    let id = |message: &consign_kernel::ClaimedMessage| {
        let key = message.message.key.as_deref().expect("a payment's key");
        key.parse().expect("an outbox id")
    };
    lease.messages.iter().map(id).collect()
}

impl<'a> PaymentsFixture<'a> {
    pub(crate) async fn new(harness: &'a dyn PaymentsHarness) -> Self {
        Self::with(harness, rules()).await
    }

    pub(crate) async fn with(harness: &'a dyn PaymentsHarness, rules: QueuePolicy) -> Self {
        let fixture = Self::bare(harness);
        fixture.stage.add_queue(QUEUE, &rules).await;
        fixture
    }

    /// Without the queue.
    pub(crate) fn bare(harness: &'a dyn PaymentsHarness) -> Self {
        let stage = Stage {
            harness,
            store: harness.store(),
            queue: queue(QUEUE),
        };
        let payments = harness.payments();
        Self { stage, payments }
    }

    pub(crate) async fn try_enqueue(&self, payments: &[NewPayment]) -> Vec<EnqueueAnswer> {
        let answers = self.payments.enqueue_payments(payments).await;
        answers.expect("enqueue answers")
    }

    /// Enqueues payments that must all be new.
    pub(crate) async fn enqueue(&self, payments: &[NewPayment]) -> Vec<OutboxId> {
        let answers = self.try_enqueue(payments).await;
        let new = |answer: &EnqueueAnswer| {
            let enqueued = enqueued(answer);
            assert!(!enqueued.duplicate, "new: {enqueued:?}");
            enqueued.outbox_id
        };
        answers.iter().map(new).collect()
    }

    pub(crate) async fn enqueue_one(&self, payment: &NewPayment) -> OutboxId {
        self.enqueue(std::slice::from_ref(payment)).await[0]
    }

    pub(crate) async fn try_complete(
        &self,
        lease: &Lease,
        worker: &str,
        completions: &[Completion],
    ) -> CompleteAnswer {
        let answer = self.payments.complete(lease.token, worker, completions);
        answer.await.expect("complete answers")
    }

    /// Completes one payment under a lease that must be live.
    pub(crate) async fn complete(&self, lease: &Lease, completion: Completion) -> CompletionResult {
        let answer = self.try_complete(lease, WORKER, &[completion]).await;
        completed(answer).remove(0)
    }

    /// Claims one payment and completes it.
    pub(crate) async fn work_off(
        &self,
        completion: impl Fn(OutboxId) -> Completion,
    ) -> CompletionResult {
        let lease = self.stage.claim(1).await;
        let id = held_by(&lease)[0];
        self.complete(&lease, completion(id)).await
    }

    /// Resolves a payment with the rail's record.
    pub(crate) async fn resolve(&self, id: OutboxId, found: &RailRecord) -> Move {
        let moved = self.payments.resolve_payment(id, found, &by()).await;
        moved.expect("resolve answers").answer
    }

    pub(crate) async fn view(&self, id: OutboxId) -> PaymentView {
        let found = self.payments.payment(id).await.expect("payment answers");
        found.unwrap_or_else(|| panic!("payment {id} exists")).0
    }

    pub(crate) async fn attempts(&self, id: OutboxId) -> Vec<AttemptView> {
        let found = self.payments.payment_attempts(id).await;
        let attempts = found.expect("attempts answers").expect("a payment");
        let numbers: Vec<u32> = attempts.iter().map(|a| a.attempt_no).collect();
        let dense: Vec<u32> = (1..=attempts.len() as u32).collect();
        assert_eq!(numbers, dense, "attempts of {id} are numbered densely");
        attempts
    }

    /// What happened to a payment, in order.
    pub(crate) async fn story(&self, id: OutboxId) -> Vec<AttemptState> {
        let attempts = self.attempts(id).await;
        attempts.iter().map(|attempt| attempt.state).collect()
    }
}
