//! `doctor` finds damage done behind the engine's back.

use consign_kernel::{Claim, NOT_CHECKED, NewMessage, QueuePolicy, Report, prelude::*};
use consign_postgres::PostgresStore;
use serde_json::json;

use crate::{
    advice::Login,
    harness::{connect, database, execute, options},
};

/// Two messages delivered, one dead, one leased, one ready, an ordered group of two, one order executed
/// and one on its way.
async fn populated() -> (
    consign_testkit::TestDatabase,
    consign_postgres::PostgresStore,
) {
    let database = database().await;
    let store = connect(&database).await;
    let queue: consign_kernel::QueueName = "default".parse().unwrap();
    let message = || NewMessage::new(queue.clone(), json!(1));
    store.enqueue(&vec![message(); 4]).await.unwrap();
    let lease = store
        .claim(&Claim::new(queue.clone(), "w", 4))
        .await
        .unwrap()
        .unwrap();
    let ids: Vec<_> = lease
        .messages
        .iter()
        .map(|claimed| claimed.message.id)
        .collect();
    let dead = Report::new(ids[2], consign_kernel::Outcome::Dead);
    let reports = [Report::delivered(ids[0]), Report::delivered(ids[1]), dead];
    store.settle(lease.token, &reports).await.unwrap();
    store.enqueue(&[message()]).await.unwrap();
    let ordered = QueuePolicy {
        ordered: true,
        ..QueuePolicy::default()
    };
    let by = consign_kernel::By::new("test", "test");
    let groups = "groups".parse().unwrap();
    store.put_queue(&groups, &ordered, &by).await.unwrap();
    let grouped = NewMessage::new(groups, json!(1)).with_group("a");
    store.enqueue(&[grouped.clone(), grouped]).await.unwrap();
    assert_eq!(
        store.doctor().await.unwrap(),
        [],
        "healthy before the damage"
    );
    (database, store)
}

#[tokio::test]
async fn every_kind_of_damage_is_named() {
    let damages = [
        ("DELETE FROM consign.ready WHERE queue = 'default'", "message_lost"),
        ("INSERT INTO consign.ready (queue, due_at, isolated, ids, tries, attempts)
          SELECT queue, due_at, isolated, ids, tries, attempts FROM consign.ready WHERE queue = 'default'", "message_doubled"),
        ("UPDATE consign.ready SET ids = ARRAY[999999], tries = '{0}', attempts = '{0}' WHERE queue = 'default'", "message_unknown"),
        ("SET session_replication_role = replica; UPDATE consign.attempt SET attempt_no = 2
          WHERE outcome = 'dead'", "attempts_gap"),
        ("INSERT INTO consign.attempt SELECT message_id, fence, claimed_at, finished_at, next_due_at, 2, 'retry', token, owner
          FROM consign.attempt WHERE outcome = 'delivered' LIMIT 1", "attempt_after_delivered"),
        ("UPDATE consign.ready SET attempts = '{3}' WHERE queue = 'default'", "attempts_miscounted"),
        ("UPDATE consign.ready SET tries = '{}' WHERE queue = 'default'", "batch_malformed"),
        ("UPDATE consign.ready SET queue = 'gone' WHERE queue = 'default'", "queue_unknown"),
        ("DELETE FROM consign.group_head", "group_head_missing"),
        ("UPDATE consign.group_head SET message_id = NULL", "not_group_head"),
        ("UPDATE consign.group_head SET message_id = (SELECT min(message_id) FROM consign.attempt WHERE outcome = 'delivered')", "group_head_stuck"),
        ("ALTER TABLE consign.attempt DISABLE TRIGGER append_only", "append_only_off"),
        ("ALTER TABLE consign.late DETACH PARTITION consign.late_2", "range_differs"),
        ("UPDATE consign.range SET until = until + 1 WHERE number = 1", "range_differs"),
        ("DELETE FROM consign.range WHERE number = 2", "range_differs"),
        ("CREATE TABLE consign.attempt_77 (LIKE consign.attempt)", "range_left_over"),
        ("GRANT SELECT ON consign.message_1 TO PUBLIC", "range_rights"),
    ];
    for (damage, code) in damages {
        let (database, store) = populated().await;
        execute(database.url(), damage).await;
        let findings = store.doctor().await.unwrap();
        let codes: Vec<&str> = findings
            .iter()
            .map(|finding| finding.code.as_str())
            .collect();
        assert!(codes.contains(&code), "{damage} was seen as {codes:?}");
        assert!(findings.iter().all(|finding| !finding.remedy.is_empty()));
    }
}

/// Auditors and operators run every check; other logins get a finding per check they could not run.
#[tokio::test]
async fn doctor_comes_to_an_end_under_every_role() {
    let database = database().await;
    for (role, checked) in [
        ("consign_auditor", 13),
        ("consign_operator", 13),
        // The triggers are in the server's own catalog.
        ("consign_producer", 1),
        // It also reads the hooks, with the policies of its queues.
        ("consign_worker", 2),
        ("consign_order_server", 1),
        ("consign_gateway", 2),
        ("consign_scm", 2),
    ] {
        let login = Login::create(&database).await;
        login.grant(role).await;
        let options = options(&login.url());
        let store = PostgresStore::connect(&options).await.unwrap();
        let findings = store.doctor().await.unwrap();
        assert!(
            findings.iter().all(|it| it.code == NOT_CHECKED),
            "{role}: {findings:#?}"
        );
        assert_eq!(13 - findings.len(), checked, "{role}: {findings:#?}");
        for finding in findings {
            let name = login.name();
            assert!(
                finding.what.contains("permission denied for"),
                "{finding:?}"
            );
            assert!(
                finding.what.contains(&format!("login {name} needs")),
                "{finding:?}"
            );
        }
        store.close().await;
        login.remove().await;
    }
}
