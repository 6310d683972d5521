//! Payments as operators see them: from nothing, by command, by signal, and with few rights.

use consign_testkit::eventually;
use serde_json::{Value, json};

use super::fixture::{TENANT, pay, payment};
use crate::{
    http,
    orders::sql::Sql,
    roles::Login,
    service::{SOON, Service},
    support::{Consign, migrated_database},
};

fn state(consign: &Consign, id: &str) -> Value {
    consign.json(["payments", "show", id])["payment"]["state"].clone()
}

async fn dispatched(consign: &Consign, id: &str) {
    eventually("it is dispatched", SOON, async || {
        state(consign, id) == "DISPATCHED"
    })
    .await;
}

/// From no payment to a dispatched one, and every command about payments on the way.
async fn walk(consign: &Consign) {
    let service = Service::serve(consign).await;
    let id = pay(&service, 1, &[]).await;
    dispatched(consign, &id).await;
    let path = format!("/v1/payments/{id}");
    let seen = http::get(service.address(), &path).await.json();
    assert_eq!(seen["state"], "DISPATCHED", "{seen}");
    let reference = &seen["attempts"][0]["rail_reference"];
    assert_eq!(*reference, format!("SIM-{id}"));
    let metrics = http::get(service.address(), "/metrics").await.body;
    for name in ["ingress_total{answer=\"accepted\"} 1", "dispatches_total"] {
        let name = format!("consign_payments_{name}");
        assert!(metrics.contains(&name), "{name}: {metrics}");
    }

    let mut held = payment(2, &[]);
    held["kyc_hold"] = json!(true);
    held["participant_id"] = json!("bank-b");
    let held = http::post(service.address(), "/v1/payments", &held.to_string()).await;
    assert_eq!(held.json()["outbox_state"], "HELD", "{held:?}");
    let held = held.json()["outbox_id"].as_str().unwrap().to_owned();
    listed(consign, &id, &held);
    moved(consign, &id, &held).await;
    let status = consign.json(["payments", "status"])["status"].clone();
    assert_eq!(
        (&status["pending"], &status["held"], &status["failed"]),
        (&json!(0), &json!(0), &json!(0)),
        "{status}"
    );
    consign.run(["payments", "reconcile"]).expect(0);
    consign.run(["payments", "repair"]).expect(0);
    service.stop().await;
    consign.run(["doctor"]).expect(0);
}

fn listed(consign: &Consign, dispatched: &str, held: &str) {
    let ids = |arguments: &[&str]| {
        let arguments = ["payments", "ls"].iter().chain(arguments).copied();
        let page = consign.json(arguments);
        let items = page["items"].as_array().unwrap().iter();
        let ids = items.map(|item| item["outbox_id"].as_str().unwrap().to_owned());
        ids.collect::<Vec<_>>()
    };
    assert_eq!(ids(&[]), [held, dispatched]);
    assert_eq!(ids(&["--state", "held"]), [held]);
    assert_eq!(ids(&["--participant", "bank-a"]), [dispatched]);
    assert_eq!(ids(&["--tenant", TENANT]).len(), 2);
    assert_eq!(ids(&["--limit", "1"]), [held]);
    let page = consign.json(["payments", "ls", "--limit", "1"]);
    let next = page["next"].to_string();
    assert_eq!(ids(&["--before", &next]), [dispatched]);
    let nobody = TENANT.replace('a', "b");
    let none = consign
        .run(["payments", "ls", "--tenant", &nobody])
        .expect(0);
    assert_eq!(none.stderr, "no payments match\n");
    let table = consign.run(["payments", "ls"]).expect(0).stdout;
    assert!(table.starts_with("outbox_id"), "{table}");
    let shown = consign.json(["payments", "show", dispatched]);
    let message = shown["payment"]["message_id"].to_string();
    assert_eq!(consign.json(["payments", "show", &message]), shown);
    assert!(!shown.to_string().contains("token"), "{shown}");
    let text = consign
        .run(["payments", "show", dispatched])
        .expect(0)
        .stdout;
    assert!(text.contains("DISPATCHED"), "{text}");
    for unknown in ["99", TENANT] {
        let ran = consign
            .run(["payments", "show", unknown, "--json"])
            .expect(4);
        assert_eq!(ran.error().0, "no_such_payment", "{unknown}");
    }
    consign.run(["payments", "show", "key-1"]).expect(2);
}

