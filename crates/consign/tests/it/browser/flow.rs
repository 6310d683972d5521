//! A message that goes wrong and is put right.

use std::time::Duration;

use serde_json::json;

use super::{BrowserFixture, TestDatabaseConfig, on_stores};
use crate::receiver::{Receiver, ReplyMode};

on_stores!(a_message_appears_fails_is_explained_requeued_and_delivered);

async fn a_message_appears_fails_is_explained_requeued_and_delivered(ground: TestDatabaseConfig) {
    let receiver = Receiver::start(ReplyMode::Rejects).await;
    let sink = format!("[queues.mail.sink]\n{}", receiver.sink());
    let fixture = BrowserFixture::on(ground, &sink).await;
    let browser = &fixture.browser;

    fixture.go("/").await;
    browser.sees(".well", "All is well").await;
    fixture.remember().await;
    fixture.enqueue("mail", json!({"payload": 1})).await;
    let dead = "tr:has(a[href='/ui/queues/mail']) td[data-label=Dead]";
    browser.sees(dead, "1").await;
    fixture.remembers().await;

    browser.click("main a[href='/ui/queues/mail']").await;
    fixture.arrives("/ui/queues/mail").await;
    fixture.remember().await;
    let letter = json!({"payload": {"to": "ada"}, "key": "letter-2"});
    let id = fixture.enqueue("mail", letter).await;
    let path = format!("/ui/messages/{id}");
    browser.sees("tr[data-row]", "letter-2").await;
    fixture.remembers().await;

    browser.click(&format!("a[href='{path}']")).await;
    fixture.arrives(&path).await;
    let dead = "not tried again until it is requeued";
    browser.sees(".sentence", dead).await;
    browser.sees(".timeline .detail", "http_400").await;

    receiver.set(ReplyMode::Takes(Duration::ZERO));
    // Without a reason the browser itself sends nothing.
    let requeue = format!("form[action='{path}/requeue']");
    browser.click(&format!("{requeue} button")).await;
    assert_eq!(fixture.state_of(id), "dead");
    browser
        .write("#requeue-reason", "the receiver reads again")
        .await;
    browser.click(&format!("{requeue} button")).await;
    browser.sees(".flash", "Requeued").await;
    browser.sees(".sentence .mark", "delivered").await;
    browser.sees("main", "the receiver reads again").await;
    assert_eq!(fixture.state_of(id), "delivered");
    let times: Vec<u32> = receiver.seen().into_values().collect();
    assert_eq!(times, [1, 2], "one was sent again, the other was not");

    fixture.go("/ui/audit").await;
    browser.sees("main", "the receiver reads again").await;
    fixture.is_quiet().await;
    fixture.service.stop().await;
}

#[tokio::test]
async fn loading_a_payload_again_hides_it() {
    let fixture = BrowserFixture::new("[queues.mail]\n").await;
    let browser = &fixture.browser;
    let letter = json!({"payload": {"to": "nobody-else"}});
    let id = fixture.enqueue("mail", letter).await;
    let path = format!("/ui/messages/{id}");
    fixture.go(&path).await;
    browser.write("#reveal-reason", "ticket 12").await;
    browser.click("form[action$='/reveal'] button").await;
    browser.sees("pre[data-revealed]", "nobody-else").await;
    fixture.arrives(&path).await;
    // A browser that was about to send the form again would ask first, and stop here.
    browser.reload().await;
    browser.sees(".masked", "Hidden").await;
    let text = browser.script("return document.body.innerText", json!([]));
    assert!(!text.await.to_string().contains("nobody-else"));
    fixture.go("/ui/audit?action=reveal").await;
    browser.sees("tr[data-row]", "ticket 12").await;
    let looks = "return document.querySelectorAll('tr[data-row]').length";
    assert_eq!(browser.script(looks, json!([])).await, 1, "one look");
    fixture.is_quiet().await;
    fixture.service.stop().await;
}
