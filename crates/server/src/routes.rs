//! Every route: the access it needs, and the problems it may answer with.

use std::{fmt, sync::Arc, time::Duration};

use axum::{
    Router,
    body::Body,
    handler::Handler,
    http::{HeaderName, HeaderValue, StatusCode, header},
    middleware::from_fn_with_state,
    response::Response,
    routing::{MethodFilter, MethodRouter, on},
};
use serde_json::Value;

use crate::{
    dashboard,
    extension::Extension,
    gate::{
        Gate, GateState,
        access::{Access, Reach},
        observe::ReportedFailure,
        pass,
    },
    problem::{
        ErrorFormat,
        codes::{self, Meaning},
    },
    state::AppState,
};

pub(crate) mod about;
pub(crate) mod audit;
pub(crate) mod claims;
pub(crate) mod enqueue;
pub(crate) mod erase;
pub(crate) mod health;
pub(crate) mod leases;
pub(crate) mod messages;
pub(crate) mod problems;
pub(crate) mod queues;
pub(crate) mod redrives;
pub(crate) mod schedules;

/// One route, as far as the documentation is concerned.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    pub(crate) access: Access,
    pub(crate) reach: Reach,
    /// Problems of its own, besides those every guarded route may answer with.
    pub(crate) problems: &'static [&'static Meaning],
    pub(crate) errors: Errors,
}

/// How a route answers what went wrong, and how the document describes it.
#[derive(Clone, Debug)]
pub struct Errors {
    /// How its problems are rendered.
    pub format: ErrorFormat,
    /// The schema of a failure in the OpenAPI document.
    pub schema: &'static str,
    /// The descriptions of codes that are not problems of the server, by status.
    pub codes: Vec<(u16, String)>,
}

impl Errors {
    /// Problem details.
    pub fn problems() -> Self {
        Self {
            format: ErrorFormat::Problem,
            schema: "Problem",
            codes: Vec::new(),
        }
    }

    /// Pages for people, which the document leaves out.
    pub fn pages() -> Self {
        Self {
            format: ErrorFormat::Page,
            ..Self::problems()
        }
    }

    /// A format with codes of its own by status.
    pub fn with_codes(
        format: ErrorFormat,
        schema: &'static str,
        codes: &[(u16, &'static str)],
    ) -> Self {
        let line = |(status, code): &(u16, &str)| (*status, format!("`{code}`"));
        Self {
            format,
            schema,
            codes: codes.iter().map(line).collect(),
        }
    }
}

/// A method with the filter that selects it.
pub type Verb = (&'static str, MethodFilter);

/// One route, as far as the router is concerned.
#[derive(Clone, Debug)]
pub struct Route {
    /// Its method.
    pub method: Verb,
    /// Its path, as a template.
    pub path: &'static str,
    /// The access it needs.
    pub access: Access,
    /// Whether what it shows and moves is divided by tenants.
    pub reach: Reach,
    /// Problems of its own, besides those every guarded route may answer with.
    pub problems: &'static [&'static Meaning],
    /// How it answers what went wrong.
    pub errors: Errors,
    /// How long its handler may wait, on top of the time for its work.
    pub wait_max: Duration,
}

/// Routes being collected.
pub struct Routes {
    shared: Arc<GateState>,
    server: AppState,
    /// The app that adds routes now.
    owner: Option<Arc<dyn Extension>>,
    pub(crate) router: Router<AppState>,
    pub(crate) endpoints: Vec<Endpoint>,
}

impl fmt::Debug for Routes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Routes")
            .field("endpoints", &self.endpoints.len())
            .finish_non_exhaustive()
    }
}

/// `GET`.
pub const GET: Verb = ("get", MethodFilter::GET);
/// `POST`.
pub const POST: Verb = ("post", MethodFilter::POST);
/// `OPTIONS`.
pub const OPTIONS: Verb = ("options", MethodFilter::OPTIONS);
const PUT: Verb = ("put", MethodFilter::PUT);
const PATCH: Verb = ("patch", MethodFilter::PATCH);