async fn moved(consign: &Consign, done: &str, held: &str) {
    let run = |what: &str, id: &str, more: &[&str], exit: i32| {
        let arguments = ["payments", what, id].into_iter().chain(more.to_vec());
        consign.run(arguments).expect(exit).stdout
    };
    let told = run("requeue", done, &[], 1);
    assert!(
        told.contains("only failed payments can be requeued"),
        "{told}"
    );
    run("hold", done, &[], 1);
    run("release", TENANT, &[], 4);
    let told = run("release", held, &["--dry-run"], 0);
    assert_eq!(told, format!("{held}: would be PENDING\n"));
    assert_eq!(state(consign, held), "HELD");
    run("resolve", held, &[], 2);
    run("resolve", held, &["--failed", "--rail-reference", "R-1"], 2);
    run("resolve", held, &["--dispatched"], 2);
    assert_eq!(state(consign, held), "HELD", "nothing was recorded");
    let told = run("resolve", held, &["--failed", "--reason", "withdrawn"], 0);
    assert_eq!(told, format!("{held}: now FAILED\n"));
    let told = run("requeue", held, &["--reason", "after all"], 0);
    assert_eq!(told, format!("{held}: now PENDING\n"));
    dispatched(consign, held).await;
}

#[tokio::test]
async fn payments_work_from_nothing_on_sqlite_and_every_command_about_them() {
    let consign = Consign::new();
    walk(&consign).await;
    let ran = consign
        .run(["payments", "import", "--from-schema", "public"])
        .expect(3);
    assert!(ran.stderr.contains("PostgreSQL"), "{ran:#?}");
}

#[tokio::test]
async fn payments_work_from_nothing_on_postgresql_and_every_command_about_them() {
    let database = migrated_database().await;
    let consign = Consign::at(database.url());
    consign.configure("[payments]\nrail = \"simulated\"\n");
    walk(&consign).await;
}

/// A rail that pretends must not take what workers in SQL are to pay.
#[tokio::test]
async fn without_a_rail_other_workers_claim_the_payments() {
    let database = migrated_database().await;
    let consign = Consign::at(database.url());
    let service = Service::serve(&consign).await;
    let id = pay(&service, 1, &[]).await;
    let mut sql = Sql::connect(database.url()).await;
    let claimed = sql
        .row("SELECT outbox_id FROM claim_outbox_batch(10, 'psql', 60)")
        .await;
    assert_eq!(claimed["outbox_id"], json!(id), "no other worker took it");
    let queues = consign.json(["queues", "show", "payments"]);
    assert_eq!(queues["policy"]["attempts_max"], 20, "{queues}");
    service.stop().await;
    // A setting in the database stays while the configuration has none.
    let set = ["queues", "set", "payments", "--attempts", "7"];
    consign.run(set).expect(0);
    Service::serve(&consign).await.stop().await;
    let queues = consign.json(["queues", "show", "payments"]);
    assert_eq!(queues["policy"]["attempts_max"], 7, "{queues}");
    consign.run(["work", "--queue", "payments"]).expect(2);
}

#[tokio::test]
async fn the_policy_of_payments_changes_by_signal_and_the_rest_is_named() {
    let consign = Consign::new();
    consign.configure("[payments]\nconcurrency = 3\n");
    let service = Service::serve(&consign).await;
    let policy = || consign.json(["queues", "show", "payments"])["policy"].clone();
    assert_eq!(
        (&policy()["concurrency"], &policy()["on_uncertain"]),
        (&json!(3), &json!("probe"))
    );
    consign.configure("[payments]\nconcurrency = 5\nretry_ceiling = 4\nbatch = 7\n");
    service.signal("HUP");
    service.logs("policy set for payments").await;
    service
        .logs("these changes need a restart: payments.batch")
        .await;
    assert_eq!(policy()["concurrency"], 5);
    assert_eq!(policy()["attempts_max"], 4);
    service.stop().await;
}

