//! Erasures against roles, triggers, and departures that are under way.

use std::time::Duration;

use consign_kernel::{
    By, Claim, ErasureAnswer, ErasureTarget, MessageId, NewMessage, QueuePolicy, Refusal, Report,
    Step, prelude::*,
};
use consign_postgres::PostgresStore;
use consign_testkit::{TestDatabase, eventually};
use serde_json::json;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

use crate::{
    advice::Login,
    harness::{connect, database, execute},
};

const SOON: Duration = Duration::from_secs(20);

fn by() -> By {
    By::new("test", "test")
}

/// A store whose default queue keeps nothing, with delivered messages.
async fn delivered(count: usize) -> (TestDatabase, PostgresStore, Vec<MessageId>) {
    let database = database().await;
    let store = connect(&database).await;
    let policy = QueuePolicy {
        keep_ms: Some(0),
        archive: false,
        ..QueuePolicy::default()
    };
    let queue: consign_kernel::QueueName = "default".parse().unwrap();
    store.put_queue(&queue, &policy, &by()).await.unwrap();
    let message = NewMessage::new(queue.clone(), json!({"name": "Jane Doe"}));
    store.enqueue(&vec![message; count]).await.unwrap();
    let lease = store.claim(&Claim::new(queue, "w", 1_000)).await.unwrap();
    let lease = lease.unwrap();
    let ids: Vec<_> = lease.messages.iter().map(|c| c.message.id).collect();
    let report = |id: &MessageId| Report {
        detail: Some("Jane Doe has it".into()),
        result: Some(json!({"ref": {"n": 1.50}, "name": "Jane Doe"})),
        ..Report::delivered(*id)
    };
    let reports: Vec<_> = ids.iter().map(report).collect();
    store.settle(lease.token, &reports).await.unwrap();
    (database, store, ids)
}

async fn erase(store: &PostgresStore, id: MessageId) -> ErasureAnswer {
    let target = ErasureTarget::Ids(vec![id]);
    store.erase(&target, &by()).await.unwrap()[0].answer
}

/// The SQLSTATE of a statement that is rejected.
async fn rejection(connection: &mut PgConnection, sql: &str) -> String {
    let done = sqlx::query(AssertSqlSafe(sql.to_owned()))
        .execute(connection)
        .await;
    let error = done.expect_err(sql);
    let code = error.as_database_error().and_then(|error| error.code());
    code.expect("an error of the database").into_owned()
}

#[tokio::test]
async fn an_update_can_only_erase_what_is_on_record_as_erased() {
    let (database, store, ids) = delivered(2).await;
    let (erased, other) = (ids[0], ids[1]);
    assert_eq!(erase(&store, erased).await, ErasureAnswer::Erased);
    let child = |table| {
        format!(
            "SELECT tableoid::regclass::text FROM consign.{table}
                 WHERE coalesce(to_jsonb({table})->>'message_id', to_jsonb({table})->>'id') = '{erased}'"
        )
    };
    let mut owner = PgConnection::connect(database.url()).await.unwrap();
    let child: String = sqlx::query_scalar(AssertSqlSafe(child("message")))
        .fetch_one(&mut owner)
        .await
        .unwrap();
    for sql in [
        // Of a message that is not on record as erased.
        format!("UPDATE consign.message SET payload = 'null', headers = '{{}}' WHERE id = {other}"),
        format!("UPDATE consign.attempt SET detail = NULL WHERE message_id = {other}"),
        // Of one that is: nothing but its content goes.
        format!("UPDATE consign.message SET payload = '\"forged\"' WHERE id = {erased}"),
        format!("UPDATE consign.message SET headers = '{{\"a\": 1}}' WHERE id = {erased}"),
        format!("UPDATE consign.message SET queue = 'elsewhere' WHERE id = {erased}"),
        format!("UPDATE consign.message SET id = id + 1000000 WHERE id = {erased}"),
        format!("UPDATE consign.attempt SET outcome = 'dead' WHERE message_id = {erased}"),
        format!("UPDATE consign.attempt SET detail = 'forged' WHERE message_id = {erased}"),
        // Past the parent.
        format!("UPDATE {child} SET payload = 'null' WHERE id = {erased}"),
        "UPDATE consign.erasure SET actor = 'mallory'".to_owned(),
        "DELETE FROM consign.erasure".to_owned(),
        "TRUNCATE consign.erasure".to_owned(),
    ] {
        assert_eq!(rejection(&mut owner, &sql).await, "CN009", "{sql}");
    }
    let again = format!(
        "UPDATE consign.message SET payload = 'null', headers = '{{}}' WHERE id = {erased}"
    );
    sqlx::raw_sql(AssertSqlSafe(again))
        .execute(&mut owner)
        .await
        .unwrap();
    assert_eq!(store.doctor().await.unwrap(), []);
}

