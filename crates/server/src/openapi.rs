//! The OpenAPI document: from the handlers, their types, and the table of routes.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
    time::Duration,
};

use consign_memory::tools::{self, ToolInfo};
use consign_orders::Reason;
use serde_json::{Map, Value};
use utoipa::{
    OpenApi,
    openapi::{
        Content, PathItem, Ref, RefOr, Required, Response, Schema, SecurityRequirement,
        path::Operation,
        request_body::RequestBody,
        security::{HttpAuthScheme, HttpBuilder, SecurityScheme},
    },
};

use crate::{
    gate::{
        Shared,
        access::{Access, Reach},
    },
    options::ServerOptions,
    problem::{
        Voice,
        codes::{self, Meaning},
        flat_code,
    },
    routes::{
        Contract, Endpoint, Routes, about, audit, claims, enqueue, health, leases, mcp, memory,
        messages, orders,
        payments::{self, books, work},
        queues, redrives,
    },
    wire::{memory::AgentFailure, orders::OrderFailure, payments::PaymentFailure, shapes},
};

/// What any guarded route may answer with.
const GUARDED: &[&Meaning] = &[
    codes::INVALID_INPUT,
    codes::UNAUTHORIZED,
    codes::SCOPE_MISSING,
    codes::NOT_LOCAL,
    codes::HOST_NOT_ALLOWED,
    codes::ORIGIN_NOT_ALLOWED,
    codes::RATE_LIMITED,
    codes::FORBIDDEN,
    codes::CORRUPT,
    codes::INTERNAL,
    codes::SCHEMA_MISMATCH,
    codes::DATABASE_UNAVAILABLE,
    codes::LOCKED,
    codes::OVERLOADED,
    codes::REQUEST_TIMEOUT,
];

/// What any route that takes a body may answer with.
const WITH_BODY: &[&Meaning] = &[
    codes::BAD_JSON,
    codes::UNKNOWN_FIELD,
    codes::UNSUPPORTED_MEDIA_TYPE,
    codes::BODY_TOO_LARGE,
    codes::BODY_TIMEOUT,
];

/// What any other route answers with if it gets one all the same.
const WITHOUT_BODY: &[&Meaning] = &[
    codes::UNSUPPORTED_MEDIA_TYPE,
    codes::BODY_TOO_LARGE,
    codes::BODY_TIMEOUT,
];

const SCHEME: &str = "bearer";
const JSON: &str = "application/json";

#[derive(OpenApi)]
#[openapi(
    info(
        title = "consign",
        description = "A transactional outbox: enqueue, work, operate. Errors are RFC 9457 \
                       problem details with a stable `code`; GET /problems/{code} explains it.",
        license(name = "MIT OR Apache-2.0"),
    ),
    paths(
        about::index, about::openapi_json, about::problem,
        health::health, health::healthz, health::readyz, health::metrics, health::worker,
        enqueue::one, enqueue::batch,
        orders::place, orders::look,
        payments::take, payments::list, payments::show,
        payments::requeue, payments::hold, payments::release, payments::resolve,
        work::claim, work::complete, work::hold, work::witness, work::renew, work::begin,
        work::release, work::repair, books::status, books::reconcile,
        messages::list, messages::show, messages::attempts, messages::dead,
        messages::requeue, messages::hold, messages::unhold, messages::resolve,
        messages::requeue_many, messages::hold_many, messages::unhold_many, messages::resolve_many,
        queues::list, queues::show, queues::put, queues::patch, queues::pause, queues::resume,
        claims::claim,
        mcp::call, mcp::preflight,
        memory::store, memory::query, memory::get, memory::list, memory::update, memory::delete,
        memory::spaces, memory::report, memory::gate, memory::settings, memory::change_settings,
        leases::list, leases::renew, leases::begin, leases::settle, leases::release,
        leases::end,
        redrives::start, redrives::list, redrives::show, redrives::stop, redrives::resume,
        audit::list,
    ),
    components(schemas(shapes::Problem, OrderFailure, PaymentFailure, AgentFailure)),
    tags(
        (name = "enqueue", description = "For producers"),
        (name = "orders", description = "Orders with an idempotency ledger; errors are flat"),
        (name = "payments", description = "Payments with gap-free sequences; errors are flat"),
        (name = "memory", description = "Memories of agents; what goes wrong has `ok`, `error` and `error_code`"),
        (name = "messages", description = "Where messages are, and why"),
        (name = "queues", description = "Queues and their policies"),
        (name = "operate", description = "Moving messages by hand, and the record of it"),
        (name = "redrives", description = "Requeueing dead messages by filter"),
        (name = "work", description = "For workers that cannot reach the database"),
        (name = "health", description = "Probes and metrics"),
        (name = "about", description = "The API itself"),
    ),
)]
struct Document;

