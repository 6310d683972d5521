//! The grants as they act: what each role tries. The matrix of all of them is in `rights`.

use consign_kernel::{Claim, Error, NewMessage, Report, prelude::*};
use consign_postgres::{PostgresOptions, PostgresStore};
use serde_json::json;
use sqlx::{Connection as _, PgConnection};

use crate::{
    advice::Login,
    harness::{connect, database, execute},
};

/// What each role tries, and whether it works: the grants as they act, not as they are written.
#[tokio::test]
async fn roles_act_as_granted() {
    let database = database().await;
    let store = connect(&database).await;
    let tries = [
        (
            "consign_producer",
            "SELECT consign.enqueue('default', '1')",
            true,
        ),
        (
            "consign_producer",
            "SELECT consign.claim('default', 'w', 1)",
            false,
        ),
        ("consign_producer", "SELECT * FROM consign.message", false),
        (
            "consign_producer",
            "INSERT INTO consign.message (created_at, queue, payload, headers) VALUES (now(), 'default', '1', '{}')",
            false,
        ),
        (
            "consign_worker",
            "SELECT consign.claim('default', 'w', 1)",
            true,
        ),
        // Queues of apps are worked by the roles of the apps.
        (
            "consign_worker",
            "SELECT consign.claim('orders', 'w', 1)",
            false,
        ),
        (
            "consign_worker",
            "SELECT consign.claim('memory', 'w', 1)",
            false,
        ),
        ("consign_worker", "SELECT consign.expire(1)", true),
        // Its own name is bounded.
        (
            "consign_worker",
            "SELECT consign.heartbeat('w', '1', NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
            true,
        ),
        (
            "consign_worker",
            "SELECT consign.enqueue('default', '1')",
            false,
        ),
        (
            "consign_worker",
            "SELECT consign.requeue(ARRAY[1], 'me', 'why')",
            false,
        ),
        ("consign_worker", "SELECT token FROM consign.lease", false),
        (
            "consign_operator",
            "SELECT consign.pause('default', 'me', 'why')",
            true,
        ),
        (
            "consign_operator",
            "SELECT consign.requeue(ARRAY[1], 'me', 'why')",
            true,
        ),
        (
            "consign_operator",
            "SELECT consign.claim('default', 'w', 1)",
            false,
        ),
        (
            "consign_worker",
            "SELECT consign.record_late(gen_random_uuid(), ARRAY[1])",
            true,
        ),
        ("consign_worker", "SELECT * FROM consign.late", false),
        ("consign_worker", "SELECT consign.step_redrive()", false),
        ("consign_worker", "SELECT * FROM consign.schedule", false),
        ("consign_auditor", "SELECT * FROM consign.schedule", true),
        (
            "consign_worker",
            "SELECT consign.tick('x', '@daily', 'UTC', now(), NULL, NULL, 0, 0, now() + interval '1 day')",
            false,
        ),
        (
            "consign_operator",
            "SELECT consign.tick('x', '@daily', 'UTC', now(), NULL, NULL, 0, 0, now() + interval '1 day')",
            true,
        ),
        (
            "consign_operator",
            "SELECT consign.start_redrive('me', 'why'), consign.step_redrive(10)",
            true,
        ),
        (
            "consign_operator",
            "UPDATE consign.redrive SET moved = 0",
            false,
        ),
        (
            "consign_operator",
            "SELECT consign.record_late(gen_random_uuid(), ARRAY[1])",
            false,
        ),
        (
            "consign_operator",
            "SELECT fence, owner FROM consign.lease",
            true,
        ),
        ("consign_operator", "SELECT token FROM consign.lease", false),
        (
            "consign_auditor",
            "SELECT * FROM consign.attempt_view",
            true,
        ),
        ("consign_auditor", "SELECT * FROM consign.attempt", false),
        ("consign_auditor", "SELECT token FROM consign.late", false),
        ("consign_auditor", "SELECT * FROM consign.audit", true),
        ("consign_auditor", "SELECT * FROM consign.late_view", true),
        ("consign_auditor", "SELECT * FROM consign.redrive", true),
        (
            "consign_auditor",
            "SELECT consign.start_redrive('me', 'why')",
            false,
        ),
        ("consign_auditor", "SELECT token FROM consign.lease", false),
        ("consign_auditor", "DELETE FROM consign.attempt", false),
        (
            "consign_auditor",
            "SELECT consign.pause('default', 'me', 'why')",
            false,
        ),
        (
            "consign_producer",
            "SELECT consign.order_entry('desk-1', 'key-0001')",
            false,
        ),
        (
            "consign_producer",
            "SELECT consign.close_direct_order('desk-1', 'key-0001', 'd', 'succeeded', 200, 'r', '{}')",
            false,
        ),
        (
            "consign_producer",
            "SELECT consign.take_order_quota('desk-1', 1, 1)",
            false,
        ),
        (
            "consign_producer",
            "SELECT logbook.change_settings('p', true, NULL, false, 'c', '{}')",
            false,
        ),
        (
            "consign_order_server",
            "SELECT consign.order_entry('desk-1', 'key-0001')",
            true,
        ),
        (
            "consign_producer",
            "SELECT consign.purge_orders('me', 'why')",
            false,
        ),
        (
            "consign_producer",
            "SELECT * FROM consign.idempo_ledger",
            false,
        ),
        (
            "consign_worker",
            "SELECT consign.verify_order('desk-1', 'key-0001')",
            false,
        ),
        (
            "consign_order_server",
            "SELECT consign.verify_order('desk-1', 'key-0001')",
            true,
        ),
        (
            "consign_worker",
            "SELECT consign.accept_orders('{}', '{}', '{}', '{}', NULL, '{}', NULL)",
            false,
        ),
        (
            "consign_worker",
            "UPDATE consign.outbox_orders SET status = 'pending'",
            false,
        ),
        (
            "consign_operator",
            "SELECT consign.purge_orders('me', 'why')",
            true,
        ),
        (
            "consign_operator",
            "UPDATE consign.outbox_orders SET status = 'pending'",
            true,
        ),
        (
            "consign_operator",
            "UPDATE consign.idempo_ledger SET status = 'failed'",
            false,
        ),
        (
            "consign_auditor",
            "SELECT * FROM consign.outbox_orders",
            true,
        ),
        (
            "consign_auditor",
            "UPDATE consign.outbox_orders SET status = 'pending'",
            false,
        ),
        (
            "consign_auditor",
            "SELECT consign.purge_orders('me', 'why')",
            false,
        ),
    ];
    for (role, sql, works) in tries {
        let mut tx = store.pool().begin().await.unwrap();
        let become_role = sqlx::AssertSqlSafe(format!("SET LOCAL ROLE {role}"));
        sqlx::raw_sql(become_role).execute(&mut *tx).await.unwrap();
        let result = sqlx::raw_sql(sql).execute(&mut *tx).await;
        match result {
            Ok(_) => assert!(works, "{role} must not: {sql}"),
            Err(error) => {
                let code = error
                    .as_database_error()
                    .unwrap()
                    .code()
                    .unwrap()
                    .into_owned();
                assert!(!works && code == "42501", "{role}: {sql}: {error}");
            }
        }
        tx.rollback().await.unwrap();
    }
}

