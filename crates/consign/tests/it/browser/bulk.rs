//! Several messages at once, after an outage: found by their cause, requeued and discarded.

use std::time::Duration;

use consign_testkit::{Browser, eventually};
use serde_json::{Value, json};

use super::{BrowserFixture, TestDatabaseConfig, on_stores};
use crate::{
    receiver::{Receiver, ReplyMode},
    service::SOON,
};

on_stores!(bad_ones_are_discarded_the_rest_is_requeued_and_the_group_goes_on);

const DEAD: usize = 6;

/// A queue whose receiver rejects everything, and dead messages in it; the first three are bad.
async fn outage(receiver: &Receiver, ground: TestDatabaseConfig) -> (BrowserFixture, Vec<i64>) {
    let settings = "[queues.mail]\nordered = true\non_dead = \"continue\"\n[queues.mail.sink]\n";
    let settings = format!("{settings}{}", receiver.sink());
    let fixture = BrowserFixture::on(ground, &settings).await;
    let mut ids = Vec::new();
    for number in 0..DEAD {
        let key = format!("invoice-11{number:02}");
        let message = json!({"payload": number, "key": key, "group": "ada"});
        ids.push(fixture.enqueue("mail", message).await);
    }
    eventually("all are dead", SOON, async || {
        let shown = fixture.consign.json(["queues", "show", "mail"]);
        shown["counts"]["dead"] == DEAD
    })
    .await;
    receiver.set(ReplyMode::Takes(Duration::ZERO));
    (fixture, ids)
}

impl BrowserFixture {
    async fn picks(&self, id: i64) {
        let pick = format!(".pick input[value='{id}']");
        self.browser.sees("tr[data-row]", &id.to_string()).await;
        // Not below the bar.
        let scroll = "document.querySelector(arguments[0]).scrollIntoView({block: 'center'})";
        self.browser.script(scroll, json!([pick])).await;
        self.browser.click(&pick).await;
    }

    /// Confirms the action that is previewed.
    async fn confirms(&self, reason: &str, done: &str) {
        self.arrives("/ui/bulk").await;
        self.browser.write("#reason", reason).await;
        self.browser
            .click("form[action='/ui/bulk/run'] button")
            .await;
        self.browser.sees(".flash", done).await;
    }
}

async fn bad_ones_are_discarded_the_rest_is_requeued_and_the_group_goes_on(
    ground: TestDatabaseConfig,
) {
    let receiver = Receiver::start(ReplyMode::Rejects).await;
    let (fixture, ids) = outage(&receiver, ground).await;
    let browser = &fixture.browser;

    // What is visible is found: the code, and the beginning of a key.
    for word in ["http_400", "invoice-11"] {
        fixture.go(&format!("/ui/messages?q={word}")).await;
        browser.sees("tr[data-row]", "invoice-1100").await;
    }
    fixture.go("/ui/dead?queue=mail&key_prefix=invoice-").await;
    for id in &ids[..3] {
        fixture.picks(*id).await;
    }
    browser.sees("[data-picked]", "3 messages selected").await;
    browser.click("button[value=discard]").await;
    browser
        .sees(".sentence", "3 selected messages would be discarded")
        .await;
    fixture.is_fit().await;
    fixture.confirms("test data", "3 messages discarded.").await;
    fixture.is_fit().await;
    // Loading it again does not ask whether to send the form once more.
    fixture.arrives("/ui/dead").await;
    assert!(browser.url().await.contains("key_prefix=invoice-"));

    fixture.go("/ui/dead?queue=mail").await;
    browser.click("[data-all]").await;
    browser.sees("[data-picked]", "3 messages selected").await;
    browser.click("button[value=requeue]").await;
    fixture
        .confirms("the receiver is back", "3 messages requeued.")
        .await;
    eventually("the rest is delivered", SOON, async || {
        ids[3..]
            .iter()
            .all(|id| fixture.state_of(*id) == "delivered")
    })
    .await;
    for id in &ids[..3] {
        assert_eq!(fixture.state_of(*id), "discarded");
    }
    fixture.go("/ui/dead").await;
    browser.sees(".well", "None.").await;
    fixture.is_quiet().await;
    fixture.service.stop().await;
}

