//! Repeated completions, and those that differ from the first.

use consign_conformance::stage::{TTL, refused, s};
use consign_kernel::{Outcome, Token};
use consign_payments::{AttemptState, CompleteAnswer, Completion, OutboxId, RailResult};
use uuid::Uuid;

use super::{
    PaymentsHarness,
    fixture::{PaymentsFixture, WORKER, dispatched, failed, held_by, payment, retryable},
};

fn unsure(id: OutboxId) -> Completion {
    Completion {
        in_doubt: Some(true),
        ..retryable(id)
    }
}

fn sure(id: OutboxId) -> Completion {
    Completion {
        in_doubt: Some(false),
        ..retryable(id)
    }
}

fn unreferenced(id: OutboxId) -> Completion {
    Completion {
        result: RailResult::default(),
        ..dispatched(id)
    }
}

fn elsewhere(id: OutboxId) -> Completion {
    Completion::dispatched(id, "REF-OTHER")
}

/// A lost reply is repeated with the same content. A different completion is new information and
/// must not be acknowledged.
pub(crate) async fn a_different_completion_is_not_a_repetition(harness: &dyn PaymentsHarness) {
    type CompletionOf = fn(OutboxId) -> Completion;
    let everything: [CompletionOf; 7] = [
        dispatched,
        elsewhere,
        unreferenced,
        failed,
        retryable,
        unsure,
        sure,
    ];
    // For each recorded completion, which of the seven are equal.
    let table: [(CompletionOf, [bool; 7]); 7] = [
        (dispatched, [true, false, false, false, false, false, false]),
        (elsewhere, [false, true, false, false, false, false, false]),
        (
            unreferenced,
            [false, false, true, false, false, false, false],
        ),
        (failed, [false, false, false, true, false, false, false]),
        (retryable, [false, false, false, false, true, false, true]),
        (unsure, [false, false, false, false, true, true, false]),
        (sure, [false, false, false, false, true, false, true]),
    ];
    let fixture = PaymentsFixture::new(harness).await;
    for (n, (first, same)) in table.into_iter().enumerate() {
        let id = fixture.enqueue_one(&payment(n)).await;
        let lease = fixture.stage.claim(1).await;
        assert_eq!(held_by(&lease), [id]);
        let recorded = fixture.complete(&lease, first(id)).await;
        let attempts = fixture.attempts(id).await;
        for (again, is_same) in everything.into_iter().zip(same) {
            let stated = again(id);
            let once = std::slice::from_ref(&stated);
            let answer = fixture.try_complete(&lease, WORKER, once).await;
            let expected = if is_same {
                CompleteAnswer::Completed(vec![recorded.clone()])
            } else {
                CompleteAnswer::RecordedOtherwise
            };
            assert_eq!(answer, expected, "case {n}: {stated:?}");
            let answer = fixture.try_complete(&lease, "worker-2", &[stated]).await;
            assert_eq!(answer, CompleteAnswer::LeaseLost, "case {n}");
        }
        let zombie = [Completion::failed(id, AttemptState::ZombieRequeue, "X")];
        let answer = fixture
            .payments
            .complete(lease.token, WORKER, &zombie)
            .await;
        refused(answer, "invalid_input");
        assert_eq!(
            fixture.attempts(id).await,
            attempts,
            "case {n}: all as it was"
        );
    }
}

/// In one call with what is new: nothing of it is recorded.
pub(crate) async fn a_contradiction_refuses_the_whole_call(harness: &dyn PaymentsHarness) {
    let fixture = PaymentsFixture::new(harness).await;
    let ids = fixture.enqueue(&[payment(1), payment(2)]).await;
    let lease = fixture.stage.claim(2).await;
    let first = fixture.complete(&lease, retryable(ids[0])).await;
    let both = [dispatched(ids[0]), dispatched(ids[1])];
    let answer = fixture.try_complete(&lease, WORKER, &both).await;
    assert_eq!(answer, CompleteAnswer::RecordedOtherwise);
    assert_eq!(fixture.attempts(ids[1]).await, []);
    let both = [retryable(ids[0]), dispatched(ids[1])];
    let done = super::fixture::completed(fixture.try_complete(&lease, WORKER, &both).await);
    assert_eq!(done[0], first);
    assert_eq!(done[1].state, AttemptState::Dispatched);
}

/// A worker without a lease gets lease lost, even for an empty completion.
pub(crate) async fn an_empty_completion_needs_its_lease_too(harness: &dyn PaymentsHarness) {
    let fixture = PaymentsFixture::new(harness).await;
    let id = fixture.enqueue_one(&payment(1)).await;
    let lease = fixture.stage.claim(1).await;
    let stranger = Token(Uuid::from_u128(7));
    let answer = fixture.payments.complete(stranger, WORKER, &[]).await;
    let answer = answer.expect("complete answers");
    assert_eq!(answer, CompleteAnswer::LeaseLost);
    let answer = fixture.try_complete(&lease, "worker-2", &[]).await;
    assert_eq!(answer, CompleteAnswer::LeaseLost, "another's lease");
    let answer = fixture.try_complete(&lease, WORKER, &[]).await;
    assert_eq!(answer, CompleteAnswer::Completed(Vec::new()));
    fixture.complete(&lease, dispatched(id)).await;
    let answer = fixture.try_complete(&lease, WORKER, &[]).await;
    assert_eq!(answer, CompleteAnswer::LeaseLost, "nothing is left of it");
}

