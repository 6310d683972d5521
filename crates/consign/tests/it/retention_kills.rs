//! `consign retention run` killed (SIGKILL) at each of its steps, and the run after it, on each store.

use std::{cell::Cell, collections::BTreeSet};

use consign_kernel::{Claim, MessageId, NewMessage, Outcome, QueuePolicy, Report, Store};
use serde_json::{Value, json};

use crate::{
    leaving_kills::{
        BY_HAND, archived, counts, end_lease, files, is_killed_at, killed_at, next_pass,
    },
    orders::bench::{Bench, Kind, on_both, play},
    support::queue,
};

const RUN: &[&str] = &["retention", "run"];
/// Messages that leave; the last one is dead.
const LEAVING: usize = 6;
/// The points that a departure passes once, in order, before it removes anything.
const POINTS: &[&str] = &[
    "ranges_prepared",
    "departure_begun",
    "archive_written",
    "archive_renamed",
    "archive_committed",
    "archive_recorded",
];
/// Between the writes of a step and its commit. PostgreSQL rolls back what was not committed.
const POINTS_OF_SQLITE: &[&str] = &[
    "before_commit:begin a departure",
    "before_commit:record an archive",
    "before_commit:depart",
    "depart_unfollowed",
    "depart_committed",
    "before_commit:vacuum",
];
/// Rows of an app: more than one call of its hook deletes.
const RECEIPTS: &str = "
    CREATE TABLE public.receipt (message_id bigint NOT NULL, n int NOT NULL);
    INSERT INTO public.receipt SELECT m.id, n FROM message m, generate_series(1, 300) n WHERE m.queue IN ('mail', 'kept');
    CREATE FUNCTION public.depart_receipts(p_queue text, p_first bigint, p_until bigint, p_limit int) RETURNS bigint
        LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
        WITH gone AS (
            DELETE FROM public.receipt r WHERE r.ctid = ANY (ARRAY(
                SELECT s.ctid FROM public.receipt s
                    WHERE s.message_id >= p_first AND s.message_id < p_until AND NOT EXISTS (SELECT FROM consign.message m WHERE m.id = s.message_id) LIMIT p_limit))
                RETURNING 1)
        SELECT count(*) FROM gone $$;
    SELECT consign.set_hook('mail', 'departed', 'public.depart_receipts');";

/// What was enqueued: the messages that leave, and those that stay.
struct History {
    leaving: BTreeSet<i64>,
    staying: BTreeSet<i64>,
}

#[test]
fn a_pass_over_sqlite_that_is_killed_at_any_point_is_finished_by_the_next() {
    for point in POINTS.iter().chain(POINTS_OF_SQLITE) {
        killed(Kind::Sqlite, point);
    }
}

#[test]
fn a_pass_over_postgres_that_is_killed_at_any_point_is_finished_by_the_next() {
    for point in POINTS {
        killed(Kind::Postgres, point);
    }
}

#[test]
fn a_departure_of_sqlite_that_is_killed_after_any_step_is_finished_by_the_next_pass() {
    killed_after_each_step(Kind::Sqlite);
}

#[test]
fn a_departure_of_postgres_that_is_killed_after_any_step_is_finished_by_the_next_pass() {
    killed_after_each_step(Kind::Postgres);
}

/// The ranges are detached, rows of the app deleted, the ranges dropped; or messages are removed slice
/// by slice: each of it is a step, and each in a transaction of its own.
fn killed_after_each_step(kind: Kind) {
    let steps = (1..).take_while(|step| is_killed(kind, &format!("depart_step_{step}")));
    let steps = steps.count();
    assert!(steps >= 3, "{kind:?}: a departure has {steps} steps");
}

fn killed(kind: Kind, point: &str) {
    assert!(is_killed(kind, point), "{point} is not met");
}

/// A pass that is killed if it comes to the point, and the next one.
fn is_killed(kind: Kind, point: &str) -> bool {
    let is_killed = Cell::new(false);
    play(kind, &async |mut bench: Bench| {
        let history = History::make(&mut bench).await;
        is_killed.set(is_killed_at(&bench, RUN, point));
        if is_killed.get() {
            nothing_is_lost(&bench, &history, point).await;
            next_pass(&bench).await;
        }
        has_left_once(&bench, &history, point).await;
    });
    is_killed.get()
}

/// Killed at each point twice, without a pass in between that finishes.
#[test]
fn a_departure_that_is_killed_again_and_again_is_finished_in_the_end() {
    on_both(async |mut bench| {
        let history = History::make(&mut bench).await;
        // What is recorded is not archived again.
        let (recorded, before) = POINTS.split_last().unwrap();
        let twice = before.iter().flat_map(|point| [point, point]);
        for point in twice.chain([recorded]) {
            killed_at(&bench, RUN, point);
            nothing_is_lost(&bench, &history, point).await;
            end_lease(&bench).await;
        }
        let mut steps = 0;
        while is_killed_at(&bench, RUN, "depart_step_1") {
            steps += 1;
            assert!(steps < 20, "no step is done");
            nothing_is_lost(&bench, &history, "depart_step_1").await;
            end_lease(&bench).await;
        }
        has_left_once(&bench, &history, "killed again and again").await;
    });
}

