//! Agents: who calls the gateway of memories. They carry a token of the server, or one of the
//! gateway's own.

use std::{net::IpAddr, sync::Arc};

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, header},
    middleware::Next,
    response::Response,
};
use consign_memory::{
    Caller, Correlation, GatewayToken, MemoryService,
    tools::{self, GivenArguments, ToolAnswer},
};
use serde_json::json;

use super::Shared;
use crate::{
    options::{ServerOptions, TokenEntry},
    problem::{Problem, codes},
    token::Scope,
};

/// The header that names a request; its answer's body says the same.
pub(crate) const CORRELATION_HEADER: HeaderName = HeaderName::from_static("x-correlation-id");

/// Somebody who was let in, and what they may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Agent {
    pub(crate) caller: Caller,
    /// Whether they may do more than look.
    pub(crate) may_write: bool,
}

impl Agent {
    /// Somebody who was not asked for a token.
    pub(crate) fn anybody() -> Self {
        Self {
            caller: Caller::anonymous(),
            may_write: true,
        }
    }

    /// The holder of a token of the server: they act under its name.
    fn of_entry(entry: &TokenEntry) -> Self {
        let has = |scope| entry.scopes.contains(&scope);
        Self {
            caller: Caller {
                actor: Some(entry.name.clone()),
                is_authenticated: true,
                is_admin: has(Scope::Operator),
                correlation_id: None,
            },
            may_write: has(Scope::Producer) || has(Scope::Operator),
        }
    }

    /// The holder of a token of the gateway, which may be one of the server too.
    pub(super) fn known(gateway: Option<Caller>, entry: Option<&TokenEntry>) -> Option<Self> {
        let of_entry = entry.map(Self::of_entry);
        let Some(caller) = gateway else {
            return of_entry;
        };
        let of_entry = of_entry.map(|agent| agent.caller).unwrap_or_default();
        let caller = Caller {
            actor: caller.actor.or(of_entry.actor),
            is_admin: caller.is_admin || of_entry.is_admin,
            ..caller
        };
        Some(Self {
            caller,
            may_write: true,
        })
    }

    /// Calls a tool, if the caller may.
    pub(crate) async fn call(
        &self,
        service: &MemoryService,
        name: &str,
        arguments: GivenArguments,
        correlation: &Correlation,
    ) -> ToolAnswer {
        let known = tools::find(service.options(), name);
        if known.is_some_and(|tool| !tool.is_read_only && !self.may_write) {
            return ToolAnswer {
                ok: false,
                correlation_id: correlation.to_string(),
                body: json!({
                    "ok": false, "success": false, "action": "reject",
                    "error_code": "SCOPE_MISSING", "retryable": false,
                    "message": format!("{name} changes something, and the token is for reading"),
                    "correlation_id": correlation,
                }),
            };
        }
        let caller = self.caller.clone().in_request(correlation.as_str());
        tools::call(service, name, arguments, &caller).await
    }
}

impl Shared {
    /// Who holds this token among those that only the gateway knows.
    pub(super) fn gateway_caller(&self, bearer: &str) -> Option<Caller> {
        GatewayToken::caller(&self.agents, bearer)
    }

    /// Whether a web page from there may call. Where no token is needed, any page could make the
    /// browser of somebody on this machine do it; so only pages from this machine may.
    pub(crate) fn admits_origin(&self, headers: &HeaderMap) -> bool {
        if self.options.asks_for_tokens() {
            return true;
        }
        let site = headers.get("sec-fetch-site");
        match headers.get(header::ORIGIN) {
            Some(origin) => is_own(&self.options, origin),
            // A page that hides its origin; programs send neither header.
            None => site.is_none_or(|site| site == "same-origin" || site == "none"),
        }
    }

    pub(crate) fn check_origin(&self, headers: &HeaderMap) -> Result<(), Problem> {
        if self.admits_origin(headers) {
            return Ok(());
        }
        let detail = "without tokens, only web pages of this machine may call";
        Err(Problem::new(codes::ORIGIN_NOT_ALLOWED, detail))
    }
}

fn is_own(options: &ServerOptions, origin: &HeaderValue) -> bool {
    let origin = origin.to_str().unwrap_or_default();
    let Some((_, authority)) = origin.split_once("://") else {
        return false;
    };
    let name = super::access::host_name(authority);
    let address = name.trim_matches(['[', ']']).parse::<IpAddr>();
    address.is_ok_and(|address| address.to_canonical().is_loopback())
        || name.eq_ignore_ascii_case("localhost")
        || options
            .allowed_hosts
            .iter()
            .any(|allowed| allowed == "*" || allowed.eq_ignore_ascii_case(name))
}

