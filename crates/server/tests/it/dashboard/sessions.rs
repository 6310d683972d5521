//! What happens to sessions and to forms when the configuration or the clock changes.

use consign_server::{Scope, ServerOptions, SessionKey};

use super::{AUDITOR, Browser, DashboardFixture, OPERATOR, tokens};
use crate::{
    bench::{Bench, on_stores},
    http::TestServer,
};

on_stores!(
    a_link_cannot_say_that_something_was_done,
    who_lost_their_scope_can_log_out_and_in,
    an_ended_session_loses_nothing_that_was_written,
    a_refused_form_gives_back_what_was_written,
    a_link_of_another_site_ends_no_session,
    no_page_with_a_form_is_loaded_again_by_itself,
    every_way_back_leads_somewhere,
    a_paused_queue_is_not_paused_again,
);

trait Restart {
    async fn restart(&mut self, options: &ServerOptions);
}

impl Restart for DashboardFixture {
    /// The same service, configured anew.
    async fn restart(&mut self, options: &ServerOptions) {
        let router = consign_server::router(self.bench.state.clone(), options);
        self.server = TestServer::start(router, options).await;
    }
}

async fn a_link_cannot_say_that_something_was_done(bench: Bench) {
    let fixture = DashboardFixture::guarded(bench).await;
    let mut olga = fixture.login(OPERATOR).await;
    let told = "class=\"flash\"";
    for word in ["pause", "resume", "nonsense", "Call%20555-0100"] {
        let link = format!("/ui/queues/mail?done={word}");
        let page = fixture.get(&mut olga, &link).await;
        assert!(!page.text.contains(told), "{link}: {}", page.text);
    }
    let page = fixture.get(&mut olga, "/ui/queues/mail").await;
    let fields = [("reason", "x")];
    let paused = fixture
        .send(&mut olga, &page, "/ui/queues/mail/pause", &fields)
        .await;
    paused.leads_to("/ui/queues/mail?done=pause");
    let cookie = paused.header("set-cookie");
    assert!(cookie.contains("Max-Age=60;"), "{cookie}");
    fixture
        .get(&mut olga, "/ui/queues/mail?done=pause")
        .await
        .says(200, told)
        .says(200, "Paused: nothing is claimed");
    // It shows that, of that queue, in this session only.
    for link in [
        "/ui/queues/mail?done=resume",
        "/ui/queues/default?done=pause",
        "/ui/queues/mail?done=pause&q=x",
    ] {
        let page = fixture.get(&mut olga, link).await;
        assert!(!page.text.contains(told), "{link}: {}", page.text);
    }
    let mut other = fixture.login(OPERATOR).await;
    let (name, proof) = olga.cookie("done").unwrap();
    other.cookies.insert(name.clone(), proof.clone());
    let page = fixture.get(&mut other, "/ui/queues/mail?done=pause").await;
    assert!(!page.text.contains(told), "{}", page.text);
}

async fn who_lost_their_scope_can_log_out_and_in(bench: Bench) {
    let mut fixture = DashboardFixture::guarded(bench).await;
    let mut anton = fixture.login(AUDITOR).await;
    let inside = fixture.get(&mut anton, "/").await;
    let mut options = tokens();
    options.tokens[1].scopes = vec![Scope::Producer];
    fixture.restart(&options).await;
    let refused = fixture.get(&mut anton, "/").await;
    refused
        .says(403, "scope_missing")
        .says(403, "href=\"/ui/login?next=/&#38;other=1\"");
    let page = fixture.get(&mut anton, "/ui/login").await;
    page.says(200, "lacks the scope");
    assert!(page.has_form("/ui/login"), "another token can be shown");
    let mut second = Browser {
        cookies: anton.cookies.clone(),
        ..Browser::default()
    };
    let left = fixture.send(&mut anton, &inside, "/ui/logout", &[]).await;
    left.leads_to("/ui/login?done=logout");
    assert_eq!(anton.cookie("session"), None);
    // A logout first is not needed.
    let entered = fixture
        .send(&mut second, &page, "/ui/login", &[("token", OPERATOR)])
        .await;
    entered.leads_to("/");
    fixture.get(&mut second, "/").await.says(200, "olga");
    // A visitor with access gets no login page, unless for another token.
    fixture.get(&mut second, "/ui/login").await.leads_to("/");
    let page = fixture.get(&mut second, "/ui/login?other=1").await;
    page.says(200, "<h1>Log in</h1>");
    fixture.get(&mut second, "/").await.says(200, "olga");
    // Another session's form does not end one; no session at all is as good as ended.
    let forged = [("csrf", "x")];
    fixture
        .post(&mut second, "/ui/logout", &forged)
        .await
        .says(403, "csrf_mismatch");
    fixture
        .post(&mut Browser::default(), "/ui/logout", &forged)
        .await
        .leads_to("/ui/login?done=logout");
    let mut elsewhere = Browser::default().with("sec-fetch-site", "cross-site");
    fixture
        .post(&mut elsewhere, "/ui/logout", &forged)
        .await
        .says(403, "origin_not_allowed");
}

