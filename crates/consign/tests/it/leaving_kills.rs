//! Commands killed (SIGKILL) while they erase messages or let them leave, on both stores.

use std::{collections::BTreeSet, os::unix::process::ExitStatusExt};

use consign_kernel::Outcome;
use consign_testkit::Step;
use serde_json::{Value, json};

use crate::{
    http,
    orders::bench::{Bench, Kind, on_both, order, place, post},
    payments::fixture::{becomes, pay, payment, use_rail},
    service::Service,
    support::{queue, work},
};

/// Ranges are closed by every pass, and only `consign retention run` makes one.
pub(crate) const BY_HAND: &str =
    "[retention]\narchive = \"archive\"\nenabled = false\nrange_age_ms = 0\n";

/// Runs a command until it comes to the point, where SIGKILL ends it.
pub(crate) fn killed_at(bench: &Bench, arguments: &[&str], point: &str) {
    assert!(is_killed_at(bench, arguments, point), "{point} is not met");
}

/// Runs a command; returns whether it came to the point. It succeeds otherwise.
pub(crate) fn is_killed_at(bench: &Bench, arguments: &[&str], point: &str) -> bool {
    let consign = &bench.consign;
    let mut command = consign.command();
    command
        .arg("--database")
        .arg(consign.database())
        .args(arguments)
        .env("CONSIGN_FAILPOINT", format!("{point}:kill"));
    let output = command.output().unwrap();
    let is_killed = output.status.signal() == Some(9);
    assert!(is_killed || output.status.success(), "{point}: {output:#?}");
    is_killed
}

/// The next pass; the lease of the maintenance that was killed ends first.
pub(crate) async fn next_pass(bench: &Bench) -> Value {
    let early = bench.consign.run(["retention", "run", "--json"]).expect(3);
    assert_eq!(early.json()["end"], "elsewhere", "{early:#?}");
    end_lease(bench).await;
    let pass = bench.consign.json(["retention", "run"]);
    assert_eq!(pass["end"], "done", "{pass}");
    pass
}

/// Ends the lease of the maintenance, as 60 s do.
pub(crate) async fn end_lease(bench: &Bench) {
    let sql = match bench.kind {
        Kind::Sqlite => "UPDATE maintenance SET expires_at = 0",
        Kind::Postgres => "UPDATE maintenance SET expires_at = '-infinity'",
    };
    bench.sql().await.run(sql).await;
}

/// The files of the archive.
pub(crate) fn files(bench: &Bench) -> BTreeSet<String> {
    let folder = std::fs::read_dir(bench.consign.folder().join("archive")).unwrap();
    let names = folder.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name != ".lock").collect()
}

pub(crate) fn archived(bench: &Bench) -> Vec<Value> {
    let listed = bench
        .consign
        .json(["ls", "--archive", "archive", "--limit", "1000"]);
    listed["items"].as_array().unwrap().clone()
}

/// How many messages of a queue have left, and how many are there.
pub(crate) fn counts(bench: &Bench, queue: &str) -> (Value, Value) {
    let status = bench.consign.json(["retention", "status"]);
    let queues = status["queues"].as_array().unwrap();
    let found = queues.iter().find(|found| found["queue"] == queue);
    let found = found.unwrap();
    (found["departed"].clone(), found["messages"].clone())
}

/// One message that has left, one that is delivered, and one that is ready; answers with their ids.
async fn letters(bench: &mut Bench) -> [String; 3] {
    bench.configure(BY_HAND);
    let consign = &bench.consign;
    let store = consign.store().await;
    let keep = |time| {
        let set = ["queues", "set", "default", "--keep", time];
        consign.run(set).expect(0);
    };
    let letter = |name| {
        let payload = json!({"name": name}).to_string();
        let case = "correlation_id=case-7";
        consign.json(["enqueue", &payload, "--header", case])["id"].to_string()
    };
    let left = letter("Jane");
    work(&*store, &queue("default"), Outcome::Delivered, "http_200").await;
    keep("0s");
    assert_eq!(consign.json(["retention", "run"])["departed"], 1);
    keep("1h");
    let delivered = letter("Joan");
    work(&*store, &queue("default"), Outcome::Delivered, "http_200").await;
    [left, delivered, letter("June")]
}

