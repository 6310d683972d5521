//! Items, events, attachments, values, candidates.

use consign_memory::{
    Attachment, AttachmentFilter, Candidate, Event, EventFilter, Item, ItemFilter, NewAttachment,
    NewCandidate, NewEvent, NewItem, NewUser,
};
use serde_json::{Map, Value, json};

use super::Harness;
use super::fixture::MemoryFixture;
use consign_conformance::stage::{refused, s};

/// The hash of nothing.
pub(super) const SHA: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

pub(super) fn map(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => panic!("an object: {other}"),
    }
}

/// An item of project `p`.
pub(super) fn item(title: &str) -> NewItem {
    NewItem {
        item_type: "task".to_owned(),
        title: title.to_owned(),
        project_key: Some("p".to_owned()),
        scope_json: map(json!({"paths": ["a/b"]})),
        status: "open".to_owned(),
        owner_user_id: None,
    }
}

pub(super) fn event(item_id: i64, payload: Value) -> NewEvent {
    NewEvent {
        item_id,
        event_type: "note".to_owned(),
        status_from: None,
        status_to: None,
        payload_json: map(payload),
        actor_user_id: None,
        source: "tool".to_owned(),
    }
}

pub(super) fn attachment(item_id: i64) -> NewAttachment {
    NewAttachment {
        item_id,
        kind: "log".to_owned(),
        uri: "attachments/evidence/x.txt".to_owned(),
        sha256: SHA.to_owned(),
        size_bytes: Some(12),
        meta_json: map(json!({"title": "x"})),
    }
}

/// A candidate in a space, by the usual analysis.
pub(super) fn candidate(space: &str, title: &str, content_md: &str) -> NewCandidate {
    NewCandidate {
        source_type: "git".to_owned(),
        source_id: "1:abc".to_owned(),
        pipeline_version: "v1".to_owned(),
        space: space.to_owned(),
        kind: "PITFALL".to_owned(),
        title: title.to_owned(),
        content_md: content_md.to_owned(),
        confidence: "high".to_owned(),
        evidence_refs_json: json!({"external": [{"uri": "https://x"}]}),
        promote_suggested: true,
    }
}

impl MemoryFixture<'_> {
    pub(super) async fn make(&self, item: &NewItem) -> i64 {
        let made = self.book.create_item(item).await;
        made.expect("create_item answers")
    }

    pub(super) async fn tell(&self, event: &NewEvent) -> i64 {
        let added = self.book.add_event(event).await.expect("add_event answers");
        added.expect("the item exists")
    }

    pub(super) async fn attach(&self, attachment: &NewAttachment) -> i64 {
        let attached = self.book.attach(attachment).await.expect("attach answers");
        attached.expect("the item exists")
    }

    async fn know(&self, user_id: &str) {
        let user = NewUser {
            user_id: user_id.to_owned(),
            display_name: user_id.to_owned(),
        };
        let made = self.book.create_user(&user).await;
        made.expect("create_user answers");
    }

    pub(super) async fn items(&self, filter: &ItemFilter) -> Vec<Item> {
        let found = self.book.items(filter, 10).await;
        found.expect("items answers")
    }
}

pub(crate) async fn items_are_found_newest_first(harness: &dyn Harness) {
    let fixture = MemoryFixture::bare(harness);
    let text = |text: &str| Some(text.to_owned());
    let mut owned = item("owned");
    owned.owner_user_id = text("alice");
    refused(fixture.book.create_item(&owned).await, "invalid_input");
    fixture.know("alice").await;
    let first = fixture.make(&owned).await;
    let now = fixture.stage.now().await;
    fixture.stage.advance(s(1)).await;
    let mut bug = item("bug");
    bug.item_type = "bug".to_owned();
    let second = fixture.make(&bug).await;
    fixture.stage.advance(s(1)).await;
    let mut unsaid = item("unsaid");
    unsaid.status = String::new();
    let third = fixture.make(&unsaid).await;

    let filter = |item_type: Option<&str>, status: Option<&str>, owner: Option<&str>| ItemFilter {
        item_type: item_type.map(str::to_owned),
        status: status.map(str::to_owned),
        owner_user_id: owner.map(str::to_owned),
    };
    for (filter, expected) in [
        (filter(None, None, None), vec![third, second, first]),
        (filter(Some("bug"), None, None), vec![second]),
        (filter(None, None, Some("alice")), vec![first]),
        (filter(Some("task"), Some("open"), None), vec![third, first]),
        (filter(None, Some("done"), None), vec![]),
    ] {
        let found = fixture.items(&filter).await;
        let ids: Vec<i64> = found.iter().map(|item| item.item_id).collect();
        assert_eq!(ids, expected, "{filter:?}");
    }
    let one = fixture.book.items(&ItemFilter::default(), 1).await;
    assert_eq!(one.expect("items answers")[0].item_id, third, "the newest");
    let expected = Item {
        item_id: first,
        item_type: "task".to_owned(),
        title: "owned".to_owned(),
        project_key: text("p"),
        scope_json: owned.scope_json,
        status: "open".to_owned(),
        owner_user_id: text("alice"),
        created_at: now,
        updated_at: now,
    };
    assert_eq!(fixture.items(&ItemFilter::default()).await[2], expected);
    let (untitled, mut untyped) = (item(""), item("x"));
    untyped.item_type = String::new();
    for wrong in [untitled, untyped] {
        refused(fixture.book.create_item(&wrong).await, "invalid_input");
    }
}

