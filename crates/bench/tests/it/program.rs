//! `consign-bench`: it runs, and a program can read its figures. Scenarios with processes need the program
//! `consign` beside it, which a build of the whole workspace makes.

use std::{
    path::Path,
    process::{Command, Output},
};

use consign_testkit::TestDatabase;
use serde_json::Value;
use tempfile::TempDir;

/// Runs it in an empty folder.
fn run_in(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_consign-bench"))
        .current_dir(folder)
        .env_remove("DATABASE_URL")
        .args(["--scale", "smoke"])
        .args(arguments)
        .output()
        .unwrap()
}

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

#[track_caller]
fn report(output: &Output) -> Value {
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn the_benchmark_of_sqlite_runs_without_a_server() {
    let folder = folder();
    let ran = run_in(folder.path(), &["--scenario", "sqlite", "--json"]);
    let figures = report(&ran)["scenarios"][0]["figures"].clone();
    assert!(!figures.as_array().unwrap().is_empty(), "{figures}");
    let left = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 0, "it measures files of its own");
}

#[test]
fn a_scenario_that_needs_a_server_reports_it() {
    let ran = run_in(folder().path(), &["--scenario", "drain"]);
    assert_eq!(ran.status.code(), Some(1), "{ran:?}");
    let stderr = String::from_utf8_lossy(&ran.stderr);
    assert!(stderr.contains("--database postgres://"), "{stderr}");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_builds_are_compared_in_turns() {
    let database = TestDatabase::create(async |_| ()).await;
    let itself = env!("CARGO_BIN_EXE_consign-bench");
    let folder = folder();
    let options = ["--json", "--rounds", "2", "--database", database.url()];
    let beside = ["--beside", itself, "drain"];
    let ran = run_in(folder.path(), &[&options[..], &beside[..]].concat());
    let report = report(&ran);
    assert_eq!(report["scenarios"].as_array().unwrap().len(), 1);
    let figures = report["scenarios"][0]["figures"].as_array().unwrap();
    assert_eq!(figures[0]["name"], "enqueued by 500, claimed by 500");
    for figure in figures {
        assert_eq!(figure["against"]["name"], "other build", "{figure}");
        assert_eq!(figure["rounds"].as_array().unwrap().len(), 2, "{figure}");
        assert!(figure["ratio"].as_f64().unwrap() > 0.0, "{figure}");
    }
    let rounds = String::from_utf8_lossy(&ran.stderr).matches(itself).count();
    assert_eq!(rounds, 4, "two rounds of each: {ran:?}");
}

/// Each starts processes of consign and measures them. How fast they are does not matter here;
/// that nothing is lost or delivered twice does.
async fn run(scenarios: &[&str]) -> Value {
    let database = TestDatabase::create(async |_| ()).await;
    let mut arguments = vec!["--json", "--database", database.url()];
    for scenario in scenarios {
        arguments.extend(["--scenario", scenario]);
    }
    let report = report(&run_in(folder().path(), &arguments));
    for (at, scenario) in scenarios.iter().enumerate() {
        let measured = &report["scenarios"][at];
        assert_eq!(measured["scenario"], *scenario);
        let figures = measured["figures"].as_array().unwrap();
        assert!(!figures.is_empty(), "{measured}");
        for figure in figures {
            let value = figure["value"].as_f64();
            assert!(value.is_some_and(|value| value >= 0.0), "{figure}");
        }
    }
    report
}

#[tokio::test(flavor = "multi_thread")]
async fn the_scenarios_with_processes_run() {
    let report = run(&["work", "crash", "stop", "limits", "idle", "http", "orders"]).await;
    counts_are_met(&report["scenarios"][2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_scenarios_of_memories_and_repositories_run() {
    let report = run(&["memory", "scm"]).await;
    counts_are_met(&report["scenarios"][1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_scenario_of_the_dashboard_runs() {
    run(&["dashboard"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_attacks_run() {
    let report = run(&["attack"]).await;
    let figures = report["scenarios"][0]["figures"].as_array().unwrap();
    let doubled = |figure: &&Value| {
        let name = figure["name"].as_str().unwrap();
        name.ends_with("deliveries doubled")
    };
    for figure in figures.iter().filter(doubled) {
        assert_eq!(figure["met"], true, "{figure}");
    }
}

/// Nothing is lost or doubled.
fn counts_are_met(measured: &Value) {
    let figures = measured["figures"].as_array().unwrap();
    let counts = figures.iter().filter(|figure| figure["unit"] == "count");
    for figure in counts {
        assert_eq!(figure["met"], true, "{figure}");
    }
}