/// What cannot work is refused at start, by name, and nothing is touched.
#[test]
fn impossible_settings_are_rejected_at_start() {
    let consign = Consign::unmigrated();
    let http = "rail = \"http\"\nrail_url = \"http://127.0.0.1:1/p\"\n";
    let status = "rail_status_url = \"http://127.0.0.1:1/p\"\n";
    for (settings, named) in [
        ("lease_sec = 30".to_owned(), "payments.lease_sec"),
        ("retry_ceiling = 0".to_owned(), "payments.retry_ceiling"),
        (
            "backoff_base_ms = 70000".to_owned(),
            "payments.backoff_base_ms",
        ),
        ("rail = \"http\"".to_owned(), "payments.rail_url"),
        (http.to_owned(), "payments.rail_status_url"),
        (format!("{http}{status}"), "{reference}"),
        ("tenants.shop = \"x\"".to_owned(), "payments.tenants.shop"),
    ] {
        consign.configure(&format!("[payments]\n{settings}\n"));
        for command in [&["config", "check"][..], &["serve"], &["work"]] {
            let arguments = command.iter().copied().chain(["--json"]);
            let (code, message) = consign.run(arguments).expect(2).error();
            assert_eq!(code, "config", "{message}");
            assert!(message.contains(named), "{settings}: {message}");
        }
    }
    consign.configure("[queues.payments.sink]\nkind = \"discard\"\n");
    let (_, message) = consign.run(["config", "check", "--json"]).expect(2).error();
    assert!(message.contains("payments.enabled = false"), "{message}");
    let free = "[payments]\nenabled = false\nlease_sec = 1\n[queues.payments]\nconcurrency = 2\n";
    consign.configure(free);
    consign.run(["config", "check"]).expect(0);
    assert!(!consign.folder().join("test.db").exists());
}

#[tokio::test]
async fn a_worker_dispatches_payments_with_its_roles_alone() {
    let database = migrated_database().await;
    let owner = Consign::at(database.url());
    let login = Login::make(&database, "consign_worker").await;
    let consign = Consign::at(&login.url());
    consign.configure("");
    let service = Service::work(&consign, &[]).await;
    let told = "the app payments is not served: that needs the role symphony_executor";
    service.logs(told).await;
    service.stop().await;
    login.grant("symphony_executor").await;

    let server = Service::serve(&owner).await;
    let id = pay(&server, 1, &[]).await;
    server.stop().await;
    consign.configure("[payments]\nrail = \"simulated\"\n");
    let service = Service::work(&consign, &["--queue", "payments"]).await;
    dispatched(&owner, &id).await;
    service.stop().await;

    consign.configure("[payments]\nconcurrency = 9\n");
    let ran = consign.run(["work"]).expect(5);
    let told = "queue payments differs from [payments]";
    assert!(ran.stderr.contains(told), "{ran:#?}");
    login.remove().await;
}

/// What the former relayer left: one in its hands, one lost between its two transactions, one that
/// waits.
const FORMER: &str = r#"
CREATE SCHEMA former;
CREATE TYPE former.outbox_attempt_state AS ENUM
    ('DISPATCHING', 'DISPATCHED', 'RETRYABLE', 'FAILED', 'ZOMBIE_REQUEUE');
CREATE TABLE former.payment_outbox_pending (outbox_id uuid PRIMARY KEY, instruction_id text,
    participant_id text, sequence_id bigint, idempotency_key text, rail_type text, payload jsonb,
    attempt_count int DEFAULT 0, next_attempt_at timestamptz DEFAULT now(),
    created_at timestamptz DEFAULT now());
CREATE TABLE former.payment_outbox_attempts (attempt_id uuid DEFAULT gen_random_uuid(),
    outbox_id uuid, instruction_id text, participant_id text, sequence_id bigint,
    idempotency_key text, rail_type text, payload jsonb, attempt_no int,
    state former.outbox_attempt_state, claimed_at timestamptz DEFAULT now(),
    completed_at timestamptz, rail_reference text, rail_code text, error_code text,
    error_message text, latency_ms int, worker_id text, created_at timestamptz DEFAULT now());
CREATE TABLE former.participant_outbox_sequences (participant_id text PRIMARY KEY,
    next_sequence_id bigint);
INSERT INTO former.participant_outbox_sequences VALUES ('bank-a', 4);
INSERT INTO former.payment_outbox_attempts (outbox_id, instruction_id, participant_id,
    sequence_id, idempotency_key, rail_type, payload, attempt_no, state)
SELECT ('00000000-0000-4000-8000-00000000000' || n)::uuid, 'i' || n, 'bank-a', n, 'k', 'PAYMENT',
       '{"amount_minor": 5, "currency_code": "ZMW", "destination": "x"}', a, s::former.outbox_attempt_state
    FROM (VALUES (1, 1, 'DISPATCHING'), (2, 1, 'DISPATCHING'), (2, 2, 'RETRYABLE')) v (n, a, s);
INSERT INTO former.payment_outbox_pending (outbox_id, instruction_id, participant_id, sequence_id,
    idempotency_key, rail_type, payload)
VALUES ('00000000-0000-4000-8000-000000000003', 'i3', 'bank-a', 3, 'k', 'PAYMENT',
        '{"amount_minor": 5, "currency_code": "ZMW", "destination": "x"}');
