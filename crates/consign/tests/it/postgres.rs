//! The same commands on PostgreSQL, which is migrated only on request.

use std::sync::Arc;

use consign_postgres::PostgresStore;
use consign_testkit::TestDatabase;
use serde_json::json;

use crate::{
    scenario::walk,
    support::{Consign, migrated_database},
};

#[tokio::test]
async fn every_command_on_postgresql() {
    let database = TestDatabase::create(async |_| {}).await;
    let consign = Consign::at(database.url());
    let (code, message) = consign.run(["ls", "--json"]).expect(5).error();
    assert_eq!(code, "schema_mismatch");
    assert!(message.contains("consign migrate"), "{message}");
    assert_eq!(consign.json(["migrate", "status"])["versions"]["engine"], 0);
    let up = consign.json(["migrate"]);
    assert!(!up["applied"].as_array().unwrap().is_empty(), "{up}");
    assert_eq!(consign.json(["migrate"])["applied"], json!([]));
    let status = consign.json(["migrate", "status"]);
    assert_eq!(status["versions"], status["needed"]);
    let print = consign.run(["migrate", "print"]).expect(0);
    assert!(
        print.stdout.contains("consign.claim"),
        "the SQL of PostgreSQL"
    );

    let options = crate::support::postgres_options(database.url());
    let store = PostgresStore::connect(&options).await.unwrap();
    walk(&consign, Arc::new(store)).await;
}

#[tokio::test]
async fn payloads_are_kept_to_the_last_digit_on_postgresql() {
    let database = migrated_database().await;
    let consign = Consign::at(database.url());
    crate::enqueue::exactly(&consign);
}

#[tokio::test]
async fn lines_are_enqueued_on_postgresql_and_a_bad_one_is_named() {
    let database = migrated_database().await;
    let consign = Consign::at(database.url());
    let mut input: String = (0..700)
        .map(|n| format!("{{\"payload\": {n}, \"key\": \"k{n}\"}}\n"))
        .collect();
    input.push_str("{\"payload\": \"other\", \"key\": \"k650\"}\n");
    let ran = consign
        .run_with(["enqueue", "--json"], input.as_bytes())
        .expect(3);
    let (code, message) = ran.error();
    assert_eq!(code, "key_conflict", "{message}");
    assert!(message.starts_with("line 701: "), "{message}");
    assert!(
        message.contains("700 messages were enqueued before it"),
        "{message}"
    );
}

#[test]
fn an_unreachable_server_is_named_without_the_password() {
    // Nothing listens on port 1.
    let consign = Consign::at("postgres://me:s3cret@127.0.0.1:1/nowhere");
    for command in ["ls", "migrate", "doctor"] {
        let ran = consign.run([command, "--json"]).expect(5);
        let (code, message) = ran.error();
        assert_eq!(code, "database_unavailable", "{message}");
        assert!(
            message.contains("postgres://me@127.0.0.1:1/nowhere"),
            "{message}"
        );
        assert!(!ran.stderr.contains("s3cret"), "{message}");
    }
}
