//! Completions under a live lease.

use std::time::Duration;

use consign_conformance::stage::{TTL, after, by, refused, s};
use consign_kernel::{Report, StateKind, Token};
use consign_payments::{
    AttemptState, CompleteAnswer, Completion, OutboxId, PaymentState, REFERENCE_BYTES_MAX,
    RETRY_CEILING_EXCEEDED, RailResult,
};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    PaymentsHarness,
    fixture::{
        PaymentsFixture, WORKER, completed, dispatched, enqueued, failed, held_by, payment,
        retryable,
    },
};

pub(crate) async fn every_completion_leads_where_it_should(harness: &dyn PaymentsHarness) {
    let fixture = PaymentsFixture::new(harness).await;
    type CompletionOf = fn(OutboxId) -> Completion;
    let table: [(CompletionOf, AttemptState, StateKind); 3] = [
        (dispatched, AttemptState::Dispatched, StateKind::Delivered),
        (failed, AttemptState::Failed, StateKind::Dead),
        (retryable, AttemptState::Retryable, StateKind::Ready),
    ];
    for (n, (say, state, message_state)) in table.into_iter().enumerate() {
        let id = fixture.enqueue_one(&payment(n)).await;
        let lease = fixture.stage.claim(1).await;
        fixture.stage.advance(s(1)).await;
        let now = fixture.stage.now().await;
        let done = fixture.complete(&lease, say(id)).await;
        assert_eq!((done.outbox_id, done.attempt_no), (id, 1));
        assert_eq!((done.state, done.message_state), (state, message_state));

        let attempt = &fixture.attempts(id).await[0];
        assert_eq!((attempt.outbox_id, attempt.state), (id, state));
        assert_eq!(
            (attempt.claimed_at, attempt.completed_at),
            (lease.claimed_at, now)
        );
        assert_eq!(attempt.worker_id, WORKER);
        let is_dispatched = state == AttemptState::Dispatched;
        assert_eq!(attempt.error_code.is_some(), !is_dispatched);
        assert_eq!(
            attempt.rail_reference,
            is_dispatched.then(|| format!("REF-{id}"))
        );

        let view = fixture.view(id).await;
        assert_eq!((view.message_state, view.attempt_count), (message_state, 1));
        assert_eq!(
            (view.claimed_by, view.lease_expires_at),
            (None, None),
            "no lease is left"
        );
        let rests = state == AttemptState::Retryable;
        assert_eq!(view.next_attempt_at, rests.then(|| after(now, s(1))));
        assert_eq!(attempt.next_attempt_at, view.next_attempt_at);
    }
}

/// A delay of nothing is a second.
pub(crate) async fn a_retryable_payment_rests_at_least_a_second(harness: &dyn PaymentsHarness) {
    let fixture = PaymentsFixture::new(harness).await;
    for (n, (asked, given)) in [(0, 1), (1, 1), (7, 7)].into_iter().enumerate() {
        let id = fixture.enqueue_one(&payment(n)).await;
        let say = |id| Completion {
            retry_in: Some(s(asked)),
            ..retryable(id)
        };
        fixture.work_off(say).await;
        let due = fixture.view(id).await.next_attempt_at;
        assert_eq!(
            due,
            Some(after(fixture.stage.now().await, s(given))),
            "requested {asked} s"
        );
    }
}

/// Wrong token, wrong worker, unknown payment, not in the lease, expired; never a row.
pub(crate) async fn a_completion_without_its_lease_is_refused(harness: &dyn PaymentsHarness) {
    let fixture = PaymentsFixture::new(harness).await;
    let ids = fixture.enqueue(&[payment(1), payment(2)]).await;
    let lease = fixture.stage.claim(1).await;
    assert_eq!(held_by(&lease), ids[..1]);
    let refusals = [
        (Token(Uuid::from_u128(1)), WORKER, ids[0]),
        (lease.token, "worker-2", ids[0]),
        (lease.token, "", ids[0]),
        (lease.token, WORKER, OutboxId(Uuid::from_u128(2))),
        (lease.token, WORKER, ids[1]),
    ];
    for (token, worker, id) in refusals {
        let answer = fixture
            .payments
            .complete(token, worker, &[dispatched(id)])
            .await;
        assert_eq!(
            answer.expect("complete answers"),
            CompleteAnswer::LeaseLost,
            "{worker} {id}"
        );
    }
    fixture.stage.advance(TTL).await;
    let answer = fixture
        .try_complete(&lease, WORKER, &[dispatched(ids[0])])
        .await;
    assert_eq!(
        answer,
        CompleteAnswer::LeaseLost,
        "expired, by the clock of now"
    );
    assert_eq!(fixture.attempts(ids[0]).await, []);
    assert_eq!(fixture.attempts(ids[1]).await, []);
}

