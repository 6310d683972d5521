//! The page of memories: the gate, the report, and reconciling.

use consign_kernel::By;
use consign_memory::{Action, AuditEnd, AuditStatus, NewAudit, NewMemory};
use consign_server::testing::{self, AUDITOR, Browser, DashboardFixture, OPERATOR, PageAnswer};
use serde_json::json;

use super::{Bench, Fixture, off, on_databases, sqlite, with_memory};

on_databases!(
    the_gate_names_what_blocks_it,
    reconciling_takes_a_reason_and_is_on_record,
    a_report_is_made_once_for_all_who_look,
    a_memory_that_was_deferred_twice_shows_it,
    a_memory_is_erased_on_its_page,
);

async fn the_gate_names_what_blocks_it(bench: Bench) {
    let book = bench.app.clone();
    let fixture = DashboardFixture::open(bench).await;
    let page = fixture.get(&mut Browser::default(), "/ui/memory").await;
    page.says(200, "data-gate=\"FULL\"")
        .says(200, "All required capabilities work.")
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
        let fresh = testing::Bench::on(bench.store.clone(), bench.clock.clone(), None).await;
        let fresh = with_memory(fresh, book.clone(), options).await;
        let fixture = DashboardFixture::open(fresh).await;
        fixture.get(&mut Browser::default(), "/ui/memory").await
    };
    let page = looks(&fixture.bench).await;
    page.says(200, "data-gate=\"DEGRADED\"")
        .says(200, "FULL mode: required capability openmemory failed")
        .says(200, "since <time")
        .says(200, failed);
    let stored = audit("outbox_flush_success", AuditStatus::Success, Action::Allow);
    book.insert_audit(&stored).await.unwrap();
    looks(&fixture.bench).await.says(200, "data-gate=\"FULL\"");
    let by = By::new("ada", "wait");
    fixture
        .bench
        .store
        .pause(&consign_memory::queue(), &by)
        .await
        .unwrap();
    let page = looks(&fixture.bench).await;
    page.says(200, "data-gate=\"DEGRADED\"")
        .says(200, "the queue of memories is paused");
}

async fn reconciling_takes_a_reason_and_is_on_record(bench: Bench) {
    let fixture = DashboardFixture::guarded(bench).await;
    let mut olga = fixture.login(OPERATOR).await;
    let preview = fixture.get(&mut olga, "/ui/memory/reconcile").await;
    preview.says(200, "Reconcile: preview");
    let action = "/ui/memory/reconcile";
    let without = fixture.send(&mut olga, &preview, action, &[]).await;
    without.says(400, "reason_required");
    let nothing = fixture
        .get(&mut olga, "/ui/audit?of=writes&actor=olga")
        .await;
    nothing.says(200, "Nothing.");
    let reason = [("reason", "after the outage")];
    let done = fixture.send(&mut olga, &preview, action, &reason).await;
    done.says(200, "Reconciled")
        .says(200, "No differences found.");
    let audit = fixture
        .get(&mut olga, "/ui/audit?of=writes&actor=olga")
        .await;
    audit
        .says(200, "reconcile: after the outage")
        .says(200, "governance:default")
        .says(200, "<span class=\"mark success\">success</span>");
    let mut anton = fixture.login(AUDITOR).await;
    let page = fixture.get(&mut anton, "/ui/memory").await;
    assert!(!page.text.contains("/ui/memory/reconcile"));
    fixture
        .get(&mut anton, action)
        .await
        .says(403, "scope_missing");
}

async fn a_report_is_made_once_for_all_who_look(bench: Bench) {
    let fixture = DashboardFixture::open(bench).await;
    let mut browser = Browser::default();
    let first = fixture.get(&mut browser, "/ui/memory").await;
    first.says(200, "<dt>total writes</dt><dd>0</dd>");
    let body = json!({"payload_md": "lamps are green", "target_space": "private:ada"});
    fixture.bench.post("/memory/store", body).await.is(200);
    fixture.bench.advance(30);
    // A new one would be made beside the first look, and show at one of the next.
    for _ in 0..5 {
        let kept = fixture.get(&mut browser, "/ui/memory").await;
        kept.says(200, "<dt>total writes</dt><dd>0</dd>")
            .says(200, ">30 s ago<");
    }
}

async fn page(fixture: &Fixture, id: i64) -> PageAnswer {
    let path = format!("/ui/messages/{id}");
    fixture.get(&mut Browser::default(), &path).await
}

#[track_caller]
fn hides(page: &PageAnswer, words: &[&str]) {
    for word in words {
        assert!(!page.text.contains(word), "{word} shows in {}", page.text);
    }
}

