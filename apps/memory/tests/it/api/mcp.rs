//! The Model Context Protocol and the plain form, at one address.

use axum::http::Method;
use consign_memory::Correlation;
use consign_server::testing::{Answer, request, set};
use serde_json::{Value, json};

use super::{off, sqlite};

const MODERN: &str = "2026-07-28";

/// What a tool answered through the protocol.
fn told(answer: &Answer) -> Value {
    let text = answer.json["result"]["content"][0]["text"].as_str();
    let text = text.unwrap_or_else(|| panic!("{}", answer.text));
    serde_json::from_str(text).unwrap()
}

fn called(name: &str, arguments: Value) -> Value {
    let params = json!({"name": name, "arguments": arguments});
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
}

/// A request of the version without a handshake.
fn modern(method: &str, params: Value) -> Value {
    let mut params = params;
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    json!({"jsonrpc": "2.0", "id": "m-1", "method": method, "params": params})
}

/// Asserts that this is an error of the protocol, complete, under the request's name.
#[track_caller]
fn is_error(answer: &Answer, status: u16, code: i64, reason: &str) {
    answer.is(status);
    let error = &answer.json["error"];
    assert_eq!(error["code"], code, "{}", answer.text);
    let data = &error["data"];
    assert_eq!(data["reason"], reason, "{}", answer.text);
    assert_eq!(data["retryable"], false, "{}", answer.text);
    assert!(data["category"].is_string(), "{}", answer.text);
    assert_eq!(data["correlation_id"], answer.header("x-correlation-id"));
    assert!(error["message"].as_str().is_some_and(|m| !m.is_empty()));
}

#[tokio::test]
async fn requests_of_the_protocol_are_answered_as_in_the_vectors() {
    let bench = sqlite().await;
    let rpc = |method: &str, params: Value| json!({"jsonrpc": "2.0", "id": 3, "method": method, "params": params});
    let missing = "MISSING_REQUIRED_PARAM";
    let kind = "INVALID_PARAM_TYPE";
    let absent = "METHOD_NOT_FOUND";
    let malformed = "INVALID_REQUEST";
    let table = [
        (
            json!({"jsonrpc": "2.0", "method": "nope", "id": 3}),
            200,
            -32601,
            absent,
        ),
        (
            json!({"jsonrpc": "2.0", "method": "", "id": 3}),
            200,
            -32601,
            absent,
        ),
        (rpc("prompts/list", json!({})), 200, -32601, absent),
        (rpc("resources/list", json!({})), 200, -32601, absent),
        (
            rpc("resources/templates/list", json!({})),
            200,
            -32601,
            absent,
        ),
        (
            rpc("logging/setLevel", json!({"level": "info"})),
            200,
            -32601,
            absent,
        ),
        (rpc("tools/call", json!({})), 200, -32602, missing),
        (
            rpc("tools/call", json!({"name": null})),
            200,
            -32602,
            missing,
        ),
        (rpc("tools/call", json!({"name": 7})), 200, -32602, kind),
        (
            rpc(
                "tools/call",
                json!({"name": "memory_store", "arguments": []}),
            ),
            200,
            -32602,
            kind,
        ),
        (
            rpc("tools/call", json!({"name": "nope"})),
            200,
            -32602,
            "UNKNOWN_TOOL",
        ),
        (
            rpc("initialize", json!({})),
            200,
            -32602,
            "INVALID_PARAM_VALUE",
        ),
        (rpc("tools/list", json!("x")), 400, -32600, malformed),
        (rpc("tools/list", json!([])), 400, -32600, malformed),
        (
            json!({"jsonrpc": "2.0", "method": 7, "id": 3}),
            400,
            -32600,
            malformed,
        ),
    ];
    for (body, status, code, reason) in table {
        let answer = bench.post("/mcp", body.clone()).await;
        is_error(&answer, status, code, reason);
        assert_eq!(answer.json["id"], 3, "{body}");
    }
}

