//! Every page, on a desk and in a hand.

use consign_kernel::Outcome;
use consign_testkit::Browser;
use serde_json::{Value, json};

use super::{Desk, Ground};
use crate::support::{queue, work};

const PAGES: [&str; 16] = [
    "/",
    "/?window=24h",
    "/ui/queues/mail",
    "/ui/queues/mail?state=dead",
    "/ui/queues/payments",
    "/ui/messages",
    "/ui/messages/1",
    "/ui/messages/2",
    "/ui/leases",
    "/ui/dead",
    "/ui/dead/preview?queue=mail",
    "/ui/redrives/1",
    "/ui/audit",
    "/ui/memory",
    "/ui/memory/reconcile",
    "/ui/messages?q=nothing",
];

/// A dead message, a held one and one that somebody works on, with texts that do not break.
async fn filled() -> Desk {
    let ground = Ground::sqlite();
    ground.consign.run(["queues", "set", "mail"]).expect(0);
    let desk = Desk::on(ground, "").await;
    let long = "k".repeat(200);
    for number in 1..=3 {
        let key = format!("{long}{number}");
        let headers = json!({long.as_str(): long});
        let message = json!({"payload": long, "key": key, "headers": headers});
        desk.enqueue("mail", message).await;
        if number == 1 {
            let store = desk.consign.store().await;
            work(&*store, &queue("mail"), Outcome::Dead, &"c".repeat(60)).await;
        }
    }
    let reason = json!({"reason": long});
    desk.post("/v1/messages/2/hold", reason).await;
    let owner = "o".repeat(100);
    let claim = json!({"queue": "mail", "owner": owner, "limit": 1});
    desk.post("/v1/claims", claim).await;
    // One that finds nothing leaves the dead one where it is.
    let redrive = json!({"code": "another", "reason": "x"});
    desk.post("/v1/redrives", redrive).await;
    desk
}

impl Desk {
    /// Fails if the page is not for everybody: names, labels, headings, and colours that can be
    /// told apart in both themes.
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
    let desk = filled().await;
    let browser = &desk.browser;
    for path in PAGES {
        desk.go(path).await;
        desk.is_quiet().await;
        desk.is_fit().await;
    }
    desk.go("/ui/messages/1").await;
    browser.write("#reveal-reason", "to see it").await;
    browser.click("form[action$='/reveal'] button").await;
    browser.sees("pre[data-revealed]", "kkk").await;
    desk.is_fit().await;
    desk.go("/").await;
    browser.press("?").await;
    browser.sees("dialog", "overview").await;
    desk.is_fit().await;
    desk.is_quiet().await;
    // A page that is not there is no error of the browser's.
    desk.go("/ui/messages/999").await;
    browser.sees("main", "no_such_message").await;
    desk.is_fit().await;
    drop(browser.console().await);
    desk.go("/").await;
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
    desk.go("/ui/leases").await;
    assert_eq!(browser.script(look, json!([])).await, seen[1], "kept");
    desk.is_quiet().await;
    desk.service.stop().await;
}

#[tokio::test]
async fn no_page_is_wider_than_a_phone() {
    let desk = filled().await;
    let phone = Browser::phone().await;
    for path in PAGES {
        phone.open(&desk.url(path)).await;
        let width = "return Math.max(document.documentElement.scrollWidth, innerWidth)";
        let width = phone.script(width, json!([])).await;
        assert_eq!(width, 360, "{path}");
    }
    assert_eq!(phone.console().await, Vec::<String>::new());
    drop(phone);
    desk.service.stop().await;
}
