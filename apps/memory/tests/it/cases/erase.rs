//! Erased memories: text, headers and error texts go; space, hash, outcome and who did it stay.

use consign_conformance::stage::{by, s};
use consign_kernel::{ErasureAnswer, ErasureTarget, MessageId, Outcome, Report, StateKind};
use consign_memory::{
    Audit, AuditEnd, AuditStatus, EnqueuedMemory, KnownMemory, NewMemory, Opening, OutboxRow,
    ReconcileOptions, message_key, payload_sha,
};
use serde_json::{Value, json};

use super::Harness;
use super::fixture::{MemoryFixture, at, audit, corr, memory, put_off};

pub(super) const HERE: &str = "openmemory:http://here.example";
pub(super) const THERE: &str = "openmemory:http://there.example";
/// What a backend answered, quoting the text.
const ERROR: &str = "api_error: 503 - cannot take \"Jane Doe likes tea\"";
/// Where audits have error texts.
const ERROR_TEXTS: [&str; 4] = [
    "/extra/last_error",
    "/extra/error_message",
    "/gateway_event/extra/last_error",
    "/gateway_event/extra/error_message",
];

/// A memory that a request brings, with everything that names a person.
fn of_request(n: u64, text: &str) -> NewMemory {
    NewMemory {
        backend: Some(HERE.to_owned()),
        item_id: Some(7),
        last_error: Some(ERROR.to_owned()),
        correlation_id: Some(corr(n)),
        actor_user_id: Some("alice".to_owned()),
        kind: Some("DECISION".to_owned()),
        meta_json: json!({"who": "Jane Doe"})
            .as_object()
            .cloned()
            .expect("an object"),
        evidence: vec![json!({"uri": "git://r/c/1", "sha256": ""})],
        ..memory(text)
    }
}

pub(super) fn meant_for(backend: &str, text: &str) -> NewMemory {
    NewMemory {
        backend: Some(backend.to_owned()),
        ..memory(text)
    }
}

/// A write whose audit names a backend.
pub(super) fn to(backend: &str, mut opening: Opening) -> Opening {
    opening.audit.evidence_refs_json["backend"] = json!(backend);
    opening
}

/// The end of a request, with an error text wherever audits have one.
fn with_errors(end: AuditEnd) -> AuditEnd {
    let texts = json!({"last_error": ERROR, "error_message": ERROR, "error_code": "api_error_503"});
    AuditEnd {
        patch: json!({"extra": texts, "gateway_event": {"extra": texts}}),
        ..end
    }
}

pub(super) fn failed() -> AuditEnd {
    AuditEnd {
        status: AuditStatus::Failed,
        action: None,
        reason: None,
        patch: json!({}),
    }
}

/// The same audit without error texts.
fn without_errors(mut audit: Audit) -> Audit {
    for pointer in ERROR_TEXTS {
        let (path, name) = pointer.rsplit_once('/').expect("a pointer");
        let parent = audit.evidence_refs_json.pointer_mut(path);
        if let Some(Value::Object(fields)) = parent {
            fields.remove(name);
        }
    }
    audit
}

