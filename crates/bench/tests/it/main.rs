//! Every scenario runs at its smallest scale and reports every figure it declares. Nothing here looks
//! at how fast anything is.

#![expect(
    clippy::unwrap_used,
    reason = "a test that unwraps nothing fails, as it should"
)]

mod program;

use std::collections::BTreeSet;

use consign_bench::{Options, Report, Scale, Scenario};
use consign_testkit::TestDatabase;
use sqlx::{Connection, PgConnection, Row};

async fn measure(scenario: Scenario, server: Option<&str>) -> anyhow::Result<Report> {
    let directory = tempfile::tempdir().unwrap();
    let options = Options {
        scenarios: Vec::new(),
        scenario: vec![scenario],
        scale: Scale::Smoke,
        rounds: Some(1),
        dir: Some(directory.path().to_owned()),
        check: false,
        openmemory: None,
        attack: Vec::new(),
        program: None,
        beside: None,
    };
    consign_bench::run(&options, server, &|_| ()).await
}

/// Measures on the test server. The database that names it stays as it was, and none is left over.
async fn on_server(scenario: Scenario) -> Report {
    let database = TestDatabase::create(async |_| ()).await;
    let report = measure(scenario, Some(database.url())).await.unwrap();
    let mut connection = PgConnection::connect(database.url()).await.unwrap();
    let mine = format!("consign_bench_%_{}", std::process::id());
    let left: i64 = sqlx::query("SELECT count(*) FROM pg_database WHERE datname LIKE $1")
        .bind(mine)
        .fetch_one(&mut connection)
        .await
        .unwrap()
        .get(0);
    assert_eq!(left, 0, "databases left behind");
    assert!(!exists(&mut connection, "consign.message").await);
    assert!(!exists(&mut connection, "consign_control.job").await);
    report
}

async fn exists(connection: &mut PgConnection, table: &str) -> bool {
    sqlx::query("SELECT to_regclass($1) IS NOT NULL")
        .bind(table)
        .fetch_one(connection)
        .await
        .unwrap()
        .get(0)
}

/// Checks what holds for every report, and that the targets are those named: figure and limit.
fn check(report: &Report, scenario: Scenario, targets: &[(&str, f64)]) {
    let [only] = report.scenarios.as_slice() else {
        panic!("one scenario was requested");
    };
    assert_eq!(only.scenario, scenario);
    assert!(!only.notes.is_empty());
    for figure in &only.figures {
        assert!(
            figure.value.is_finite() && figure.value >= 0.0,
            "{figure:?}"
        );
        assert_eq!(figure.met.is_some(), figure.target.is_some(), "{figure:?}");
        assert!(!figure.rounds.is_empty());
    }
    let judged: Vec<(&str, f64)> = only
        .figures
        .iter()
        .filter_map(|figure| Some((figure.name.as_str(), figure.target?.limit)))
        .collect();
    assert_eq!(judged, targets);

    let text = report.to_string();
    let json = serde_json::to_value(report).unwrap();
    assert_eq!(json["scenarios"][0]["scenario"], scenario.as_str());
    for figure in &only.figures {
        assert!(text.contains(&figure.name), "{} in\n{text}", figure.name);
    }
    assert!(text.contains("WARNING"), "a smoke run warns of itself");
}

