//! The write audits and their states.

use consign_memory::{Action, Audit, AuditEnd, AuditFilter, AuditStatus, NewAudit};
use serde_json::json;

use super::Harness;
use super::fixture::{MemoryFixture, audit, corr, stored};
use consign_conformance::stage::{refused, s};

pub(crate) async fn an_audit_is_read_back_as_written(harness: &dyn Harness) {
    let fixture = MemoryFixture::bare(harness);
    let now = fixture.stage.now().await;
    let new = audit(1, "text", AuditStatus::Success);
    let audit_id = fixture.write(&new).await;
    let expected = Audit {
        audit_id,
        created_at: now,
        updated_at: None,
        actor_user_id: new.actor_user_id,
        target_space: new.target_space,
        action: new.action,
        reason: new.reason,
        payload_sha: new.payload_sha,
        evidence_refs_json: new.evidence_refs_json,
        correlation_id: new.correlation_id,
        status: new.status,
    };
    assert_eq!(fixture.audit_of(1).await, expected);
}

/// Pending ends once, what has ended stays.
pub(crate) async fn a_pending_audit_ends_once(harness: &dyn Harness) {
    let fixture = MemoryFixture::bare(harness);
    for (n, status) in [
        (1, AuditStatus::Success),
        (2, AuditStatus::Failed),
        (3, AuditStatus::Redirected),
    ] {
        fixture.begin(n, "text").await;
        fixture.stage.advance(s(1)).await;
        let end = AuditEnd {
            status,
            ..stored("mem-1")
        };
        assert!(fixture.finalize(n, &end).await, "{status:?}");
        let ended = fixture.audit_of(n).await;
        assert_eq!(ended.status, status);
        assert_eq!(ended.updated_at, Some(fixture.stage.now().await));
        fixture.stage.advance(s(1)).await;
        for again in [
            AuditStatus::Success,
            AuditStatus::Failed,
            AuditStatus::Redirected,
        ] {
            let end = AuditEnd {
                status: again,
                reason: Some("other".to_owned()),
                ..stored("mem-2")
            };
            assert!(!fixture.finalize(n, &end).await, "{status:?} is final");
        }
        assert_eq!(fixture.audit_of(n).await, ended, "byte by byte");
    }
    assert!(
        !fixture.finalize(9, &stored("mem-1")).await,
        "an unknown request"
    );
    fixture.begin(4, "text").await;
    for (field, end) in [
        (
            "status",
            AuditEnd {
                status: AuditStatus::Pending,
                ..stored("mem-1")
            },
        ),
        (
            "patch",
            AuditEnd {
                patch: json!(["no object"]),
                ..stored("mem-1")
            },
        ),
    ] {
        let error = fixture.book.finalize_audit(&corr(4), &end).await;
        let error = refused(error, "invalid_input");
        assert!(error.to_string().contains(field), "{error}");
    }
    let empty = fixture.book.finalize_audit("", &stored("mem-1")).await;
    refused(empty, "invalid_input");
    assert_eq!(fixture.audit_of(4).await.status, AuditStatus::Pending);
}

pub(crate) async fn a_request_has_one_pending_audit(harness: &dyn Harness) {
    let fixture = MemoryFixture::bare(harness);
    fixture.begin(1, "text").await;
    let again = audit(1, "text", AuditStatus::Pending);
    refused(fixture.book.insert_audit(&again).await, "invalid_input");
    let nameless = NewAudit {
        correlation_id: None,
        ..audit(2, "text", AuditStatus::Pending)
    };
    refused(fixture.book.insert_audit(&nameless).await, "invalid_input");
    assert!(fixture.finalize(1, &stored("mem-1")).await);
    assert_eq!(fixture.audits(&AuditFilter::default()).await.len(), 1);
}