/// What was learned after the outcome was recorded is evidence like any other.
pub(crate) async fn a_result_other_than_the_recorded_one_is_kept_as_late(
    harness: &dyn PaymentsHarness,
) {
    let fixture = PaymentsFixture::new(harness).await;
    let ids = fixture.enqueue(&[payment(1), payment(2), payment(3)]).await;
    let lease = fixture.stage.claim(2).await;
    let record_late = async |worker: &str, stated: &[Completion]| {
        let kept = fixture
            .payments
            .record_late_payments(lease.token, worker, stated);
        kept.await.expect("record_late answers")
    };
    let nothing: [OutboxId; 0] = [];
    let all = [dispatched(ids[0]), dispatched(ids[1]), dispatched(ids[2])];
    assert_eq!(
        record_late(WORKER, &all).await,
        nothing,
        "complete it instead"
    );
    fixture.complete(&lease, sure(ids[0])).await;
    fixture.complete(&lease, dispatched(ids[1])).await;

    assert_eq!(
        record_late("worker-2", &all).await,
        nothing,
        "not its lease"
    );
    assert_eq!(
        record_late(WORKER, &all).await,
        ids[..2],
        "never had the third"
    );
    assert_eq!(record_late(WORKER, &all).await, ids[..2], "repeated");
    let evidence = async |id: OutboxId| {
        let found = fixture.payments.payment_messages(&[id]).await;
        let message = found.expect("messages answers")[0].expect("a message");
        let late = fixture.stage.store.late(message).await;
        late.expect("late answers")
    };
    let late = evidence(ids[0]).await;
    assert_eq!(late.len(), 1);
    assert_eq!((late[0].token, late[0].fence), (lease.token, lease.fence));
    assert_eq!(
        (late[0].outcome, &*late[0].owner),
        (Outcome::Delivered, WORKER)
    );
    let reference = RailResult::from_value(late[0].result.as_ref()).rail_reference;
    assert_eq!(reference, Some(format!("REF-{}", ids[0])));
    assert_eq!(evidence(ids[1]).await, [], "its attempt records it already");

    let unknown = OutboxId(Uuid::from_u128(1));
    assert_eq!(record_late(WORKER, &[dispatched(unknown)]).await, nothing);
    let twice = [dispatched(ids[0]), dispatched(ids[0])];
    let answer = fixture
        .payments
        .record_late_payments(lease.token, WORKER, &twice);
    refused(answer.await, "invalid_input");
    let zombie = [Completion::failed(ids[0], AttemptState::ZombieRequeue, "X")];
    let answer = fixture
        .payments
        .record_late_payments(lease.token, WORKER, &zombie);
    refused(answer.await, "invalid_input");

    fixture.stage.advance(s(5)).await;
    let lease = fixture.stage.claim(2).await;
    for claimed in &lease.messages {
        let is_first = claimed.message.key == Some(ids[0].to_string());
        assert_eq!(claimed.in_doubt, is_first);
    }
    for id in held_by(&lease) {
        fixture.complete(&lease, dispatched(id)).await;
    }
}

/// A worker reports a timeout too late, and then the answer arrives.
pub(crate) async fn a_late_success_is_always_stored(harness: &dyn PaymentsHarness) {
    let fixture = PaymentsFixture::new(harness).await;
    let ids = fixture.enqueue(&[payment(1), payment(2)]).await;
    let lease = fixture.stage.claim(2).await;
    fixture.complete(&lease, sure(ids[1])).await;
    fixture.stage.advance(TTL).await;
    let words = [unsure, failed, dispatched, elsewhere, retryable, dispatched];
    for (n, say) in words.into_iter().enumerate() {
        let stated = [say(ids[0]), say(ids[1])];
        let kept = fixture
            .payments
            .record_late_payments(lease.token, WORKER, &stated)
            .await;
        assert_eq!(kept.expect("record_late answers"), ids, "word {n}");
    }
    // The second worker recorded a retry.
    for (id, first) in ids.iter().zip([Outcome::Retry, Outcome::Dead]) {
        let found = fixture.payments.payment_messages(&[*id]).await;
        let message = found.expect("messages answers")[0].expect("a message");
        let late = fixture
            .stage
            .store
            .late(message)
            .await
            .expect("late answers");
        assert_eq!(late.len(), 2, "{late:?}");
        assert!(late.iter().any(|late| late.outcome == first), "{late:?}");
        let success = late.iter().find(|late| late.outcome == Outcome::Delivered);
        let result = success.expect("a success").result.as_ref();
        let reference = RailResult::from_value(result).rail_reference;
        assert_eq!(reference, Some(format!("REF-{id}")));
    }
    for _ in &ids {
        let heir = fixture.stage.claim(1).await;
        assert!(heir.messages[0].in_doubt, "the rail has it");
        fixture.complete(&heir, dispatched(held_by(&heir)[0])).await;
    }
}
