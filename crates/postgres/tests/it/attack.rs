//! Attacks on the promises through SQL: exact interleavings and hostile callers.

use std::time::Duration;

use consign_kernel::{
    By, Claim, ClaimedMessage, Error, MessageId, NewMessage, OnDead, Outcome, QueueName,
    QueuePolicy, Report, SettleAnswer, codes, prelude::*,
};
use consign_postgres::{PostgresStore, enqueue_in};
use consign_testkit::{TestDatabase, eventually};
use serde_json::json;
use sqlx::{Connection, PgConnection};

use crate::harness::{connect, database, execute};

const SOON: Duration = Duration::from_secs(20);

fn by() -> By {
    By::new("test", "test")
}

fn queue() -> QueueName {
    "groups".parse().unwrap()
}

fn grouped() -> NewMessage {
    NewMessage::new(queue(), json!(1)).with_group("g")
}

/// A store with an ordered queue.
async fn ordered() -> (TestDatabase, PostgresStore) {
    let database = database().await;
    let store = connect(&database).await;
    let policy = QueuePolicy {
        ordered: true,
        ..QueuePolicy::default()
    };
    store.put_queue(&queue(), &policy, &by()).await.unwrap();
    (database, store)
}

async fn claim_ids(store: &PostgresStore) -> Vec<MessageId> {
    let lease = store.claim(&Claim::new(queue(), "w", 10)).await.unwrap();
    lease.map_or(Vec::new(), |lease| {
        lease.messages.iter().map(|c| c.message.id).collect()
    })
}

/// Leaves group `g` with an open head and these messages waiting: the settle of the last message
/// meets an enqueue that has not been committed.
async fn open_head(store: &PostgresStore, waiting: usize) -> Vec<MessageId> {
    store.enqueue(&[grouped()]).await.unwrap();
    let lease = store
        .claim(&Claim::new(queue(), "w", 1))
        .await
        .unwrap()
        .unwrap();
    let mut producer = store.pool().begin().await.unwrap();
    let enqueued = enqueue_in(&mut producer, &vec![grouped(); waiting])
        .await
        .unwrap();
    let first = lease.messages[0].message.id;
    store
        .settle(lease.token, &[Report::delivered(first)])
        .await
        .unwrap();
    producer.commit().await.unwrap();
    enqueued.iter().map(|enqueued| enqueued.id).collect()
}

fn default_queue() -> QueueName {
    "default".parse().unwrap()
}