/// Only outcomes are reported, and a lost lease is checked first.
pub(crate) async fn a_completion_that_is_nobodys_to_report_is_refused(
    harness: &dyn PaymentsHarness,
) {
    let fixture = PaymentsFixture::new(harness).await;
    let id = fixture.enqueue_one(&payment(1)).await;
    let lease = fixture.stage.claim(1).await;
    let zombie = Completion::failed(id, AttemptState::ZombieRequeue, "X");
    let completions = [zombie];
    let answer = fixture
        .payments
        .complete(lease.token, WORKER, &completions)
        .await;
    refused(answer, "invalid_input");
    let answer = fixture.try_complete(&lease, "worker-2", &completions).await;
    assert_eq!(answer, CompleteAnswer::LeaseLost);
    assert_eq!(fixture.attempts(id).await, []);
    fixture.complete(&lease, dispatched(id)).await;
}

/// A lost reply is not a lost lease, but another's words are not one's own.
pub(crate) async fn a_repeated_completion_answers_what_was_recorded(harness: &dyn PaymentsHarness) {
    let fixture = PaymentsFixture::new(harness).await;
    let id = fixture.enqueue_one(&payment(1)).await;
    let lease = fixture.stage.claim(1).await;
    let first = fixture.complete(&lease, retryable(id)).await;
    assert_eq!(fixture.complete(&lease, retryable(id)).await, first);
    fixture.stage.advance(s(60)).await;
    let repeated = fixture.complete(&lease, retryable(id)).await;
    assert_eq!(repeated, first, "long after");
    let answer = fixture
        .try_complete(&lease, "worker-2", &[retryable(id)])
        .await;
    assert_eq!(answer, CompleteAnswer::LeaseLost);
    assert_eq!(fixture.story(id).await, [AttemptState::Retryable]);
}

/// Worker A falls silent, B claims, A wakes up; both have the same name.
pub(crate) async fn a_stale_worker_of_the_same_name_cannot_complete(harness: &dyn PaymentsHarness) {
    let fixture = PaymentsFixture::new(harness).await;
    let id = fixture.enqueue_one(&payment(1)).await;
    let stale = fixture.stage.claim(1).await;
    fixture.stage.advance(TTL).await;
    let fresh = fixture.stage.claim(1).await;
    assert_ne!(stale.token, fresh.token);
    let answer = fixture
        .try_complete(&stale, WORKER, &[dispatched(id)])
        .await;
    assert_eq!(answer, CompleteAnswer::LeaseLost);
    fixture.complete(&fresh, dispatched(id)).await;
    let answer = fixture.try_complete(&stale, WORKER, &[failed(id)]).await;
    assert_eq!(answer, CompleteAnswer::LeaseLost);
    use AttemptState::{Dispatched, ZombieRequeue};
    assert_eq!(fixture.story(id).await, [ZombieRequeue, Dispatched]);
}

pub(crate) async fn a_batch_is_completed_all_or_none(harness: &dyn PaymentsHarness) {
    let fixture = PaymentsFixture::new(harness).await;
    let ids = fixture
        .enqueue(&[payment(1), payment(2), payment(3), payment(4)])
        .await;
    let lease = fixture.stage.claim(3).await;
    let twice = [dispatched(ids[0]), dispatched(ids[0])];
    let answer = fixture.payments.complete(lease.token, WORKER, &twice).await;
    refused(answer, "invalid_input");
    let with_stranger = [dispatched(ids[0]), dispatched(ids[3])];
    let answer = fixture.try_complete(&lease, WORKER, &with_stranger).await;
    assert_eq!(answer, CompleteAnswer::LeaseLost);
    assert_eq!(fixture.attempts(ids[0]).await, []);

    let all = [retryable(ids[2]), dispatched(ids[0]), failed(ids[1])];
    let done = completed(fixture.try_complete(&lease, WORKER, &all).await);
    let answered: Vec<OutboxId> = done.iter().map(|done| done.outbox_id).collect();
    assert_eq!(answered, [ids[2], ids[0], ids[1]], "in input order");
    let states: Vec<AttemptState> = done.iter().map(|done| done.state).collect();
    use AttemptState::{Dispatched, Failed, Retryable};
    assert_eq!(states, [Retryable, Dispatched, Failed]);
}

/// Three tries, one word for the ceiling, the last error kept, and a way back
/// that leaves history as it was.
pub(crate) async fn a_payment_fails_at_the_ceiling_and_can_be_requeued(
    harness: &dyn PaymentsHarness,
) {
    use AttemptState::{Dispatched, Failed, Retryable};
    let fixture = PaymentsFixture::new(harness).await;
    let id = fixture.enqueue_one(&payment(1)).await;
    let say = |id| Completion {
        error_message: Some("the rail is closed".to_owned()),
        ..retryable(id)
    };
    for _ in 0..3 {
        fixture.work_off(say).await;
        fixture.stage.advance(s(5)).await;
    }
    let attempts = fixture.attempts(id).await;
    let states: Vec<AttemptState> = attempts.iter().map(|attempt| attempt.state).collect();
    assert_eq!(states, [Retryable, Retryable, Failed]);
    assert_eq!(attempts[1].error_code.as_deref(), Some("RAIL_DOWN"));
    assert_eq!(
        attempts[2].error_code.as_deref(),
        Some(RETRY_CEILING_EXCEEDED)
    );
    let message = attempts[2].error_message.as_deref().unwrap_or_default();
    assert!(
        message.contains("RAIL_DOWN") && message.contains("the rail is closed"),
        "the last error is kept: {message}"
    );
    let view = fixture.view(id).await;
    assert_eq!(view.state, PaymentState::Failed);
    assert_eq!(view.reason.as_deref(), Some(RETRY_CEILING_EXCEEDED));
    fixture.stage.claim_nothing("it has failed").await;
    let again = enqueued(&fixture.try_enqueue(&[payment(1)]).await[0]);
    assert_eq!((again.outbox_id, again.state), (id, PaymentState::Failed));

    let moved = fixture.payments.requeue_payments(&[id], &by()).await;
    moved.expect("requeue answers");
    assert_eq!(
        fixture.attempts(id).await,
        attempts,
        "what happened has happened"
    );
    fixture.work_off(dispatched).await;
    assert_eq!(
        fixture.story(id).await,
        [Retryable, Retryable, Failed, Dispatched]
    );
}