#[tokio::test]
async fn no_role_erases_but_through_the_function() {
    let (database, store, ids) = delivered(2).await;
    let id = ids[0];
    let roles = [
        "consign_producer",
        "consign_worker",
        "consign_auditor",
        "consign_operator",
    ];
    for role in roles {
        let login = Login::create(&database).await;
        login.grant(role).await;
        let mut connection = PgConnection::connect(&login.url()).await.unwrap();
        for sql in [
            format!(
                "UPDATE consign.message SET payload = 'null', headers = '{{}}' WHERE id = {id}"
            ),
            format!("UPDATE consign.attempt SET detail = NULL WHERE message_id = {id}"),
            format!("UPDATE consign.dead SET detail = NULL WHERE message_id = {id}"),
            format!(
                "INSERT INTO consign.erasure (message_id, queue, at, actor, reason, digest)
                     VALUES ({id}, 'default', now(), 'me', 'why', '')"
            ),
            "DELETE FROM consign.erasure".to_owned(),
            "DELETE FROM consign.erasure_due".to_owned(),
        ] {
            assert_eq!(
                rejection(&mut connection, &sql).await,
                "42501",
                "{role}: {sql}"
            );
        }
        let functions = [
            format!("SELECT * FROM consign.erase(ARRAY[{id}], 'me', 'why')"),
            "SELECT * FROM consign.erase_key('default', 'k', 'me', 'why')".to_owned(),
            "SELECT * FROM consign.erase_correlation('c', 'me', 'why')".to_owned(),
        ];
        for sql in functions {
            if role == "consign_operator" {
                sqlx::raw_sql(AssertSqlSafe(sql))
                    .execute(&mut connection)
                    .await
                    .unwrap();
            } else {
                assert_eq!(
                    rejection(&mut connection, &sql).await,
                    "42501",
                    "{role}: {sql}"
                );
            }
        }
        connection.close().await.unwrap();
        login.remove().await;
    }
    let explained = store.explain(id).await.unwrap().unwrap();
    assert_eq!(explained.erased.unwrap().actor, "me");
}

/// An erasure that is under way when a departure begins cannot stop it: it is waited for, and what leaves or is
/// copied has no content.
#[tokio::test]
async fn a_departure_waits_for_an_erasure() {
    let (_database, store, ids) = delivered(2).await;
    let ttl = Duration::from_secs(60);
    let token = store.lease_maintenance("test", None, ttl).await.unwrap();
    let token = token.unwrap();
    let closed = store.prepare_ranges(token, 1_000, Duration::ZERO).await;
    assert!(matches!(closed.unwrap(), Step::Done(_)));
    let mut operator = store.pool().begin().await.unwrap();
    sqlx::query("SELECT * FROM consign.erase(ARRAY[$1], 'me', 'why')")
        .bind(ids[0].0)
        .execute(&mut *operator)
        .await
        .unwrap();
    let begin = || store.begin_departure(token, consign_kernel::DepartureCause::Age, true);
    let locked = begin().await.unwrap();
    assert_eq!(locked, Step::Refused(Refusal::Locked));
    operator.commit().await.unwrap();
    let Step::Done(Some(departure)) = begin().await.unwrap() else {
        panic!("both may leave");
    };
    assert_eq!(departure.messages, 2);
    let records = store.departing(departure.id, None, 10).await.unwrap();
    assert!(records[0].erased.is_some());
    assert_eq!(records[0].message.payload.as_str(), "null");
    let explained = store.explain(ids[0]).await.unwrap().unwrap();
    assert!(explained.erased.is_some());
}

/// A late result that waits for an erasure is recorded without its content.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_result_that_meets_an_erasure_waits_for_it() {
    let (_database, store, _) = delivered(1).await;
    let queue: consign_kernel::QueueName = "default".parse().unwrap();
    let message = NewMessage::new(queue.clone(), json!(1));
    let id = store.enqueue(&[message]).await.unwrap()[0].id;
    let brief = Claim {
        ttl: Some(Duration::from_millis(1)),
        ..Claim::new(queue.clone(), "w", 1)
    };
    let lost = store.claim(&brief).await.unwrap().unwrap();
    eventually("the lease ends", SOON, || async {
        store.expire(1).await.unwrap().leases == 1
    })
    .await;
    let lease = store.claim(&Claim::new(queue, "w", 1)).await.unwrap();
    let lease = lease.unwrap();
    let reports = [Report::delivered(id)];
    store.settle(lease.token, &reports).await.unwrap();
    let mut operator = store.pool().begin().await.unwrap();
    sqlx::query("SELECT * FROM consign.erase(ARRAY[$1], 'me', 'why')")
        .bind(id.0)
        .execute(&mut *operator)
        .await
        .unwrap();
    let late = [Report {
        detail: Some("Jane Doe".into()),
        ..Report::delivered(id)
    }];
    let record = store.record_late(lost.token, &late);
    let commit = async {
        eventually("the late result waits", SOON, || async {
            let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted";
            let waiting: i64 = sqlx::query_scalar(waiting)
                .fetch_one(store.pool())
                .await
                .unwrap();
            waiting > 0
        })
        .await;
        operator.commit().await.unwrap();
    };
    let (kept, ()) = tokio::join!(record, commit);
    assert_eq!(kept.unwrap(), [id]);
    assert_eq!(store.late(id).await.unwrap()[0].detail, None);
}

