//! Who gets in, for how long, and whose forms count.

use axum::{Router, response::Html, routing::get};
use consign_kernel::Outcome;
use consign_testkit::{eventually, eventually_some};
use serde_json::json;
use tokio::net::TcpListener;

use super::{BrowserFixture, TestDatabaseConfig};
use crate::{
    service::SOON,
    support::{queue, work},
};

const COOKIE: &str = "consign_session_";

/// A service with tokens, and one dead message.
struct LoginFixture {
    fixture: BrowserFixture,
    operator: String,
    auditor: String,
    producer: String,
    /// May operate, but is bound to a tenant.
    tenant: String,
    dead: i64,
}

impl LoginFixture {
    async fn new(server: &str) -> Self {
        let ground = TestDatabaseConfig::sqlite();
        let consign = &ground.consign;
        consign.run(["queues", "set", "default"]).expect(0);
        let dead = consign.enqueue_one().0;
        let store = consign.store().await;
        work(&*store, &queue("default"), Outcome::Dead, "no_use").await;
        drop(store);
        let mut configuration = format!("[server]\n{server}\n");
        let mut token = |name: &str, scope: &str| {
            let made = consign.run(["token", "new", "--name", name, "--scope", scope]);
            let made = made.expect(0);
            let (_, lines) = made.stderr.split_once("\n\n[").unwrap();
            configuration.push_str(&format!("[{lines}\n"));
            made.stdout.trim().to_owned()
        };
        let operator = token("olga", "operator");
        let auditor = token("anton", "auditor");
        let producer = token("paula", "producer");
        let tenant = token("tilda", "operator");
        let bound = "[payments.tenants]\ntilda = \"5f0c2a4e-7d1b-4c3a-9e8f-000000000001\"\n";
        configuration.push_str(bound);
        Self {
            fixture: BrowserFixture::on(ground, &configuration).await,
            operator,
            auditor,
            producer,
            tenant,
            dead,
        }
    }

    /// Fills in the form that is shown.
    async fn enter(&self, token: &str) {
        self.fixture.arrives("/ui/login").await;
        self.fixture.browser.write("#token", token).await;
        self.fixture.browser.click("main button").await;
    }

    fn page(&self) -> String {
        format!("/ui/messages/{}", self.dead)
    }
}

#[tokio::test]
async fn a_login_opens_what_its_token_does() {
    let doors = LoginFixture::new("").await;
    let (fixture, browser) = (&doors.fixture, &doors.fixture.browser);
    let page = doors.page();
    fixture.go(&page).await;
    fixture.arrives("/ui/login").await;
    fixture.is_quiet().await;
    for (token, why) in [
        (
            "consign_wrong",
            "rejects this token: it is not in server.tokens",
        ),
        (&*doors.producer, "lacks the scope"),
        (&*doors.tenant, "bound to a tenant"),
    ] {
        doors.enter(token).await;
        browser.sees(".flash.bad", why).await;
        fixture.is_fit().await;
        assert!(!browser.has("header.top").await, "no access");
    }
    doors.enter(&doors.auditor).await;
    fixture.arrives(&page).await;
    browser.sees(".who .name", "anton").await;
    let scripts = browser.script("return document.cookie", json!([])).await;
    assert_eq!(scripts, "", "scripts do not see the session");
    assert!(!browser.has("form[action$='/requeue']").await);
    let api = "return fetch('/v1/queues').then(answer => answer.status)";
    assert_eq!(browser.script(api, json!([])).await, 401, "for pages only");

    // A button that is not there is made by hand.
    let forge = "const form = document.querySelector('.who form'); form.action = arguments[0]; \
                 const field = document.createElement('input'); field.name = 'reason'; \
                 field.value = 'forged'; form.append(field);";
    let requeue = format!("{page}/requeue");
    browser.script(forge, json!([requeue])).await;
    browser.click(".who form button").await;
    browser.sees("main", "scope_missing").await;
    fixture.is_fit().await;

    fixture.go("/").await;
    browser.click(".who form button").await;
    browser.sees(".flash", "Logged out").await;
    fixture.go(&page).await;
    doors.enter(&doors.operator).await;
    fixture.arrives(&page).await;
    browser.sees(".who .name", "olga").await;
    assert!(browser.has("form[action$='/requeue']").await);
    assert_eq!(fixture.state_of(doors.dead), "dead");
    doors.fixture.service.stop().await;
}

