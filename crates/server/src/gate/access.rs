//! Access control: callers, tokens and scopes.

use std::{net::IpAddr, sync::Arc};

use axum::http::{HeaderMap, HeaderName, Method, header, request::Parts};
use subtle::{Choice, ConditionallySelectable};
use uuid::Uuid;

use super::{GateState, pages};
use crate::{
    dashboard::session::Visit,
    extension::{Extension, TokenHolder},
    options::{ServerOptions, TokenEntry},
    problem::{Problem, codes},
    serve::Peer,
    token::{Scope, Token},
};

/// The caller's name for itself; unverified.
const ACTOR_HEADER: &str = "x-consign-actor";
const ACTOR_BYTES_MAX: usize = 100;

/// The access that a route needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// None: probes, and public documentation.
    Open,
    /// None for the short index; for the page at the same path, that of pages.
    Front,
    /// By the option `metrics_open`.
    Metrics,
    /// One of these scopes, by the session of a browser or by a token.
    Pages(&'static [Scope]),
    /// None: here a session begins.
    Login,
    /// None: here a session ends, even if its token was removed.
    Leave,
    /// One of these scopes.
    Scopes(&'static [Scope]),
    /// One of these scopes, or a token that only the app of the route knows.
    App(&'static [Scope]),
}

impl Access {
    /// Enqueueing.
    pub const ENQUEUE: Self = Self::Scopes(&[Scope::Producer]);
    /// Working on messages.
    pub const WORK: Self = Self::Scopes(&[Scope::Worker]);
    /// Moving messages by hand.
    pub const OPERATE: Self = Self::Scopes(&[Scope::Operator]);
    /// Reading, and what is the caller's own.
    pub const READ_OWN: Self = Self::Scopes(&[Scope::Producer, Scope::Auditor, Scope::Operator]);
    /// Reading whatever there is.
    pub const READ: Self = Self::Scopes(&[Scope::Auditor, Scope::Operator]);
    /// Looking at pages.
    pub const PAGES: Self = Self::Pages(&[Scope::Auditor, Scope::Operator]);
    /// Acting on them.
    pub const PAGES_OPERATE: Self = Self::Pages(&[Scope::Operator]);

    /// The scopes of which one is needed; none where no token is ever needed.
    pub(crate) fn scopes(self) -> &'static [Scope] {
        match self {
            Self::Open | Self::Front | Self::Login | Self::Leave => &[],
            Self::Metrics => &[Scope::Auditor, Scope::Operator],
            Self::Scopes(scopes) | Self::App(scopes) | Self::Pages(scopes) => scopes,
        }
    }

    /// Its form in the OpenAPI document, which has no pages.
    pub(crate) fn documented(self) -> Self {
        match self {
            Self::Front => Self::Open,
            other => other,
        }
    }
}

/// Whether what a route shows and moves is divided by tenants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// It is not: a token bound to a tenant would see, or move, what belongs to others.
    AllTenants,
    /// Its handler keeps every caller to its tenant.
    Tenant,
}

/// A path of the dashboard, and its label.
pub(crate) type NavigationEntry = (&'static str, &'static str);

/// A token of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerToken {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub scopes: Vec<Scope>,
}

impl From<&TokenEntry> for ServerToken {
    fn from(entry: &TokenEntry) -> Self {
        Self {
            name: entry.name.clone(),
            scopes: entry.scopes.clone(),
        }
    }
}

/// The caller of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// What the rate limit counts by.
    pub client: String,
    /// The actor in the audit log.
    pub actor: String,
    /// The name of the token that was presented; none where none is needed.
    pub token: Option<String>,
    /// The tenant that token is bound to; none: it may act for all.
    pub tenant_id: Option<Uuid>,
    /// Whether it may read whatever there is.
    pub is_reader: bool,
    /// The token of the server that was presented, on routes with [`Access::App`].
    pub server_token: Option<ServerToken>,
    /// The holder of the app's own token that was presented, there.
    pub holder: Option<TokenHolder>,
    /// The navigation of the dashboard.
    pub(crate) navigation: Arc<Vec<NavigationEntry>>,
    /// The visitor of the dashboard, on its pages.
    pub(crate) visit: Option<Visit>,
}