impl Routes {
    /// Every route.
    pub(crate) fn new(shared: Arc<GateState>, server: &AppState) -> Self {
        let mut routes = Self {
            shared,
            server: server.clone(),
            owner: None,
            router: Router::new(),
            endpoints: Vec::new(),
        };
        routes.about();
        routes.enqueueing();
        routes.reading();
        routes.operating();
        routes.scheduling();
        routes.closing();
        routes.working();
        routes.dashboard();
        for extension in server.extensions.iter() {
            routes.owner = Some(Arc::clone(extension));
            extension.routes(&mut routes);
        }
        routes
    }

    fn about(&mut self) {
        self.add(GET, "/", Access::Front, &[], dashboard::front);
        self.add(GET, "/openapi.json", Access::Open, &[], about::openapi_json);
        let unknown = &[codes::NOT_FOUND];
        self.add(
            GET,
            "/problems/{code}",
            Access::Open,
            unknown,
            about::problem,
        );
        self.add(GET, "/healthz", Access::Open, &[], health::healthz);
        self.add(GET, "/readyz", Access::Open, &[], health::readyz);
        self.add(GET, "/metrics", Access::Metrics, &[], health::metrics);
    }

    fn enqueueing(&mut self) {
        const ONE: &[&Meaning] = &[
            codes::UNKNOWN_QUEUE,
            codes::KEY_CONFLICT,
            codes::KEY_MISMATCH,
            codes::PAYLOAD_TOO_LARGE,
            codes::APP_NOT_ENABLED,
        ];
        const BATCH: &[&Meaning] = &[
            codes::UNKNOWN_QUEUE,
            codes::KEY_CONFLICT,
            codes::PAYLOAD_TOO_LARGE,
            codes::BATCH_TOO_LARGE,
            codes::APP_NOT_ENABLED,
        ];
        let path = "/v1/queues/{queue}/messages";
        self.add(POST, path, Access::ENQUEUE, ONE, enqueue::one);
        self.add(POST, "/v1/messages", Access::ENQUEUE, BATCH, enqueue::batch);
    }

    fn reading(&mut self) {
        const QUERY: &[&Meaning] = &[codes::BAD_QUERY];
        const MESSAGE: &[&Meaning] = &[codes::NO_SUCH_MESSAGE];
        const QUEUE: &[&Meaning] = &[codes::UNKNOWN_QUEUE];
        const REDRIVE: &[&Meaning] = &[codes::UNKNOWN_REDRIVE];
        let read = Access::READ;
        const IN_QUEUE: &[&Meaning] = &[codes::BAD_QUERY, codes::UNKNOWN_QUEUE];
        self.add(GET, "/v1/messages", read, IN_QUEUE, messages::list);
        self.add(GET, "/v1/messages/{id}", read, MESSAGE, messages::show);
        let attempts = "/v1/messages/{id}/attempts";
        self.add(GET, attempts, read, MESSAGE, messages::attempts);
        self.add(GET, "/v1/dead", read, IN_QUEUE, messages::dead);
        self.add(GET, "/v1/dead/causes", read, IN_QUEUE, messages::causes);
        self.add(GET, "/v1/queues", read, QUERY, queues::list);
        self.add(GET, "/v1/queues/{queue}", read, QUEUE, queues::show);
        self.add(GET, "/v1/leases", read, QUERY, leases::list);
        self.add(GET, "/v1/redrives", read, QUERY, redrives::list);
        self.add(GET, "/v1/redrives/{id}", read, REDRIVE, redrives::show);
        const SCHEDULE: &[&Meaning] = &[codes::UNKNOWN_SCHEDULE];
        self.add(GET, "/v1/schedules", read, QUERY, schedules::list);
        let schedule = "/v1/schedules/{name}";
        self.add(GET, schedule, read, SCHEDULE, schedules::show);
        self.add(GET, "/v1/audit", read, QUERY, audit::list);
        self.add(GET, "/v1/problems", read, &[], problems::list);
        self.add(GET, "/v1/worker", read, &[], health::worker);
    }

