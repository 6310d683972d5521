//! Rows belong to a backend, and only the backend knows what it has: at a server that stores the same
//! text as often as it is given it.

use consign_testkit::eventually;
use serde_json::json;

use super::{
    gateway::{TEXT, audits, row, store, try_store},
    keeper::Keeper,
};
use crate::{
    orders::bench::{Bench, on_both},
    service::SOON,
    support::Consign,
};

const SERVE: &[&str] = &["serve", "--listen", "127.0.0.1:0"];
const WORK: &[&str] = &[
    "work",
    "--queue",
    "memory",
    "--health-listen",
    "127.0.0.1:0",
];
const ONCE: [&str; 4] = ["work", "--queue", "memory", "--once"];

/// Sends memories there, and everything short.
fn use_keeper(bench: &mut Bench, keeper: &Keeper) {
    bench.configure(&format!(
        "[memory]\n{}openmemory_timeout_seconds = 2\nlease_seconds = 12\n\
         base_backoff_seconds = 1\nmax_backoff_seconds = 2\nreconcile_interval_seconds = 0\n",
        keeper.setting(),
    ));
}

/// The server has answered, and the gateway dies, or freezes, before it has written that down: the
/// repeated request asks.
#[test]
fn a_gateway_lost_before_its_audit_ended_stores_no_second_time() {
    for is_frozen in [false, true] {
        on_both(async |mut bench| {
            let keeper = Keeper::opened();
            use_keeper(&mut bench, &keeper);
            let (mut victim, failpoint) = bench.stopped_at(SERVE, "memory.after_backend").await;
            tokio::select! {
                answer = try_store(&victim) => panic!("answered: {answer:?}"),
                () = failpoint.reached() => if is_frozen { victim.child.pause() } else { victim.child.kill9() },
            }
            assert_eq!(keeper.texts(), [TEXT]);
            let pending = ("policy:private_space".to_owned(), "pending".to_owned());
            assert_eq!(audits(&bench).await, [pending]);

            let gateway = bench.serve().await;
            eventually("it is stored", SOON, async || {
                store(&gateway).await["action"] == "allow"
            })
            .await;
            victim.child.kill9();
            gateway.stop().await;
            assert_eq!(keeper.texts(), [TEXT], "{:?}", bench.kind);
        });
    }
}

/// The same of a worker, and of a request that comes before anybody has taken its row over.
#[test]
fn a_worker_lost_before_it_acknowledged_stores_no_second_time() {
    on_both(async |mut bench| {
        let mut keeper = Keeper::closed();
        use_keeper(&mut bench, &keeper);
        let gateway = bench.serve().await;
        bench.consign.run(["pause", "memory"]).expect(0);
        let deferred = store(&gateway).await;
        assert_eq!(deferred["action"], "deferred", "{deferred}");
        gateway.stop().await;
        keeper.open();
        let (mut victim, failpoint) = bench.stopped_at(WORK, "memory.flush_after_store").await;
        bench.consign.run(["resume", "memory"]).expect(0);
        failpoint.reached().await;
        victim.child.kill9();
        assert_eq!(keeper.texts(), [TEXT]);
        let gateway = bench.serve().await;
        eventually("it is stored", SOON, async || {
            store(&gateway).await["action"] == "allow"
        })
        .await;
        gateway.stop().await;
        assert_eq!(keeper.texts(), [TEXT], "{:?}", bench.kind);
    });
}

