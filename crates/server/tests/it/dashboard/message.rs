//! The page of one message: its life, its neighbours, commands, and sending it again.

use std::sync::Arc;

use consign_kernel::{By, QueuePolicy};
use consign_server::{PayloadAccess, ServerOptions};
use serde_json::json;

use super::{AUDITOR, Browser, DashboardFixture, OPERATOR, tokens};
use crate::bench::{Bench, name, on_stores};

on_stores!(
    a_message_shows_its_times_and_its_commands,
    neighbours_in_the_group_lead_to_each_other,
    a_message_is_sent_again_as_a_new_one_that_names_it,
    payloads_show_to_whom_the_setting_permits,
);

async fn a_message_shows_its_times_and_its_commands(bench: Bench) {
    let id = bench.bury("mail", "http_500").await;
    let fixture = DashboardFixture::open(bench).await;
    let mut browser = Browser::default();
    let path = format!("/ui/messages/{id}");
    let page = fixture.get(&mut browser, &path).await;
    page.says(200, "<svg class=\"span\"")
        .says(200, "attempt 1: leased and sent")
        .says(200, "dead, http_500")
        .says(200, &format!("/v1/messages/{id}/requeue"));
    assert!(!page.text.contains("Enqueue a copy"), "it has the payload");
    let reason = [("reason", "ticket 7")];
    let shown = fixture
        .send(&mut browser, &page, &format!("{path}/reveal"), &reason)
        .await;
    shown
        .says(200, "Enqueue a copy of it")
        .says(200, "&#34;payload&#34;:&#34;poison&#34;");
}

async fn neighbours_in_the_group_lead_to_each_other(bench: Bench) {
    let policy = QueuePolicy {
        ordered: true,
        ..QueuePolicy::default()
    };
    let by = By::new("test", "set up");
    let store = Arc::clone(&bench.store);
    store.put_queue(&name("steps"), &policy, &by).await.unwrap();
    let mut ids = Vec::new();
    for group in ["g", "other", "g", "g"] {
        let body = json!({"payload": 1, "group": group});
        let answer = bench.post("/v1/queues/steps/messages", body).await;
        ids.push(answer.json["id"].as_i64().unwrap());
    }
    let fixture = DashboardFixture::open(bench).await;
    let mut browser = Browser::default();
    let middle = format!("/ui/messages/{}", ids[2]);
    fixture
        .get(&mut browser, &middle)
        .await
        .says(
            200,
            &format!("<a rel=\"prev\" href=\"/ui/messages/{}\">", ids[0]),
        )
        .says(
            200,
            &format!("<a rel=\"next\" href=\"/ui/messages/{}\">", ids[3]),
        );
    let first = format!("/ui/messages/{}", ids[0]);
    fixture
        .get(&mut browser, &first)
        .await
        .says(200, "first of its group")
        .says(
            200,
            &format!("<a rel=\"next\" href=\"/ui/messages/{}\">", ids[2]),
        );
    let last = format!("/ui/messages/{}", ids[3]);
    let page = fixture.get(&mut browser, &last).await;
    assert!(!page.text.contains("rel=\"next\" href=\"/ui/messages"));
}