/// A queue that is named is worked by the roles beside it, every other one by those beside `*`.
#[tokio::test]
async fn a_worker_works_the_queues_it_is_granted() {
    let database = database().await;
    let owner = connect(&database).await;
    let [mail, fax] = ["mail", "fax"].map(|name| name.parse().unwrap());
    let by = consign_kernel::By::new("test", "test");
    for queue in [&mail, &fax] {
        let policy = consign_kernel::QueuePolicy::default();
        owner.put_queue(queue, &policy, &by).await.unwrap();
        let message = NewMessage::new(queue.clone(), json!(1));
        owner.enqueue(&vec![message; 3]).await.unwrap();
    }
    let login = Login::create(&database).await;
    login.grant("consign_worker").await;
    let worker = PostgresStore::connect(&PostgresOptions::new(login.url()))
        .await
        .unwrap();
    let claims = async |queue: &consign_kernel::QueueName| {
        let claim = Claim::new(queue.clone(), "w", 1);
        let claimed = worker.claim(&claim).await;
        assert_eq!(worker.may_work(queue).await.unwrap(), claimed.is_ok());
        match claimed {
            Ok(lease) => {
                let lease = lease.expect("something to do");
                let report = Report::delivered(lease.messages[0].message.id);
                worker.settle(lease.token, &[report]).await.unwrap();
                true
            }
            Err(Error::Forbidden { what }) => {
                assert!(what.contains("may not work queue"), "{what}");
                false
            }
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!(
        (claims(&mail).await, claims(&fax).await),
        (true, true),
        "all that are not granted"
    );
    execute(
        database.url(),
        "UPDATE consign.queue SET workers = '{consign_operator}' WHERE name = 'mail'",
    )
    .await;
    assert_eq!((claims(&mail).await, claims(&fax).await), (false, true));
    let granted = format!(
        "UPDATE consign.queue SET workers = CASE name WHEN 'mail' THEN '{{{}}}' ELSE '{{}}' END::name[]",
        login.name()
    );
    login.run(granted).await;
    assert_eq!(
        (claims(&mail).await, claims(&fax).await),
        (true, false),
        "what it has, and no more"
    );
    worker.close().await;
    login.remove().await;
}

/// A token in an attempt permits settles, and then late results: a reader does
/// not get it.
#[tokio::test]
async fn a_reader_sees_no_token() {
    let database = database().await;
    let owner = connect(&database).await;
    let queue: consign_kernel::QueueName = "default".parse().unwrap();
    let message = NewMessage::new(queue.clone(), json!(1));
    owner.enqueue(&vec![message; 2]).await.unwrap();
    let lease = owner
        .claim(&Claim::new(queue, "w", 2))
        .await
        .unwrap()
        .unwrap();
    let [first, second] = [0, 1].map(|n| lease.messages[n].message.id);
    owner
        .settle(lease.token, &[Report::delivered(first)])
        .await
        .unwrap();
    let login = Login::create(&database).await;
    login.grant("consign_auditor").await;
    let reader = PostgresStore::connect(&PostgresOptions::new(login.url()))
        .await
        .unwrap();
    let seen = async || reader.history(first).await.unwrap()[0].token;
    assert!(seen().await.0.is_nil(), "its lease lives");
    assert_eq!(owner.history(first).await.unwrap()[0].token, lease.token);
    owner
        .settle(lease.token, &[Report::delivered(second)])
        .await
        .unwrap();
    assert!(seen().await.0.is_nil(), "it could forge late results");
    reader.close().await;
    login.remove().await;
}

/// The audit names the login beside the actor in the call.
#[tokio::test]
async fn an_audit_keeps_who_was_connected() {
    let database = database().await;
    let login = Login::create(&database).await;
    login.grant("consign_operator").await;
    let operator = PostgresStore::connect(&PostgresOptions::new(login.url()))
        .await
        .unwrap();
    let by = consign_kernel::By::new("another actor", "why");
    operator
        .pause(&"default".parse().unwrap(), &by)
        .await
        .unwrap();
    let kept: (String, String) =
        sqlx::query_as("SELECT actor, login FROM consign.audit WHERE action = 'pause'")
            .fetch_one(operator.pool())
            .await
            .unwrap();
    assert_eq!(kept, ("another actor".to_owned(), login.name().to_owned()));
    operator.close().await;
    login.remove().await;
}

/// A worker's heartbeat cannot break the charts of the others.
#[tokio::test]
async fn an_impossible_heartbeat_is_refused_in_sql_too() {
    let database = database().await;
    let store = connect(&database).await;
    let tell = |number: i64| {
        let sql = "SELECT consign.heartbeat('p', 'v', '1000000 years', '{default,default}', ARRAY[$1, $1], ARRAY[$1, $1],
                                        ARRAY[$1, $1], ARRAY[$1, $1], ARRAY[$1, $1])";
        sqlx::query(sql).bind(number).execute(store.pool())
    };
    let most = 1_i64 << 40;
    for number in [i64::MAX, most] {
        let error = tell(number).await.unwrap_err();
        let code = error
            .as_database_error()
            .unwrap()
            .code()
            .unwrap()
            .into_owned();
        assert_eq!(code, "CN006", "{error}");
    }
    for _ in 0..3 {
        tell(most - 1).await.unwrap();
    }
    let minutes = store.queue_stats(None, 60, 60).await.unwrap();
    let all = minutes.iter().map(|minute| minute.done.results());
    let all = all.max().expect("something was done");
    assert!(
        all > 0 && all <= 2 * 4 * most.unsigned_abs(),
        "cut at what can be: {all}"
    );
}

/// Nor can it fill the tables that others read, or report on queues that it may not work.
#[tokio::test]
async fn a_heartbeat_in_sql_is_bounded_in_names_and_queues() {
    let database = database().await;
    let store = connect(&database).await;
    let heartbeat = "SELECT consign.heartbeat($1, $2, '1 s', $3, '{1,1}', NULL, NULL, NULL, NULL)";
    let queues = vec!["default".to_owned(), "orders".to_owned()];
    let many = vec!["default".to_owned(); 1_001];
    let long = "x".repeat(257);
    for (process, version, queues) in [
        ("", "v", &queues),
        ("a\nb", "v", &queues),
        ("a\u{9b}2J", "v", &queues),
        (long.as_str(), "v", &queues),
        ("p", "", &queues),
        ("p", "\u{1b}[2J", &queues),
        ("p", &long[..101], &queues),
        ("p", "v", &many),
    ] {
        let told = sqlx::query(heartbeat)
            .bind(process)
            .bind(version)
            .bind(queues);
        let error = told.execute(store.pool()).await.unwrap_err();
        let code = error
            .into_database_error()
            .unwrap()
            .code()
            .unwrap()
            .into_owned();
        assert_eq!(code, "CN006", "{process:?} {version:?}");
    }
    let login = Login::create(&database).await;
    login.grant("consign_worker").await;
    let mut worker = PgConnection::connect(&login.url()).await.unwrap();
    let made_up = "SELECT count(consign.heartbeat('made up ' || n, 'v', '1 s', '{default,orders}', '{1,1}', NULL, NULL, NULL, NULL))
                       FROM generate_series(1, 1010) n";
    sqlx::raw_sql(made_up).execute(&mut worker).await.unwrap();
    worker.close().await.unwrap();
    assert_eq!(store.processes().await.unwrap().len(), 1_000);
    let done = store.queue_stats(None, 60, 60).await.unwrap();
    let done: Vec<(&str, u64)> = done
        .iter()
        .map(|minutes| (minutes.queue.as_str(), minutes.done.delivered))
        .collect();
    let [("default", counted)] = done[..] else {
        panic!("orders are not its to work: {done:?}");
    };
    assert!(
        (1_000..=1_010).contains(&counted),
        "{counted} in a minute or two"
    );
    login.remove().await;
}
