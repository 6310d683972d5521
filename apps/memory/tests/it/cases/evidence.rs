//! Evidence: whose it is, and what of it is not kept.

use consign_memory::{
    Action, AttachmentFilter, AuditEnd, AuditFilter, AuditStatus, EventFilter, ItemFilter,
    NewAttachment, NewAudit, NewCandidate, NewEvidence,
};
use serde_json::{Value, json};

use super::Harness;
use super::{
    facts::{SHA, attachment, candidate, event, item, map},
    fixture::{MemoryFixture, audit},
};
use consign_conformance::stage::refused;

/// Credentials in a URI are not stored.
pub(crate) async fn facts_hold_no_credentials(harness: &dyn Harness) {
    let fixture = MemoryFixture::bare(harness);
    let (given, masked) = ("https://u:hunter2@h/x", "https://[REDACTED]@h/x");
    let mut new = item(given);
    new.scope_json = map(json!({"at": [given]}));
    let id = fixture.make(&new).await;
    let kept = fixture.book.item(id).await.expect("item answers");
    let kept = kept.expect("it is there");
    assert_eq!(kept.title, masked);
    assert_eq!(kept.scope_json, map(json!({"at": [masked]})));
    let mut told = event(id, json!({"deep": {"at": [given]}, given: true}));
    told.source = given.to_owned();
    fixture.tell(&told).await;
    let events = fixture.book.events(&EventFilter::default(), 1).await;
    let event = &events.expect("events answers")[0];
    assert_eq!(event.source, masked);
    let expected = map(json!({"deep": {"at": [masked]}, masked: true}));
    assert_eq!(event.payload_json, expected);
    let new = NewAttachment {
        uri: given.to_owned(),
        meta_json: map(json!({"from": given})),
        ..attachment(id)
    };
    let attached = fixture.attach(&new).await;
    let read = fixture.book.attachment(attached).await;
    let read = read.expect("attachment answers").expect("it is there");
    assert_eq!(read.uri, masked);
    assert_eq!(read.meta_json, map(json!({"from": masked})));
    let set = fixture.book.set_kv("links", "all", &json!([given])).await;
    set.expect("set_kv answers");
    let value = fixture.book.get_kv("links", "all").await;
    assert_eq!(value.expect("get_kv answers"), Some(json!([masked])));
    let new = NewCandidate {
        evidence_refs_json: json!({"external": [{"uri": given}]}),
        ..candidate("team:p", "title", "content")
    };
    let added = fixture.book.add_candidate(&new).await;
    let added = added.expect("add_candidate answers");
    let read = fixture.book.candidate(added).await.expect("an answer");
    let refs = read.expect("it is there").evidence_refs_json;
    assert_eq!(refs, json!({"external": [{"uri": masked}]}));
}

/// What belongs to an item belongs to its space.
pub(crate) async fn facts_are_in_the_space_of_their_item(harness: &dyn Harness) {
    let fixture = MemoryFixture::bare(harness);
    let space_of = async |scope: Value, project: Option<&str>, payload: Value| {
        let mut new = item("text");
        new.scope_json = map(scope);
        new.project_key = project.map(str::to_owned);
        let id = fixture.make(&new).await;
        fixture.tell(&event(id, payload)).await;
        let attached = fixture.attach(&attachment(id)).await;
        let item = fixture.book.item(id).await.expect("item answers");
        let events = fixture.book.events(&EventFilter::default(), 1).await;
        let attached = fixture.book.attachment(attached).await;
        let listed = AttachmentFilter {
            item_id: Some(id),
            ..AttachmentFilter::default()
        };
        let listed = fixture.book.attachments(&listed, 1).await;
        let attached = attached.expect("attachment answers").expect("attached");
        assert_eq!(listed.expect("attachments answers")[0], attached);
        (
            item.expect("made").space(),
            events.expect("events answers").remove(0).space,
            attached.space,
        )
    };
    let some = |space: &str| Some(space.to_owned());
    for (scope, project, payload, spaces) in [
        (json!({}), Some("p"), json!({}), ("team:p", "team:p")),
        (
            json!({"space": "private:ada"}),
            Some("p"),
            json!({}),
            ("private:ada", "private:ada"),
        ),
        (
            json!({"space": "private:ada"}),
            None,
            json!({"space": "team:q"}),
            ("private:ada", "team:q"),
        ),
        (
            json!({"space": 7}),
            Some("p"),
            json!({}),
            ("team:p", "team:p"),
        ),
    ] {
        let found = space_of(scope.clone(), project, payload).await;
        let (item, event) = (some(spaces.0), some(spaces.1));
        assert_eq!(found, (item.clone(), event, item), "{scope}");
    }
    assert_eq!(
        space_of(json!({}), None, json!({})).await,
        (None, None, None)
    );
    let nothing = fixture.book.item(1_000_000).await;
    assert_eq!(nothing.expect("item answers"), None);
}

