//! Hooks of a user's own queue: a function in SQL changes the user's rows in the engine's transaction.

use consign_conformance::stage::{Maintenance, done};
use consign_kernel::{
    By, Claim, MessageId, Move, NewMessage, Outcome, RedriveAction, RedrivePlan, Refusal, Report,
    StateKind, Step, prelude::*,
};
use consign_testkit::TestDatabase;
use serde_json::json;
use sqlx::{Connection, PgConnection, Row};

use crate::{
    advice::Login,
    harness::{connect, database, execute},
};

/// Records every event of queue `mail` as `event ids what`.
const SHOP: &str = "
CREATE SCHEMA shop;
CREATE TABLE shop.seen (n bigint GENERATED ALWAYS AS IDENTITY, event text, ids bigint[], what text);
CREATE FUNCTION shop.enqueued(text, bigint[]) RETURNS void
    LANGUAGE sql AS $$ INSERT INTO shop.seen (event, ids) VALUES ('enqueued', $2) $$;
CREATE FUNCTION shop.settled(text, bigint[], bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO shop.seen (event, ids, what)
        SELECT 'settled', $2, string_agg(a.outcome::text, ' ' ORDER BY a.message_id)
            FROM consign.attempt a WHERE a.message_id = ANY ($2) AND a.fence = $3;
    IF EXISTS (SELECT FROM consign.attempt a WHERE a.fence = $3 AND a.code = 'unfit') THEN
        RAISE EXCEPTION 'the shop takes no unfit mail';
    END IF;
END $$;
CREATE FUNCTION shop.moved(text, bigint[], text) RETURNS void
    LANGUAGE sql AS $$ INSERT INTO shop.seen (event, ids, what) VALUES ('moved', $2, $3) $$;
SELECT consign.put_queue('mail', '{\"attempts_max\": 1}', 'ada', 'a queue of the shop');
SELECT consign.set_hook('mail', 'enqueued', 'shop.enqueued');
SELECT consign.set_hook('mail', 'settled', 'shop.settled');
SELECT consign.set_hook('mail', 'moved', 'shop.moved');
";

async fn shop() -> TestDatabase {
    let database = database().await;
    execute(database.url(), SHOP).await;
    database
}

async fn seen(database: &TestDatabase) -> Vec<(String, Vec<i64>, Option<String>)> {
    let mut connection = PgConnection::connect(database.url()).await.unwrap();
    let rows = sqlx::query("SELECT event, ids, what FROM shop.seen ORDER BY n")
        .fetch_all(&mut connection)
        .await
        .unwrap();
    let row = |row: &sqlx::postgres::PgRow| (row.get(0), row.get(1), row.get(2));
    rows.iter().map(row).collect()
}

fn mail(key: &str) -> NewMessage {
    let mut message = NewMessage::new("mail".parse().unwrap(), json!(key));
    message.key = Some(key.to_owned());
    message
}

#[tokio::test]
async fn a_hook_runs_once_per_operation_with_what_changed() {
    let database = shop().await;
    let store = connect(&database).await;
    let first = store.enqueue(&[mail("a"), mail("b")]).await.unwrap();
    let again = store.enqueue(&[mail("b"), mail("c")]).await.unwrap();
    let [a, b, c] = [first[0].id, first[1].id, again[1].id];
    let claim = Claim::new("mail".parse().unwrap(), "w", 10);
    let lease = store.claim(&claim).await.unwrap().unwrap();
    let reports = [
        Report::new(a, Outcome::Delivered),
        Report::new(b, Outcome::Dead),
    ];
    store.settle(lease.token, &reports).await.unwrap();
    // The usual settle, of a whole lease that was delivered, calls the hook too.
    let rest = [Report::new(c, Outcome::Delivered)];
    store.settle(lease.token, &rest).await.unwrap();
    let by = consign_kernel::By::new("ada", "try again");
    store.requeue(&[b], &by).await.unwrap();
    let expected = [
        ("enqueued", vec![a.0, b.0], None),
        ("enqueued", vec![c.0], None),
        ("settled", vec![a.0, b.0], Some("delivered dead")),
        ("settled", vec![c.0], Some("delivered")),
        ("moved", vec![b.0], Some("requeue")),
    ];
    let expected =
        expected.map(|(event, ids, what)| (event.to_owned(), ids, what.map(str::to_owned)));
    assert_eq!(seen(&database).await, expected);
    assert_eq!(store.doctor().await.unwrap(), []);
}

#[tokio::test]
async fn messages_of_a_queue_with_hooks_are_closed_if_it_has_the_hook_for_that() {
    let database = shop().await;
    let store = connect(&database).await;
    let by = By::new("ada", "never mind");
    let [a, b] = [mail("a"), mail("b")];
    let receipts = store.enqueue(&[a, b]).await.unwrap();
    let [a, b] = [receipts[0].id, receipts[1].id];
    let cancelled = store.cancel(&[a], &by).await.unwrap();
    assert_eq!(cancelled[0].answer, Move::AppQueue);
    let claim = Claim::new("mail".parse().unwrap(), "w", 1);
    let lease = store.claim(&claim).await.unwrap().unwrap();
    let dead = [Report::new(a, Outcome::Dead)];
    store.settle(lease.token, &dead).await.unwrap();
    let discarded = store.discard(&[a], &by).await.unwrap();
    assert_eq!(discarded[0].answer, Move::AppQueue);
    let plan = |queue| RedrivePlan {
        action: RedriveAction::Discard,
        queue,
        ..RedrivePlan::default()
    };
    let refused = store.start_redrive(&plan(Some(claim.queue)), &by).await;
    assert_eq!(refused.unwrap_err().code(), "invalid_input");
    store.start_redrive(&plan(None), &by).await.unwrap();
    let done = store.step_redrive(10).await.unwrap().unwrap();
    assert_eq!((done.moved, done.skipped), (0, 1));

    let hook = "CREATE FUNCTION shop.discarded(text, bigint[], text) RETURNS void
                    LANGUAGE sql AS $$ INSERT INTO shop.seen (event, ids, what) VALUES ('discarded', $2, $3) $$;
                SELECT consign.set_hook('mail', 'discarded', 'shop.discarded')";
    execute(database.url(), hook).await;
    let closed = Move::Moved {
        state: StateKind::Discarded,
    };
    let cancelled = store.cancel(&[a, b], &by).await.unwrap();
    assert_eq!(cancelled[1].answer, closed);
    let discarded = store.discard(&[a, b], &by).await.unwrap();
    assert_eq!(discarded[0].answer, closed);
    let event = |id: MessageId, what: &str| ("discarded".into(), vec![id.0], Some(what.into()));
    assert_eq!(
        seen(&database).await[2..],
        [event(b, "cancel"), event(a, "discard")]
    );
    assert_eq!(store.doctor().await.unwrap(), []);
}

#[tokio::test]
async fn a_hook_that_fails_fails_the_operation() {
    let database = shop().await;
    let store = connect(&database).await;
    let id = store.enqueue(&[mail("a")]).await.unwrap()[0].id;
    let claim = Claim::new("mail".parse().unwrap(), "w", 10);
    let lease = store.claim(&claim).await.unwrap().unwrap();
    let mut report = Report::new(id, Outcome::Delivered);
    report.code = Some("unfit".to_owned());
    let error = store.settle(lease.token, &[report]).await.unwrap_err();
    let error = consign_kernel::with_causes(&error);
    assert!(error.contains("the shop takes no unfit mail"), "{error}");
    assert_eq!(store.history(id).await.unwrap(), [], "nothing was written");
    assert_eq!(seen(&database).await.len(), 1, "enqueued only");
    let report = Report::new(id, Outcome::Delivered);
    store.settle(lease.token, &[report]).await.unwrap();
}

#[tokio::test]
async fn only_the_owner_sets_hooks_and_only_to_functions_that_exist() {
    let database = shop().await;
    let mut owner = PgConnection::connect(database.url()).await.unwrap();
    for (call, why) in [
        (
            "SELECT consign.set_hook('mail', 'settled', 'shop.missing')",
            "does not exist",
        ),
        (
            "SELECT consign.set_hook('mail', 'sent', 'shop.settled')",
            "unknown",
        ),
    ] {
        let error = sqlx::raw_sql(call).execute(&mut owner).await.unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    }
    for role in ["consign_producer", "consign_worker", "consign_operator"] {
        let login = Login::create(&database).await;
        login.grant(role).await;
        let mut connection = PgConnection::connect(&login.url()).await.unwrap();
        for attempt in [
            "SELECT consign.set_hook('mail', 'settled', NULL)",
            "UPDATE consign.queue SET hooks = '{}'",
            "UPDATE consign.queue SET workers = '{}'",
        ] {
            let refused = sqlx::raw_sql(attempt).execute(&mut connection).await;
            let error = refused.expect_err(attempt).to_string();
            assert!(error.contains("permission denied"), "{role}: {error}");
        }
        connection.close().await.unwrap();
        login.remove().await;
    }
    let dropped = "DROP FUNCTION shop.moved(text, bigint[], text)";
    sqlx::raw_sql(dropped).execute(&mut owner).await.unwrap();
    let findings = connect(&database).await.doctor().await.unwrap();
    let codes: Vec<&str> = findings.iter().map(|it| it.code.as_str()).collect();
    assert_eq!(codes, ["hook_broken"]);
}

/// The rows of the shop leave with their messages, in pages; what it needs stays.
const RETAIN: &str = "
CREATE TABLE shop.mail (message_id bigint PRIMARY KEY);
CREATE FUNCTION shop.needed(text, bigint, bigint, timestamptz) RETURNS SETOF bigint
    LANGUAGE sql AS $$ SELECT 1::bigint WHERE 1 >= $2 AND 1 < $3 $$;
CREATE FUNCTION shop.departed(text, bigint, bigint, int) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE v_count bigint;
BEGIN
    DELETE FROM shop.mail m WHERE m.message_id = ANY (ARRAY(
        SELECT o.message_id FROM shop.mail o
            WHERE o.message_id >= $2 AND o.message_id < $3
                AND NOT EXISTS (SELECT FROM consign.message c WHERE c.id = o.message_id) ORDER BY 1 LIMIT $4));
    GET DIAGNOSTICS v_count = ROW_COUNT;
    RETURN v_count;
END $$;
CREATE FUNCTION shop.forgotten(text, bigint[]) RETURNS void
    LANGUAGE sql AS $$ INSERT INTO shop.seen (event, ids) VALUES ('forgotten', (SELECT array_agg(u ORDER BY u) FROM unnest($2) u)) $$;
SELECT consign.set_hook('mail', 'needed', 'shop.needed');
SELECT consign.set_hook('mail', 'departed', 'shop.departed');
SELECT consign.set_hook('mail', 'forgotten', 'shop.forgotten');
SELECT consign.put_queue('mail', '{\"keep_ms\": 0, \"keep_keys_ms\": 0, \"archive\": false}', 'ada', 'keeps nothing');
";

#[tokio::test]
async fn rows_of_an_app_leave_after_their_messages() {
    let database = shop().await;
    execute(database.url(), RETAIN).await;
    let store = connect(&database).await;
    let keys: Vec<String> = (0..3).map(|n| n.to_string()).collect();
    let messages: Vec<_> = keys.iter().map(|key| mail(key)).collect();
    store.enqueue(&messages).await.unwrap();
    let claim = Claim::new("mail".parse().unwrap(), "w", 10);
    let lease = store.claim(&claim).await.unwrap().unwrap();
    let ids: Vec<_> = lease.messages.iter().map(|c| c.message.id).collect();
    let reports: Vec<_> = ids.iter().copied().map(Report::delivered).collect();
    store.settle(lease.token, &reports).await.unwrap();
    // Two thousand rows of the second message's neighbours: more than a page.
    let rows = "INSERT INTO shop.mail SELECT g FROM generate_series(1, 2002) g";
    execute(database.url(), rows).await;
    let store: std::sync::Arc<dyn consign_kernel::Store> = std::sync::Arc::new(store);
    let maintenance = Maintenance::lease(&store).await;
    let history = store.queue_history().await.unwrap();
    let history = history.iter().find(|it| it.queue.as_str() == "mail");
    assert_eq!(history.unwrap().may_leave, 2);
    let departure = maintenance.begin_of(2).await;
    let mut left = Vec::new();
    loop {
        let progress = done(Ok(maintenance.step(&departure).await));
        left.push(count(&database, "SELECT count(*) FROM shop.mail").await);
        assert_eq!(store.doctor().await.unwrap(), []);
        if progress.is_over {
            break;
        }
    }
    left.dedup();
    assert_eq!(left, [2002, 1002, 2, 1], "detached, two pages, the rest");
    assert!(store.explain(ids[0]).await.unwrap().is_some(), "needed");
    assert!(store.explain(ids[1]).await.unwrap().is_none());
    assert_eq!(done(store.forget_keys(maintenance.token, 10).await), 2);
    let last = seen(&database).await.pop().unwrap();
    assert_eq!(last, ("forgotten".to_owned(), vec![2, 3], None));
}

/// An app that needs a message since the departure began keeps it.
#[tokio::test]
async fn a_message_that_is_needed_meanwhile_stays() {
    let database = shop().await;
    execute(database.url(), RETAIN).await;
    let store = connect(&database).await;
    store.enqueue(&[mail("a"), mail("b")]).await.unwrap();
    let claim = Claim::new("mail".parse().unwrap(), "w", 10);
    let lease = store.claim(&claim).await.unwrap().unwrap();
    let ids: Vec<_> = lease.messages.iter().map(|c| c.message.id).collect();
    let reports: Vec<_> = ids.iter().copied().map(Report::delivered).collect();
    store.settle(lease.token, &reports).await.unwrap();
    let store: std::sync::Arc<dyn consign_kernel::Store> = std::sync::Arc::new(store);
    let maintenance = Maintenance::lease(&store).await;
    let departure = maintenance.begin_of(1).await;
    execute(
        database.url(),
        "CREATE OR REPLACE FUNCTION shop.needed(text, bigint, bigint, timestamptz) RETURNS SETOF bigint
             LANGUAGE sql AS $$ SELECT m.id FROM consign.message m WHERE m.id >= $2 AND m.id < $3 $$",
    )
    .await;
    let step = maintenance.step(&departure).await;
    assert_eq!(step, Step::Refused(Refusal::Changed));
    assert_eq!(maintenance.begin().await, None);
    for id in ids {
        assert!(store.explain(id).await.unwrap().is_some(), "{id}");
    }
    assert_eq!(store.doctor().await.unwrap(), []);
}

/// A hook that fails leaves the departure where it is; without it the next step goes on.
#[tokio::test]
async fn a_departure_waits_for_a_hook_that_fails() {
    let database = shop().await;
    execute(database.url(), RETAIN).await;
    execute(
        database.url(),
        "CREATE OR REPLACE FUNCTION shop.departed(text, bigint, bigint, int) RETURNS bigint
             LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'the shop is closed'; END $$",
    )
    .await;
    let store = connect(&database).await;
    store.enqueue(&[mail("a"), mail("b")]).await.unwrap();
    let claim = Claim::new("mail".parse().unwrap(), "w", 10);
    let lease = store.claim(&claim).await.unwrap().unwrap();
    let ids = lease.messages.iter().map(|c| c.message.id);
    let reports: Vec<_> = ids.map(Report::delivered).collect();
    store.settle(lease.token, &reports).await.unwrap();
    let store: std::sync::Arc<dyn consign_kernel::Store> = std::sync::Arc::new(store);
    let maintenance = Maintenance::lease(&store).await;
    let departure = maintenance.begin_of(1).await;
    done(Ok(maintenance.step(&departure).await));
    for _ in 0..2 {
        let error = store.depart(maintenance.token, departure.id).await;
        let error = consign_kernel::with_causes(&error.unwrap_err());
        assert!(error.contains("the shop is closed"), "{error}");
    }
    execute(
        database.url(),
        "SELECT consign.set_hook('mail', 'departed', NULL)",
    )
    .await;
    maintenance.depart(&departure).await;
    assert_eq!(maintenance.begin().await, None);
    assert_eq!(store.doctor().await.unwrap(), []);
}

async fn count(database: &TestDatabase, sql: &'static str) -> i64 {
    let mut connection = PgConnection::connect(database.url()).await.unwrap();
    sqlx::query_scalar(sql)
        .fetch_one(&mut connection)
        .await
        .unwrap()
}
