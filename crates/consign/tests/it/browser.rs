//! The dashboard in a real browser, in front of the real binary.

use consign_testkit::Browser;
use serde_json::{Value, json};

use crate::{http, service::Service, support::Consign};

mod doors;
mod flow;
mod hostile;
mod keyboard;
mod looks;
mod redrive;

/// A service with a browser in front of it.
struct Desk {
    browser: Browser,
    service: Service,
    consign: Consign,
}

impl Desk {
    /// With a database of its own.
    async fn new(configuration: &str) -> Self {
        Self::on(Consign::new(), configuration).await
    }

    async fn on(consign: Consign, configuration: &str) -> Self {
        consign.configure(configuration);
        let service = Service::serve(&consign).await;
        Self {
            browser: Browser::start().await,
            service,
            consign,
        }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.service.address())
    }

    async fn go(&self, path: &str) {
        self.browser.open(&self.url(path)).await;
    }

    /// Waits until a page is there, its script included.
    async fn arrives(&self, path: &str) {
        let expression = "location.pathname === arguments[0] && document.readyState === 'complete'";
        let what = format!("the browser arrives at {path}");
        self.browser.until(&what, expression, json!([path])).await;
    }

    /// Calls the API, without a token.
    async fn post(&self, path: &str, body: Value) -> Value {
        let answer = http::post(self.service.address(), path, &body.to_string()).await;
        assert!(answer.status < 300, "{path}: {answer:?}");
        answer.json()
    }

    /// Enqueues over HTTP and answers with the id.
    async fn enqueue(&self, lane: &str, message: Value) -> i64 {
        let path = format!("/v1/lanes/{lane}/messages");
        let enqueued = self.post(&path, message).await;
        enqueued["id"].as_i64().unwrap()
    }

    fn state_of(&self, id: i64) -> String {
        let shown = self.consign.json(["show", &id.to_string()]);
        shown["state"]["state"].as_str().unwrap().to_owned()
    }

    /// Notes in the page that it is this one; a reload forgets it.
    async fn remember(&self) {
        let live = self.browser.sees("[data-live-state]", "live");
        live.await;
        let note = "window.remembered = true";
        self.browser.script(note, json!([])).await;
    }

    /// Fails if the page was loaded again since.
    async fn remembers(&self) {
        let note = "return window.remembered === true";
        let same = self.browser.script(note, json!([])).await;
        assert_eq!(same, true, "it was the page itself that changed");
    }

    /// Fails if the console has anything to say.
    async fn is_quiet(&self) {
        let console = self.browser.console().await;
        assert!(
            console.is_empty(),
            "{}: {console:#?}",
            self.browser.url().await
        );
    }
}
