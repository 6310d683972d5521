//! Who gets in, and whose forms count.

use consign_server::ServerOptions;

use super::{AUDITOR, Browser, DashboardFixture, OPERATOR, PRODUCER, tokens};
use crate::bench::{Bench, on_stores};

on_stores!(
    browsers_see_the_overview_and_others_the_index,
    a_token_is_exchanged_for_a_session_that_can_be_ended,
    wrong_tokens_and_wrong_scopes_do_not_get_in,
    the_api_ignores_cookies,
    sessions_end_in_time_and_cannot_be_made_up,
    a_form_counts_only_in_its_own_session,
    forms_of_other_sites_do_not_count,
    the_login_leads_to_pages_of_ours_only,
    logins_are_tried_a_few_times_only,
    no_other_site_uses_up_the_logins,
    other_sites_lead_to_pages_and_fetch_none,
    every_answer_has_security_headers,
    a_bearer_token_works_on_pages_too,
);

#[tokio::test]
async fn rejects_the_login_of_a_token_of_a_tenant() {
    let bench = Bench::sqlite().await;
    let tenants = [("anton".to_owned(), uuid::Uuid::nil())].into();
    let bench = bench.with_state(|state| state.with_tenants(tenants));
    let fixture = DashboardFixture::guarded(bench).await;
    let mut browser = Browser::default();
    let page = fixture.get(&mut browser, "/ui/login").await;
    let entered = fixture
        .send(&mut browser, &page, "/ui/login", &[("token", AUDITOR)])
        .await;
    entered.says(403, "bound to a tenant");
    fixture
        .get(&mut browser, "/")
        .await
        .leads_to("/ui/login?next=/");
}

async fn browsers_see_the_overview_and_others_the_index(bench: Bench) {
    let fixture = DashboardFixture::open(bench).await;
    let mut browser = Browser::default();
    fixture
        .get(&mut browser, "/")
        .await
        .says(200, "<h1>Overview</h1>");
    let mut curl = Browser::default().with("accept", "*/*");
    let index = fixture.get(&mut curl, "/").await;
    assert_eq!(index.status, 200);
    assert!(index.header("content-type").starts_with("text/plain"));
    assert!(index.text.contains("GET  /openapi.json"));
    assert!(curl.cookies.is_empty());
    // Open, but not to those who are elsewhere or go by another name.
    let mut proxied = Browser::default().with("x-forwarded-for", "192.0.2.1");
    fixture.get(&mut proxied, "/").await.says(403, "not_local");
}

