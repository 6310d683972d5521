//! The OpenAPI document: from the handlers, their types, and the table of routes.

use std::{collections::BTreeMap, sync::Arc};

use utoipa::{
    OpenApi,
    openapi::{
        Content, OpenApi as ApiDocument, PathItem, Ref, RefOr, Response, SecurityRequirement,
        path::Operation,
        security::{HttpAuthScheme, HttpBuilder, SecurityScheme},
    },
};

use crate::{
    gate::{
        GateState,
        access::{Access, Reach},
    },
    options::ServerOptions,
    problem::{
        ErrorFormat,
        codes::{self, Meaning},
    },
    routes::{
        Endpoint, Errors, Routes, about, audit, claims, enqueue, erase, health, leases, messages,
        problems, queues, redrives, schedules,
    },
    state::AppState,
    wire::shapes,
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

/// The problems of any other route that gets a body.
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
        health::healthz, health::readyz, health::metrics, health::worker,
        enqueue::one, enqueue::batch,
        messages::list, messages::show, messages::attempts, messages::dead, messages::causes,
        messages::requeue, messages::hold, messages::unhold, messages::resolve,
        messages::requeue_many, messages::hold_many, messages::unhold_many, messages::resolve_many,
        messages::discard, messages::discard_many, messages::cancel, messages::cancel_many, messages::skip,
        erase::one, erase::many,
        queues::list, queues::show, queues::put, queues::patch, queues::pause, queues::resume,
        claims::claim,
        leases::list, leases::reserve_slots, leases::renew, leases::begin, leases::settle, leases::release,
        leases::end,
        redrives::start, redrives::list, redrives::show, redrives::stop, redrives::resume,
        schedules::list, schedules::show, schedules::put, schedules::remove, schedules::pause,
        schedules::resume, schedules::run,
        problems::list, problems::acknowledge, problems::reopen,
        audit::list,
    ),
    components(schemas(shapes::Problem)),
    tags(
        (name = "enqueue", description = "For producers"),
        (name = "messages", description = "Where messages are, and why"),
        (name = "queues", description = "Queues and their policies"),
        (name = "operate", description = "Moving messages by hand, and the record of it"),
        (name = "redrives", description = "Requeueing, discarding and cancelling messages by filter"),
        (name = "problems", description = "What is wrong now, and what operators know of it"),
        (name = "schedules", description = "Messages that are enqueued again and again"),
        (name = "work", description = "For workers that cannot reach the database"),
        (name = "health", description = "Probes and metrics"),
        (name = "about", description = "The API itself"),
    ),
)]
struct Document;

/// The OpenAPI document of the whole API with what apps add, as JSON.
pub fn openapi_json(state: &AppState) -> &str {
    state.openapi.get_or_init(|| {
        let document = document(state);
        document
            .to_json()
            .expect("invariant: the document serialises")
    })
}

fn document(state: &AppState) -> ApiDocument {
    let mut document = Document::openapi();
    let parts = state.extensions.iter().filter_map(|it| it.openapi());
    parts.for_each(|part| merge(&mut document, part));
    let components = document.components.get_or_insert_default();
    let bearer = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some(
            "A token of server.tokens. None is needed on loopback while there are none.",
        ))
        .build();
    components.add_security_scheme(SCHEME, SecurityScheme::Http(bearer));
    for endpoint in endpoints(state) {
        let item = document.paths.paths.get_mut(endpoint.path);
        if let Some(operation) = item.and_then(|item| operation(item, endpoint.method)) {
            complete(operation, &endpoint);
        }
    }
    document
}

/// Adds an app's part. Its tags follow those for producers, who call apps.
fn merge(document: &mut ApiDocument, mut part: ApiDocument) {
    let tags = document.tags.get_or_insert_default();
    let at = tags.iter().position(|tag| tag.name == "messages");
    let at = at.unwrap_or(tags.len());
    tags.splice(at..at, part.tags.take().unwrap_or_default());
    document.merge(part);
}

/// The table of routes; pages are for people.
pub(crate) fn endpoints(state: &AppState) -> Vec<Endpoint> {
    let shared = Arc::new(GateState::new(
        &ServerOptions::default(),
        Arc::default(),
        Arc::clone(&state.extensions),
        Arc::new(jiff::Timestamp::now),
    ));
    let mut endpoints = Routes::new(shared, state).endpoints;
    endpoints.retain(|endpoint| !endpoint.errors.format.is_page());
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
        (_, Reach::AllTenants) => &[codes::TENANT_BOUND],
    };
    let with_body = match operation.request_body {
        Some(_) => WITH_BODY,
        None => WITHOUT_BODY,
    };
    // By status, the codes and what they mean.
    let mut by_status: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (status, line) in &endpoint.errors.codes {
        let lines = by_status.entry(status.to_string()).or_default();
        lines.push(line.clone());
    }
    let problems = endpoint.problems.iter().chain(bound);
    for meaning in problems.chain(guarded).chain(with_body) {
        let status = meaning.status.as_str().to_owned();
        let code = endpoint.errors.format.code(meaning);
        let line = format!("`{code}`: {}", meaning.title);
        by_status.entry(status).or_default().push(line);
    }
    for (status, lines) in by_status {
        let responses = &mut operation.responses.responses;
        responses
            .entry(status)
            .or_insert_with(|| RefOr::T(failure_response(&endpoint.errors, &lines)));
    }
}

fn failure_response(errors: &Errors, lines: &[String]) -> Response {
    let kind = match errors.format {
        ErrorFormat::Problem | ErrorFormat::Page => "application/problem+json",
        ErrorFormat::Flat | ErrorFormat::Custom(_) => JSON,
    };
    let mut response = Response::new(lines.join("; "));
    let content = Content::new(Some(Ref::from_schema_name(errors.schema)));
    response.content.insert(kind.to_owned(), RefOr::T(content));
    response
}