#[tokio::test]
async fn messages_of_a_queue_with_hooks_are_not_erased() {
    let (database, store, ids) = delivered(1).await;
    execute(
        database.url(),
        "UPDATE consign.queue SET hooks = '{\"settled\": \"public.nothing\"}' WHERE name = 'default'",
    )
    .await;
    assert_eq!(erase(&store, ids[0]).await, ErasureAnswer::AppQueue);
    let explained = store.explain(ids[0]).await.unwrap().unwrap();
    assert_eq!(explained.erased, None);
}

const SHOP: &str = "
CREATE SCHEMA shop;
CREATE TABLE shop.gone (id bigint PRIMARY KEY, name text, at timestamptz);
CREATE FUNCTION shop.needed(text, bigint, bigint, timestamptz) RETURNS SETOF bigint
    LANGUAGE sql AS $$ SELECT 1::bigint WHERE 1 >= $2 AND 1 < $3 OR $4 < 'infinity' $$;
CREATE FUNCTION shop.keeps(text) RETURNS text[] LANGUAGE sql AS $$ SELECT '{ref}'::text[] $$;
CREATE FUNCTION shop.erased(text, bigint[], timestamptz) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF 4 = ANY ($2) THEN
        RAISE EXCEPTION 'message 4 cannot be erased';
    END IF;
    INSERT INTO shop.gone SELECT m.id, m.payload->>'name', e.at
        FROM consign.message m JOIN consign.erasure e ON e.message_id = m.id AND e.at = $3 WHERE m.id = ANY ($2);
END $$;
SELECT consign.set_hook('default', 'needed', 'shop.needed');
SELECT consign.set_hook('default', 'keeps', 'shop.keeps');
SELECT consign.set_hook('default', 'erased', 'shop.erased');
";

/// What the app needs for ever stays; its hook and the erasure are one transaction.
#[tokio::test]
async fn an_app_erases_its_rows_with_their_messages() {
    use ErasureAnswer::{AlreadyErased, Erased, Needed};
    let (database, store, ids) = delivered(4).await;
    execute(database.url(), SHOP).await;
    let all = ErasureTarget::Ids(ids.clone());
    store.erase(&all, &by()).await.expect_err("the hook fails");
    let explained = store.explain(ids[1]).await.unwrap().unwrap();
    assert_eq!(explained.erased, None);
    let answers = [(0, Needed), (1, Erased), (1, AlreadyErased), (2, Erased)];
    for (index, answer) in answers {
        assert_eq!(erase(&store, ids[index]).await, answer);
    }
    let seen = store.history(ids[1]).await.unwrap();
    let left = Some(json!({"ref": {"n": 1.50}}));
    assert_eq!((&seen[0].detail, &seen[0].result), (&None, &left));
    let names = "SELECT name FROM shop.gone ORDER BY id";
    let names: Vec<String> = sqlx::query_scalar(names)
        .fetch_all(store.pool())
        .await
        .unwrap();
    assert_eq!(names, ["Jane Doe"; 2], "read before they went");
    let mut owner = PgConnection::connect(database.url()).await.unwrap();
    for forged in ["{\"ref\": {\"n\": 2}}", "{\"ref\": {\"n\": 1.5}, \"a\": 1}"] {
        let sql = format!("UPDATE consign.attempt SET result = '{forged}' WHERE message_id = 2");
        assert_eq!(rejection(&mut owner, &sql).await, "CN009", "{sql}");
    }
    assert_eq!(store.doctor().await.unwrap(), []);
}

#[tokio::test]
async fn content_that_is_written_past_the_triggers_is_found() {
    let (database, store, ids) = delivered(2).await;
    assert_eq!(erase(&store, ids[1]).await, ErasureAnswer::Erased);
    execute(
        database.url(),
        "ALTER TABLE consign.attempt DISABLE TRIGGER erase_only;
         UPDATE consign.attempt SET detail = 'forged'",
    )
    .await;
    let findings = store.doctor().await.unwrap();
    let found = findings.iter().find(|finding| finding.code == "erasure");
    assert_eq!(found.unwrap().ids, ids[1..]);
    assert!(
        findings
            .iter()
            .any(|finding| finding.code == "append_only_off")
    );
}
