//! The Model Context Protocol as clients rely on it.

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::{Value, json};

use super::{
    checks::{facts, unfit},
    gateway::{Gateway, GatewayReply},
    outcome::{StepFailure, StepResult},
    stack::Stack,
};
use crate::Correlation;

/// Required tools and their required arguments.
const TOOLS: &[(&str, &[&str])] = &[
    ("memory_store", &["payload_md"]),
    ("memory_query", &["query"]),
    ("memory_get", &["id"]),
    ("memory_list", &[]),
    ("memory_update", &["id", "payload_md"]),
    ("memory_delete", &["id"]),
    ("memory_spaces", &[]),
    ("reliability_report", &[]),
    ("governance_get", &[]),
    ("governance_update", &[]),
    ("evidence_upload", &["content", "content_type"]),
    ("evidence_read", &["uri"]),
];

/// The required tools are offered.
pub(super) async fn tools(stack: &Stack) -> StepResult {
    let reply = stack.gateway.rpc("tools/list", json!({})).await?;
    let listed = reply.body["result"]["tools"].as_array();
    let Some(listed) = listed.filter(|_| reply.status == 200) else {
        return Err(unfit("tools/list", &reply.body));
    };
    for (name, required) in TOOLS {
        let Some(tool) = listed.iter().find(|tool| tool["name"] == *name) else {
            let why = format!("tools/list has no {name}");
            return Err(StepFailure::new("response_check_failed", why));
        };
        let schema = &tool["inputSchema"];
        if schema["type"] != "object" || schema["required"] != json!(required) {
            return Err(unfit(&format!("the arguments of {name}"), schema));
        }
    }
    Ok(facts(json!({"tools_count": listed.len()})))
}

/// The handshake, answers, errors, notifications and names of requests.
pub(super) async fn check(stack: &Stack) -> StepResult {
    let gateway = &stack.gateway;
    let preflight = gateway.ask(Method::OPTIONS, "/mcp", None).await?;
    if preflight.status != 204 {
        let why = format!("OPTIONS /mcp answered {}", preflight.status);
        return Err(StepFailure::new("response_check_failed", why));
    }
    let params = json!({
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "consign verify", "version": env!("CARGO_PKG_VERSION")},
    });
    let met = gateway.rpc("initialize", params).await?;
    let result = &met.body["result"];
    let is_met = result["protocolVersion"] == "2025-11-25"
        && result["capabilities"]["tools"].is_object()
        && result["serverInfo"]["name"].is_string();
    is(is_met, "initialize", &met)?;
    let noted = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let noted = post(gateway, noted.to_string()).await?;
    is(noted.status == 202, "a notification", &noted)?;
    let ping = gateway.rpc("ping", json!({})).await?;
    is(ping.body["result"] == json!({}), "ping", &ping)?;
    errors(gateway).await?;
    names(gateway).await?;
    if gateway.is_closed() {
        let open = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
        let open = gateway.ask_openly("/mcp", open.to_string()).await?;
        is(open.status == 401, "without a token, tools/list", &open)?;
    }
    Ok(facts(json!({"is_token_asked_for": gateway.is_closed()})))
}

/// Errors have their codes and reasons.
async fn errors(gateway: &Gateway) -> Result<(), StepFailure> {
    let nope = gateway.rpc("nope", json!({})).await?;
    let is_told = nope.status == 200 && is_error(&nope, -32601, "METHOD_NOT_FOUND");
    is(is_told, "an unknown method", &nope)?;
    let nope = gateway.rpc("tools/call", json!({"name": "nope"})).await?;
    let is_told = nope.status == 200 && is_error(&nope, -32602, "UNKNOWN_TOOL");
    is(is_told, "an unknown tool", &nope)?;
    let nonsense = post(gateway, "no JSON".to_owned()).await?;
    let is_told = nonsense.status == 400 && is_error(&nonsense, -32700, "PARSE_ERROR");
    is(is_told, "what is no JSON", &nonsense)
}

fn is_error(reply: &GatewayReply, code: i64, reason: &str) -> bool {
    let error = &reply.body["error"];
    error["code"] == code && error["data"]["reason"] == reason
}

/// Every request has its own correlation id.
async fn names(gateway: &Gateway) -> Result<(), StepFailure> {
    let mut names = BTreeSet::new();
    for _ in 0..3 {
        let details = gateway.call("governance_get", json!({})).await?;
        let name = details["correlation_id"].as_str().unwrap_or_default();
        if Correlation::parse(name).is_none() || !names.insert(name.to_owned()) {
            return Err(unfit("the correlation id is not unique", &details));
        }
    }
    Ok(())
}

async fn post(gateway: &Gateway, body: String) -> Result<GatewayReply, StepFailure> {
    gateway.ask(Method::POST, "/mcp", Some(body)).await
}

fn is(is_right: bool, what: &str, reply: &GatewayReply) -> Result<(), StepFailure> {
    let details: &Value = &reply.body;
    if is_right {
        Ok(())
    } else {
        Err(unfit(
            &format!("{what} was answered {}", reply.status),
            details,
        ))
    }
}
