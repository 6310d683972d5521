//! The documentation is true: its commands work, and it names every route.

use consign_server::{ServerOptions, openapi_json};
use serde_json::Value;
use tokio::process::Command;

use crate::{bench::Bench, http::Running};

const DOCUMENT: &str = include_str!("../../../../docs/http.md");

#[test]
fn every_route_is_named_and_has_a_command() {
    let document: Value = serde_json::from_str(openapi_json()).unwrap();
    let commands = commands("http://localhost:8787");
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in item.as_object().unwrap().keys() {
            let named = format!("`{} {path}`", method.to_uppercase());
            assert!(DOCUMENT.contains(&named), "docs/http.md lacks {named}");
        }
        let fixed = path.split('{').next().unwrap();
        let last = path.rsplit('}').next().unwrap();
        let called = |line: &str| {
            let url = line.split("localhost:8787").nth(1).unwrap_or("");
            let url = url.split([' ', '\'', '?']).next().unwrap();
            url.starts_with(fixed) && url.ends_with(last)
        };
        assert!(commands.lines().any(called), "no command calls {path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_work_as_printed() {
    let bench = Bench::sqlite().await;
    let server = Running::start(bench.router.clone(), &ServerOptions::default()).await;
    let url = format!("http://localhost:{}", server.address.port());
    let script = format!(
        "set -eu\ncurl() {{ command curl -4 -sS --fail-with-body \"$@\"; }}\n{}",
        commands(&url)
    );
    let ran = Command::new("sh").arg("-c").arg(script).output().await;
    let ran = ran.unwrap();
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    let complained = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(ran.status.success(), "{said}\n{complained}");
    server.stopped().await;
}

/// Every shell block, one after the other.
fn commands(url: &str) -> String {
    let blocks = DOCUMENT.split("```sh\n").skip(1);
    let blocks = blocks.filter_map(|rest| rest.split("```").next());
    let script: Vec<&str> = blocks.collect();
    script.join("\n").replace("http://localhost:8787", url)
}