/// Gives every request a name, and lets web pages read the answer where they may ask.
pub(crate) async fn named(
    State(shared): State<Arc<Shared>>,
    mut request: Request,
    next: Next,
) -> Response {
    let correlation = Correlation::new();
    request.extensions_mut().insert(correlation.clone());
    let shares = request.uri().path() == "/mcp" && shared.admits_origin(request.headers());
    let asked = request.method() == Method::OPTIONS;
    let wanted = request.headers().get("access-control-request-headers");
    let wanted = wanted.filter(|_| asked).cloned();
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    name(headers, &correlation);
    if shares {
        share(headers, wanted.as_ref());
    }
    response
}

/// Puts a request's name onto its answer.
pub(crate) fn name(headers: &mut HeaderMap, correlation: &Correlation) {
    let value = HeaderValue::from_str(correlation.as_str());
    let value = value.expect("invariant: letters, digits and a dash");
    headers.insert(CORRELATION_HEADER, value);
}

/// Lets web pages call: cookies play no part, so any page may that has a token.
fn share(headers: &mut HeaderMap, wanted: Option<&HeaderValue>) {
    const ALLOWED: [&str; 6] = [
        "Content-Type",
        "Authorization",
        "Mcp-Session-Id",
        "MCP-Protocol-Version",
        "Mcp-Method",
        "Mcp-Name",
    ];
    let mut allowed: Vec<&str> = ALLOWED.to_vec();
    let wanted = wanted.and_then(|wanted| wanted.to_str().ok());
    for name in wanted.into_iter().flat_map(|wanted| wanted.split(',')) {
        let name = name.trim();
        let is_known = allowed.iter().any(|known| known.eq_ignore_ascii_case(name));
        if !name.is_empty() && !is_known {
            allowed.push(name);
        }
    }
    let texts = [
        (header::ACCESS_CONTROL_ALLOW_ORIGIN, "*".to_owned()),
        (
            header::ACCESS_CONTROL_ALLOW_METHODS,
            "POST, OPTIONS".to_owned(),
        ),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, allowed.join(", ")),
        (
            header::ACCESS_CONTROL_EXPOSE_HEADERS,
            "Mcp-Session-Id, X-Correlation-ID".to_owned(),
        ),
        (header::ACCESS_CONTROL_MAX_AGE, "86400".to_owned()),
    ];
    for (name, text) in texts {
        if let Ok(value) = HeaderValue::from_str(&text) {
            headers.insert(name, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Token;

    #[test]
    fn pages_of_this_machine_are_told_from_others() {
        let options = ServerOptions {
            allowed_hosts: vec!["desk.example".into()],
            ..ServerOptions::default()
        };
        let table = [
            ("http://localhost:6274", true),
            ("http://127.0.0.1", true),
            ("https://[::1]:1", true),
            ("http://desk.example:3000", true),
            ("http://192.0.2.1", false),
            ("http://localhost.evil.example", false),
            ("https://evil.example", false),
            ("null", false),
            ("", false),
        ];
        for (origin, expected) in table {
            let origin = HeaderValue::from_str(origin).unwrap();
            assert_eq!(is_own(&options, &origin), expected, "{origin:?}");
        }
    }

    /// T26, T36: a token is somebody.
    #[test]
    fn a_token_is_its_name_unless_the_gateway_binds_another() {
        let entry = |scopes: &[Scope]| TokenEntry {
            name: "shop".into(),
            hash: Token::new("x").hash(),
            scopes: scopes.to_vec(),
        };
        let caller = |actor: Option<&str>| Caller {
            actor: actor.map(str::to_owned),
            is_authenticated: true,
            ..Caller::default()
        };
        let (operator, auditor) = (entry(&[Scope::Operator]), entry(&[Scope::Auditor]));
        let table = [
            (None, Some(&auditor), Some("shop"), false, false),
            (None, Some(&operator), Some("shop"), true, true),
            (Some(caller(None)), None, None, true, false),
            (Some(caller(Some("ada"))), None, Some("ada"), true, false),
            (
                Some(caller(None)),
                Some(&auditor),
                Some("shop"),
                true,
                false,
            ),
            (
                Some(caller(Some("ada"))),
                Some(&operator),
                Some("ada"),
                true,
                true,
            ),
        ];
        for (gateway, entry, actor, may_write, is_admin) in table {
            let agent = Agent::known(gateway, entry).unwrap();
            assert!(agent.caller.is_authenticated);
            assert_eq!(agent.caller.actor.as_deref(), actor);
            assert_eq!(
                (agent.may_write, agent.caller.is_admin),
                (may_write, is_admin)
            );
        }
        assert_eq!(Agent::known(None, None), None);
    }
}
