//! The main flow in a browser without scripts.

use std::time::Duration;

use consign_testkit::Browser;
use serde_json::json;

use super::{BrowserFixture, TestDatabaseConfig};
use crate::receiver::{Receiver, ReplyMode};

#[tokio::test]
async fn a_message_is_found_requeued_and_looked_at_without_scripts() {
    let receiver = Receiver::start(ReplyMode::Rejects).await;
    let sink = format!("[queues.mail.sink]\n{}", receiver.sink());
    let browser = Browser::without_scripts().await;
    let fixture = BrowserFixture::with(browser, TestDatabaseConfig::sqlite(), &sink).await;
    let browser = &fixture.browser;
    let letter = json!({"payload": {"to": "ada"}, "key": "letter-1"});
    let id = fixture.enqueue("mail", letter).await;
    let path = format!("/ui/messages/{id}");

    fixture.go("/").await;
    let switch = "return document.querySelector('[data-theme-switch]').hidden";
    assert_eq!(browser.script(switch, json!([])).await, true, "no script");
    assert!(browser.has("meta[http-equiv=refresh]").await);
    let find = "return getComputedStyle(document.querySelector('.find')).display";
    assert_eq!(
        browser.script(find, json!([])).await,
        "none",
        "nothing is typed where the page goes away"
    );
    let dead = "tr:has(a[href='/ui/queues/mail']) td[data-label=Dead]";
    fixture.shows(dead, "1").await;
    browser.click("main a[href='/ui/queues/mail']").await;
    fixture.arrives("/ui/queues/mail").await;
    assert!(
        !browser.has("meta[http-equiv=refresh]").await,
        "it has forms"
    );
    assert_ne!(browser.script(find, json!([])).await, "none");
    browser.write("#find", "letter-1").await;
    browser.click(".find button").await;
    fixture.arrives("/ui/messages").await;
    browser.click(&format!("a[href='{path}']")).await;
    fixture.arrives(&path).await;
    browser.sees(".sentence", "not tried again until").await;

    receiver.set(ReplyMode::Takes(Duration::ZERO));
    browser.write("#requeue-reason", "it reads again").await;
    browser.click("form[action$='/requeue'] button").await;
    browser.sees(".flash", "Requeued").await;
    browser.click("footer a").await;
    fixture.shows(".sentence .mark", "delivered").await;
    browser.write("#reveal-reason", "ticket 12").await;
    browser.click("form[action$='/reveal'] button").await;
    browser.sees("pre[data-revealed]", "ada").await;
    browser.click("footer a").await;
    fixture.arrives(&path).await;
    browser.sees(".masked", "Hidden").await;
    fixture.go("/ui/audit").await;
    browser.sees("main", "it reads again").await;
    browser.sees("main", "ticket 12").await;
    fixture.is_quiet().await;
    fixture.service.stop().await;
}
