//! Who may call the gateway of memories, from where, and its tools as routes.

use std::sync::Arc;

use axum::{body::to_bytes, http::Method};
use consign_memory::{MemoryOptions, Secret};
use consign_server::{
    Scope, ServerOptions, Token, TokenEntry,
    testing::{Answer, LOCAL, peer, request, set},
};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::{Bench, off, sqlite, with_memory};

/// Every route of the gateway with a body that it takes.
fn routes() -> Vec<(Method, &'static str, Option<Value>)> {
    vec![
        (
            Method::POST,
            "/mcp",
            Some(json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})),
        ),
        (
            Method::POST,
            "/memory/store",
            Some(json!({"payload_md": "x"})),
        ),
        (Method::POST, "/memory/query", Some(json!({"query": "x"}))),
        (Method::POST, "/memory/list", Some(json!({}))),
        (Method::POST, "/memory/spaces", Some(json!({}))),
        (Method::GET, "/reliability/report", None),
        (Method::POST, "/reliability/gate", Some(json!({}))),
        (Method::GET, "/governance/settings", None),
        (Method::POST, "/governance/settings/update", Some(json!({}))),
    ]
}

async fn gateway(options: MemoryOptions) -> Bench {
    gateway_on(sqlite().await, options).await
}

/// The same with other settings of the gateway.
async fn gateway_on(bench: Bench, options: MemoryOptions) -> Bench {
    let logbook = Arc::clone(&bench.app);
    with_memory(bench, logbook, options).await
}

fn tokens() -> MemoryOptions {
    let list = r#"[{"token": "hers-0123456789ab", "actor": "ada"}, {"token": "root-0123456789ab", "admin": true}]"#;
    MemoryOptions {
        gateway_auth_token: Some(Secret::new("everybodys-0123456789")),
        gateway_auth_tokens_json: Some(Secret::new(list)),
        ..MemoryOptions::default()
    }
}

fn entry(name: &str, scopes: &[Scope]) -> TokenEntry {
    TokenEntry {
        name: name.into(),
        hash: Token::new(format!("secret of {name}")).hash(),
        scopes: scopes.to_vec(),
    }
}

/// A page of the dashboard: no part of the described API, so nothing is compared with that.
async fn page(bench: &Bench, path: &str) -> (u16, String) {
    let mut asked = request(Method::GET, path, None);
    set(&mut asked, &[("accept", "text/html")]);
    asked.extensions_mut().insert(peer(LOCAL));
    let response = bench.router.clone().oneshot(asked).await.unwrap();
    let status = response.status().as_u16();
    let bytes = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    (status, String::from_utf8(bytes.to_vec()).unwrap())
}

async fn ask(bench: &Bench, bearer: &str, path: &str, body: Value) -> Answer {
    let bearer = format!("Bearer {bearer}");
    bench
        .post_with(path, &[("authorization", &bearer)], body)
        .await
}

/// The tools as routes: the body is what the tool takes, the answer what it answers.
#[tokio::test]
async fn the_tools_have_routes_of_their_own() {
    let bench = gateway(MemoryOptions::default()).await;
    let body = json!({"payload_md": "lamps are green", "target_space": "private:ada"});
    let stored = bench.post("/memory/store", body).await;
    stored.is(200);
    assert_eq!(stored.json["action"], "allow", "{}", stored.text);
    assert_eq!(
        stored.json["correlation_id"],
        stored.header("x-correlation-id")
    );
    let body = json!({"query": "lamps", "spaces": ["private:ada"]});
    let found = bench.post("/memory/query", body).await;
    assert_eq!(
        found.json["results"][0]["id"], stored.json["memory_id"],
        "{}",
        found.text
    );
    let report = bench.get("/reliability/report").await;
    assert_eq!(report.json["ok"], true, "{}", report.text);
    assert_eq!(report.json["audit_stats"]["total"], 1, "{}", report.text);
    let settings = bench.get("/governance/settings").await;
    assert_eq!(settings.json["settings"]["team_write_enabled"], false);
    let body = json!({"team_write_enabled": true});
    let refused = bench.post("/governance/settings/update", body).await;
    refused.is(200);
    assert_eq!(refused.json["action"], "reject", "{}", refused.text);

    let id = json!({"id": stored.json["memory_id"]});
    let read = bench.post("/memory/get", id).await;
    assert_eq!(
        read.json["memory"]["text"], "lamps are green",
        "{}",
        read.text
    );
    let absent = bench.post("/memory/get", json!({"id": "mem_0"})).await;
    absent.is(404);
    assert_eq!(absent.json["error_code"], "NOT_FOUND");
    let listed = bench
        .post("/memory/list", json!({"spaces": ["private:ada"]}))
        .await;
    assert_eq!(listed.json["total"], 1, "{}", listed.text);
    let body = json!({"id": stored.json["memory_id"], "payload_md": "lamps are blue"});
    let updated = bench.post("/memory/update", body).await;
    updated.is(200);
    assert_eq!(updated.json["action"], "allow", "{}", updated.text);
    assert_eq!(updated.json["supersedes"], stored.json["memory_id"]);
    let id = json!({"id": updated.json["memory_id"]});
    let deleted = bench.post("/memory/delete", id.clone()).await;
    deleted.is(200);
    assert_eq!(deleted.json["action"], "allow", "{}", deleted.text);
    let gone = bench.post("/memory/delete", id).await;
    gone.is(404);
    assert_eq!(gone.json["action"], "reject", "{}", gone.text);
    let spaces = bench.post("/memory/spaces", json!({})).await;
    assert_eq!(
        spaces.json["default_space"], "team:default",
        "{}",
        spaces.text
    );
}

