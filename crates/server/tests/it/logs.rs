//! What is logged, and what never is.

use std::{
    io,
    sync::{Arc, Mutex},
};

use axum::http::Method;
use consign_server::{Scope, ServerOptions, Token, TokenEntry};
use serde_json::json;
use tracing_subscriber::fmt::MakeWriter;

use crate::{
    bench::{Bench, peer, request, set},
    faults::{Fault, FaultyStore},
};

/// Everything logged, as text.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;
    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Log {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

#[tokio::test]
async fn a_failure_is_one_line_without_secrets() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(log.clone())
        .with_ansi(false)
        .with_max_level(tracing::Level::TRACE)
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let bench = Bench::reference().await;
    let store = FaultyStore::new(bench.store.clone());
    let bench = bench.with_store(store.clone());
    let id = bench.enqueue("mail", json!("top-secret-payload")).await;
    let lease = bench.claim("mail", 1).await;
    let token = lease["token"].as_str().unwrap();
    store.inject("settle", Fault::Refused);
    let path = format!("/v1/leases/{token}/settle");
    let reports = json!({"reports": [{"id": id, "outcome": "delivered"}]});
    bench.post(&path, reports).await.is(503);
    store.inject("enqueue", Fault::Panics);
    let body = json!({"payload": "top-secret-payload"});
    bench.post("/v1/queues/mail/messages", body).await.is(500);
    store.inject("probe", Fault::Refused);
    bench.get("/readyz").await.is(503);
    bench.get("/v1/messages/99").await.is(404);
    let text = log.text();
    let lines: Vec<&str> = text.lines().filter(|line| line.contains("WARN")).collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert!(
        lines[0].contains("POST /v1/leases/{token}/settle failed with 503"),
        "{text}"
    );
    assert!(lines[0].contains("the cable is cut"), "the cause: {text}");
    assert!(lines[0].contains("database_unavailable"), "{text}");
    assert!(lines[1].contains("enqueue panics on demand"), "{text}");
    assert!(!text.contains(token), "a token is a permission: {text}");
    assert!(!text.contains("top-secret-payload"), "{text}");
}

#[tokio::test]
async fn unknown_tokens_are_limited_and_logged_without_the_token() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(log.clone())
        .with_ansi(false)
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let bench = Bench::sqlite().await.with_options(&ServerOptions {
        tokens: vec![TokenEntry {
            name: "shop".into(),
            hash: Token::new("right").hash(),
            scopes: Scope::ALL.into(),
        }],
        ..ServerOptions::default()
    });
    let ask = async |path: &str, bearer: &str, address: &str| {
        let mut asked = request(Method::POST, path, Some(json!({})));
        let bearer = format!("Bearer {bearer}");
        set(&mut asked, &[("authorization", bearer.as_str())]);
        asked.extensions_mut().insert(peer(address));
        bench.call(asked).await
    };
    for (path, address) in [
        ("/v1/queues/mail/resume", "192.0.2.7:1"),
        ("/v1/queues/mail/pause", "192.0.2.8:1"),
    ] {
        let mut refused = (0, 0);
        for _ in 0..40 {
            match ask(path, "not-this-one", address).await.status.as_u16() {
                401 => refused.0 += 1,
                429 => refused.1 += 1,
                other => panic!("{other}"),
            }
        }
        assert!(refused.0 >= 20 && refused.1 >= 10, "{path}: {refused:?}");
        assert_ne!(
            ask(path, "right", address).await.status,
            429,
            "not locked out"
        );
        let other = ask(path, "not-this-one", "192.0.2.9:1").await;
        other.is(401);
    }
    let text = log.text();
    let is_line = |line: &&str| line.contains("unknown token") && line.contains("192.0.2.7");
    let lines = text.lines().filter(is_line).count();
    assert!((20..30).contains(&lines), "{lines} lines");
    assert!(!text.contains("not-this-one"), "{text}");
}
