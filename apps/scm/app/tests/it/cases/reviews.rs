//! Merge requests and their reviews.

use consign_scm::{BatchResult, NewMergeRequest, NewReview, Provider, Records, Stream};
use serde_json::{Value, json};

use super::Harness;
use super::fixture::{ScmFixture, at, mark, refused};

async fn project(harness: &dyn Harness) -> ScmFixture<'_> {
    ScmFixture::of(harness, Provider::Gitlab, Stream::GitlabMr).await
}

/// A merge request at a second; 0: without a time.
fn request(iid: i64, title: &str, second: i64) -> NewMergeRequest {
    NewMergeRequest {
        iid,
        status: "opened".to_owned(),
        url: Some(format!("https://example.com/r/-/merge_requests/{iid}")),
        meta_json: json!({"title": title, "author": "ada"}),
        created_at: Some(at(1_700_000_000)),
        updated_at: (second > 0).then(|| at(1_700_000_000 + second)),
    }
}

fn review(iid: i64, name: &str) -> NewReview {
    NewReview {
        iid,
        source_event_id: name.to_owned(),
        event_type: "comment".to_owned(),
        payload_json: json!({"body": "no"}),
        ts: Some(at(1_700_000_000)),
    }
}

/// The titles of all merge requests.
async fn titles(fixture: &ScmFixture<'_>) -> Vec<String> {
    let facts = fixture.harness.facts().await;
    let requests = facts.iter().filter(|fact| fact["source_type"] == "mr");
    let title = |fact: &Value| fact["meta_json"]["title"].as_str().map(ToOwned::to_owned);
    requests.filter_map(title).collect()
}

pub(crate) async fn a_merge_request_takes_over_what_is_newer(harness: &dyn Harness) {
    let fixture = project(harness).await;
    let put = async |requests: Vec<NewMergeRequest>| {
        fixture.record("x", Records::MergeRequests(requests)).await
    };
    let recorded = put(vec![request(1, "first", 10), request(2, "other", 0)]).await;
    let expected = BatchResult {
        written: 2,
        known: 0,
    };
    assert_eq!(recorded, expected);
    assert_eq!(titles(&fixture).await, ["first", "other"]);
    let fact = harness.facts().await.remove(0);
    assert_eq!(fact["source_id"], format!("mr:{}:1", fixture.id()));
    assert_eq!(fact["author_raw"], "ada");

    for (name, requests, expected) in [
        ("newer", vec![request(1, "second", 20)], ["second", "other"]),
        ("older", vec![request(1, "first", 10)], ["second", "other"]),
        ("as old", vec![request(1, "third", 20)], ["third", "other"]),
        ("no time", vec![request(1, "fourth", 0)], ["third", "other"]),
        ("a time", vec![request(2, "late", 5)], ["third", "late"]),
        (
            "twice",
            vec![
                request(1, "b", 31),
                request(2, "c", 40),
                request(1, "a", 30),
            ],
            ["b", "c"],
        ),
    ] {
        let count = requests.len() as u64;
        let recorded = put(requests).await;
        assert_eq!((recorded.written, recorded.known), (0, count), "{name}");
        assert_eq!(titles(&fixture).await, expected, "{name}");
    }
    let recorded = put(vec![request(3, "d", 1), request(3, "e", 2)]).await;
    assert_eq!((recorded.written, recorded.known), (1, 1));
    assert_eq!(titles(&fixture).await, ["b", "c", "e"]);

    for wrong in [
        NewMergeRequest {
            status: String::new(),
            ..request(4, "x", 1)
        },
        request(-4, "x", 1),
        NewMergeRequest {
            meta_json: json!("x"),
            ..request(4, "x", 1)
        },
    ] {
        let records = Records::MergeRequests(vec![request(5, "y", 1), wrong]);
        let batch = fixture.batch("refused", records).await;
        refused(fixture.ledger.record(&batch).await, "SCM_RECORD_REFUSED");
        assert_eq!(titles(&fixture).await.len(), 3, "nothing written");
        assert_eq!(fixture.watermark().await, Some(mark("x")));
    }
}

pub(crate) async fn a_review_is_written_once(harness: &dyn Harness) {
    let fixture = project(harness).await;
    let requests = vec![request(1, "one", 1), request(2, "two", 1)];
    fixture.record("x", Records::MergeRequests(requests)).await;
    let put = async |reviews: Vec<NewReview>| {
        let recorded = fixture.record("x", Records::Reviews(reviews)).await;
        (recorded.written, recorded.known)
    };
    assert_eq!(
        put(vec![review(1, "note-1"), review(2, "note-1")]).await,
        (2, 0)
    );
    assert_eq!(
        put(vec![review(1, "note-1"), review(1, "note-2")]).await,
        (1, 1)
    );
    assert_eq!(
        put(vec![review(2, "note-3"), review(2, "note-3")]).await,
        (1, 1)
    );
}

pub(crate) async fn a_review_of_nothing_is_refused(harness: &dyn Harness) {
    let fixture = project(harness).await;
    let other = fixture.beside("https://example.com/other").await;
    for project in [&fixture, &other] {
        let iid = if project.id() == fixture.id() { 1 } else { 2 };
        let requests = Records::MergeRequests(vec![request(iid, "one", 1)]);
        project.record("x", requests).await;
    }
    let unnamed = review(1, "");
    let untyped = NewReview {
        event_type: String::new(),
        ..review(1, "b")
    };
    for wrong in [
        review(2, "b"),
        review(1, &"x".repeat(257)),
        unnamed,
        untyped,
    ] {
        let records = Records::Reviews(vec![review(1, "a"), wrong]);
        let batch = fixture.batch("y", records).await;
        refused(fixture.ledger.record(&batch).await, "SCM_RECORD_REFUSED");
        assert_eq!(fixture.watermark().await, Some(mark("x")));
    }
    let recorded = fixture
        .record("y", Records::Reviews(vec![review(1, "a")]))
        .await;
    assert_eq!(recorded.written, 1, "nothing was written before");
}