impl MemoryFixture<'_> {
    async fn erase_by(&self, target: &ErasureTarget) -> Vec<(MessageId, ErasureAnswer)> {
        let erased = self.stage.store.erase(target, &by()).await;
        let erased = erased.expect("erase answers");
        erased.iter().map(|it| (it.id, it.answer)).collect()
    }

    pub(crate) async fn erase(&self, id: MessageId) -> ErasureAnswer {
        self.erase_by(&ErasureTarget::Ids(vec![id])).await[0].1
    }

    pub(super) async fn erased(&self, id: MessageId) {
        assert_eq!(self.erase(id).await, ErasureAnswer::Erased, "{id}");
    }

    /// Gives up what is claimed next.
    pub(super) async fn give_up_next(&self, id: MessageId) {
        assert_eq!(self.claim_ids("w1", 1).await, [id]);
        assert!(self.bury(id, "w1", ERROR).await);
    }

    /// Begins the `n`-th request and defers its memory, with an error text.
    pub(super) async fn defer_with_error(&self, n: u64, memory: &NewMemory) -> MessageId {
        self.begin(n, &memory.payload_md).await;
        let end = with_errors(put_off());
        let deferred = self.book.defer(memory, &corr(n), &end).await;
        let deferred = deferred.expect("defer answers");
        assert!(deferred.is_audited);
        deferred.enqueued.outbox_id
    }

    pub(super) async fn enqueue_again(&self, memory: &NewMemory) -> EnqueuedMemory {
        let enqueued = self.book.enqueue_memory(memory).await;
        enqueued.expect("enqueue_memory answers")
    }

    pub(super) async fn known_in(&self, text: &str, backend: Option<&str>) -> Option<KnownMemory> {
        let sha = payload_sha(text);
        let found = self.book.check_dedup("team:p", &sha, backend).await;
        found.expect("check_dedup answers")
    }

    /// Neither doctor nor two reconciliations find anything.
    pub(super) async fn is_sound(&self) {
        let findings = self.stage.store.doctor().await;
        assert_eq!(findings.expect("doctor answers"), []);
        let options = ReconcileOptions::default();
        for _ in 0..2 {
            let pass = self.book.reconcile_memory(&options).await;
            let pass = pass.expect("reconcile_memory answers");
            assert_eq!(pass.findings, []);
        }
    }
}

pub(crate) async fn an_erased_memory_shows_space_and_hash(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    let sent = fixture.defer_with_error(1, &of_request(1, "sent")).await;
    fixture.claim("w1", 1).await;
    assert!(fixture.ack(sent, "w1", Some("mem-1")).await);
    // Its space ends like a key, and it is its text's second row.
    let odd = NewMemory {
        target_space: format!("team:p#{}#2", payload_sha("dead")),
        ..meant_for(THERE, "dead")
    };
    let other = fixture.put(&meant_for(HERE, &odd.payload_md)).await;
    fixture.give_up_next(other).await;
    let first = fixture
        .put(&NewMemory {
            backend: Some(HERE.to_owned()),
            ..odd.clone()
        })
        .await;
    fixture.claim("w1", 1).await;
    assert!(fixture.ack(first, "w1", None).await);
    let dead = fixture.put(&odd).await;
    fixture.give_up_next(dead).await;
    let figures = fixture.book.memory_counts().await.expect("an answer");
    let counts = fixture.book.outbox_counts().await.expect("an answer");
    for (id, last_error) in [(sent, "memory_id=mem-1"), (dead, "dead")] {
        let before = fixture.row(id).await;
        assert_eq!(before.erased_at, None);
        let now = fixture.stage.now().await;
        fixture.erased(id).await;
        let expected = OutboxRow {
            payload_md: "[erased]".to_owned(),
            erased_at: Some(now),
            item_id: None,
            correlation_id: None,
            last_error: Some(last_error.to_owned()),
            ..before
        };
        assert_eq!(fixture.row(id).await, expected);
        assert_eq!(fixture.erase(id).await, ErasureAnswer::AlreadyErased);
        let listed = fixture.book.outbox_rows(None, 10).await;
        assert!(listed.expect("outbox_rows answers").contains(&expected));
        let status = fixture.book.outbox_rows(Some(expected.status), 10).await;
        assert!(status.expect("outbox_rows answers").contains(&expected));
    }
    assert_eq!(fixture.row(other).await.payload_md, "dead", "not erased");
    let after = fixture.book.memory_counts().await.expect("an answer");
    assert_eq!(after, figures, "the report's figures are the same");
    let after = fixture.book.outbox_counts().await.expect("an answer");
    assert_eq!(after, counts);
    fixture.is_sound().await;
}

