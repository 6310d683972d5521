//! The dashboard in a real browser, in front of the real binary.

use consign_postgres::migrate;
use consign_testkit::{Browser, TestDatabase, eventually, fingerprint};
use serde_json::{Value, json};

use crate::{
    http,
    service::{SOON, Service},
    support::Consign,
};

mod bulk;
mod flow;
mod hostile;
mod keyboard;
mod login;
mod looks;
mod message;
mod outage;
mod redrive;
mod unscripted;

/// The same test on each store.
macro_rules! on_stores {
    ($($test:ident),+ $(,)?) => {
        $(mod $test {
            use crate::browser::TestDatabaseConfig;

            #[tokio::test]
            async fn sqlite() {
                super::$test(TestDatabaseConfig::sqlite()).await;
            }

            #[tokio::test]
            async fn postgres() {
                super::$test(TestDatabaseConfig::postgres().await).await;
            }
        })+
    };
}
use on_stores;

/// The database of a service.
struct TestDatabaseConfig {
    consign: Consign,
    /// Dropped together with the fixture.
    database: Option<TestDatabase>,
}

impl TestDatabaseConfig {
    fn sqlite() -> Self {
        Self {
            consign: Consign::new(),
            database: None,
        }
    }

    async fn postgres() -> Self {
        let texts = crate::support::postgres_options("")
            .migrations()
            .into_iter()
            .map(|migration| migration.sql);
        let template = format!("consign_{}", fingerprint(texts));
        let fill = async |url: &str| {
            migrate(&crate::support::postgres_options(url))
                .await
                .map(drop)
                .unwrap()
        };
        let database = TestDatabase::from_template(&template, fill).await;
        Self {
            consign: Consign::at(database.url()),
            database: Some(database),
        }
    }
}

/// A service with a browser in front of it.
struct BrowserFixture {
    browser: Browser,
    service: Service,
    consign: Consign,
    _database: Option<TestDatabase>,
}

impl BrowserFixture {
    /// With a database of its own.
    async fn new(configuration: &str) -> Self {
        Self::on(TestDatabaseConfig::sqlite(), configuration).await
    }

    async fn on(ground: TestDatabaseConfig, configuration: &str) -> Self {
        Self::with(Browser::start().await, ground, configuration).await
    }

    async fn with(browser: Browser, ground: TestDatabaseConfig, configuration: &str) -> Self {
        let TestDatabaseConfig { consign, database } = ground;
        consign.configure(configuration);
        Self {
            browser,
            service: Service::serve(&consign).await,
            consign,
            _database: database,
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
    async fn enqueue(&self, queue: &str, message: Value) -> i64 {
        let path = format!("/v1/queues/{queue}/messages");
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

    /// Loads the page again until it shows these words, as without scripts.
    async fn shows(&self, css: &str, words: &str) {
        eventually(&format!("{css} shows {words:?}"), SOON, async || {
            self.browser.reload().await;
            let look = "return [...document.querySelectorAll(arguments[0])]\
                        .some(it => it.innerText.includes(arguments[1]))";
            self.browser.script(look, json!([css, words])).await == true
        })
        .await;
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