/// Admits a caller, or returns the problem.
pub(crate) fn admit(
    shared: &GateState,
    owner: Option<&dyn Extension>,
    (access, reach): (Access, Reach),
    request: &Parts,
) -> Result<Caller, Problem> {
    let GateState {
        options, tenants, ..
    } = shared;
    let address = peer_address(request);
    let (mut is_reader, mut tenant_id, mut visit) = (true, None, None);
    let (mut server_token, mut holder) = (None, None);
    let name = match access {
        Access::Open | Access::Front => None,
        Access::Pages(_) | Access::Login | Access::Leave => {
            let visitor = pages::admit(shared, (access, reach), request)?;
            tenant_id = visitor.tenant_id;
            let name = visitor.visit.name.clone();
            visit = Some(visitor.visit);
            name
        }
        Access::Metrics if metrics_are_open(options, address, &request.headers) => {
            check_host(options, request)?;
            None
        }
        Access::Metrics | Access::Scopes(_) if !options.needs_token() => {
            check_local(options, address, &request.headers)?;
            check_host(options, request)?;
            check_writer(shared, request)?;
            None
        }
        Access::Metrics | Access::Scopes(_) => {
            let entry = authenticate(shared, &request.headers)?;
            tenant_id = tenants.get(&entry.name).copied();
            check_reach(entry, tenant_id, reach)?;
            check_scopes(entry, access.scopes())?;
            let mut reads = Access::READ.scopes().iter();
            is_reader = reads.any(|scope| entry.scopes.contains(scope));
            Some(entry.name.clone())
        }
        Access::App(_) if !options.needs_token() => {
            check_local(options, address, &request.headers)?;
            check_host(options, request)?;
            shared.check_origin(&request.headers)?;
            None
        }
        Access::App(scopes) => {
            let bearer = bearer(&request.headers).ok_or_else(no_token)?;
            holder = owner.and_then(|owner| owner.token_holder(bearer));
            let entry = find(&options.tokens, bearer);
            if let Some(entry) = entry {
                check_reach(entry, tenants.get(&entry.name).copied(), reach)?;
            }
            if let (None, Some(entry)) = (&holder, entry) {
                check_scopes(entry, scopes)?;
            }
            server_token = entry.map(ServerToken::from);
            Some(app_name(holder.as_ref(), entry).ok_or_else(unknown_token)?)
        }
    };
    let client = name
        .clone()
        .unwrap_or_else(|| format!("anonymous@{}", peer_name(request)));
    Ok(Caller {
        actor: actor(&client, &request.headers)?,
        client,
        token: name,
        tenant_id,
        is_reader,
        server_token,
        holder,
        navigation: Arc::clone(&shared.navigation),
        visit,
    })
}

/// The name of a caller of an app; none: the token is unknown.
fn app_name(holder: Option<&TokenHolder>, entry: Option<&TokenEntry>) -> Option<String> {
    let name = holder.and_then(|holder| holder.name.clone());
    let name = name.or_else(|| entry.map(|entry| entry.name.clone()));
    name.or_else(|| holder.map(|holder| holder.label.to_owned()))
}

/// Where the caller is.
pub(super) fn peer_address(request: &Parts) -> Option<IpAddr> {
    let peer = request.extensions.get::<Peer>().copied();
    peer.map(|Peer(peer)| peer.ip().to_canonical())
}

/// The same in a log, and as what is counted by.
pub(super) fn peer_name(request: &Parts) -> String {
    let address = peer_address(request);
    address.map_or("unknown".to_owned(), |address| address.to_string())
}

fn metrics_are_open(options: &ServerOptions, address: Option<IpAddr>, headers: &HeaderMap) -> bool {
    options
        .metrics_open
        .unwrap_or_else(|| is_local(address, headers))
}

/// Whether the caller, and not only a proxy in front of it, is on this machine.
fn is_local(address: Option<IpAddr>, headers: &HeaderMap) -> bool {
    address.is_some_and(|address| address.is_loopback()) && !headers.keys().any(is_of_a_proxy)
}

/// Whether a proxy adds this header to what it passes on.
fn is_of_a_proxy(name: &HeaderName) -> bool {
    let name = name.as_str();
    let is_known = matches!(
        name,
        "forwarded"
            | "via"
            | "x-real-ip"
            | "true-client-ip"
            | "x-proxyuser-ip"
            | "x-envoy-external-address"
            | "x-appengine-user-ip"
            | "x-amzn-trace-id"
    );
    // As `X-Cluster-Client-IP`, `Fastly-Client-IP` and `CF-Connecting-IP`.
    let is_client = ["client-ip", "clientip", "connecting-ip"];
    is_known
        || name.starts_with("x-forwarded")
        || name.starts_with("x-original-")
        || is_client.iter().any(|end| name.ends_with(end))
}

pub(super) fn check_local(
    options: &ServerOptions,
    address: Option<IpAddr>,
    headers: &HeaderMap,
) -> Result<(), Problem> {
    if options.allow_anonymous || is_local(address, headers) {
        return Ok(());
    }
    let detail = "this server has no tokens and serves only callers on its own machine, not those \
                  behind a proxy either";
    Err(Problem::new(codes::NOT_LOCAL, detail))
}

/// A web page can make a browser on this machine call any name its author controls, and let that
/// name point here. It cannot choose the Host header, so that is checked.
pub(super) fn check_host(options: &ServerOptions, request: &Parts) -> Result<(), Problem> {
    let host = request.headers.get(header::HOST);
    let host = host.and_then(|host| host.to_str().ok()).unwrap_or_default();
    let name = host_name(host);
    let is_address = name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
    let is_known = name.eq_ignore_ascii_case("localhost")
        || options
            .allowed_hosts
            .iter()
            .any(|allowed| allowed == "*" || allowed.eq_ignore_ascii_case(name));
    if is_address || is_known {
        return Ok(());
    }
    let detail = format!(
        "host name {name:?} is not one of this server's; call it by its address, or add the name to \
         server.allowed_hosts"
    );
    Err(Problem::new(codes::HOST_NOT_ALLOWED, detail))
}