/// With `status_to`, the item changes in the same transaction.
pub(crate) async fn an_event_changes_its_item(harness: &dyn Harness) {
    let fixture = MemoryFixture::bare(harness);
    let id = fixture.make(&item("text")).await;
    let made_at = fixture.stage.now().await;
    fixture.stage.advance(s(1)).await;
    fixture.tell(&event(id, json!({"note": "seen"}))).await;
    let unchanged = fixture.items(&ItemFilter::default()).await.remove(0);
    assert_eq!(
        (unchanged.status.as_str(), unchanged.updated_at),
        ("open", made_at)
    );
    let closing = NewEvent {
        event_type: "closed".to_owned(),
        status_from: Some("open".to_owned()),
        status_to: Some("done".to_owned()),
        ..event(id, json!({}))
    };
    let mut nobodys = closing.clone();
    nobodys.actor_user_id = Some("alice".to_owned());
    refused(fixture.book.add_event(&nobodys).await, "invalid_input");
    let still = fixture.items(&ItemFilter::default()).await.remove(0);
    assert_eq!(still, unchanged, "refused as a whole");
    let closed = fixture.tell(&closing).await;
    let now = fixture.stage.now().await;
    let changed = fixture.items(&ItemFilter::default()).await.remove(0);
    assert_eq!((changed.status.as_str(), changed.updated_at), ("done", now));
    let events = fixture.book.events(&EventFilter::default(), 10).await;
    let expected = Event {
        event_id: closed,
        item_id: id,
        event_type: "closed".to_owned(),
        status_from: Some("open".to_owned()),
        status_to: Some("done".to_owned()),
        payload_json: Map::new(),
        actor_user_id: None,
        source: "tool".to_owned(),
        created_at: now,
        space: Some("team:p".to_owned()),
    };
    assert_eq!(events.expect("events answers")[0], expected);

    let nowhere = event(id + 1_000, json!({}));
    let added = fixture.book.add_event(&nowhere).await;
    assert_eq!(added.expect("an answer"), None, "there is no such item");
}

pub(crate) async fn events_are_found_by_every_filter(harness: &dyn Harness) {
    let fixture = MemoryFixture::bare(harness);
    fixture.know("alice").await;
    let (one, other) = (
        fixture.make(&item("one")).await,
        fixture.make(&item("other")).await,
    );
    let first = fixture.tell(&event(one, json!({"n": 1}))).await;
    fixture.stage.advance(s(60)).await;
    let since = fixture.stage.now().await;
    let second = NewEvent {
        event_type: "review".to_owned(),
        actor_user_id: Some("alice".to_owned()),
        ..event(one, json!({"n": 2}))
    };
    let second = fixture.tell(&second).await;
    let third = fixture.tell(&event(other, json!({"n": 3}))).await;
    let none = EventFilter::default;
    for (name, filter, expected) in [
        ("all", none(), vec![third, second, first]),
        (
            "item",
            EventFilter {
                item_id: Some(one),
                ..none()
            },
            vec![second, first],
        ),
        (
            "type",
            EventFilter {
                event_type: Some("review".to_owned()),
                ..none()
            },
            vec![second],
        ),
        (
            "actor",
            EventFilter {
                actor_user_id: Some("alice".to_owned()),
                ..none()
            },
            vec![second],
        ),
        (
            "since",
            EventFilter {
                since: Some(since),
                ..none()
            },
            vec![third, second],
        ),
        (
            "both",
            EventFilter {
                since: Some(since),
                item_id: Some(other),
                ..none()
            },
            vec![third],
        ),
    ] {
        let found = fixture.book.events(&filter, 10).await;
        let found = found.expect("events answers");
        let ids: Vec<i64> = found.iter().map(|event| event.event_id).collect();
        assert_eq!(ids, expected, "{name}");
    }
}

