//! The main flow without a mouse.

use std::time::Duration;

use consign_testkit::{Browser, eventually};
use serde_json::json;

use super::BrowserFixture;
use crate::{
    receiver::{Receiver, ReplyMode},
    service::SOON,
};

/// More than any page has of what can have the focus.
const STEPS_MAX: usize = 80;

impl BrowserFixture {
    /// Whether the focus is on an element that matches.
    async fn is_at(&self, css: &str) -> bool {
        let look = "return document.activeElement.matches(arguments[0])";
        self.browser.script(look, json!([css])).await == true
    }

    /// Presses a key until the focus is there, which can be seen at every step.
    pub(super) async fn walk(&self, key: &str, css: &str) {
        for _ in 0..STEPS_MAX {
            self.browser.press(key).await;
            let outline = "return getComputedStyle(document.activeElement).outlineStyle";
            let outline = self.browser.script(outline, json!([])).await;
            assert_ne!(outline, "none", "the focus is not visible");
            if self.is_at(css).await {
                return;
            }
        }
        panic!("{key:?} does not lead to {css}");
    }

    /// Presses keys until they have led to a page: one that is just loaded again takes none.
    async fn leads_to(&self, keys: &str, path: &str) {
        let end = self.url(path);
        eventually(path, SOON, async || {
            self.browser.press(keys).await;
            self.browser.url().await == end
        })
        .await;
        self.arrives(path).await;
    }
}

#[tokio::test]
async fn a_dead_message_is_found_and_requeued_with_keys_alone() {
    let receiver = Receiver::start(ReplyMode::Rejects).await;
    let fixture = BrowserFixture::new(&format!("[queues.mail.sink]\n{}", receiver.sink())).await;
    let browser = &fixture.browser;
    let id = fixture.enqueue("mail", json!({"payload": 1})).await;
    let path = format!("/ui/messages/{id}");
    eventually("it is dead", SOON, async || fixture.state_of(id) == "dead").await;
    receiver.set(ReplyMode::Takes(Duration::ZERO));

    fixture.go("/").await;
    fixture.walk(Browser::TAB, "a.skip").await;
    browser.press(Browser::ENTER).await;
    let skipped = "document.activeElement.id === 'main'";
    browser
        .until("the menu is skipped", skipped, json!([]))
        .await;
    browser.press("?").await;
    let is_open = "document.querySelector('dialog').open";
    browser.until("the help is shown", is_open, json!([])).await;
    browser.sees("dialog", "dead letters").await;
    browser.press(Browser::ESCAPE).await;
    let is_closed = "!document.querySelector('dialog').open";
    browser
        .until("the help is gone", is_closed, json!([]))
        .await;

    fixture.walk("j", "a[href='/ui/queues/mail']").await;
    browser.press(Browser::ENTER).await;
    fixture.arrives("/ui/queues/mail").await;
    fixture.walk("j", &format!("a[href='{path}']")).await;
    browser.press(Browser::ENTER).await;
    fixture.arrives(&path).await;
    fixture.walk(Browser::TAB, "#requeue-reason").await;
    // Shortcuts are letters here.
    browser.press("going again? j/k").await;
    browser.press(Browser::ENTER).await;
    browser.sees(".flash", "Requeued").await;
    browser.sees(".sentence .mark", "delivered").await;
    browser.sees("main", "going again? j/k").await;

    fixture.leads_to("gd", "/ui/dead").await;
    browser.sees(".well", "None.").await;
    fixture.leads_to("go", "/").await;
    browser.press("/").await;
    assert!(
        fixture.is_at("#find").await,
        "the slash leads to the search"
    );
    browser.press(&format!("{id}{}", Browser::ENTER)).await;
    fixture.arrives("/ui/messages").await;
    fixture.walk("j", &format!("a[href='{path}']")).await;
    fixture.is_quiet().await;
    fixture.service.stop().await;
}

#[tokio::test]
async fn shortcuts_can_be_switched_off_for_good() {
    let fixture = BrowserFixture::new("[queues.mail]\n").await;
    let browser = &fixture.browser;
    fixture.go("/").await;
    browser.press("?").await;
    assert!(browser.has("dialog[open]").await);
    // Behind the help nothing moves.
    browser.press("j").await;
    assert!(!fixture.is_at("tr[data-row] a").await);
    browser.press(Browser::ESCAPE).await;
    fixture.walk(Browser::TAB, "[data-keys-switch]").await;
    browser.press(" ").await;
    browser.sees("[data-keys-switch]", "off").await;
    for _ in 0..2 {
        browser.press("?").await;
        browser.press("j").await;
        browser.press("/").await;
        assert!(!browser.has("dialog[open]").await);
        assert!(!fixture.is_at("tr[data-row] a, #find").await);
        browser.reload().await;
        browser.sees("[data-keys-switch]", "off").await;
    }
    browser.click("[data-keys-switch]").await;
    browser.press("/").await;
    assert!(fixture.is_at("#find").await, "and on again");
    fixture.is_quiet().await;
    fixture.service.stop().await;
}
