//! The dashboard as a browser without JavaScript sees it: links, forms and cookies over a real
//! connection.

use std::collections::BTreeMap;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{bench::Bench, http::TestServer};
use crate::{Scope, ServerOptions, Token, TokenEntry, router};

pub const OPERATOR: &str = "consign_operator";
pub const AUDITOR: &str = "consign_auditor";
pub const PRODUCER: &str = "consign_producer";

/// A server with a browser in front of it.
pub struct DashboardFixture<A = ()> {
    pub bench: Bench<A>,
    pub server: TestServer,
}

/// A client with cookies and forms.
#[derive(Default)]
pub struct Browser {
    pub cookies: BTreeMap<String, String>,
    /// Sent with every request.
    pub headers: Vec<(&'static str, String)>,
}

/// An answer.
#[derive(Debug)]
pub struct PageAnswer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub text: String,
}

pub fn tokens() -> ServerOptions {
    let entry = |name: &str, token: &str, scope| TokenEntry {
        name: name.to_owned(),
        hash: Token::new(token).hash(),
        scopes: vec![scope],
    };
    ServerOptions {
        tokens: vec![
            entry("olga", OPERATOR, Scope::Operator),
            entry("anton", AUDITOR, Scope::Auditor),
            entry("paula", PRODUCER, Scope::Producer),
        ],
        ..ServerOptions::default()
    }
}

impl<A> DashboardFixture<A> {
    /// Without tokens.
    pub async fn open(bench: Bench<A>) -> Self {
        let server = TestServer::start(bench.router.clone(), &ServerOptions::default()).await;
        Self { bench, server }
    }

    /// With tokens. Requests to the bench itself have none.
    pub async fn guarded(bench: Bench<A>) -> Self {
        Self::with_options(bench, &tokens()).await
    }

    pub async fn with_options(bench: Bench<A>, options: &ServerOptions) -> Self {
        let router = router(bench.state.clone(), options);
        let server = TestServer::start(router, options).await;
        Self { bench, server }
    }

    pub async fn get(&self, browser: &mut Browser, path: &str) -> PageAnswer {
        self.ask(browser, "GET", path, None).await
    }

    /// Sends the form of a page that goes to `action`, filled in.
    pub async fn send(
        &self,
        browser: &mut Browser,
        page: &PageAnswer,
        action: &str,
        fields: &[(&str, &str)],
    ) -> PageAnswer {
        let body = page.form(action).filled(fields);
        self.ask(browser, "POST", action, Some(&body)).await
    }

    pub async fn post(
        &self,
        browser: &mut Browser,
        path: &str,
        fields: &[(&str, &str)],
    ) -> PageAnswer {
        let body = urlencoded(fields);
        self.ask(browser, "POST", path, Some(&body)).await
    }

    pub async fn ask(
        &self,
        browser: &mut Browser,
        method: &str,
        path: &str,
        body: Option<&str>,
    ) -> PageAnswer {
        let mut text =
            format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n");
        if !browser.headers.iter().any(|(name, _)| *name == "accept") {
            text.push_str("accept: text/html,application/xhtml+xml,*/*;q=0.8\r\n");
        }
        for (name, value) in &browser.headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        if !browser.cookies.is_empty() {
            let pairs = browser.cookies.iter();
            let pairs: Vec<String> = pairs
                .map(|(name, value)| format!("{name}={value}"))
                .collect();
            text.push_str(&format!("cookie: {}\r\n", pairs.join("; ")));
        }
        if let Some(body) = body {
            text.push_str("content-type: application/x-www-form-urlencoded\r\n");
            text.push_str(&format!("content-length: {}\r\n", body.len()));
        }
        text.push_str("\r\n");
        text.push_str(body.unwrap_or_default());
        let mut stream = self.server.connect().await;
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.unwrap();
        let seen = PageAnswer::read(&bytes);
        browser.keep(&seen);
        seen
    }

    /// Logs in with a token through the form.
    pub async fn login(&self, token: &str) -> Browser {
        let mut browser = Browser::default();
        let page = self.get(&mut browser, "/ui/login").await;
        let fields = [("token", token)];
        let entered = self.send(&mut browser, &page, "/ui/login", &fields).await;
        assert_eq!(entered.status, 303, "{}", entered.text);
        browser
    }
}

impl Browser {
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// The cookie of this kind; its name ends with a suffix per server.
    pub fn cookie(&self, kind: &str) -> Option<(&String, &String)> {
        let start = format!("consign_{kind}_");
        let mut cookies = self.cookies.iter();
        cookies.find(|(name, _)| name.starts_with(&start))
    }