#[tokio::test]
async fn a_producer_cannot_borrow_the_owners_rights_with_types_of_its_own() {
    let database = database().await;
    let mut tx = PgConnection::connect(database.url()).await.unwrap();
    let mut tx = tx.begin().await.unwrap();
    sqlx::raw_sql(
        "CREATE TABLE public.seen (role text);
         GRANT INSERT ON public.seen TO PUBLIC;
         SET LOCAL ROLE consign_producer;
         CREATE FUNCTION pg_temp.spy(v pg_catalog.timestamptz) RETURNS boolean LANGUAGE plpgsql AS
             $$ BEGIN INSERT INTO public.seen VALUES (current_user); RETURN true; END $$;
         CREATE DOMAIN pg_temp.timestamptz AS pg_catalog.timestamptz CHECK (pg_temp.spy(VALUE));
         SELECT consign.enqueue('default', '1');
         RESET ROLE;",
    )
    .execute(&mut *tx)
    .await
    .unwrap();
    let seen: Vec<String> = sqlx::query_scalar("SELECT role FROM public.seen")
        .fetch_all(&mut *tx)
        .await
        .unwrap();
    assert_eq!(
        seen,
        Vec::<String>::new(),
        "a caller's code ran inside consign"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_that_meets_a_claim_leaves_no_message_waiting_for_ever() {
    let (_database, store) = ordered().await;
    let waiting = open_head(&store, 2).await;
    let mut operator = store.pool().begin().await.unwrap();
    sqlx::query("SELECT consign.hold(ARRAY[$1], 'me', 'why')")
        .bind(waiting[0].0)
        .execute(&mut *operator)
        .await
        .unwrap();
    // The claim promotes the message that is being held, and must wait for that.
    let claim = async { claim_ids(&store).await };
    let commit = async {
        eventually("the claim waits for the hold", SOON, || async {
            let blocked: i64 =
                sqlx::query_scalar("SELECT count(*) FROM pg_locks WHERE NOT granted")
                    .fetch_one(store.pool())
                    .await
                    .unwrap();
            blocked > 0
        })
        .await;
        operator.commit().await.unwrap();
    };
    let (claimed, ()) = tokio::join!(claim, commit);
    assert_eq!(claimed, [], "a held message keeps its place");
    assert_eq!(store.doctor().await.unwrap(), []);
    sqlx::query("SELECT consign.unhold(ARRAY[$1], 'me', 'why')")
        .bind(waiting[0].0)
        .execute(store.pool())
        .await
        .unwrap();
    assert_eq!(claim_ids(&store).await, waiting[..1], "it was the head");
}

/// A claim fills an open head while an operator changes the held message that is next: it
/// must not be left as a head after which none is promoted.
#[tokio::test]
async fn a_held_message_that_is_removed_meanwhile_leaves_no_message_waiting() {
    for taken_out in [
        "SELECT consign.unhold(ARRAY[$1], 'me', 'why')",
        "SELECT consign.resolve(ARRAY[$1], 'delivered', 'me', 'why')",
    ] {
        let (_database, store) = ordered().await;
        let waiting = open_head(&store, 2).await;
        sqlx::query("SELECT consign.hold(ARRAY[$1], 'me', 'why')")
            .bind(waiting[0].0)
            .execute(store.pool())
            .await
            .unwrap();
        let mut operator = store.pool().begin().await.unwrap();
        sqlx::query(taken_out)
            .bind(waiting[0].0)
            .execute(&mut *operator)
            .await
            .unwrap();
        assert_eq!(claim_ids(&store).await, [], "the person has a hand on it");
        operator.commit().await.unwrap();
        let next = if taken_out.contains("unhold") {
            &waiting[..1]
        } else {
            &waiting[1..]
        };
        assert_eq!(claim_ids(&store).await, next, "{taken_out}");
        assert_eq!(store.doctor().await.unwrap(), []);
    }
}

#[tokio::test]
async fn what_was_committed_first_is_not_overtaken_at_an_open_head() {
    let (_database, store) = ordered().await;
    let waiting = open_head(&store, 1).await;
    let later = store.enqueue(&[grouped()]).await.unwrap()[0].id;
    assert_eq!(
        claim_ids(&store).await,
        waiting,
        "not {later}, which came later"
    );
}

#[tokio::test]
async fn a_wait_sees_an_open_head() {
    let (_database, store) = ordered().await;
    open_head(&store, 1).await;
    assert!(store.wait(&queue(), SOON).await.unwrap());
}

#[tokio::test]
async fn decisions_are_refused_to_transactions_that_live_in_the_past() {
    let (database, _store) = ordered().await;
    let mut connection = PgConnection::connect(database.url()).await.unwrap();
    for sql in [
        "SELECT consign.claim('groups', 'w', 1)",
        "SELECT consign.expire()",
        "SELECT consign.put_queue('groups', '{}', 'me', 'why')",
        "SELECT consign.hold(ARRAY[1], 'me', 'why')",
        "SELECT consign.unhold(ARRAY[1], 'me', 'why')",
        "SELECT consign.requeue(ARRAY[1], 'me', 'why')",
        "SELECT consign.discard(ARRAY[1], 'me', 'why')",
        "SELECT consign.cancel(ARRAY[1], 'me', 'why')",
        "SELECT consign.skip('groups', 'a', 'me', 'why')",
    ] {
        let mut tx = connection
            .begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ")
            .await
            .unwrap();
        let error = sqlx::raw_sql(sql).execute(&mut *tx).await.unwrap_err();
        assert_eq!(
            error.as_database_error().unwrap().code().unwrap(),
            "CN006",
            "{sql}"
        );
        tx.rollback().await.unwrap();
    }
    // Producers may run at any level: their own business decides.
    let mut tx = connection
        .begin_with("BEGIN ISOLATION LEVEL SERIALIZABLE")
        .await
        .unwrap();
    enqueue_in(&mut tx, &[grouped()]).await.unwrap();
    tx.commit().await.unwrap();
}

#[tokio::test]
async fn a_store_works_where_the_database_defaults_to_another_isolation() {
    let (database, _) = ordered().await;
    let alter = format!(
        "ALTER DATABASE {} SET default_transaction_isolation = 'serializable'",
        database.name()
    );
    let mut connection = PgConnection::connect(database.url()).await.unwrap();
    sqlx::raw_sql(sqlx::AssertSqlSafe(alter))
        .execute(&mut connection)
        .await
        .unwrap();
    let store = connect(&database).await;
    store.enqueue(&[grouped()]).await.unwrap();
    assert_eq!(claim_ids(&store).await.len(), 1);
}

#[tokio::test]
async fn a_change_of_order_gives_up_behind_an_open_enqueue() {
    let (_database, store) = ordered().await;
    let mut producer = store.pool().begin().await.unwrap();
    enqueue_in(&mut producer, &[grouped()]).await.unwrap();
    let error = store
        .put_queue(&queue(), &QueuePolicy::default(), &by())
        .await
        .unwrap_err();
    assert!(matches!(error, Error::QueueNotEmpty { .. }), "{error:?}");
    producer.commit().await.unwrap();
}

/// What works under the old policy could leave a group behind a message that dies.
#[tokio::test]
async fn a_change_of_on_dead_waits_for_an_open_enqueue() {
    let (_database, store) = ordered().await;
    let policy = store.queue(&queue()).await.unwrap().unwrap().policy;
    let continued = QueuePolicy {
        on_dead: OnDead::Continue,
        ..policy.clone()
    };
    let mut producer = store.pool().begin().await.unwrap();
    enqueue_in(&mut producer, &[grouped()]).await.unwrap();
    let error = store.put_queue(&queue(), &continued, &by()).await;
    let error = error.unwrap_err();
    assert!(matches!(error, Error::Locked { .. }), "{error:?}");
    producer.commit().await.unwrap();
    store.put_queue(&queue(), &continued, &by()).await.unwrap();
    store.put_queue(&queue(), &policy, &by()).await.unwrap();
}

/// Every other operation waits meanwhile, so the groups are promoted by the claims that follow.
#[tokio::test]
async fn a_change_to_continue_leaves_most_groups_to_claims() {
    const GROUPS: usize = 1_200;
    let (_database, store) = ordered().await;
    let message = |n: usize| {
        let message = NewMessage::new(queue(), json!(n));
        message.with_group(format!("g{:04}", n % GROUPS))
    };
    let messages: Vec<_> = (0..2 * GROUPS).map(message).collect();
    let sent = store.enqueue(&messages).await.unwrap();
    let claim = Claim::new(queue(), "w", 1_000);
    while let Some(lease) = store.claim(&claim).await.unwrap() {
        let dead = |m: &ClaimedMessage| Report::new(m.message.id, Outcome::Dead);
        let reports: Vec<_> = lease.messages.iter().map(dead).collect();
        store.settle(lease.token, &reports).await.unwrap();
    }
    let policy = store.queue(&queue()).await.unwrap().unwrap().policy;
    let continued = QueuePolicy {
        on_dead: OnDead::Continue,
        ..policy
    };
    store.put_queue(&queue(), &continued, &by()).await.unwrap();
    let open = "SELECT count(*) FROM consign.group_head WHERE message_id IS NULL";
    let open: i64 = sqlx::query_scalar(open)
        .fetch_one(store.pool())
        .await
        .unwrap();
    assert_eq!(open, 200, "as many are filled as by a claim");
    assert_eq!(store.doctor().await.unwrap(), []);
    let last = sent.last().unwrap().id;
    let skipped = store.skip(&queue(), "g1199", &by()).await.unwrap();
    assert_eq!(
        skipped.map(|skipped| skipped.id),
        Some(last),
        "an open head"
    );
    let mut claimed = 0;
    while let Some(lease) = store.claim(&claim).await.unwrap() {
        claimed += lease.messages.len();
    }
    assert_eq!(claimed, GROUPS - 1);
    assert_eq!(store.doctor().await.unwrap(), []);
}

#[tokio::test]
async fn an_unreadable_message_dies_alone() {
    let database = database().await;
    let store = connect(&database).await;
    // Headers are read into numbers of a smaller range than PostgreSQL's. An enqueue rejects such headers, so the
    // owner writes them around it.
    let unreadable = async |headers: &str| {
        let insert = "WITH m AS (INSERT INTO consign.message (created_at, queue, payload, headers)
                          SELECT consign.clock(), 'default', '1', h FROM unnest($1::text::jsonb[]) h RETURNING id)
                      INSERT INTO consign.ready (queue, due_at, isolated, ids, tries, attempts)
                          SELECT 'default', consign.clock(), false, array_agg(id ORDER BY id), array_agg(0), array_agg(0) FROM m
                          RETURNING ids[1]";
        let inserted = sqlx::query_scalar(insert).bind(headers);
        inserted.fetch_one(store.pool()).await.unwrap()
    };
    let bad: i64 = unreadable(r#"{"{\"x\": 1e400}"}"#).await;
    let claim = Claim::new("default".parse().unwrap(), "w", 10);
    assert!(
        store.claim(&claim).await.unwrap().is_none(),
        "nothing readable is left"
    );
    let history = store.history(MessageId(bad)).await.unwrap();
    assert_eq!(history[0].code.as_deref(), Some(codes::UNREADABLE));

    unreadable(r#"{"{\"x\": 1e400}", "{}"}"#).await;
    let lease = store.claim(&claim).await.unwrap().unwrap();
    assert_eq!(lease.messages.len(), 1, "its neighbour is delivered");
    store
        .settle(
            lease.token,
            &[Report::delivered(lease.messages[0].message.id)],
        )
        .await
        .unwrap();
    assert_eq!(store.doctor().await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn producers_of_the_same_keys_in_opposite_order_do_not_deadlock() {
    let database = database().await;
    let store = std::sync::Arc::new(connect(&database).await);
    let keyed = |n: usize| {
        NewMessage::new("default".parse().unwrap(), json!(n)).with_key(format!("{n:04}"))
    };
    for round in 0..10 {
        let up: Vec<_> = (0..500).map(|n| keyed(round * 1_000 + n)).collect();
        let down: Vec<_> = up.iter().rev().cloned().collect();
        let tasks = [up, down].map(|messages| {
            let store = std::sync::Arc::clone(&store);
            tokio::spawn(async move { store.enqueue(&messages).await.map(|answers| answers.len()) })
        });
        for task in tasks {
            assert_eq!(task.await.unwrap().unwrap(), 500);
        }
    }
    assert_eq!(
        store.queues(None, 1_000).await.unwrap()[0].1.ready,
        5_000,
        "one key, one message"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_settle_that_waited_until_its_lease_was_over_records_nothing() {
    let database = database().await;
    let store = std::sync::Arc::new(connect(&database).await);
    store
        .enqueue(&[NewMessage::new(default_queue(), json!(1))])
        .await
        .unwrap();
    let claim = Claim::new(default_queue(), "w", 1).with_ttl(Duration::from_millis(400));
    let lease = store.claim(&claim).await.unwrap().unwrap();

    // Another transaction locks the lease, changes nothing, and releases it after its end.
    let mut other = PgConnection::connect(database.url()).await.unwrap();
    let mut tx = other.begin().await.unwrap();
    sqlx::query("SELECT FROM consign.lease FOR UPDATE")
        .execute(&mut *tx)
        .await
        .unwrap();
    let settle = tokio::spawn({
        let store = std::sync::Arc::clone(&store);
        async move {
            let reports = [Report::delivered(lease.messages[0].message.id)];
            store.settle(lease.token, &reports).await
        }
    });
    eventually(
        "the lease is over and the settle waits",
        Duration::from_secs(10),
        || async {
            let mut connection = PgConnection::connect(database.url()).await.unwrap();
            sqlx::query_scalar::<_, bool>(
                "SELECT (SELECT bool_and(expires_at < clock_timestamp()) FROM consign.lease)
                AND EXISTS (SELECT FROM pg_locks WHERE NOT granted)",
            )
            .fetch_one(&mut connection)
            .await
            .unwrap()
        },
    )
    .await;
    tx.rollback().await.unwrap();
    assert_eq!(settle.await.unwrap().unwrap(), SettleAnswer::LeaseLost);
    assert_eq!(store.doctor().await.unwrap(), []);
}

#[tokio::test]
async fn a_claim_takes_no_more_than_fits_into_one_answer() {
    let database = database().await;
    let store = connect(&database).await;
    let policy = QueuePolicy {
        payload_max_bytes: 64 * 1024 * 1024,
        claim_max_bytes: 50 * 1024 * 1024,
        ..QueuePolicy::default()
    };
    let by = By::new("test", "large payloads");
    store
        .put_queue(&default_queue(), &policy, &by)
        .await
        .unwrap();
    // Made by the server: repeats compress well, so that this costs little disk.
    execute(
        database.url(),
        "SET default_toast_compression = lz4;
         SELECT consign.enqueue('default', to_jsonb(repeat('x', 22 * 1024 * 1024))) FROM generate_series(1, 3)",
    )
    .await;
    let claim = Claim::new(default_queue(), "w", 3);
    let lease = store.claim(&claim).await.unwrap().unwrap();
    assert_eq!(lease.messages.len(), 2, "50 MiB of 22 MiB each");
    let counts = &store.queues(None, 1_000).await.unwrap()[0].1;
    assert_eq!((counts.ready, counts.leased), (1, 2));
}
