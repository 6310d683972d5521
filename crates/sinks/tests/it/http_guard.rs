//! Where requests may go.

use consign_kernel::Outcome;
use tokio::process::Command;

use crate::{
    fixture::{delivery, http_sink, sink, try_sink},
    server::{Server, status},
};

#[tokio::test]
async fn a_name_that_leads_inside_is_blocked_when_connecting() {
    let server = Server::start(|_, _| status(200)).await;
    let url = format!("http://localhost:{}/", server.address.port());
    let closed = sink(&format!("kind = \"http\"\nurl = \"{url}\"")).await;
    let verdict = closed.deliver(&delivery()).await;
    assert_eq!(verdict.outcome, Outcome::Retry, "{verdict:?}");
    assert_eq!(
        verdict.code.as_deref(),
        Some("address_blocked"),
        "{verdict:?}"
    );
    let detail = verdict.detail.unwrap();
    assert!(detail.contains("localhost leads to "), "{detail}");
    assert!(detail.contains("add it to `allow`"), "{detail}");
    assert_eq!(server.connections(), 0);

    for allow in ["localhost", "127.0.0.0/8"] {
        let text = format!("kind = \"http\"\nurl = \"{url}\"\nallow = [\"{allow}\"]");
        let verdict = sink(&text).await.deliver(&delivery()).await;
        assert_eq!(verdict.outcome, Outcome::Delivered, "{allow}: {verdict:?}");
    }
}

#[tokio::test]
async fn an_address_inside_is_refused_when_the_sink_is_made() {
    for url in [
        "http://127.0.0.1/",
        "http://10.1.2.3/",
        "http://169.254.169.254/latest/meta-data/",
        "http://[::1]:8080/",
        "http://[::ffff:10.0.0.1]/",
        "http://[64:ff9b::7f00:1]/",
        "http://0x7f000001/",
        "http://0/",
    ] {
        let text = format!("kind = \"http\"\nurl = \"{url}\"");
        let error = try_sink(&text).await.unwrap_err().to_string();
        assert!(
            error.contains("to permit it, add it to `allow`"),
            "{url}: {error}"
        );
        let text = format!(
            "kind = \"http\"\nurl = \"https://hooks.example/\"\nprobe_url = \"{url}?k={{key}}\""
        );
        let error = try_sink(&text).await.unwrap_err().to_string();
        assert!(
            error.starts_with("sink option `probe_url` leads to"),
            "{url}: {error}"
        );
        let text = format!("kind = \"http\"\nurl = \"https://hooks.example/\"\nproxy = \"{url}\"");
        let error = try_sink(&text).await.unwrap_err().to_string();
        assert!(
            error.starts_with("sink option `proxy` leads to"),
            "{url}: {error}"
        );
    }
}

#[tokio::test]
async fn urls_that_no_request_could_go_to_are_refused_without_being_shown() {
    for (options, what) in [
        ("url = \"tulip\"", "is not a URL"),
        (
            "url = \"ftp://tulip/\"",
            "must start with https:// or http://",
        ),
        (
            "url = \"file:///tulip\"",
            "must start with https:// or http://",
        ),
        (
            "url = \"http://tulip/\"\nhttps_only = true",
            "as `https_only` demands",
        ),
        (
            "url = \"https://a.example\"\nprobe_url = \"https://b.example/tulip\"",
            "must contain {key}",
        ),
        (
            "url = \"https://a.example\"\nprobe_url = \"https://{key}.example/tulip\"",
            "the host",
        ),
        (
            "url = \"https://a.example\"\nallow = [\"10.0.0\"]",
            "is not an address",
        ),
    ] {
        let error = try_sink(&format!("kind = \"http\"\n{options}"))
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains(what), "{options}: {error}");
        assert!(!error.contains("tulip"), "{error}");
    }
}

#[tokio::test]
async fn a_proxy_is_used_if_configured() {
    let proxy = Server::start(|_, _| status(200)).await;
    let options = format!("proxy = \"http://{}\"", proxy.address);
    let sink = http_sink("http://hooks.example/x", &options).await;
    assert_eq!(sink.deliver(&delivery()).await.outcome, Outcome::Delivered);
    assert_eq!(proxy.request().line, "POST http://hooks.example/x HTTP/1.1");
}

/// Variables of a process cannot be changed safely while it runs, so the test runs itself again
/// with those it needs.
#[tokio::test]
async fn a_proxy_of_the_environment_is_not_used() {
    const INNER: &str = "CONSIGN_TEST_SERVER";
    if let Ok(url) = std::env::var(INNER) {
        let verdict = http_sink(&url, "").await.deliver(&delivery()).await;
        assert_eq!(verdict.outcome, Outcome::Delivered, "{verdict:?}");
        return;
    }
    let server = Server::start(|_, _| status(200)).await;
    let proxy = Server::start(|_, _| status(500)).await;
    let proxy_url = format!("http://{}", proxy.address);
    let again = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "http_guard::a_proxy_of_the_environment_is_not_used",
        ])
        .env(INNER, server.url())
        .env("http_proxy", &proxy_url)
        .env("HTTP_PROXY", &proxy_url)
        .env("ALL_PROXY", &proxy_url)
        .output()
        .await
        .unwrap();
    assert!(again.status.success(), "{again:?}");
    assert_eq!(server.requests().len(), 1);
    assert_eq!(proxy.connections(), 0);
}