async fn a_message_is_sent_again_as_a_new_one_that_names_it(bench: Bench) {
    let id = bench.bury("mail", "http_422").await;
    let fixture = DashboardFixture::guarded(bench).await;
    let mut olga = fixture.login(OPERATOR).await;
    let path = format!("/ui/messages/{id}");
    let resend = format!("{path}/resend");
    fixture
        .get(&mut olga, &path)
        .await
        .says(200, &format!("href=\"{resend}\""));
    let asked = fixture.get(&mut olga, &resend).await;
    asked.says(200, "as a new message without a key");
    let without = fixture.send(&mut olga, &asked, &resend, &[]).await;
    without.says(400, "reason_required");
    let reason = [("reason", "typo in the address")];
    let edit = format!("{resend}/edit");
    let form = fixture.send(&mut olga, &asked, &edit, &reason).await;
    form.says(200, "&#34;poison&#34;</textarea>");
    let bad = [("reason", "x"), ("payload", "{\"to\":")];
    let refused = fixture.send(&mut olga, &form, &resend, &bad).await;
    refused.says(400, "invalid_input");
    let edited = [("reason", "typo"), ("payload", "{\"to\": 1.50}")];
    let sent = fixture.send(&mut olga, &form, &resend, &edited).await;
    assert_eq!(sent.status, 303, "{}", sent.text);
    let copy = fixture.get(&mut olga, sent.header("location")).await;
    copy.says(200, "Sent again: this is the copy.")
        .says(200, &format!("href=\"{path}\">message {id}</a>"));
    let place = sent
        .header("location")
        .split('?')
        .next()
        .unwrap()
        .to_owned();
    let shown = fixture
        .send(&mut olga, &copy, &format!("{place}/reveal"), &reason)
        .await;
    shown.says(200, "1.50");
    let old = fixture.get(&mut olga, &path).await;
    old.says(200, &format!("<a href=\"{place}\">Show message"))
        .says(200, "typo");
    assert_eq!(fixture.bench.state_of(id).await, "dead");
    let audit = fixture.get(&mut olga, "/ui/audit?action=resend").await;
    audit.says(200, "typo").says(200, "olga");
    let mut anton = fixture.login(AUDITOR).await;
    let refused = fixture.get(&mut anton, &resend).await;
    refused.says(403, "scope_missing");
}

async fn payloads_show_to_whom_the_setting_permits(bench: Bench) {
    let id = bench.bury("mail", "no_use").await;
    let (page, fields) = (format!("/ui/messages/{id}"), [("reason", "curious")]);
    let reveal = format!("{page}/reveal");
    let edit = format!("{page}/resend/edit");
    let options = |dashboard_payloads| ServerOptions {
        dashboard_payloads,
        ..tokens()
    };
    let fixture = DashboardFixture::with_options(bench, &options(PayloadAccess::Operators)).await;
    let mut anton = fixture.login(AUDITOR).await;
    let shown = fixture.get(&mut anton, &page).await;
    shown.says(200, "shown to the scope operator only");
    assert!(!shown.has_form(&reveal));
    let csrf = shown.form("/ui/logout").get("csrf").to_owned();
    let sent = [("csrf", csrf.as_str()), fields[0]];
    let refused = fixture.post(&mut anton, &reveal, &sent).await;
    refused.says(403, "payload_hidden");
    let mut olga = fixture.login(OPERATOR).await;
    let shown = fixture.get(&mut olga, &page).await;
    let shown = fixture.send(&mut olga, &shown, &reveal, &fields).await;
    shown.says(200, "poison");

    let fixture =
        DashboardFixture::with_options(fixture.bench, &options(PayloadAccess::Never)).await;
    let mut olga = fixture.login(OPERATOR).await;
    let shown = fixture.get(&mut olga, &page).await;
    assert!(!shown.has_form(&reveal));
    let asked = fixture.get(&mut olga, &format!("{page}/resend")).await;
    assert!(!asked.has_form(&edit));
    let csrf = shown.form("/ui/logout").get("csrf").to_owned();
    let sent = [("csrf", csrf.as_str()), fields[0]];
    for path in [&reveal, &edit] {
        let refused = fixture.post(&mut olga, path, &sent).await;
        refused.says(403, "payload_hidden");
    }
    let typed = [("csrf", csrf.as_str()), fields[0], ("payload", "1")];
    let path = format!("{page}/resend");
    let refused = fixture.post(&mut olga, &path, &typed).await;
    refused.says(403, "payload_hidden");
    // What is not looked at can be sent again.
    let same = fixture.send(&mut olga, &asked, &path, &fields).await;
    assert_eq!(same.status, 303, "{}", same.text);
}
