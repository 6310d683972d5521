//! `consign verify`: the steps, the gate and its switches, and what it refuses.

use std::{env, process::Command};

use consign_testkit::OpenMemory;
use serde_json::{Value, json};

use super::{gateway::use_openmemory, switch::Switch};
use crate::{
    orders::bench::on_both,
    support::{CommandOutput, Consign, finish},
};

const INSTALLED: &str = "CONSIGN_TEST_OPENMEMORY";

/// Runs without a memory server of its own.
pub(super) fn verify(
    consign: &Consign,
    more: &[&str],
    variables: &[(&str, &str)],
) -> CommandOutput {
    let mut command = consign.command();
    command
        .env_remove(INSTALLED)
        .envs(variables.iter().copied())
        .args(["--json", "--database", consign.database(), "verify"])
        .args(more);
    finish(command, b"")
}

/// The names and ends of the steps.
pub(super) fn steps(result: &Value) -> Vec<(&str, &str)> {
    let steps = result["steps"].as_array().unwrap().iter();
    steps
        .map(|step| {
            assert!(step["duration_ms"].is_u64(), "{step}");
            assert!(step["required"].is_boolean(), "{step}");
            let text = |name: &str| step[name].as_str().unwrap();
            (text("name"), text("status"))
        })
        .collect()
}

pub(super) fn step<'r>(result: &'r Value, name: &str) -> &'r Value {
    let mut steps = result["steps"].as_array().unwrap().iter();
    steps.find(|step| step["name"] == name).unwrap()
}

const ALL_WELL: [(&str, &str); 10] = [
    ("health_checks", "ok"),
    ("memory_store", "ok"),
    ("memory_query", "ok"),
    ("tool_check", "ok"),
    ("jsonrpc", "ok"),
    ("evidence", "ok"),
    ("degradation", "ok"),
    ("shutdown", "ok"),
    ("reconcile", "ok"),
    ("db_invariants", "ok"),
];

