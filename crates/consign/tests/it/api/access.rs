//! Who may do what: every route with every scope, and every way around it.

use axum::http::Method;
use consign_server::{
    Scope, ServerOptions, Token, TokenEntry, openapi_json,
    testing::{Answer, Bench, peer, request, set},
};
use serde_json::{Value, json};

use super::{off, on_stores};

/// The access of each route, written down a second time on purpose.
const ROUTES: &[(&str, &str, &[Scope])] = {
    const OPEN: &[Scope] = &[];
    const ENQUEUE: &[Scope] = &[Scope::Producer];
    const WORK: &[Scope] = &[Scope::Worker];
    const READ: &[Scope] = &[Scope::Operator, Scope::Auditor];
    const OPERATE: &[Scope] = &[Scope::Operator];
    const READ_OWN: &[Scope] = &[Scope::Producer, Scope::Operator, Scope::Auditor];
    const REMEMBER: &[Scope] = &[Scope::Producer, Scope::Operator];
    &[
        ("GET", "/", OPEN),
        ("GET", "/openapi.json", OPEN),
        ("GET", "/problems/{code}", OPEN),
        ("GET", "/health", OPEN),
        ("GET", "/healthz", OPEN),
        ("GET", "/readyz", OPEN),
        ("GET", "/metrics", READ),
        ("POST", "/v1/queues/{queue}/messages", ENQUEUE),
        ("POST", "/v1/messages", ENQUEUE),
        ("POST", "/do/order", ENQUEUE),
        ("GET", "/do/order/{key}", ENQUEUE),
        ("POST", "/v1/payments", ENQUEUE),
        ("GET", "/v1/payments", READ_OWN),
        ("GET", "/v1/payments/{outbox_id}", READ_OWN),
        ("POST", "/v1/payments/{outbox_id}/requeue", OPERATE),
        ("POST", "/v1/payments/{outbox_id}/hold", OPERATE),
        ("POST", "/v1/payments/{outbox_id}/release", OPERATE),
        ("POST", "/v1/payments/{outbox_id}/resolve", OPERATE),
        ("POST", "/v1/payments/claims", WORK),
        ("POST", "/v1/payments/leases/{token}/complete", WORK),
        ("POST", "/v1/payments/leases/{token}/hold", WORK),
        ("POST", "/v1/payments/leases/{token}/late", WORK),
        ("POST", "/v1/payments/leases/{token}/renew", WORK),
        ("POST", "/v1/payments/leases/{token}/begin", WORK),
        ("POST", "/v1/payments/leases/{token}/release", WORK),
        ("POST", "/v1/payments/repair", WORK),
        ("GET", "/v1/payments/status", READ_OWN),
        ("GET", "/v1/payments/reconcile", READ),
        ("POST", "/mcp", READ_OWN),
        ("OPTIONS", "/mcp", OPEN),
        ("POST", "/memory/store", REMEMBER),
        ("POST", "/memory/update", REMEMBER),
        ("POST", "/memory/delete", REMEMBER),
        ("POST", "/memory/query", READ_OWN),
        ("POST", "/memory/get", READ_OWN),
        ("POST", "/memory/list", READ_OWN),
        ("POST", "/memory/spaces", READ_OWN),
        ("GET", "/reliability/report", READ_OWN),
        ("POST", "/reliability/gate", READ_OWN),
        ("GET", "/governance/settings", READ_OWN),
        ("POST", "/governance/settings/update", REMEMBER),
        ("GET", "/v1/messages", READ),
        ("GET", "/v1/messages/{id}", READ),
        ("GET", "/v1/messages/{id}/attempts", READ),
        ("GET", "/v1/dead", READ),
        ("GET", "/v1/dead/causes", READ),
        ("GET", "/v1/queues", READ),
        ("GET", "/v1/queues/{queue}", READ),
        ("GET", "/v1/leases", READ),
        ("GET", "/v1/problems", READ),
        ("POST", "/v1/problems/acknowledge", OPERATE),
        ("POST", "/v1/problems/reopen", OPERATE),
        ("GET", "/v1/redrives", READ),
        ("GET", "/v1/redrives/{id}", READ),
        ("GET", "/v1/schedules", READ),
        ("GET", "/v1/schedules/{name}", READ),
        ("GET", "/v1/audit", READ),
        ("GET", "/v1/worker", READ),
        ("POST", "/v1/messages/{id}/erase", OPERATE),
        ("POST", "/v1/messages/erase", OPERATE),
        ("POST", "/v1/messages/{id}/requeue", OPERATE),
        ("POST", "/v1/messages/{id}/hold", OPERATE),
        ("POST", "/v1/messages/{id}/unhold", OPERATE),
        ("POST", "/v1/messages/{id}/resolve", OPERATE),
        ("POST", "/v1/messages/resolve", OPERATE),
        ("POST", "/v1/messages/requeue", OPERATE),
        ("POST", "/v1/messages/hold", OPERATE),
        ("POST", "/v1/messages/unhold", OPERATE),
        ("POST", "/v1/messages/{id}/discard", OPERATE),
        ("POST", "/v1/messages/{id}/cancel", OPERATE),
        ("POST", "/v1/messages/discard", OPERATE),
        ("POST", "/v1/messages/cancel", OPERATE),
        ("POST", "/v1/queues/{queue}/skip", OPERATE),
        ("PUT", "/v1/queues/{queue}", OPERATE),
        ("PATCH", "/v1/queues/{queue}", OPERATE),
        ("POST", "/v1/queues/{queue}/pause", OPERATE),
        ("POST", "/v1/queues/{queue}/resume", OPERATE),
        ("POST", "/v1/redrives", OPERATE),
        ("POST", "/v1/redrives/{id}/stop", OPERATE),
        ("POST", "/v1/redrives/{id}/resume", OPERATE),
        ("PUT", "/v1/schedules/{name}", OPERATE),
        ("POST", "/v1/schedules/{name}/remove", OPERATE),
        ("POST", "/v1/schedules/{name}/pause", OPERATE),
        ("POST", "/v1/schedules/{name}/resume", OPERATE),
        ("POST", "/v1/schedules/{name}/run", OPERATE),
        ("POST", "/v1/claims", WORK),
        ("POST", "/v1/queues/{queue}/slots", WORK),
        ("POST", "/v1/leases/{token}/end", OPERATE),
        ("POST", "/v1/leases/{token}/renew", WORK),
        ("POST", "/v1/leases/{token}/begin", WORK),
        ("POST", "/v1/leases/{token}/settle", WORK),
        ("POST", "/v1/leases/{token}/release", WORK),
    ]
};

