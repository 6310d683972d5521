//! Every page, on a desk and in a hand.

use consign_kernel::Outcome;
use consign_testkit::Browser;
use serde_json::{Value, json};

use super::{BrowserFixture, TestDatabaseConfig};
use crate::support::{queue, work};

const PAGES: [&str; 29] = [
    "/",
    "/?window=24h",
    "/?window=7d",
    "/ui/problems?problem=held%3Amail",
    "/ui/queues",
    "/ui/queues/mail",
    "/ui/queues/mail?state=dead",
    "/ui/queues/mail?group=nobody&since=7d",
    "/ui/bulk?action=requeue&id=1&id=2&id=99",
    "/ui/bulk?action=hold",
    "/ui/messages/1/resend",
    "/ui/schedules",
    "/ui/schedules/daily",
    "/ui/dead?q=kkk&since=1d",
    "/ui/dead?queue=mail&code=nothing",
    "/ui/messages?state=dead&group=nobody",
    "/ui/queues/payments",
    "/ui/messages",
    "/ui/messages/1",
    "/ui/messages/2",
    "/ui/processes",
    "/ui/history",
    "/ui/dead",
    "/ui/dead/preview?queue=mail",
    "/ui/redrives/1",
    "/ui/audit",
    "/ui/memory",
    "/ui/memory/reconcile",
    "/ui/messages?q=nothing",
];

/// A dead message, a held one and a leased one, with texts that do not break.
async fn filled() -> BrowserFixture {
    let ground = TestDatabaseConfig::sqlite();
    ground.consign.run(["queues", "set", "mail"]).expect(0);
    let fixture = BrowserFixture::on(ground, "").await;
    let long = "k".repeat(200);
    for number in 1..=3 {
        let key = format!("{long}{number}");
        let headers = json!({long.as_str(): long});
        let message = json!({"payload": long, "key": key, "headers": headers});
        fixture.enqueue("mail", message).await;
        if number == 1 {
            let store = fixture.consign.store().await;
            work(&*store, &queue("mail"), Outcome::Dead, &"c".repeat(60)).await;
        }
    }
    let reason = json!({"reason": long});
    fixture.post("/v1/messages/2/hold", reason).await;
    let owner = "o".repeat(100);
    let claim = json!({"queue": "mail", "owner": owner, "limit": 1});
    fixture.post("/v1/claims", claim).await;
    let add = "schedules add daily --queue mail --payload 1 --reason x --cron";
    let add = add.split(' ').chain(["0 8 * * *"]);
    fixture.consign.run(add).expect(0);
    // One that finds nothing leaves the dead one where it is.
    let redrive = json!({"code": "another", "reason": "x"});
    fixture.post("/v1/redrives", redrive).await;
    fixture
}

impl BrowserFixture {
    /// Fails if the page is not accessible: names, labels, headings, and colours that can be
    /// distinguished in both themes.
    pub(super) async fn is_fit(&self) {
        for theme in ["light", "dark"] {
            let dress = "document.documentElement.dataset.theme = arguments[0]";
            self.browser.script(dress, json!([theme])).await;
            let wrong = self.browser.script(include_str!("fit.js"), json!([])).await;
            let url = self.browser.url().await;
            assert_eq!(wrong, json!([]), "{url}, {theme}: {wrong:#}");
        }
    }
}

#[tokio::test]
async fn no_page_complains_and_the_theme_is_kept() {
    let fixture = filled().await;
    let browser = &fixture.browser;
    for path in PAGES {
        fixture.go(path).await;
        fixture.is_quiet().await;
        fixture.is_fit().await;
    }
    fixture.go("/ui/messages/1").await;
    browser.write("#reveal-reason", "to see it").await;
    browser.click("form[action$='/reveal'] button").await;
    browser.sees("pre[data-revealed]", "kkk").await;
    fixture.is_fit().await;
    fixture.go("/").await;
    browser.press("?").await;
    browser.sees("dialog", "overview").await;
    fixture.is_fit().await;
    fixture.is_quiet().await;
    // A page that is not there is no error of the browser's.
    fixture.go("/ui/messages/999").await;
    browser.sees("main", "no_such_message").await;
    fixture.is_fit().await;
    drop(browser.console().await);
    fixture.go("/").await;
    let look = "return [document.documentElement.dataset.theme ?? null, \
                getComputedStyle(document.body).backgroundColor]";
    let mut seen: Vec<Value> = Vec::new();
    for theme in ["light", "dark"] {
        browser.click("[data-theme-switch]").await;
        browser.sees("[data-theme-switch]", theme).await;
        let now = browser.script(look, json!([])).await;
        assert_eq!(now[0], theme);
        seen.push(now);
    }
    assert_ne!(seen[0][1], seen[1][1], "dark is not light");
    fixture.go("/ui/processes").await;
    assert_eq!(browser.script(look, json!([])).await, seen[1], "kept");
    fixture.is_quiet().await;
    fixture.service.stop().await;
}

#[tokio::test]
async fn no_page_is_wider_than_a_phone() {
    let fixture = filled().await;
    let phone = Browser::phone().await;
    for path in PAGES {
        phone.open(&fixture.url(path)).await;
        let width = "return Math.max(document.documentElement.scrollWidth, innerWidth)";
        let width = phone.script(width, json!([])).await;
        assert_eq!(width, 360, "{path}");
    }
    assert_eq!(phone.console().await, Vec::<String>::new());
    drop(phone);
    fixture.service.stop().await;
}
