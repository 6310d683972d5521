//! Memories from the command line, and its exit codes.

use serde_json::{Value, json};

use super::keeper::Keeper;
use crate::support::{CommandOutput, Consign, migrated_database};

const ONCE: [&str; 4] = ["work", "--queue", "memory", "--once"];

fn store(consign: &Consign, text: &str) -> CommandOutput {
    consign.run(["memory", "store", text, "--space", "private:alice"])
}

/// A database with one memory that was put off, and the server that is not there yet.
fn put_off() -> (Consign, Keeper, Value) {
    let (consign, keeper) = (Consign::new(), Keeper::closed());
    consign.configure(&format!(
        "[memory]\ngateway_budget_ms = 500\n{}",
        keeper.setting()
    ));
    // The queue is made by whoever delivers; there is nothing to do yet.
    consign.run(ONCE).expect(0);
    let report = consign.run(["report"]).expect(0).json();
    assert_eq!(report["audit_stats"]["total"], 0, "{report}");
    let answer = store(&consign, "The tide turns at six.").expect(1).json();
    assert_eq!(answer["action"], "deferred", "{answer}");
    (consign, keeper, answer)
}

fn statuses(consign: &Consign) -> Vec<Value> {
    let rows = consign.json(["memory", "ls"]);
    let rows = rows.as_array().unwrap().iter();
    rows.map(|row| row["status"].clone()).collect()
}

#[test]
fn a_memory_is_stored_found_and_stored_once() {
    let consign = Consign::new();
    let first = store(&consign, "The kettle whistles in C.")
        .expect(0)
        .json();
    assert_eq!(
        (&first["ok"], &first["action"], &first["space_written"]),
        (&json!(true), &json!("allow"), &json!("private:alice"))
    );
    let again = store(&consign, "The kettle whistles in C.")
        .expect(0)
        .json();
    assert_eq!(again["memory_id"], first["memory_id"]);
    let query = ["memory", "query", "kettle", "--space", "private:alice"];
    let found = consign.json(query);
    assert_eq!(found["results"].as_array().unwrap().len(), 1, "{found}");
    let elsewhere = consign.json(["memory", "query", "kettle", "--space", "private:bob"]);
    assert_eq!(elsewhere["results"], json!([]), "{elsewhere}");
    assert_eq!(statuses(&consign), [] as [Value; 0], "the outbox is empty");
    consign.run(["doctor"]).expect(0);
}

/// A user's memories go to a space of their own, and are looked for there.
fn users_are_made(consign: &Consign) {
    let write = [
        "memory",
        "store",
        "The tide turns at six.",
        "--actor",
        "alice",
    ];
    let before = consign.json(write);
    assert_eq!(before["space_written"], "private:unknown", "{before}");
    let made = consign.json(["memory", "users", "add", "alice", "--display-name", "Alice"]);
    assert_eq!(
        made,
        json!({"user_id": "alice", "is_new": true, "is_active": true})
    );
    let again = consign.run(["memory", "users", "add", "alice"]).expect(0);
    assert_eq!(again.stdout, "alice exists already\n");
    let after = consign.json(write);
    assert_eq!(after["space_written"], "private:alice", "{after}");
    let found = consign.json(["memory", "query", "tide", "--actor", "alice"]);
    assert_eq!(found["results"][0]["id"], after["memory_id"], "{found}");
    assert_eq!(found["total"], 1, "{found}");
    consign.run(["memory", "users", "add", " "]).expect(2);
}

