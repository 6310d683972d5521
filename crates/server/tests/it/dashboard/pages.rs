//! What the pages show, and that they lead on.

use std::{sync::Arc, time::Duration};

use consign_kernel::{By, Heartbeat, OutcomeCounts, QueuePolicy, QueueStats};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{Browser, DashboardFixture, OPERATOR};
use crate::bench::{Bench, name, on_stores};

on_stores!(
    the_overview_shows_what_needs_an_operator,
    long_lists_go_on_page_by_page,
    messages_are_found_by_id_key_and_code,
    a_search_finds_whatever_a_word_means_in_one_state_or_in_all,
    a_queue_shows_its_messages_by_state,
    leases_show_who_holds_what_until_when,
    history_shows_what_is_kept_and_what_keeps_it,
    the_audit_is_filtered_and_taken_along,
    a_live_page_gets_changes,
    waiting_messages_lead_to_the_first,
    what_was_done_lately_is_drawn,
);

async fn the_overview_shows_what_needs_an_operator(bench: Bench) {
    let fixture = DashboardFixture::open(bench).await;
    let mut browser = Browser::default();
    let page = fixture.get(&mut browser, "/").await;
    page.says(200, "nothing needs attention")
        .says(200, "href=\"/ui/queues/mail\"");
    let id = fixture.bench.enqueue("mail", json!(1)).await;
    let held = fixture
        .bench
        .post(&format!("/v1/messages/{id}/hold"), json!({"reason": "x"}))
        .await;
    assert_eq!(held.status, 200);
    fixture.bench.bury("default", "no_use").await;
    fixture.bench.enqueue("default", json!(1)).await;
    fixture.bench.advance(600);
    let page = fixture.get(&mut browser, "/").await;
    page.says(200, "1 message held: resolve or unhold")
        .says(200, "1 message dead with no_use")
        .says(200, "no process works the queue; 1 message due");
    assert!(!page.text.contains("nothing needs attention"));
    // Readable without JavaScript: up to date by itself, and nothing that only a script does.
    page.says(
        200,
        "<noscript><meta http-equiv=\"refresh\" content=\"10\"></noscript>",
    );
}

async fn long_lists_go_on_page_by_page(bench: Bench) {
    let messages: Vec<_> = (0..130)
        .map(|n| json!({"queue": "mail", "payload": n}))
        .collect();
    let answer = bench
        .post("/v1/messages", json!({"messages": messages}))
        .await;
    assert_eq!(answer.status, 202, "{}", answer.text);
    let fixture = DashboardFixture::open(bench).await;
    let mut browser = Browser::default();
    for start in [
        "/ui/messages",
        "/ui/queues/mail",
        "/ui/queues/mail?state=ready",
        "/ui/messages?state=ready",
    ] {
        let (mut path, mut rows) = (start.to_owned(), Vec::new());
        loop {
            let page = fixture.get(&mut browser, &path).await;
            page.says(200, "data-row");
            rows.push(page.text.matches("<tr data-row>").count());
            let Some((_, rest)) = page.text.split_once("rel=\"next\" href=\"") else {
                break;
            };
            path = super::unescaped(rest.split('"').next().unwrap());
        }
        assert_eq!(rows, [50, 50, 30], "{start}");
    }
}

async fn messages_are_found_by_id_key_and_code(bench: Bench) {
    let body = json!({"payload": 1, "key": "invoice 7/ä"});
    let keyed = bench.post("/v1/queues/mail/messages", body).await.json["id"]
        .as_i64()
        .unwrap();
    // A ready message comes first in a claim.
    let coded = bench.bury("default", "http_503").await;
    let fixture = DashboardFixture::open(bench).await;
    let mut browser = Browser::default();
    for (q, id) in [
        (keyed.to_string(), keyed),
        ("invoice%207%2F%C3%A4".to_owned(), keyed),
        ("http_503".to_owned(), coded),
    ] {
        let page = fixture
            .get(&mut browser, &format!("/ui/messages?q={q}"))
            .await;
        page.says(200, &format!("href=\"/ui/messages/{id}\""));
        assert_eq!(page.text.matches("<tr data-row>").count(), 1, "{q}");
    }
    let elsewhere = fixture
        .get(&mut browser, &format!("/ui/queues/default?q={keyed}"))
        .await;
    elsewhere.says(200, "No messages here.");
    let nothing = fixture.get(&mut browser, "/ui/messages?q=a%00b").await;
    nothing.says(200, "No messages here.");
}