/// What is left to a token that is bound to a tenant, whatever its scopes: the routes that keep to
/// that tenant. What is not here must be refused.
const DIVIDED_BY_TENANTS: &[(&str, &str)] = &[
    ("POST", "/v1/payments"),
    ("GET", "/v1/payments"),
    ("GET", "/v1/payments/{outbox_id}"),
    ("POST", "/v1/payments/{outbox_id}/requeue"),
    ("POST", "/v1/payments/{outbox_id}/hold"),
    ("POST", "/v1/payments/{outbox_id}/release"),
    ("POST", "/v1/payments/{outbox_id}/resolve"),
    ("GET", "/v1/payments/status"),
];

on_stores!(
    rejects_a_token_of_a_tenant_on_paths_without_tenants,
    every_route_requires_its_scopes,
    tokens_are_required_even_on_this_machine,
);

#[tokio::test]
async fn the_table_names_every_route() {
    let bench = off().await;
    let document: Value = serde_json::from_str(openapi_json(&bench.state)).unwrap();
    let mut described: Vec<(String, String)> = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in item.as_object().unwrap().keys() {
            described.push((method.to_uppercase(), path.clone()));
        }
    }
    let mut listed: Vec<(String, String)> = ROUTES
        .iter()
        .map(|(method, path, _)| ((*method).to_owned(), (*path).to_owned()))
        .collect();
    described.sort();
    listed.sort();
    assert_eq!(listed, described);
}

/// Whether errors at this path have the words of a protocol's own contract.
fn is_flat(path: &str) -> bool {
    path.starts_with("/do/") || path.starts_with("/v1/payments")
}

/// Whether agents are answered at this path.
fn is_agents(path: &str) -> bool {
    let roots = ["/mcp", "/memory/", "/reliability/", "/governance/"];
    roots.iter().any(|root| path.starts_with(root))
}

/// Asserts that this is a refusal, in the words of its path.
#[track_caller]
fn is_refused(path: &str, answer: &Answer, status: u16, code: &str) {
    match (is_flat(path), is_agents(path)) {
        (true, _) => answer.is_flat(status, &code.to_uppercase()),
        (_, true) => answer.is_agents(status, &code.to_uppercase()),
        _ => answer.is_problem(status, code),
    };
}

fn secret(scope: Scope) -> String {
    format!("secret-of-{scope}")
}

fn options() -> ServerOptions {
    let entry = |scope: Scope| TokenEntry {
        name: format!("the {scope}"),
        hash: Token::new(secret(scope)).hash(),
        scopes: vec![scope],
    };
    ServerOptions {
        tokens: Scope::ALL.map(entry).into(),
        metrics_open: Some(false),
        ..ServerOptions::default()
    }
}

