//! What the pages show, and that they lead on.

use std::time::Duration;

use consign_kernel::{By, Done, Pulse, QueuePolicy, QueuePulse};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{AUDITOR, Browser, Desk, OPERATOR};
use crate::bench::{Bench, name, on_stores};

on_stores!(
    the_overview_says_what_needs_a_person,
    long_lists_go_on_page_by_page,
    messages_are_found_by_id_key_and_code,
    a_search_finds_whatever_a_word_means_in_one_state_or_in_all,
    a_queue_shows_its_messages_by_state,
    leases_show_who_holds_what_until_when,
    the_audit_is_filtered_and_taken_along,
    a_page_is_told_what_changes,
    waiting_messages_lead_to_the_first,
    what_was_done_lately_is_drawn,
);

async fn the_overview_says_what_needs_a_person(bench: Bench) {
    let desk = Desk::open(bench).await;
    let mut browser = Browser::default();
    let page = desk.get(&mut browser, "/").await;
    page.says(200, "nothing needs a person")
        .says(200, "href=\"/ui/queues/mail\"");
    let id = desk.bench.enqueue("mail", json!(1)).await;
    let held = desk
        .bench
        .post(&format!("/v1/messages/{id}/hold"), json!({"reason": "x"}))
        .await;
    assert_eq!(held.status, 200);
    desk.bench.bury("default", "no_use").await;
    desk.bench.enqueue("default", json!(1)).await;
    desk.bench.advance(600);
    let page = desk.get(&mut browser, "/").await;
    page.says(200, "1 message of queue mail held until somebody decides")
        .says(200, "1 message of queue default dead")
        .says(
            200,
            "Queue default: the oldest ready message has been due for 10 min",
        );
    assert!(!page.text.contains("nothing needs a person"));
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
    let desk = Desk::open(bench).await;
    let mut browser = Browser::default();
    for start in [
        "/ui/messages",
        "/ui/queues/mail",
        "/ui/queues/mail?state=ready",
        "/ui/messages?state=ready",
    ] {
        let (mut path, mut rows) = (start.to_owned(), Vec::new());
        loop {
            let page = desk.get(&mut browser, &path).await;
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
    let desk = Desk::open(bench).await;
    let mut browser = Browser::default();
    for (q, id) in [
        (keyed.to_string(), keyed),
        ("invoice%207%2F%C3%A4".to_owned(), keyed),
        ("http_503".to_owned(), coded),
    ] {
        let page = desk.get(&mut browser, &format!("/ui/messages?q={q}")).await;
        page.says(200, &format!("href=\"/ui/messages/{id}\""));
        assert_eq!(page.text.matches("<tr data-row>").count(), 1, "{q}");
    }
    let elsewhere = desk
        .get(&mut browser, &format!("/ui/queues/default?q={keyed}"))
        .await;
    elsewhere.says(200, "No messages here.");
    let nothing = desk.get(&mut browser, "/ui/messages?q=a%00b").await;
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
    let desk = Desk::open(bench).await;
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
            let page = desk.get(&mut browser, &path).await;
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
    let page = desk
        .get(&mut browser, "/ui/queues/mail?q=2&state=ready")
        .await;
    page.says(200, "name=\"state\" value=\"ready\"")
        .says(200, "?state=dead&#38;q=2");
}

async fn a_queue_shows_its_messages_by_state(bench: Bench) {
    let dead = bench.bury("mail", "no_use").await;
    let ready = bench.enqueue("mail", json!(1)).await;
    let desk = Desk::open(bench).await;
    let mut browser = Browser::default();
    let page = desk.get(&mut browser, "/ui/queues/mail?state=dead").await;
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
    desk.get(&mut browser, "/ui/queues/mial")
        .await
        .says(404, "unknown_queue");
    desk.get(&mut browser, "/ui/queues/mail?state=gone")
        .await
        .says(400, "invalid_input");
}

async fn leases_show_who_holds_what_until_when(bench: Bench) {
    let id = bench.enqueue("mail", json!(1)).await;
    bench.claim("mail", 1).await;
    let desk = Desk::open(bench).await;
    let mut browser = Browser::default();
    desk.bench.advance(3);
    let page = desk.get(&mut browser, "/ui/leases").await;
    page.says(200, "w1")
        .says(200, &format!("href=\"/ui/messages/{id}\""))
        .says(200, "value=\"80\"");
    desk.bench.advance(60);
    desk.get(&mut browser, "/ui/leases")
        .await
        .says(200, ">ended<");
}

async fn the_audit_is_filtered_and_taken_along(bench: Bench) {
    for queue in ["mail", "default"] {
        let path = format!("/v1/queues/{queue}/pause");
        bench
            .post(&path, json!({"reason": format!("=cmd {queue}, \"now\"")}))
            .await;
    }
    let desk = Desk::open(bench).await;
    let mut browser = Browser::default();
    let page = desk
        .get(&mut browser, "/ui/audit?queue=mail&action=pause")
        .await;
    page.says(200, "=cmd mail");
    assert!(!page.text.contains("=cmd default"));
    let csv = desk
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
    let jsonl = desk
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
    let desk = Desk::open(bench).await;
    let page = desk
        .get(&mut Browser::default(), &format!("/ui/messages/{}", ids[1]))
        .await;
    page.says(200, "Waiting for its turn");
    page.says(
        200,
        &format!("<a href=\"/ui/messages/{}\">Show message", ids[0]),
    );
}

async fn a_page_is_told_what_changes(bench: Bench) {
    let desk = Desk::guarded(bench).await;
    let browser = desk.login(OPERATOR).await;
    let (name, cookie) = browser.cookie("session").unwrap();
    let mut stream = desk.server.connect().await;
    let ask = format!(
        "GET /ui/events?topic=queue:mail HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\
         connection: close\r\ncookie: {name}={cookie}\r\n\r\n"
    );
    stream.write_all(ask.as_bytes()).await.unwrap();
    let mut seen = String::new();
    until(&mut stream, &mut seen, "No messages here.").await;
    assert!(seen.contains("content-type: text/event-stream"), "{seen}");
    let key = json!({"payload": 1, "key": "arrives live"});
    let id = desk.bench.post("/v1/queues/mail/messages", key).await.json["id"]
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
    desk.bench.state.drain();
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(Duration::from_secs(10), stream.read_to_end(&mut rest)).await;
    assert!(ended.is_ok(), "it ends at the drain");
    assert!(rest.ends_with(b"0\r\n\r\n"), "and it ends whole");
    let mut stranger = Browser::default().with("accept", "text/event-stream");
    let refused = desk.get(&mut stranger, "/ui/events?topic=overview").await;
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
    let pulse = Pulse {
        process: "w1".into(),
        version: "1.2.3".into(),
        running_for: Duration::from_secs(60),
        queues: vec![QueuePulse {
            queue: name("mail"),
            done: Done {
                delivered: 90,
                dead: 10,
                took_ms: 1_000,
                ..Done::default()
            },
        }],
    };
    bench.store.pulse(&pulse).await.unwrap();
    let desk = Desk::open(bench).await;
    let mut browser = Browser::default();
    for path in ["/", "/?window=day", "/?window=nonsense"] {
        let page = desk.get(&mut browser, path).await;
        page.says(200, "10.0 %").says(200, "<svg class=\"chart\"");
    }
    let queue = desk.get(&mut browser, "/ui/queues/mail").await;
    queue
        .says(200, "10.0 %")
        .says(200, "10 ms")
        .says(200, "class=\"failed\"");
    let workers = desk.get(&mut browser, "/ui/leases").await;
    workers.says(200, "1.2.3").says(200, ">w1<");
    desk.bench.advance(600);
    desk.get(&mut browser, "/ui/leases")
        .await
        .says(200, ">silent<");
}

#[tokio::test]
async fn the_outbox_of_memories_is_compared_with_its_audits() {
    let desk = Desk::guarded(Bench::sqlite().await).await;
    let mut olga = desk.login(OPERATOR).await;
    let page = desk.get(&mut olga, "/ui/memory").await;
    page.says(200, "total writes").says(200, "outbox stats");
    let preview = desk.get(&mut olga, "/ui/memory/reconcile").await;
    preview
        .says(200, "Everything fits.")
        .says(200, "Reconcile: preview");
    let done = desk
        .send(
            &mut olga,
            &preview,
            "/ui/memory/reconcile",
            &[("reason", "after the outage")],
        )
        .await;
    done.says(200, "Reconciled").says(200, "Everything fits.");
    let mut anton = desk.login(AUDITOR).await;
    desk.get(&mut anton, "/ui/memory/reconcile")
        .await
        .says(403, "scope_missing");
    let none = Desk::open(Bench::reference().await).await;
    let mut browser = Browser::default();
    none.get(&mut browser, "/ui/memory")
        .await
        .says(200, "no gateway of memories");
    none.get(&mut browser, "/ui/memory/reconcile")
        .await
        .says(404, "not_found");
}

#[tokio::test]
async fn a_payment_is_shown_beside_its_message() {
    let bench = Bench::sqlite().await;
    let outbox_id = crate::payments::pay(&bench, 1).await;
    let desk = Desk::open(bench).await;
    let mut browser = Browser::default();
    let found = desk
        .get(&mut browser, &format!("/ui/messages?q={outbox_id}"))
        .await;
    let (_, rest) = found.text.split_once("href=\"/ui/messages/").unwrap();
    let id = rest.split('"').next().unwrap();
    let page = desk.get(&mut browser, &format!("/ui/messages/{id}")).await;
    page.says(200, &format!("Payment {outbox_id}"))
        .says(200, "Number in its sequence");
    assert!(
        !page.text.contains("amount"),
        "what it carries stays hidden: {}",
        page.text
    );
}
