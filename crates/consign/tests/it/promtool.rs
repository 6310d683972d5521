//! The alerts, by the rules of Prometheus itself.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use consign_kernel::Outcome;
use consign_testkit::eventually;

use crate::{
    deploy::{assert_known, read, root},
    http,
    service::{SOON, Service},
    support::{Consign, finish, queue, work},
};

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
    passes(&["test", "rules"], &root().join("deploy/alerts_test.yaml"));
    passes(&["check", "rules"], &root().join("deploy/alerts.yaml"));
}

fn passes(arguments: &[&str], file: &Path) {
    let ran = Command::new(promtool())
        .args(arguments)
        .arg(file)
        .output()
        .expect("promtool: run scripts/require promtool, or scripts/test --all, which does");
    let said = String::from_utf8_lossy(&ran.stdout);
    let failed = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{arguments:?}: {said}{failed}");
}

/// Of a server at work, once it has counted what is in its queues.
#[tokio::test]
async fn the_metrics_of_a_running_server_are_well_formed() {
    let consign = Consign::new();
    consign.enqueue_one();
    let store = consign.store().await;
    work(&*store, &queue("default"), Outcome::Dead, "gone").await;
    let service = Service::serve(&consign).await;
    let read = async || http::get(service.address(), "/metrics").await.body;
    eventually("queues are counted", SOON, async || {
        read().await.contains("consign_messages{")
    })
    .await;
    let mut command = Command::new(promtool());
    command.args(["check", "metrics"]);
    let metrics = read().await;
    let pending = "\noutbox_pending_count{queue=\"default\"} 0\n";
    assert!(metrics.contains(pending), "{metrics}");
    let ran = finish(command, metrics.as_bytes()).expect(0);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", ""));
    service.stop().await;
}