/// The OpenAPI document of the whole API, as JSON.
pub fn openapi_json() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| {
        let document = document();
        document
            .to_json()
            .expect("invariant: the document serialises")
    })
}

fn document() -> utoipa::openapi::OpenApi {
    let mut document = Document::openapi();
    let components = document.components.get_or_insert_default();
    let bearer = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some(
            "A token of server.tokens. None is needed on loopback while there are none.",
        ))
        .build();
    components.add_security_scheme(SCHEME, SecurityScheme::Http(bearer));
    for endpoint in endpoints() {
        let item = document.paths.paths.get_mut(endpoint.path);
        if let Some(operation) = item.and_then(|item| operation(item, endpoint.method)) {
            complete(operation, &endpoint);
        }
    }
    for (path, tool) in memory::TOOLS {
        let item = document.paths.paths.get_mut(*path);
        if let Some(operation) = item.and_then(|item| operation(item, "post")) {
            operation.request_body = Some(RefOr::T(arguments_of(tool)));
            if let Some(RefOr::T(answer)) = operation.responses.responses.get_mut("200") {
                let schema = schema_of(&tool_named(tool).output_schema);
                let content = Content::new(Some(RefOr::T(schema)));
                answer.content.insert(JSON.to_owned(), RefOr::T(content));
            }
        }
    }
    document
}

/// What a route takes that is a tool's own.
fn arguments_of(tool: &str) -> RequestBody {
    let tool = tool_named(tool);
    let mut body = RequestBody::new();
    body.description = Some(format!("What the tool `{}` takes", tool.name));
    body.required = Some(Required::True);
    let content = Content::new(Some(RefOr::T(schema_of(&tool.input_schema))));
    body.content.insert(JSON.to_owned(), RefOr::T(content));
    body
}

fn tool_named(name: &str) -> &'static ToolInfo {
    let tool = tools::list().iter().find(|known| known.name == name);
    tool.expect("invariant: a route is named after a tool")
}

fn schema_of(schema: &Map<String, Value>) -> Schema {
    let schema = serde_json::from_value(Value::Object(schema.clone()));
    schema.expect("invariant: the schema of a tool is one of OpenAPI")
}

/// The table of routes; pages are for people.
fn endpoints() -> Vec<Endpoint> {
    let shared = Arc::new(Shared::new(
        &ServerOptions::default(),
        Arc::default(),
        Vec::new(),
        Arc::new(jiff::Timestamp::now),
    ));
    let mut endpoints = Routes::new(shared, Duration::ZERO).endpoints;
    endpoints.retain(|endpoint| !matches!(endpoint.contract, Contract::Pages));
    endpoints
}

fn operation<'i>(item: &'i mut PathItem, method: &str) -> Option<&'i mut Operation> {
    match method {
        "get" => item.get.as_mut(),
        "post" => item.post.as_mut(),
        "put" => item.put.as_mut(),
        "patch" => item.patch.as_mut(),
        "options" => item.options.as_mut(),
        _ => None,
    }
}

/// Adds what follows from the table: who may call, and what may go wrong.
fn complete(operation: &mut Operation, endpoint: &Endpoint) {
    if endpoint.access != Access::Open {
        // Any one of the scopes will do.
        let scopes = endpoint.access.scopes().iter();
        let needs = scopes.map(|scope| SecurityRequirement::new(SCHEME, [scope.as_str()]));
        operation.security = Some(needs.collect());
    }
    let guarded = match endpoint.access {
        Access::Open => &[],
        _ => GUARDED,
    };
    let bound: &[&Meaning] = match (endpoint.access, endpoint.reach) {
        (Access::Open, _) | (_, Reach::Tenant) => &[],
        (_, Reach::Everybody) => &[codes::TENANT_BOUND],
    };
    let with_body = match operation.request_body {
        Some(_) => WITH_BODY,
        None => WITHOUT_BODY,
    };
    // By status, the codes and what they mean.
    let mut by_status: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (status, line) in own_words(endpoint.contract) {
        let lines = by_status.entry(status.to_string()).or_default();
        lines.push(line);
    }
    let voice = endpoint.voice();
    let problems = endpoint.problems.iter().chain(bound);
    for meaning in problems.chain(guarded).chain(with_body) {
        let status = meaning.status.as_str().to_owned();
        let code = match voice {
            Voice::Problem | Voice::Page => meaning.code.to_owned(),
            Voice::Flat | Voice::Agents => flat_code(meaning),
        };
        let line = format!("`{code}`: {}", meaning.title);
        by_status.entry(status).or_default().push(line);
    }
    for (status, lines) in by_status {
        let responses = &mut operation.responses.responses;
        responses
            .entry(status)
            .or_insert_with(|| RefOr::T(failure_response(endpoint.contract, &lines)));
    }
}

