//! The audit: what people did, filtered, page by page, taken along.

use std::sync::Arc;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{Browser, DashboardFixture, on_databases};
use crate::{
    bench::Bench,
    faults::{Fault, FaultyStore},
};

on_databases!(
    actions_are_found_by_their_time,
    actions_are_found_by_who_did_them,
);

fn rows(text: &str) -> usize {
    text.matches("<tr data-row>").count()
}

async fn actions_are_found_by_who_did_them(bench: Bench) {
    let fixture = DashboardFixture::guarded(bench).await;
    let bearer = format!("Bearer {}", super::OPERATOR);
    let mut script = Browser::default().with("authorization", bearer);
    script.headers.push(("x-consign-actor", "ada".to_owned()));
    let reason = [("reason", "now")];
    fixture
        .post(&mut script, "/ui/queues/mail/pause", &reason)
        .await
        .leads_to("/ui/queues/mail?done=pause");
    // As in the other book: a name is a whole one.
    for (actor, is_there) in [
        ("olga", true),
        ("olga%2C%20ada%20%28unverified%29", true),
        ("olg", false),
        ("ada", false),
    ] {
        let path = format!("/ui/audit?action=pause&actor={actor}");
        let page = fixture.get(&mut script, &path).await;
        page.says(200, ">Operators<");
        assert_eq!(rows(&page.text) == 1, is_there, "{actor}");
    }
    let page = fixture.get(&mut script, "/ui/audit").await;
    for action in ["import", "purge"] {
        page.says(200, &format!("<option value=\"{action}\">"));
    }
}

async fn actions_are_found_by_their_time(bench: Bench) {
    let path = "/v1/queues/mail/pause";
    bench.post(path, json!({"reason": "now"})).await.is(200);
    let fixture = DashboardFixture::open(bench).await;
    let mut browser = Browser::default();
    for (filter, is_there) in [
        ("&since=2020-01-01T00:00&until=2120-01-01T00:00", true),
        ("&since=2120-01-01T00:00", false),
        ("&until=2020-01-01T00:00", false),
    ] {
        let path = format!("/ui/audit?action=pause{filter}");
        let page = fixture.get(&mut browser, &path).await;
        page.says(200, ">Operators<");
        assert_eq!(rows(&page.text) == 1, is_there, "{filter}");
    }
}

/// An export of so many entries that it takes several steps.
async fn long(bench: Bench) -> DashboardFixture {
    let messages: Vec<_> = (0..700)
        .map(|n| json!({"queue": "mail", "payload": n}))
        .collect();
    for _ in 0..3 {
        let body = json!({ "messages": messages });
        bench.post("/v1/messages", body).await.is(202);
    }
    let listed: Vec<i64> = (1..=2_100).collect();
    let by = consign_kernel::By::new("ada", "wait");
    for ids in listed.chunks(700) {
        let ids: Vec<_> = ids.iter().copied().map(consign_kernel::MessageId).collect();
        bench.store.hold(&ids, &by).await.unwrap();
    }
    DashboardFixture::open(bench).await
}

/// The lines of an export, and whether it is complete.
async fn export(
    fixture: &DashboardFixture,
    format: &str,
    between: impl AsyncFnOnce(),
) -> (String, bool) {
    let mut stream = fixture.server.connect().await;
    let ask = format!(
        "GET /ui/audit/export?format={format}&action=hold HTTP/1.1\r\nhost: localhost\r\n\
         connection: close\r\n\r\n"
    );
    stream.write_all(ask.as_bytes()).await.unwrap();
    between().await;
    let mut bytes = Vec::new();
    // A connection that breaks may be reset.
    let read = stream.read_to_end(&mut bytes).await;
    let is_whole = read.is_ok() && bytes.ends_with(b"0\r\n\r\n");
    (String::from_utf8_lossy(&bytes).into_owned(), is_whole)
}

#[tokio::test]
async fn an_export_that_is_whole_ends_as_such() {
    let fixture = long(Bench::reference().await).await;
    let (text, is_whole) = export(&fixture, "jsonl", async || {}).await;
    assert!(is_whole && !text.contains("cut_off"));
    assert_eq!(text.matches("\"action\":\"hold\"").count(), 2_100);
}

#[tokio::test]
async fn an_export_that_is_cut_off_ends_with_an_error() {
    for (format, words) in [("jsonl", "{\"before\":"), ("csv", "\"CUT OFF: ")] {
        // The first step is answered; the second waits, and then fails.
        let bench = Bench::reference().await;
        let faulty = FaultyStore::new(Arc::clone(&bench.store));
        let fixture = long(bench.with_store(Arc::clone(&faulty) as _)).await;
        let gate = Arc::new(tokio::sync::Semaphore::new(1));
        faulty.inject("audit", Fault::Waits(Arc::clone(&gate)));
        let fail = async || {
            let second = || async { faulty.calls("audit") == 2 };
            let soon = std::time::Duration::from_secs(20);
            consign_testkit::eventually("the second step", soon, second).await;
            faulty.inject("audit", Fault::ReplyLost);
            gate.add_permits(1);
        };
        let (text, is_whole) = export(&fixture, format, fail).await;
        assert!(!is_whole, "{format} ended as if it were whole");
        assert!(
            text.contains(words),
            "{format}: {}",
            &text[text.len() - 300..]
        );
        assert!(!text.contains("secret-host"), "{format}");
        // A server that ends cuts it off too.
        faulty.mend();
        fixture.bench.state.drain();
        let (text, is_whole) = export(&fixture, format, async || {}).await;
        assert!(
            !is_whole && text.contains("the server is ending"),
            "{format}"
        );
    }
}

#[tokio::test]
async fn two_exports_are_under_way_at_most() {
    let bench = Bench::reference().await;
    let faulty = FaultyStore::new(Arc::clone(&bench.store));
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let fixture = long(bench.with_store(Arc::clone(&faulty) as _)).await;
    faulty.inject("audit", Fault::Waits(Arc::clone(&gate)));
    let path = "/ui/audit/export?format=csv";
    let soon = std::time::Duration::from_secs(20);
    let third = async {
        let two = || async { faulty.calls("audit") == 2 };
        consign_testkit::eventually("two have begun", soon, two).await;
        let refused = fixture.get(&mut Browser::default(), path).await;
        gate.add_permits(100);
        refused
    };
    let (mut one, mut two) = (Browser::default(), Browser::default());
    let (one, two, third) = tokio::join!(
        fixture.get(&mut one, path),
        fixture.get(&mut two, path),
        third
    );
    assert_eq!((one.status, two.status), (200, 200));
    third.says(503, "overloaded");
    // A place is free again as soon as an export has ended.
    let again = fixture.get(&mut Browser::default(), path).await;
    assert_eq!(again.status, 200);
}