async fn a_token_is_exchanged_for_a_session_that_can_be_ended(bench: Bench) {
    let fixture = DashboardFixture::guarded(bench).await;
    let mut browser = Browser::default();
    let sent = fixture.get(&mut browser, "/ui/messages?q=a%20b").await;
    sent.leads_to("/ui/login?next=/ui/messages%3Fq%3Da%2520b");
    let page = fixture.get(&mut browser, sent.header("location")).await;
    page.says(200, "<h1>Log in</h1>");
    let entered = fixture
        .send(&mut browser, &page, "/ui/login", &[("token", OPERATOR)])
        .await;
    entered.leads_to("/ui/messages?q=a%20b");
    let cookie = entered.header("set-cookie");
    for part in ["consign_session_", "HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    assert!(!cookie.contains(OPERATOR) && !entered.header("location").contains(OPERATOR));
    let inside = fixture.get(&mut browser, "/").await;
    inside.says(200, "olga");
    fixture.get(&mut browser, "/ui/login").await.leads_to("/");
    let left = fixture.send(&mut browser, &inside, "/ui/logout", &[]).await;
    left.leads_to("/ui/login?done=logout");
    fixture
        .get(&mut browser, "/")
        .await
        .leads_to("/ui/login?next=/");
    let again = fixture.get(&mut browser, "/ui/login?done=logout").await;
    again.says(200, "Logged out.");
    let mut linked = Browser::default();
    let page = fixture.get(&mut linked, "/ui/login?done=logout").await;
    assert!(!page.text.contains("Logged out."), "a link proves nothing");
}

async fn wrong_tokens_and_wrong_scopes_do_not_get_in(bench: Bench) {
    let fixture = DashboardFixture::guarded(bench).await;
    for (token, status, why) in [
        ("", 401, "rejects this token: it is not in server.tokens"),
        (
            "consign_nonsense",
            401,
            "rejects this token: it is not in server.tokens",
        ),
        (PRODUCER, 403, "lacks the scope"),
    ] {
        let mut browser = Browser::default();
        let page = fixture.get(&mut browser, "/ui/login").await;
        let entered = fixture
            .send(&mut browser, &page, "/ui/login", &[("token", token)])
            .await;
        entered.says(status, why);
        assert!(entered.has_form("/ui/login"), "another try is possible");
        fixture
            .get(&mut browser, "/")
            .await
            .leads_to("/ui/login?next=/");
    }
}

async fn the_api_ignores_cookies(bench: Bench) {
    let fixture = DashboardFixture::guarded(bench).await;
    let mut browser = fixture.login(OPERATOR).await;
    for path in ["/v1/queues", "/v1/messages", "/v1/audit"] {
        let refused = fixture.get(&mut browser, path).await;
        assert_eq!(refused.status, 401, "{path}: {}", refused.text);
        assert_eq!(refused.header("content-type"), "application/problem+json");
    }
    let refused = fixture
        .post(&mut browser, "/v1/queues/mail/pause", &[])
        .await;
    assert_eq!(refused.status, 401);
}

async fn sessions_end_in_time_and_cannot_be_made_up(bench: Bench) {
    let fixture = DashboardFixture::guarded(bench).await;
    let mut browser = fixture.login(AUDITOR).await;
    fixture.bench.advance(8 * 60 * 60 - 1);
    fixture.get(&mut browser, "/").await.says(200, "anton");
    let (name, cookie) = browser.cookie("session").unwrap();
    let mut forged = Browser::default();
    // The name of another token in an otherwise true cookie: "olga" in hexadecimal digits.
    let other = cookie.replace("616e746f6e", "6f6c6761");
    assert_ne!(other, *cookie);
    forged.cookies.insert(name.clone(), other);
    fixture
        .get(&mut forged, "/")
        .await
        .leads_to("/ui/login?next=/");
    fixture.bench.advance(1);
    fixture
        .get(&mut browser, "/")
        .await
        .leads_to("/ui/login?next=/");
    // What has ended does not act either.
    let page = fixture.get(&mut browser, "/ui/login").await;
    assert!(page.has_form("/ui/login"));
}

async fn a_form_counts_only_in_its_own_session(bench: Bench) {
    let id = bench.bury("mail", "no_use").await;
    let fixture = DashboardFixture::guarded(bench).await;
    let (path, action) = (
        format!("/ui/messages/{id}"),
        format!("/ui/messages/{id}/requeue"),
    );
    let mut browser = fixture.login(OPERATOR).await;
    let mut other = fixture.login(OPERATOR).await;
    let csrf = fixture
        .get(&mut other, &path)
        .await
        .form(&action)
        .get("csrf")
        .to_owned();
    for csrf in ["", "0", &csrf] {
        let fields = [("csrf", csrf), ("reason", "fixed")];
        let refused = fixture.post(&mut browser, &action, &fields).await;
        refused.says(403, "csrf_mismatch");
    }
    let missing = fixture
        .post(&mut browser, &action, &[("reason", "fixed")])
        .await;
    missing.says(403, "csrf_mismatch");
    let mut stranger = Browser::default();
    let refused = fixture
        .post(&mut stranger, &action, &[("csrf", &csrf), ("reason", "x")])
        .await;
    refused.says(401, "href=\"/ui/login?next=");
    assert_eq!(fixture.bench.state_of(id).await, "dead");
    let page = fixture.get(&mut browser, &path).await;
    let done = fixture
        .send(&mut browser, &page, &action, &[("reason", "fixed")])
        .await;
    done.leads_to(&format!("{path}?done=requeue"));
    assert_eq!(fixture.bench.state_of(id).await, "ready");
}

async fn forms_of_other_sites_do_not_count(bench: Bench) {
    let fixture = DashboardFixture::open(bench).await;
    let mut browser = Browser::default();
    let page = fixture.get(&mut browser, "/ui/queues/mail").await;
    let csrf = page.form("/ui/queues/mail/pause").get("csrf").to_owned();
    let fields = [("csrf", csrf.as_str()), ("reason", "x")];
    for (name, value) in [
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
        ("origin", "https://evil.example"),
        ("origin", "null"),
    ] {
        browser.headers = vec![(name, value.to_owned())];
        let refused = fixture
            .post(&mut browser, "/ui/queues/mail/pause", &fields)
            .await;
        refused.says(403, "origin_not_allowed");
    }
    browser.headers = vec![("origin", "http://localhost".to_owned())];
    let done = fixture
        .post(&mut browser, "/ui/queues/mail/pause", &fields)
        .await;
    done.leads_to("/ui/queues/mail?done=pause");
}

async fn the_login_leads_to_pages_of_ours_only(bench: Bench) {
    let fixture = DashboardFixture::guarded(bench).await;
    for (next, goes_to) in [
        ("%2Fui%2Fdead", "/ui/dead"),
        ("https%3A%2F%2Fevil.example", "/"),
        ("%2F%2Fevil.example", "/"),
        ("%2F%5Cevil.example", "/"),
        ("javascript%3Aalert(1)", "/"),
    ] {
        let mut browser = Browser::default();
        let page = fixture
            .get(&mut browser, &format!("/ui/login?next={next}"))
            .await;
        assert!(
            !page.text.contains("evil") && !page.text.contains("alert"),
            "{}",
            page.text
        );
        let entered = fixture
            .send(&mut browser, &page, "/ui/login", &[("token", AUDITOR)])
            .await;
        entered.leads_to(goes_to);
    }
}

async fn logins_are_tried_a_few_times_only(bench: Bench) {
    let fixture = DashboardFixture::guarded(bench).await;
    let mut browser = Browser::default();
    let page = fixture.get(&mut browser, "/ui/login").await;
    let mut refusals = 0;
    for _ in 0..40 {
        let tried = fixture
            .send(&mut browser, &page, "/ui/login", &[("token", "guess")])
            .await;
        refusals += u32::from(tried.status == 429);
    }
    assert!(refusals > 0, "guessing is not blocked");
    // Nor is a client with a token and the same address.
    let mut other = Browser::default();
    let page = fixture.get(&mut other, "/ui/login").await;
    fixture
        .send(&mut other, &page, "/ui/login", &[("token", AUDITOR)])
        .await
        .leads_to("/");
    // Who is inside is not locked out by it.
    let mut bearer = Browser::default().with("authorization", format!("Bearer {AUDITOR}"));
    fixture.get(&mut bearer, "/").await.says(200, "anton");
}

async fn no_other_site_uses_up_the_logins(bench: Bench) {
    let fixture = DashboardFixture::guarded(bench).await;
    let mut browser = Browser::default();
    let page = fixture.get(&mut browser, "/ui/login").await;
    let fields = [("token", "guess"), ("csrf", "x")];
    let mut elsewhere = Browser::default().with("sec-fetch-site", "cross-site");
    let mut silent = Browser::default();
    for _ in 0..40 {
        let refused = fixture.post(&mut elsewhere, "/ui/login", &fields).await;
        refused.says(403, "origin_not_allowed");
        let refused = fixture.post(&mut silent, "/ui/login", &fields).await;
        refused.leads_to("/ui/login?why=old");
        // Nor does a form without a session.
        fixture
            .post(&mut silent, "/ui/queues/mail/pause", &fields)
            .await
            .says(401, "Your session has ended");
    }
    fixture
        .send(&mut browser, &page, "/ui/login", &[("token", AUDITOR)])
        .await
        .leads_to("/");
}

async fn other_sites_lead_to_pages_and_fetch_none(bench: Bench) {
    let fixture = DashboardFixture::open(bench).await;
    let from = |site: &str, mode: &str, place: &str| {
        Browser::default()
            .with("sec-fetch-site", site)
            .with("sec-fetch-mode", mode)
            .with("sec-fetch-dest", place)
    };
    let export = "/ui/audit/export?format=csv";
    for site in ["cross-site", "same-site"] {
        let mut link = from(site, "navigate", "document");
        fixture.get(&mut link, "/ui/audit").await.says(200, "Audit");
        fixture
            .get(&mut link, export)
            .await
            .says(403, "origin_not_allowed");
        for (mode, place) in [("no-cors", "image"), ("navigate", "iframe")] {
            let mut fetched = from(site, mode, place);
            for path in ["/ui/dead/preview", "/ui/audit", "/", export] {
                let refused = fixture.get(&mut fetched, path).await;
                refused.says(403, "origin_not_allowed");
            }
        }
    }
    for site in ["same-origin", "none"] {
        let mut own = from(site, "navigate", "document");
        assert_eq!(fixture.get(&mut own, export).await.status, 200);
        let mut own = from(site, "cors", "empty");
        fixture.get(&mut own, "/ui/audit").await.says(200, "Audit");
    }
}

async fn every_answer_has_security_headers(bench: Bench) {
    let id = bench.bury("mail", "no_use").await;
    let fixture = DashboardFixture::open(bench).await;
    let mut browser = Browser::default();
    let message = format!("/ui/messages/{id}");
    for path in [
        "/",
        "/ui/queues/mail",
        "/ui/queues/unknown",
        "/ui/messages",
        &message,
        "/ui/messages/999999",
        "/ui/messages/nonsense",
        "/ui/processes",
        "/ui/history",
        "/ui/dead",
        "/ui/dead/preview",
        "/ui/redrives/999",
        "/ui/audit",
        "/ui/audit/export?format=csv",
        "/ui/audit/export?format=nonsense",
        "/ui/nowhere",
        "/ui",
    ] {
        let seen = fixture.get(&mut browser, path).await;
        let policy = seen.header("content-security-policy");
        assert!(
            policy.starts_with("default-src 'none'; style-src 'self'; script-src 'self';"),
            "{path}: {policy}"
        );
        assert!(policy.contains("frame-ancestors 'none'") && policy.contains("form-action 'self'"));
        assert_eq!(seen.header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(seen.header("referrer-policy"), "same-origin", "{path}");
        assert_eq!(seen.header("cache-control"), "no-store", "{path}");
        assert!(!seen.header("permissions-policy").is_empty(), "{path}");
        assert!(
            !seen.text.contains("style=") && !seen.text.contains("onclick"),
            "{path}"
        );
        assert!(!seen.text.contains("<script>"), "{path}");
    }
    let page = fixture.get(&mut browser, "/").await;
    for (before, kind) in [("href=\"", "text/css"), ("src=\"", "text/javascript")] {
        let links = page.text.split(before).skip(1);
        let link = links.map(|rest| rest.split('"').next().unwrap());
        let link = link
            .into_iter()
            .find(|link| link.starts_with("/ui/static/"))
            .unwrap();
        let file = fixture.get(&mut browser, link).await;
        assert_eq!(file.status, 200);
        assert!(file.header("content-type").starts_with(kind), "{link}");
        assert!(file.header("cache-control").contains("immutable"), "{link}");
    }
    fixture
        .get(&mut browser, "/ui/static/other.css")
        .await
        .says(404, "not_found");
}

async fn a_bearer_token_works_on_pages_too(bench: Bench) {
    let fixture = DashboardFixture::guarded(bench).await;
    let mut known = Browser::default().with("authorization", format!("Bearer {OPERATOR}"));
    fixture.get(&mut known, "/ui/dead").await.says(200, "olga");
    let paused = fixture
        .post(
            &mut known,
            "/ui/queues/mail/pause",
            &[("reason", "by a script")],
        )
        .await;
    paused.leads_to("/ui/queues/mail?done=pause");
    let mut unknown = Browser::default().with("authorization", "Bearer nonsense");
    fixture
        .get(&mut unknown, "/ui/dead")
        .await
        .leads_to("/ui/login?next=/ui/dead");
}

#[tokio::test]
async fn behind_tls_the_cookie_travels_over_tls_only() {
    let options = ServerOptions {
        dashboard_secure_cookie: true,
        ..tokens()
    };
    let fixture = DashboardFixture::with_options(Bench::reference().await, &options).await;
    let page = fixture.get(&mut Browser::default(), "/ui/login").await;
    let cookie = page.header("set-cookie");
    assert!(cookie.ends_with("; Secure"), "{:?}", page.headers);
    assert!(cookie.starts_with("__Host-consign_"), "{cookie}");
}