/// Attaching again answers with the first; hashes are compared without case.
pub(crate) async fn the_same_is_attached_once(harness: &dyn Harness) {
    let fixture = MemoryFixture::bare(harness);
    let id = fixture.make(&item("text")).await;
    let new = attachment(id);
    let attached = fixture.attach(&new).await;
    let again = NewAttachment {
        sha256: SHA.to_uppercase(),
        uri: "elsewhere".to_owned(),
        ..new.clone()
    };
    assert_eq!(fixture.attach(&again).await, attached);
    let expected = Attachment {
        attachment_id: attached,
        item_id: id,
        kind: new.kind.clone(),
        uri: new.uri.clone(),
        sha256: SHA.to_owned(),
        size_bytes: Some(12),
        meta_json: new.meta_json.clone(),
        created_at: fixture.stage.now().await,
        space: Some("team:p".to_owned()),
    };
    let read = fixture.book.attachment(attached).await;
    assert_eq!(read.expect("attachment answers"), Some(expected));
    let other = NewAttachment {
        kind: "diff".to_owned(),
        ..new.clone()
    };
    fixture.stage.advance(s(1)).await;
    let other = fixture.attach(&other).await;
    assert_ne!(other, attached);
    let none = AttachmentFilter::default;
    for (filter, expected) in [
        (none(), vec![other, attached]),
        (
            AttachmentFilter {
                kind: Some("log".to_owned()),
                ..none()
            },
            vec![attached],
        ),
        (
            AttachmentFilter {
                uri: Some(new.uri.clone()),
                ..none()
            },
            vec![other, attached],
        ),
        (
            AttachmentFilter {
                uri: Some("elsewhere".to_owned()),
                ..none()
            },
            vec![],
        ),
        (
            AttachmentFilter {
                item_id: Some(id + 1_000),
                ..none()
            },
            vec![],
        ),
    ] {
        let found = fixture.book.attachments(&filter, 10).await;
        let found = found.expect("attachments answers");
        let ids: Vec<i64> = found.iter().map(|found| found.attachment_id).collect();
        assert_eq!(ids, expected, "{filter:?}");
    }
    let nowhere = fixture.book.attach(&attachment(id + 1_000)).await;
    assert_eq!(nowhere.expect("an answer"), None, "there is no such item");
    for sha in ["", "abc", &"g".repeat(64), &format!("{SHA}0")] {
        let wrong = NewAttachment {
            sha256: sha.to_owned(),
            ..new.clone()
        };
        refused(fixture.book.attach(&wrong).await, "invalid_input");
    }
    let nothing = fixture.book.attachment(attached + 1_000).await;
    assert_eq!(nothing.expect("attachment answers"), None);
}

pub(crate) async fn a_value_is_what_was_set_last(harness: &dyn Harness) {
    let fixture = MemoryFixture::bare(harness);
    let get = async |namespace: &str, key: &str| {
        let value = fixture.book.get_kv(namespace, key).await;
        value.expect("get_kv answers")
    };
    assert_eq!(get("scm.sync", "svn_cursor:1").await, None);
    for value in [
        json!({"last_rev": 1000}),
        json!([1, "two", null, {"x": 0.5}]),
        json!("text"),
        json!(7),
        json!(false),
    ] {
        let set = fixture
            .book
            .set_kv("scm.sync", "svn_cursor:1", &value)
            .await;
        set.expect("set_kv answers");
        assert_eq!(get("scm.sync", "svn_cursor:1").await, Some(value));
    }
    assert_eq!(get("scm.sync", "svn_cursor:2").await, None);
    assert_eq!(get("gateway.consume", "svn_cursor:1").await, None);
    let nowhere = fixture.book.set_kv("", "key", &json!(1)).await;
    refused(nowhere, "invalid_input");
}

/// Same source and version: same run.
pub(crate) async fn a_candidate_is_kept_with_its_run(harness: &dyn Harness) {
    let fixture = MemoryFixture::bare(harness);
    let add = async |new: &NewCandidate| {
        let id = fixture.book.add_candidate(new).await;
        let id = id.expect("add_candidate answers");
        let read = fixture.book.candidate(id).await;
        read.expect("candidate answers").expect("it is there")
    };
    let new = candidate("team:p", "title", "content");
    let first = add(&new).await;
    let expected = Candidate {
        candidate_id: first.candidate_id,
        run_id: first.run_id,
        space: "team:p".to_owned(),
        kind: "PITFALL".to_owned(),
        title: "title".to_owned(),
        content_md: "content".to_owned(),
        confidence: "high".to_owned(),
        evidence_refs_json: new.evidence_refs_json.clone(),
        promote_suggested: true,
        created_at: fixture.stage.now().await,
    };
    assert_eq!(first, expected);
    assert_eq!(add(&new).await.run_id, first.run_id);
    let newer = NewCandidate {
        pipeline_version: "v2".to_owned(),
        ..new.clone()
    };
    assert_ne!(add(&newer).await.run_id, first.run_id);
    let nobody = fixture.book.candidate(first.candidate_id + 1_000).await;
    assert_eq!(nobody.expect("candidate answers"), None);
    for wrong in [
        NewCandidate {
            kind: "GOSSIP".to_owned(),
            ..new.clone()
        },
        NewCandidate {
            confidence: "sure".to_owned(),
            ..new.clone()
        },
        NewCandidate {
            space: String::new(),
            ..new.clone()
        },
    ] {
        refused(fixture.book.add_candidate(&wrong).await, "invalid_input");
    }
}