/// What a contract of its own adds, by status.
fn own_words(contract: Contract) -> Vec<(u16, String)> {
    match contract {
        Contract::Own | Contract::Pages => Vec::new(),
        Contract::Payments(codes) | Contract::Agents(codes) => {
            let line = |(status, code): &(u16, &str)| (*status, format!("`{code}`"));
            codes.iter().map(line).collect()
        }
        Contract::Orders(reasons) => {
            let line = |reason: &Reason| (reason.http_status(), format!("`{reason}`"));
            let mut words: Vec<(u16, String)> = reasons.iter().map(line).collect();
            // The database may be back when it is tried again.
            if reasons.contains(&Reason::InternalError) {
                let line = format!("`{}`: the database failed", Reason::InternalError);
                words.push((503, line));
            }
            words
        }
    }
}

fn failure_response(contract: Contract, lines: &[String]) -> Response {
    let (kind, schema) = match contract {
        Contract::Own | Contract::Pages => ("application/problem+json", "Problem"),
        Contract::Orders(_) => ("application/json", "OrderFailure"),
        Contract::Payments(_) => ("application/json", "PaymentFailure"),
        Contract::Agents(_) => ("application/json", "AgentFailure"),
    };
    let mut response = Response::new(lines.join("; "));
    let content = Content::new(Some(Ref::from_schema_name(schema)));
    response.content.insert(kind.to_owned(), RefOr::T(content));
    response
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_route_is_described_and_everything_described_is_a_route() {
        let routes: BTreeSet<(String, String)> = endpoints()
            .iter()
            .map(|endpoint| (endpoint.method.to_owned(), endpoint.path.to_owned()))
            .collect();
        let document: serde_json::Value = serde_json::from_str(openapi_json()).unwrap();
        let paths = document["paths"].as_object().unwrap();
        let described: BTreeSet<(String, String)> = paths
            .iter()
            .flat_map(|(path, item)| {
                let methods = item.as_object().unwrap().keys();
                methods.map(|method| (method.clone(), path.clone()))
            })
            .collect();
        assert_eq!(routes, described);
        assert!(routes.len() > 30, "{}", routes.len());
    }

    #[test]
    fn every_operation_has_a_name_of_its_own_a_summary_and_problems() {
        let document: serde_json::Value = serde_json::from_str(openapi_json()).unwrap();
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

    /// Whoever writes a client from the document sends what the tools take.
    #[test]
    fn routes_of_tools_take_what_the_tools_take() {
        let document: Value = serde_json::from_str(openapi_json()).unwrap();
        for (path, name) in memory::TOOLS {
            let body = &document["paths"][path]["post"]["requestBody"];
            assert_eq!(body["required"], true, "{path}");
            let schema = &body["content"]["application/json"]["schema"];
            let tools = consign_memory::tools::list();
            let tool = tools.iter().find(|tool| tool.name == *name).unwrap();
            let names = |schema: &Value| -> BTreeSet<String> {
                let properties = schema["properties"].as_object().unwrap();
                properties.keys().cloned().collect()
            };
            let wanted = Value::Object(tool.input_schema.clone());
            assert_eq!(names(schema), names(&wanted), "{path}");
            for (name, property) in wanted["properties"].as_object().unwrap() {
                let given = &schema["properties"][name];
                for what in ["type", "description", "minimum", "maximum", "default"] {
                    assert_eq!(given[what], property[what], "{path} {name} {what}");
                }
            }
            assert_eq!(schema["additionalProperties"], false, "{path}");
            let required = |schema: &Value| schema["required"].as_array().cloned();
            let wanted = required(&wanted).unwrap_or_default();
            assert_eq!(required(schema).unwrap_or_default(), wanted, "{path}");
        }
    }

    #[test]
    fn every_code_of_the_api_is_documented_somewhere_and_codes_are_unique() {
        let text = openapi_json();
        // These belong to no route, or to routes that spell them in capitals.
        let elsewhere = [
            "not_found",
            "method_not_allowed",
            "tenant_mismatch",
            "origin_not_allowed",
            "csrf_mismatch",
            "invalid_completion_state",
            "missing_rail_reference",
        ];
        let mut seen = BTreeSet::new();
        for meaning in codes::ALL {
            assert!(seen.insert(meaning.code), "{} twice", meaning.code);
            let named = text.contains(&format!("`{}`", meaning.code));
            assert!(
                named || elsewhere.contains(&meaning.code),
                "{}",
                meaning.code
            );
        }
    }
}
