//! A database that is not there yet, goes away, or does not let us in.

use std::time::{Duration, Instant};

use consign_testkit::{ChaosProxy, TestDatabase, eventually};

use crate::{
    http,
    service::{SOON, Service, unfinished},
    support::{Consign, finish, migrated_database},
};

/// One queue alone, so that the worker does not use up the connections of the pool.
fn hello(consign: &Consign) {
    consign.configure("[orders]\nenabled = false\n[queues.hello.sink]\nkind = \"discard\"\n");
}

#[tokio::test]
async fn serve_waits_for_the_database_and_logs_it() {
    let database = migrated_database().await;
    let proxy = ChaosProxy::start(database.address().await).await;
    proxy.cut().await;
    let consign = Consign::at(&database.url_via(proxy.address()));
    hello(&consign);
    // A port that is free now; no other test uses this one.
    let probe = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = probe.local_addr().unwrap();
    drop(probe);
    let listen = at.to_string();
    let mut service = Service::launch(&consign, &["serve", "--listen", &listen], |_| {});
    service.logs("waiting for the database").await;
    assert_eq!(http::get(at, "/healthz").await.status, 200, "alive");
    let ready = http::get(at, "/readyz").await;
    assert_eq!(ready.status, 503, "not ready: {ready:?}");
    assert!(
        ready.body.contains("the server waits for its database"),
        "{ready:?}"
    );
    proxy.restore();
    let back = Instant::now();
    service.child.expect_line("listening").await;
    assert!(
        back.elapsed() < Duration::from_secs(10),
        "{:?}",
        back.elapsed()
    );
    assert_eq!(http::get(at, "/readyz").await.status, 200);
    service.stop().await;
}

/// A deployment of a newer program migrated the database meanwhile.
#[tokio::test]
async fn it_is_not_ready_on_a_newer_schema() {
    let consign = Consign::new();
    hello(&consign);
    let service = Service::serve(&consign).await;
    let at = service.address();
    assert_eq!(http::get(at, "/readyz").await.status, 200);
    consign
        .sql("INSERT INTO schema_version SELECT 'engine', 9999, 'later', 'x', 0")
        .await;
    eventually("it is not ready", SOON, async || {
        let ready = http::get(at, "/readyz").await;
        ready.status == 503 && ready.body.contains("version 9999")
    })
    .await;
    service.stop().await;
}

#[tokio::test]
async fn doctor_reports_a_file_that_is_no_database() {
    let consign = Consign::new();
    let file = consign.folder().join("test.db");
    std::fs::write(
        file,
        "not a database, but longer than its header would be".repeat(40),
    )
    .unwrap();
    let found = consign.run(["doctor", "--json"]).expect(1).json();
    assert_eq!(found["findings"][0]["code"], "file", "{found}");
}

#[tokio::test]
async fn a_signal_ends_the_wait() {
    let consign = Consign::at("postgres://me@127.0.0.1:1/nowhere");
    hello(&consign);
    let service = Service::launch(&consign, &["work"], |_| {});
    service.logs("waiting for the database").await;
    service.stop().await;
}

#[tokio::test]
async fn what_waiting_would_not_mend_ends_it() {
    let database = TestDatabase::create(async |_| {}).await;
    let consign = Consign::at(database.url());
    hello(&consign);
    let ran = consign.run(["work", "--json"]).expect(5);
    assert!(ran.stderr.contains("schema_mismatch"), "{ran:#?}");
    assert!(ran.stderr.contains("consign migrate"), "{ran:#?}");

    let missing = database.url().replace(database.name(), "no_such_database");
    let mut command = consign.command();
    command.args(["--database", &missing, "work"]);
    let ran = finish(command, b"").expect(5);
    assert!(ran.stderr.contains("no_such_database"), "{ran:#?}");

    let service = Service::work(&consign, &["--migrate"]).await;
    service.stop().await;
}

#[tokio::test]
async fn after_an_outage_it_goes_on_within_two_seconds() {
    let database = migrated_database().await;
    let proxy = ChaosProxy::start(database.address().await).await;
    let consign = Consign::at(&database.url_via(proxy.address()));
    hello(&consign);
    let service = Service::serve(&consign).await;
    let at = service.address();
    proxy.cut().await;
    eventually("it is not ready", SOON, async || {
        http::get(at, "/readyz").await.status == 503
    })
    .await;
    assert_eq!(http::get(at, "/healthz").await.status, 200);
    // By another way, so that only the service is cut off.
    let direct = Consign::at(database.url());
    direct.run(["enqueue", "1", "--queue", "hello"]).expect(0);
    proxy.restore();
    let back = Instant::now();
    eventually("it is delivered", SOON, async || {
        unfinished(&direct, "hello") == 0
    })
    .await;
    let took = back.elapsed();
    assert!(
        took <= Duration::from_secs(2),
        "{took:?}\n{}",
        service.log()
    );
    eventually("it is ready", SOON, async || {
        http::get(at, "/readyz").await.status == 200
    })
    .await;
    service.stop().await;
}

#[tokio::test]
async fn a_reload_that_hangs_does_not_keep_it_from_stopping() {
    let database = migrated_database().await;
    let proxy = ChaosProxy::start(database.address().await).await;
    let consign = Consign::at(&database.url_via(proxy.address()));
    consign.configure("[worker]\ngrace_ms = 500\n[queues.hello.sink]\nkind = \"discard\"\n");
    for name in ["TERM", "INT"] {
        let mut service = Service::work(&consign, &[]).await;
        proxy.swallow_requests();
        service.signal("HUP");
        service.logs("reading the configuration again").await;
        let told = Instant::now();
        service.signal(name);
        service.logs("a stop signal came first").await;
        assert_eq!(service.ends().await, 0, "{}", service.log());
        let took = told.elapsed();
        assert!(took < Duration::from_secs(5), "{took:?}\n{}", service.log());
        proxy.resume();
    }
}

#[tokio::test]
async fn a_reload_the_database_does_not_answer_is_given_up() {
    let database = migrated_database().await;
    let proxy = ChaosProxy::start(database.address().await).await;
    let consign = Consign::at(&database.url_via(proxy.address()));
    hello(&consign);
    let service = Service::work(&consign, &[]).await;
    proxy.swallow_requests();
    service.signal("HUP");
    service
        .logs("did not answer within 10s; send SIGHUP again")
        .await;
    proxy.resume();
    service.signal("HUP");
    service
        .logs("configuration read again; no queue's policy differs")
        .await;
    service.stop().await;
}