#[tokio::test]
async fn a_route_refuses_what_its_tool_does_not_take() {
    let bench = gateway(MemoryOptions::default()).await;
    for body in [
        json!({}),
        json!({"payload_md": 7}),
        json!({"payload_md": "x", "kind": "a\nb"}),
    ] {
        let refused = bench.post("/memory/store", body).await;
        refused.is(400);
        assert_eq!(refused.json["action"], "reject", "{}", refused.text);
        assert_eq!(refused.json["success"], false, "{}", refused.text);
    }
    let missing = bench.post("/memory/store", json!({})).await;
    assert_eq!(missing.json["error_code"], "MISSING_REQUIRED_PARAMETER");
    let unknown = bench
        .post("/memory/query", json!({"query": "x", "limit": 1}))
        .await;
    unknown.is(400);
    assert_eq!(unknown.json["error_code"], "INVALID_PARAMETER");
    for body in [json!([]), json!("x"), json!(null)] {
        let answer = bench.post("/memory/store", body).await;
        answer.is_agents(400, "BAD_JSON");
        assert_eq!(answer.json["action"], "reject", "{}", answer.text);
        assert_eq!(answer.json["success"], false, "{}", answer.text);
    }
}

/// All routes of the gateway require its token, which opens no other route.
#[tokio::test]
async fn the_gateways_tokens_cover_all_of_it_and_nothing_else() {
    let bench = gateway(tokens()).await;
    for (method, path, body) in routes() {
        for bearer in [
            None,
            Some("Bearer wrong"),
            Some("Bearer "),
            Some("Basic everybodys-0123456789"),
        ] {
            let mut request = request(method.clone(), path, body.clone());
            set(
                &mut request,
                &bearer
                    .map(|bearer| ("authorization", bearer))
                    .into_iter()
                    .collect::<Vec<_>>(),
            );
            let answer = bench.call(request).await;
            answer.is_agents(401, "UNAUTHORIZED");
            assert_eq!(answer.json["detail"], "Unauthorized");
            let is_shared = answer.header("access-control-allow-origin") == "*";
            assert_eq!(is_shared, path == "/mcp", "a page must see why");
        }
        let mut request = request(method, path, body);
        set(
            &mut request,
            &[("authorization", "Bearer everybodys-0123456789")],
        );
        request.extensions_mut().insert(peer("192.0.2.7:40000"));
        bench.call(request).await.is(200);
    }
    let bench = bench.with_options(&ServerOptions {
        tokens: vec![entry("shop", &[Scope::Operator])],
        ..ServerOptions::default()
    });
    let mut other = request(Method::GET, "/v1/queues", None);
    set(
        &mut other,
        &[("authorization", "Bearer everybodys-0123456789")],
    );
    bench.call(other).await.is_problem(401, "unauthorized");
    ask(
        &bench,
        "secret of shop",
        "/memory/query",
        json!({"query": "x"}),
    )
    .await
    .is(200);
    ask(
        &bench,
        "hers-0123456789ab",
        "/memory/query",
        json!({"query": "x"}),
    )
    .await
    .is(200);
}