#[tokio::test]
async fn a_form_that_is_not_ours_is_refused() {
    let doors = LoginFixture::new("").await;
    let (fixture, browser) = (&doors.fixture, &doors.fixture.browser);
    let page = doors.page();
    fixture.go(&page).await;
    doors.enter(&doors.operator).await;
    fixture.arrives(&page).await;
    let code = "return document.querySelector('[action$=\"/requeue\"] [name=csrf]').value";
    let code = browser.script(code, json!([])).await;
    let code = code.as_str().unwrap();

    let forge = "document.querySelector('[action$=\"/requeue\"] [name=csrf]').value = arguments[0]";
    browser
        .script(forge, json!([code.replace(&code[..4], "0000")]))
        .await;
    browser.write("#requeue-reason", "forged").await;
    browser.click("form[action$='/requeue'] button").await;
    browser.sees("main", "csrf_mismatch").await;
    fixture.go(&page).await;
    let drop = "document.querySelector('[action$=\"/requeue\"] [name=csrf]').remove()";
    browser.script(drop, json!([])).await;
    let written = "return document.querySelector('#requeue-reason').value";
    assert_eq!(browser.script(written, json!([])).await, "forged", "kept");
    browser.click("form[action$='/requeue'] button").await;
    browser.sees("main", "csrf_mismatch").await;

    // Another port of this machine is another origin, and yet it is sent the cookie. Even the right
    // code does not help.
    let action = fixture.url(&format!("{page}/requeue"));
    let form = format!(
        "<form method=post action=\"{action}\"><input name=csrf value=\"{code}\">\
         <input name=reason value=forged><button>Win a prize</button></form>"
    );
    let other = Router::new().route("/", get(async || Html(form)));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let task = tokio::spawn(async move { axum::serve(listener, other).await.unwrap() });
    browser.open(&format!("http://{address}/")).await;
    browser.click("button").await;
    browser.sees("main", "origin_not_allowed").await;
    task.abort();

    assert_eq!(fixture.state_of(doors.dead), "dead");
    doors.fixture.service.stop().await;
}

#[tokio::test]
async fn a_session_ends_even_if_its_cookie_is_kept() {
    let doors = LoginFixture::new("session_ttl_ms = 4000").await;
    let (fixture, browser) = (&doors.fixture, &doors.fixture.browser);
    // On a busy machine a session may end before it is looked at.
    let (name, cookie) = eventually_some("a session", SOON, async || {
        fixture.go("/ui/login").await;
        doors.enter(&doors.operator).await;
        browser.cookie(COOKIE).await
    })
    .await;
    eventually("the browser has to log in again", SOON, async || {
        fixture.go("/").await;
        browser.url().await.contains("/ui/login")
    })
    .await;

    browser.set_cookie(&name, &cookie).await;
    fixture.go("/ui/audit").await;
    fixture.arrives("/ui/login").await;
    browser.set_cookie(&name, &cookie).await;
    let pause = "return fetch('/ui/queues/default/pause', {method: 'POST', redirect: 'manual', \
                 body: new URLSearchParams({reason: 'late', csrf: 'x'})}).then(it => it.status)";
    assert_eq!(browser.script(pause, json!([])).await, 401);
    let shown = fixture.consign.json(["queues", "show", "default"]);
    assert!(shown["paused_at"].is_null(), "{shown}");
    doors.fixture.service.stop().await;
}

#[tokio::test]
async fn what_was_written_outlives_the_session() {
    let doors = LoginFixture::new("").await;
    let (fixture, browser) = (&doors.fixture, &doors.fixture.browser);
    fixture.go("/ui/queues/default").await;
    doors.enter(&doors.operator).await;
    fixture.arrives("/ui/queues/default").await;
    browser.write("#reason", "three lines of thought").await;
    browser.forget_cookies().await;
    browser.click("form[action$='/pause'] button").await;
    browser.sees("h1", "Your session has ended").await;
    let kept = "document.querySelector('#kept').value === 'three lines of thought'";
    browser.until("it is shown", kept, json!([])).await;
    let shown = fixture.consign.json(["queues", "show", "default"]);
    assert!(shown["paused_at"].is_null(), "{shown}");

    browser.click("main a[href^='/ui/login']").await;
    doors.enter(&doors.operator).await;
    fixture.arrives("/ui/queues/default").await;
    let back = "document.querySelector('#reason').value === 'three lines of thought'";
    browser.until("it is back", back, json!([])).await;
    browser.click("form[action$='/pause'] button").await;
    browser.sees(".flash", "Paused").await;
    fixture.go("/ui/queues/default").await;
    let gone = "document.querySelector('#reason').value === ''";
    browser.until("it comes back once", gone, json!([])).await;
    doors.fixture.service.stop().await;
}

#[tokio::test]
async fn a_link_of_another_site_opens_its_page_in_a_session() {
    let doors = LoginFixture::new("").await;
    let (fixture, browser) = (&doors.fixture, &doors.fixture.browser);
    let page = doors.page();
    // Another name is another site; browsers keep the session's cookie back.
    let link = format!("<a href=\"{}\">Look at this</a>", fixture.url(&page));
    let other = Router::new().route("/", get(async || Html(link)));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let task = tokio::spawn(async move { axum::serve(listener, other).await.unwrap() });
    let elsewhere = format!("http://localhost:{port}/");

    browser.open(&elsewhere).await;
    browser.click("a").await;
    doors.enter(&doors.auditor).await;
    fixture.arrives(&page).await;
    browser.open(&elsewhere).await;
    browser.click("a").await;
    fixture.arrives(&page).await;
    browser.sees(".who .name", "anton").await;
    task.abort();
    doors.fixture.service.stop().await;
}