/// With nothing but the package of a memory server: everything is its own, and nothing is left.
#[test]
fn full_with_a_server_of_its_own_leaves_nothing_behind() {
    let consign = Consign::unmigrated();
    let own = |json: &[&str]| {
        let mut command = consign.command();
        let installed = env::var_os(INSTALLED).expect("run scripts/test --all");
        command
            .args(json)
            .args(["verify", "--full", "--openmemory-dir"])
            .arg(installed);
        finish(command, b"").expect(0)
    };
    let result = own(&["--json"]).json();
    assert_eq!(steps(&result), ALL_WELL, "{result}");
    assert_eq!(result["overall_status"], "pass");
    assert_eq!(result["total_failed"], 0);
    assert_eq!(result["verify_mode"], "default");
    // A token of its own was asked for: the gateway is closed to everybody else.
    assert_eq!(step(&result, "jsonrpc")["is_token_asked_for"], true);
    let url = result["gateway_url"].as_str().unwrap();
    assert!(url.starts_with("http://127.0.0.1:"), "{url}");
    let gate = json!({"mode": "FULL", "passed": true, "reason": null, "missing": []});
    assert_eq!(result["gate"], gate);
    let outage = step(&result, "degradation");
    assert_eq!(
        (&outage["action"], &outage["has_outbox_id"]),
        (&json!("deferred"), &json!(true))
    );
    let phases = outage["phases"].as_array().unwrap().iter();
    let phases: Vec<&str> = phases
        .map(|phase| phase["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        phases,
        [
            "stop",
            "store, deferred",
            "check outbox and audit",
            "start",
            "deliver",
            "find"
        ]
    );
    let figures = step(&result, "db_invariants");
    let figures = [
        "audit_total",
        "audit_allow",
        "audit_redirect",
        "outbox_total",
        "outbox_sent",
    ]
    .map(|name| figures[name].as_u64().unwrap());
    // The uploaded evidence has an audit too: it went to the private space, as the policy says.
    assert_eq!(figures, [5, 3, 2, 1, 1]);
    let left: Vec<_> = std::fs::read_dir(consign.folder()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
    let told = own(&[]).stdout;
    let last = told.lines().last().unwrap();
    assert!(last.starts_with("pass: 10 steps, 0 failed, "), "{told}");
}

/// A server that another party runs, on both stores, twice.
#[test]
fn full_with_commands_stops_and_starts_the_configured_server() {
    on_both(async |mut bench| {
        let mut server = OpenMemory::start().await;
        use_openmemory(&mut bench, &server);
        let switch = Switch::new(&bench);
        for _ in 0..2 {
            let mut command = bench.consign.command();
            command
                .args(["--json", "--database", bench.consign.database()])
                .args(["verify", "--full", "--stop-command", &switch.stop()])
                .args(["--start-command", &switch.start()]);
            let result = switch.run(command, &mut server).await.expect(0).json();
            assert_eq!(steps(&result), ALL_WELL, "{result}");
            assert_eq!(result["openmemory_url"], server.url());
        }
        // Commands that do nothing are found out.
        let does_nothing = [
            "--full",
            "--stop-command",
            "true",
            "--start-command",
            "true",
        ];
        let result = verify(&bench.consign, &does_nothing, &[]).expect(1).json();
        assert_eq!(result["overall_status"], "fail");
        assert_eq!(
            step(&result, "degradation")["reason"],
            "container_still_running"
        );
        let fails = [
            "--full",
            "--stop-command",
            "exit 3",
            "--start-command",
            "true",
        ];
        let result = verify(&bench.consign, &fails, &[]).expect(1).json();
        assert_eq!(
            step(&result, "degradation")["reason"],
            "cannot_stop_container"
        );
        assert_eq!(
            result["gate"]["reason"],
            "FULL mode: required capability degradation failed"
        );
        // A switch excuses what is not tried, and then it is not tried.
        let excused = [&fails[..], &["--skip", "degradation"]].concat();
        let result = verify(&bench.consign, &excused, &[]).expect(0).json();
        assert_eq!(step(&result, "degradation")["reason"], "explicit_skip");
        bench.doctor();
    });
}

/// What is missing fails a full gate, unless one of three switches says that it may be.
#[test]
fn a_full_gate_needs_every_capability_or_a_skip_switch() {
    let consign = Consign::new();
    let result = verify(&consign, &[], &[]).expect(0).json();
    assert_eq!(result["gate"]["mode"], "DEGRADED");
    assert_eq!(result["capabilities"]["openmemory"], "skipped");
    let refused = |more: &[&str], variables: &[(&str, &str)]| {
        let result = verify(&consign, more, variables).expect(1).json();
        assert_eq!(result["total_failed"], 0, "{result}");
        result["gate"]["reason"].as_str().unwrap().to_owned()
    };
    let without = |name: &str| format!("FULL mode: {name} skipped without explicit config");
    assert_eq!(refused(&["--full"], &[]), without("openmemory"));
    let by_request = ["--full", "--skip", "openmemory"];
    assert_eq!(refused(&by_request, &[]), without("degradation"));
    let by_environment = [("GATEWAY_SKIP_DEGRADATION", "1")];
    verify(&consign, &by_request, &by_environment).expect(0);
    consign.configure("[memory]\nskip_openmemory = true\n");
    verify(&consign, &["--full"], &by_environment).expect(0);
    verify(&consign, &["--full", "--skip", "everything"], &[]).expect(2);
    verify(&consign, &["--full", "--stop-command", "true"], &[]).expect(2);
}

/// A server that is not there fails the first step, and an unmigrated database the command.
#[test]
fn what_does_not_answer_fails() {
    let consign = Consign::unmigrated();
    verify(&consign, &[], &[]).expect(5);
    consign.run(["migrate"]).expect(0);
    consign.configure("[memory]\nenabled = false\n");
    verify(&consign, &[], &[]).expect(2);
    let nowhere = ["--openmemory-dir", "/nowhere"];
    verify(&consign, &nowhere, &[]).expect(2);
}

/// A server that is gone in a moment must not be given somebody's memories.
#[test]
fn a_temporary_server_gets_no_other_memories() {
    let consign = Consign::new();
    consign
        .run(["memory", "store", "Mine.", "--space", "private:alice"])
        .expect(0);
    let run = |consign: &Consign| {
        let mut command: Command = consign.command();
        command.args(["--database", consign.database(), "verify", "--full"]);
        command
            .arg("--openmemory-dir")
            .arg(env::var_os(INSTALLED).expect("run scripts/test --all"));
        finish(command, b"")
    };
    let refused = run(&consign).expect(3);
    assert!(
        refused.stderr.contains("the database has other memories"),
        "{refused:#?}"
    );
    let unused = Consign::new();
    run(&unused).expect(0);
    run(&unused).expect(0);
}
