//! Checks that every request passes before its handler, in this order: the caller, its rate, the
//! body and memory for it, a slot, a deadline. Cheap checks come first, and an unknown caller cannot send a
//! body.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    body::Body,
    extract::{Request, State},
    http::request::Parts,
    middleware::Next,
    response::Response,
};
use tokio::sync::OwnedSemaphorePermit;
use uuid::Uuid;

use crate::{
    dashboard::{
        flash,
        form::Form,
        refusal::{self, RequestInfo},
        session::Sessions,
    },
    extension::Extension,
    options::{RateLimit, ServerOptions},
    problem::{ErrorFormat, Problem, ProblemFacts, codes},
    state::Clock,
};

pub(crate) mod access;
pub(crate) mod body;
pub(crate) mod budget;
pub(crate) mod deadline;
pub(crate) mod observe;
pub(crate) mod origin;
pub(crate) mod pages;
pub(crate) mod rate;
pub(crate) mod values;

use access::{Access, NavigationEntry, Reach};

/// How often one address may try a token, or send a form without a session.
const LOGINS: RateLimit = RateLimit {
    per_second: 1,
    burst: 20,
};

/// A login has a token and a page to go to, and its sender is not authenticated yet: how large it may be,
/// and how long it may take.
const LOGIN_BYTES_MAX: usize = 4 * 1024;
const LOGIN_WITHIN: Duration = Duration::from_secs(5);

/// How long a claim waits for memory: meanwhile it keeps a slot.
const CLAIM_MEMORY_WITHIN: Duration = Duration::from_secs(1);

/// What all gates share.
#[derive(Debug)]
pub struct GateState {
    pub(crate) options: ServerOptions,
    /// The tenants that tokens are bound to, by the tokens' names.
    tenants: Arc<BTreeMap<String, Uuid>>,
    extensions: Arc<Vec<Arc<dyn Extension>>>,
    /// The navigation of the dashboard.
    navigation: Arc<Vec<NavigationEntry>>,
    pub(crate) slots: deadline::Slots,
    bodies: body::Bodies,
    /// For the answers of claims.
    pub(crate) claims: Arc<budget::Budget>,
    pub(crate) sessions: Sessions,
    rates: rate::Rates,
    /// Tokens that were tried.
    logins: rate::Rates,
    /// Forms of those whose session has ended.
    drafts: rate::Rates,
    /// Requests with a token that is not known, by address.
    unknown_tokens: rate::Rates,
}

impl GateState {
    pub(crate) fn new(
        options: &ServerOptions,
        tenants: Arc<BTreeMap<String, Uuid>>,
        extensions: Arc<Vec<Arc<dyn Extension>>>,
        clock: Clock,
    ) -> Self {
        Self {
            sessions: Sessions::new(options, clock),
            logins: rate::Rates::new(LOGINS),
            drafts: rate::Rates::new(LOGINS),
            unknown_tokens: rate::Rates::new(LOGINS),
            slots: deadline::Slots::new(options.concurrency_max, options.waits_max),
            bodies: body::Bodies::new(options.bodies_max_bytes, options.body_max_bytes),
            claims: budget::Budget::new(
                ("claims_max_bytes", options.claims_max_bytes),
                1,
                CLAIM_MEMORY_WITHIN,
            ),
            rates: rate::Rates::new(options.rate_limit),
            options: ServerOptions {
                apps_have_tokens: options.apps_have_tokens
                    || extensions.iter().any(|it| it.has_tokens()),
                ..options.clone()
            },
            tenants,
            navigation: Arc::new(navigation(&extensions)),
            extensions,
        }
    }
}

/// For handlers of apps.
impl GateState {
    /// The longest that a request may wait for something to happen.
    pub fn wait_max(&self) -> Duration {
        self.options.wait_max()
    }

    /// A slot to wait; none where there are too many waiting requests.
    pub fn waiting_place(&self) -> Option<OwnedSemaphorePermit> {
        self.slots.wait()
    }

