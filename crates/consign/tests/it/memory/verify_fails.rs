//! `consign verify` finds out whatever is wrong: every step is made to fail.

use consign_testkit::OpenMemory;
use serde_json::{Value, json};

use super::{
    gateway::use_openmemory,
    meddler::{Rewrite, RewritingProxy},
    switch::Switch,
    verify::{step, steps, verify},
};
use crate::{
    orders::bench::{Bench, Kind},
    service::Service,
    support::{CommandOutput, Consign},
};

/// Verifies a gateway behind a proxy that changes answers.
async fn meddled(consign: &Consign, service: &Service, meddle: Rewrite) -> Value {
    let meddler = RewritingProxy::before(service.address(), meddle).await;
    let url = format!("http://{}", meddler.address);
    let arguments = ["--patience", "1", "--gateway-url", &url];
    let run = || verify(consign, &arguments, &[]);
    let ran: CommandOutput = tokio::task::block_in_place(run);
    match ran.status {
        0 => ran.json(),
        _ => ran.expect(1).json(),
    }
}

/// The steps that failed.
fn failed(result: &Value) -> Vec<&str> {
    let failed = steps(result).into_iter().filter(|(_, end)| *end == "fail");
    failed.map(|(name, _)| name).collect()
}

/// The tool that is called, whichever way.
fn is_call(asked: &Value, tool: &str) -> bool {
    asked["method"] == "tools/call" && asked["params"]["name"] == tool
}

/// Changes what a tool answers through the protocol.
fn retell(told: &mut Value, change: impl FnOnce(&mut Value)) {
    let text = told["result"]["content"][0]["text"].as_str().unwrap();
    let mut inner: Value = serde_json::from_str(text).unwrap();
    change(&mut inner);
    told["result"]["content"][0]["text"] = json!(inner.to_string());
}