/// One word may be the id of one, the key of another, the case of some and the code of the dead.
async fn a_search_finds_whatever_a_word_means_in_one_state_or_in_all(bench: Bench) {
    let dead = bench.bury("default", "2").await;
    let keyed = json!({"payload": 1, "key": "2"});
    bench.post("/v1/queues/mail/messages", keyed).await;
    let of_case = json!({"queue": "mail", "payload": 1, "headers": {"correlation_id": "2"}});
    let many = json!({"messages": vec![of_case; 60]});
    bench.post("/v1/messages", many).await.is(202);
    bench.enqueue("mail", json!("another")).await;
    let fixture = DashboardFixture::open(bench).await;
    let mut browser = Browser::default();
    for (start, expected) in [
        ("/ui/messages?q=2", (3..=62).rev().chain([2, 1]).collect()),
        ("/ui/messages?q=2&state=dead", vec![dead]),
        ("/ui/messages?q=2&state=held", vec![]),
        ("/ui/queues/mail?q=2&state=ready", (2..=62).rev().collect()),
        ("/ui/queues/default?q=2", vec![dead]),
    ] {
        let (mut path, mut rows) = (start.to_owned(), Vec::new());
        loop {
            let page = fixture.get(&mut browser, &path).await;
            let found = page.text.split("<tr data-row>").skip(1);
            let ids = found.map(|row| {
                let (_, rest) = row.split_once("/ui/messages/").unwrap();
                rest.split('"').next().unwrap().parse::<i64>().unwrap()
            });
            rows.extend(ids);
            let Some((_, rest)) = page.text.split_once("rel=\"next\" href=\"") else {
                break;
            };
            path = super::unescaped(rest.split('"').next().unwrap());
        }
        assert_eq!(rows, expected, "{start}");
    }
    let page = fixture
        .get(&mut browser, "/ui/queues/mail?q=2&state=ready")
        .await;
    page.says(200, "name=\"state\" value=\"ready\"")
        .says(200, "?state=dead&#38;q=2");
}

async fn a_queue_shows_its_messages_by_state(bench: Bench) {
    let dead = bench.bury("mail", "no_use").await;
    let ready = bench.enqueue("mail", json!(1)).await;
    let fixture = DashboardFixture::open(bench).await;
    let mut browser = Browser::default();
    let page = fixture
        .get(&mut browser, "/ui/queues/mail?state=dead")
        .await;
    page.says(200, &format!("href=\"/ui/messages/{dead}\""))
        .says(200, "attempts_max");
    assert!(
        !page
            .text
            .contains(&format!("href=\"/ui/messages/{ready}\""))
    );
    page.says(
        200,
        "aria-current=\"page\">dead <span class=\"count\">1</span>",
    );
    fixture
        .get(&mut browser, "/ui/queues/mial")
        .await
        .says(404, "unknown_queue");
    fixture
        .get(&mut browser, "/ui/queues/mail?state=gone")
        .await
        .says(400, "invalid_input");
}

