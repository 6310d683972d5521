//! Filters of lists: in the address, kept by every link of the page.

use serde_json::json;

use super::{Browser, DashboardFixture, PageAnswer};
use crate::bench::{Bench, on_stores};

on_stores!(
    a_list_is_filtered_by_what_the_address_has,
    filters_are_kept_from_page_to_page,
    a_key_is_found_by_its_beginning,
    dead_letters_are_filtered_like_other_messages,
);

fn ids(page: &PageAnswer) -> Vec<i64> {
    let rows = page.text.split("<tr data-row>").skip(1);
    let id = |row: &str| {
        let (_, rest) = row.split_once("href=\"/ui/messages/").unwrap();
        rest.split('"').next().unwrap().parse().unwrap()
    };
    rows.map(id).collect()
}

async fn enqueue(bench: &Bench, queue: &str, body: serde_json::Value) -> i64 {
    let path = format!("/v1/queues/{queue}/messages");
    bench.post(&path, body).await.json["id"].as_i64().unwrap()
}

async fn a_list_is_filtered_by_what_the_address_has(bench: Bench) {
    let dead = bench.bury("mail", "http_500").await;
    let one = json!({"payload": 1, "key": "invoice-1", "group": "ada"});
    let one = enqueue(&bench, "mail", one).await;
    bench.advance(7_200);
    let two = json!({"payload": 1, "key": "invoice-2", "group": "bob"});
    let two = enqueue(&bench, "default", two).await;
    let fixture = DashboardFixture::open(bench).await;
    let mut browser = Browser::default();
    for (query, expected) in [
        ("", vec![two, one, dead]),
        ("queue=mail", vec![one, dead]),
        ("queue=mail&state=ready", vec![one]),
        ("code=http_500", vec![dead]),
        ("key_prefix=invoice-", vec![two, one]),
        ("key_prefix=invoice-&queue=default", vec![two]),
        ("group=ada", vec![one]),
        ("since=1h", vec![two]),
        ("until=1h", vec![one, dead]),
        ("until=1h&q=invoice", vec![one]),
        ("destination=nowhere", vec![]),
        ("state=held&code=http_500", vec![]),
    ] {
        let page = fixture
            .get(&mut browser, &format!("/ui/messages?{query}"))
            .await;
        assert_eq!(ids(&page), expected, "{query}");
    }
    let page = fixture
        .get(&mut browser, "/ui/messages?group=ada&since=3h&state=ready")
        .await;
    page.says(200, "value=\"ada\"")
        .says(200, "value=\"3h\"")
        .says(200, "<details open>")
        .says(200, "href=\"/ui/messages?state=ready&#38;group=ada\"");
    fixture
        .get(&mut browser, "/ui/messages?since=yesterday")
        .await
        .says(400, "invalid_input");
}

async fn filters_are_kept_from_page_to_page(bench: Bench) {
    let grouped = json!({"queue": "mail", "payload": 1, "group": "g"});
    let other = json!({"queue": "mail", "payload": 1, "group": "h"});
    let mut messages = vec![grouped; 60];
    messages.extend(vec![other; 10]);
    let many = json!({"messages": messages});
    bench.post("/v1/messages", many).await.is(202);
    let fixture = DashboardFixture::open(bench).await;
    let mut browser = Browser::default();
    let start = "/ui/queues/mail?state=ready&group=g&since=1d";
    let page = fixture.get(&mut browser, start).await;
    assert_eq!(ids(&page).len(), 50);
    page.says(
        200,
        "href=\"/ui/queues/mail?state=dead&#38;group=g&#38;since=1d\"",
    );
    let (_, rest) = page
        .text
        .split_once("href=\"/ui/queues/mail?state=ready&#38;group=g&#38;since=1d&#38;before=")
        .unwrap();
    let before = rest.split('"').next().unwrap();
    let next = format!("{start}&before={before}");
    let page = fixture.get(&mut browser, &next).await;
    assert_eq!(ids(&page).len(), 10);
    let tab = "href=\"/ui/queues/mail?state=held&#38;group=g&#38;since=1d\"";
    page.says(200, tab);
}

async fn a_key_is_found_by_its_beginning(bench: Bench) {
    let keyed = json!({"payload": 1, "key": "invoice-1107"});
    let keyed = enqueue(&bench, "mail", keyed).await;
    let exact = json!({"payload": 1, "key": "invoice-11"});
    let exact = enqueue(&bench, "mail", exact).await;
    enqueue(&bench, "mail", json!({"payload": 1, "key": "invoice-2"})).await;
    let dead = bench.bury("default", "http_500").await;
    let fixture = DashboardFixture::open(bench).await;
    let mut browser = Browser::default();
    for (q, expected) in [
        ("invoice-11", vec![exact, keyed]),
        ("invoice-110", vec![keyed]),
        ("http_500", vec![dead]),
        ("http_5", vec![]),
    ] {
        for path in ["/ui/messages", "/ui/dead"] {
            let page = fixture.get(&mut browser, &format!("{path}?q={q}")).await;
            let expected: Vec<i64> = expected
                .iter()
                .copied()
                .filter(|id| path == "/ui/messages" || *id == dead)
                .collect();
            assert_eq!(ids(&page), expected, "{path} {q}");
        }
    }
}

async fn dead_letters_are_filtered_like_other_messages(bench: Bench) {
    let first = bench.bury("mail", "http_500").await;
    bench.advance(7_200);
    let second = bench.bury("mail", "http_500").await;
    bench.bury("default", "timeout").await;
    let fixture = DashboardFixture::open(bench).await;
    let mut browser = Browser::default();
    let page = fixture
        .get(&mut browser, "/ui/dead?queue=mail&since=1h")
        .await;
    assert_eq!(ids(&page), [second]);
    page.says(
        200,
        "A redrive of all that match goes by queue and code only",
    );
    let page = fixture
        .get(&mut browser, "/ui/dead?queue=mail&code=http_500")
        .await;
    assert_eq!(ids(&page), [second, first]);
    page.says(200, "action=\"/ui/dead/preview\"");
}