/// What somebody does, and the steps that must notice.
const MEDDLING: &[(&str, Rewrite, &[&str])] = &[
    ("nothing", |_, _, _, _| {}, &[]),
    (
        "the gateway is not ready",
        |path, _, status, told| {
            if path == "/readyz" {
                *status = 503;
                told["status"] = json!("not_ready");
            }
        },
        &["health_checks"],
    ),
    (
        "the gateway says otherwise how it is",
        |path, _, _, told| {
            if path == "/health" {
                told["status"] = json!("ready");
            }
        },
        &["health_checks"],
    ),
    (
        "a memory is said to be stored that is not",
        |path, _, _, told| {
            if path == "/memory/store" {
                told["memory_id"] = json!("mem_of_nobody");
            }
        },
        &["memory_store", "memory_query"],
    ),
    (
        "an answer is somebody else's",
        |path, _, _, told| {
            if path == "/memory/store" {
                told["correlation_id"] = json!("corr-0000000000000000");
            }
        },
        &["memory_store", "memory_query"],
    ),
    (
        "nothing is ever found",
        |path, _, _, told| {
            if path == "/memory/query" {
                told["results"] = json!([]);
            }
        },
        &["memory_query"],
    ),
    (
        "what is found comes from the logbook",
        |path, _, _, told| {
            if path == "/memory/query" {
                told["degraded"] = json!(true);
            }
        },
        &["memory_query"],
    ),
    (
        "a tool is missing",
        |_, asked, _, told| {
            if asked["method"] == "tools/list" {
                let tools = told["result"]["tools"].as_array_mut().unwrap();
                tools.retain(|tool| tool["name"] != "memory_query");
            }
        },
        &["tool_check"],
    ),
    (
        "a tool wants something else",
        |_, asked, _, told| {
            if asked["method"] == "tools/list" {
                let tools = told["result"]["tools"].as_array_mut().unwrap();
                for tool in tools {
                    tool["inputSchema"]["required"] = json!([]);
                }
            }
        },
        &["tool_check"],
    ),
    (
        "browsers are not answered",
        |_, asked, status, _| {
            if asked.is_null() && *status == 204 {
                *status = 405;
            }
        },
        &["jsonrpc"],
    ),
    (
        "the handshake is another version's",
        |_, asked, _, told| {
            if asked["method"] == "initialize" {
                told["result"]["protocolVersion"] = json!("2024-11-05");
            }
        },
        &["jsonrpc"],
    ),
    (
        "a notification is answered",
        |_, asked, status, told| {
            if asked["method"] == "notifications/initialized" {
                *status = 200;
                *told = json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32601}});
            }
        },
        &["jsonrpc"],
    ),
    (
        "ping is not answered with nothing",
        |_, asked, _, told| {
            if asked["method"] == "ping" {
                told["result"] = json!("pong");
            }
        },
        &["jsonrpc"],
    ),
    (
        "an unknown method is a page that is not there",
        |_, asked, status, _| {
            if asked["method"] == "nope" {
                *status = 404;
            }
        },
        &["jsonrpc"],
    ),
    (
        "an unknown tool is an answer",
        |_, asked, _, told| {
            if is_call(asked, "nope") {
                *told = json!({"jsonrpc": "2.0", "id": 1, "result": {"content": []}});
            }
        },
        &["jsonrpc"],
    ),
    (
        "nonsense is a defect",
        |_, _, status, told| {
            if told["error"]["code"] == -32700 {
                *status = 500;
            }
        },
        &["jsonrpc"],
    ),
    (
        "two requests have one name",
        |_, asked, _, told| {
            if is_call(asked, "governance_get") {
                told["correlation_id"] = json!("corr-0123456789abcdef");
                retell(told, |inner| {
                    inner["correlation_id"] = json!("corr-0123456789abcdef");
                });
            }
        },
        &["jsonrpc"],
    ),
    (
        "evidence is not kept",
        |_, asked, _, told| {
            if is_call(asked, "evidence_upload") {
                retell(told, |inner| inner["ok"] = json!(false));
            }
        },
        &["evidence"],
    ),
    (
        "evidence is another text",
        |_, asked, _, told| {
            if is_call(asked, "evidence_read") {
                retell(told, |inner| inner["content"] = json!("forged"));
            }
        },
        &["evidence"],
    ),
    (
        "any hash will do",
        |_, asked, _, told| {
            if is_call(asked, "evidence_read") {
                retell(told, |inner| inner["ok"] = json!(true));
            }
        },
        &["evidence"],
    ),
    (
        "a memory with evidence is refused",
        |_, asked, _, told| {
            if is_call(asked, "memory_store") {
                retell(told, |inner| inner["ok"] = json!(false));
            }
        },
        &["evidence"],
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn every_step_finds_out_what_is_wrong() {
    let consign = Consign::new();
    let service = Service::serve(&consign).await;
    for (what, meddle, expected) in MEDDLING {
        let result = meddled(&consign, &service, *meddle).await;
        assert_eq!(failed(&result), *expected, "{what}: {result:#}");
        let overall = if expected.is_empty() { "pass" } else { "fail" };
        assert_eq!(result["overall_status"], overall, "{what}");
        assert_eq!(result["total_failed"], expected.len(), "{what}");
        for name in *expected {
            let step = step(&result, name);
            assert!(step["reason"].is_string(), "{what}: {step}");
            assert!(step["error"].is_string(), "{what}: {step}");
        }
    }
    service.stop().await;
}

/// A gateway that nobody is at home in, one that cannot start, and tokens.
#[tokio::test(flavor = "multi_thread")]
async fn an_absent_gateway_fails_every_step_that_calls_it() {
    let consign = Consign::new();
    let asked = [
        "health_checks",
        "memory_store",
        "memory_query",
        "tool_check",
        "jsonrpc",
        "evidence",
    ];
    let nobody = ["--gateway-url", "http://127.0.0.1:1"];
    let result = verify(&consign, &nobody, &[]).expect(1).json();
    assert_eq!(failed(&result), asked, "{result:#}");
    assert_eq!(step(&result, "health_checks")["reason"], "request_failed");
    // With the wrong token it answers, and refuses.
    consign.configure("[memory]\ngateway_auth_token = \"tulip-in-the-garden\"\n");
    let service = Service::serve(&consign).await;
    let url = format!("http://{}", service.address());
    let known = ["--gateway-url", url.as_str()];
    let result = verify(&consign, &known, &[]).expect(0).json();
    assert_eq!(step(&result, "jsonrpc")["is_token_asked_for"], true);
    consign.configure("[memory]\ngateway_auth_token = \"rose-behind-the-house\"\n");
    let result = verify(&consign, &known, &[]).expect(1).json();
    assert_eq!(failed(&result), asked[1..], "{result:#}");
    service.stop().await;
}

/// What is wrong in the database is found by the steps that look there.
#[tokio::test]
async fn a_database_that_does_not_fit_fails() {
    let consign = Consign::new();
    verify(&consign, &[], &[]).expect(0);
    consign
        .sql(
            "INSERT INTO write_audit (created_at, target_space, action, reason, status, \
             evidence_refs_json) SELECT created_at, target_space, 'redirect', \
             'openmemory_write_failed:connection_error:outbox:4711', 'redirected', \
             json_object('outbox_id', 4711) FROM write_audit LIMIT 1",
        )
        .await;
    let result = verify(&consign, &[], &[]).expect(1).json();
    assert_eq!(
        failed(&result),
        ["reconcile", "db_invariants"],
        "{result:#}"
    );
}

/// A memory server that does not come back, and a gateway that says otherwise while it is away.
#[tokio::test(flavor = "multi_thread")]
async fn a_memory_server_that_stays_away_fails() {
    let mut bench = Bench::start(Kind::Sqlite).await;
    let mut server = OpenMemory::start().await;
    use_openmemory(&mut bench, &server);
    let switch = Switch::new(&bench);
    let command = |start: &str, more: &[&str]| {
        let mut command = bench.consign.command();
        command
            .args(["--json", "--database", bench.consign.database()])
            .args(["verify", "--full", "--patience", "2"])
            .args(["--stop-command", &switch.stop(), "--start-command", start])
            .args(more);
        command
    };
    let ran = switch.run(command("true", &[]), &mut server).await;
    let result = ran.expect(1).json();
    assert_eq!(failed(&result), ["degradation"], "{result:#}");
    assert_eq!(step(&result, "degradation")["reason"], "recovery_timeout");
    let ran = switch.run(command("exit 3", &[]), &mut server).await;
    let result = ran.expect(1).json();
    let outage = step(&result, "degradation");
    assert_eq!(outage["reason"], "cannot_restart_container", "{result:#}");
    // Told that it is stored while nobody could store it.
    let gateway = bench.serve().await;
    let meddler = RewritingProxy::before(gateway.address(), |path, _, _, told| {
        if path == "/memory/store" && told["action"] == "deferred" {
            told["action"] = json!("allow");
            told["ok"] = json!(true);
        }
    });
    let meddler = meddler.await;
    let url = format!("http://{}", meddler.address);
    let command = command(&switch.start(), &["--gateway-url", &url]);
    let ran = switch.run(command, &mut server).await;
    let result = ran.expect(1).json();
    let outage = step(&result, "degradation");
    assert_eq!(outage["reason"], "response_check_failed", "{result:#}");
    gateway.stop().await;
}