async fn leases_show_who_holds_what_until_when(bench: Bench) {
    let id = bench.enqueue("mail", json!(1)).await;
    bench.claim("mail", 1).await;
    let fixture = DashboardFixture::open(bench).await;
    let mut browser = Browser::default();
    fixture.bench.advance(3);
    let page = fixture.get(&mut browser, "/ui/processes").await;
    page.says(200, "w1")
        .says(200, &format!("href=\"/ui/messages/{id}\""))
        .says(200, "value=\"80\"");
    fixture.bench.advance(60);
    fixture
        .get(&mut browser, "/ui/processes")
        .await
        .says(200, ">ended<");
}

async fn history_shows_what_is_kept_and_what_keeps_it(bench: Bench) {
    let id = bench.bury("mail", "no_use").await;
    let store = Arc::clone(&bench.store);
    let fixture = DashboardFixture::open(bench).await;
    let mut browser = Browser::default();
    let page = fixture.get(&mut browser, "/ui/history").await;
    page.says(200, "Nothing is recorded yet");
    let ttl = Duration::from_secs(86_400);
    let leased = store.lease_maintenance("test", None, ttl).await.unwrap();
    let token = leased.unwrap();
    store.record_pass(token, "done").await.unwrap();
    fixture.bench.advance(2 * 3_600);
    for n in 0..3 {
        fixture.bench.enqueue("mail", json!(n)).await;
    }
    store.record_pass(token, "no_archive").await.unwrap();
    let why = "is dead since";
    let page = fixture.get(&mut browser, "/ui/history").await;
    page.says(
        200,
        &format!("<a href=\"/ui/messages/{id}\">{id}</a>: message {id} of queue mail {why}"),
    )
    .says(200, "<td data-label=\"Messages\" class=\"n\">4</td>")
    .says(200, "<td data-label=\"Per day\" class=\"n\">36</td>")
    .says(
        200,
        "4 enqueued, 0 delivered, 1 dead, 0 discarded, 0 erased",
    )
    .says(200, "<td data-label=\"Keeps\">for ever</td>")
    .says(200, "The maintenance ends with no_archive");
}

async fn the_audit_is_filtered_and_taken_along(bench: Bench) {
    for queue in ["mail", "default"] {
        let path = format!("/v1/queues/{queue}/pause");
        bench
            .post(&path, json!({"reason": format!("=cmd {queue}, \"now\"")}))
            .await;
    }
    let fixture = DashboardFixture::open(bench).await;
    let mut browser = Browser::default();
    let page = fixture
        .get(&mut browser, "/ui/audit?queue=mail&action=pause")
        .await;
    page.says(200, "=cmd mail");
    assert!(!page.text.contains("=cmd default"));
    let csv = fixture
        .get(
            &mut browser,
            "/ui/audit/export?format=csv&action=pause&queue=mail",
        )
        .await;
    assert_eq!(csv.status, 200);
    let lines: Vec<&str> = csv.text.lines().collect();
    assert_eq!(lines.len(), 2, "{}", csv.text);
    assert_eq!(lines[0], "id,at,actor,action,queue,message_id,reason");
    assert!(
        lines[1].ends_with("\"pause\",\"mail\",\"\",\"'=cmd mail, \"\"now\"\"\""),
        "{}",
        lines[1]
    );
    let jsonl = fixture
        .get(&mut browser, "/ui/audit/export?format=jsonl&action=pause")
        .await;
    let entries: Vec<serde_json::Value> = jsonl
        .text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(entries.len(), 2);
    assert_eq!(entries[1]["reason"], "=cmd mail, \"now\"");
}

async fn waiting_messages_lead_to_the_first(bench: Bench) {
    let policy = QueuePolicy {
        ordered: true,
        ..QueuePolicy::default()
    };
    let by = By::new("test", "set up");
    bench
        .store
        .put_queue(&name("steps"), &policy, &by)
        .await
        .unwrap();
    let mut ids = Vec::new();
    for n in 0..2 {
        let body = json!({"payload": n, "group": "g"});
        let answer = bench.post("/v1/queues/steps/messages", body).await;
        ids.push(answer.json["id"].as_i64().unwrap());
    }
    let fixture = DashboardFixture::open(bench).await;
    let page = fixture
        .get(&mut Browser::default(), &format!("/ui/messages/{}", ids[1]))
        .await;
    page.says(200, "Waiting: message");
    page.says(
        200,
        &format!("<a href=\"/ui/messages/{}\">Show message", ids[0]),
    );
}

