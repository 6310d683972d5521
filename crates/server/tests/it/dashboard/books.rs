//! The audit: what people did and what became of memories, filtered, page by page, taken along.

use std::sync::Arc;

use consign_memory::{Action, AuditStatus, Logbook, NewAudit};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{AUDITOR, Browser, Desk, on_databases};
use crate::{
    bench::Bench,
    faults::{Fault, Faulty},
};

on_databases!(
    write_audits_are_filtered_and_taken_along,
    write_audits_go_on_page_by_page,
    actions_are_found_by_their_time,
    actions_are_found_by_who_did_them,
);

fn audit(number: usize) -> NewAudit {
    NewAudit {
        actor_user_id: Some(
            if number.is_multiple_of(2) {
                "ada"
            } else {
                "bob"
            }
            .into(),
        ),
        target_space: format!("private:{}", number % 3),
        action: Action::Allow,
        reason: Some(format!("=policy {number}")),
        payload_sha: None,
        evidence_refs_json: json!({"outbox_id": number + 1_000}),
        correlation_id: Some(format!("corr-{number:016x}")),
        status: AuditStatus::Success,
    }
}

async fn write(book: &Arc<dyn Logbook>, count: usize) {
    for number in 0..count {
        book.insert_audit(&audit(number)).await.unwrap();
    }
}

fn rows(text: &str) -> usize {
    text.matches("<tr data-row>").count()
}

async fn write_audits_are_filtered_and_taken_along(bench: Bench) {
    let book = bench.logbook.clone().unwrap();
    write(&book, 6).await;
    let failed = NewAudit {
        action: Action::Reject,
        status: AuditStatus::Failed,
        reason: Some("<b>no</b>".into()),
        ..audit(6)
    };
    book.insert_audit(&failed).await.unwrap();
    let desk = Desk::guarded(bench).await;
    let mut anton = desk.login(AUDITOR).await;
    for (filter, expected) in [
        ("", 7),
        ("&actor=ada", 4),
        ("&actor=ad", 0),
        ("&space=private:0", 3),
        ("&actor=ada&space=private:0", 2),
        ("&action=reject", 1),
        ("&status=failed", 1),
        ("&status=success&action=allow", 6),
        ("&correlation=corr-0000000000000003", 1),
        ("&message=1003", 1),
        ("&since=2020-01-01T00:00", 7),
        ("&since=2120-01-01T00:00", 0),
        ("&until=2020-01-01T00:00", 0),
        ("&until=2120-01-01T00:00:00Z", 7),
    ] {
        let path = format!("/ui/audit?of=writes{filter}");
        let page = desk.get(&mut anton, &path).await;
        page.says(200, "Writes of memories");
        assert_eq!(rows(&page.text), expected, "{filter}: {}", page.text);
        let path = format!("/ui/audit/export?format=jsonl&of=writes{filter}");
        let lines = desk.get(&mut anton, &path).await;
        assert_eq!(lines.text.lines().count(), expected, "{filter}");
    }
    let page = desk.get(&mut anton, "/ui/audit?of=writes").await;
    page.says(200, "&#60;b&#62;no")
        .says(200, "href=\"/ui/messages/1003\"");
    for bad in ["&action=maybe", "&status=lost", "&message=x", "&since=soon"] {
        let path = format!("/ui/audit?of=writes{bad}");
        desk.get(&mut anton, &path).await.says(400, "invalid_input");
    }
    let csv = desk
        .get(
            &mut anton,
            "/ui/audit/export?format=csv&of=writes&message=1003",
        )
        .await;
    assert!(
        csv.header("content-disposition")
            .contains("write-audits.csv")
    );
    let lines: Vec<&str> = csv.text.split("\r\n").collect();
    assert!(lines[0].starts_with("audit_id,created_at,updated_at,actor_user_id,"));
    let told = "\"bob\",\"allow\",\"success\",\"private:0\",\"1003\",\"corr-0000000000000003\",\"\",\
                \"'=policy 3\"";
    assert!(lines[1].ends_with(told), "{}", lines[1]);
    assert_eq!(lines[2..], [""]);
    let lines = desk
        .get(
            &mut anton,
            "/ui/audit/export?format=jsonl&of=writes&message=1003",
        )
        .await;
    let entry: Value = serde_json::from_str(&lines.text).unwrap();
    assert_eq!(entry["reason"], "=policy 3");
    assert_eq!(entry["evidence_refs_json"]["outbox_id"], 1_003);
}

async fn write_audits_go_on_page_by_page(bench: Bench) {
    let book = bench.logbook.clone().unwrap();
    write(&book, 120).await;
    let desk = Desk::open(bench).await;
    let mut browser = Browser::default();
    for (start, expected) in [
        ("/ui/audit?of=writes", &[50, 50, 20][..]),
        ("/ui/audit?of=writes&actor=ada", &[50, 10]),
        ("/ui/audit?of=writes&space=private:1", &[40]),
    ] {
        let (mut path, mut pages, mut seen) = (start.to_owned(), Vec::new(), Vec::new());
        loop {
            let page = desk.get(&mut browser, &path).await;
            pages.push(rows(&page.text));
            let ids = page.text.split("<th scope=\"row\">").skip(1);
            seen.extend(ids.map(|id| id.split('<').next().unwrap().parse::<i64>().unwrap()));
            let Some((_, rest)) = page.text.split_once("rel=\"next\" href=\"") else {
                break;
            };
            path = super::unescaped(rest.split('"').next().unwrap());
        }
        assert_eq!(pages, expected, "{start}");
        assert!(
            seen.is_sorted_by(|one, two| one > two),
            "each once: {seen:?}"
        );
    }
}

