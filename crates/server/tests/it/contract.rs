//! The OpenAPI document of the engine's own routes.

use std::collections::BTreeSet;

use consign_server::openapi_json;
use serde_json::Value;

use crate::bench::{Bench, on_stores, routes};

on_stores!(
    the_document_is_served_and_complete,
    every_code_has_a_page,
    describes_every_route_and_nothing_else,
);

async fn the_document_is_served_and_complete(bench: Bench) {
    let answer = bench.get("/openapi.json").await;
    assert_eq!(answer.header("content-type"), "application/json");
    assert!(answer.json["openapi"].as_str().unwrap().starts_with("3."));
    let dangling = references(&answer.json)
        .into_iter()
        .find(|reference| answer.json.pointer(&reference[1..]).is_none());
    assert_eq!(dangling, None, "a schema is named but not there");
}

async fn every_code_has_a_page(bench: Bench) {
    let page = bench.get("/problems/key_conflict").await;
    assert_eq!(page.json["status"], 422);
    bench
        .get("/problems/nonsense")
        .await
        .is_problem(404, "not_found");
}

async fn describes_every_route_and_nothing_else(bench: Bench) {
    let document: Value = serde_json::from_str(openapi_json(&bench.state)).unwrap();
    let paths = document["paths"].as_object().unwrap().iter();
    let described: BTreeSet<(String, String)> = paths
        .flat_map(|(path, item)| {
            let methods = item.as_object().unwrap().keys();
            methods.map(|method| (method.clone(), path.clone()))
        })
        .collect();
    let routes: BTreeSet<(String, String)> = routes(&bench.state).into_iter().collect();
    assert_eq!(routes, described);
    assert!(routes.len() > 30, "{}", routes.len());
}

fn references(value: &Value) -> Vec<String> {
    match value {
        Value::Object(map) => {
            let own = map.get("$ref").and_then(Value::as_str).map(str::to_owned);
            let inner = map.values().flat_map(references);
            own.into_iter().chain(inner).collect()
        }
        Value::Array(items) => items.iter().flat_map(references).collect(),
        _ => Vec::new(),
    }
}
