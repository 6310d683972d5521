//! Write audits on the page of the audit: filtered, page by page, taken along.

use std::sync::Arc;

use consign_memory::{Action, AuditStatus, Logbook, NewAudit};
use consign_server::testing::{AUDITOR, Browser, DashboardFixture, unescaped};
use serde_json::{Value, json};

use super::{Bench, on_databases};

on_databases!(
    write_audits_are_filtered_and_taken_along,
    write_audits_go_on_page_by_page,
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
    let book = bench.app.clone();
    write(&book, 6).await;
    let failed = NewAudit {
        action: Action::Reject,
        status: AuditStatus::Failed,
        reason: Some("<b>no</b>".into()),
        ..audit(6)
    };
    book.insert_audit(&failed).await.unwrap();
    let fixture = DashboardFixture::guarded(bench).await;
    let mut anton = fixture.login(AUDITOR).await;
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
        let page = fixture.get(&mut anton, &path).await;
        page.says(200, "Memory writes");
        assert_eq!(rows(&page.text), expected, "{filter}: {}", page.text);
        let path = format!("/ui/audit/export?format=jsonl&of=writes{filter}");
        let lines = fixture.get(&mut anton, &path).await;
        assert_eq!(lines.text.lines().count(), expected, "{filter}");
    }
    let page = fixture.get(&mut anton, "/ui/audit?of=writes").await;
    page.says(200, "&#60;b&#62;no")
        .says(200, "href=\"/ui/messages/1003\"");
    for bad in ["&action=maybe", "&status=lost", "&message=x", "&since=soon"] {
        let path = format!("/ui/audit?of=writes{bad}");
        fixture
            .get(&mut anton, &path)
            .await
            .says(400, "invalid_input");
    }
    let csv = fixture
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
    let lines = fixture
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
    let book = bench.app.clone();
    write(&book, 120).await;
    let fixture = DashboardFixture::open(bench).await;
    let mut browser = Browser::default();
    for (start, expected) in [
        ("/ui/audit?of=writes", &[50, 50, 20][..]),
        ("/ui/audit?of=writes&actor=ada", &[50, 10]),
        ("/ui/audit?of=writes&space=private:1", &[40]),
    ] {
        let (mut path, mut pages, mut seen) = (start.to_owned(), Vec::new(), Vec::new());
        loop {
            let page = fixture.get(&mut browser, &path).await;
            pages.push(rows(&page.text));
            let ids = page.text.split("<th scope=\"row\">").skip(1);
            seen.extend(ids.map(|id| id.split('<').next().unwrap().parse::<i64>().unwrap()));
            let Some((_, rest)) = page.text.split_once("rel=\"next\" href=\"") else {
                break;
            };
            path = unescaped(rest.split('"').next().unwrap());
        }
        assert_eq!(pages, expected, "{start}");
        assert!(
            seen.is_sorted_by(|one, two| one > two),
            "each once: {seen:?}"
        );
    }
}
