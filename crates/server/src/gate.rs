//! What every request passes on its way to a handler, in this order: who calls, how often, the
//! body, a place to work, a deadline. Cheap refusals come first, and nobody unknown gets to send a
//! body.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    body::Body,
    extract::{Request, State},
    middleware::Next,
    response::Response,
};
use consign_memory::{Correlation, GatewayToken};
use uuid::Uuid;

use crate::{
    options::ServerOptions,
    problem::{Problem, Voice},
};

pub(crate) mod access;
pub(crate) mod agents;
pub(crate) mod body;
pub(crate) mod deadline;
pub(crate) mod observe;
pub(crate) mod rate;
pub(crate) mod slots;

use access::{Access, Reach};

/// What all gates share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) options: ServerOptions,
    /// The tenants that tokens are bound to, by the tokens' names.
    tenants: Arc<BTreeMap<String, Uuid>>,
    /// The tokens that only the gateway of memories knows.
    agents: Vec<GatewayToken>,
    pub(crate) slots: slots::Slots,
    rates: rate::Rates,
}

impl Shared {
    pub(crate) fn new(
        options: &ServerOptions,
        tenants: Arc<BTreeMap<String, Uuid>>,
        agents: Vec<GatewayToken>,
    ) -> Self {
        Self {
            slots: slots::Slots::new(options.concurrency_max, options.waits_max),
            rates: rate::Rates::new(options.rate_limit),
            options: options.clone(),
            tenants,
            agents,
        }
    }
}

/// The gate of one route.
#[derive(Clone, Debug)]
pub(crate) struct Gate {
    pub(crate) shared: Arc<Shared>,
    pub(crate) route: &'static str,
    pub(crate) access: Access,
    pub(crate) reach: Reach,
    /// How long its handler may wait for something to happen, on top of the time for its work.
    pub(crate) patience: Duration,
    /// How refusals are worded.
    pub(crate) voice: Voice,
}

/// Lets a request through to its handler, and counts what came of it.
pub(crate) async fn pass(State(gate): State<Gate>, request: Request, next: Next) -> Response {
    let started = Instant::now();
    let method = request.method().clone();
    let correlation = request.extensions().get::<Correlation>().cloned();
    let response = match gate.admit(request, next).await {
        Ok(response) => response,
        Err(problem) => problem
            .in_request(correlation.as_ref())
            .in_voice(gate.voice),
    };
    observe::answered(&method, gate.route, &response, started.elapsed());
    response
}

impl Gate {
    async fn admit(&self, request: Request, next: Next) -> Result<Response, Problem> {
        let options = &self.shared.options;
        let (mut parts, body) = request.into_parts();
        let caller = access::admit(&self.shared, (self.access, self.reach), &parts)?;
        let (quota, bytes_max) = match self.access {
            Access::Scopes(_) | Access::Agents(_) => {
                let quota = self.shared.rates.take(&caller.client, Instant::now())?;
                (quota, options.body_max_bytes)
            }
            // Whoever watches over the server must not be locked out by it, and sends no body.
            Access::Open | Access::Metrics => (None, 0),
        };
        let bytes = body::read(body, bytes_max, options.body_timeout()).await?;
        let slot = match self.access {
            Access::Scopes(_) | Access::Agents(_) => Some(self.shared.slots.take()?),
            Access::Open | Access::Metrics => None,
        };
        parts.extensions.insert(slot.clone());
        parts.extensions.insert(caller);
        parts.extensions.insert(Arc::clone(&self.shared));
        let request = Request::from_parts(parts, Body::from(bytes));
        let limit = options.request_timeout() + self.patience;
        let mut response = deadline::run(request, next, slot, limit).await?;
        if let Some(quota) = quota {
            quota.tell(response.headers_mut());
        }
        Ok(response)
    }
}