    /// Memory for the answer of a claim.
    pub async fn reserve_claim(
        &self,
        client: &str,
        bytes: usize,
    ) -> Result<budget::Reservation, Problem> {
        self.claims.reserve_some(client, (bytes, bytes)).await
    }
}

impl GateState {
    /// The tenant that a token is bound to.
    pub(crate) fn tenant_of(&self, name: &str) -> Option<Uuid> {
        self.tenants.get(name).copied()
    }
}

/// The entries of the engine's own pages, then those of apps.
fn navigation(extensions: &[Arc<dyn Extension>]) -> Vec<NavigationEntry> {
    const OWN: [NavigationEntry; 8] = [
        ("/", "Overview"),
        ("/ui/queues", "Queues"),
        ("/ui/messages", "Messages"),
        ("/ui/dead", "Dead letters"),
        ("/ui/schedules", "Schedules"),
        ("/ui/processes", "Processes"),
        ("/ui/audit", "Audit"),
        ("/ui/history", "History"),
    ];
    let apps = extensions.iter().flat_map(|it| it.navigation());
    OWN.iter().chain(apps).copied().collect()
}

/// The gate of one route.
#[derive(Clone, Debug)]
pub(crate) struct Gate {
    pub(crate) shared: Arc<GateState>,
    /// The app whose route it is.
    pub(crate) owner: Option<Arc<dyn Extension>>,
    pub(crate) route: &'static str,
    pub(crate) access: Access,
    pub(crate) reach: Reach,
    /// How long its handler may wait for something to happen, on top of the time for its work.
    pub(crate) wait_max: Duration,
    /// How refusals are rendered.
    pub(crate) format: ErrorFormat,
}

/// Passes a request to its handler, and counts the answer.
pub(crate) async fn pass(State(gate): State<Gate>, request: Request, next: Next) -> Response {
    let started = Instant::now();
    let method = request.method().clone();
    let facts = request.extensions().get::<ProblemFacts>().cloned();
    let gate = gate.for_request(&request);
    let info = gate.format.is_page().then(|| RequestInfo::new(&request));
    let mut response = match gate.admit(request, next, info.as_ref()).await {
        Ok(response) => response,
        Err(problem) => problem.with_facts(facts).render(gate.format),
    };
    if let Some(info) = info {
        response = info.answered(response);
    }
    observe::answered(&method, gate.route, &response, started.elapsed());
    response
}

impl Gate {
    /// The same, with the choice made where a path has two answers.
    fn for_request(self, request: &Request) -> Self {
        match self.access {
            Access::Front if pages::wants_page(request.headers()) => Self {
                access: Access::PAGES,
                format: ErrorFormat::Page,
                ..self
            },
            Access::Front => Self {
                access: Access::Open,
                ..self
            },
            _ => self,
        }
    }

