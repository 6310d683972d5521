//! The alerts, by the rules of Prometheus itself.

use std::{path::PathBuf, process::Command};

use crate::deploy::{assert_known, read, root};

/// `promtool`, where scripts/test --all has put it, or from the path.
fn promtool() -> PathBuf {
    let told = std::env::var_os("CONSIGN_TEST_PROMTOOL").map(PathBuf::from);
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let cached = cache
        .or_else(home)
        .map(|cache| cache.join("consign/promtool-1/promtool"));
    let mut known = told.into_iter().chain(cached);
    known
        .find(|path| path.exists())
        .unwrap_or_else(|| "promtool".into())
}

/// Every alert fires, and does not just before, evaluated by Prometheus itself.
#[test]
fn the_alerts_fire_when_they_should() {
    let tests = read("deploy/alerts_test.yaml");
    let alerts = read("deploy/alerts.yaml");
    let names = alerts
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "));
    for name in names {
        let tested = tests.matches(&format!("alertname: {name}\n")).count();
        assert!(tested >= 2, "{name} is tested {tested} times");
    }
    assert_known("deploy/alerts_test.yaml", &tests);
    let rules = root().join("deploy/alerts_test.yaml");
    let ran = Command::new(promtool())
        .args(["test", "rules"])
        .arg(rules)
        .output()
        .expect("promtool: run scripts/require promtool, or scripts/test --all, which does");
    let said = String::from_utf8_lossy(&ran.stdout);
    let failed = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{said}{failed}");
}
