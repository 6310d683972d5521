//! Every answer in these tests is held to the OpenAPI document.

use std::sync::OnceLock;

use axum::http::Method;
use serde_json::Value;

use crate::bench::{Answer, Bench, on_stores};

on_stores!(the_document_is_served_and_complete, every_code_has_a_page);

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

/// Panics unless the document describes this answer.
pub(crate) fn check(method: &Method, path: &str, answer: &Answer) {
    let Some(operation) = operation(method, path) else {
        assert!(
            matches!(answer.status.as_u16(), 404 | 405),
            "{method} {path} is not described"
        );
        return;
    };
    let status = answer.status.as_u16().to_string();
    let described = &operation["responses"][&status];
    assert!(
        described.is_object(),
        "{method} {path} does not describe status {status}: {}",
        answer.text
    );
    let kind = answer.header("content-type").split(';').next().unwrap();
    let content = &described["content"];
    if content.is_null() {
        assert_eq!(answer.text, "", "{method} {path} {status} has a body");
        return;
    }
    let schema = &content[kind]["schema"];
    assert!(
        schema.is_object(),
        "{method} {path} {status}: {kind} is not described"
    );
    if kind.ends_with("json")
        && let Err(why) = fits(&answer.json, schema, "$")
    {
        panic!("{method} {path} {status}: {why}\n{}", answer.text);
    }
    let is_error = answer.status.is_client_error() || answer.status.is_server_error();
    let code = match (kind.contains("problem"), answer.json.get("error_code")) {
        (true, _) => &answer.json["code"],
        (_, Some(code)) => code,
        (false, None) => &answer.json["error"],
    };
    if let (Some(code), true) = (code.as_str(), is_error) {
        let named = described["description"].as_str().unwrap();
        assert!(
            named.contains(&format!("`{code}`")),
            "{method} {path} {status} does not name {code}"
        );
    }
}

fn document() -> &'static Value {
    static DOCUMENT: OnceLock<Value> = OnceLock::new();
    DOCUMENT.get_or_init(|| {
        let text = consign_server::openapi_json();
        serde_json::from_str(text).unwrap()
    })
}

fn operation(method: &Method, path: &str) -> Option<&'static Value> {
    let method = method.as_str().to_lowercase();
    let paths = document()["paths"].as_object().unwrap();
    let matching = paths.iter().filter(|(template, _)| matches(template, path));
    // A path written out wins over one with a variable part.
    let (_, item) = matching.min_by_key(|(template, _)| template.matches('{').count())?;
    item.get(&method)
}

fn matches(template: &str, path: &str) -> bool {
    let (template, path) = (template.split('/'), path.split('/'));
    template.clone().count() == path.clone().count()
        && template
            .zip(path)
            .all(|(part, actual)| part.starts_with('{') || part == actual)
}

/// As much of JSON Schema as the document uses.
fn fits(value: &Value, schema: &Value, at: &str) -> Result<(), String> {
    if let Some(reference) = schema["$ref"].as_str() {
        let schema = document().pointer(&reference[1..]);
        return fits(value, schema.ok_or("dangling reference")?, at);
    }
    if let Some(choices) = schema["oneOf"].as_array() {
        let tried: Vec<String> = choices
            .iter()
            .filter_map(|choice| fits(value, choice, at).err())
            .collect();
        return match tried.len() < choices.len() {
            true => Ok(()),
            false => Err(format!("{at}: fits none of: {}", tried.join("; "))),
        };
    }
    for part in schema["allOf"].as_array().unwrap_or(&Vec::new()) {
        fits(value, part, at)?;
    }
    if let Some(words) = schema["enum"].as_array()
        && !words.contains(value)
    {
        return Err(format!("{at}: {value} is not one of {words:?}"));
    }
    if !has_type(value, &schema["type"]) {
        return Err(format!("{at}: {value} is not {}", schema["type"]));
    }
    if let (Some(items), Some(values)) = (schema.get("items"), value.as_array()) {
        for (index, value) in values.iter().enumerate() {
            fits(value, items, &format!("{at}[{index}]"))?;
        }
    }
    object_fits(value, schema, at)
}

fn object_fits(value: &Value, schema: &Value, at: &str) -> Result<(), String> {
    let (Some(object), Some(properties)) = (value.as_object(), schema["properties"].as_object())
    else {
        return Ok(());
    };
    for name in schema["required"].as_array().unwrap_or(&Vec::new()) {
        if !object.contains_key(name.as_str().unwrap()) {
            return Err(format!("{at}: {name} is missing"));
        }
    }
    // Problems carry facts that depend on their code.
    let open = properties.contains_key("title") && properties.contains_key("type");
    for (name, value) in object {
        match properties.get(name) {
            Some(schema) => fits(value, schema, &format!("{at}.{name}"))?,
            None if open => {}
            None => return Err(format!("{at}: {name} is not described")),
        }
    }
    Ok(())
}

fn has_type(value: &Value, wanted: &Value) -> bool {
    let is = |word: &Value| match word.as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        Some("boolean") => value.is_boolean(),
        Some("null") => value.is_null(),
        _ => false,
    };
    match wanted {
        Value::Null => true,
        Value::Array(words) => words.iter().any(is),
        word => is(word),
    }
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