/// Every message is in the database, or it may leave and the archive has it.
async fn nothing_is_lost(bench: &Bench, history: &History, point: &str) {
    let (stored, archived) = (stored(bench), archive(bench));
    let lost = history.leaving.difference(&stored);
    let lost: Vec<_> = lost.filter(|id| !archived.contains(id)).collect();
    assert!(lost.is_empty(), "{point}: {lost:?} are lost");
    assert!(stored.is_superset(&history.staying), "{point}: {stored:?}");
    bench.doctor();
}

/// What may leave is in the archive, once, and no longer in the database.
async fn has_left_once(bench: &Bench, history: &History, point: &str) {
    assert_eq!(stored(bench), history.staying, "{point}");
    assert_eq!(archive(bench), history.leaving, "{point}");
    assert_eq!(files(bench).len(), 2, "{point}: {:?}", files(bench));
    let (left, stays) = (json!(LEAVING), json!(1));
    assert_eq!(counts(bench, "mail"), (left, stays), "{point}");
    assert_eq!(counts(bench, "kept"), (json!(0), json!(1)), "{point}");
    let entries = "SELECT count(*) AS n FROM audit WHERE action = 'depart'";
    assert_eq!(bench.eye().await.number(entries).await, 1, "{point}");
    let dead = "SELECT count(*) AS n FROM dead";
    assert_eq!(bench.eye().await.number(dead).await, 0, "{point}");
    if bench.kind == Kind::Postgres {
        let rows = "SELECT count(DISTINCT message_id) AS n FROM public.receipt";
        assert_eq!(bench.eye().await.number(rows).await, 2, "{point}");
        let detached = "SELECT count(*) AS n FROM pg_class c
            WHERE c.relnamespace = 'consign'::regnamespace AND c.relkind = 'r' AND NOT c.relispartition
                AND c.relname ~ '^(message|attempt|late|audit)_[0-9]+$'";
        assert_eq!(bench.eye().await.number(detached).await, 0, "{point}");
    }
    let first = history.leaving.first().unwrap().to_string();
    bench.consign.run(["show", &first]).expect(4);
    let shown = bench.consign.json(["show", &first, "--archive", "archive"]);
    assert_eq!(shown["attempts"].as_array().unwrap().len(), 1, "{point}");
    // Its key stays, and the next pass has nothing to do.
    let again = ["enqueue", "1", "--queue", "mail", "--key", "key-0"];
    bench.consign.run(again).expect(3);
    assert_eq!(bench.consign.json(RUN.iter().copied())["departed"], 0);
    bench.doctor();
}

/// The messages in the database, each of which must be listed once.
fn stored(bench: &Bench) -> BTreeSet<i64> {
    once(bench.consign.json(["ls"])["items"].as_array().unwrap())
}

fn archive(bench: &Bench) -> BTreeSet<i64> {
    if !bench.consign.folder().join("archive").exists() {
        return BTreeSet::new();
    }
    once(&archived(bench))
}

fn once(listed: &[Value]) -> BTreeSet<i64> {
    let ids: BTreeSet<i64> = listed
        .iter()
        .map(|item| item["id"].as_i64().unwrap())
        .collect();
    assert_eq!(ids.len(), listed.len(), "{listed:?}");
    ids
}

impl History {
    /// A queue whose messages leave at once, with one that is not finished, and a queue that keeps everything.
    async fn make(bench: &mut Bench) -> Self {
        bench.configure(BY_HAND);
        let store = bench.consign.store().await;
        let (mail, kept) = (queue("mail"), queue("kept"));
        let policy = QueuePolicy {
            keep_ms: Some(0),
            keep_dead_ms: Some(0),
            ..QueuePolicy::default()
        };
        let by = consign_kernel::By::new("tess", "test");
        store.put_queue(&mail, &policy, &by).await.unwrap();
        store
            .put_queue(&kept, &QueuePolicy::default(), &by)
            .await
            .unwrap();
        // SQLite removes about 4 MiB in a step.
        let text = "x".repeat(match bench.kind {
            Kind::Sqlite => 900_000,
            Kind::Postgres => 1,
        });
        let letter =
            |n| NewMessage::new(mail.clone(), json!([n, text])).with_key(format!("key-{n}"));
        let mut leaving = Vec::new();
        for n in 0..LEAVING {
            leaving.push(store.enqueue(&[letter(n)]).await.unwrap()[0].id);
            let outcome = if n + 1 < LEAVING {
                Outcome::Delivered
            } else {
                Outcome::Dead
            };
            finish(&*store, &mail, outcome).await;
        }
        let mut staying = vec![
            store
                .enqueue(&[NewMessage::new(kept.clone(), json!(1))])
                .await
                .unwrap()[0]
                .id,
        ];
        finish(&*store, &kept, Outcome::Delivered).await;
        staying.push(
            store
                .enqueue(&[NewMessage::new(mail, json!(1))])
                .await
                .unwrap()[0]
                .id,
        );
        if bench.kind == Kind::Postgres {
            bench.sql().await.run(RECEIPTS).await;
        }
        let numbers = |ids: Vec<MessageId>| ids.into_iter().map(|id| id.0).collect();
        Self {
            leaving: numbers(leaving),
            staying: numbers(staying),
        }
    }
}

async fn finish(store: &dyn Store, queue: &consign_kernel::QueueName, outcome: Outcome) {
    let claim = Claim::new(queue.clone(), "worker-1", 1);
    let lease = store.claim(&claim).await.unwrap().unwrap();
    let report = Report::new(lease.messages[0].message.id, outcome);
    store.settle(lease.token, &[report]).await.unwrap();
}
