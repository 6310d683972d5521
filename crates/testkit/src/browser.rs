//! A real browser, driven as a person would: by what is on the page.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::daemon::{Daemon, START_ATTEMPTS_MAX, free_address, program};
use crate::wait::eventually_some;

mod wire;

/// A page is shown, or changes by itself, within this time on a busy machine.
const DEADLINE: Duration = Duration::from_secs(30);

/// How the WebDriver protocol names elements in JSON.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// Headless Chromium with a profile of its own, ended when this value is dropped.
///
/// What is looked for is waited for: pages load and change by themselves.
#[derive(Debug)]
pub struct Browser {
    address: SocketAddr,
    /// The path of the session.
    session: String,
    /// The browser's own process; the driver has its children.
    process: u64,
    _driver: Daemon,
    /// Holds the profile and the log; removed with this value.
    _directory: TempDir,
}

impl Browser {
    /// The keys that have no letter, for [`press`](Self::press).
    pub const TAB: &'static str = "\u{E004}";
    /// Opens a link, sends a form.
    pub const ENTER: &'static str = "\u{E007}";
    /// Closes a dialog.
    pub const ESCAPE: &'static str = "\u{E00C}";

    /// With a window as on a desk.
    pub async fn start() -> Self {
        Self::launch(json!({})).await
    }

    /// With a screen as in a hand, a small one.
    pub async fn phone() -> Self {
        let screen = json!({"width": 360, "height": 740, "pixelRatio": 1.0, "touch": true});
        Self::launch(json!({"mobileEmulation": {"deviceMetrics": screen}})).await
    }

    /// With scripts disabled. What a test runs in a page is not affected
    /// and runs all the same.
    pub async fn without_scripts() -> Self {
        let blocked = 2;
        let prefs = json!({"profile.default_content_setting_values.javascript": blocked});
        Self::launch(json!({"prefs": prefs})).await
    }