/// Memories are not readable without a token on other routes either.
#[tokio::test]
async fn where_agents_have_tokens_nothing_else_is_open() {
    let bench = gateway(MemoryOptions::default()).await;
    let id = bench.enqueue("default", json!("x")).await;
    let bench = gateway_on(bench, tokens()).await;
    let message = format!("/v1/messages/{id}");
    let claim = json!({"queue": "memory", "owner": "w", "limit": 1});
    let mut bench = bench;
    for allow_anonymous in [false, true] {
        bench = bench.with_options(&ServerOptions {
            allow_anonymous,
            ..ServerOptions::default()
        });
        for bearer in [
            None,
            Some("Bearer everybodys-0123456789"),
            Some("Bearer root-0123456789ab"),
        ] {
            for (method, path, body) in [
                (Method::GET, message.as_str(), None),
                (Method::GET, "/v1/queues", None),
                (Method::GET, "/v1/audit", None),
                (Method::POST, "/v1/claims", Some(claim.clone())),
            ] {
                let mut asked = request(method, path, body);
                let bearer = bearer.map(|bearer| ("authorization", bearer));
                set(&mut asked, &bearer.into_iter().collect::<Vec<_>>());
                let answer = bench.call(asked).await;
                answer.is_problem(401, "unauthorized");
                let detail = answer.json["detail"].as_str().unwrap();
                assert!(detail.contains("add server.tokens"), "{detail}");
            }
        }
        let (status, _) = page(&bench, "/ui/memory").await;
        assert_eq!(status, 303, "to the login");
        let (status, login) = page(&bench, "/ui/login").await;
        assert_eq!(status, 200, "{login}");
        assert!(login.contains("add server.tokens"), "{login}");
        bench.get("/healthz").await.is(200);
        let query = json!({"query": "x"});
        ask(&bench, "hers-0123456789ab", "/memory/query", query)
            .await
            .is(200);
    }
}

/// The token decides the actor, whatever the arguments contain.
#[tokio::test]
async fn a_token_acts_as_its_holder_only() {
    let bench = gateway(tokens()).await.with_options(&ServerOptions {
        tokens: vec![
            entry("shop", &[Scope::Producer]),
            entry("desk", &[Scope::Operator]),
        ],
        ..ServerOptions::default()
    });
    let store = |space: &str| json!({"payload_md": format!("of {space}"), "target_space": space});
    for (bearer, own, other) in [
        ("hers-0123456789ab", "private:ada", "private:bob"),
        ("secret of shop", "private:shop", "private:ada"),
    ] {
        let stored = ask(&bench, bearer, "/memory/store", store(own)).await;
        assert_eq!(stored.json["ok"], true, "{}", stored.text);
        let refused = ask(&bench, bearer, "/memory/store", store(other)).await;
        assert_eq!(refused.json["ok"], false, "{}", refused.text);
        let query = json!({"query": "of", "spaces": [other]});
        let refused = ask(&bench, bearer, "/memory/query", query).await;
        refused.is(403);
        assert_eq!(refused.json["error_code"], "SPACE_FORBIDDEN");
        let posing = json!({"team_write_enabled": true, "actor_user_id": "bob"});
        let refused = ask(&bench, bearer, "/governance/settings/update", posing).await;
        let why = "governance_update:actor_mismatch";
        assert_eq!(refused.json["message"], why, "{}", refused.text);
    }
    let change = json!({"team_write_enabled": true});
    for (bearer, action) in [
        ("hers-0123456789ab", "reject"),
        ("everybodys-0123456789", "reject"),
        ("secret of shop", "reject"),
        ("root-0123456789ab", "allow"),
        ("secret of desk", "allow"),
    ] {
        let changed = ask(
            &bench,
            bearer,
            "/governance/settings/update",
            change.clone(),
        )
        .await;
        assert_eq!(changed.json["action"], action, "{bearer}: {}", changed.text);
    }
}

/// A token for reading calls the tools that read, in either form.
#[tokio::test]
async fn a_token_for_reading_changes_nothing() {
    let bench = gateway(MemoryOptions::default())
        .await
        .with_options(&ServerOptions {
            tokens: vec![
                entry("eye", &[Scope::Auditor]),
                entry("hand", &[Scope::Worker]),
            ],
            ..ServerOptions::default()
        });
    for tool in consign_memory::tools::list() {
        let plain = json!({"tool": tool.name, "arguments": {}});
        let params = json!({"name": tool.name, "arguments": {}});
        let rpc = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let plain = ask(&bench, "secret of eye", "/mcp", plain).await;
        let is_refused = plain.json["result"]["error_code"] == "SCOPE_MISSING";
        assert_eq!(
            is_refused, !tool.is_read_only,
            "{}: {}",
            tool.name, plain.text
        );
        let rpc = ask(&bench, "secret of eye", "/mcp", rpc).await;
        assert_eq!(
            rpc.text.contains("SCOPE_MISSING"),
            !tool.is_read_only,
            "{}",
            rpc.text
        );
        let hand = json!({"tool": tool.name});
        let hand = ask(&bench, "secret of hand", "/mcp", hand).await;
        hand.is_agents(403, "SCOPE_MISSING");
    }
}