#[test]
fn users_are_made_on_sqlite() {
    users_are_made(&Consign::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn users_are_made_on_postgres() {
    let database = migrated_database().await;
    let consign = Consign::at(database.url());
    users_are_made(&consign);
}

/// Of two that are due one is delivered and one is not; each has its own end, and the exit code is 1.
#[test]
fn once_fails_where_one_of_two_was_not_delivered() {
    let (consign, mut keeper, _) = put_off();
    let second = store(&consign, "The tide turns at seven.").expect(1).json();
    assert_eq!(second["action"], "deferred", "{second}");
    keeper.refuse("six");
    keeper.open();
    consign.run(ONCE).expect(1);
    let rows = consign.json(["memory", "ls"]);
    let mut ends: Vec<(&str, u64)> = rows.as_array().unwrap().iter().map(end).collect();
    ends.sort_unstable();
    assert_eq!(ends, [("pending", 1), ("sent", 0)], "{rows}");
    // What failed rests: there is nothing to do, and that is no failure.
    consign.run(ONCE).expect(0);
}

fn end(row: &Value) -> (&str, u64) {
    let status = row["status"].as_str().unwrap();
    (status, row["retry_count"].as_u64().unwrap())
}

#[test]
fn any_tool_can_be_called_and_its_exit_code_shows_success() {
    let consign = Consign::new();
    let settings = consign.run(["memory", "call", "governance_get"]).expect(0);
    assert_eq!(settings.json()["ok"], true);
    let unknown = consign.run(["memory", "call", "memory_forget"]).expect(1);
    assert_eq!(unknown.json()["ok"], false);
    let lacking = consign
        .run(["memory", "call", "memory_store", "{}"])
        .expect(1);
    assert_eq!(lacking.json()["ok"], false);
    consign
        .run(["memory", "call", "memory_store", "[]"])
        .expect(2);
    let rounded = r#"{"payload_md": "x", "meta_json": {"d": 0.12345678901234567890}}"#;
    let rounded = consign
        .run(["memory", "call", "memory_store", rounded])
        .expect(1);
    assert_eq!(rounded.json()["details"]["parameter"], "meta_json");
    consign.configure("[memory]\nenabled = false\n");
    consign.run(["memory", "call", "governance_get"]).expect(2);
}

/// Put off, tried in vain (exit code 1), delivered (exit code 0).
#[test]
fn once_delivers_what_is_due_and_fails_where_something_was_not_delivered() {
    let (consign, _, deferred) = put_off();
    let id = deferred["outbox_id"].to_string();
    assert_eq!(statuses(&consign), ["pending"]);
    consign.run(ONCE).expect(1);
    let shown = consign.json(["memory", "show", &id]);
    assert_eq!(
        (&shown["memory"]["status"], &shown["memory"]["retry_count"]),
        (&json!("pending"), &json!(1))
    );
    let error = shown["memory"]["last_error"].as_str().unwrap();
    assert!(error.starts_with("connection_error: "), "{error}");
    // It rests: there is nothing to do.
    consign.run(ONCE).expect(0);

    let (consign, mut keeper, deferred) = put_off();
    let id = deferred["outbox_id"].to_string();
    keeper.open();
    consign.run(ONCE).expect(0);
    let shown = consign.json(["memory", "show", &id]);
    assert_eq!(shown["memory"]["status"], "sent", "{shown}");
    let mut reasons: Vec<&str> = shown["audits"]
        .as_array()
        .unwrap()
        .iter()
        .map(|audit| audit["reason"].as_str().unwrap())
        .collect();
    reasons.sort_unstable();
    let first = format!("openmemory_write_failed:connection_error:outbox:{id}");
    assert_eq!(reasons, [first.as_str(), "outbox_flush_success"]);
    consign.run(["memory", "show", "999999"]).expect(4);
    consign.run(["memory", "show", &id, "--text"]).expect(0);
}

/// The audits of a row that left are shown; nothing is wrong, and the report counts it apart.
#[test]
fn a_memory_that_left_is_shown_by_its_audits() {
    let (consign, mut keeper, deferred) = put_off();
    let id = deferred["outbox_id"].to_string();
    keeper.open();
    consign.run(ONCE).expect(0);
    let keep = [
        "queues",
        "set",
        "memory",
        "--keep",
        "0s",
        "--archive",
        "false",
    ];
    consign.run(keep).expect(0);
    let ran = consign.json(["retention", "run"]);
    assert_eq!(ran["departed"], 1, "{ran}");
    let shown = consign.json(["memory", "show", &id]);
    assert_eq!(shown["memory"], Value::Null);
    assert_eq!(shown["audits"].as_array().map(Vec::len), Some(2), "{shown}");
    let text = consign.run(["memory", "show", &id, "--text"]).expect(0);
    assert!(text.stdout.contains("outbox_flush_success"), "{text:#?}");
    consign.run(["doctor"]).expect(0);
    consign.run(["reconcile"]).expect(0);
    let report = consign.json(["report"]);
    let outbox = &report["outbox_stats"];
    assert_eq!(outbox["departed"], json!({"sent": 1, "dead": 0}));
    assert_eq!(outbox["total"], 0);
    assert_eq!(report["invariants"]["redirects_match_outbox"], true);
}

/// A missing audit is reported with exit code 1, written once, and then all is well.
#[tokio::test]
async fn reconcile_reports_repairs_and_is_done() {
    let consign = Consign::new();
    let empty = consign.json(["reconcile"]);
    assert_eq!(
        (&empty["total_scanned"], &empty["details"]),
        (&json!(0), &json!([]))
    );
    let (consign, mut keeper, _) = put_off();
    keeper.open();
    consign.run(ONCE).expect(0);
    consign.run(["reconcile", "--report"]).expect(0);
    consign
        .sql(
            "DROP TRIGGER write_audit_delete; \
             DELETE FROM write_audit WHERE reason = 'outbox_flush_success'; \
             CREATE TRIGGER write_audit_delete BEFORE DELETE ON write_audit \
             BEGIN SELECT raise(ABORT, 'write_audit: nothing recorded is ever removed'); END;",
        )
        .await;
    consign.run(["doctor"]).expect(1);
    for only_look in [["reconcile", "--report"], ["reconcile", "--no-auto-fix"]] {
        let seen = consign
            .run(only_look.into_iter().chain(["--json"]))
            .expect(1);
        let seen = seen.json();
        assert_eq!(
            (&seen["sent_missing_audit"], &seen["sent_audit_fixed"]),
            (&json!(1), &json!(0))
        );
    }
    let mended = consign.json(["reconcile", "--once"]);
    assert_eq!(
        (&mended["sent_missing_audit"], &mended["sent_audit_fixed"]),
        (&json!(1), &json!(1))
    );
    let again = consign.run(["reconcile"]).expect(0);
    assert!(
        again
            .stdout
            .starts_with("=== Outbox Reconcile Report ===\nTotal scanned: "),
        "{}",
        again.stdout
    );
    assert_eq!(consign.json(["reconcile"])["details"], json!([]));
    consign.run(["doctor"]).expect(0);
    consign.run(["reconcile", "--once", "--report"]).expect(2);
    consign
        .run(["reconcile", "--stale-threshold", "59"])
        .expect(2);
    Consign::unmigrated().run(["reconcile"]).expect(5);
}

#[test]
fn the_report_adds_up() {
    let (consign, mut keeper, _) = put_off();
    store(&consign, "The tide turns at seven.").expect(1);
    keeper.open();
    store(&consign, "The tide turns at eight.").expect(0);
    consign.run(ONCE).expect(0);
    let report = consign.run(["report"]).expect(0).json();
    assert_eq!(
        report["outbox_stats"]["by_status"],
        json!({"pending": 0, "sent": 2, "dead": 0}),
        "{report}"
    );
    let reasons = &report["audit_stats"]["by_reason"];
    assert_eq!(
        (
            &reasons["openmemory_write_failed"],
            &reasons["outbox_flush_success"]
        ),
        (&json!(2), &json!(2)),
        "{report}"
    );
    assert_eq!(report["total_writes"], 3, "{report}");
}