/// Without tokens, what changes something may come from programs and from pages of this machine. A
/// body as JSON already keeps other pages out, because browsers send a preflight; many requests need none.
fn check_writer(shared: &GateState, request: &Parts) -> Result<(), Problem> {
    if matches!(request.method, Method::GET | Method::HEAD) {
        return Ok(());
    }
    shared.check_origin(&request.headers)
}

/// A Host header without its port.
pub(super) fn host_name(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

/// The token a request carries.
fn authenticate<'o>(shared: &'o GateState, headers: &HeaderMap) -> Result<&'o TokenEntry, Problem> {
    let tokens = &shared.options.tokens;
    if tokens.is_empty() {
        let detail = shared.for_apps_only();
        return Err(refused_token(&detail, "Bearer realm=\"consign\""));
    }
    let bearer = bearer(headers).ok_or_else(no_token)?;
    find(tokens, bearer).ok_or_else(unknown_token)
}

impl GateState {
    /// The answer of a server whose only tokens are those of apps.
    pub(crate) fn for_apps_only(&self) -> String {
        let mut settings = self.extensions.iter().filter_map(|it| it.token_settings());
        let (holders, settings) = settings.next().unwrap_or(("apps", "see its configuration"));
        format!(
            "this server has tokens for {holders} only ({settings}), and no token opens this path; \
             add server.tokens to its configuration, `consign token new` makes one"
        )
    }
}

/// Compares a token with every one of the server: the duration does not depend on how far a
/// guess matches.
pub(crate) fn find<'o>(tokens: &'o [TokenEntry], bearer: &str) -> Option<&'o TokenEntry> {
    let hash = Token::new(bearer).hash();
    let none = tokens.len() as u64;
    let mut found = none;
    for (index, entry) in (0..).zip(tokens) {
        let matches: Choice = entry.hash.matches(&hash);
        found = u64::conditional_select(&found, &index, matches);
    }
    tokens.get(found as usize)
}

pub(super) fn no_token() -> Problem {
    refused_token(
        "send `Authorization: Bearer <token>`",
        "Bearer realm=\"consign\"",
    )
}

pub(crate) fn unknown_token() -> Problem {
    refused_token(
        "the server rejects this token: it is not in server.tokens",
        "Bearer realm=\"consign\", error=\"invalid_token\"",
    )
}

fn refused_token(detail: &str, challenge: &str) -> Problem {
    Problem::new(codes::UNAUTHORIZED, detail).with_header(header::WWW_AUTHENTICATE, challenge)
}

pub(super) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

pub(crate) fn check_scopes(entry: &TokenEntry, needed: &[Scope]) -> Result<(), Problem> {
    if needed.iter().any(|scope| entry.scopes.contains(scope)) {
        return Ok(());
    }
    let words: Vec<&str> = needed.iter().map(|scope| scope.as_str()).collect();
    let list = words.join(" or ");
    let detail = format!("token {:?} lacks the scope {list}", entry.name);
    let challenge = format!(
        "Bearer realm=\"consign\", error=\"insufficient_scope\", scope=\"{}\"",
        words.join(" ")
    );
    Err(Problem::new(codes::SCOPE_MISSING, detail)
        .with("scopes", words)
        .with_header(header::WWW_AUTHENTICATE, &challenge))
}

/// No scope opens an endpoint without a tenant filter to a tenant.
pub(crate) fn check_reach(
    entry: &TokenEntry,
    tenant_id: Option<Uuid>,
    reach: Reach,
) -> Result<(), Problem> {
    if tenant_id.is_none() || reach == Reach::Tenant {
        return Ok(());
    }
    let detail = format!(
        "token {:?} is bound to a tenant, and this endpoint has no tenant filter",
        entry.name
    );
    Err(Problem::new(codes::TENANT_BOUND, detail))
}

/// The actor for the audit log: the verified name, and the name in the caller's header.
fn actor(known: &str, headers: &HeaderMap) -> Result<String, Problem> {
    let Some(claimed) = headers.get(ACTOR_HEADER) else {
        return Ok(known.to_owned());
    };
    let claimed = std::str::from_utf8(claimed.as_bytes())
        .unwrap_or_default()
        .trim();
    if claimed.is_empty() || claimed.len() > ACTOR_BYTES_MAX || claimed.contains(char::is_control) {
        let why = format!("must be 1 to {ACTOR_BYTES_MAX} bytes of printable text");
        return Err(Problem::out_of_bounds(
            "X-Consign-Actor",
            consign_kernel::quoted(claimed),
            &why,
        ));
    }
    Ok(format!("{known}, {claimed} (unverified)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_no_part_of_a_name() {
        for (host, name) in [
            ("localhost", "localhost"),
            ("localhost:8787", "localhost"),
            ("127.0.0.1:1", "127.0.0.1"),
            ("[::1]:8787", "[::1]"),
            ("evil.example:8787", "evil.example"),
        ] {
            assert_eq!(host_name(host), name);
        }
    }
}