#[tokio::test]
async fn what_is_not_there_is_answered_with_what_is() {
    let bench = sqlite().await;
    let rpc = |method: &str, params: Value| json!({"jsonrpc": "2.0", "id": 3, "method": method, "params": params});
    let nope = bench.post("/mcp", rpc("nope", json!({}))).await;
    let details = &nope.json["error"]["data"]["details"];
    assert_eq!(details["method"], "nope");
    let methods = details["available_methods"].as_array().unwrap();
    assert!(methods.contains(&json!("tools/call")), "{details}");
    let nope = bench
        .post("/mcp", rpc("tools/call", json!({"name": "nope"})))
        .await;
    assert_eq!(nope.json["error"]["data"]["details"]["tool"], "nope");
}

#[tokio::test]
async fn what_is_no_json_is_a_parse_error() {
    let bench = sqlite().await;
    for body in ["not json", "", "{\"jsonrpc\": ", "\u{feff}{}", "[1, 2"] {
        let mut request = request(Method::POST, "/mcp", Some(json!({})));
        *request.body_mut() = body.to_owned().into();
        let answer = bench.call(request).await;
        is_error(&answer, 400, -32700, "PARSE_ERROR");
        assert_eq!(answer.json["id"], Value::Null);
    }
}

/// Numbers that would be rounded and names that come twice are refused in every form, with their place.
#[tokio::test]
async fn arguments_that_would_change_are_refused_in_every_form() {
    let bench = sqlite().await;
    let post = async |path: &str, body: &str| {
        let mut request = request(Method::POST, path, Some(json!({})));
        *request.body_mut() = body.to_owned().into();
        bench.call(request).await
    };
    let kv = |value: &str| format!(r#"{{"namespace": "n", "key": "k", "value_json": {value}}}"#);
    for (tool, arguments, place) in [
        (
            "logbook_set_kv",
            kv(r#"{"d": 0.12345678901234567890}"#),
            "value_json.d is a number that would be rounded",
        ),
        (
            "logbook_set_kv",
            kv(r#"{"m": [100000000000000000.01]}"#),
            "value_json.m[0] is a number",
        ),
        (
            "memory_store",
            r#"{"payload_md": "a", "payload_md": "b"}"#.to_owned(),
            "payload_md is a duplicate name",
        ),
        (
            "memory_store",
            r#"{"payload_md": "a", "meta_json": {"d": 0.1, "d": 0.2}}"#.to_owned(),
            "meta_json.d is a duplicate name",
        ),
    ] {
        let plain = format!(r#"{{"tool": "{tool}", "arguments": {arguments}}}"#);
        let rpc = format!(
            r#"{{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {{"name": "{tool}", "arguments": {arguments}}}}}"#
        );
        let mut answers = vec![
            post("/mcp", &plain).await.json["result"].clone(),
            told(&post("/mcp", &rpc).await),
        ];
        if tool == "memory_store" {
            answers.push(post("/memory/store", &arguments).await.json);
        }
        for answer in answers {
            assert_eq!(answer["error_code"], "INVALID_PARAMETER", "{answer}");
            let message = answer["message"].as_str().unwrap();
            assert!(message.starts_with(place), "{message}");
        }
    }
    let twice = r#"{"tool": "governance_get", "arguments": {}, "arguments": {}}"#;
    post("/mcp", twice).await.is_agents(400, "INVALID_INPUT");
    let twice = r#"{"jsonrpc": "2.0", "id": 1, "method": "ping", "method": "ping"}"#;
    is_error(&post("/mcp", twice).await, 400, -32600, "INVALID_REQUEST");
}

/// A body in neither form gets an error in the plain form.
#[tokio::test]
async fn what_is_neither_form_is_refused_plainly() {
    let bench = sqlite().await;
    let table = [
        json!({"method": "tools/list"}),
        json!({"jsonrpc": "1.0", "method": "tools/list", "id": 1}),
        json!({"jsonrpc": "2.0", "id": 1}),
        json!([{"jsonrpc": "2.0", "method": "ping", "id": 1}]),
        json!("ping"),
        json!(7),
        json!(null),
        json!({}),
        json!({"tool": 7}),
        json!({"tool": "memory_store", "arguments": null}),
        json!({"tool": "memory_store", "arguments": []}),
    ];
    for body in table {
        let answer = bench.post("/mcp", body).await;
        answer.is_agents(400, "INVALID_INPUT");
    }
    let mut undeclared = request(
        Method::POST,
        "/mcp",
        Some(json!({"tool": "governance_get"})),
    );
    set(&mut undeclared, &[("content-type", "text/plain")]);
    let answer = bench.call(undeclared).await;
    answer.is_agents(415, "UNSUPPORTED_MEDIA_TYPE");
}

/// Notifications are not answered, and null is an id like any other.
#[tokio::test]
async fn notifications_are_taken_and_ids_are_kept() {
    let bench = sqlite().await;
    for method in [
        "notifications/initialized",
        "notifications/nope",
        "tools/call",
        "ping",
    ] {
        let answer = bench
            .post("/mcp", json!({"jsonrpc": "2.0", "method": method}))
            .await;
        answer.is(202);
        assert_eq!(answer.text, "");
        assert!(Correlation::parse(answer.header("x-correlation-id")).is_some());
    }
    for id in [
        json!(null),
        json!("abc"),
        json!(7),
        json!(-1),
        json!(1.5),
        json!(u64::MAX),
    ] {
        let answer = bench
            .post(
                "/mcp",
                json!({"jsonrpc": "2.0", "method": "ping", "id": id}),
            )
            .await;
        answer.is(200);
        assert_eq!(
            answer.json,
            json!({"jsonrpc": "2.0", "id": id, "result": {}})
        );
        let nope = bench
            .post(
                "/mcp",
                json!({"jsonrpc": "2.0", "method": "nope", "id": id}),
            )
            .await;
        assert_eq!(nope.json["id"], id);
    }
    let odd = bench
        .post(
            "/mcp",
            json!({"jsonrpc": "2.0", "method": "ping", "id": {}}),
        )
        .await;
    is_error(&odd, 400, -32600, "INVALID_REQUEST");
}

/// A call without an id is a notification: its result would be lost, and a memory that
/// was deferred or refused would be lost without a word. So it is taken, and nothing is done.
#[tokio::test]
async fn a_call_without_an_id_is_not_made() {
    let bench = sqlite().await;
    let arguments = json!({"payload_md": "moss grows north", "target_space": "private:ada"});
    let mut silent = called("memory_store", arguments.clone());
    silent.as_object_mut().unwrap().remove("id");
    let answer = bench.post("/mcp", silent).await;
    answer.is(202);
    assert_eq!(answer.text, "");
    let logbook = &bench.app;
    let all = consign_memory::AuditFilter::default();
    assert_eq!(logbook.audits(&all, 10).await.unwrap(), []);
    // With an id, null among them, it is a request.
    let mut asked = called("memory_store", arguments);
    asked["id"] = Value::Null;
    let answer = bench.post("/mcp", asked).await;
    assert_eq!(told(&answer)["action"], "allow", "{}", answer.text);
    assert_eq!(logbook.audits(&all, 10).await.unwrap().len(), 1);
}

#[tokio::test]
async fn every_version_shakes_hands_and_an_unknown_one_gets_the_newest() {
    let bench = sqlite().await;
    for (asked, given) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
    ] {
        let params = json!({
            "protocolVersion": asked, "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        });
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
        let answer = bench.post("/mcp", body).await;
        answer.is(200);
        let result = &answer.json["result"];
        assert_eq!(result["protocolVersion"], given, "{asked}");
        assert_eq!(
            result["capabilities"],
            json!({"tools": {"listChanged": false}})
        );
        assert_eq!(result["serverInfo"]["name"], "consign");
        assert_eq!(answer.header("mcp-session-id"), "");
    }
}

#[tokio::test]
async fn tools_are_listed_and_called_in_every_era() {
    let bench = sqlite().await;
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let listed = bench.post("/mcp", list).await;
    let headers = [
        ("mcp-protocol-version", MODERN),
        ("mcp-method", "tools/list"),
    ];
    let now = modern("tools/list", json!({}));
    let newly = bench.post_with("/mcp", &headers, now).await;
    newly.is(200);
    assert_eq!(
        listed.json["result"]["tools"],
        newly.json["result"]["tools"]
    );
    assert_eq!(newly.json["result"]["resultType"], "complete");
    assert!(newly.json["result"]["ttlMs"].is_u64(), "{}", newly.text);
    let tools = listed.json["result"]["tools"].as_array().unwrap();
    assert_eq!(tools.len(), consign_memory::tools::list().len());
    for tool in tools {
        assert_eq!(tool["inputSchema"]["type"], "object", "{tool}");
        assert_eq!(tool["outputSchema"]["type"], "object", "{tool}");
        assert!(tool["description"].is_string(), "{tool}");
        assert!(tool["annotations"]["readOnlyHint"].is_boolean(), "{tool}");
    }

    let arguments = json!({"payload_md": "deploys are on tuesdays", "target_space": "private:ada"});
    let stored = bench.post("/mcp", called("memory_store", arguments)).await;
    assert_eq!(stored.json["result"]["structuredContent"], told(&stored));
    let body = told(&stored);
    assert_eq!(body["ok"], true, "{body}");
    assert_eq!(body["correlation_id"], stored.header("x-correlation-id"));
    assert_eq!(stored.json["result"]["isError"], false);
    let arguments = json!({"query": "tuesdays", "spaces": ["private:ada"]});
    let params = json!({"name": "memory_query", "arguments": arguments});
    let headers = [
        ("mcp-protocol-version", MODERN),
        ("mcp-method", "tools/call"),
        ("mcp-name", "memory_query"),
    ];
    let found = bench
        .post_with("/mcp", &headers, modern("tools/call", params))
        .await;
    assert_eq!(
        told(&found)["results"][0]["id"],
        body["memory_id"],
        "{}",
        found.text
    );
    assert_eq!(found.json["id"], "m-1");
}

/// What the gateway decides is a result, never an error of the protocol.
#[tokio::test]
async fn what_a_tool_refuses_is_a_result() {
    let bench = sqlite().await;
    for body in [
        called("memory_store", json!({})),
        called("memory_store", json!(null)),
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "memory_store"}}),
    ] {
        let answer = bench.post("/mcp", body).await;
        answer.is(200);
        let told = told(&answer);
        assert_eq!(told["error_code"], "MISSING_REQUIRED_PARAMETER", "{told}");
        assert_eq!(
            (&told["ok"], &told["retryable"]),
            (&json!(false), &json!(false))
        );
        assert_eq!(told["correlation_id"], answer.header("x-correlation-id"));
        assert_eq!(answer.json["result"]["isError"], false);
    }
    let arguments = json!({"payload_md": "", "target_space": "public:x"});
    let rejected = bench.post("/mcp", called("memory_store", arguments)).await;
    assert_eq!(told(&rejected)["action"], "reject", "{}", rejected.text);
    let empty = json!({"payload_md": "", "target_space": "private:ada"});
    let stored = bench.post("/mcp", called("memory_store", empty)).await;
    assert_eq!(
        told(&stored)["ok"],
        true,
        "an empty text is a text: {}",
        stored.text
    );
}

#[tokio::test]
async fn the_newest_version_is_held_to_its_headers() {
    let bench = sqlite().await;
    let discover = modern("server/discover", json!({}));
    let headers = [
        ("mcp-protocol-version", MODERN),
        ("mcp-method", "server/discover"),
    ];
    let discovered = bench.post_with("/mcp", &headers, discover.clone()).await;
    discovered.is(200);
    let versions = &discovered.json["result"]["supportedVersions"];
    assert!(
        versions.as_array().unwrap().contains(&json!(MODERN)),
        "{versions}"
    );

    let headers = [
        ("mcp-protocol-version", MODERN),
        ("mcp-method", "tools/list"),
    ];
    let mismatch = bench.post_with("/mcp", &headers, discover).await;
    is_error(&mismatch, 400, -32020, "HEADER_MISMATCH");
    let headers = [("mcp-protocol-version", MODERN), ("mcp-method", "nope")];
    let nope = bench
        .post_with("/mcp", &headers, modern("nope", json!({})))
        .await;
    is_error(&nope, 404, -32601, "METHOD_NOT_FOUND");
    let mut future = modern("tools/list", json!({}));
    future["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2099-01-01");
    let headers = [
        ("mcp-protocol-version", "2099-01-01"),
        ("mcp-method", "tools/list"),
    ];
    let refused = bench.post_with("/mcp", &headers, future).await;
    is_error(&refused, 400, -32022, "UNSUPPORTED_PROTOCOL_VERSION");
    let data = &refused.json["error"]["data"];
    assert!(
        data["supported"]
            .as_array()
            .is_some_and(|all| all.len() > 3),
        "{data}"
    );
    // Of an older client: words of the SDK, in our form.
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let headers = [("mcp-protocol-version", "1999-01-01")];
    let refused = bench.post_with("/mcp", &headers, list).await;
    is_error(&refused, 400, -32600, "INVALID_REQUEST");
    assert_eq!(refused.json["id"], 1);
}

/// A tool and its arguments, without the protocol.
#[tokio::test]
async fn the_plain_form_calls_tools() {
    let bench = sqlite().await;
    let arguments = json!({"payload_md": "test", "target_space": "team:test"});
    let body = json!({"tool": "memory_store", "arguments": arguments, "extra": 1});
    let stored = bench.post("/mcp", body).await;
    stored.is(200);
    assert_eq!(
        (&stored.json["ok"], &stored.json["error"]),
        (&json!(true), &json!(null))
    );
    let result = &stored.json["result"];
    // The policy of a fresh project keeps it from the team.
    assert_eq!(result["action"], "redirect", "{result}");
    assert_eq!(result["space_written"], "private:unknown");
    for id in [&result["correlation_id"], &stored.json["correlation_id"]] {
        assert_eq!(id, stored.header("x-correlation-id"));
    }
    // The audit has the same name.
    let logbook = &bench.app;
    let filter = consign_memory::AuditFilter {
        correlation_id: result["correlation_id"].as_str().map(str::to_owned),
        ..Default::default()
    };
    let audits = logbook.audits(&filter, 10).await.unwrap();
    assert_eq!(audits.len(), 1);

    let nope = bench
        .post("/mcp", json!({"tool": "nope", "arguments": {}}))
        .await;
    nope.is(200);
    assert_eq!(nope.json["result"]["error_code"], "UNKNOWN_TOOL");
    assert!(nope.json["error"].is_string(), "{}", nope.text);
    let without = bench.post("/mcp", json!({"tool": "governance_get"})).await;
    assert_eq!(without.json["ok"], true, "{}", without.text);
    let missing = bench.post("/mcp", json!({"tool": "memory_store"})).await;
    assert_eq!(
        missing.json["result"]["error_code"],
        "MISSING_REQUIRED_PARAMETER"
    );
    assert_eq!(missing.json["ok"], false);
}

#[tokio::test]
async fn names_of_requests_are_the_servers_own() {
    let bench = sqlite().await;
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..3 {
        let given = [("x-correlation-id", "corr-0123456789abcdef")];
        let body = json!({"jsonrpc": "2.0", "method": "ping", "id": 1});
        let answer = bench.post_with("/mcp", &given, body).await;
        let name = answer.header("x-correlation-id");
        assert!(Correlation::parse(name).is_some(), "{name}");
        assert_ne!(name, "corr-0123456789abcdef");
        assert!(seen.insert(name.to_owned()));
    }
    for (method, path) in [
        (Method::GET, "/mcp"),
        (Method::DELETE, "/mcp"),
        (Method::GET, "/memory/x"),
    ] {
        let answer = bench.call(request(method, path, None)).await;
        assert!(matches!(answer.status.as_u16(), 404 | 405));
        assert_eq!(
            answer.json["correlation_id"],
            answer.header("x-correlation-id")
        );
    }
}

#[tokio::test]
async fn without_a_gateway_there_is_nothing_at_its_paths() {
    let bench = off().await;
    let body = json!({"tool": "memory_store", "arguments": {"payload_md": "x"}});
    bench.post("/mcp", body).await.is_agents(404, "NOT_FOUND");
    bench
        .post("/memory/store", json!({}))
        .await
        .is_agents(404, "NOT_FOUND");
    bench
        .get("/reliability/report")
        .await
        .is_agents(404, "NOT_FOUND");
}