"#;

/// A dry run first, then the import, and nothing the second time.
#[tokio::test]
async fn former_tables_are_imported_once() {
    let database = migrated_database().await;
    let consign = Consign::at(database.url());
    let mut sql = Sql::connect(database.url()).await;
    sql.run(FORMER).await;
    let import = |more: &[&str]| {
        let arguments = ["payments", "import", "--from-schema", "former"];
        consign.json(arguments.into_iter().chain(more.to_vec()))
    };
    let wanted = json!({
        "pending": 1, "requeued_dispatching": 1, "requeued_retryable": 1, "finished": 0,
        "already_here": 0, "paid_there": 0, "failed_there": 0, "tried_there": 0, "paid_twice": [],
        "refused": [],
    });
    let preview = import(&[]);
    assert_eq!(
        (&preview["dry_run"], &preview["report"]),
        (&json!(true), &wanted)
    );
    assert_eq!(consign.json(["payments", "ls"])["items"], json!([]));
    assert_eq!(import(&["--yes", "--dry-run"])["dry_run"], true);
    let done = import(&["--yes"]);
    assert_eq!(
        (&done["dry_run"], &done["report"]),
        (&json!(false), &wanted)
    );
    let again = import(&["--yes"]);
    assert_eq!(again["report"]["already_here"], 3, "{again}");
    // The former relayer was not stopped.
    sql.run(
        "INSERT INTO former.payment_outbox_attempts (outbox_id, instruction_id, participant_id, sequence_id,
             idempotency_key, rail_type, payload, attempt_no, state, rail_reference)
         SELECT outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, payload, 1,
                'DISPATCHED', 'ref-3' FROM former.payment_outbox_pending",
    )
    .await;
    let news = import(&["--yes"]);
    assert_eq!(news["report"]["paid_there"], 1, "{news}");
    assert_eq!(import(&["--yes"])["report"]["already_here"], 3);
    consign.configure("[payments]\nrail = \"simulated\"\n");
    let service = Service::serve(&consign).await;
    for number in 1..=3 {
        let id = format!("00000000-0000-4000-8000-00000000000{number}");
        dispatched(&consign, &id).await;
    }
    let next = pay(&service, 4, &[]).await;
    let shown = consign.json(["payments", "show", &next]);
    assert_eq!(shown["payment"]["sequence_id"], 4, "the numbers go on");
    service.stop().await;
    consign.run(["doctor"]).expect(0);
}

/// Whoever sends a payment on its way again is told if somebody says that it was paid.
#[tokio::test]
async fn a_release_and_a_requeue_warn_of_evidence() {
    let database = migrated_database().await;
    let consign = Consign::at(database.url());
    let mut sql = Sql::connect(database.url()).await;
    sql.run(
        "SELECT consign.enqueue_payment_outbox('i', 'bank-a', 'k' || n, 'PAYMENT', '{}') FROM generate_series(1, 2) n",
    )
    .await;
    // The worker that lost the first one is quicker than any clock: its lease ends at once.
    sql.run(
        "CREATE TABLE public.lost AS SELECT outbox_id, lease_token FROM consign.claim_outbox_batch(1, 'worker-7', 1);
         UPDATE consign.lease SET expires_at = claimed_at;
         SELECT consign.record_late_outbox_attempt(outbox_id, lease_token, 'worker-7', 'DISPATCHED', 'rail-4711') FROM public.lost;
         SELECT consign.repair_expired_leases(10, 'me')",
    )
    .await;
    let hold = ["payments", "hold", "1", "2"];
    consign.run(hold).expect(0);
    for action in ["release", "requeue"] {
        if action == "requeue" {
            consign.run(hold).expect(0);
            consign
                .run(["payments", "resolve", "--failed", "1", "2"])
                .expect(0);
        }
        let preview = consign.json(["payments", action, "--dry-run", "1", "2"]);
        let moved = consign.json(["payments", action, "1", "2"]);
        for answer in [&preview, &moved] {
            let warning = answer["payments"][0]["warning"].as_str();
            let warning = warning.unwrap_or_default();
            assert!(warning.contains("worker-7"), "{answer}");
            assert!(warning.contains("rail-4711"), "{answer}");
            assert_eq!(answer["payments"][1]["warning"], Value::Null, "{answer}");
        }
    }
    consign.run(hold).expect(0);
    let told = consign.run(["payments", "release", "1"]).expect(0).stderr;
    assert!(told.contains("warning: worker-7 reported"), "{told}");
}