    fn operating(&mut self) {
        use messages::{
            hold, hold_many, requeue, requeue_many, resolve, resolve_many, unhold, unhold_many,
        };
        const REASON: &Meaning = codes::REASON_REQUIRED;
        const LEASE: &[&Meaning] = &[REASON, codes::UNKNOWN_LEASE];
        const MANY: &[&Meaning] = &[REASON, codes::BATCH_TOO_LARGE];
        const REQUEUE: &[&Meaning] = &[
            REASON,
            codes::NO_SUCH_MESSAGE,
            codes::NOT_DEAD,
            codes::ERASED,
        ];
        const HOLD: &[&Meaning] = &[REASON, codes::NO_SUCH_MESSAGE, codes::NOT_HOLDABLE];
        const UNHOLD: &[&Meaning] = &[REASON, codes::NO_SUCH_MESSAGE, codes::NOT_HELD];
        const PUT_QUEUE: &[&Meaning] = &[REASON, codes::QUEUE_NOT_EMPTY, codes::APP_NOT_ENABLED];
        const PATCH_QUEUE: &[&Meaning] = &[REASON, codes::UNKNOWN_QUEUE, codes::QUEUE_NOT_EMPTY];
        const QUEUE: &[&Meaning] = &[REASON, codes::UNKNOWN_QUEUE];
        const REDRIVE: &[&Meaning] = &[REASON, codes::UNKNOWN_REDRIVE];
        let operate = Access::OPERATE;
        self.add(POST, "/v1/messages/{id}/requeue", operate, REQUEUE, requeue);
        self.add(POST, "/v1/messages/{id}/hold", operate, HOLD, hold);
        self.add(POST, "/v1/messages/{id}/unhold", operate, UNHOLD, unhold);
        self.add(POST, "/v1/messages/{id}/resolve", operate, UNHOLD, resolve);
        self.add(POST, "/v1/messages/requeue", operate, MANY, requeue_many);
        self.add(POST, "/v1/messages/hold", operate, MANY, hold_many);
        self.add(POST, "/v1/messages/unhold", operate, MANY, unhold_many);
        self.add(POST, "/v1/messages/resolve", operate, MANY, resolve_many);
        self.add(PUT, "/v1/queues/{queue}", operate, PUT_QUEUE, queues::put);
        self.add(
            PATCH,
            "/v1/queues/{queue}",
            operate,
            PATCH_QUEUE,
            queues::patch,
        );
        self.add(
            POST,
            "/v1/queues/{queue}/pause",
            operate,
            QUEUE,
            queues::pause,
        );
        self.add(
            POST,
            "/v1/queues/{queue}/resume",
            operate,
            QUEUE,
            queues::resume,
        );
        self.add(POST, "/v1/leases/{token}/end", operate, LEASE, leases::end);
        self.add(POST, "/v1/redrives", operate, QUEUE, redrives::start);
        self.add(
            POST,
            "/v1/redrives/{id}/stop",
            operate,
            REDRIVE,
            redrives::stop,
        );
        let resume = "/v1/redrives/{id}/resume";
        self.add(POST, resume, operate, REDRIVE, redrives::resume);
        let acknowledge = "/v1/problems/acknowledge";
        self.add(POST, acknowledge, operate, &[REASON], problems::acknowledge);
        let reopen = "/v1/problems/reopen";
        self.add(POST, reopen, operate, &[REASON], problems::reopen);
    }

    fn scheduling(&mut self) {
        use schedules::{pause, put, remove, resume, run};
        const PUT_SCHEDULE: &[&Meaning] = &[
            codes::REASON_REQUIRED,
            codes::UNKNOWN_QUEUE,
            codes::PAYLOAD_TOO_LARGE,
            codes::APP_NOT_ENABLED,
        ];
        const SCHEDULE: &[&Meaning] = &[codes::REASON_REQUIRED, codes::UNKNOWN_SCHEDULE];
        const RUN: &[&Meaning] = &[
            codes::REASON_REQUIRED,
            codes::UNKNOWN_SCHEDULE,
            codes::PAYLOAD_TOO_LARGE,
            codes::APP_NOT_ENABLED,
        ];
        let operate = Access::OPERATE;
        self.add(PUT, "/v1/schedules/{name}", operate, PUT_SCHEDULE, put);
        let path = "/v1/schedules/{name}/remove";
        self.add(POST, path, operate, SCHEDULE, remove);
        let path = "/v1/schedules/{name}/pause";
        self.add(POST, path, operate, SCHEDULE, pause);
        let path = "/v1/schedules/{name}/resume";
        self.add(POST, path, operate, SCHEDULE, resume);
        self.add(POST, "/v1/schedules/{name}/run", operate, RUN, run);
    }

