//! `consign bench`: it runs, and its figures can be read by a program.

use consign_testkit::TestDatabase;
use serde_json::Value;

use crate::support::{Consign, finish};

#[test]
fn the_benchmark_of_sqlite_runs_without_a_server() {
    let consign = Consign::unmigrated();
    let mut command = consign.command();
    command.args([
        "bench",
        "--scale",
        "smoke",
        "--scenario",
        "sqlite",
        "--json",
    ]);
    let ran = finish(command, b"").expect(0);
    let figures = ran.json()["scenarios"][0]["figures"].clone();
    assert!(!figures.as_array().unwrap().is_empty(), "{figures}");
    assert!(
        !consign.folder().join("consign.db").exists(),
        "it measures files of its own"
    );
}

#[test]
fn a_scenario_that_needs_a_server_says_so() {
    let consign = Consign::unmigrated();
    let ran = consign
        .run(["bench", "--scale", "smoke", "--scenario", "drain"])
        .expect(1);
    assert!(ran.stderr.contains("--database postgres://"), "{ran:#?}");
}

/// Each starts processes of this program and measures them. How fast they are does not matter here;
/// that nothing is lost or delivered twice does.
async fn run(scenarios: &[&str]) -> Value {
    let database = TestDatabase::create(async |_| ()).await;
    let consign = Consign::at(database.url());
    let mut arguments = vec!["bench", "--scale", "smoke", "--json"];
    for scenario in scenarios {
        arguments.extend(["--scenario", scenario]);
    }
    let report = consign.run(arguments).expect(0).json();
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
    let report = run(&["work", "crash", "stop", "idle", "http", "orders"]).await;
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
