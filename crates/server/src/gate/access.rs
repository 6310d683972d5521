//! Who may do what.

use std::net::IpAddr;

use axum::http::{HeaderMap, HeaderName, Method, header, request::Parts};
use subtle::{Choice, ConditionallySelectable};
use uuid::Uuid;

use super::{Shared, agents::Agent, pages};
use crate::{
    dashboard::session::Visit,
    options::{ServerOptions, TokenEntry},
    problem::{Problem, codes},
    serve::Peer,
    token::{Scope, Token},
};

/// Who says so; not proven by anything.
const ACTOR_HEADER: &str = "x-consign-actor";
const ACTOR_BYTES_MAX: usize = 100;

/// What a route asks of its callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Nothing: probes, and what the documentation says anyway.
    Open,
    /// Nothing for the short index; for the page that browsers want at the same path, what pages ask.
    Front,
    /// What `metrics_open` says.
    Metrics,
    /// One of these scopes, by the session of a browser or by a token.
    Pages(&'static [Scope]),
    /// Nothing yet: here a session begins.
    Login,
    /// Nothing any more: here a session ends, whatever has become of its token.
    Leave,
    /// One of these scopes.
    Scopes(&'static [Scope]),
    /// One of these scopes, or a token that only the gateway of memories knows.
    Agents(&'static [Scope]),
}

impl Access {
    pub(crate) const ENQUEUE: Self = Self::Scopes(&[Scope::Producer]);
    pub(crate) const WORK: Self = Self::Scopes(&[Scope::Worker]);
    pub(crate) const OPERATE: Self = Self::Scopes(&[Scope::Operator]);
    /// Reading, and what is the caller's own.
    pub(crate) const READ_OWN: Self =
        Self::Scopes(&[Scope::Producer, Scope::Auditor, Scope::Operator]);
    pub(crate) const READ: Self = Self::Scopes(&[Scope::Auditor, Scope::Operator]);
    /// Looking at memories.
    pub(crate) const RECALL: Self =
        Self::Agents(&[Scope::Producer, Scope::Auditor, Scope::Operator]);
    /// Looking at pages.
    pub(crate) const PAGES: Self = Self::Pages(&[Scope::Auditor, Scope::Operator]);
    /// Acting on them.
    pub(crate) const PAGES_OPERATE: Self = Self::Pages(&[Scope::Operator]);
    /// Storing them.
    pub(crate) const REMEMBER: Self = Self::Agents(&[Scope::Producer, Scope::Operator]);

    /// The scopes of which one is needed; none where no token is ever needed.
    pub(crate) fn scopes(self) -> &'static [Scope] {
        match self {
            Self::Open | Self::Front | Self::Login | Self::Leave => &[],
            Self::Metrics => &[Scope::Auditor, Scope::Operator],
            Self::Scopes(scopes) | Self::Agents(scopes) | Self::Pages(scopes) => scopes,
        }
    }

    /// What the documentation says of it: it knows no pages.
    pub(crate) fn documented(self) -> Self {
        match self {
            Self::Front => Self::Open,
            other => other,
        }
    }
}

/// Whether what a route shows and moves is divided by tenants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// It is not: whoever is bound to a tenant would see, or move, what belongs to others.
    Everybody,
    /// Its handler keeps every caller to its tenant.
    Tenant,
}

/// Who calls, as far as known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    /// What the rate limit counts by.
    pub(crate) client: String,
    /// What the audit says.
    pub(crate) actor: String,
    /// The name of the token that was presented; none where none is needed.
    pub(crate) token: Option<String>,
    /// The tenant that token is bound to; none: it may speak for all.
    pub(crate) tenant_id: Option<Uuid>,
    /// Whether it may read whatever there is.
    pub(crate) is_reader: bool,
    /// Who they are to the gateway of memories, on its routes.
    pub(crate) agent: Option<Agent>,
    /// Who they are to the dashboard, on its pages.
    pub(crate) visit: Option<Visit>,
}