/// The item, the attachment and the audit of evidence are there together or not at all.
pub(crate) async fn evidence_is_kept_with_its_audit(harness: &dyn Harness) {
    let fixture = MemoryFixture::bare(harness);
    let audit = NewAudit {
        actor_user_id: Some("ada".to_owned()),
        target_space: "private:ada".to_owned(),
        action: Action::Allow,
        reason: Some("evidence_upload:private_space".to_owned()),
        payload_sha: Some(SHA.to_owned()),
        evidence_refs_json: json!({"gateway_event": {"operation": "evidence_upload"}}),
        correlation_id: Some("corr-0123456789abcdef".to_owned()),
        status: AuditStatus::Success,
    };
    let new = NewEvidence {
        item: Some(item("evidence")),
        attachment: attachment(0),
        audit,
    };
    let kept = fixture.book.keep_evidence(&new).await;
    let kept = kept.expect("keep_evidence answers").expect("kept");
    let read = fixture.book.attachment(kept.attachment_id).await;
    let read = read.expect("attachment answers").expect("attached");
    assert_eq!(
        (read.item_id, read.uri),
        (kept.item_id, new.attachment.uri.clone())
    );
    let audits = async || {
        let audits = fixture.book.audits(&AuditFilter::default(), 10).await;
        audits.expect("audits answers")
    };
    let audit = audits().await.remove(0);
    assert_eq!(audit.target_space, "private:ada");
    let known = json!({"item_id": kept.item_id, "attachment_id": kept.attachment_id});
    for (name, number) in map(known) {
        assert_eq!(audit.evidence_refs_json[&name], number);
        assert_eq!(audit.evidence_refs_json["gateway_event"][&name], number);
    }
    let to_it = NewEvidence {
        item: None,
        attachment: attachment(kept.item_id),
        ..new.clone()
    };
    let again = fixture.book.keep_evidence(&to_it).await;
    assert_eq!(again.expect("keep_evidence answers"), Some(kept), "once");
    let nowhere = NewEvidence {
        attachment: attachment(kept.item_id + 1_000),
        ..to_it.clone()
    };
    let nothing = fixture.book.keep_evidence(&nowhere).await;
    assert_eq!(nothing.expect("keep_evidence answers"), None);
    let mut unhashed = new.clone();
    unhashed.attachment.sha256 = "abc".to_owned();
    refused(fixture.book.keep_evidence(&unhashed).await, "invalid_input");
    let mut nowhere = new;
    nowhere.audit.target_space = String::new();
    refused(fixture.book.keep_evidence(&nowhere).await, "invalid_input");
    assert_eq!(audits().await.len(), 2);
    assert_eq!(fixture.items(&ItemFilter::default()).await.len(), 1);
}

/// An audit is never changed: what it must not hold is masked before it is written.
pub(crate) async fn an_audit_holds_no_credentials(harness: &dyn Harness) {
    let fixture = MemoryFixture::bare(harness);
    let (given, masked) = ("https://u:hunter2@h/x", "https://[REDACTED]@h/x");
    let mut new = audit(1, "text", AuditStatus::Pending);
    new.reason = Some(format!("at {given}"));
    new.evidence_refs_json = json!({"refs": [given], "extra": {"a": 1}});
    fixture.write(&new).await;
    let end = AuditEnd {
        status: AuditStatus::Failed,
        action: None,
        reason: Some(format!("failed at {given}")),
        patch: json!({"extra": {"last_error": given}}),
    };
    assert!(fixture.finalize(1, &end).await);
    let read = fixture.audit_of(1).await;
    assert_eq!(read.reason, Some(format!("failed at {masked}")));
    let expected = json!({"refs": [masked], "extra": {"a": 1, "last_error": masked}});
    assert_eq!(read.evidence_refs_json, expected);
}