pub(crate) async fn memories_are_erased_by_key_and_by_request(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    let keyed = fixture.put_text("keyed").await;
    fixture.claim("w1", 1).await;
    assert!(fixture.ack(keyed, "w1", Some("mem-1")).await);
    let key = ErasureTarget::Key {
        queue: consign_memory::queue(),
        key: message_key("team:p", &payload_sha("keyed")),
    };
    let answer = fixture.erase_by(&key).await;
    assert_eq!(answer, [(keyed, ErasureAnswer::Erased)]);
    assert_eq!(fixture.row(keyed).await.payload_md, "[erased]");

    let requested = fixture
        .defer_with_error(2, &of_request(2, "of a request"))
        .await;
    fixture.give_up_next(requested).await;
    let request = ErasureTarget::Correlation {
        id: corr(2),
        after: None,
    };
    let answer = fixture.erase_by(&request).await;
    assert_eq!(answer, [(requested, ErasureAnswer::Erased)]);
    assert_eq!(fixture.row(requested).await.payload_md, "[erased]");
    assert_eq!(fixture.erase_by(&request).await, [], "that is gone too");
    fixture.is_sound().await;
}

pub(crate) async fn a_memory_that_is_not_final_is_not_erased(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    let id = fixture.put_text("text").await;
    let state = StateKind::Ready;
    assert_eq!(fixture.erase(id).await, ErasureAnswer::NotFinal { state });
    fixture.claim("w1", 1).await;
    let state = StateKind::Leased;
    assert_eq!(fixture.erase(id).await, ErasureAnswer::NotFinal { state });
    let row = fixture.row(id).await;
    assert_eq!((row.payload_md.as_str(), row.erased_at), ("text", None));
    assert!(fixture.ack(id, "w1", Some("mem-1")).await);
    fixture.erased(id).await;
}

/// What a reconciliation compares, and what an audit that is pending is about.
pub(crate) async fn a_memory_that_something_refers_to_is_not_erased(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    let lost = fixture.deliver(&memory("lost"), Some("mem-1")).await;
    harness.lose_audits(lost).await;
    assert_eq!(fixture.erase(lost).await, ErasureAnswer::Needed);
    assert_eq!(fixture.row(lost).await.payload_md, "lost");
    let repair = ReconcileOptions::default();
    let pass = fixture.book.reconcile_memory(&repair).await;
    assert_eq!(pass.expect("reconcile_memory answers").findings.len(), 1);
    fixture.erased(lost).await;

    let row = fixture.deliver(&memory("row"), Some("mem-2")).await;
    let mut about = audit(1, "unrelated", AuditStatus::Pending);
    about.evidence_refs_json["outbox_id"] = json!(row);
    fixture.write(&about).await;
    let text = fixture.deliver(&memory("text"), Some("mem-3")).await;
    fixture.begin(2, "text").await;
    for (n, id) in [(1, row), (2, text)] {
        assert_eq!(fixture.erase(id).await, ErasureAnswer::Needed, "{n}");
        assert!(fixture.finalize(n, &failed()).await);
        fixture.erased(id).await;
    }
    fixture.is_sound().await;
}