/// `consign work --once` typed in a shell without the settings of the gateway.
#[tokio::test]
async fn a_worker_without_the_servers_address_delivers_nothing() {
    let mut keeper = Keeper::closed();
    let consign = Consign::new();
    let settings = format!("[memory]\ngateway_budget_ms = 500\n{}", keeper.setting());
    consign.configure(&settings);
    let stored = consign.run(["memory", "store", TEXT, "--space", "private:alice"]);
    let id = stored.expect(1).json()["outbox_id"].to_string();
    keeper.open();

    consign.configure("");
    consign.run(ONCE).expect(1);
    let waiting = &consign.json(["memory", "show", &id])["memory"];
    assert_eq!(
        (&waiting["status"], &waiting["retry_count"]),
        (&json!("pending"), &json!(0)),
        "{waiting}"
    );
    let last_error = waiting["last_error"].as_str().unwrap();
    for part in ["misdirected: ", "OPENMEMORY_BASE_URL", &keeper.url()] {
        assert!(last_error.contains(part), "{last_error}");
    }
    // It rests, so there is nothing to do.
    consign.run(ONCE).expect(0);
    let report = consign.run(["report"]).expect(0).json();
    let others = &report["outbox_stats"]["waiting_for_other_backends"];
    assert_eq!(*others, json!({format!("openmemory:{}", keeper.url()): 1}));
    let doctor = consign.run(["doctor", "--json"]).expect(1).json();
    assert_eq!(doctor["findings"][0]["code"], "memory_misdirected");
    let found = consign.json(["memory", "query", "valve", "--space", "private:alice"]);
    assert_eq!(found["results"], json!([]), "{found}");

    // With the setting it is delivered, as soon as it is due.
    consign.configure(&settings);
    consign.sql("UPDATE ready SET due_at = 0").await;
    consign.run(ONCE).expect(0);
    assert_eq!(keeper.texts(), [TEXT]);
    consign.run(["doctor"]).expect(0);
}

/// Stored, deleted on the server, stored again; then the same in another server.
#[test]
fn what_the_server_has_lost_is_stored_again() {
    let (keeper, other) = (Keeper::opened(), Keeper::opened());
    let consign = Consign::new();
    consign.configure(&format!("[memory]\n{}", keeper.setting()));
    let store = || {
        let stored = consign.run(["memory", "store", TEXT, "--space", "private:alice"]);
        stored.expect(0).json()
    };
    let first = store();
    assert_eq!(store()["memory_id"], first["memory_id"]);
    assert_eq!(keeper.texts(), [TEXT]);
    keeper.forget();
    assert_ne!(store()["memory_id"], first["memory_id"]);
    assert_eq!(keeper.texts(), [TEXT]);
    consign.configure(&format!("[memory]\n{}", other.setting()));
    store();
    assert_eq!(
        (keeper.texts(), other.texts()),
        (vec![TEXT.to_owned()], vec![TEXT.to_owned()])
    );
    consign.configure("");
    store();
    let found = consign.json(["memory", "query", "valve", "--space", "private:alice"]);
    assert_eq!(found["results"].as_array().unwrap().len(), 1, "{found}");
    consign.run(["doctor"]).expect(0);
}

/// Whatever was set by hand stays, but for what a setting says; `verify` changes nothing.
#[test]
fn a_setting_changes_its_policy_fields_and_nothing_else() {
    let consign = Consign::new();
    consign.configure("[memory]\nmax_retries = 7\n");
    consign.run(ONCE).expect(0);
    let set = [
        "queues",
        "set",
        "memory",
        "--attempts",
        "50",
        "--lease",
        "300s",
    ];
    consign.run(set).expect(0);
    let policy = || {
        let queue = consign.json(["queues", "show", "memory"]);
        let policy = &queue["policy"];
        (
            policy["attempts_max"].clone(),
            policy["lease_ttl_ms"].clone(),
        )
    };
    assert_eq!(policy(), (json!(50), json!(300_000)));
    consign.run(["verify"]);
    assert_eq!(policy(), (json!(50), json!(300_000)), "verify");
    consign.configure("[memory]\nproject_key = \"p\"\n");
    consign.run(ONCE).expect(0);
    assert_eq!(
        policy(),
        (json!(50), json!(300_000)),
        "it says nothing of the policy"
    );
    consign.configure("[memory]\nmax_retries = 5\n");
    consign.run(ONCE).expect(0);
    assert_eq!(policy(), (json!(5), json!(300_000)));
}

/// A row says which backend it waits for.
#[test]
fn a_row_names_its_backend() {
    on_both(async |mut bench| {
        let keeper = Keeper::closed();
        use_keeper(&mut bench, &keeper);
        let gateway = bench.serve().await;
        bench.consign.run(["pause", "memory"]).expect(0);
        store(&gateway).await;
        let backend = format!("openmemory:{}", keeper.url());
        assert_eq!(row(&bench)["backend"], backend);
        gateway.stop().await;
    });
}