async fn actions_are_found_by_who_did_them(bench: Bench) {
    let desk = Desk::guarded(bench).await;
    let bearer = format!("Bearer {}", super::OPERATOR);
    let mut script = Browser::default().with("authorization", bearer);
    script.headers.push(("x-consign-actor", "ada".to_owned()));
    let reason = [("reason", "now")];
    desk.post(&mut script, "/ui/queues/mail/pause", &reason)
        .await
        .leads_to("/ui/queues/mail?done=pause");
    // As in the other book: a name is a whole one.
    for (actor, is_there) in [
        ("olga", true),
        ("olga%2C%20ada%20%28as%20said%29", true),
        ("olg", false),
        ("ada", false),
    ] {
        let path = format!("/ui/audit?action=pause&actor={actor}");
        let page = desk.get(&mut script, &path).await;
        page.says(200, "What people did");
        assert_eq!(rows(&page.text) == 1, is_there, "{actor}");
    }
    let page = desk.get(&mut script, "/ui/audit").await;
    for action in ["import", "purge"] {
        page.says(200, &format!("<option value=\"{action}\">"));
    }
}

async fn actions_are_found_by_their_time(bench: Bench) {
    let path = "/v1/queues/mail/pause";
    bench.post(path, json!({"reason": "now"})).await.is(200);
    let desk = Desk::open(bench).await;
    let mut browser = Browser::default();
    for (filter, is_there) in [
        ("&since=2020-01-01T00:00&until=2120-01-01T00:00", true),
        ("&since=2120-01-01T00:00", false),
        ("&until=2020-01-01T00:00", false),
    ] {
        let path = format!("/ui/audit?action=pause{filter}");
        let page = desk.get(&mut browser, &path).await;
        page.says(200, "What people did");
        assert_eq!(rows(&page.text) == 1, is_there, "{filter}");
    }
}

/// An export of so many entries that it takes several steps.
async fn long(bench: Bench) -> Desk {
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
    Desk::open(bench).await
}

/// What came of an export, and whether it came to its end.
async fn export(desk: &Desk, format: &str, between: impl AsyncFnOnce()) -> (String, bool) {
    let mut stream = desk.server.connect().await;
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
    let desk = long(Bench::reference().await).await;
    let (text, is_whole) = export(&desk, "jsonl", async || {}).await;
    assert!(is_whole && !text.contains("cut_off"));
    assert_eq!(text.matches("\"action\":\"hold\"").count(), 2_100);
}

#[tokio::test]
async fn an_export_that_is_cut_off_says_so_and_breaks() {
    for (format, words) in [("jsonl", "{\"before\":"), ("csv", "\"CUT OFF: ")] {
        // The first step is answered; the second waits, and then fails.
        let bench = Bench::reference().await;
        let faulty = Faulty::new(Arc::clone(&bench.store));
        let desk = long(bench.with_store(Arc::clone(&faulty) as _)).await;
        let gate = Arc::new(tokio::sync::Semaphore::new(1));
        faulty.inject("audit", Fault::Waits(Arc::clone(&gate)));
        let fail = async || {
            let second = || async { faulty.calls("audit") == 2 };
            let soon = std::time::Duration::from_secs(20);
            consign_testkit::eventually("the second step", soon, second).await;
            faulty.inject("audit", Fault::ReplyLost);
            gate.add_permits(1);
        };
        let (text, is_whole) = export(&desk, format, fail).await;
        assert!(!is_whole, "{format} ended as if it were whole");
        assert!(
            text.contains(words),
            "{format}: {}",
            &text[text.len() - 300..]
        );
        assert!(!text.contains("secret-host"), "{format}");
        // A server that ends cuts it off too.
        faulty.mend();
        desk.bench.state.drain();
        let (text, is_whole) = export(&desk, format, async || {}).await;
        assert!(
            !is_whole && text.contains("the server is ending"),
            "{format}"
        );
    }
}

#[tokio::test]
async fn two_exports_are_under_way_at_most() {
    let bench = Bench::reference().await;
    let faulty = Faulty::new(Arc::clone(&bench.store));
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let desk = long(bench.with_store(Arc::clone(&faulty) as _)).await;
    faulty.inject("audit", Fault::Waits(Arc::clone(&gate)));
    let path = "/ui/audit/export?format=csv";
    let soon = std::time::Duration::from_secs(20);
    let third = async {
        let two = || async { faulty.calls("audit") == 2 };
        consign_testkit::eventually("two have begun", soon, two).await;
        let refused = desk.get(&mut Browser::default(), path).await;
        gate.add_permits(100);
        refused
    };
    let (mut one, mut two) = (Browser::default(), Browser::default());
    let (one, two, third) = tokio::join!(desk.get(&mut one, path), desk.get(&mut two, path), third);
    assert_eq!((one.status, two.status), (200, 200));
    third.says(503, "overloaded");
    // A place is free again as soon as an export has ended.
    let again = desk.get(&mut Browser::default(), path).await;
    assert_eq!(again.status, 200);
}