    fn closing(&mut self) {
        use messages::{cancel, cancel_many, discard, discard_many, skip};
        const REASON: &Meaning = codes::REASON_REQUIRED;
        const MANY: &[&Meaning] = &[REASON, codes::BATCH_TOO_LARGE];
        const DISCARD: &[&Meaning] = &[
            REASON,
            codes::NO_SUCH_MESSAGE,
            codes::NOT_DISCARDABLE,
            codes::APP_QUEUE,
        ];
        const CANCEL: &[&Meaning] = &[
            REASON,
            codes::NO_SUCH_MESSAGE,
            codes::NOT_CANCELLABLE,
            codes::APP_QUEUE,
        ];
        const SKIP: &[&Meaning] = &[
            REASON,
            codes::UNKNOWN_QUEUE,
            codes::EMPTY_GROUP,
            codes::NOT_DISCARDABLE,
            codes::APP_QUEUE,
        ];
        const ERASE: &[&Meaning] = &[
            REASON,
            codes::NO_SUCH_MESSAGE,
            codes::NOT_FINAL,
            codes::BLOCKS_GROUP,
            codes::NEEDED,
            codes::APP_QUEUE,
        ];
        let operate = Access::OPERATE;
        self.add(POST, "/v1/messages/{id}/discard", operate, DISCARD, discard);
        self.add(POST, "/v1/messages/{id}/cancel", operate, CANCEL, cancel);
        self.add(POST, "/v1/messages/discard", operate, MANY, discard_many);
        self.add(POST, "/v1/messages/cancel", operate, MANY, cancel_many);
        self.add(POST, "/v1/queues/{queue}/skip", operate, SKIP, skip);
        self.add(POST, "/v1/messages/{id}/erase", operate, ERASE, erase::one);
        self.add(POST, "/v1/messages/erase", operate, MANY, erase::many);
    }

    fn working(&mut self) {
        const LOST: &[&Meaning] = &[codes::LEASE_LOST];
        const HELD: &[&Meaning] = &[codes::LEASE_LOST, codes::NOT_IN_LEASE];
        let work = Access::WORK;
        let wait_max = self.shared.options.wait_max();
        let queue = &[codes::UNKNOWN_QUEUE];
        self.add_waiting(POST, "/v1/claims", work, queue, claims::claim, wait_max);
        let slots = "/v1/queues/{queue}/slots";
        self.add(POST, slots, work, queue, leases::reserve_slots);
        self.add(POST, "/v1/leases/{token}/renew", work, LOST, leases::renew);
        self.add(POST, "/v1/leases/{token}/begin", work, HELD, leases::begin);
        self.add(
            POST,
            "/v1/leases/{token}/settle",
            work,
            HELD,
            leases::settle,
        );
        self.add(
            POST,
            "/v1/leases/{token}/release",
            work,
            LOST,
            leases::release,
        );
    }

