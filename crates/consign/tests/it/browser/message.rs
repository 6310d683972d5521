//! The page of a message: its life, and sending it again as another.

use std::time::Duration;

use consign_testkit::eventually;
use serde_json::json;

use super::{BrowserFixture, TestDatabaseConfig, on_stores};
use crate::{
    receiver::{Receiver, ReplyMode},
    service::SOON,
};

on_stores!(an_edited_copy_of_a_dead_message_is_delivered);

async fn an_edited_copy_of_a_dead_message_is_delivered(ground: TestDatabaseConfig) {
    let receiver = Receiver::start(ReplyMode::Rejects).await;
    let sink = format!("[queues.mail.sink]\n{}", receiver.sink());
    let fixture = BrowserFixture::on(ground, &sink).await;
    let browser = &fixture.browser;
    let message = json!({"payload": {"to": "adda"}, "group": "letters"});
    let id = fixture.enqueue("mail", message.clone()).await;
    let next = fixture.enqueue("mail", message).await;
    eventually("it is dead", SOON, async || fixture.state_of(id) == "dead").await;
    receiver.set(ReplyMode::Takes(Duration::ZERO));

    let path = format!("/ui/messages/{id}");
    fixture.go(&path).await;
    assert!(
        browser.has("svg.span rect.dead").await,
        "a band of its life"
    );
    browser.click("main details summary").await;
    browser.sees("main table", "attempt 1").await;
    browser.sees("#commands ~ .copy pre", "curl").await;
    assert!(browser.has("[data-copy]:not([hidden])").await);
    let neighbour = format!("a[rel=next][href='/ui/messages/{next}']");
    assert!(browser.has(&neighbour).await);

    browser.click("a[href$='/resend']").await;
    fixture.arrives(&format!("{path}/resend")).await;
    fixture.is_fit().await;
    browser.write("#edit-reason", "a typing mistake").await;
    browser.click("form[action$='/edit'] button").await;
    let asked = "document.querySelector('#payload') !== null";
    browser
        .until("the payload is a field", asked, json!([]))
        .await;
    fixture.is_fit().await;
    let edit = "const field = document.querySelector('#payload');\
                field.value = field.value.replace('adda', 'ada');";
    browser.script(edit, json!([])).await;
    browser.click("form[action$='/resend'] button").await;
    browser.sees(".flash", "Sent again").await;
    browser.sees(".sentence .mark", "delivered").await;
    browser.click(&format!(".facts a[href='{path}']")).await;
    fixture.arrives(&path).await;
    browser.sees("main", "a typing mistake").await;
    browser.sees(".timeline a", "Show message").await;
    assert_eq!(fixture.state_of(id), "dead");
    fixture.is_fit().await;
    fixture.is_quiet().await;
    fixture.service.stop().await;
}

#[tokio::test]
async fn a_schedule_is_run_and_paused() {
    let ground = TestDatabaseConfig::sqlite();
    let fixture = BrowserFixture::on(ground, "[queues.mail]\n").await;
    let add = "schedules add daily --queue mail --payload 1 --reason x --cron";
    let add = add.split(' ').chain(["0 8 * * *"]);
    fixture.consign.run(add).expect(0);
    let browser = &fixture.browser;
    fixture.go("/ui/schedules").await;
    browser.click("a[href='/ui/schedules/daily']").await;
    fixture.arrives("/ui/schedules/daily").await;
    browser.write("#run-reason", "today as well").await;
    browser.click("form[action$='/run'] button").await;
    browser.sees(".flash", "Enqueued a message").await;
    browser.write("#pause-reason", "holidays").await;
    browser.click("form[action$='/pause'] button").await;
    browser.sees(".head .mark", "paused").await;
    fixture.is_fit().await;
    fixture.is_quiet().await;
    fixture.service.stop().await;
}
