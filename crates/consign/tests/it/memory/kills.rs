//! Gateways and workers killed (SIGKILL) at each point of a memory's way, with a real memory server:
//! nothing is lost, nothing is stored twice, and every audit ends.

use std::time::Duration;

use consign_testkit::{OpenMemory, eventually};

use super::gateway::{audits, copies, ends_well, is_sent, row, store, try_store, use_openmemory};
use crate::{
    orders::bench::{Bench, on_both},
    service::Service,
};

/// Generous: a busy machine must not fail a test.
const SOON: Duration = Duration::from_secs(20);

const SERVE: &[&str] = &["serve", "--listen", "127.0.0.1:0"];
const WORK: &[&str] = &[
    "work",
    "--queue",
    "memory",
    "--health-listen",
    "127.0.0.1:0",
];

/// Lets a gateway come to the point with a request, then kills it.
async fn killed_at(bench: &Bench, point: &str) {
    let (mut victim, failpoint) = bench.stopped_at(SERVE, point).await;
    bench.consign.run(["pause", "memory"]).expect(0);
    tokio::select! {
        answer = try_store(&victim) => panic!("answered: {answer:?}"),
        () = failpoint.reached() => victim.child.kill9(),
    }
}

fn pairs(audits: &[(String, String)]) -> Vec<(&str, &str)> {
    let pairs = audits.iter();
    pairs
        .map(|(reason, status)| (reason.as_str(), status.as_str()))
        .collect()
}

/// Nothing was sent; the audit that hangs ends as failed, and the request may be repeated.
#[test]
fn a_gateway_killed_before_it_sent_anything_leaves_an_audit_that_ends() {
    on_both(async |mut bench| {
        let server = OpenMemory::start().await;
        use_openmemory(&mut bench, &server);
        killed_at(&bench, "memory.after_pending_audit").await;
        assert_eq!(copies(&server).await, 0);
        assert_eq!(
            pairs(&audits(&bench).await),
            [("policy:private_space", "pending")]
        );

        let gateway = bench.serve().await;
        let again = store(&gateway).await;
        assert_eq!(again["action"], "allow", "{again}");
        gateway.stop().await;
        ends_well(&bench, &server).await;
        let ended = audits(&bench).await;
        assert_eq!(
            pairs(&ended),
            [
                ("policy:private_space:audit_timeout", "failed"),
                ("policy:private_space", "success")
            ]
        );
        assert_eq!(bench.consign.json(["memory", "ls"]), serde_json::json!([]));
    });
}

/// The server has it and nobody wrote that down: a repeated request finds it.
#[test]
fn a_gateway_killed_after_the_server_has_stored_stores_no_second_time() {
    on_both(async |mut bench| {
        let server = OpenMemory::start().await;
        use_openmemory(&mut bench, &server);
        killed_at(&bench, "memory.after_backend").await;
        assert_eq!(copies(&server).await, 1);

        let gateway = bench.serve().await;
        let again = store(&gateway).await;
        assert_eq!(again["action"], "allow", "{again}");
        assert!(again["memory_id"].is_string(), "{again}");
        gateway.stop().await;
        ends_well(&bench, &server).await;
        assert_eq!(audits(&bench).await.len(), 2, "one for each request");
    });
}

/// What was put off is put off, answer or no answer; it is delivered once.
#[test]
fn a_gateway_killed_after_deferring_has_deferred() {
    on_both(async |mut bench| {
        let mut server = OpenMemory::start().await;
        use_openmemory(&mut bench, &server);
        server.stop().await;
        killed_at(&bench, "memory.after_enqueue").await;
        let waiting = row(&bench);
        assert_eq!(waiting["status"], "pending", "{waiting}");
        let reason = format!(
            "openmemory_write_failed:connection_error:outbox:{}",
            waiting["outbox_id"]
        );
        assert_eq!(
            pairs(&audits(&bench).await),
            [(reason.as_str(), "redirected")]
        );

        server.restart().await;
        bench.consign.run(["resume", "memory"]).expect(0);
        bench
            .consign
            .run(["work", "--queue", "memory", "--once"])
            .expect(0);
        let sent = row(&bench);
        assert_eq!(sent["status"], "sent", "{sent}");
        let gateway = bench.serve().await;
        let again = store(&gateway).await;
        assert_eq!(again["memory_id"], sent["memory_id"], "{again}");
        gateway.stop().await;
        ends_well(&bench, &server).await;
        assert_eq!(
            pairs(&audits(&bench).await)[1..],
            [
                ("outbox_flush_success", "success"),
                ("dedup_hit", "success")
            ]
        );
    });
}

/// The server has it, the outbox does not know: whoever takes over asks before it sends.
#[test]
fn a_worker_killed_after_the_server_has_stored_stores_no_second_time() {
    on_both(async |mut bench| {
        let mut server = OpenMemory::start().await;
        use_openmemory(&mut bench, &server);
        server.stop().await;
        let gateway = bench.serve().await;
        bench.consign.run(["pause", "memory"]).expect(0);
        let deferred = store(&gateway).await;
        assert_eq!(deferred["action"], "deferred", "{deferred}");
        gateway.stop().await;
        server.restart().await;
        let (mut victim, failpoint) = bench.stopped_at(WORK, "memory.flush_after_store").await;
        bench.consign.run(["resume", "memory"]).expect(0);
        failpoint.reached().await;
        victim.child.kill9();
        assert_eq!(copies(&server).await, 1);
        let held = row(&bench);
        assert_eq!(held["status"], "pending", "{held}");
        assert!(held["locked_by"].is_string(), "{held}");

        let heir = Service::work(&bench.consign, &["--queue", "memory"]).await;
        let sent = is_sent(&bench).await;
        assert_eq!(sent["retry_count"], 0, "an expiry is no retry: {sent}");
        heir.stop().await;
        ends_well(&bench, &server).await;
        let ended = audits(&bench).await;
        assert_eq!(pairs(&ended)[1..], [("outbox_flush_success", "success")]);
    });
}

/// A gateway that is told to stop brings to their end what clients left behind that hung up.
#[test]
fn a_gateway_that_stops_leaves_no_audit_without_an_end() {
    on_both(async |mut bench| {
        let server = OpenMemory::start().await;
        use_openmemory(&mut bench, &server);
        let gateway = bench.serve().await;
        server.freeze();
        tokio::select! {
            answer = try_store(&gateway) => panic!("answered: {answer:?}"),
            () = eventually("its audit is there", SOON, || async { audits(&bench).await.len() == 1 }) => {}
        }
        gateway.stop().await;
        server.thaw();
        let audits = audits(&bench).await;
        let [(reason, status)] = audits.as_slice() else {
            panic!("{audits:?}");
        };
        assert!(reason.starts_with("openmemory_write_failed:"), "{reason}");
        assert_eq!(status, "redirected");
    });
}