async fn an_ended_session_loses_nothing_that_was_written(bench: Bench) {
    let fixture = DashboardFixture::guarded(bench).await;
    let mut olga = fixture.login(OPERATOR).await;
    let page = fixture.get(&mut olga, "/ui/queues/mail").await;
    let login = fixture.get(&mut olga, "/ui/login?other=1").await;
    fixture.bench.advance(8 * 60 * 60);
    let fields = [("reason", "half a page of <b>thoughts</b>")];
    let action = "/ui/queues/mail/pause";
    let refused = fixture.send(&mut olga, &page, action, &fields).await;
    refused
        .says(401, "Your session has ended")
        .says(401, "Nothing was done")
        .says(401, &format!("data-kept=\"{action}\""))
        .says(401, "half a page of &#60;b&#62;thoughts&#60;/b&#62;")
        .says(401, "href=\"/ui/login?next=/ui/queues/mail\"");
    let queue = fixture.bench.get("/v1/queues/mail").await;
    assert!(queue.json["paused_at"].is_null(), "{}", queue.text);
    // Neither a program nor another site gets its words back.
    for (name, value) in [
        ("sec-fetch-site", "cross-site"),
        ("accept", "text/event-stream"),
    ] {
        let mut stranger = Browser::default().with(name, value);
        let refused = fixture.post(&mut stranger, action, &fields).await;
        assert_eq!(refused.status, 401);
        assert!(!refused.text.contains("thoughts"), "{}", refused.text);
    }
    fixture
        .get(&mut olga, "/ui/login")
        .await
        .says(200, "Your session has ended");
    // The login itself was open for as long.
    let entered = fixture
        .send(&mut olga, &login, "/ui/login", &[("token", OPERATOR)])
        .await;
    entered.leads_to("/ui/login?why=old");
    let login = fixture.get(&mut olga, entered.header("location")).await;
    login.says(200, "too old");
    fixture
        .send(&mut olga, &login, "/ui/login", &[("token", OPERATOR)])
        .await
        .leads_to("/");
}

async fn a_refused_form_gives_back_what_was_written(bench: Bench) {
    let fixture = DashboardFixture::guarded(bench).await;
    let mut olga = fixture.login(OPERATOR).await;
    let fields = [("csrf", "x"), ("reason", "long thoughts")];
    let action = "/ui/queues/mail/pause";
    let refused = fixture.post(&mut olga, action, &fields).await;
    refused
        .says(403, "csrf_mismatch")
        .says(403, ">long thoughts</textarea>");
    let page = fixture.get(&mut olga, "/ui/queues/mail").await;
    let long = "z".repeat(5_000);
    let refused = fixture
        .send(&mut olga, &page, action, &[("reason", &long)])
        .await;
    assert_eq!(refused.status / 100, 4, "{}", refused.text);
    refused.says(refused.status, &format!(">{long}</textarea>"));
    olga.headers = vec![("sec-fetch-site", "cross-site".to_owned())];
    let refused = fixture.post(&mut olga, action, &fields).await;
    refused.says(403, "origin_not_allowed");
    assert!(!refused.text.contains("long thoughts"));
}

async fn a_link_of_another_site_ends_no_session(bench: Bench) {
    let fixture = DashboardFixture::guarded(bench).await;
    let mut olga = fixture.login(OPERATOR).await;
    // Browsers keep the cookie back, but take one.
    let mut linked = Browser::default().with("sec-fetch-site", "cross-site");
    let sent = fixture.get(&mut linked, "/ui/queues/mail").await;
    let page = fixture.get(&mut linked, sent.header("location")).await;
    let again = "/ui/login?again=1&#38;next=/ui/queues/mail";
    page.says(200, &format!("content=\"0; url={again}\""));
    assert!(!page.header("set-cookie").contains("consign_session"));
    olga.cookies.extend(linked.cookies);
    fixture
        .get(&mut olga, &super::unescaped(again))
        .await
        .leads_to("/ui/queues/mail");
    // Who has no session sees the form, and only once.
    let mut stranger = Browser::default().with("sec-fetch-site", "cross-site");
    let page = fixture.get(&mut stranger, &super::unescaped(again)).await;
    page.says(200, "<h1>Log in</h1>");
    assert!(!page.text.contains("http-equiv"), "{}", page.text);
}