async fn a_memory_that_was_deferred_twice_shows_it(bench: Bench) {
    let book = bench.app.clone();
    let mut row = None;
    for number in 1..=2 {
        let correlation = format!("corr-{number:016x}");
        let audit = NewAudit {
            actor_user_id: Some("ada".into()),
            target_space: "private:ada".into(),
            action: Action::Allow,
            reason: Some("policy:private".into()),
            payload_sha: None,
            evidence_refs_json: json!({}),
            correlation_id: Some(correlation.clone()),
            status: AuditStatus::Pending,
        };
        book.insert_audit(&audit).await.unwrap();
        let end = AuditEnd {
            status: AuditStatus::Redirected,
            action: Some(Action::Redirect),
            reason: Some("openmemory_write_failed:connection_error".into()),
            patch: json!({}),
        };
        let memory = NewMemory {
            target_space: "private:ada".into(),
            payload_md: "the lamps are green".into(),
            ..NewMemory::default()
        };
        let deferred = book.defer(&memory, &correlation, &end).await.unwrap();
        assert!(deferred.is_audited);
        let id = deferred.enqueued.outbox_id.0;
        assert_eq!(*row.get_or_insert(id), id, "the same text is one row");
    }
    let id = row.unwrap();
    let fixture = DashboardFixture::open(bench).await;
    let shown = page(&fixture, id).await;
    shown
        .says(200, "Deferred more than once")
        .says(200, "2 requests")
        .says(200, "href=\"/ui/messages?q=corr-0000000000000002\"");
    hides(&shown, &["lamps"]);
}

async fn a_memory_is_erased_on_its_page(bench: Bench) {
    let book = bench.app.clone();
    let memory = NewMemory {
        target_space: "private:ada".into(),
        payload_md: "the lamps are green".into(),
        ..NewMemory::default()
    };
    let id = book.enqueue_memory(&memory).await.unwrap().outbox_id;
    book.claim_outbox("w1", 1, std::time::Duration::from_secs(60))
        .await
        .unwrap();
    assert!(
        book.mark_dead_by_worker(id, "w1", "cannot take lamps")
            .await
            .unwrap()
    );
    let sent = NewMemory {
        payload_md: "the lamps are red".into(),
        ..memory.clone()
    };
    let sent = book.enqueue_memory(&sent).await.unwrap().outbox_id;
    book.claim_outbox("w1", 1, std::time::Duration::from_secs(60))
        .await
        .unwrap();
    assert!(book.ack_sent(sent, "w1", Some("mem-1")).await.unwrap());
    let fixture = DashboardFixture::open(bench).await;
    page(&fixture, id.0).await.says(200, "Reason to erase");
    let path = format!("/v1/messages/{id}/erase");
    let erased = fixture
        .bench
        .post(&path, json!({"reason": "request 12"}))
        .await;
    erased.is(200);
    let advice = "mem-1; memory_delete removes it there";
    page(&fixture, sent.0).await.says(200, advice);
    let shown = page(&fixture, id.0).await;
    shown
        .says(200, "request 12")
        .says(200, "data-erased")
        .says(200, "outbox_flush_dead");
    hides(&shown, &["lamps", "Reason to erase"]);
    let status = json!({"tool": "outbox_status", "arguments": {"outbox_id": id}});
    let status = fixture.bench.post("/mcp", status).await;
    status.is(200);
    let text = status.json.to_string();
    for part in [
        "\"erased_at\":\"",
        "\"payload_len\":null",
        &memory.payload_sha(),
        "private:ada",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(!text.contains("lamps"), "{text}");
    let audits = format!("/ui/audit?of=writes&message={id}");
    let audits = fixture.get(&mut Browser::default(), &audits).await;
    audits.says(200, "outbox_flush_dead");
}

#[tokio::test]
async fn the_outbox_of_memories_is_compared_with_its_audits() {
    let fixture = DashboardFixture::guarded(sqlite().await).await;
    let mut olga = fixture.login(OPERATOR).await;
    let page = fixture.get(&mut olga, "/ui/memory").await;
    page.says(200, "total writes").says(200, "outbox stats");
    assert!(!page.text.contains("http-equiv"), "it has a form");
    let preview = fixture.get(&mut olga, "/ui/memory/reconcile").await;
    preview
        .says(200, "No differences found.")
        .says(200, "Reconcile: preview");
    let done = fixture
        .send(
            &mut olga,
            &preview,
            "/ui/memory/reconcile",
            &[("reason", "after the outage")],
        )
        .await;
    done.says(200, "Reconciled")
        .says(200, "No differences found.");
    let mut anton = fixture.login(AUDITOR).await;
    fixture
        .get(&mut anton, "/ui/memory/reconcile")
        .await
        .says(403, "scope_missing");
    let none = DashboardFixture::open(off().await).await;
    let mut browser = Browser::default();
    none.get(&mut browser, "/ui/memory")
        .await
        .says(200, "The app memory is off on this server");
    none.get(&mut browser, "/ui/memory/reconcile")
        .await
        .says(404, "not_found");
}
