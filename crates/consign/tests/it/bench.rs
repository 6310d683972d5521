//! `consign bench`: it runs, and its figures can be read by a program.

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
