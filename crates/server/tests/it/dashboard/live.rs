//! Live pages: their updates, their limits, and what they show during an outage.

use std::{sync::Arc, time::Duration};

use consign_testkit::eventually;
use jiff::Timestamp;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::Semaphore,
    time::timeout,
};

use super::{Browser, DashboardFixture, OPERATOR};
use crate::{
    bench::Bench,
    faults::{Fault, FaultyStore},
};

const PATIENCE: Duration = Duration::from_secs(30);

/// A page that is kept up to date.
struct Viewer {
    stream: TcpStream,
    seen: String,
}

impl Viewer {
    async fn look(fixture: &DashboardFixture, browser: &Browser, topic: &str) -> Self {
        let cookies = browser.cookies.iter();
        let cookies: Vec<String> = cookies.map(|(n, v)| format!("{n}={v}")).collect();
        let mut stream = fixture.server.connect().await;
        let ask = format!(
            "GET /ui/events?topic={topic} HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\
             cookie: {}\r\n\r\n",
            cookies.join("; ")
        );
        stream.write_all(ask.as_bytes()).await.unwrap();
        let mut viewer = Self {
            stream,
            seen: String::new(),
        };
        viewer.until("\r\n\r\n").await;
        viewer
    }

    fn status(&self) -> &str {
        self.seen.split(' ').nth(1).unwrap()
    }

    /// Reads on until nothing comes any more.
    async fn until_end(&mut self) {
        let mut buffer = [0; 4_096];
        loop {
            let read = timeout(PATIENCE, self.stream.read(&mut buffer));
            let read = read.await.expect("it ends in time").unwrap();
            let said = String::from_utf8_lossy(&buffer[..read]);
            // The last chunk of an answer whose connection stays open.
            if read == 0 || said.ends_with("0\r\n\r\n") {
                return;
            }
        }
    }

    /// Reads on until it has come, and forgets what was before.
    async fn until(&mut self, words: &str) {
        let mut buffer = [0; 4_096];
        while !self.seen.contains(words) {
            let read = timeout(PATIENCE, self.stream.read(&mut buffer));
            let read = read.await.expect("it comes in time").unwrap();
            assert_ne!(read, 0, "it ended without {words:?}: {}", self.seen);
            self.seen
                .push_str(&String::from_utf8_lossy(&buffer[..read]));
        }
    }
}

#[tokio::test]
async fn what_is_not_there_is_not_watched() {
    let bench = Bench::reference().await;
    let store = FaultyStore::new(bench.store.clone());
    let fixture = DashboardFixture::open(bench.with_store(store.clone())).await;
    let mut browser = Browser::default().with("accept", "text/event-stream");
    for topic in [
        "message:99",
        "redrive:99",
        "queue:ghost",
        "queue:ghost:dead",
    ] {
        let refused = fixture
            .get(&mut browser, &format!("/ui/events?topic={topic}"))
            .await;
        assert_eq!(refused.status, 404, "{topic}: {}", refused.text);
    }
    let asked = (store.calls("explain"), store.calls("queues"));
    // The viewer of an existing page gets several updates; meanwhile the others get none.
    let mut viewer = Viewer::look(&fixture, &browser, "processes").await;
    viewer.until("event: live").await;
    let looks = store.calls("leases");
    eventually("two more looks", PATIENCE, async || {
        store.calls("leases") >= looks + 2
    })
    .await;
    assert_eq!((store.calls("explain"), store.calls("queues")), asked);
}

#[tokio::test]
async fn live_views_show_since_when_they_are_stale() {
    let bench = Bench::reference().await;
    let store = FaultyStore::new(bench.store.clone());
    let fixture = DashboardFixture::open(bench.with_store(store.clone())).await;
    let browser = Browser::default();
    let mut viewer = Viewer::look(&fixture, &browser, "queue:mail").await;
    assert_eq!(viewer.status(), "200");
    viewer.until("No messages here.").await;
    assert!(!viewer.seen.contains("event: stale"), "{}", viewer.seen);

    let before = Timestamp::now().as_second();
    store.inject("queues", Fault::Refused);
    store.inject("queue_counts", Fault::Refused);
    viewer.until("event: stale\ndata: ").await;
    viewer.until("Z\n\n").await;
    let (_, since) = viewer.seen.split_once("event: stale\ndata: ").unwrap();
    let since: Timestamp = since.split('\n').next().unwrap().parse().unwrap();
    let now = Timestamp::now().as_second();
    assert!((before..=now).contains(&since.as_second()), "{since}");
    assert!(!viewer.seen.contains("secret-host"), "{}", viewer.seen);
    // A new viewer gets the same, not an error.
    let mut other = Viewer::look(&fixture, &browser, "queue:mail").await;
    other.until("event: stale").await;
    let mut first = Viewer::look(&fixture, &browser, "overview:hour").await;
    first.until("event: stale").await;
    assert!(!first.seen.contains("event: live"), "{}", first.seen);

    viewer.seen.clear();
    store.mend();
    viewer.until("event: live").await;
    first.until("event: live").await;
    fixture.bench.enqueue("mail", json!(1)).await;
    viewer.until("data-row").await;
}

#[tokio::test]
async fn a_look_that_hangs_or_panics_is_not_for_ever() {
    let bench = Bench::reference().await;
    let store = FaultyStore::new(bench.store.clone());
    let fixture = DashboardFixture::open(bench.with_store(store.clone())).await;
    let browser = Browser::default();
    let mut viewer = Viewer::look(&fixture, &browser, "processes").await;
    viewer.until("event: live").await;
    store.inject("leases", Fault::Waits(Arc::new(Semaphore::new(0))));
    viewer.until("event: stale").await;
    viewer.seen.clear();
    store.mend();
    viewer.until("event: live").await;
    // The stream ends, and the next viewer starts another.
    store.inject("leases", Fault::Panics);
    viewer.until_end().await;
    store.mend();
    let looks = store.calls("leases");
    let mut again = Viewer::look(&fixture, &browser, "processes").await;
    again.until("event: live").await;
    eventually("it is looked again", PATIENCE, async || {
        store.calls("leases") >= looks + 3
    })
    .await;
}

#[tokio::test]
async fn one_session_cannot_take_all_live_views() {
    let fixture = DashboardFixture::guarded(Bench::reference().await).await;
    let (olga, anton) = (
        fixture.login(OPERATOR).await,
        fixture.login(super::AUDITOR).await,
    );
    let mut views = Vec::new();
    for _ in 0..64 {
        let view = Viewer::look(&fixture, &olga, "processes").await;
        assert_eq!(view.status(), "200", "{}", view.seen);
        views.push(view);
    }
    let refused = Viewer::look(&fixture, &olga, "processes").await;
    assert_eq!(refused.status(), "503", "{}", refused.seen);
    let other = Viewer::look(&fixture, &anton, "processes").await;
    assert_eq!(other.status(), "200", "{}", other.seen);
    // A viewer that leaves frees its slot.
    views.pop();
    eventually("a place", PATIENCE, async || {
        Viewer::look(&fixture, &olga, "processes").await.status() == "200"
    })
    .await;
}