/// Lets a caller in, or says why not.
pub(crate) fn admit(
    shared: &Shared,
    (access, reach): (Access, Reach),
    request: &Parts,
) -> Result<Caller, Problem> {
    let Shared {
        options, tenants, ..
    } = shared;
    let address = peer_address(request);
    let (mut is_reader, mut tenant_id, mut agent, mut visit) = (true, None, None, None);
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
        Access::Metrics | Access::Scopes(_) if !options.asks_for_tokens() => {
            check_local(options, address, &request.headers)?;
            check_host(options, request)?;
            check_writer(shared, request)?;
            None
        }
        Access::Metrics | Access::Scopes(_) => {
            let entry = authenticate(options, &request.headers)?;
            tenant_id = tenants.get(&entry.name).copied();
            check_reach(entry, tenant_id, reach)?;
            check_scopes(entry, access.scopes())?;
            let mut reads = Access::READ.scopes().iter();
            is_reader = reads.any(|scope| entry.scopes.contains(scope));
            Some(entry.name.clone())
        }
        Access::Agents(_) if !options.asks_for_tokens() => {
            check_local(options, address, &request.headers)?;
            check_host(options, request)?;
            shared.check_origin(&request.headers)?;
            agent = Some(Agent::anybody());
            None
        }
        Access::Agents(scopes) => {
            let bearer = bearer(&request.headers).ok_or_else(no_token)?;
            let gateway = shared.gateway_caller(bearer);
            let entry = find(&options.tokens, bearer);
            if let Some(entry) = entry {
                check_reach(entry, tenants.get(&entry.name).copied(), reach)?;
            }
            if let (None, Some(entry)) = (&gateway, entry) {
                check_scopes(entry, scopes)?;
            }
            let known = Agent::known(gateway, entry).ok_or_else(unknown_token)?;
            let name = known.caller.actor.clone();
            agent = Some(known);
            Some(name.unwrap_or_else(|| "gateway".to_owned()))
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
        agent,
        visit,
    })
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

/// Whether the caller is on this machine, and not merely the proxy that stands in for it.
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
/// name point here. It cannot choose the Host header, which tells.
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
        "this server does not go by the name {name:?}; call it by its address, or add the name to \
         server.allowed_hosts"
    );
    Err(Problem::new(codes::HOST_NOT_ALLOWED, detail))
}

/// Without tokens, what changes something may come from programs and from pages of this machine. A
/// body as JSON already keeps other pages out, which browsers ask about first; many requests need none.
fn check_writer(shared: &Shared, request: &Parts) -> Result<(), Problem> {
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
fn authenticate<'o>(
    options: &'o ServerOptions,
    headers: &HeaderMap,
) -> Result<&'o TokenEntry, Problem> {
    if options.tokens.is_empty() {
        return Err(refused_token(FOR_AGENTS_ONLY, "Bearer realm=\"consign\""));
    }
    let bearer = bearer(headers).ok_or_else(no_token)?;
    find(&options.tokens, bearer).ok_or_else(unknown_token)
}

/// What a server says whose only tokens are those of agents.
pub(crate) const FOR_AGENTS_ONLY: &str = "this server has tokens for agents only (memory.gateway_auth_token, \
     memory.gateway_auth_tokens_json), and no token opens this path; add server.tokens to its \
     configuration, `consign token new` makes one";

/// A token compared with every one that is known: neither its duration nor its end tells how far a
/// guess got.
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
        "the server does not know this token",
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

/// No scope opens to a tenant what is not divided by tenants.
pub(crate) fn check_reach(
    entry: &TokenEntry,
    tenant_id: Option<Uuid>,
    reach: Reach,
) -> Result<(), Problem> {
    if tenant_id.is_none() || reach == Reach::Tenant {
        return Ok(());
    }
    let detail = format!(
        "token {:?} is bound to a tenant by payments.tenants, and this path is not divided by tenants",
        entry.name
    );
    Err(Problem::new(codes::TENANT_BOUND, detail))
}

/// Who the audit names: what is known, and what the caller says of itself.
fn actor(known: &str, headers: &HeaderMap) -> Result<String, Problem> {
    let Some(said) = headers.get(ACTOR_HEADER) else {
        return Ok(known.to_owned());
    };
    let said = std::str::from_utf8(said.as_bytes())
        .unwrap_or_default()
        .trim();
    if said.is_empty() || said.len() > ACTOR_BYTES_MAX || said.contains(char::is_control) {
        let why = format!("must be 1 to {ACTOR_BYTES_MAX} bytes of printable text");
        return Err(Problem::invalid("X-Consign-Actor", &why));
    }
    Ok(format!("{known}, {said} (as said)"))
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
