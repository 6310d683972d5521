//! The documentation names every route.

use consign_server::openapi_json;
use serde_json::Value;

use super::off;

const DOCUMENT: &str = include_str!("../../../../../docs/http.md");

#[tokio::test]
async fn every_route_is_named_and_has_a_command() {
    let bench = off().await;
    let document: Value = serde_json::from_str(openapi_json(&bench.state)).unwrap();
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

/// Every shell block, one after the other.
pub(super) fn commands(url: &str) -> String {
    let blocks = DOCUMENT.split("```sh\n").skip(1);
    let blocks = blocks.filter_map(|rest| rest.split("```").next());
    let script: Vec<&str> = blocks.collect();
    script.join("\n").replace("http://localhost:8787", url)
}