/// Bounded and masked, and nothing of it lost that a program needs.
pub(crate) async fn a_rail_message_is_stored_masked(harness: &dyn PaymentsHarness) {
    let fixture = PaymentsFixture::new(harness).await;
    let id = fixture.enqueue_one(&payment(1)).await;
    let babble = format!("no account 260971234567 {}", "x".repeat(10_000));
    let say = |id| Completion {
        result: RailResult {
            rail_reference: None,
            rail_code: Some("R-17 for 260971234567".to_owned()),
            latency_ms: Some(42),
        },
        error_code: Some("RAIL_DOWN 260971234567".to_owned()),
        error_message: Some(babble.clone()),
        retry_in: Some(Duration::from_secs(1)),
        ..retryable(id)
    };
    fixture.work_off(say).await;
    let attempt = fixture.attempts(id).await.remove(0);
    assert_eq!(attempt.rail_code.as_deref(), Some("R-17 for ***4567"));
    assert_eq!(attempt.latency_ms, Some(42));
    assert_eq!(attempt.error_code.as_deref(), Some("RAIL_DOWN ***4567"));
    let message = attempt.error_message.expect("a message");
    assert!(!message.contains("260971234567"), "masked: {message}");
    assert!(
        message.chars().count() <= 500,
        "cut: {} characters",
        message.chars().count()
    );
    assert!(message.starts_with("no account"), "{message}");
}

/// Before anything is written: a reference that was cut would name nothing at the rail.
pub(crate) async fn a_reference_too_long_to_keep_is_refused(harness: &dyn PaymentsHarness) {
    let fixture = PaymentsFixture::new(harness).await;
    let ids = fixture.enqueue(&[payment(1), payment(2)]).await;
    let lease = fixture.stage.claim(2).await;
    let longest = "ä".repeat(128);
    let stated = |reference: &str| {
        let first = Completion::dispatched(ids[0], reference);
        [first, dispatched(ids[1])]
    };
    let too_long = stated(&format!("{longest}x"));
    let answer = fixture
        .payments
        .complete(lease.token, WORKER, &too_long)
        .await;
    refused(answer, "invalid_input");
    assert_eq!(fixture.story(ids[1]).await, [], "nothing was written");
    completed(
        fixture
            .try_complete(&lease, WORKER, &stated(&longest))
            .await,
    );
    let kept = fixture.attempts(ids[0]).await.remove(0).rail_reference;
    assert_eq!(kept, Some(longest));
}

/// Nor by a worker that uses the general settle, alone or among others.
pub(crate) async fn no_settle_dispatches_a_payment_without_its_reference(
    harness: &dyn PaymentsHarness,
) {
    let fixture = PaymentsFixture::new(harness).await;
    let ids = fixture.enqueue(&[payment(1), payment(2)]).await;
    let lease = fixture.stage.claim(2).await;
    let [first, second] = [0, 1].map(|n| lease.messages[n].message.id);
    let under = |id, result: Value| Report {
        result: Some(result),
        ..Report::delivered(id)
    };
    let known = under(first, json!({"rail_reference": "REF-1"}));
    let long = "x".repeat(REFERENCE_BYTES_MAX + 1);
    for reports in [
        vec![Report::delivered(first), Report::delivered(second)],
        vec![known.clone(), Report::delivered(second)],
        vec![known.clone(), under(second, json!({"rail_reference": " "}))],
        vec![known.clone(), under(second, json!({"rail_reference": 7}))],
        vec![
            known.clone(),
            under(second, json!({"rail_reference": long})),
        ],
    ] {
        let error = refused(
            fixture.stage.store.settle(lease.token, &reports).await,
            "invalid_input",
        );
        assert!(error.to_string().contains("rail_reference"), "{error}");
        assert!(error.to_string().contains("complete"), "{error}");
    }
    assert_eq!(fixture.story(ids[0]).await, [], "nothing was written");
    fixture.stage.settle(&lease, &[known]).await;
    assert_eq!(fixture.story(ids[0]).await, [AttemptState::Dispatched]);
    fixture.complete(&lease, dispatched(ids[1])).await;
    assert_eq!(fixture.story(ids[1]).await, [AttemptState::Dispatched]);
}