async fn a_live_page_gets_changes(bench: Bench) {
    let fixture = DashboardFixture::guarded(bench).await;
    let browser = fixture.login(OPERATOR).await;
    let (name, cookie) = browser.cookie("session").unwrap();
    let mut stream = fixture.server.connect().await;
    let ask = format!(
        "GET /ui/events?topic=queue:mail HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\
         connection: close\r\ncookie: {name}={cookie}\r\n\r\n"
    );
    stream.write_all(ask.as_bytes()).await.unwrap();
    let mut seen = String::new();
    until(&mut stream, &mut seen, "No messages here.").await;
    assert!(seen.contains("content-type: text/event-stream"), "{seen}");
    let key = json!({"payload": 1, "key": "arrives live"});
    let id = fixture
        .bench
        .post("/v1/queues/mail/messages", key)
        .await
        .json["id"]
        .as_i64()
        .unwrap();
    until(&mut stream, &mut seen, "arrives live").await;
    assert!(
        seen.contains(&format!("href=\"/ui/messages/{id}\"")),
        "{seen}"
    );
    assert!(
        !seen.contains("csrf"),
        "what all viewers share has no form in it"
    );
    // It ends when the server does.
    fixture.bench.state.drain();
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(Duration::from_secs(10), stream.read_to_end(&mut rest)).await;
    assert!(ended.is_ok(), "it ends at the drain");
    assert!(rest.ends_with(b"0\r\n\r\n"), "and it ends whole");
    let mut stranger = Browser::default().with("accept", "text/event-stream");
    let refused = fixture
        .get(&mut stranger, "/ui/events?topic=overview")
        .await;
    assert_eq!(refused.status, 401, "{}", refused.text);
}

/// Reads on until it has come.
async fn until(stream: &mut tokio::net::TcpStream, seen: &mut String, words: &str) {
    let mut buffer = [0; 2_048];
    while !seen.contains(words) {
        let read = tokio::time::timeout(Duration::from_secs(20), stream.read(&mut buffer));
        let read = read.await.expect("it comes in time").unwrap();
        assert_ne!(read, 0, "the stream ended: {seen}");
        seen.push_str(&String::from_utf8_lossy(&buffer[..read]));
    }
}

async fn what_was_done_lately_is_drawn(bench: Bench) {
    let heartbeat = Heartbeat {
        process: "w1".into(),
        version: "1.2.3".into(),
        running_for: Duration::from_secs(60),
        queues: vec![QueueStats {
            queue: name("mail"),
            done: OutcomeCounts {
                delivered: 90,
                dead: 10,
                took_ms: 1_000,
                ..OutcomeCounts::default()
            },
        }],
        ..Heartbeat::default()
    };
    bench.store.heartbeat(&heartbeat).await.unwrap();
    let fixture = DashboardFixture::open(bench).await;
    let mut browser = Browser::default();
    for path in ["/", "/?window=day", "/?window=nonsense"] {
        let page = fixture.get(&mut browser, path).await;
        page.says(200, "10.0 %").says(200, "<svg class=\"chart\"");
    }
    let queue = fixture.get(&mut browser, "/ui/queues/mail").await;
    queue
        .says(200, "class=\"plot\"")
        .says(200, "class=\"line1\"");
    let workers = fixture.get(&mut browser, "/ui/processes").await;
    workers.says(200, "1.2.3").says(200, ">w1<");
    fixture.bench.advance(600);
    fixture
        .get(&mut browser, "/ui/processes")
        .await
        .says(200, ">no heartbeat<");
}