    async fn launch(mut options: Value) -> Self {
        let directory = tempfile::tempdir().expect("create a directory for the browser");
        let (driver, address) = start_driver(&directory).await;
        let profile = directory.path().join("profile");
        options["args"] = json!([
            "--headless=new",
            // Containers have neither user namespaces nor much shared memory.
            "--no-sandbox",
            "--disable-dev-shm-usage",
            "--disable-gpu",
            "--no-proxy-server",
            // Nothing moves while it is looked at.
            "--force-prefers-reduced-motion",
            "--window-size=1280,900",
            format!("--user-data-dir={}", profile.display()),
        ]);
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL"},
        }}});
        let started = wire::send(address, "POST", "/session", Some(&wanted)).await;
        let started = started.unwrap_or_else(|error| panic!("start the browser: {error}"));
        let id = started["sessionId"].as_str().expect("an id of the session");
        let process = started["capabilities"]["goog:processID"].as_u64();
        Self {
            address,
            session: format!("/session/{id}"),
            process: process.expect("the process of the browser"),
            _driver: driver,
            _directory: directory,
        }
    }

    async fn get(&self, path: &str) -> Result<Value, String> {
        let path = format!("{}{path}", self.session);
        wire::send(self.address, "GET", &path, None).await
    }

    async fn post(&self, path: &str, body: Value) -> Result<Value, String> {
        let path = format!("{}{path}", self.session);
        wire::send(self.address, "POST", &path, Some(&body)).await
    }

    /// Goes to a page and returns when it is loaded.
    pub async fn open(&self, url: &str) {
        let opened = self.post("/url", json!({ "url": url })).await;
        opened.unwrap_or_else(|error| panic!("open {url}: {error}"));
    }

    /// Loads the page again, as its button does.
    pub async fn reload(&self) {
        let reloaded = self.post("/refresh", json!({})).await;
        reloaded.unwrap_or_else(|error| panic!("load the page again: {error}"));
    }

    /// Where it is.
    pub async fn url(&self) -> String {
        let url = self.get("/url").await.expect("ask where the browser is");
        url.as_str().expect("an address").to_owned()
    }

    /// Runs the body of a function in the page; it sees `arguments`.
    pub async fn script(&self, body: &str, arguments: Value) -> Value {
        let done = self.run(body, arguments).await;
        done.unwrap_or_else(|error| panic!("run {body}: {error}"))
    }

    async fn run(&self, body: &str, arguments: Value) -> Result<Value, String> {
        let script = json!({"script": body, "args": arguments});
        self.post("/execute/sync", script).await
    }

    /// Waits until an expression is true in the page, which may change or be left meanwhile.
    pub async fn until(&self, what: &str, expression: &str, arguments: Value) {
        let body = format!("return {expression}");
        let holds = async || {
            let answer = self.run(&body, arguments.clone()).await;
            (answer == Ok(Value::Bool(true))).then_some(())
        };
        // The console often has the reason.
        if tokio::time::timeout(DEADLINE, eventually_some(what, DEADLINE * 2, holds))
            .await
            .is_err()
        {
            let (url, console) = (self.url().await, self.console().await);
            let text = self.script("return document.body.innerText", json!([]));
            let text = text.await;
            panic!("not within {DEADLINE:?}: {what}; {url} has {text}, its console {console:#?}");
        }
    }

    /// Waits until an element that matches the selector shows these words.
    pub async fn sees(&self, css: &str, words: &str) {
        let expression = "[...document.querySelectorAll(arguments[0])]\
             .some(it => it.innerText.includes(arguments[1]))";
        let what = format!("{css} shows {words:?}");
        self.until(&what, expression, json!([css, words])).await;
    }

    /// Whether an element matches the selector now.
    pub async fn has(&self, css: &str) -> bool {
        let body = "return document.querySelector(arguments[0]) !== null";
        self.script(body, json!([css])).await == Value::Bool(true)
    }

    /// Clicks on an element as soon as it exists. Returns when the next page is loaded.
    pub async fn click(&self, css: &str) {
        self.act(css, "click", &json!({})).await;
    }

    /// Writes into a field as soon as it exists.
    pub async fn write(&self, css: &str, text: &str) {
        self.act(css, "value", &json!({ "text": text })).await;
    }

    async fn act(&self, css: &str, action: &str, body: &Value) {
        let what = format!("{action} at {css}");
        // The page may put another element in its place just now.
        eventually_some(&what, DEADLINE, async || {
            let wanted = json!({"using": "css selector", "value": css});
            let found = self.post("/element", wanted).await.ok()?;
            let path = format!("/element/{}/{action}", found[ELEMENT].as_str()?);
            self.post(&path, body.clone()).await.ok()
        })
        .await;
    }

    /// Presses keys one after the other, wherever the focus is.
    pub async fn press(&self, keys: &str) {
        let stroke = |key: char| {
            ["keyDown", "keyUp"].map(|kind| json!({"type": kind, "value": key.to_string()}))
        };
        let strokes: Vec<Value> = keys.chars().flat_map(stroke).collect();
        let actions = json!({"actions": [{"type": "key", "id": "keyboard", "actions": strokes}]});
        let pressed = self.post("/actions", actions).await;
        pressed.unwrap_or_else(|error| panic!("press {keys:?}: {error}"));
    }

    /// Name and value of the cookie of this page whose name begins so, also of one that scripts
    /// cannot read.
    pub async fn cookie(&self, prefix: &str) -> Option<(String, String)> {
        let cookies = self.get("/cookie").await.ok()?;
        let text = |cookie: &Value, field: &str| cookie[field].as_str().map(str::to_owned);
        let named = cookies.as_array()?.iter();
        let mut named =
            named.filter_map(|cookie| Some((text(cookie, "name")?, text(cookie, "value")?)));
        named.find(|(name, _)| name.starts_with(prefix))
    }

    /// Gives this page a cookie that lasts as long as the browser.
    pub async fn set_cookie(&self, name: &str, value: &str) {
        let cookie = json!({"cookie": {"name": name, "value": value, "path": "/"}});
        let set = self.post("/cookie", cookie).await;
        set.unwrap_or_else(|error| panic!("set the cookie {name}: {error}"));
    }

    /// Takes the cookies of this page away.
    pub async fn forget_cookies(&self) {
        let path = format!("{}/cookie", self.session);
        let forgotten = wire::send(self.address, "DELETE", &path, None).await;
        forgotten.unwrap_or_else(|error| panic!("forget the cookies: {error}"));
    }

    /// The console's messages since the last call: errors of scripts, requests that failed, what
    /// the page's policy forbade.
    pub async fn console(&self) -> Vec<String> {
        let log = self.post("/se/log", json!({"type": "browser"})).await;
        let log = log.expect("read the console");
        let entries = log.as_array().expect("a list").iter();
        entries.map(|entry| entry["message"].to_string()).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // A driver that is killed leaves its browser behind, so it gets a request to end it. Its answer
        // comes when the browser is gone.
        let request = wire::request(self.address, "DELETE", &self.session, None);
        let asked = std::net::TcpStream::connect(self.address).and_then(|mut stream| {
            stream.set_read_timeout(Some(Duration::from_secs(10)))?;
            stream.write_all(request.as_bytes())?;
            stream.read(&mut [0; 64])
        });
        if asked.is_err() {
            let kill = format!("kill -KILL {}", self.process);
            if Command::new("sh").args(["-c", &kill]).status().is_err() {
                eprintln!("the browser, process {}, may be left running", self.process);
            }
        }
    }
}

async fn start_driver(directory: &TempDir) -> (Daemon, SocketAddr) {
    let log = directory.path().join("log");
    let mut said = String::new();
    for _ in 0..START_ATTEMPTS_MAX {
        let address = free_address();
        let mut command = Command::new(program("chromedriver"));
        command.arg(format!("--port={}", address.port()));
        // What Chromium keeps beside its profile goes with it.
        command.env("XDG_CONFIG_HOME", directory.path());
        command.env("XDG_CACHE_HOME", directory.path());
        let mut driver = Daemon::spawn("chromium", command, &log);
        match driver.accepts(address).await {
            Ok(()) => return (driver, address),
            Err(output) => said = output,
        }
    }
    panic!("chromedriver did not start; its output:\n{said}");
}