    async fn admit(
        &self,
        request: Request,
        next: Next,
        info: Option<&RequestInfo>,
    ) -> Result<Response, Problem> {
        let options = &self.shared.options;
        let (mut parts, body) = request.into_parts();
        let caller = match access::admit(
            &self.shared,
            self.owner.as_deref(),
            (self.access, self.reach),
            &parts,
        ) {
            Ok(caller) => caller,
            Err(problem) => {
                if let Some(info) = info {
                    self.keep(info, &parts, body).await;
                }
                return Err(self.count_unknown_token(problem, &parts));
            }
        };
        if caller.visit.is_some() {
            pages::check_way(&parts)?;
        }
        let mut quota = match self.access {
            // Probes and metrics must not be rejected under load.
            Access::Front | Access::Open | Access::Metrics => None,
            _ => self.shared.rates.take(&caller.client, Instant::now())?,
        };
        body::check_encoding(&parts.headers)?;
        let bodies = &self.shared.bodies;
        let received = bodies.read(&caller.client, body, self.body_limits());
        let body::WholeBody { bytes, mut share } = received.await?;
        if let Some(info) = info {
            info.keep(&parts, &bytes);
        }
        if let Some(visit) = &caller.visit {
            pages::check_form(&parts, &bytes, visit)?;
        }
        if self.access == Access::Login && !self.is_known(&parts, &bytes) {
            // Only now: no page of another site can use up what its visitors may try. Nor can one who
            // guesses, for others behind the same address.
            quota = self.shared.logins.take(&caller.client, Instant::now())?;
        }
        // Before the slot: a large request that waits leaves the slots to small ones.
        bodies.turn(&mut share).await?;
        let slot = match self.access {
            Access::Front | Access::Open | Access::Metrics => None,
            _ => Some(self.shared.slots.take()?),
        };
        let visit = caller.visit.clone();
        parts.extensions.insert(slot.clone());
        parts.extensions.insert(caller);
        parts.extensions.insert(Arc::clone(&self.shared));
        let request = Request::from_parts(parts, Body::from(bytes));
        let limit = options.request_timeout() + self.wait_max;
        let mut response = deadline::run(request, next, (slot, share), limit).await?;
        if let Some(quota) = quota {
            quota.add_headers(response.headers_mut());
        }
        if let Some(visit) = visit {
            let done = flash::cookie(&self.shared.sessions, &visit, &response);
            if let Some(cookie) = done.or(visit.cookie) {
                refusal::with_cookie(response.headers_mut(), &cookie);
            }
        }
        Ok(response)
    }

    /// How large a body may be, and how long it may take.
    fn body_limits(&self) -> (usize, Duration) {
        let options = &self.shared.options;
        let (bytes_max, within) = (options.body_max_bytes, options.body_timeout());
        match self.access {
            // A claim is short and may wait: a large one would keep the turn of large bodies.
            Access::Scopes(_) if self.route.ends_with("/claims") => {
                (bytes_max.min(pages::FORM_BYTES_MAX), within)
            }
            Access::Scopes(_) | Access::App(_) => (bytes_max, within),
            Access::Pages(_) => (pages::FORM_BYTES_MAX, within),
            Access::Leave | Access::Login => (LOGIN_BYTES_MAX, within.min(LOGIN_WITHIN)),
            Access::Front | Access::Open | Access::Metrics => (0, within),
        }
    }

    /// Whether a login has a token of the server.
    fn is_known(&self, parts: &Parts, form: &[u8]) -> bool {
        let form = Form::read(&parts.headers, form).ok();
        let token = form.as_ref().and_then(|form| form.get("token"));
        token.is_some_and(|token| access::find(&self.shared.options.tokens, token.trim()).is_some())
    }

    /// Logs a request with an unknown token, and answers 429 where one address sends many of them.
    ///
    /// A known token is accepted meanwhile: behind a proxy all callers have one address, and one of
    /// them must not lock out the others. Guessing is prevented by the tokens' length.
    fn count_unknown_token(&self, problem: Problem, parts: &Parts) -> Problem {
        let is_refused = problem.meaning.code == codes::UNAUTHORIZED.code;
        if !is_refused || access::bearer(&parts.headers).is_none() {
            return problem;
        }
        let address = access::peer_name(parts);
        match self.shared.unknown_tokens.take(&address, Instant::now()) {
            Ok(_) => {
                let route = self.route;
                tracing::warn!(%address, route, "refused a request with an unknown token");
                problem
            }
            Err(mut limited) => {
                limited.detail =
                    "too many requests with unknown tokens from this address".to_owned();
                limited
            }
        }
    }

    /// Keeps the text of a form whose session has ended meanwhile. It is read
    /// no more often than a login may be tried.
    async fn keep(&self, info: &RequestInfo, parts: &Parts, body: Body) {
        let client = access::peer_name(parts);
        if !pages::is_own_form(parts) || self.shared.drafts.take(&client, Instant::now()).is_err() {
            return;
        }
        let limits = (pages::FORM_BYTES_MAX, self.shared.options.body_timeout());
        let read = self.shared.bodies.read(&client, body, limits);
        if let Ok(received) = read.await {
            info.keep(parts, &received.bytes);
        }
    }
}
