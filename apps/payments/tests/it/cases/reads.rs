//! What can be seen.

use std::collections::BTreeMap;

use consign_conformance::stage::{TTL, after, by, s};
use consign_kernel::{Outcome, Report};
use consign_payments::{
    AttemptState, InFlight, NewPayment, OutboxId, PaymentFilter, PaymentState, PaymentsStatus,
};
use serde_json::json;
use uuid::Uuid;

use super::{
    PaymentsHarness,
    fixture::{PaymentsFixture, WORKER, dispatched, failed, payment, payment_of, retryable},
};

const TENANT: Uuid = Uuid::from_u128(77);

fn of_tenant(payment: NewPayment) -> NewPayment {
    NewPayment {
        tenant_id: Some(TENANT),
        ..payment
    }
}

/// One payment in each state: dispatched, failed, resting, leased, held, ready; the last two are a
/// tenant's.
async fn one_of_each(fixture: &PaymentsFixture<'_>) -> [OutboxId; 6] {
    let done = fixture.enqueue_one(&payment(1)).await;
    fixture.work_off(dispatched).await;
    let dead = fixture.enqueue_one(&payment(2)).await;
    fixture.work_off(failed).await;
    let resting = fixture.enqueue_one(&payment(3)).await;
    fixture.work_off(retryable).await;
    let leased = fixture.enqueue_one(&payment_of("bank-b", 4)).await;
    fixture.stage.claim(1).await;
    let held = fixture.enqueue_one(&of_tenant(payment(5))).await;
    fixture
        .payments
        .hold_payments(&[held], &by())
        .await
        .expect("hold answers");
    let ready = fixture
        .enqueue_one(&of_tenant(payment_of("bank-b", 6)))
        .await;
    [done, dead, resting, leased, held, ready]
}

pub(crate) async fn payments_are_listed_by_filter(harness: &dyn PaymentsHarness) {
    let fixture = PaymentsFixture::new(harness).await;
    let [done, dead, resting, leased, held, ready] = one_of_each(&fixture).await;
    let any = PaymentFilter::default;
    let state = |state| PaymentFilter {
        state: Some(state),
        ..any()
    };
    let participant = |name: &str| PaymentFilter {
        participant_id: Some(name.into()),
        ..any()
    };
    let tenant = |id| PaymentFilter {
        tenant_id: Some(id),
        ..any()
    };
    let instruction = |name: &str| PaymentFilter {
        instruction_id: Some(name.into()),
        ..any()
    };
    let pending_of_tenant = PaymentFilter {
        tenant_id: Some(TENANT),
        ..state(PaymentState::Pending)
    };
    let table = [
        (any(), vec![ready, held, leased, resting, dead, done]),
        (state(PaymentState::Pending), vec![ready, leased, resting]),
        (state(PaymentState::Held), vec![held]),
        (state(PaymentState::Failed), vec![dead]),
        (state(PaymentState::Dispatched), vec![done]),
        (participant("bank-b"), vec![ready, leased]),
        (participant("bank"), vec![]),
        (tenant(TENANT), vec![ready, held]),
        (tenant(Uuid::from_u128(1)), vec![]),
        (instruction("ins-bank-a-2"), vec![dead]),
        (pending_of_tenant, vec![ready]),
    ];
    for (filter, expected) in table {
        let page = fixture
            .payments
            .payments(&filter, None, 100)
            .await
            .expect("list answers");
        let ids: Vec<OutboxId> = page.items.iter().map(|view| view.outbox_id).collect();
        assert_eq!(ids, expected, "{filter:?}");
        assert_eq!(page.next, None);
        for view in page.items {
            assert_eq!(view, fixture.view(view.outbox_id).await, "as by itself");
        }
    }
    let view = fixture.view(leased).await;
    assert_eq!(view.claimed_by.as_deref(), Some(WORKER));
    assert_eq!(
        view.lease_expires_at,
        Some(after(fixture.stage.now().await, TTL))
    );
    assert_eq!(
        fixture.view(dead).await.reason.as_deref(),
        Some("INVALID_ACCOUNT")
    );
}

