//! Every route: what it asks of its callers, and which problems it may answer with.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    body::Body,
    handler::Handler,
    http::{HeaderName, HeaderValue, StatusCode, header},
    middleware::from_fn_with_state,
    response::Response,
    routing::{MethodFilter, on},
};

use consign_orders::Reason;
use serde_json::Value;

use crate::{
    dashboard,
    gate::{
        Gate, Shared,
        access::{Access, Reach},
        agents::named,
        observe::Known,
        pass,
    },
    problem::{
        Voice,
        codes::{self, Meaning},
    },
    state::AppState,
};

pub(crate) mod about;
mod agents;
pub(crate) mod audit;
pub(crate) mod claims;
pub(crate) mod enqueue;
pub(crate) mod health;
pub(crate) mod leases;
pub(crate) mod mcp;
pub(crate) mod memory;
pub(crate) mod messages;
pub(crate) mod orders;
mod paying;
pub(crate) mod payments;
pub(crate) mod queues;
pub(crate) mod redrives;

/// One route, as far as the documentation is concerned.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    pub(crate) access: Access,
    pub(crate) reach: Reach,
    /// Problems of its own, besides those every guarded route may answer with.
    pub(crate) problems: &'static [&'static Meaning],
    /// What it may answer with besides, in the words of a contract of its own.
    pub(crate) contract: Contract,
}

/// Whose words a route speaks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Contract {
    /// Those of this API.
    Own,
    /// Those of orders, with these reasons.
    Orders(&'static [Reason]),
    /// Those of payments, with these codes by status.
    Payments(&'static [(u16, &'static str)]),
    /// Those of the gateway of memories, with these codes by status.
    Agents(&'static [(u16, &'static str)]),
    /// None: pages are for people.
    Pages,
}

impl Endpoint {
    /// How it words what went wrong.
    pub(crate) fn voice(&self) -> Voice {
        match self.contract {
            Contract::Own => Voice::Problem,
            Contract::Orders(_) | Contract::Payments(_) => Voice::Flat,
            Contract::Agents(_) => Voice::Agents,
            Contract::Pages => Voice::Page,
        }
    }
}

/// One route, as far as the router is concerned.
#[derive(Clone, Copy)]
pub(crate) struct Way {
    pub(crate) method: (&'static str, MethodFilter),
    pub(crate) path: &'static str,
    pub(crate) access: Access,
    pub(crate) reach: Reach,
    pub(crate) problems: &'static [&'static Meaning],
    pub(crate) contract: Contract,
    /// How long its handler may wait, on top of the time for its work.
    pub(crate) patience: Duration,
}

/// Routes being collected.
pub(crate) struct Routes {
    shared: Arc<Shared>,
    /// The longest wait for an order's result.
    order_wait: Duration,
    pub(crate) router: Router<AppState>,
    pub(crate) endpoints: Vec<Endpoint>,
}

pub(crate) const GET: (&str, MethodFilter) = ("get", MethodFilter::GET);
pub(crate) const POST: (&str, MethodFilter) = ("post", MethodFilter::POST);
const PUT: (&str, MethodFilter) = ("put", MethodFilter::PUT);
const OPTIONS: (&str, MethodFilter) = ("options", MethodFilter::OPTIONS);
const PATCH: (&str, MethodFilter) = ("patch", MethodFilter::PATCH);

