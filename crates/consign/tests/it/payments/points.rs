//! Workers killed (SIGKILL) at each point of a payment's way, with a rail that executes and may lose
//! its reply: paid exactly once in the end.

use consign_testkit::Step;

use super::fixture::{attempts, becomes, pay, shown, use_rail};
use crate::{
    orders::bench::{Bench, on_both},
    service::Service,
};

const WORK: &[&str] = &[
    "work",
    "--queue",
    "payments",
    "--health-listen",
    "127.0.0.1:0",
];

/// Takes one payment and lets a worker come to the point with it, then kills the worker.
async fn killed_at(bench: &Bench, point: &str, steps: &[Step]) -> String {
    let server = Service::serve(&bench.consign).await;
    bench.consign.run(["pause", "payments"]).expect(0);
    let id = pay(&server, 1, steps).await;
    server.stop().await;
    let (mut victim, failpoint) = bench.stopped_at(WORK, point).await;
    bench.consign.run(["resume", "payments"]).expect(0);
    failpoint.reached().await;
    victim.child.kill9();
    id
}

/// What is to be found right after the kill: attempts, sends and executions.
fn left_behind(bench: &Bench, id: &str) -> (usize, usize, usize) {
    let tally = bench.broker.journal().tally(id);
    let row = shown(bench, id);
    (attempts(&row).len(), tally.sends, tally.executions)
}

/// A worker takes over; the payment is dispatched, and the rail has paid it once.
async fn taken_over(bench: &Bench, id: &str, states: &[&str], (sends, asked): (usize, bool)) {
    let heir = Service::work(&bench.consign, &["--queue", "payments"]).await;
    let row = becomes(bench, id, "DISPATCHED").await;
    assert_eq!(attempts(&row), states, "{row}");
    let tally = bench.broker.journal().tally(id);
    assert_eq!((tally.sends, tally.executions), (sends, 1), "{tally:?}");
    assert_eq!(tally.queries > 0, asked, "{tally:?}");
    heir.stop().await;
    bench.consign.run(["payments", "reconcile"]).expect(0);
    bench.doctor();
}

const TWICE: &[&str] = &["ZOMBIE_REQUEUE", "DISPATCHED"];

/// Nothing was said to begin, so there is nothing to ask.
#[test]
fn a_worker_killed_after_its_claim_has_sent_nothing() {
    on_both(async |mut bench| {
        use_rail(&mut bench, "");
        let id = killed_at(&bench, "payments.before_begin", &[]).await;
        assert_eq!(left_behind(&bench, &id), (0, 0, 0));
        taken_over(&bench, &id, TWICE, (1, false)).await;
    });
}

/// It might have been sent: the rail is asked, has not got it, and gets it once.
#[test]
fn a_payment_begun_by_a_killed_worker_is_queried_and_sent_once() {
    on_both(async |mut bench| {
        use_rail(&mut bench, "");
        let id = killed_at(&bench, "payments.before_send", &[]).await;
        assert_eq!(left_behind(&bench, &id), (0, 0, 0));
        taken_over(&bench, &id, TWICE, (1, true)).await;
    });
}

/// The rail has paid, and nobody wrote it down: asked, not sent again, by a rail that would pay twice.
#[test]
fn a_worker_killed_after_the_rail_has_paid_pays_no_second_time() {
    on_both(async |mut bench| {
        use_rail(&mut bench, "");
        bench.broker.tell(|manner| manner.dedupes = false).await;
        let id = killed_at(&bench, "payments.after_send", &[]).await;
        assert_eq!(left_behind(&bench, &id), (0, 1, 1));
        taken_over(&bench, &id, TWICE, (1, true)).await;
    });
}

/// The same where the rail's reply was lost as well.
#[test]
fn a_worker_killed_after_a_lost_reply_pays_no_second_time() {
    on_both(async |mut bench| {
        use_rail(&mut bench, "");
        bench.broker.tell(|manner| manner.dedupes = false).await;
        let lost = [Step::ExecuteDrop];
        let id = killed_at(&bench, "payments.after_send", &lost).await;
        assert_eq!(left_behind(&bench, &id), (0, 1, 1));
        taken_over(&bench, &id, TWICE, (1, true)).await;
    });
}

/// What is written down is written down.
#[test]
fn a_worker_killed_after_the_commit_has_settled() {
    on_both(async |mut bench| {
        use_rail(&mut bench, "");
        bench.broker.tell(|manner| manner.dedupes = false).await;
        let id = killed_at(&bench, "payments.settled", &[]).await;
        assert_eq!(left_behind(&bench, &id), (1, 1, 1));
        taken_over(&bench, &id, &["DISPATCHED"], (1, false)).await;
    });
}

/// A server killed between commit and reply has taken the payment once.
#[test]
fn a_server_killed_before_its_response_accepts_the_payment_once() {
    on_both(async |mut bench| {
        use_rail(&mut bench, "");
        let serve = &["serve", "--listen", "127.0.0.1:0"];
        let (mut victim, failpoint) = bench.stopped_at(serve, "payments.taken").await;
        bench.consign.run(["pause", "payments"]).expect(0);
        let body = super::fixture::payment(1, &[]).to_string();
        let unanswered = crate::http::try_post(victim.address(), "/v1/payments", &body);
        tokio::select! {
            answer = unanswered => panic!("answered: {answer:?}"),
            () = failpoint.reached() => victim.child.kill9(),
        }
        let server = Service::serve(&bench.consign).await;
        let again = crate::http::post(server.address(), "/v1/payments", &body).await;
        assert_eq!(again.status, 202, "{again:?}");
        assert_eq!(again.header("idempotency-replayed"), Some("true"));
        let again = again.json();
        assert_eq!(again["sequence_id"], 1, "{again}");
        bench.consign.run(["resume", "payments"]).expect(0);
        let id = again["outbox_id"].as_str().unwrap();
        becomes(&bench, id, "DISPATCHED").await;
        assert_eq!(bench.broker.execution_count(), 1);
        server.stop().await;
        bench.doctor();
    });
}