/// Action and reason too; the JSON key by key, `extra` and `gateway_event` a level deeper.
pub(crate) async fn the_end_of_an_audit_is_laid_over_it(harness: &dyn Harness) {
    let fixture = MemoryFixture::bare(harness);
    fixture.begin(1, "text").await;
    let end = AuditEnd {
        status: AuditStatus::Failed,
        action: Some(Action::Reject),
        reason: Some("policy:policy_passed:client_error:400".to_owned()),
        patch: json!({
            "status_code": 400,
            "source": "elsewhere",
            "extra": {"error_type": "api_error"},
            "gateway_event": {"decision": {"action": "reject"}, "memory_id": null},
        }),
    };
    assert!(fixture.finalize(1, &end).await);
    let ended = fixture.audit_of(1).await;
    assert_eq!((ended.action, ended.reason), (Action::Reject, end.reason));
    let expected = json!({
        "gateway_event": {
            "schema_version": "2.0", "source": "gateway", "operation": "memory_store",
            "correlation_id": corr(1),
            "decision": {"action": "reject"},
            "memory_id": null,
        },
        "source": "elsewhere",
        "correlation_id": corr(1),
        "status_code": 400,
        "extra": {"correlation_id": corr(1), "error_type": "api_error"},
    });
    assert_eq!(ended.evidence_refs_json, expected);

    fixture.begin(2, "text").await;
    assert!(fixture.finalize(2, &stored("mem-1")).await);
    let ended = fixture.audit_of(2).await;
    let kept = audit(2, "text", AuditStatus::Success);
    assert_eq!((ended.action, ended.reason), (kept.action, kept.reason));
}

/// All filters at once; the prefix means itself.
pub(crate) async fn audits_are_found_by_every_filter(harness: &dyn Harness) {
    let fixture = MemoryFixture::new(harness).await;
    let row = fixture.put_text("text").await.0;
    let first = NewAudit {
        reason: Some("a_b%:x".to_owned()),
        evidence_refs_json: json!({"outbox_id": row}),
        ..audit(1, "one", AuditStatus::Success)
    };
    let second = NewAudit {
        actor_user_id: None,
        target_space: "private:bob".to_owned(),
        action: Action::Reject,
        reason: Some("axbyy:x".to_owned()),
        evidence_refs_json: json!({"outbox_id": "nine"}),
        ..audit(2, "two", AuditStatus::Failed)
    };
    let one = fixture.write(&first).await;
    fixture.stage.advance(s(60)).await;
    let since = fixture.stage.now().await;
    let two = fixture.write(&second).await;
    let text = |text: &str| Some(text.to_owned());
    type Set<'a> = &'a (dyn Fn(&mut AuditFilter) + Send + Sync);
    let table: [(Set<'_>, &[i64]); 18] = [
        (&|_| {}, &[two, one]),
        (&|f| f.since = Some(since), &[two]),
        (&|f| f.actor_user_id = text("alice"), &[one]),
        (&|f| f.action = Some(Action::Reject), &[two]),
        (&|f| f.target_space = text("private:bob"), &[two]),
        (&|f| f.reason_prefix = text("a_b%"), &[one]),
        (&|f| f.correlation_id = Some(corr(2)), &[two]),
        (&|f| f.status = Some(AuditStatus::Failed), &[two]),
        (&|f| f.outbox_id = Some(row), &[one]),
        (&|f| f.outbox_id = Some(row + 9), &[]),
        (&|f| f.until = Some(since), &[one]),
        (&|f| f.before = Some(two), &[one]),
        (&|f| f.after = Some(one), &[two]),
        (&|f| (f.before, f.after) = (Some(two), Some(one)), &[]),
        (&|f| (f.outbox_id, f.before) = (Some(row), Some(one)), &[]),
        (
            &|f| (f.correlation_id, f.after) = (Some(corr(2)), Some(two)),
            &[],
        ),
        (
            &|f| (f.correlation_id, f.until) = (Some(corr(2)), Some(since)),
            &[],
        ),
        (
            &|f| (f.since, f.actor_user_id) = (Some(since), text("alice")),
            &[],
        ),
    ];
    for (set, expected) in table {
        let mut filter = AuditFilter::default();
        set(&mut filter);
        let found = fixture.audits(&filter).await;
        let ids: Vec<i64> = found.iter().map(|audit| audit.audit_id).collect();
        assert_eq!(ids, expected, "{filter:?}");
    }
    let newest = fixture.book.audits(&AuditFilter::default(), 1).await;
    let newest = newest.expect("audits answers");
    assert_eq!(newest[0].audit_id, two);
}

/// A rejection must not create the rejected user.
pub(crate) async fn audits_make_no_users(harness: &dyn Harness) {
    let fixture = MemoryFixture::bare(harness);
    fixture.write(&audit(1, "text", AuditStatus::Failed)).await;
    assert!(!fixture.book.user_exists("alice").await.expect("an answer"));
    let user = consign_memory::NewUser {
        user_id: "alice".to_owned(),
        display_name: "Alice".to_owned(),
    };
    for _ in 0..2 {
        fixture
            .book
            .create_user(&user)
            .await
            .expect("create_user answers");
        assert!(fixture.book.user_exists("alice").await.expect("an answer"));
    }
}
