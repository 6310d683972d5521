//! Payments over HTTP: `/v1/payments`, and the payments part of the dashboard.

mod dashboard;
mod figures;
mod payments;
mod routes;
mod wire;
mod work;

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use axum::{extract::FromRef, http::StatusCode};
use consign_kernel::{Message, QueueName};
use consign_server::apps::{
    AppState, ErrorFormat, Extension, Form, Problem, QueueProfile, RelatedRecord, Routes,
    codes::{self, Meaning},
};
use jiff::Timestamp;
use utoipa::OpenApi as _;

use self::routes::Table;
use crate::{PaymentService, Payments};

const TENANT_MISMATCH: &Meaning = &Meaning {
    code: "tenant_mismatch",
    status: StatusCode::FORBIDDEN,
    title: "token of another tenant",
    remedy: "use a token of that tenant, or one without a tenant",
};

const INVALID_COMPLETION_STATE: &Meaning = &Meaning {
    code: "invalid_completion_state",
    status: StatusCode::UNPROCESSABLE_ENTITY,
    title: "not a state that a worker can report",
    remedy: "report DISPATCHED, RETRYABLE or FAILED",
};

const MISSING_RAIL_REFERENCE: &Meaning = &Meaning {
    code: "missing_rail_reference",
    status: StatusCode::UNPROCESSABLE_ENTITY,
    title: "dispatch without a rail reference",
    remedy: "hold it with POST /v1/payments/leases/{token}/hold before its lease ends",
};

/// The HTTP extension of the app.
#[derive(Clone)]
pub struct PaymentsHttp {
    /// `None` if the app is off.
    here: Option<Arc<PaymentsState>>,
}

/// The service and the store of payments.
struct PaymentsState {
    service: PaymentService,
    store: Arc<dyn Payments>,
}

/// State of the handlers.
#[derive(Clone)]
struct Handlers {
    http: PaymentsHttp,
    server: AppState,
}

impl FromRef<Handlers> for PaymentsHttp {
    fn from_ref(handlers: &Handlers) -> Self {
        handlers.http.clone()
    }
}

impl FromRef<Handlers> for AppState {
    fn from_ref(handlers: &Handlers) -> Self {
        handlers.server.clone()
    }
}

#[derive(utoipa::OpenApi)]
#[openapi(
    paths(
        payments::take, payments::list, payments::show,
        payments::requeue, payments::hold, payments::release, payments::resolve,
        work::claim, work::complete, work::hold, work::record_late, work::renew, work::begin,
        work::release, work::repair, figures::status, figures::reconcile,
    ),
    components(schemas(wire::PaymentFailure)),
    tags((name = "payments", description = "Payments with gap-free sequences; errors are flat")),
)]
struct Document;

impl PaymentsHttp {
    /// Serves payments with this service and store.
    pub fn new(service: PaymentService, store: Arc<dyn Payments>) -> Self {
        Self {
            here: Some(Arc::new(PaymentsState { service, store })),
        }
    }

    /// The app is off: the routes answer 404.
    pub fn off() -> Self {
        Self { here: None }
    }

    fn here(&self) -> Result<&PaymentsState, Problem> {
        let here = self.here.as_deref();
        here.ok_or_else(|| {
            let detail = "the app payments is off on this server";
            Problem::new(codes::NOT_FOUND, detail)
        })
    }
}

impl fmt::Debug for PaymentsHttp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PaymentsHttp").finish_non_exhaustive()
    }
}

#[async_trait]
impl Extension for PaymentsHttp {
    fn name(&self) -> &'static str {
        "payments"
    }

    fn routes(&self, routes: &mut Routes) {
        let handlers = Handlers {
            http: self.clone(),
            server: routes.server().clone(),
        };
        Table { routes, handlers }.all();
    }

    fn openapi(&self) -> Option<utoipa::openapi::OpenApi> {
        Some(Document::openapi())
    }

    fn problems(&self) -> &'static [&'static Meaning] {
        &[
            TENANT_MISMATCH,
            INVALID_COMPLETION_STATE,
            MISSING_RAIL_REFERENCE,
        ]
    }

    fn error_format(&self, path: &str) -> Option<ErrorFormat> {
        let is_own = path.starts_with("/v1/payments");
        is_own.then_some(ErrorFormat::Flat)
    }

    fn queue(&self) -> Option<QueueProfile> {
        Some(dashboard::PROFILE)
    }

    async fn related(
        &self,
        message: &Message,
        now: Timestamp,
        _is_revealed: bool,
    ) -> Result<Vec<RelatedRecord>, Problem> {
        dashboard::related(self, message, now).await
    }

    fn resolution(&self, form: &Form) -> Result<Option<String>, Problem> {
        Ok(dashboard::resolution(form))
    }

    /// A general claim does not tell the worker to query the rail for payments in doubt.
    fn check_claim(&self, queue: &QueueName) -> Result<(), Problem> {
        if self.here.is_none() || *queue != crate::queue() {
            return Ok(());
        }
        let why = "claim payments with POST /v1/payments/claims";
        Err(Problem::invalid("queue", why))
    }
}