#[tokio::test(flavor = "multi_thread")]
async fn drain_compares_with_the_control() {
    let report = on_server(Scenario::Drain).await;
    let targets = [
        ("enqueued by 500, claimed by 500", 4.0),
        ("enqueued by 100, claimed by 100", 3.0),
        ("enqueued one by one, claimed by 100", 1.5),
    ];
    check(&report, Scenario::Drain, &targets);
    for figure in &report.scenarios[0].figures {
        assert_eq!(figure.against.as_ref().unwrap().name, "control");
        assert_eq!(figure.rounds.len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wal_counts_bytes_transactions_and_dead_rows() {
    let report = on_server(Scenario::Wal).await;
    let targets = [("by 100: WAL", 819.2), ("one by one: WAL", 1536.0)];
    check(&report, Scenario::Wal, &targets);
    let figure = |name: &str| {
        let figures = &report.scenarios[0].figures;
        figures.iter().find(|figure| figure.name == name).unwrap()
    };
    // Other tests write on the same server, so these are lower bounds: a transaction per enqueue,
    // and one for the claim and one for the settle of every hundred.
    assert!(figure("one by one: write transactions").value >= 1.02);
    assert!(figure("by 100: write transactions").value >= 0.03);
    assert!(figure("by 100: WAL").value >= 200.0, "the payload at least");
    // The control updates every row twice. Statistics belong to the database, so no other test interferes.
    let control = figure("by 100: dead rows left").against.as_ref().unwrap();
    assert!(control.value >= 1.9, "{}", control.value);
    assert!(figure("by 100: dead rows left").value <= 0.1);
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_compares_two_with_one() {
    let report = on_server(Scenario::Workers).await;
    check(&report, Scenario::Workers, &[("two workers", 1.4)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn payments_compares_with_the_design_they_come_from() {
    let report = on_server(Scenario::Payments).await;
    let targets = [("claimed by 100, completed by 100", 3.0)];
    check(&report, Scenario::Payments, &targets);
}

#[tokio::test(flavor = "multi_thread")]
async fn depth_compares_deep_with_shallow() {
    let report = on_server(Scenario::Depth).await;
    check(&report, Scenario::Depth, &[("claim of 100, deep", 1.2)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn retention_compares_with_a_plain_delete() {
    let report = on_server(Scenario::Retention).await;
    let targets = [
        ("longest exclusive step of a departure", 50.0),
        ("longest exclusive step that creates or closes ranges", 50.0),
        ("enqueue to claim while ranges leave, p99", 1.2),
        ("WAL of a departure", 0.95),
        ("dead rows left by departures", 0.0),
        ("mixed ranges: longest exclusive step of a departure", 50.0),
        ("many ranges: enqueued one by one", 0.97),
        ("many ranges: claimed and settled one by one", 0.97),
        ("many ranges: claimed and settled by 100", 0.97),
        ("SQLite: file after nine tenths have left", 1.2),
        (
            "SQLite: longest wait from enqueue to claim meanwhile",
            100.0,
        ),
        (
            "SQLite: longest time under the write lock, commit included",
            50.0,
        ),
    ];
    check(&report, Scenario::Retention, &targets);
    // Whatever the machine does, a range leaves no dead rows, and a DELETE leaves every one.
    let figures = &report.scenarios[0].figures;
    let dead = figures.iter().find(|f| f.name.starts_with("dead rows"));
    let dead = dead.unwrap();
    assert_eq!(dead.value, 0.0, "{dead:?}");
    assert_eq!(dead.against.as_ref().unwrap().value, 4_000.0, "{dead:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn snapshot_compares_the_end_with_the_beginning() {
    let report = on_server(Scenario::Snapshot).await;
    check(
        &report,
        Scenario::Snapshot,
        &[("last tenth of the drain", 0.8)],
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_needs_no_server() {
    let report = measure(Scenario::Sqlite, None).await.unwrap();
    let targets = [("enqueued by 100, claimed by 100", 50_000.0)];
    check(&report, Scenario::Sqlite, &targets);
    assert!(report.environment.postgres.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn ls_measures_both_databases() {
    let report = on_server(Scenario::Ls).await;
    let filters = [
        "all",
        "one queue",
        "ready",
        "delivered",
        "since",
        "until",
        "rare group",
        "rare key prefix",
        "rare header",
        "rare group until",
    ];
    let figure = |database: &str, filter: &str| format!("{database}, {filter}, p99");
    let databases = ["PostgreSQL", "SQLite"].into_iter();
    let names: Vec<String> = databases
        .flat_map(|database| filters.map(|filter| figure(database, filter)))
        .collect();
    let targets: Vec<(&str, f64)> = names.iter().map(|name| (name.as_str(), 100.0)).collect();
    check(&report, Scenario::Ls, &targets);
    let postgres = report.environment.postgres.as_ref().unwrap();
    let told: BTreeSet<&str> = postgres
        .settings
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    for name in [
        "fsync",
        "max_wal_size",
        "shared_buffers",
        "synchronous_commit",
    ] {
        assert!(told.contains(name), "{name} is not reported");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pickup_compares_with_a_bare_notification() {
    let report = on_server(Scenario::Pickup).await;
    let targets = [
        ("PostgreSQL, notified, p50", 3.0),
        ("PostgreSQL, notified, p99", 8.0),
        ("SQLite, p50", 2.0),
    ];
    check(&report, Scenario::Pickup, &targets);
}

#[tokio::test(flavor = "multi_thread")]
async fn wake_compares_with_queues_without_notifications() {
    let report = on_server(Scenario::Wake).await;
    let targets = [
        ("32 producers", 0.9),
        ("32 producers and a worker", 0.9),
        ("at any moment, longest", 50.0),
        ("delayed, p99", 20.0),
        ("retried, p99", 20.0),
        ("next of a group, p99", 20.0),
    ];
    check(&report, Scenario::Wake, &targets);
}

/// The scenarios that measure processes are run by the tests of the program itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_scenario_without_its_program_is_refused() {
    let refused = measure(Scenario::Work, None).await.unwrap_err();
    assert!(format!("{refused:#}").contains("needs the program"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_exists_is_not_touched() {
    let database = TestDatabase::create(async |_| ()).await;
    let name = format!("consign_bench_depth_{}", std::process::id());
    let mut connection = PgConnection::connect(database.url()).await.unwrap();
    let run = |sql: String| sqlx::raw_sql(sqlx::AssertSqlSafe(sql));
    run(format!("CREATE DATABASE {name}"))
        .execute(&mut connection)
        .await
        .unwrap();
    let refused = measure(Scenario::Depth, Some(database.url()))
        .await
        .unwrap_err();
    assert!(refused.to_string().contains("exists"), "{refused:#}");
    // Still there: dropping it succeeds.
    run(format!("DROP DATABASE {name}"))
        .execute(&mut connection)
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scenario_without_its_server_is_refused() {
    let refused = measure(Scenario::Drain, None).await.unwrap_err();
    assert!(
        refused.to_string().contains("needs a PostgreSQL server"),
        "{refused:#}"
    );
}
