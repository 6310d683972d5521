//! The OpenAPI document and the codes of problems, with every app.

use std::collections::BTreeSet;

use consign_server::{
    apps::codes::{self, Meaning},
    openapi_json,
    testing::routes,
};
use serde_json::Value;

use super::{extensions, off};

async fn document() -> Value {
    serde_json::from_str(openapi_json(&off().await.state)).unwrap()
}

fn meanings() -> Vec<&'static Meaning> {
    let apps = extensions();
    let apps = apps.iter().flat_map(|app| app.problems());
    codes::ALL.iter().chain(apps).copied().collect()
}

#[tokio::test]
async fn every_route_is_described_and_everything_described_is_a_route() {
    let routes: BTreeSet<(String, String)> = routes(&off().await.state).into_iter().collect();
    let document = document().await;
    let paths = document["paths"].as_object().unwrap();
    let described: BTreeSet<(String, String)> = paths
        .iter()
        .flat_map(|(path, item)| {
            let methods = item.as_object().unwrap().keys();
            methods.map(|method| (method.clone(), path.clone()))
        })
        .collect();
    assert_eq!(routes, described);
}

#[tokio::test]
async fn no_app_names_the_schema_of_another_otherwise() {
    let parts = extensions();
    let parts = parts.iter().filter_map(|app| app.openapi());
    let mut known = std::collections::BTreeMap::new();
    for part in parts {
        let schemas = part.components.map(|components| components.schemas);
        for (name, schema) in schemas.unwrap_or_default() {
            let schema = serde_json::to_value(schema).unwrap();
            let first = known.entry(name.clone()).or_insert_with(|| schema.clone());
            assert_eq!(*first, schema, "{name} means two things");
        }
    }
}

#[tokio::test]
async fn every_operation_has_a_name_of_its_own_a_summary_and_problems() {
    let document = document().await;
    let mut names = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let name = operation["operationId"].as_str().unwrap();
            assert!(names.insert(name.to_owned()), "two are named {name}");
            assert!(operation["summary"].is_string(), "{method} {path}");
            if path.starts_with("/v1/") {
                assert!(operation["security"].is_array(), "{method} {path}");
                assert!(operation["responses"]["503"].is_object(), "{method} {path}");
            }
        }
    }
}

#[tokio::test]
async fn every_code_of_the_api_is_documented_somewhere_and_codes_are_unique() {
    let text = document().await.to_string();
    // These belong to no route, or to routes that spell them in capitals.
    let elsewhere = [
        "not_found",
        "method_not_allowed",
        "tenant_mismatch",
        "origin_not_allowed",
        "csrf_mismatch",
        "invalid_completion_state",
        "payload_hidden",
        "missing_rail_reference",
    ];
    let mut seen = BTreeSet::new();
    for meaning in meanings() {
        assert!(seen.insert(meaning.code), "{} twice", meaning.code);
        let named = text.contains(&format!("`{}`", meaning.code));
        assert!(
            named || elsewhere.contains(&meaning.code),
            "{}",
            meaning.code
        );
    }
}

#[test]
fn the_documentation_has_a_row_for_every_code_and_no_other() {
    let document = include_str!("../../../../../docs/http.md");
    let (_, table) = document.split_once("| code | status |").unwrap();
    let rows: Vec<&str> = table
        .lines()
        .filter(|line| line.starts_with("| `"))
        .collect();
    let meanings = meanings();
    for meaning in &meanings {
        let Meaning {
            code,
            status,
            title,
            remedy,
        } = meaning;
        let row = format!("| `{code}` | {} | {title} | {remedy} |", status.as_u16());
        assert!(rows.contains(&row.as_str()), "docs/http.md lacks: {row}");
    }
    let count = meanings.len();
    assert_eq!(rows.len(), count, "docs/http.md explains what is gone");
}