    fn add<H, T>(
        &mut self,
        method: Verb,
        path: &'static str,
        access: Access,
        problems: &'static [&'static Meaning],
        handler: H,
    ) where
        H: Handler<T, AppState>,
        T: 'static,
    {
        self.add_waiting(method, path, access, problems, handler, Duration::ZERO);
    }

    fn add_waiting<H, T>(
        &mut self,
        method: Verb,
        path: &'static str,
        access: Access,
        problems: &'static [&'static Meaning],
        handler: H,
        wait_max: Duration,
    ) where
        H: Handler<T, AppState>,
        T: 'static,
    {
        let route = Route {
            method,
            path,
            access,
            // A route has no tenant filter unless declared so.
            reach: Reach::AllTenants,
            problems,
            errors: Errors::problems(),
            wait_max,
        };
        self.add_way(route, handler);
    }

    pub(crate) fn add_way<H, T>(&mut self, route: Route, handler: H)
    where
        H: Handler<T, AppState>,
        T: 'static,
    {
        let filter = route.method.1;
        self.insert(route, on(filter, handler), |guarded| guarded);
    }

    /// Adds a route of an app, whose handler gets `state`.
    pub fn add_with<H, T, S>(&mut self, route: Route, handler: H, state: S)
    where
        H: Handler<T, S>,
        T: 'static,
        S: Clone + Send + Sync + 'static,
    {
        self.add_wrapped(route, handler, state, |guarded| guarded);
    }

    /// The same, with a layer around the gate of the route.
    pub fn add_wrapped<H, T, S>(
        &mut self,
        route: Route,
        handler: H,
        state: S,
        wrap: impl FnOnce(MethodRouter<AppState>) -> MethodRouter<AppState>,
    ) where
        H: Handler<T, S>,
        T: 'static,
        S: Clone + Send + Sync + 'static,
    {
        let filter = route.method.1;
        self.insert(route, on(filter, handler).with_state(state), wrap);
    }

    /// Adds a page of an app, whose handler gets `state`.
    pub fn page_with<H, T, S>(
        &mut self,
        method: Verb,
        path: &'static str,
        access: Access,
        handler: H,
        state: S,
    ) where
        H: Handler<T, S>,
        T: 'static,
        S: Clone + Send + Sync + 'static,
    {
        let route = Route {
            method,
            path,
            access,
            reach: Reach::AllTenants,
            problems: &[],
            errors: Errors::pages(),
            wait_max: Duration::ZERO,
        };
        self.add_with(route, handler, state);
    }

    /// What all gates share, for layers around them.
    pub fn gates(&self) -> &Arc<GateState> {
        &self.shared
    }

    /// The server, for handlers of apps.
    pub fn server(&self) -> &AppState {
        &self.server
    }

    /// The longest that a request may wait for something to happen.
    pub fn wait_max(&self) -> Duration {
        self.shared.wait_max()
    }

    fn insert(
        &mut self,
        route: Route,
        handler: MethodRouter<AppState>,
        wrap: impl FnOnce(MethodRouter<AppState>) -> MethodRouter<AppState>,
    ) {
        let endpoint = Endpoint {
            method: route.method.0,
            path: route.path,
            access: route.access.documented(),
            reach: route.reach,
            problems: route.problems,
            errors: route.errors,
        };
        let gate = Gate {
            shared: Arc::clone(&self.shared),
            owner: self.owner.clone(),
            route: route.path,
            access: route.access,
            reach: route.reach,
            wait_max: route.wait_max,
            format: endpoint.errors.format,
        };
        let guarded = wrap(handler.route_layer(from_fn_with_state(gate, pass)));
        self.router = std::mem::take(&mut self.router).route(route.path, guarded);
        self.endpoints.push(endpoint);
    }
}

/// An answer that an app wrote itself. The app has logged what is wrong with it.
pub fn flat_answer(status: u16, headers: Vec<(&'static str, String)>, body: String) -> Response {
    let mut response = Response::new(Body::from(body));
    let status = StatusCode::from_u16(status);
    *response.status_mut() = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    for (name, value) in headers {
        if let Ok(value) = HeaderValue::from_str(&value) {
            let name = HeaderName::from_static(name);
            response.headers_mut().append(name, value);
        }
    }
    response.extensions_mut().insert(ReportedFailure);
    response
}

/// A document as an answer. The caller has logged what is wrong with it.
pub fn json_answer(status: StatusCode, body: &Value) -> Response {
    flat_answer(status.as_u16(), Vec::new(), body.to_string())
}

/// The Link header that leads to the next page: the same query from another place on.
pub fn next_link(path: &str, query: Option<&str>, before: i64) -> String {
    let kept = query.unwrap_or_default().split('&');
    let kept = kept.filter(|pair| !pair.is_empty() && !pair.starts_with("before="));
    let next = format!("before={before}");
    let query: Vec<&str> = kept.chain([next.as_str()]).collect();
    format!("<{path}?{}>; rel=\"next\"", query.join("&"))
}