impl Routes {
    /// Every route.
    pub(crate) fn new(shared: Arc<Shared>, order_wait: Duration) -> Self {
        let mut routes = Self {
            shared,
            order_wait,
            router: Router::new(),
            endpoints: Vec::new(),
        };
        routes.about();
        routes.enqueueing();
        routes.ordering();
        routes.paying();
        routes.remembering();
        routes.reading();
        routes.operating();
        routes.working();
        routes.dashboard();
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
        self.add(GET, "/health", Access::Open, &[], health::health);
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

    fn ordering(&mut self) {
        const LOOK: &[Reason] = &[
            Reason::OrderUnknown,
            Reason::ValidationError,
            Reason::InternalError,
        ];
        let place = Way {
            method: POST,
            path: "/do/order",
            access: Access::ENQUEUE,
            reach: Reach::Everybody,
            problems: &[codes::NOT_FOUND],
            contract: Contract::Orders(Reason::ALL),
            patience: self.order_wait,
        };
        let look = Way {
            method: GET,
            path: "/do/order/{key}",
            contract: Contract::Orders(LOOK),
            patience: Duration::ZERO,
            ..place
        };
        self.add_way(place, orders::place);
        self.add_way(look, orders::look);
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
        self.add(GET, "/v1/queues", read, QUERY, queues::list);
        self.add(GET, "/v1/queues/{queue}", read, QUEUE, queues::show);
        self.add(GET, "/v1/leases", read, QUERY, leases::list);
        self.add(GET, "/v1/redrives", read, QUERY, redrives::list);
        self.add(GET, "/v1/redrives/{id}", read, REDRIVE, redrives::show);
        self.add(GET, "/v1/audit", read, QUERY, audit::list);
        self.add(GET, "/v1/worker", read, &[], health::worker);
    }

    fn operating(&mut self) {
        use messages::{
            hold, hold_many, requeue, requeue_many, resolve, resolve_many, unhold, unhold_many,
        };
        const REASON: &Meaning = codes::REASON_REQUIRED;
        const LEASE: &[&Meaning] = &[REASON, codes::UNKNOWN_LEASE];
        const MANY: &[&Meaning] = &[REASON, codes::BATCH_TOO_LARGE];
        const REQUEUE: &[&Meaning] = &[REASON, codes::NO_SUCH_MESSAGE, codes::NOT_DEAD];
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
    }

    fn working(&mut self) {
        const LOST: &[&Meaning] = &[codes::LEASE_LOST];
        const HELD: &[&Meaning] = &[codes::LEASE_LOST, codes::NOT_IN_LEASE];
        let work = Access::WORK;
        let patience = self.shared.options.wait_max();
        let queue = &[codes::UNKNOWN_QUEUE];
        self.add_patient(POST, "/v1/claims", work, queue, claims::claim, patience);
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
        method: (&'static str, MethodFilter),
        path: &'static str,
        access: Access,
        problems: &'static [&'static Meaning],
        handler: H,
    ) where
        H: Handler<T, AppState>,
        T: 'static,
    {
        self.add_patient(method, path, access, problems, handler, Duration::ZERO);
    }

    fn add_patient<H, T>(
        &mut self,
        method: (&'static str, MethodFilter),
        path: &'static str,
        access: Access,
        problems: &'static [&'static Meaning],
        handler: H,
        patience: Duration,
    ) where
        H: Handler<T, AppState>,
        T: 'static,
    {
        let way = Way {
            method,
            path,
            access,
            // What is not said to be divided by tenants is not.
            reach: Reach::Everybody,
            problems,
            contract: Contract::Own,
            patience,
        };
        self.add_way(way, handler);
    }

    pub(crate) fn add_way<H, T>(&mut self, way: Way, handler: H)
    where
        H: Handler<T, AppState>,
        T: 'static,
    {
        let (method, filter) = way.method;
        let endpoint = Endpoint {
            method,
            path: way.path,
            access: way.access.documented(),
            reach: way.reach,
            problems: way.problems,
            contract: way.contract,
        };
        let gate = Gate {
            shared: Arc::clone(&self.shared),
            route: way.path,
            access: way.access,
            reach: way.reach,
            patience: way.patience,
            voice: endpoint.voice(),
        };
        let mut guarded = on(filter, handler).route_layer(from_fn_with_state(gate, pass));
        if let Contract::Agents(_) = way.contract {
            let shared = Arc::clone(&self.shared);
            guarded = guarded.route_layer(from_fn_with_state(shared, named));
        }
        self.router = std::mem::take(&mut self.router).route(way.path, guarded);
        self.endpoints.push(endpoint);
    }
}

/// An answer in the words of a contract of its own.
fn flat_answer(status: u16, headers: Vec<(&'static str, String)>, body: String) -> Response {
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
    response.extensions_mut().insert(Known);
    response
}

/// A document as an answer. Whoever made it has logged what is wrong with it.
pub(crate) fn json_answer(status: StatusCode, body: &Value) -> Response {
    flat_answer(status.as_u16(), Vec::new(), body.to_string())
}

/// The Link header that leads to the next page: the same query from another place on.
fn next_link(path: &str, query: Option<&str>, before: i64) -> String {
    let kept = query.unwrap_or_default().split('&');
    let kept = kept.filter(|pair| !pair.is_empty() && !pair.starts_with("before="));
    let next = format!("before={before}");
    let query: Vec<&str> = kept.chain([next.as_str()]).collect();
    format!("<{path}?{}>; rel=\"next\"", query.join("&"))
}