/// Without tokens any page could make a browser on this machine call: only its own pages may.
#[tokio::test]
async fn pages_from_elsewhere_are_refused_where_no_token_is_needed() {
    let bench = gateway(MemoryOptions::default()).await;
    for (method, path, body) in routes() {
        for origin in [
            "https://evil.example",
            "null",
            "http://localhost.evil.example",
        ] {
            let mut request = request(method.clone(), path, body.clone());
            set(&mut request, &[("origin", origin)]);
            let answer = bench.call(request).await;
            answer.is_agents(403, "ORIGIN_NOT_ALLOWED");
            assert_eq!(answer.header("access-control-allow-origin"), "");
        }
        let mut request = request(method, path, body);
        set(&mut request, &[("origin", "http://localhost:6274")]);
        bench.call(request).await.is(200);
    }
    let mut evil = request(Method::OPTIONS, "/mcp", None);
    set(
        &mut evil,
        &[
            ("origin", "https://evil.example"),
            ("access-control-request-method", "POST"),
        ],
    );
    let answer = bench.call(evil).await;
    answer.is_agents(403, "ORIGIN_NOT_ALLOWED");
    assert_eq!(answer.header("access-control-allow-origin"), "");
}

/// The preflight request of a browser.
#[tokio::test]
async fn preflights_of_allowed_pages_get_cors_headers() {
    let bench = gateway(tokens()).await;
    let mut plain = request(Method::OPTIONS, "/mcp", None);
    set(&mut plain, &[("origin", "https://app.example")]);
    bench.call(plain).await.is(200);
    let mut asked = request(Method::OPTIONS, "/mcp", None);
    set(
        &mut asked,
        &[
            ("origin", "https://app.example"),
            ("access-control-request-method", "POST"),
            (
                "access-control-request-headers",
                "content-type, X-Trace, x-trace",
            ),
        ],
    );
    let answer = bench.call(asked).await;
    answer.is(204);
    let table = [
        ("access-control-allow-origin", "*"),
        ("access-control-allow-methods", "POST, OPTIONS"),
        (
            "access-control-expose-headers",
            "Mcp-Session-Id, X-Correlation-ID",
        ),
        ("access-control-max-age", "86400"),
    ];
    for (name, value) in table {
        assert_eq!(answer.header(name), value, "{name}");
    }
    let allowed = answer.header("access-control-allow-headers");
    let begin = "Content-Type, Authorization, Mcp-Session-Id";
    assert!(allowed.starts_with(begin), "{allowed}");
    assert!(allowed.ends_with(", X-Trace"), "{allowed}");
    assert!(!answer.header("x-correlation-id").is_empty());
}

/// Names that a page could let point here, and callers from elsewhere, as on every other route.
#[tokio::test]
async fn an_open_gateway_serves_this_machine_only() {
    let bench = gateway(MemoryOptions::default()).await;
    for (method, path, body) in routes() {
        let mut far = request(method.clone(), path, body.clone());
        far.extensions_mut().insert(peer("192.0.2.7:5"));
        bench.call(far).await.is_agents(403, "NOT_LOCAL");
        let mut named = request(method, path, body);
        set(&mut named, &[("host", "evil.example")]);
        bench.call(named).await.is_agents(403, "HOST_NOT_ALLOWED");
    }
}

/// Settings that cannot be read open nothing.
#[tokio::test]
async fn tokens_that_cannot_be_read_close_the_gateway() {
    let options = MemoryOptions {
        gateway_auth_tokens_json: Some(Secret::new("not a list")),
        ..MemoryOptions::default()
    };
    let bench = gateway(options).await;
    for (method, path, body) in routes() {
        for bearer in ["Bearer ", "Bearer x", "Bearer not a list"] {
            let mut request = request(method.clone(), path, body.clone());
            set(&mut request, &[("authorization", bearer)]);
            bench.call(request).await.is_agents(401, "UNAUTHORIZED");
        }
    }
}

