//! What the rail said, under a live lease (P-04 to P-06, P-09).

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
    till::{Till, WORKER, completed, dispatched, enqueued, failed, held_by, payment, retryable},
};

/// P-04.
pub(crate) async fn every_completion_leads_where_it_should(harness: &dyn PaymentsHarness) {
    let till = Till::new(harness).await;
    type Say = fn(OutboxId) -> Completion;
    let table: [(Say, AttemptState, StateKind); 3] = [
        (dispatched, AttemptState::Dispatched, StateKind::Delivered),
        (failed, AttemptState::Failed, StateKind::Dead),
        (retryable, AttemptState::Retryable, StateKind::Ready),
    ];
    for (n, (say, state, place)) in table.into_iter().enumerate() {
        let id = till.enqueue_one(&payment(n)).await;
        let lease = till.stage.claim(1).await;
        till.stage.advance(s(1)).await;
        let now = till.stage.now().await;
        let done = till.complete(&lease, say(id)).await;
        assert_eq!((done.outbox_id, done.attempt_no), (id, 1));
        assert_eq!((done.state, done.place), (state, place));

        let attempt = &till.attempts(id).await[0];
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

        let view = till.view(id).await;
        assert_eq!((view.place, view.attempt_count), (place, 1));
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

/// P-04, D4: a delay of nothing is a second.
pub(crate) async fn a_retryable_payment_rests_at_least_a_second(harness: &dyn PaymentsHarness) {
    let till = Till::new(harness).await;
    for (n, (asked, given)) in [(0, 1), (1, 1), (7, 7)].into_iter().enumerate() {
        let id = till.enqueue_one(&payment(n)).await;
        let say = |id| Completion {
            retry_in: Some(s(asked)),
            ..retryable(id)
        };
        till.work_off(say).await;
        let due = till.view(id).await.next_attempt_at;
        assert_eq!(
            due,
            Some(after(till.stage.now().await, s(given))),
            "asked for {asked} s"
        );
    }
}

/// P-05, P-07: wrong token, wrong worker, unknown payment, not in the lease, expired; never a row.
pub(crate) async fn a_completion_without_its_lease_is_refused(harness: &dyn PaymentsHarness) {
    let till = Till::new(harness).await;
    let ids = till.enqueue(&[payment(1), payment(2)]).await;
    let lease = till.stage.claim(1).await;
    assert_eq!(held_by(&lease), ids[..1]);
    let refusals = [
        (Token(Uuid::from_u128(1)), WORKER, ids[0]),
        (lease.token, "worker-2", ids[0]),
        (lease.token, "", ids[0]),
        (lease.token, WORKER, OutboxId(Uuid::from_u128(2))),
        (lease.token, WORKER, ids[1]),
    ];
    for (token, worker, id) in refusals {
        let answer = till
            .payments
            .complete(token, worker, &[dispatched(id)])
            .await;
        assert_eq!(
            answer.expect("complete answers"),
            CompleteAnswer::LeaseLost,
            "{worker} {id}"
        );
    }
    till.stage.advance(TTL).await;
    let answer = till
        .try_complete(&lease, WORKER, &[dispatched(ids[0])])
        .await;
    assert_eq!(
        answer,
        CompleteAnswer::LeaseLost,
        "expired, by the clock of now"
    );
    assert_eq!(till.attempts(ids[0]).await, []);
    assert_eq!(till.attempts(ids[1]).await, []);
}

/// P-05, CP-14: only outcomes are reported, and whoever lost the lease is told that first.
pub(crate) async fn a_completion_that_is_nobodys_to_report_is_refused(
    harness: &dyn PaymentsHarness,
) {
    let till = Till::new(harness).await;
    let id = till.enqueue_one(&payment(1)).await;
    let lease = till.stage.claim(1).await;
    let zombie = Completion::failed(id, AttemptState::ZombieRequeue, "X");
    let completions = [zombie];
    let answer = till
        .payments
        .complete(lease.token, WORKER, &completions)
        .await;
    refused(answer, "invalid_input");
    let answer = till.try_complete(&lease, "worker-2", &completions).await;
    assert_eq!(answer, CompleteAnswer::LeaseLost);
    assert_eq!(till.attempts(id).await, []);
    till.complete(&lease, dispatched(id)).await;
}

/// CP-08: a lost reply is not a lost lease, but another's words are not one's own.
pub(crate) async fn a_repeated_completion_answers_what_was_recorded(harness: &dyn PaymentsHarness) {
    let till = Till::new(harness).await;
    let id = till.enqueue_one(&payment(1)).await;
    let lease = till.stage.claim(1).await;
    let first = till.complete(&lease, retryable(id)).await;
    assert_eq!(till.complete(&lease, retryable(id)).await, first);
    till.stage.advance(s(60)).await;
    let repeated = till.complete(&lease, retryable(id)).await;
    assert_eq!(repeated, first, "long after");
    let answer = till
        .try_complete(&lease, "worker-2", &[retryable(id)])
        .await;
    assert_eq!(answer, CompleteAnswer::LeaseLost);
    assert_eq!(till.story(id).await, [AttemptState::Retryable]);
}

/// P-06: worker A falls silent, B claims, A wakes up; both have the same name.
pub(crate) async fn a_stale_worker_of_the_same_name_cannot_complete(harness: &dyn PaymentsHarness) {
    let till = Till::new(harness).await;
    let id = till.enqueue_one(&payment(1)).await;
    let stale = till.stage.claim(1).await;
    till.stage.advance(TTL).await;
    let fresh = till.stage.claim(1).await;
    assert_ne!(stale.token, fresh.token);
    let answer = till.try_complete(&stale, WORKER, &[dispatched(id)]).await;
    assert_eq!(answer, CompleteAnswer::LeaseLost);
    till.complete(&fresh, dispatched(id)).await;
    let answer = till.try_complete(&stale, WORKER, &[failed(id)]).await;
    assert_eq!(answer, CompleteAnswer::LeaseLost);
    use AttemptState::{Dispatched, ZombieRequeue};
    assert_eq!(till.story(id).await, [ZombieRequeue, Dispatched]);
}

pub(crate) async fn a_batch_is_completed_all_or_none(harness: &dyn PaymentsHarness) {
    let till = Till::new(harness).await;
    let ids = till
        .enqueue(&[payment(1), payment(2), payment(3), payment(4)])
        .await;
    let lease = till.stage.claim(3).await;
    let twice = [dispatched(ids[0]), dispatched(ids[0])];
    let answer = till.payments.complete(lease.token, WORKER, &twice).await;
    refused(answer, "invalid_input");
    let with_stranger = [dispatched(ids[0]), dispatched(ids[3])];
    let answer = till.try_complete(&lease, WORKER, &with_stranger).await;
    assert_eq!(answer, CompleteAnswer::LeaseLost);
    assert_eq!(till.attempts(ids[0]).await, []);

    let all = [retryable(ids[2]), dispatched(ids[0]), failed(ids[1])];
    let done = completed(till.try_complete(&lease, WORKER, &all).await);
    let answered: Vec<OutboxId> = done.iter().map(|done| done.outbox_id).collect();
    assert_eq!(answered, [ids[2], ids[0], ids[1]], "in the order given");
    let states: Vec<AttemptState> = done.iter().map(|done| done.state).collect();
    use AttemptState::{Dispatched, Failed, Retryable};
    assert_eq!(states, [Retryable, Dispatched, Failed]);
}

/// D4, CP-07, CP-19: three tries, one word for the ceiling, the last error kept, and a way back
/// that leaves history as it was.
pub(crate) async fn a_payment_fails_at_the_ceiling_and_comes_back_by_a_person(
    harness: &dyn PaymentsHarness,
) {
    use AttemptState::{Dispatched, Failed, Retryable};
    let till = Till::new(harness).await;
    let id = till.enqueue_one(&payment(1)).await;
    let say = |id| Completion {
        error_message: Some("the rail is closed".to_owned()),
        ..retryable(id)
    };
    for _ in 0..3 {
        till.work_off(say).await;
        till.stage.advance(s(5)).await;
    }
    let attempts = till.attempts(id).await;
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
    let view = till.view(id).await;
    assert_eq!(view.state, PaymentState::Failed);
    assert_eq!(view.reason.as_deref(), Some(RETRY_CEILING_EXCEEDED));
    till.stage.claim_nothing("it has failed").await;
    let again = enqueued(&till.try_enqueue(&[payment(1)]).await[0]);
    assert_eq!((again.outbox_id, again.state), (id, PaymentState::Failed));

    let moved = till.payments.requeue_payments(&[id], &by()).await;
    moved.expect("requeue answers");
    assert_eq!(
        till.attempts(id).await,
        attempts,
        "what happened has happened"
    );
    till.work_off(dispatched).await;
    assert_eq!(
        till.story(id).await,
        [Retryable, Retryable, Failed, Dispatched]
    );
}

/// P-22: bounded and masked, and nothing of it lost that a program needs.
pub(crate) async fn what_a_rail_says_is_kept_and_masked(harness: &dyn PaymentsHarness) {
    let till = Till::new(harness).await;
    let id = till.enqueue_one(&payment(1)).await;
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
    till.work_off(say).await;
    let attempt = till.attempts(id).await.remove(0);
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
    let till = Till::new(harness).await;
    let ids = till.enqueue(&[payment(1), payment(2)]).await;
    let lease = till.stage.claim(2).await;
    let longest = "ä".repeat(128);
    let said = |reference: &str| {
        let first = Completion::dispatched(ids[0], reference);
        [first, dispatched(ids[1])]
    };
    let too_long = said(&format!("{longest}x"));
    let answer = till.payments.complete(lease.token, WORKER, &too_long).await;
    refused(answer, "invalid_input");
    assert_eq!(till.story(ids[1]).await, [], "nothing was written");
    completed(till.try_complete(&lease, WORKER, &said(&longest)).await);
    let kept = till.attempts(ids[0]).await.remove(0).rail_reference;
    assert_eq!(kept, Some(longest));
}

/// P-17: nor one by a worker that does not know the protocol, alone or among others.
pub(crate) async fn no_settle_dispatches_a_payment_without_its_reference(
    harness: &dyn PaymentsHarness,
) {
    let till = Till::new(harness).await;
    let ids = till.enqueue(&[payment(1), payment(2)]).await;
    let lease = till.stage.claim(2).await;
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
            till.stage.store.settle(lease.token, &reports).await,
            "invalid_input",
        );
        assert!(error.to_string().contains("rail_reference"), "{error}");
        assert!(error.to_string().contains("complete"), "{error}");
    }
    assert_eq!(till.story(ids[0]).await, [], "nothing was written");
    till.stage.settle(&lease, &[known]).await;
    assert_eq!(till.story(ids[0]).await, [AttemptState::Dispatched]);
    till.complete(&lease, dispatched(ids[1])).await;
    assert_eq!(till.story(ids[1]).await, [AttemptState::Dispatched]);
}
