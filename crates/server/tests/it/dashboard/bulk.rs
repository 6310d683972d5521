//! Several messages at once: selected in a list, previewed, confirmed, answered one by one.

use serde_json::json;

use super::{AUDITOR, Browser, DashboardFixture, OPERATOR};
use crate::bench::{Bench, on_stores};

on_stores!(
    selected_messages_are_previewed_and_moved_with_one_reason,
    each_selected_message_gets_its_own_answer,
    a_selection_that_makes_no_sense_is_rejected,
    who_may_only_look_selects_nothing,
);

async fn selected_messages_are_previewed_and_moved_with_one_reason(bench: Bench) {
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(bench.bury("mail", "http_500").await);
    }
    let fixture = DashboardFixture::guarded(bench).await;
    let mut olga = fixture.login(OPERATOR).await;
    let list = fixture.get(&mut olga, "/ui/queues/mail?state=dead").await;
    list.says(200, "class=\"selectable\"")
        .says(
            200,
            &format!("name=\"id\" value=\"{}\" form=\"bulk\"", ids[0]),
        )
        .says(200, "name=\"action\" value=\"requeue\"")
        .says(200, "name=\"back\" value=\"/ui/queues/mail?state=dead\"");
    assert!(
        !list.text.contains("name=\"action\" value=\"hold\""),
        "dead messages cannot be held"
    );
    let path = format!(
        "/ui/bulk?back=%2Fui%2Fdead&id={}&id={}&action=discard",
        ids[0], ids[2]
    );
    let preview = fixture.get(&mut olga, &path).await;
    preview
        .says(200, "2 selected messages would be discarded")
        .says(200, "is never delivered");
    let fields = [("reason", "test data")];
    let without = fixture.send(&mut olga, &preview, "/ui/bulk/run", &[]).await;
    without.says(400, "reason_required");
    assert_eq!(fixture.bench.state_of(ids[0]).await, "dead");
    let done = fixture
        .send(&mut olga, &preview, "/ui/bulk/run", &fields)
        .await;
    done.says(200, "2 messages discarded.")
        .says(200, "data-answered=\"/ui/dead\"");
    for (id, state) in ids.iter().zip(["discarded", "dead", "discarded"]) {
        assert_eq!(fixture.bench.state_of(*id).await, state);
    }
    let audit = fixture.get(&mut olga, "/ui/audit?action=discard").await;
    assert_eq!(audit.text.matches("test data").count(), 2);
    audit.says(200, "olga");
}

async fn each_selected_message_gets_its_own_answer(bench: Bench) {
    let dead = bench.bury("mail", "no_use").await;
    let ready = bench.enqueue("mail", json!(1)).await;
    let fixture = DashboardFixture::open(bench).await;
    let mut browser = Browser::default();
    let ids = format!("id={ready}&id={dead}&id=999&id={dead}");
    let preview = fixture
        .get(&mut browser, &format!("/ui/bulk?action=requeue&{ids}"))
        .await;
    preview
        .says(200, "1 of 3 selected messages would be requeued")
        .says(200, "stays as it is: ready")
        .says(200, "does not exist");
    let fields = [("reason", "the sink is back")];
    let done = fixture
        .send(&mut browser, &preview, "/ui/bulk/run", &fields)
        .await;
    done.says(200, "1 message requeued. 2 not: each shows why.")
        .says(200, "only dead messages can be")
        .says(200, "does not exist");
    assert_eq!(fixture.bench.state_of(dead).await, "ready");
    for (action, id, state) in [
        ("hold", ready, "held"),
        ("unhold", ready, "ready"),
        ("cancel", ready, "discarded"),
    ] {
        let path = format!("/ui/bulk?action={action}&id={id}");
        let preview = fixture.get(&mut browser, &path).await;
        let done = fixture
            .send(&mut browser, &preview, "/ui/bulk/run", &fields)
            .await;
        done.says(200, "1 message");
        assert_eq!(fixture.bench.state_of(id).await, state, "{action}");
    }
    let preview = fixture
        .get(&mut browser, &format!("/ui/bulk?action=cancel&id={ready}"))
        .await;
    preview.says(200, "None of 1 selected message would be cancelled");
    assert!(!preview.has_form("/ui/bulk/run"));
}

async fn a_selection_that_makes_no_sense_is_rejected(bench: Bench) {
    let fixture = DashboardFixture::open(bench).await;
    let mut browser = Browser::default();
    let none = fixture.get(&mut browser, "/ui/bulk?action=requeue").await;
    none.says(200, "No message is selected.");
    for (query, code) in [
        ("", "invalid_input"),
        ("action=erase&id=1", "invalid_input"),
        ("action=hold&id=one", "invalid_input"),
    ] {
        let page = fixture
            .get(&mut browser, &format!("/ui/bulk?{query}"))
            .await;
        page.says(400, code);
    }
    let many: Vec<String> = (1..=201).map(|id| format!("id={id}")).collect();
    let path = format!("/ui/bulk?action=hold&{}", many.join("&"));
    fixture
        .get(&mut browser, &path)
        .await
        .says(413, "batch_too_large");
    // The way back stays in the dashboard.
    let page = fixture
        .get(
            &mut browser,
            "/ui/bulk?action=hold&back=https://evil.example/",
        )
        .await;
    assert!(!page.text.contains("evil.example"));
}

async fn who_may_only_look_selects_nothing(bench: Bench) {
    let id = bench.bury("mail", "no_use").await;
    let fixture = DashboardFixture::guarded(bench).await;
    let mut anton = fixture.login(AUDITOR).await;
    for path in ["/ui/dead", "/ui/messages", "/ui/queues/mail"] {
        let page = fixture.get(&mut anton, path).await;
        assert!(!page.text.contains("selectable") && !page.text.contains("action=\"/ui/bulk\""));
    }
    let page = fixture
        .get(&mut anton, &format!("/ui/bulk?action=discard&id={id}"))
        .await;
    page.says(403, "scope_missing");
    let csrf = fixture.get(&mut anton, "/ui/dead").await;
    let csrf = csrf.form("/ui/logout").get("csrf").to_owned();
    let id = id.to_string();
    let fields = [
        ("csrf", csrf.as_str()),
        ("action", "discard"),
        ("id", id.as_str()),
        ("reason", "x"),
    ];
    let refused = fixture.post(&mut anton, "/ui/bulk/run", &fields).await;
    refused.says(403, "scope_missing");
}
