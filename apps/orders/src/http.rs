//! Orders over HTTP: `POST /do/order`, and the orders part of the dashboard.

mod dashboard;
mod routes;
mod wire;

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use consign_kernel::Message;
use consign_server::apps::{
    Access, ErrorFormat, Errors, Extension, Form, GET, POST, Problem, QueueProfile, Reach,
    RelatedRecord, Route, Routes, codes,
};
use jiff::Timestamp;
use utoipa::OpenApi as _;

use crate::{OrderService, Reason};

/// The HTTP extension of the app.
#[derive(Clone)]
pub struct OrdersHttp {
    /// `None` if the app is off.
    service: Option<Arc<OrderService>>,
    /// The longest `Prefer: wait`.
    wait_max: Duration,
}

#[derive(utoipa::OpenApi)]
#[openapi(
    paths(routes::place, routes::look),
    components(schemas(wire::OrderFailure)),
    tags((name = "orders", description = "Orders with an idempotency ledger; errors are flat")),
)]
struct Document;

impl OrdersHttp {
    /// Serves orders with this service; waits for a result up to `wait_max`.
    pub fn new(service: Arc<OrderService>, wait_max: Duration) -> Self {
        Self {
            service: Some(service),
            wait_max,
        }
    }

    /// The app is off: the routes answer 404.
    pub fn off() -> Self {
        Self {
            service: None,
            wait_max: Duration::ZERO,
        }
    }
}

impl fmt::Debug for OrdersHttp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OrdersHttp").finish_non_exhaustive()
    }
}

#[async_trait]
impl Extension for OrdersHttp {
    fn name(&self) -> &'static str {
        "orders"
    }

    fn routes(&self, routes: &mut Routes) {
        const LOOK: &[Reason] = &[
            Reason::OrderUnknown,
            Reason::ValidationError,
            Reason::InternalError,
        ];
        let place = Route {
            method: POST,
            path: "/do/order",
            access: Access::ENQUEUE,
            reach: Reach::AllTenants,
            problems: &[codes::NOT_FOUND],
            errors: errors(Reason::ALL),
            wait_max: self.wait_max,
        };
        let look = Route {
            method: GET,
            path: "/do/order/{key}",
            errors: errors(LOOK),
            wait_max: Duration::ZERO,
            ..place.clone()
        };
        routes.add_with(place, routes::place, self.clone());
        routes.add_with(look, routes::look, self.clone());
    }

    fn openapi(&self) -> Option<utoipa::openapi::OpenApi> {
        Some(Document::openapi())
    }

    fn index(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("POST /do/order", "place an order"),
            ("GET  /do/order/{key}", "show an order's state"),
        ]
    }

    fn error_format(&self, path: &str) -> Option<ErrorFormat> {
        path.starts_with("/do/").then_some(ErrorFormat::Flat)
    }

    fn queue(&self) -> Option<QueueProfile> {
        Some(dashboard::PROFILE)
    }

    async fn related(
        &self,
        message: &Message,
        now: Timestamp,
        is_revealed: bool,
    ) -> Result<Vec<RelatedRecord>, Problem> {
        dashboard::related(self, message, now, is_revealed).await
    }

    fn resolution(&self, form: &Form) -> Result<Option<String>, Problem> {
        dashboard::resolution(form)
    }

    fn drain(&self) {
        if let Some(service) = &self.service {
            service.drain();
        }
    }
}

/// Flat errors with the reason codes of the contract.
fn errors(reasons: &[Reason]) -> Errors {
    let line = |reason: &Reason| (reason.http_status(), format!("`{reason}`"));
    let mut codes: Vec<(u16, String)> = reasons.iter().map(line).collect();
    // A retry may succeed once the database is back.
    if reasons.contains(&Reason::InternalError) {
        let line = format!("`{}`: the database failed", Reason::InternalError);
        codes.push((503, line));
    }
    Errors {
        format: ErrorFormat::Flat,
        schema: "OrderFailure",
        codes,
    }
}
