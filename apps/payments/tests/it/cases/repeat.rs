//! Completions that come again, and those that say something else the second time.

use consign_conformance::stage::{TTL, refused, s};
use consign_kernel::{Outcome, Token};
use consign_payments::{AttemptState, CompleteAnswer, Completion, OutboxId, RailResult};
use uuid::Uuid;

use super::{
    PaymentsHarness,
    till::{Till, WORKER, dispatched, failed, held_by, payment, retryable},
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

/// CP-08: a lost reply is repeated with what it was about. Anything else is somebody who has
/// learned something since, and is not to be told that all is well.
pub(crate) async fn a_completion_that_says_something_else_is_no_repetition(
    harness: &dyn PaymentsHarness,
) {
    type Say = fn(OutboxId) -> Completion;
    let everything: [Say; 7] = [
        dispatched,
        elsewhere,
        unreferenced,
        failed,
        retryable,
        unsure,
        sure,
    ];
    // Recorded so, which of the seven say the same.
    let table: [(Say, [bool; 7]); 7] = [
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
    let till = Till::new(harness).await;
    for (n, (first, same)) in table.into_iter().enumerate() {
        let id = till.enqueue_one(&payment(n)).await;
        let lease = till.stage.claim(1).await;
        assert_eq!(held_by(&lease), [id]);
        let recorded = till.complete(&lease, first(id)).await;
        let attempts = till.attempts(id).await;
        for (again, is_same) in everything.into_iter().zip(same) {
            let said = again(id);
            let once = std::slice::from_ref(&said);
            let answer = till.try_complete(&lease, WORKER, once).await;
            let expected = match is_same {
                true => CompleteAnswer::Completed(vec![recorded.clone()]),
                false => CompleteAnswer::RecordedOtherwise,
            };
            assert_eq!(answer, expected, "case {n}: {said:?}");
            let answer = till.try_complete(&lease, "worker-2", &[said]).await;
            assert_eq!(answer, CompleteAnswer::LeaseLost, "case {n}");
        }
        let zombie = [Completion::failed(id, AttemptState::ZombieRequeue, "X")];
        let answer = till.payments.complete(lease.token, WORKER, &zombie).await;
        refused(answer, "invalid_input");
        assert_eq!(till.attempts(id).await, attempts, "case {n}: all as it was");
    }
}

/// In one call with what is new: nothing of it is recorded.
pub(crate) async fn a_contradiction_refuses_the_whole_call(harness: &dyn PaymentsHarness) {
    let till = Till::new(harness).await;
    let ids = till.enqueue(&[payment(1), payment(2)]).await;
    let lease = till.stage.claim(2).await;
    let first = till.complete(&lease, retryable(ids[0])).await;
    let both = [dispatched(ids[0]), dispatched(ids[1])];
    let answer = till.try_complete(&lease, WORKER, &both).await;
    assert_eq!(answer, CompleteAnswer::RecordedOtherwise);
    assert_eq!(till.attempts(ids[1]).await, []);
    let both = [retryable(ids[0]), dispatched(ids[1])];
    let done = super::till::completed(till.try_complete(&lease, WORKER, &both).await);
    assert_eq!(done[0], first);
    assert_eq!(done[1].state, AttemptState::Dispatched);
}

/// Whoever has no lease is told so, however little it says.
pub(crate) async fn an_empty_completion_needs_its_lease_too(harness: &dyn PaymentsHarness) {
    let till = Till::new(harness).await;
    let id = till.enqueue_one(&payment(1)).await;
    let lease = till.stage.claim(1).await;
    let stranger = Token(Uuid::from_u128(7));
    let answer = till.payments.complete(stranger, WORKER, &[]).await;
    let answer = answer.expect("complete answers");
    assert_eq!(answer, CompleteAnswer::LeaseLost);
    let answer = till.try_complete(&lease, "worker-2", &[]).await;
    assert_eq!(answer, CompleteAnswer::LeaseLost, "another's lease");
    let answer = till.try_complete(&lease, WORKER, &[]).await;
    assert_eq!(answer, CompleteAnswer::Completed(Vec::new()));
    till.complete(&lease, dispatched(id)).await;
    let answer = till.try_complete(&lease, WORKER, &[]).await;
    assert_eq!(answer, CompleteAnswer::LeaseLost, "nothing is left of it");
}

/// CP-09: what was learned after the outcome was recorded is evidence like any other.
pub(crate) async fn what_was_recorded_otherwise_can_be_witnessed(harness: &dyn PaymentsHarness) {
    let till = Till::new(harness).await;
    let ids = till.enqueue(&[payment(1), payment(2), payment(3)]).await;
    let lease = till.stage.claim(2).await;
    let witness = async |worker: &str, said: &[Completion]| {
        let kept = till.payments.witness_payments(lease.token, worker, said);
        kept.await.expect("witness answers")
    };
    let nothing: [OutboxId; 0] = [];
    let all = [dispatched(ids[0]), dispatched(ids[1]), dispatched(ids[2])];
    assert_eq!(witness(WORKER, &all).await, nothing, "complete it instead");
    till.complete(&lease, sure(ids[0])).await;
    till.complete(&lease, dispatched(ids[1])).await;

    assert_eq!(witness("worker-2", &all).await, nothing, "not its lease");
    assert_eq!(witness(WORKER, &all).await, ids[..2], "never had the third");
    assert_eq!(witness(WORKER, &all).await, ids[..2], "repeated");
    let evidence = async |id: OutboxId| {
        let found = till.payments.payment_messages(&[id]).await;
        let message = found.expect("messages answers")[0].expect("a message");
        let late = till.stage.store.late(message).await;
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
    assert_eq!(evidence(ids[1]).await, [], "its attempt says so already");

    let unknown = OutboxId(Uuid::from_u128(1));
    assert_eq!(witness(WORKER, &[dispatched(unknown)]).await, nothing);
    let twice = [dispatched(ids[0]), dispatched(ids[0])];
    let answer = till.payments.witness_payments(lease.token, WORKER, &twice);
    refused(answer.await, "invalid_input");
    let zombie = [Completion::failed(ids[0], AttemptState::ZombieRequeue, "X")];
    let answer = till.payments.witness_payments(lease.token, WORKER, &zombie);
    refused(answer.await, "invalid_input");

    till.stage.advance(s(5)).await;
    let lease = till.stage.claim(2).await;
    for claimed in &lease.messages {
        let is_first = claimed.message.key == Some(ids[0].to_string());
        assert_eq!(claimed.in_doubt, is_first);
    }
    for id in held_by(&lease) {
        till.complete(&lease, dispatched(id)).await;
    }
}

/// CP-09: a worker gives up waiting, says so too late, and then the answer comes after all.
pub(crate) async fn a_success_is_kept_whatever_was_said_before_it(harness: &dyn PaymentsHarness) {
    let till = Till::new(harness).await;
    let ids = till.enqueue(&[payment(1), payment(2)]).await;
    let lease = till.stage.claim(2).await;
    till.complete(&lease, sure(ids[1])).await;
    till.stage.advance(TTL).await;
    let words = [unsure, failed, dispatched, elsewhere, retryable, dispatched];
    for (n, say) in words.into_iter().enumerate() {
        let said = [say(ids[0]), say(ids[1])];
        let kept = till
            .payments
            .witness_payments(lease.token, WORKER, &said)
            .await;
        assert_eq!(kept.expect("witness answers"), ids, "word {n}");
    }
    // That it is to be tried again is what the second one had recorded.
    for (id, first) in ids.iter().zip([Outcome::Retry, Outcome::Dead]) {
        let found = till.payments.payment_messages(&[*id]).await;
        let message = found.expect("messages answers")[0].expect("a message");
        let late = till.stage.store.late(message).await.expect("late answers");
        assert_eq!(late.len(), 2, "{late:?}");
        assert!(late.iter().any(|late| late.outcome == first), "{late:?}");
        let success = late.iter().find(|late| late.outcome == Outcome::Delivered);
        let result = success.expect("a success").result.as_ref();
        let reference = RailResult::from_value(result).rail_reference;
        assert_eq!(reference, Some(format!("REF-{id}")));
    }
    for _ in &ids {
        let heir = till.stage.claim(1).await;
        assert!(heir.messages[0].in_doubt, "the rail has it");
        till.complete(&heir, dispatched(held_by(&heir)[0])).await;
    }
}
