//! The page of memories: the gate, the report, and reconciling.

use consign_kernel::By;
use consign_memory::{Action, AuditStatus, NewAudit};
use serde_json::json;

use super::{AUDITOR, Browser, Desk, OPERATOR, on_databases};
use crate::bench::Bench;

on_databases!(
    the_gate_tells_what_is_in_the_way,
    reconciling_takes_a_reason_and_is_on_record,
    a_report_is_made_once_for_all_who_look,
);

async fn the_gate_tells_what_is_in_the_way(bench: Bench) {
    let book = bench.logbook.clone().unwrap();
    let desk = Desk::open(bench).await;
    let page = desk.get(&mut Browser::default(), "/ui/memory").await;
    page.says(200, "data-gate=\"FULL\"")
        .says(200, "Everything that must work does.")
        .says(200, "total writes");
    let audit = |reason: &str, status, action| NewAudit {
        actor_user_id: Some("ada".into()),
        target_space: "private:ada".into(),
        action,
        reason: Some(reason.to_owned()),
        payload_sha: None,
        evidence_refs_json: json!({}),
        correlation_id: None,
        status,
    };
    let failed = "openmemory_write_failed:connection_error:outbox:1";
    let deferred = audit(failed, AuditStatus::Redirected, Action::Redirect);
    book.insert_audit(&deferred).await.unwrap();
    // What was seen before is kept for a few seconds; another server sees for itself.
    let looks = async |bench: &Bench| {
        let options = consign_memory::MemoryOptions::default();
        let fresh = Bench::on(bench.store.clone(), bench.clock.clone(), None).await;
        let fresh = fresh.with_memory(book.clone(), options).await;
        let desk = Desk::open(fresh).await;
        desk.get(&mut Browser::default(), "/ui/memory").await
    };
    let page = looks(&desk.bench).await;
    page.says(200, "data-gate=\"DEGRADED\"")
        .says(200, "FULL mode: required capability openmemory failed")
        .says(200, "since <time")
        .says(200, failed);
    let stored = audit("outbox_flush_success", AuditStatus::Success, Action::Allow);
    book.insert_audit(&stored).await.unwrap();
    looks(&desk.bench).await.says(200, "data-gate=\"FULL\"");
    let by = By::new("ada", "wait");
    desk.bench
        .store
        .pause(&consign_memory::queue(), &by)
        .await
        .unwrap();
    let page = looks(&desk.bench).await;
    page.says(200, "data-gate=\"DEGRADED\"")
        .says(200, "the queue of memories is paused");
}

async fn reconciling_takes_a_reason_and_is_on_record(bench: Bench) {
    let desk = Desk::guarded(bench).await;
    let mut olga = desk.login(OPERATOR).await;
    let preview = desk.get(&mut olga, "/ui/memory/reconcile").await;
    preview.says(200, "Reconcile: preview");
    let action = "/ui/memory/reconcile";
    let without = desk.send(&mut olga, &preview, action, &[]).await;
    without.says(400, "reason_required");
    let nothing = desk.get(&mut olga, "/ui/audit?of=writes&actor=olga").await;
    nothing.says(200, "Nothing.");
    let reason = [("reason", "after the outage")];
    let done = desk.send(&mut olga, &preview, action, &reason).await;
    done.says(200, "Reconciled").says(200, "Everything fits.");
    let audit = desk.get(&mut olga, "/ui/audit?of=writes&actor=olga").await;
    audit
        .says(200, "reconcile: after the outage")
        .says(200, "governance:default")
        .says(200, "<span class=\"mark success\">success</span>");
    let mut anton = desk.login(AUDITOR).await;
    let page = desk.get(&mut anton, "/ui/memory").await;
    assert!(!page.text.contains("/ui/memory/reconcile"));
    desk.get(&mut anton, action)
        .await
        .says(403, "scope_missing");
}

async fn a_report_is_made_once_for_all_who_look(bench: Bench) {
    let desk = Desk::open(bench).await;
    let mut browser = Browser::default();
    let first = desk.get(&mut browser, "/ui/memory").await;
    first.says(200, "<dt>total writes</dt><dd>0</dd>");
    let body = json!({"payload_md": "lamps are green", "target_space": "private:ada"});
    desk.bench.post("/memory/store", body).await.is(200);
    desk.bench.advance(30);
    // A new one would be made beside the first look, and show at one of the next.
    for _ in 0..5 {
        let kept = desk.get(&mut browser, "/ui/memory").await;
        kept.says(200, "<dt>total writes</dt><dd>0</dd>")
            .says(200, ">30 s ago</time>");
    }
}
