//! An outage: from the overview to its end.

use consign_kernel::{NewMessage, Outcome};
use consign_testkit::eventually;
use serde_json::json;

use super::{BrowserFixture, TestDatabaseConfig, on_stores};
use crate::{
    service::{SOON, unfinished},
    support::{queue, work},
};

on_stores!(an_outage_is_found_by_its_cause_and_ended_from_the_overview);

const DEAD: usize = 500;
const CAUSE: &str = ".problems a[href='/ui/dead?queue=mail&code=http_503']";

/// 500 groups whose heads are dead, and a message behind one of them. Returns the first three dead.
async fn broken(ground: &TestDatabaseConfig) -> Vec<i64> {
    let consign = &ground.consign;
    let ordered = [
        "queues",
        "set",
        "mail",
        "--ordered",
        "true",
        "--on-dead",
        "block",
    ];
    consign.run(ordered).expect(0);
    let store = consign.store().await;
    let message = |n: usize| {
        let group = format!("customer-{}", n % DEAD);
        NewMessage::new(queue("mail"), json!(n)).with_group(group)
    };
    let messages: Vec<NewMessage> = (0..=DEAD).map(message).collect();
    let receipts = store.enqueue(&messages).await.unwrap();
    work(&*store, &queue("mail"), Outcome::Dead, "http_503").await;
    receipts[..3].iter().map(|receipt| receipt.id.0).collect()
}

async fn an_outage_is_found_by_its_cause_and_ended_from_the_overview(ground: TestDatabaseConfig) {
    let bad = broken(&ground).await;
    let fixture = BrowserFixture::on(ground, "[queues.mail.sink]\nkind = \"discard\"\n").await;
    let browser = &fixture.browser;

    fixture.go("/").await;
    let words = "500 messages dead with http_503, 500 of them in the last 15 min";
    browser.sees(CAUSE, words).await;
    browser
        .sees(".problems", "500 groups wait behind a dead message")
        .await;
    browser.sees(".problems", "getting worse").await;
    fixture.is_fit().await;
    for id in &bad {
        fixture.go(&format!("/ui/messages/{id}")).await;
        browser
            .write("#discard-reason", "its address is gone")
            .await;
        browser.click("form[action$='/discard'] button").await;
        browser.sees(".flash", "Discarded").await;
    }
    // Three clicks from the overview: the cause, the preview, the start.
    fixture.go("/").await;
    browser.sees(CAUSE, "497 messages dead").await;
    browser.click(CAUSE).await;
    fixture.arrives("/ui/dead").await;
    browser.sees("tr[data-row]", "the sink said http_503").await;
    browser
        .click("form[action='/ui/dead/preview'] button")
        .await;
    browser
        .sees(".sentence", "497 dead message(s) would be requeued")
        .await;
    browser.write("#reason", "the receiver is back").await;
    browser.click("form[action='/ui/redrives'] button").await;
    fixture.arrives("/ui/redrives/1").await;
    browser.sees(".sentence", "497 of 497 requeued").await;
    eventually("all groups go on", SOON, async || {
        unfinished(&fixture.consign, "mail") == 0
    })
    .await;

    fixture.go("/").await;
    browser.sees(".well", "All is well").await;
    fixture.is_fit().await;
    fixture.go("/?window=7d").await;
    browser.sees(".charts", "Delivered a minute").await;
    fixture.is_fit().await;
    fixture.is_quiet().await;
    fixture.service.stop().await;
}
