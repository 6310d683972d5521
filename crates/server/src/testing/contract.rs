//! Checks every answer in these tests against the OpenAPI document.

use std::sync::{Arc, Mutex, PoisonError};

use axum::http::Method;
use serde_json::Value;

use super::bench::Answer;
use crate::{
    AppState,
    openapi::{endpoints, openapi_json},
};

/// The methods and paths of every route but pages.
pub fn routes(state: &AppState) -> Vec<(String, String)> {
    let routes = endpoints(state).into_iter();
    let routes = routes.map(|route| (route.method.to_owned(), route.path.to_owned()));
    routes.collect()
}

/// Panics unless the document describes this answer.
pub(super) fn check(state: &AppState, method: &Method, path: &str, answer: &Answer) {
    let document = document(state);
    let Some(operation) = operation(&document, method, path) else {
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
        && let Err(why) = fits(&document, &answer.json, schema, "$")
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

/// Parsed once for every text: a test calls the same server many times.
fn document(state: &AppState) -> Arc<Value> {
    static DOCUMENTS: Mutex<Vec<(String, Arc<Value>)>> = Mutex::new(Vec::new());
    let text = openapi_json(state);
    let mut documents = DOCUMENTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, known)) = documents.iter().find(|(known, _)| known == text) {
        return Arc::clone(known);
    }
    let document: Arc<Value> = Arc::new(serde_json::from_str(text).unwrap());
    documents.push((text.to_owned(), Arc::clone(&document)));
    document
}

fn operation<'d>(document: &'d Value, method: &Method, path: &str) -> Option<&'d Value> {
    let method = method.as_str().to_lowercase();
    let paths = document["paths"].as_object().unwrap();
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
fn fits(document: &Value, value: &Value, schema: &Value, at: &str) -> Result<(), String> {
    if let Some(reference) = schema["$ref"].as_str() {
        let schema = document.pointer(&reference[1..]);
        return fits(document, value, schema.ok_or("dangling reference")?, at);
    }
    if let Some(choices) = schema["oneOf"].as_array() {
        let tried: Vec<String> = choices
            .iter()
            .filter_map(|choice| fits(document, value, choice, at).err())
            .collect();
        return if tried.len() < choices.len() {
            Ok(())
        } else {
            Err(format!("{at}: fits none of: {}", tried.join("; ")))
        };
    }
    for part in schema["allOf"].as_array().unwrap_or(&Vec::new()) {
        fits(document, value, part, at)?;
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
            fits(document, value, items, &format!("{at}[{index}]"))?;
        }
    }
    object_fits(document, value, schema, at)
}

fn object_fits(document: &Value, value: &Value, schema: &Value, at: &str) -> Result<(), String> {
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
            Some(schema) => fits(document, value, schema, &format!("{at}.{name}"))?,
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