async fn no_page_with_a_form_is_loaded_again_by_itself(bench: Bench) {
    let id = bench.bury("mail", "no_use").await;
    let fixture = DashboardFixture::open(bench).await;
    let mut browser = Browser::default();
    let message = format!("/ui/messages/{id}");
    let preview = fixture.get(&mut browser, "/ui/dead/preview").await;
    let fields = [("reason", "x")];
    let run = fixture
        .send(&mut browser, &preview, "/ui/redrives", &fields)
        .await;
    let run = run.header("location").to_owned();
    for (path, reloads) in [
        ("/", true),
        ("/ui/processes", true),
        ("/ui/history", false),
        ("/ui/queues/mail", false),
        ("/ui/messages", false),
        (&message, false),
        ("/ui/dead", false),
        ("/ui/dead/preview", false),
        (&run, false),
        ("/ui/audit", false),
    ] {
        let page = fixture.get(&mut browser, path).await;
        assert_eq!(page.text.contains("http-equiv"), reloads, "{path}");
        assert_eq!(page.text.contains("<body data-reloads>"), reloads, "{path}");
        let (_, main) = page.text.split_once("<main").unwrap();
        assert!(!(reloads && main.contains("<form")), "{path}: {main}");
        page.says(200, "<noscript> · <a href=\"\">Reload</a></noscript>");
    }
}

async fn every_way_back_leads_somewhere(bench: Bench) {
    let id = bench.bury("mail", "no_use").await;
    let fixture = DashboardFixture::open(bench).await;
    let mut browser = Browser::default();
    let page = format!("/ui/messages/{id}");
    for action in [
        "/ui/redrives".to_owned(),
        "/ui/queues/mail/pause".to_owned(),
        format!("{page}/requeue"),
        format!("{page}/reveal"),
    ] {
        let refused = fixture.post(&mut browser, &action, &[("csrf", "x")]).await;
        refused.says(403, ">Back</a>");
        let (before, _) = refused.text.split_once("\">Back</a>").unwrap();
        let (_, back) = before.rsplit_once("href=\"").unwrap();
        let led = fixture.get(&mut browser, back).await;
        assert!(led.status < 400, "{action} leads to {back}: {}", led.status);
    }
    fixture.get(&mut browser, "/ui").await.leads_to("/");
    // What a form showed, its address does not.
    fixture
        .get(&mut browser, &format!("{page}/reveal"))
        .await
        .leads_to(&page);
}

async fn a_paused_queue_is_not_paused_again(bench: Bench) {
    let fixture = DashboardFixture::guarded(bench).await;
    let (mut olga, mut other) = (fixture.login(OPERATOR).await, fixture.login(OPERATOR).await);
    for action in ["pause", "resume"] {
        let page = fixture.get(&mut olga, "/ui/queues/mail").await;
        let path = format!("/ui/queues/mail/{action}");
        let body = page.form(&path).filled(&[("reason", "second")]);
        let theirs = fixture.get(&mut other, "/ui/queues/mail").await;
        fixture
            .send(&mut other, &theirs, &path, &[("reason", "first")])
            .await
            .leads_to(&format!("/ui/queues/mail?done={action}"));
        let done = fixture.ask(&mut olga, "POST", &path, Some(&body)).await;
        done.leads_to(&format!("/ui/queues/mail?done={action}d_before"));
        fixture
            .get(&mut olga, done.header("location"))
            .await
            .says(200, &format!("this queue was {action}d already"));
    }
    let audit = fixture.get(&mut olga, "/ui/audit").await;
    audit.says(200, "first");
    assert!(!audit.text.contains("second"), "{}", audit.text);
}

#[tokio::test]
async fn a_key_of_its_own_decides_which_sessions_hold() {
    let with = |key: &str| ServerOptions {
        session_key: Some(SessionKey::try_from(key.repeat(32)).unwrap()),
        ..tokens()
    };
    let mut fixture = DashboardFixture::with_options(Bench::reference().await, &with("k")).await;
    let mut olga = fixture.login(OPERATOR).await;
    fixture.restart(&with("k")).await;
    fixture.get(&mut olga, "/").await.says(200, "olga");
    for other in [with("x"), tokens()] {
        fixture.restart(&other).await;
        fixture
            .get(&mut olga, "/")
            .await
            .leads_to("/ui/login?next=/");
    }
}