    pub fn keep(&mut self, seen: &PageAnswer) {
        for line in seen.all("set-cookie") {
            let pair = line.split(';').next().unwrap();
            let (name, value) = pair.split_once('=').unwrap();
            if line.contains("Max-Age=0;") {
                self.cookies.remove(name)
            } else {
                self.cookies.insert(name.to_owned(), value.to_owned())
            };
        }
    }
}

impl PageAnswer {
    pub fn read(bytes: &[u8]) -> Self {
        let end = bytes
            .windows(4)
            .position(|four| four == b"\r\n\r\n")
            .unwrap();
        let head = std::str::from_utf8(&bytes[..end]).unwrap();
        let mut lines = head.split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap();
        let headers = lines.map(|line| {
            let (name, value) = line.split_once(": ").unwrap();
            (name.to_lowercase(), value.to_owned())
        });
        let mut seen = Self {
            status: status.parse().unwrap(),
            headers: headers.collect(),
            text: String::new(),
        };
        let body = &bytes[end + 4..];
        let body = match seen.header("transfer-encoding") {
            "chunked" => unchunked(body),
            _ => body.to_vec(),
        };
        seen.text = String::from_utf8(body).unwrap();
        seen
    }

    pub fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        let named = self.headers.iter().filter(move |(known, _)| known == name);
        named.map(|(_, value)| value.as_str())
    }

    pub fn header(&self, name: &str) -> &str {
        self.all(name).next().unwrap_or_default()
    }

    /// Asserts that this is a page with this status and text.
    #[track_caller]
    pub fn says(&self, status: u16, words: &str) -> &Self {
        assert_eq!(self.status, status, "{}", self.text);
        assert!(
            self.header("content-type").starts_with("text/html"),
            "{}",
            self.text
        );
        assert!(
            self.text.contains(words),
            "{words:?} is not in {}",
            self.text
        );
        self
    }

    #[track_caller]
    pub fn leads_to(&self, path: &str) -> &Self {
        assert_eq!(self.status, 303, "{}", self.text);
        assert_eq!(self.header("location"), path);
        self
    }

    pub fn has_form(&self, action: &str) -> bool {
        self.text.contains(&format!("action=\"{action}\""))
    }

    #[track_caller]
    pub fn form(&self, action: &str) -> Form {
        let (_, rest) = self
            .text
            .split_once(&format!("<form method=\"post\" action=\"{action}\""))
            .unwrap_or_else(|| panic!("no form to {action} in {}", self.text));
        let form = rest.split("</form>").next().unwrap();
        let hidden = form.split("<input type=\"hidden\" name=\"").skip(1);
        let fields = hidden.map(|input| {
            let (name, rest) = input.split_once("\" value=\"").unwrap();
            let value = rest.split('"').next().unwrap();
            (name.to_owned(), unescaped(value))
        });
        Form(fields.collect())
    }
}

/// The fields a form has already.
pub struct Form(pub Vec<(String, String)>);

impl Form {
    pub fn get(&self, name: &str) -> &str {
        let field = self.0.iter().find(|(known, _)| known == name);
        field.map(|(_, value)| value.as_str()).unwrap()
    }

    pub fn filled(&self, fields: &[(&str, &str)]) -> String {
        let hidden = self
            .0
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()));
        let all: Vec<(&str, &str)> = hidden.chain(fields.iter().copied()).collect();
        urlencoded(&all)
    }
}

pub fn urlencoded(fields: &[(&str, &str)]) -> String {
    let encode = |text: &str| -> String {
        let bytes = text.bytes().map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
            other => format!("%{other:02X}"),
        });
        bytes.collect()
    };
    let pairs = fields
        .iter()
        .map(|(name, value)| format!("{}={}", encode(name), encode(value)));
    pairs.collect::<Vec<_>>().join("&")
}

pub fn unescaped(text: &str) -> String {
    let named = [
        ("&#60;", "<"),
        ("&#62;", ">"),
        ("&#34;", "\""),
        ("&#39;", "'"),
        ("&#38;", "&"),
    ];
    named
        .iter()
        .fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

fn unchunked(mut body: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    loop {
        let end = body.windows(2).position(|two| two == b"\r\n").unwrap();
        let length = usize::from_str_radix(std::str::from_utf8(&body[..end]).unwrap(), 16).unwrap();
        if length == 0 {
            return whole;
        }
        whole.extend(&body[end + 2..end + 2 + length]);
        body = &body[end + 2 + length + 2..];
    }
}