/// A message in the queue would be a memory that no policy has seen.
#[tokio::test]
async fn memories_come_in_through_the_gateway_only() {
    let bench = gateway(MemoryOptions::default()).await;
    let (space, text) = ("private:bob", "slipped in");
    let sha = consign_memory::payload_sha(text);
    let payload = json!({"target_space": space, "payload_sha": sha, "payload_md": text});
    let key = consign_memory::message_key(space, &sha);
    let message = json!({"key": key, "payload": payload});
    let refused = bench.post("/v1/queues/memory/messages", message).await;
    refused.is_problem(400, "invalid_input");
    assert!(
        refused.detail().contains("/memory/store"),
        "{}",
        refused.text
    );
    let batch = json!({"messages": [{"queue": "memory", "key": key, "payload": payload}]});
    bench
        .post("/v1/messages", batch)
        .await
        .is_problem(400, "invalid_input");
}

/// What a request names need not be tried; nothing else is excused.
#[tokio::test]
async fn a_gate_may_skip_what_its_request_names() {
    let bench = gateway(MemoryOptions {
        skip_degradation: true,
        ..MemoryOptions::default()
    })
    .await;
    let ask = async |body: Value| bench.post("/reliability/gate", body).await;
    // Embedded memories: there is no server to try, and no switch excuses it.
    let closed = ask(json!({})).await;
    assert_eq!(closed.status, 200, "{closed:?}");
    let closed = closed.json;
    assert_eq!(closed["passed"], false, "{closed}");
    let reason = "FULL mode: openmemory skipped without explicit config";
    assert_eq!(closed["reason"], reason);
    assert_eq!(closed["capabilities"]["memory_query"], "ok");
    let open = ask(json!({"mode": "FULL", "skip": ["openmemory"]}))
        .await
        .json;
    assert_eq!(open["passed"], true, "{open}");
    assert_eq!(open["missing"], json!(["openmemory", "degradation"]));
    let degraded = ask(json!({"mode": "DEGRADED"})).await.json;
    assert_eq!(degraded["passed"], true, "{degraded}");
    for wrong in [
        json!({"skip": ["everything"]}),
        json!({"mode": "SOME"}),
        json!({"skips": []}),
    ] {
        assert_eq!(ask(wrong.clone()).await.status, 400, "{wrong}");
    }
}

/// A body is bounded by how many values it has, in the protocol and in the routes of tools.
#[tokio::test]
async fn a_body_of_too_many_values_is_refused() {
    let bench = sqlite().await;
    let many = format!("[{}0]", "{\"\":0},".repeat(60_000));
    let arguments = format!("{{\"tool\": \"memory_store\", \"arguments\": {{\"x\": {many}}}}}");
    for (path, body) in [
        ("/memory/store", format!("{{\"x\": {many}}}")),
        ("/mcp", arguments),
    ] {
        let mut request = request(Method::POST, path, Some(json!(0)));
        *request.body_mut() = body.into();
        let refused = bench.call(request).await;
        assert_eq!(refused.status, 413, "{path}: {}", refused.text);
        assert!(
            refused.text.contains("values; maximum 100000"),
            "{}",
            refused.text
        );
    }
}

#[tokio::test]
async fn unknown_tokens_are_limited() {
    let options = ServerOptions {
        tokens: vec![entry("shop", &Scope::ALL)],
        ..ServerOptions::default()
    };
    let bench = sqlite().await.with_options(&options);
    let ask = async |bearer: &str, address: &str| {
        let mut asked = request(Method::POST, "/memory/spaces", Some(json!({})));
        let bearer = format!("Bearer {bearer}");
        set(&mut asked, &[("authorization", bearer.as_str())]);
        asked.extensions_mut().insert(peer(address));
        bench.call(asked).await
    };
    let mut refused = (0, 0);
    for _ in 0..40 {
        match ask("not-this-one", "192.0.2.7:1").await.status.as_u16() {
            401 => refused.0 += 1,
            429 => refused.1 += 1,
            other => panic!("{other}"),
        }
    }
    assert!(refused.0 >= 20 && refused.1 >= 10, "{refused:?}");
    let known = ask("secret of shop", "192.0.2.7:1").await;
    assert_ne!(known.status, 429, "not locked out");
    ask("not-this-one", "192.0.2.9:1").await.is(401);
}

#[tokio::test]
async fn the_gateway_greets_whether_it_is_on_or_off() {
    let greeting = json!({"ok": true, "status": "ok", "service": "memory-gateway"});
    assert_eq!(sqlite().await.get("/health").await.json, greeting);
    assert_eq!(off().await.get("/health").await.json, greeting);
}