#[test]
fn an_erasure_that_is_killed_anywhere_is_finished_by_repeating_it() {
    let case = "erase --correlation-id case-7 --actor grace --yes --reason request-12";
    let case: Vec<&str> = case.split(' ').collect();
    let points = [
        "erase_before_archive",
        "archive_written",
        "archive_renamed",
        "archive_committed",
    ];
    for point in points {
        on_both(async |mut bench| {
            let [left, delivered, ready] = letters(&mut bench).await;
            let before = files(&bench);
            killed_at(&bench, &case, point);
            bench.doctor();
            let shown = |id: &str| bench.consign.json(["show", id]);
            let in_archive = || bench.consign.json(["show", &left, "--archive", "archive"]);
            // The database is erased; the archive still has every message, as it was or erased.
            assert_eq!(shown(&delivered)["message"]["payload"], Value::Null);
            let expected = match point {
                "archive_committed" => Value::Null,
                _ => json!({"name": "Jane"}),
            };
            assert_eq!(in_archive()["payload"], expected, "{point}");
            assert!(files(&bench).is_superset(&before), "{point}");

            let again = [&case[..], &["--json"]].concat();
            let again = bench.consign.run(again).expect(1).json();
            // What was erased has no correlation id any more.
            let answers = &again["messages"];
            assert_eq!(answers.as_array().unwrap().len(), 1, "{point}: {again}");
            assert_eq!(answers[0]["answer"], "not_final", "{point}: {again}");
            assert_eq!(in_archive()["payload"], Value::Null);
            assert_eq!(in_archive()["erased"]["actor"], "grace");
            assert_eq!(shown(&ready)["message"]["payload"], json!({"name": "June"}));
            let left_behind = files(&bench);
            assert_eq!(left_behind.len(), 2, "{point}: {left_behind:?}");
            let old = |name: &String| name.ends_with(".zst") && before.contains(name);
            assert!(!left_behind.iter().any(old), "{point}: {left_behind:?}");
            assert_eq!(archived(&bench).len(), 1);
            let sql = "SELECT count(*) AS n FROM audit WHERE action = 'erase'";
            assert_eq!(bench.eye().await.number(sql).await, 1, "{point}");
            bench.doctor();
        });
    }
}

#[test]
fn a_departure_of_orders_that_is_killed_is_finished_by_the_next_pass() {
    on_both(async |mut bench| {
        bench.configure(BY_HAND);
        let service = bench.serve().await;
        place(&service, "key-done", &[]).await;
        place(&service, "key-gone", &[Step::Reject]).await;
        bench.becomes("key-done", "succeeded", "succeeded").await;
        bench.becomes("key-gone", "failed", "aborted").await;
        bench.consign.run(["pause", "orders"]).expect(0);
        place(&service, "key-live", &[]).await;
        let age = match bench.kind {
            Kind::Sqlite => "expires_at - 49 * 3600000000",
            Kind::Postgres => "expires_at - interval '49 hours'",
        };
        let age = format!("UPDATE idempo_ledger SET expires_at = {age}");
        bench.sql().await.run(&age).await;
        let set = "queues set orders --keep 0s --keep-dead 0s";
        bench.consign.run(set.split(' ')).expect(0);

        // What stays is copied, and has not taken its place.
        killed_at(&bench, &["retention", "run"], "departure_begun");
        bench.doctor();
        assert_eq!(counts(&bench, "orders"), (json!(0), json!(3)));
        end_lease(&bench).await;
        killed_at(&bench, &["retention", "run"], "depart_unfollowed");
        bench.doctor();
        let ledger = async |bench: &Bench| {
            let sql = "SELECT count(*) AS n FROM idempo_ledger";
            bench.eye().await.number(sql).await
        };
        // PostgreSQL deletes the app's rows after its range is detached, SQLite in one transaction.
        let (counted, removed_later) = match bench.kind {
            Kind::Sqlite => ((json!(0), json!(3)), 2),
            Kind::Postgres => ((json!(2), json!(1)), 0),
        };
        assert_eq!(counts(&bench, "orders"), counted);
        assert_eq!(ledger(&bench).await, 3);
        // The key is not free before its row has left.
        let again = post(&service, "key-done", &order("key-done", &[])).await;
        assert_ne!(again.status, 201, "{again:?}");

        assert_eq!(next_pass(&bench).await["departed"], removed_later);
        assert_eq!(counts(&bench, "orders"), (json!(2), json!(1)));
        assert_eq!(ledger(&bench).await, 1);
        assert_eq!(archived(&bench).len(), 2, "each of them once");
        bench.doctor();
        bench.consign.run(["resume", "orders"]).expect(0);
        bench.becomes("key-live", "succeeded", "succeeded").await;
        place(&service, "key-done", &[]).await;
        service.stop().await;
        bench.doctor();
    });
}

#[test]
fn a_departure_of_payments_that_is_killed_is_finished_by_the_next_pass() {
    on_both(async |mut bench| {
        use_rail(&mut bench, "");
        bench.configure(BY_HAND);
        let service = Service::serve(&bench.consign).await;
        let id = pay(&service, 1, &[]).await;
        becomes(&bench, &id, "DISPATCHED").await;
        let set = ["queues", "set", "payments", "--keep", "0s"];
        bench.consign.run(set).expect(0);
        killed_at(&bench, &["retention", "run"], "depart_unfollowed");
        bench.doctor();
        next_pass(&bench).await;
        assert_eq!(counts(&bench, "payments"), (json!(1), json!(0)));
        assert_eq!(archived(&bench).len(), 1, "once");
        let body = payment(1, &[]).to_string();
        let again = http::post(service.address(), "/v1/payments", &body).await;
        assert_eq!(again.json()["outbox_id"], id.as_str(), "{again:?}");
        assert_eq!(bench.broker.journal().tally(&id).executions, 1);
        bench.consign.run(["payments", "reconcile"]).expect(0);
        service.stop().await;
        bench.doctor();
    });
}