/// Also those of requests about the text that have no row. Nothing else of them changes, nor of others.
pub(crate) async fn the_audits_of_an_erased_memory_lose_their_error_texts(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    fixture.begin(1, "text").await;
    assert!(fixture.finalize(1, &with_errors(failed())).await);
    let id = fixture.defer_with_error(2, &of_request(2, "text")).await;
    assert_eq!(
        fixture.defer_with_error(3, &of_request(3, "text")).await,
        id
    );
    fixture.claim("w1", 1).await;
    assert!(fixture.retry(id, "w1", ERROR, s(0)).await);
    fixture.give_up_next(id).await;
    let other = fixture.defer_with_error(4, &of_request(4, "other")).await;
    fixture.give_up_next(other).await;
    fixture.begin(5, "other").await;
    assert!(fixture.finalize(5, &with_errors(failed())).await);
    // The same text for another backend: a row of its own.
    let there = NewMemory {
        backend: Some(THERE.to_owned()),
        ..of_request(6, "text")
    };
    let there = fixture.defer_with_error(6, &there).await;
    assert_ne!(there, id);
    let all = async || fixture.audits(&Default::default()).await;
    let before = all().await;
    assert_eq!(before.len(), 9);
    fixture.erased(id).await;
    let expected: Vec<Audit> = before
        .into_iter()
        .map(|audit| {
            let is_about = |id: MessageId| audit.evidence_refs_json["outbox_id"] == json!(id);
            let is_others = is_about(other) || is_about(there);
            if is_others || audit.correlation_id == Some(corr(5)) {
                audit
            } else {
                without_errors(audit)
            }
        })
        .collect();
    let after = all().await;
    assert_eq!(after, expected);
    let of_message = fixture.audits_of(id).await;
    assert_eq!(of_message.len(), 4);
    for audit in of_message {
        let text = audit.evidence_refs_json.to_string();
        assert!(!text.contains("Jane"), "{text}");
    }
    assert_eq!(
        at(
            &fixture.audit_of(2).await.evidence_refs_json,
            "/extra/error_code"
        ),
        "api_error_503"
    );
    fixture.is_sound().await;
}

pub(crate) async fn a_late_result_about_an_erased_memory_is_audited(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    let id = fixture.put(&of_request_without_audit("text")).await;
    let lost = fixture.stage.claim(1).await;
    fixture.stage.advance(s(121)).await;
    let refused = fixture.stage.claim(1).await;
    fixture.stage.advance(s(121)).await;
    fixture.claim("w1", 1).await;
    assert!(fixture.ack(id, "w1", Some("mem-1")).await);
    fixture.erased(id).await;
    let reports = [
        (
            lost.token,
            Report {
                code: Some("stored".to_owned()),
                result: Some(json!({"memory_id": "mem-2", "text": "Jane Doe"})),
                ..Report::new(id, Outcome::Delivered)
            },
        ),
        (
            refused.token,
            Report {
                code: Some("api_error_503".to_owned()),
                detail: Some(ERROR.to_owned()),
                ..Report::new(id, Outcome::Retry)
            },
        ),
    ];
    for (token, report) in reports {
        let kept = fixture.stage.store.record_late(token, &[report]).await;
        assert_eq!(kept.expect("record_late answers"), [id]);
    }
    let audits = fixture.audits_of(id).await;
    assert_eq!(audits.len(), 3, "{audits:#?}");
    for (audit, memory_id, error) in [
        (&audits[1], json!("mem-2"), None),
        (&audits[2], Value::Null, Some("api_error_503")),
    ] {
        assert_eq!(audit.reason.as_deref(), Some("outbox_flush_conflict"));
        assert_eq!(audit.target_space, "team:p");
        assert_eq!(audit.payload_sha, Some(payload_sha("text")));
        let json = &audit.evidence_refs_json;
        assert_eq!(json["memory_id"], memory_id);
        assert_eq!(at(json, "/payload_sha"), &payload_sha("text"));
        assert_eq!(at(json, "/gateway_event/payload_sha"), &payload_sha("text"));
        assert_eq!(at(json, "/gateway_event/final_space"), "team:p");
        assert_eq!(at(json, "/backend"), HERE);
        assert_eq!(at(json, "/extra/observed_status"), "sent");
        assert_eq!(json["extra"]["last_error"].as_str(), error);
        assert!(!json.to_string().contains("Jane"), "{json:#}");
    }
    let late = fixture.stage.store.late(id).await.expect("late answers");
    let memory_ids: Vec<_> = late
        .iter()
        .map(|it| (it.detail.clone(), it.result.clone()))
        .collect();
    assert!(
        memory_ids.contains(&(None, Some(json!({"memory_id": "mem-2"})))),
        "{memory_ids:?}"
    );
    fixture.is_sound().await;
}

/// With what names a person, but not a request that would need an audit.
fn of_request_without_audit(text: &str) -> NewMemory {
    NewMemory {
        correlation_id: None,
        ..of_request(1, text)
    }
}

