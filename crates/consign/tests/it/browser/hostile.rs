//! Whatever is in a message, a browser shows it and runs none of it.

use serde_json::{Value, json};

use super::BrowserFixture;

const EVIL: &str = "\"'><script>window.pwned=1</script><img src=x onerror=window.pwned=1>\
                    <svg onload=window.pwned=1></svg>{{7*7}}&lt;";

/// What a person must be able to read of it.
const SEEN: &str = "<script>window.pwned=1</script><img src=x onerror=window.pwned=1>";

impl BrowserFixture {
    /// Fails if something of a message became part of the page.
    async fn is_harmless(&self) {
        let look = "return [window.pwned === undefined, \
                    document.querySelectorAll('img, script:not([src]), [onerror], [onload]').length]";
        let found = self.browser.script(look, json!([])).await;
        assert_eq!(found, json!([true, 0]), "{}", self.browser.url().await);
        // The content security policy would have reported what it blocked.
        self.is_quiet().await;
    }

    async fn claim(&self) -> Value {
        let claim = json!({"queue": "post", "owner": EVIL, "limit": 1});
        let lease = self.post("/v1/claims", claim).await;
        lease["token"].clone()
    }
}

#[tokio::test]
async fn html_and_script_in_every_field_is_text() {
    let fixture = BrowserFixture::new("[queues.post]\n").await;
    let browser = &fixture.browser;
    let message = json!({
        "payload": {EVIL: EVIL, "to": "nobody-else"}, "key": EVIL, "group": EVIL, "headers": {EVIL: EVIL},
    });
    let id = fixture.enqueue("post", message).await;
    let token = fixture.claim().await;
    let path = format!("/ui/messages/{id}");
    fixture.go(&path).await;
    fixture.remember().await;

    // What comes later goes through the script of the page.
    let report = json!({
        "id": id, "outcome": "dead", "code": EVIL, "detail": EVIL, "result": {EVIL: EVIL},
    });
    let settle = format!("/v1/leases/{}/settle", token.as_str().unwrap());
    fixture.post(&settle, json!({"reports": [report]})).await;
    browser.sees(".sentence .mark", "dead").await;
    browser.sees(".timeline .detail", SEEN).await;
    fixture.is_harmless().await;

    fixture.go(&path).await;
    for place in [
        ".facts",
        ".sentence",
        ".timeline .detail",
        "section[aria-labelledby=headers]",
    ] {
        browser.sees(place, SEEN).await;
    }
    let text = browser.script("return document.body.innerHTML", json!([]));
    assert!(!text.await.to_string().contains("nobody-else"), "hidden");
    browser.write("#reveal-reason", EVIL).await;
    browser.click("form[action$='/reveal'] button").await;
    browser.sees("pre[data-revealed]", SEEN).await;
    browser.sees("pre[data-revealed]", "nobody-else").await;
    fixture.is_harmless().await;

    let reason = json!({"reason": EVIL});
    fixture.post("/v1/queues/post/pause", reason).await;
    fixture
        .post("/v1/redrives", json!({"code": EVIL, "reason": EVIL}))
        .await;
    for path in [
        "/ui/dead",
        "/ui/redrives/1",
        "/ui/audit",
        "/ui/queues/post",
        "/ui/messages",
    ] {
        fixture.go(path).await;
        browser.sees("main", SEEN).await;
        fixture.is_harmless().await;
    }
    for path in ["/", "/ui/processes", &path] {
        fixture.go(path).await;
        fixture.is_harmless().await;
    }
    fixture.service.stop().await;
}