#[tokio::test]
async fn messages_are_selected_and_requeued_with_keys_alone() {
    let receiver = Receiver::start(ReplyMode::Rejects).await;
    let (fixture, ids) = outage(&receiver, TestDatabaseConfig::sqlite()).await;
    let browser = &fixture.browser;
    fixture.go("/ui/queues/mail?state=dead").await;
    browser.sees("[data-live-state]", "live").await;
    for id in ids.iter().rev().take(2) {
        let row = format!("tr[data-row] a[href='/ui/messages/{id}']");
        fixture.walk("j", &row).await;
        browser.press("x").await;
    }
    browser.sees("[data-picked]", "2 messages selected").await;
    // What is selected stays, whatever happens meanwhile.
    browser.press("xx").await;
    browser.sees("[data-picked]", "2 messages selected").await;
    browser.press("s").await;
    let is_at = "document.activeElement.value === 'requeue'";
    browser
        .until("the bar has the focus", is_at, json!([]))
        .await;
    browser.press(Browser::ENTER).await;
    fixture.arrives("/ui/bulk").await;
    let is_at = "document.activeElement.id === 'reason'";
    browser
        .until("the reason has the focus", is_at, json!([]))
        .await;
    browser.press("back again").await;
    browser.press(Browser::ENTER).await;
    browser.sees(".flash", "2 messages requeued.").await;
    fixture.is_quiet().await;
    fixture.service.stop().await;
}

#[tokio::test]
async fn messages_are_held_and_put_back_without_scripts() {
    let browser = Browser::without_scripts().await;
    let configuration = "[queues.mail]\n";
    let ground = TestDatabaseConfig::sqlite();
    let fixture = BrowserFixture::with(browser, ground, configuration).await;
    let browser = &fixture.browser;
    let mut ids = Vec::new();
    for number in 0..3 {
        ids.push(fixture.enqueue("mail", json!({"payload": number})).await);
    }
    for (action, state) in [("hold", "held"), ("unhold", "ready")] {
        fixture.go("/ui/messages?queue=mail").await;
        for id in &ids[1..] {
            fixture.picks(*id).await;
        }
        browser.click(&format!("button[value={action}]")).await;
        browser.sees(".sentence", "2 selected messages").await;
        browser.write("#reason", "wait").await;
        browser.click("form[action='/ui/bulk/run'] button").await;
        browser.sees(".flash", "2 messages").await;
        assert_eq!(fixture.state_of(ids[0]), "ready");
        assert_eq!(fixture.state_of(ids[2]), state);
    }
    // Times are in UTC where no script writes them in the viewer's zone.
    fixture.go("/ui/messages").await;
    browser.sees("time .at", "UTC").await;
    fixture.is_quiet().await;
    fixture.service.stop().await;
}

#[tokio::test]
async fn on_a_phone_a_queue_is_paused_and_messages_are_discarded() {
    let receiver = Receiver::start(ReplyMode::Rejects).await;
    let (fixture, ids) = outage(&receiver, TestDatabaseConfig::sqlite()).await;
    let phone = Browser::phone().await;
    phone.open(&fixture.url("/ui/queues/mail?state=dead")).await;
    let top = "return document.querySelector('form[action$=\"/pause\"] button')\
               .getBoundingClientRect().bottom < document.querySelector('tr[data-row]')\
               .getBoundingClientRect().top";
    assert_eq!(phone.script(top, json!([])).await, true, "above the rows");
    phone
        .click(&format!(".pick input[value='{}']", ids[DEAD - 1]))
        .await;
    phone.sees("[data-picked]", "1 message selected").await;
    let bar = "const it = document.querySelector('.bulk').getBoundingClientRect();\
               return it.top < innerHeight && it.bottom <= innerHeight";
    let list = "document.querySelector('tr[data-row]').scrollIntoView({block: 'center'})";
    phone.script(list, json!([])).await;
    assert_eq!(phone.script(bar, json!([])).await, true, "within reach");
    phone.click("button[value=discard]").await;
    phone.sees(".sentence", "would be discarded").await;
    let width = "return Math.max(document.documentElement.scrollWidth, innerWidth)";
    assert_eq!(phone.script(width, json!([])).await, Value::from(360));
    phone.write("#reason", "bad").await;
    phone.click("form[action='/ui/bulk/run'] button").await;
    phone.sees(".flash", "1 message discarded.").await;
    assert_eq!(phone.console().await, Vec::<String>::new());
    drop(phone);
    fixture.service.stop().await;
}

#[tokio::test]
async fn times_are_in_the_zone_of_the_viewer() {
    let fixture = BrowserFixture::new("[queues.mail]\n").await;
    let browser = &fixture.browser;
    fixture.enqueue("mail", json!({"payload": 1})).await;
    fixture.go("/ui/messages").await;
    browser.sees("time", ":").await;
    let local = "const time = document.querySelector('time');\
                 const at = new Date(time.dateTime);\
                 const two = (n) => String(n).padStart(2, '0');\
                 return time.querySelector('.at').textContent === \
                 [at.getHours(), at.getMinutes(), at.getSeconds()].map(two).join(':')";
    assert_eq!(browser.script(local, json!([])).await, true);
    fixture.is_quiet().await;
    fixture.service.stop().await;
}