/// An audit that was lost after the erasure is written from what is left.
pub(crate) async fn the_audit_of_an_erased_memory_is_written_once(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    let sent = fixture.deliver(&memory("sent"), Some("mem-1")).await;
    let dead = fixture.put_text("dead").await;
    fixture.give_up_next(dead).await;
    for (id, text) in [(sent, "sent"), (dead, "dead")] {
        fixture.erased(id).await;
        harness.lose_audits(id).await;
        let repair = ReconcileOptions::default();
        let pass = fixture.book.reconcile_memory(&repair).await;
        assert_eq!(pass.expect("reconcile_memory answers").findings.len(), 1);
        let audits = fixture.audits_of(id).await;
        assert_eq!(audits.len(), 1);
        assert_eq!(audits[0].target_space, "team:p");
        assert_eq!(audits[0].payload_sha, Some(payload_sha(text)));
        let json = &audits[0].evidence_refs_json;
        assert!(!json.to_string().contains("Jane"), "{json:#}");
    }
    let known = KnownMemory {
        outbox_id: Some(sent),
        memory_id: Some("mem-1".to_owned()),
    };
    assert_eq!(fixture.known_in("sent", None).await, Some(known));
    fixture.is_sound().await;
}

/// The text was stored more than once, by the outbox and by a request.
pub(crate) async fn what_an_attempt_says_of_its_memory_stays(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    let id = fixture.put_text("text").await;
    let lease = fixture.stage.claim(1).await;
    let result = json!({
        "memory_id": "mem-1", "backend": HERE, "stored_again": true, "original_outbox_id": 3,
        "text": "Jane Doe",
    });
    let report = Report {
        code: Some("dedup_hit".to_owned()),
        detail: Some("Jane Doe".to_owned()),
        result: Some(result),
        ..Report::new(id, Outcome::Delivered)
    };
    consign_conformance::stage::settled(fixture.stage.settle(&lease, &[report]).await);
    let before = fixture.row(id).await;
    fixture.erased(id).await;
    let attempt = &fixture.stage.history(id).await[0];
    let left = json!({
        "memory_id": "mem-1", "backend": HERE, "stored_again": true, "original_outbox_id": 3,
    });
    assert_eq!(
        (&attempt.detail, attempt.result.as_ref()),
        (&None, Some(&left))
    );
    assert_eq!(attempt.code.as_deref(), Some("dedup_hit"));
    let after = fixture.row(id).await;
    assert_eq!(
        (after.memory_id, after.backend),
        (before.memory_id, before.backend)
    );
}

/// A rewound cursor stands where an audit once moved it from.
pub(crate) async fn an_erasure_moves_no_cursor(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    for (n, from, rewound) in [(1, 12, json!({"last_processed_id": 12})), (2, 0, json!({}))] {
        let key = format!("scm_consume:{n}");
        let set = async |value: &Value| {
            let set = fixture.book.set_kv("gateway.consume", &key, value).await;
            set.expect("set_kv answers");
        };
        set(&rewound).await;
        let text = format!("card {n}");
        let mut begun = audit(n, &text, AuditStatus::Pending);
        let to = from + 1;
        begun.evidence_refs_json["consume"] =
            json!({"repo_id": n, "field": "last_processed_id", "from": from, "to": to});
        fixture.write(&begun).await;
        let end = with_errors(put_off());
        let deferred = fixture.book.defer(&memory(&text), &corr(n), &end).await;
        let id = deferred.expect("defer answers").enqueued.outbox_id;
        let cursor = async || {
            let cursor = fixture.book.get_kv("gateway.consume", &key).await;
            cursor.expect("get_kv answers")
        };
        assert_eq!(cursor().await, Some(json!({"last_processed_id": to})));
        fixture.claim("w1", 1).await;
        assert!(fixture.ack(id, "w1", Some("mem-1")).await);
        set(&rewound).await;
        fixture.erased(id).await;
        assert_eq!(cursor().await, Some(rewound));
    }
}
