//! Many at once.

use consign_kernel::Outcome;
use consign_testkit::eventually;
use serde_json::json;

use super::{BrowserFixture, TestDatabaseConfig, on_stores};
use crate::{
    service::{SOON, fill, unfinished},
    support::{queue, work},
};

on_stores!(five_hundred_dead_are_previewed_and_redriven_to_the_end);

const DEAD: usize = 500;

async fn five_hundred_dead_are_previewed_and_redriven_to_the_end(ground: TestDatabaseConfig) {
    let consign = &ground.consign;
    consign.run(["queues", "set", "mail"]).expect(0);
    fill(consign, "mail", DEAD);
    let store = consign.store().await;
    work(&*store, &queue("mail"), Outcome::Dead, "no_use").await;
    drop(store);
    let fixture = BrowserFixture::on(ground, "[queues.mail.sink]\nkind = \"discard\"\n").await;
    let browser = &fixture.browser;

    fixture.go("/ui/dead").await;
    // Slow enough to be watched.
    browser.write("#rate", "120").await;
    browser
        .click("form[action='/ui/dead/preview'] button")
        .await;
    let words = "500 dead message(s) would be requeued";
    browser.sees(".sentence", words).await;
    browser.write("#reason", "the sink was fixed").await;
    browser.click("form[action='/ui/redrives'] button").await;

    fixture.arrives("/ui/redrives/1").await;
    browser.sees(".flash", "Started").await;
    fixture.remember().await;
    let moves = "(it => it.value > 0 && it.value < it.max)(document.querySelector('progress'))";
    browser.until("some are requeued", moves, json!([])).await;
    fixture.remembers().await;
    browser.sees(".sentence", "500 of 500 requeued").await;
    browser.sees(".sentence .mark", "done").await;
    eventually("all are delivered", SOON, async || {
        unfinished(&fixture.consign, "mail") == 0
    })
    .await;
    let shown = fixture.consign.json(["queues", "show", "mail"]);
    assert_eq!(shown["counts"]["dead"], 0, "{shown}");
    fixture.go("/ui/dead").await;
    browser.sees(".well", "None.").await;
    browser.sees("tr[data-row]", "500 of 500").await;
    fixture.is_quiet().await;
    fixture.service.stop().await;
}