fn filled_in(path: &str) -> String {
    path.replace("{queue}", "mail")
        .replace("{id}", "1")
        .replace("{code}", "internal")
        .replace("{key}", "order-0001")
        .replace("{token}", "00000000-0000-4000-8000-000000000000")
        .replace("{outbox_id}", "00000000-0000-4000-8000-000000000000")
}

async fn every_route_requires_its_scopes(bench: Bench) {
    let bench = bench.with_options(&options());
    for (method, path, wanted) in ROUTES {
        let method: Method = method.parse().unwrap();
        let concrete = filled_in(path);
        for scope in Scope::ALL {
            // A producer may read payments if its token has a tenant: see the tests of payments.
            if is_flat(path) && wanted.len() == 3 && scope == Scope::Producer {
                continue;
            }
            let body = (method != Method::GET).then(|| json!({}));
            let mut request = request(method.clone(), &concrete, body);
            let bearer = format!("Bearer {}", secret(scope));
            set(&mut request, &[("authorization", &bearer)]);
            // From another machine: scopes are all that counts.
            request.extensions_mut().insert(peer("192.0.2.7:40000"));
            let answer = bench.call(request).await;
            let context = format!("{method} {path} as {scope}: {}", answer.text);
            if wanted.is_empty() || wanted.contains(&scope) {
                assert!(!matches!(answer.status.as_u16(), 401 | 403), "{context}");
            } else {
                is_refused(path, &answer, 403, "scope_missing");
                if !is_flat(path) && !is_agents(path) {
                    let scopes = answer.json["scopes"].as_array().unwrap();
                    for scope in wanted.iter() {
                        assert!(scopes.contains(&json!(scope)), "{context}");
                    }
                }
                let challenge = answer.header("www-authenticate");
                assert!(challenge.contains("insufficient_scope"), "{challenge}");
            }
        }
    }
}

/// With every scope there is, whether payments are taken here or not.
async fn rejects_a_token_of_a_tenant_on_paths_without_tenants(bench: Bench) {
    let entry = |name: &str| TokenEntry {
        name: name.to_owned(),
        hash: Token::new(name).hash(),
        scopes: Scope::ALL.into(),
    };
    let tenant = uuid::Uuid::from_u128(7);
    let bench = bench
        .with_state(|state| state.with_tenants([("bound".to_owned(), tenant)].into()))
        .with_options(&ServerOptions {
            tokens: vec![entry("bound"), entry("free")],
            ..options()
        });
    for (method, path, wanted) in ROUTES {
        let is_open = wanted.is_empty() || DIVIDED_BY_TENANTS.contains(&(method, path));
        for token in ["bound", "free"] {
            let method: Method = method.parse().unwrap();
            let body = (method != Method::GET).then(|| json!({}));
            let mut request = request(method, &filled_in(path), body);
            set(
                &mut request,
                &[("authorization", &format!("Bearer {token}"))],
            );
            let answer = bench.call(request).await;
            if token == "free" || is_open {
                assert_ne!(answer.status, 403, "{path}: {}", answer.text)
            } else {
                is_refused(path, &answer, 403, "tenant_bound")
            }
        }
    }
}

async fn tokens_are_required_even_on_this_machine(bench: Bench) {
    let bench = bench.with_options(&options());
    let close = format!("Bearer {}x", secret(Scope::Auditor));
    let basic = format!("Basic {}", secret(Scope::Auditor));
    for header in [
        None,
        Some(close.as_str()),
        Some(basic.as_str()),
        Some("Bearer "),
        Some(""),
    ] {
        for (n, (method, path, wanted)) in ROUTES.iter().enumerate() {
            let method: Method = method.parse().unwrap();
            let body = (method != Method::GET).then(|| json!({}));
            let mut request = request(method, &filled_in(path), body);
            // Unknown tokens are limited by address.
            let address = format!("127.0.0.{}:5", n + 1);
            request.extensions_mut().insert(peer(&address));
            set(
                &mut request,
                &header
                    .map(|value| ("authorization", value))
                    .into_iter()
                    .collect::<Vec<_>>(),
            );
            let answer = bench.call(request).await;
            if wanted.is_empty() {
                assert_ne!(answer.status, 401, "{path}");
                continue;
            }
            is_refused(path, &answer, 401, "unauthorized");
            assert!(
                answer
                    .header("www-authenticate")
                    .starts_with("Bearer realm")
            );
        }
    }
    let mut small = request(Method::GET, "/v1/queues", None);
    let bearer = format!("bearer   {}", secret(Scope::Auditor));
    set(&mut small, &[("authorization", &bearer)]);
    bench.call(small).await.is(200);
}
