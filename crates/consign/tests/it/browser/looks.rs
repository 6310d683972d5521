//! Every page, on a desk and in a hand.

use consign_kernel::Outcome;
use consign_testkit::Browser;
use serde_json::{Value, json};

use super::Desk;
use crate::support::{Consign, lane, work};

const PAGES: [&str; 13] = [
    "/",
    "/?window=24h",
    "/ui/lanes/mail",
    "/ui/lanes/mail?state=dead",
    "/ui/lanes/payments",
    "/ui/messages",
    "/ui/messages/1",
    "/ui/messages/2",
    "/ui/leases",
    "/ui/dead",
    "/ui/dead/preview?lane=mail",
    "/ui/audit",
    "/ui/memory",
];

/// A dead message, a held one and one that somebody works on, with texts that do not break.
async fn filled() -> Desk {
    let consign = Consign::new();
    consign.run(["lanes", "set", "mail"]).expect(0);
    let desk = Desk::on(consign, "").await;
    let long = "k".repeat(200);
    for number in 1..=3 {
        let key = format!("{long}{number}");
        let headers = json!({long.as_str(): long});
        let message = json!({"payload": long, "key": key, "headers": headers});
        desk.enqueue("mail", message).await;
        if number == 1 {
            let store = desk.consign.store().await;
            work(&*store, &lane("mail"), Outcome::Dead, &"c".repeat(60)).await;
        }
    }
    let reason = json!({"reason": long});
    desk.post("/v1/messages/2/hold", reason).await;
    let owner = "o".repeat(100);
    let claim = json!({"lane": "mail", "owner": owner, "limit": 1});
    desk.post("/v1/claims", claim).await;
    desk
}

#[tokio::test]
async fn no_page_complains_and_the_theme_is_kept() {
    let desk = filled().await;
    let browser = &desk.browser;
    for path in PAGES {
        desk.go(path).await;
        assert!(browser.has("main h1").await, "{path} has a heading");
        desk.is_quiet().await;
    }
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
        assert_eq!(width, 390, "{path}");
    }
    assert_eq!(phone.console().await, Vec::<String>::new());
    drop(phone);
    desk.service.stop().await;
}
