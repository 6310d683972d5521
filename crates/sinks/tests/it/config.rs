//! Configurations as they are written, refused and shown.

use consign_sinks::SinkConfig;
use serde_json::json;

use crate::fixture::{config, sink, try_sink};

#[test]
fn a_configuration_is_shown_without_its_secrets() {
    let config = config(
        r#"
        kind = "http"
        url = "https://user:tulip@hooks.example:8443/in?token=tulip"
        bearer_token = "tulip"
        signing_secret_env = "HOOKS_SECRET"
        headers = { X-Api-Key = "tulip", X-Other = { file = "/run/secrets/other" } }
        "#,
    )
    .unwrap();
    let shown = serde_json::to_value(&config).unwrap();
    assert_eq!(shown["kind"], "http");
    assert_eq!(shown["url"], "https://hooks.example:8443/in");
    assert_eq!(shown["bearer_token"], "***");
    assert_eq!(shown["signing_secret"], json!({"env": "HOOKS_SECRET"}));
    assert_eq!(shown["headers"]["X-Api-Key"], "***");
    assert_eq!(
        shown["headers"]["X-Other"],
        json!({"file": "/run/secrets/other"})
    );
    assert!(!shown.to_string().contains("tulip"), "{shown}");
    assert!(!format!("{config:?}").contains("tulip"), "{config:?}");
}

#[tokio::test]
async fn a_sink_does_not_show_its_secrets_either() {
    let secret = "whsec_dHVsaXB0dWxpcHR1bGlwdHVsaXB0dWxpcA==";
    let text = format!(
        r#"
        kind = "http"
        url = "https://hooks.example/in?token=tulip"
        bearer_token = "tulip"
        signing_secret = "{secret}"
        probe_url = "https://hooks.example/seen?token=tulip&key={{key}}"
        headers = {{ X-Api-Key = "tulip" }}
        "#
    );
    let made = sink(&text).await;
    let shown = format!("{made:?}");
    assert!(
        !shown.contains("X-Api-Key: tulip") && !shown.contains("dHVsaXB0"),
        "{shown}"
    );
    assert!(!shown.contains("tulip"), "{shown}");
    assert_eq!(made.destination(), "https://hooks.example/in");

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("url");
    std::fs::write(&path, "https://hooks.example/services/tulip\n").unwrap();
    let text = format!("kind = \"http\"\nurl_file = \"{}\"", path.display());
    assert_eq!(sink(&text).await.destination(), "https://hooks.example");
    assert!(
        !serde_json::to_string(&config(&text).unwrap())
            .unwrap()
            .contains("tulip")
    );

    let text = "kind = \"exec\"\ncommand = \"true\"\nargs = [\"x\"]\nenv = { TOKEN = \"tulip\" }";
    assert!(!format!("{:?}", sink(text).await).contains("tulip"));
}

#[tokio::test]
async fn every_kind_can_be_shown_and_read_again() {
    for text in [
        "kind = \"http\"\nurl = \"https://hooks.example/\"\nbearer_token_env = \"TOKEN\"",
        "kind = \"log\"\npath = \"out.jsonl\"\npayload = true",
        "kind = \"exec\"\ncommand = \"cat\"\nargs = [\"-\"]\ndead_exit_codes = [3]",
        "kind = \"discard\"",
    ] {
        let read = config(text).unwrap();
        let shown = serde_json::to_value(&read).unwrap();
        let again: SinkConfig = serde_json::from_value(shown).unwrap();
        assert_eq!(read, again, "{text}");
    }
}

#[test]
fn what_is_not_an_option_is_refused() {
    for (text, what) in [
        ("kind = \"http\"", "missing field `url`"),
        (
            "kind = \"http\"\nurl = \"x\"\nurll = \"y\"",
            "unknown field `urll`",
        ),
        (
            "kind = \"http\"\nurl = \"x\"\nurl_env = \"y\"",
            "only one of `url`, `url_env`",
        ),
        (
            "kind = \"http\"\nurl = \"x\"\nmethod = \"GET\"",
            "unknown variant `GET`",
        ),
        ("kind = \"http\"\nurl = 7", "a secret is text"),
        (
            "kind = \"http\"\nurl = { env = \"A\", file = \"b\" }",
            "a secret is text",
        ),
        (
            "kind = \"log\"\npath_env = \"X\"",
            "unknown field `path_env`",
        ),
        ("kind = \"exec\"", "missing field `command`"),
        ("kind = 5", "a sink needs a `kind`"),
    ] {
        let error = config(text).unwrap_err();
        assert!(error.contains(what), "{text}: {error}");
    }
}

#[tokio::test]
async fn a_secret_that_is_not_there_is_named_when_the_sink_is_made() {
    let text = "kind = \"http\"\nurl = \"https://hooks.example\"\nbearer_token_env = \"NOT_SET_X\"";
    let error = try_sink(text).await.unwrap_err().to_string();
    assert_eq!(
        error,
        "sink option `bearer_token`: environment variable NOT_SET_X is not set"
    );
}

/// What an operator may write is what the operator can read about.
#[test]
fn every_option_is_explained() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/sinks.md");
    let document = std::fs::read_to_string(path).unwrap();
    for (kind, required) in [
        ("http", "url = \"https://hooks.example\""),
        ("log", ""),
        ("exec", "command = \"cat\""),
    ] {
        let heading = format!("\n## `{kind}`\n");
        let (_, section) = document.split_once(&heading).unwrap();
        let section = section.split("\n## ").next().unwrap();
        let config = config(&format!("kind = \"{kind}\"\n{required}")).unwrap();
        let shown = serde_json::to_value(&config).unwrap();
        for option in shown
            .as_object()
            .unwrap()
            .keys()
            .filter(|option| *option != "kind")
        {
            let row = format!("\n| `{option}` |");
            assert!(section.contains(&row), "{kind}: no row for {option}");
        }
    }
}
