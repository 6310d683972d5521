//! The routes of the gateway: their scopes and errors.

use std::{sync::Arc, time::Duration};

use axum::{handler::Handler, middleware::from_fn_with_state};
use consign_server::{
    Scope,
    apps::{
        Access, ErrorFormat, Errors, GET, OPTIONS, POST, Reach, Route, Routes,
        codes::{self, Meaning},
    },
};

use super::{MemoryHttp, call, errors::answer, naming::named, routes};

/// Access for reading memories.
const RECALL: Access = Access::App(&[Scope::Producer, Scope::Auditor, Scope::Operator]);
/// Access for storing memories.
const REMEMBER: Access = Access::App(&[Scope::Producer, Scope::Operator]);

/// Errors of reading tools.
const READ: &[(u16, &str)] = &[
    (400, "MISSING_REQUIRED_PARAMETER"),
    (400, "INVALID_PARAMETER"),
    (403, "SPACE_FORBIDDEN"),
    (403, "ACTOR_MISMATCH"),
    (404, "NOT_FOUND"),
    (413, "PAYLOAD_TOO_LARGE"),
    (500, "EXECUTION_FAILED"),
    (502, "OPENMEMORY_REFUSED"),
    (503, "OPENMEMORY_UNAVAILABLE"),
    (503, "LOGBOOK_UNAVAILABLE"),
    (503, "QUERY_FAILED"),
    (503, "RELIABILITY_REPORT_DEPENDENCY_UNAVAILABLE"),
    (500, "RELIABILITY_REPORT_EXECUTION_FAILED"),
];
/// Errors of writing tools.
const WRITE: &[(u16, &str)] = &[
    (400, "MISSING_REQUIRED_PARAMETER"),
    (400, "INVALID_PARAMETER"),
    (403, "ACTOR_MISMATCH"),
    (413, "PAYLOAD_TOO_LARGE"),
    (500, "EXECUTION_FAILED"),
    (500, "AUDIT_WRITE_FAILED"),
    (503, "AUDIT_WRITE_FAILED"),
    (500, "OUTBOX_ENQUEUE_FAILED"),
    (503, "OUTBOX_ENQUEUE_FAILED"),
    (400, "OUTBOX_VALIDATION_FAILED"),
    (404, "NOT_FOUND"),
    (502, "OPENMEMORY_REFUSED"),
    (503, "OPENMEMORY_UNAVAILABLE"),
    (503, "INTERNAL_ERROR"),
    (503, "LOGBOOK_UNAVAILABLE"),
];

/// Adds routes whose handlers share one state, each with correlation ids.
pub(super) struct Table<'r> {
    pub(super) routes: &'r mut Routes,
    pub(super) http: MemoryHttp,
}

impl Table<'_> {
    fn add<H, T>(&mut self, route: Route, handler: H)
    where
        H: Handler<T, MemoryHttp>,
        T: 'static,
    {
        let gates = Arc::clone(self.routes.gates());
        let http = self.http.clone();
        self.routes.add_wrapped(route, handler, http, |guarded| {
            guarded.route_layer(from_fn_with_state(gates, named))
        });
    }

    pub(super) fn all(&mut self) {
        const NOT_HERE: &[&Meaning] = &[codes::NOT_FOUND, codes::ORIGIN_NOT_ALLOWED];
        let format = ErrorFormat::Custom(answer);
        let errors = |codes| Errors::with_codes(format, "AgentFailure", codes);
        let call = Route {
            method: POST,
            path: "/mcp",
            access: RECALL,
            // Spaces are not tenants: tokens bound to a tenant have no access.
            reach: Reach::AllTenants,
            problems: NOT_HERE,
            errors: errors(&[(400, "PARSE_ERROR"), (400, "INVALID_REQUEST")]),
            wait_max: Duration::ZERO,
        };
        let ask = Route {
            method: OPTIONS,
            access: Access::Open,
            errors: errors(&[]),
            ..call.clone()
        };
        let read = |method, path| Route {
            method,
            path,
            errors: errors(READ),
            ..call.clone()
        };
        let write = |path| Route {
            path,
            access: REMEMBER,
            errors: errors(WRITE),
            ..call.clone()
        };
        self.routes.add_with(health(), routes::health, ());
        self.add(call.clone(), call::call);
        self.add(ask, call::preflight);
        self.add(write("/memory/store"), routes::store);
        self.add(write("/memory/update"), routes::update);
        self.add(write("/memory/delete"), routes::delete);
        self.add(read(POST, "/memory/query"), routes::query);
        self.add(read(POST, "/memory/get"), routes::get);
        self.add(read(POST, "/memory/list"), routes::list);
        self.add(read(POST, "/memory/spaces"), routes::spaces);
        self.add(read(GET, "/reliability/report"), routes::report);
        self.add(read(POST, "/reliability/gate"), routes::gate);
        self.add(read(GET, "/governance/settings"), routes::settings);
        let change = write("/governance/settings/update");
        self.add(change, routes::change_settings);
    }
}

/// The health route for probes, without a correlation id.
fn health() -> Route {
    Route {
        method: GET,
        path: "/health",
        access: Access::Open,
        reach: Reach::AllTenants,
        problems: &[],
        errors: Errors::problems(),
        wait_max: Duration::ZERO,
    }
}