pub(crate) async fn payments_are_listed_in_pages(harness: &dyn PaymentsHarness) {
    let fixture = PaymentsFixture::new(harness).await;
    let new: Vec<NewPayment> = (0..7).map(payment).collect();
    let mut expected = fixture.enqueue(&new).await;
    expected.reverse();
    let (mut seen, mut before) = (Vec::new(), None);
    for _ in 0..4 {
        let page = fixture
            .payments
            .payments(&PaymentFilter::default(), before, 2)
            .await;
        let page = page.expect("list answers");
        seen.extend(page.items.iter().map(|view| view.outbox_id));
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    assert_eq!(seen, expected);
    assert_eq!(before, None, "the last page has no cursor");
}

pub(crate) async fn the_status_counts_every_place(harness: &dyn PaymentsHarness) {
    let fixture = PaymentsFixture::new(harness).await;
    let nothing = fixture
        .payments
        .payments_status(None)
        .await
        .expect("status answers");
    assert_eq!(nothing, PaymentsStatus::default());
    let started_at = fixture.stage.now().await;
    one_of_each(&fixture).await;
    let expected = PaymentsStatus {
        pending: 3,
        due: 1,
        scheduled: 1,
        waiting: 0,
        leased: 1,
        expired: 0,
        held: 1,
        failed: 1,
        attempts_histogram: [1, 0, 0, 0, 0],
        oldest_pending_at: Some(started_at),
        last_hour: BTreeMap::from([
            (AttemptState::Dispatched, 1),
            (AttemptState::Retryable, 1),
            (AttemptState::Failed, 1),
        ]),
    };
    let status = fixture
        .payments
        .payments_status(None)
        .await
        .expect("status answers");
    assert_eq!(status, expected);
    let of_tenant = PaymentsStatus {
        pending: 1,
        due: 1,
        held: 1,
        oldest_pending_at: Some(started_at),
        ..PaymentsStatus::default()
    };
    let status = fixture.payments.payments_status(Some(TENANT)).await;
    assert_eq!(status.expect("status answers"), of_tenant);

    fixture.stage.advance(s(3_601)).await;
    let status = fixture
        .payments
        .payments_status(None)
        .await
        .expect("status answers");
    assert_eq!((status.due, status.scheduled, status.expired), (2, 0, 1));
    assert_eq!(status.last_hour, BTreeMap::new());
}

/// The monitoring that the seed requires.
pub(crate) async fn payments_in_leases_are_shown_with_their_worker(harness: &dyn PaymentsHarness) {
    let fixture = PaymentsFixture::new(harness).await;
    let ids = fixture.enqueue(&[payment(1), payment(2)]).await;
    let first = fixture.stage.claim(1).await;
    fixture.stage.advance(s(4)).await;
    let second = fixture.stage.claim(1).await;
    let message_id = second.messages[0].message.id;
    let begun = fixture.stage.store.begin(second.token, &[message_id]).await;
    begun.expect("begin answers");
    fixture.stage.advance(s(6)).await;
    let in_flight = |n: usize, lease: &consign_kernel::Lease| InFlight {
        outbox_id: ids[n],
        claimed_by: WORKER.to_owned(),
        fence: lease.fence,
        claimed_at: lease.claimed_at,
        lease_expires_at: lease.expires_at,
        is_expired: n == 0,
        has_begun: n == 1,
    };
    let expected = [in_flight(0, &first), in_flight(1, &second)];
    let seen = fixture
        .payments
        .in_flight(10)
        .await
        .expect("in_flight answers");
    assert_eq!(seen, expected);
    let seen = fixture
        .payments
        .in_flight(1)
        .await
        .expect("in_flight answers");
    assert_eq!(seen, expected[..1]);
}

/// The rail accepted, the lease was gone.
pub(crate) async fn a_late_success_is_listed_by_reconcile(harness: &dyn PaymentsHarness) {
    let fixture = PaymentsFixture::new(harness).await;
    let ids = fixture.enqueue(&[payment(1), payment(2)]).await;
    let stale = fixture.stage.claim(2).await;
    fixture.stage.advance(TTL).await;
    let reports: Vec<Report> = stale
        .messages
        .iter()
        .map(|claimed| Report {
            result: Some(json!({"rail_reference": "R-1"})),
            ..Report::delivered(claimed.message.id)
        })
        .collect();
    fixture
        .stage
        .store
        .record_late(stale.token, &reports[..1])
        .await
        .expect("record_late answers");
    let refusal = Report {
        outcome: Outcome::Retry,
        ..reports[1].clone()
    };
    fixture
        .stage
        .store
        .record_late(stale.token, &[refusal])
        .await
        .expect("record_late answers");
    let found = fixture
        .payments
        .reconcile_payments(10)
        .await
        .expect("reconcile answers");
    assert_eq!(found.late_successes.len(), 1, "a success only: {found:?}");
    let late = &found.late_successes[0];
    assert_eq!(
        (late.outbox_id, late.state),
        (ids[0], PaymentState::Pending)
    );
    assert_eq!(late.late.token, stale.token);
    assert_eq!(late.late.result, Some(json!({"rail_reference": "R-1"})));
    assert!(!found.is_cut);
}

pub(crate) async fn what_may_have_been_paid_is_reconciled(harness: &dyn PaymentsHarness) {
    let fixture = PaymentsFixture::new(harness).await;
    let report = async |outcome: Outcome| {
        let lease = fixture.stage.claim(1).await;
        let report = Report {
            code: Some("DISPATCH_TIMEOUT".to_owned()),
            retry_in: Some(s(0)),
            ..Report::new(lease.messages[0].message.id, outcome)
        };
        fixture.stage.settle(&lease, &[report]).await;
    };
    let given_up = fixture.enqueue_one(&payment(1)).await;
    for _ in 0..3 {
        report(Outcome::Uncertain).await;
    }
    // A payment that may have been paid does not fail.
    assert_eq!(fixture.view(given_up).await.state, PaymentState::Held);
    assert_eq!(fixture.story(given_up).await, [AttemptState::Retryable; 3]);
    fixture.enqueue_one(&payment(2)).await;
    report(Outcome::Dead).await;
    fixture.enqueue_one(&payment(3)).await;
    report(Outcome::Uncertain).await;
    fixture.work_off(dispatched).await;

    let found = fixture.payments.reconcile_payments(10).await;
    let found = found.expect("reconcile answers");
    let uncertain: Vec<OutboxId> = found.uncertain.iter().map(|view| view.outbox_id).collect();
    assert_eq!(
        uncertain,
        [given_up],
        "not what failed for a reason, nor what was dispatched"
    );
    assert_eq!(found.missing_references, []);
    assert!(!found.is_cut);
    let cut = fixture.payments.reconcile_payments(0).await;
    let cut = cut.expect("reconcile answers");
    assert!(cut.is_cut && cut.uncertain.is_empty());
}

pub(crate) async fn an_unknown_payment_is_not_found(harness: &dyn PaymentsHarness) {
    let fixture = PaymentsFixture::new(harness).await;
    let stranger = OutboxId(Uuid::from_u128(1));
    assert_eq!(
        fixture
            .payments
            .payment(stranger)
            .await
            .expect("payment answers"),
        None
    );
    let attempts = fixture.payments.payment_attempts(stranger).await;
    assert_eq!(attempts.expect("attempts answers"), None);
    let id = fixture.enqueue_one(&payment(1)).await;
    let message_id = fixture.view(id).await.message_id;
    let found = fixture
        .payments
        .payment_messages(&[stranger, id, stranger, id])
        .await;
    let known = Some(message_id);
    assert_eq!(found.expect("messages answers"), [None, known, None, known]);
}
