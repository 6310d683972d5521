//! Workers and producers in another language, killed at random.

use std::{process::Command, time::Duration};

use consign_testkit::{Child, eventually};

use super::Fixture;

const WORKERS: usize = 16;
const PRODUCERS: usize = 4;
const PAYMENTS: usize = 5_000;
const KILLS: usize = 24;
/// For the next of the kills' marks, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The Python that has psycopg2: the one on the path, or the distribution's own.
fn python() -> &'static str {
    let can_import = |python: &&str| {
        let import = Command::new(*python)
            .args(["-c", "import psycopg2"])
            .output();
        import.is_ok_and(|output| output.status.success())
    };
    ["python3", "/usr/bin/python3"]
        .into_iter()
        .find(can_import)
        .expect(
            "Python with psycopg2: run scripts/require psycopg2, or scripts/test --all, which does",
        )
}

fn start(python: &str, role: &str, url: &str, name: &str, last: usize) -> Child {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/postgres/workers.py");
    let mut command = Command::new(python);
    command
        .args([script, role, url, name])
        .arg(last.to_string());
    Child::start(command)
}

async fn until_dispatched(fixture: &Fixture, payments: usize) {
    let watcher = tokio::sync::Mutex::new(fixture.another().await);
    // The server rests before it looks: looking all the time would hold up what is looked for.
    let count = "SELECT count(*) FROM consign.attempt, (SELECT pg_sleep(0.05)) rest WHERE outcome = 'delivered'";
    eventually("so many are dispatched", PATIENCE, || async {
        let mut watcher = watcher.lock().await;
        let dispatched = sqlx::query_scalar::<_, i64>(count).fetch_one(&mut *watcher);
        dispatched.await.unwrap() >= payments as i64
    })
    .await;
}

/// Numbers that look random and are the same each time.
fn scattered(n: usize) -> usize {
    (n.wrapping_mul(0x9E37_79B9_7F4A_7C15)) >> 33
}

/// A rail that accepts every submission, repeats included, and has a status query.
const RAIL: &str = "CREATE SCHEMA rail;
    CREATE TABLE rail.sent (n bigint GENERATED ALWAYS AS IDENTITY, outbox_id uuid NOT NULL, worker text NOT NULL,
                            reference text GENERATED ALWAYS AS ('rail-' || n) STORED);
    CREATE INDEX ON rail.sent (outbox_id);
    CREATE TABLE rail.queried (outbox_id uuid NOT NULL, found boolean NOT NULL);
    CREATE FUNCTION rail.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'the rail forgets nothing'; END $$;
    CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON rail.sent
        FOR EACH STATEMENT EXECUTE FUNCTION rail.refuse();";

/// What the rail saw: nothing twice, although it would have taken it; and what consign recorded is
/// what the rail says.
async fn each_was_sent_once(fixture: &mut Fixture) {
    let payments = PAYMENTS as i64;
    let sent = "SELECT count(*) FROM rail.sent";
    let different = "SELECT count(DISTINCT outbox_id) FROM rail.sent";
    assert_eq!(fixture.count(different).await, payments, "all were sent");
    assert_eq!(fixture.count(sent).await, payments, "and none twice");
    let same = "SELECT count(*) FROM consign.payment_outbox_attempts a
                JOIN rail.sent s ON s.outbox_id = a.outbox_id AND s.reference = a.rail_reference
                WHERE a.state = 'DISPATCHED'";
    assert_eq!(fixture.count(same).await, payments, "the rail's references");
    let instead = "SELECT count(*) FROM rail.queried WHERE found";
    assert!(
        fixture.count(instead).await > 0,
        "queried instead of sent again"
    );
    let silent = "SELECT count(*) FROM consign.payment_outbox_attempts
                  WHERE state = 'ZOMBIE_REQUEUE' AND in_doubt";
    assert!(fixture.count(silent).await > 0, "kills after the claim");
}

/// The acceptance of the protocol: 16 workers, 5,000 payments, kills at random between claim, call
/// and completion, and a rail that recognises no repetition.
#[tokio::test(flavor = "multi_thread")]
async fn sixteen_workers_in_another_language_with_kills_pay_each_payment_once() {
    let mut fixture = Fixture::open().await;
    fixture.run(RAIL).await;
    let (python, url) = (python(), fixture.database.url().to_owned());
    let mut workers: Vec<Child> = (0..WORKERS)
        .map(|n| start(python, "work", &url, &format!("worker-{}", n % 12), n))
        .collect();
    let mut producers: Vec<Child> = (0..PRODUCERS)
        .map(|n| {
            start(
                python,
                "produce",
                &url,
                &format!("producer-{n}"),
                PAYMENTS / PRODUCERS,
            )
        })
        .collect();
    for kill in 0..KILLS {
        until_dispatched(&fixture, kill * PAYMENTS / (KILLS + 2)).await;
        let victim = scattered(kill + 1) % WORKERS;
        workers[victim].kill9();
        workers[victim] = start(
            python,
            "work",
            &url,
            &format!("worker-{}", victim % 12),
            100 + kill,
        );
        if let Some(producer) = producers.get_mut(kill) {
            producer.kill9();
            let name = format!("producer-{kill}");
            *producer = start(python, "produce", &url, &name, PAYMENTS / PRODUCERS);
        }
    }
    for producer in &mut producers {
        producer.expect_line("produced").await;
    }
    until_dispatched(&fixture, PAYMENTS).await;
    for worker in &mut workers {
        worker.kill9();
    }
    let once = "SELECT count(*) FROM (SELECT outbox_id FROM consign.payment_outbox_attempts GROUP BY 1
                HAVING count(*) FILTER (WHERE state = 'DISPATCHED') = 1 AND min(attempt_no) = 1 AND max(attempt_no) = count(*)) p";
    let payments = PAYMENTS as i64;
    assert_eq!(
        fixture.count("SELECT count(*) FROM consign.payment").await,
        payments
    );
    assert_eq!(
        fixture.count(once).await,
        payments,
        "dispatched once, attempts dense"
    );
    each_was_sent_once(&mut fixture).await;
    let dense = "SELECT count(*) FROM (SELECT participant_id FROM consign.payment GROUP BY 1
                 HAVING count(*) <> max(sequence_id) OR min(sequence_id) <> 1) p";
    assert_eq!(fixture.count(dense).await, 0, "numbers without gaps");
    assert!(
        fixture.count(
            "SELECT count(*) FROM consign.payment_outbox_attempts WHERE state = 'ZOMBIE_REQUEUE'"
        )
        .await
            > 0,
        "the kills hit a worker with a lease"
    );
    let twice = "SELECT count(*) FROM consign.payment_outbox_reconcile WHERE verdict = 'PAID_TWICE' OR kind = 'REUSED_REFERENCE'";
    assert_eq!(fixture.count(twice).await, 0);
    assert_eq!(fixture.findings().await, Vec::<String>::new());
}
