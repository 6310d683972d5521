//! Taking over the tables of the design that deleted on claim.

use sqlx::Row;

use super::{Fixture, refusal};

/// The former tables, with one payment for every state there.
const FORMER: &str = "
CREATE SCHEMA former;
CREATE TYPE former.outbox_attempt_state AS ENUM ('DISPATCHING', 'DISPATCHED', 'RETRYABLE', 'FAILED', 'ZOMBIE_REQUEUE');
CREATE TABLE former.payment_outbox_pending (
    outbox_id uuid PRIMARY KEY DEFAULT gen_random_uuid(), instruction_id text NOT NULL, participant_id text NOT NULL,
    sequence_id bigint NOT NULL, idempotency_key text NOT NULL, rail_type text NOT NULL, payload jsonb NOT NULL,
    attempt_count int NOT NULL DEFAULT 0, next_attempt_at timestamptz NOT NULL DEFAULT now(), created_at timestamptz NOT NULL DEFAULT now());
CREATE TABLE former.payment_outbox_attempts (
    attempt_id uuid PRIMARY KEY DEFAULT gen_random_uuid(), outbox_id uuid NOT NULL, instruction_id text NOT NULL,
    participant_id text NOT NULL, sequence_id bigint NOT NULL, idempotency_key text NOT NULL, rail_type text NOT NULL,
    payload jsonb NOT NULL, attempt_no int NOT NULL, state former.outbox_attempt_state NOT NULL,
    claimed_at timestamptz NOT NULL DEFAULT now(), completed_at timestamptz, rail_reference text, rail_code text, error_code text,
    error_message text, latency_ms int, worker_id text, created_at timestamptz NOT NULL DEFAULT now());
CREATE FUNCTION former.tried(p_number int, p_states text[]) RETURNS void LANGUAGE sql AS $$
    INSERT INTO former.payment_outbox_attempts (outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type,
                                                payload, attempt_no, state, rail_reference, error_code)
    SELECT ('00000000-0000-4000-8000-00000000000' || p_number)::uuid, 'i' || p_number, 'p', p_number, 'k', 'PAYMENT',
           '{\"amount_minor\": 5}', ord, state::former.outbox_attempt_state, CASE WHEN state = 'DISPATCHED' THEN 'ref-' || p_number END,
           CASE WHEN state IN ('RETRYABLE', 'FAILED') THEN 'E_' || state END
        FROM unnest(p_states) WITH ORDINALITY AS s (state, ord) $$;
SELECT former.tried(1, '{DISPATCHING}');
SELECT former.tried(2, '{DISPATCHING,RETRYABLE}');
SELECT former.tried(3, '{DISPATCHING,RETRYABLE,DISPATCHING,DISPATCHED}');
SELECT former.tried(4, '{DISPATCHING,FAILED}');
SELECT former.tried(5, '{DISPATCHING,RETRYABLE}');
INSERT INTO former.payment_outbox_pending (outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, payload)
    SELECT ('00000000-0000-4000-8000-00000000000' || n)::uuid, 'i' || n, 'p', n, 'k', 'PAYMENT', '{\"amount_minor\": 5}'
        FROM unnest(ARRAY[5, 6, 9]) n;
UPDATE former.payment_outbox_pending SET payload = '[]' WHERE sequence_id = 9;
";

async fn import(fixture: &mut Fixture, is_dry_run: bool) -> Vec<(i32, String)> {
    let rows = sqlx::query(
        "SELECT right(outbox_id::text, 1)::int, action FROM consign.import_payment_outbox('former', $1) ORDER BY 1",
    )
    .bind(is_dry_run)
    .fetch_all(&mut fixture.connection)
    .await
    .unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

fn expected() -> Vec<(i32, String)> {
    let actions = [
        (1, "requeued_dispatching"),
        (2, "requeued_retryable"),
        (3, "finished"),
        (4, "finished"),
        (5, "pending"),
        (6, "pending"),
        (9, "refused"),
    ];
    actions
        .map(|(number, action)| (number, action.to_owned()))
        .into()
}

#[tokio::test]
async fn what_was_in_flight_is_requeued_once_and_what_is_finished_stays() {
    let mut fixture = Fixture::open().await;
    fixture.run(FORMER).await;
    assert_eq!(import(&mut fixture, true).await, expected());
    assert_eq!(
        fixture.count("SELECT count(*) FROM consign.payment").await,
        0,
        "a dry run writes nothing"
    );
    assert_eq!(import(&mut fixture, false).await, expected());
    let states = [
        vec!["ZOMBIE_REQUEUE"],
        vec!["RETRYABLE", "ZOMBIE_REQUEUE"],
        vec!["RETRYABLE", "DISPATCHED"],
        vec!["FAILED"],
        vec!["RETRYABLE"],
        vec![],
    ];
    for (number, states) in (1..).zip(states) {
        let id = uuid::Uuid::parse_str(&format!("00000000-0000-4000-8000-00000000000{number}"));
        assert_eq!(
            fixture.states(id.unwrap()).await,
            states,
            "payment {number}"
        );
    }
    let again = import(&mut fixture, false).await;
    assert!(
        again[..6]
            .iter()
            .all(|(_, action)| action == "already_here"),
        "{again:?}"
    );
    assert_eq!(fixture.findings().await, Vec::<String>::new());
}

/// What may have reached the rail is handed out in doubt; keys and numbers go on where they were.
#[tokio::test]
async fn an_import_goes_on_where_the_former_design_stopped() {
    let mut fixture = Fixture::open().await;
    fixture.run(FORMER).await;
    import(&mut fixture, false).await;
    let mut claimed = fixture.claim(10, "w", 60).await;
    claimed.sort_by_key(|payment| payment.sequence_id);
    let seen: Vec<(i64, bool)> = claimed
        .iter()
        .map(|payment| (payment.sequence_id, payment.in_doubt))
        .collect();
    assert_eq!(seen, [(1, true), (2, false), (5, false), (6, false)]);
    for payment in &claimed {
        fixture.complete(payment, "w", "DISPATCHED").await.unwrap();
    }
    let state = async |fixture: &mut Fixture, key: &'static str| -> (i64, String) {
        let row = sqlx::query("SELECT sequence_id, state FROM consign.enqueue_payment_outbox($1, 'p', 'k', 'PAYMENT', '{\"amount_minor\": 5}')")
            .bind(key)
            .fetch_one(&mut fixture.connection)
            .await
            .unwrap();
        (row.get(0), row.get(1))
    };
    assert_eq!(
        state(&mut fixture, "i3").await,
        (3, "DISPATCHED".to_owned())
    );
    assert_eq!(state(&mut fixture, "i4").await, (4, "FAILED".to_owned()));
    assert_eq!(state(&mut fixture, "new").await, (10, "PENDING".to_owned()));
    assert_eq!(fixture.findings().await, Vec::<String>::new());
}

#[tokio::test]
async fn an_import_needs_the_tables_and_the_owner() {
    let mut fixture = Fixture::open().await;
    for sql in [
        "SELECT consign.import_payment_outbox('nowhere')",
        "SELECT consign.import_payment_outbox(NULL)",
        "SELECT consign.import_payment_outbox('consign')",
    ] {
        assert_eq!(
            refusal(&mut fixture.connection, sql).await,
            "CN006",
            "{sql}"
        );
    }
    fixture.run("SET ROLE symphony_control").await;
    let sql = "SELECT consign.import_payment_outbox('former')";
    assert_eq!(refusal(&mut fixture.connection, sql).await, "42501");
}

/// A row of a payment's former history: its state, its error code, its rail code.
type FormerAttempt = (&'static str, Option<&'static str>, Option<&'static str>);

const TIMEOUT: Option<&str> = Some("DISPATCH_TIMEOUT");
const ERROR: Option<&str> = Some("DISPATCH_ERROR");
const DOWN: Option<&str> = Some("RAIL_DOWN");
const CLAIMED: FormerAttempt = ("DISPATCHING", None, None);
const PAID: FormerAttempt = ("DISPATCHED", None, None);
const ZOMBIE: FormerAttempt = ("ZOMBIE_REQUEUE", Some("ZOMBIE_REQUEUE"), None);

type ImportedState = (
    &'static [FormerAttempt],
    bool,
    &'static str,
    &'static [&'static str],
    Option<bool>,
);

/// Every state of a payment there; with a pending row there or without; what is
/// done with it; how its attempts read here; and whether the next claim is in doubt, if there is one.
#[rustfmt::skip]
const STANDING: &[ImportedState] = &[
    (&[], true, "pending", &[], Some(false)),
    (&[CLAIMED], false, "requeued_dispatching", &["ZOMBIE_REQUEUE"], Some(true)),
    (&[CLAIMED], true, "requeued_dispatching", &["ZOMBIE_REQUEUE"], Some(true)),
    (&[CLAIMED, ("RETRYABLE", DOWN, None), CLAIMED], false, "requeued_dispatching", &["RETRYABLE", "ZOMBIE_REQUEUE"], Some(true)),
    (&[CLAIMED, ("RETRYABLE", DOWN, None)], true, "pending", &["RETRYABLE"], Some(false)),
    (&[CLAIMED, ("RETRYABLE", DOWN, None)], false, "requeued_retryable", &["RETRYABLE", "ZOMBIE_REQUEUE"], Some(false)),
    (&[CLAIMED, ("RETRYABLE", None, Some("R-17"))], false, "requeued_retryable", &["RETRYABLE", "ZOMBIE_REQUEUE"], Some(false)),
    (&[CLAIMED, ("RETRYABLE", TIMEOUT, None)], true, "pending", &["RETRYABLE"], Some(true)),
    (&[CLAIMED, ("RETRYABLE", TIMEOUT, None)], false, "requeued_retryable", &["RETRYABLE", "ZOMBIE_REQUEUE"], Some(true)),
    (&[CLAIMED, ("RETRYABLE", ERROR, Some("R-17"))], true, "pending", &["RETRYABLE"], Some(true)),
    (&[CLAIMED, ("RETRYABLE", None, None)], true, "pending", &["RETRYABLE"], Some(true)),
    (&[CLAIMED, ("RETRYABLE", TIMEOUT, None), CLAIMED, ("RETRYABLE", DOWN, None)], true, "pending", &["RETRYABLE", "RETRYABLE"], Some(true)),
    (&[CLAIMED, ZOMBIE], true, "pending", &["ZOMBIE_REQUEUE"], Some(true)),
    (&[CLAIMED, PAID], false, "finished", &["DISPATCHED"], None),
    (&[CLAIMED, ("RETRYABLE", TIMEOUT, None), CLAIMED, PAID], false, "finished", &["RETRYABLE", "DISPATCHED"], None),
    (&[CLAIMED, PAID], true, "finished", &["DISPATCHED"], None),
    (&[CLAIMED, PAID, CLAIMED], true, "finished", &["DISPATCHED"], None),
    (&[CLAIMED, ("FAILED", Some("INVALID_ACCOUNT"), None)], false, "finished", &["FAILED"], None),
    (&[CLAIMED, ("RETRYABLE", TIMEOUT, None), CLAIMED, ("FAILED", Some("INVALID_ACCOUNT"), None)], false, "finished", &["RETRYABLE", "FAILED"], None),
    (&[CLAIMED, ("FAILED", TIMEOUT, None)], false, "finished", &["FAILED"], None),
];

/// Writes more of a payment's history; its number is its identity.
async fn tried(fixture: &mut Fixture, number: usize, rows: &[FormerAttempt]) {
    for (state, error_code, rail_code) in rows {
        sqlx::query(
            "INSERT INTO former.payment_outbox_attempts (outbox_id, instruction_id, participant_id, sequence_id, idempotency_key,
                 rail_type, payload, attempt_no, state, rail_reference, error_code, rail_code)
             SELECT u.id, 'i' || $1, 'p', $1, 'k', 'PAYMENT', '{\"amount_minor\": 5}',
                 (SELECT count(*) + 1 FROM former.payment_outbox_attempts a WHERE a.outbox_id = u.id), $2::text::former.outbox_attempt_state,
                 CASE $2 WHEN 'DISPATCHED' THEN 'ref-' || $1 END, $3, $4
             FROM (SELECT ('00000000-0000-4000-8000-' || lpad($1::text, 12, '0'))::uuid AS id) u",
        )
        .bind(number as i32)
        .bind(*state)
        .bind(*error_code)
        .bind(*rail_code)
        .execute(&mut fixture.connection)
        .await
        .unwrap();
    }
}

fn id_of(number: usize) -> uuid::Uuid {
    format!("00000000-0000-4000-8000-{number:012}")
        .parse()
        .unwrap()
}

/// A fixture whose former tables are there, and empty.
async fn empty() -> Fixture {
    let mut fixture = Fixture::open().await;
    fixture.run(FORMER).await;
    fixture
        .run("TRUNCATE former.payment_outbox_pending, former.payment_outbox_attempts")
        .await;
    fixture
}

/// Puts a row of a payment into the former queue.
async fn pending(fixture: &mut Fixture, number: usize) {
    sqlx::query(
        "INSERT INTO former.payment_outbox_pending (outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, payload)
         VALUES (('00000000-0000-4000-8000-' || lpad($1::text, 12, '0'))::uuid, 'i' || $1, 'p', $1, 'k', 'PAYMENT', '{\"amount_minor\": 5}')",
    )
    .bind(number as i32)
    .execute(&mut fixture.connection)
    .await
    .unwrap();
}

async fn taken_over(fixture: &mut Fixture) -> Vec<(String, Option<String>)> {
    let sql = "SELECT action, detail FROM consign.import_payment_outbox('former', false) ORDER BY outbox_id";
    let rows = sqlx::query(sql).fetch_all(&mut fixture.connection).await;
    rows.unwrap()
        .iter()
        .map(|row| (row.get(0), row.get(1)))
        .collect()
}

async fn actions(fixture: &mut Fixture) -> Vec<String> {
    let taken = taken_over(fixture).await;
    taken.into_iter().map(|(action, _)| action).collect()
}

#[tokio::test]
async fn imports_every_state_of_the_former_tables() {
    let mut fixture = empty().await;
    for (number, (rows, is_pending, ..)) in (1..).zip(STANDING) {
        tried(&mut fixture, number, rows).await;
        if *is_pending {
            pending(&mut fixture, number).await;
        }
    }
    let expected: Vec<&str> = STANDING.iter().map(|standing| standing.2).collect();
    assert_eq!(actions(&mut fixture).await, expected);
    let again = actions(&mut fixture).await;
    assert!(again.iter().all(|a| a == "already_here"), "{again:?}");
    let claimed = fixture.claim(100, "w", 60).await;
    for (number, (.., states, doubt)) in (1..).zip(STANDING) {
        assert_eq!(fixture.states(id_of(number)).await, *states, "{number}");
        let found = claimed.iter().find(|one| one.outbox_id == id_of(number));
        assert_eq!(found.map(|one| one.in_doubt), *doubt, "{number}");
    }
    assert_eq!(fixture.findings().await, ["payment_failed_in_doubt"]);
    let given_up = "SELECT count(*) FROM consign.payment_outbox_reconcile WHERE kind = 'FAILED_IN_DOUBT' AND outbox_id::text LIKE '%20'";
    assert_eq!(fixture.count(given_up).await, 1, "the last one only");
}

/// Whatever the former relayers did to a payment after it had been taken over is noticed, wherever
/// the payment is here by then.
#[tokio::test]
async fn an_import_notices_what_happened_there_meanwhile() {
    let failed: FormerAttempt = ("FAILED", Some("INVALID_ACCOUNT"), None);
    let down: FormerAttempt = ("RETRYABLE", DOWN, None);
    let hold = "SELECT consign.hold(ARRAY(SELECT message_id FROM consign.payment), 'me', 'look')";
    let fail = "SELECT consign.complete_outbox_attempt(c.outbox_id, c.lease_token, 'w', 'FAILED', NULL, NULL, 'NO') FROM consign.claim_outbox_batch(1, 'w', 60) c";
    let pay = "SELECT consign.complete_outbox_attempt(c.outbox_id, c.lease_token, 'w', 'DISPATCHED', 'ref-1') FROM consign.claim_outbox_batch(1, 'w', 60) c";
    let pay_otherwise = "SELECT consign.complete_outbox_attempt(c.outbox_id, c.lease_token, 'w', 'DISPATCHED', 'other') FROM consign.claim_outbox_batch(1, 'w', 60) c";
    let claim = "SELECT consign.claim_outbox_batch(1, 'w', 60)";
    #[rustfmt::skip]
    let table: [(&str, &[FormerAttempt], &str, &str); 16] = [
        ("", &[CLAIMED, PAID], "paid_there", "DISPATCHED"),
        (hold, &[CLAIMED, PAID], "paid_there", "DISPATCHED"),
        (fail, &[CLAIMED, PAID], "paid_there", "DISPATCHED"),
        (claim, &[CLAIMED, PAID], "refused", "PENDING"),
        (pay, &[CLAIMED, PAID], "already_here", "DISPATCHED"),
        (pay_otherwise, &[CLAIMED, PAID], "paid_twice", "DISPATCHED"),
        ("", &[CLAIMED, failed], "failed_there", "FAILED"),
        (hold, &[CLAIMED, failed], "failed_there", "FAILED"),
        (fail, &[CLAIMED, failed], "failed_there", "FAILED"),
        (claim, &[CLAIMED, failed], "refused", "PENDING"),
        (pay, &[CLAIMED, failed], "already_here", "DISPATCHED"),
        ("", &[CLAIMED], "tried_there", "PENDING"),
        (hold, &[CLAIMED, down], "tried_there", "HELD"),
        (fail, &[CLAIMED, down], "tried_there", "FAILED"),
        (claim, &[CLAIMED, down], "refused", "PENDING"),
        (pay, &[CLAIMED], "already_here", "DISPATCHED"),
    ];
    for (done_here, done_there, action, state) in table {
        let case = format!("{done_here} and {done_there:?}");
        let mut fixture = empty().await;
        pending(&mut fixture, 1).await;
        assert_eq!(actions(&mut fixture).await, ["pending"]);
        fixture.run(done_here).await;
        tried(&mut fixture, 1, done_there).await;
        assert_eq!(actions(&mut fixture).await, [action], "{case}");
        let stands = "SELECT consign.payment_state(message_id) FROM consign.payment";
        let stands: String = sqlx::query_scalar(stands)
            .fetch_one(&mut fixture.connection)
            .await
            .unwrap();
        assert_eq!(stands, state, "{case}");
        let is_told_again = ["refused", "paid_twice"].contains(&action);
        let expected = if is_told_again {
            action
        } else {
            "already_here"
        };
        assert_eq!(actions(&mut fixture).await, [expected], "again: {case}");
        let evidence = fixture.count("SELECT count(*) FROM consign.late").await;
        let is_kept = is_told_again && done_there.contains(&PAID);
        assert_eq!(evidence, i64::from(is_kept), "{case}");
        let findings = fixture.findings().await;
        let alarm = is_kept.then_some("payment_late_unconfirmed");
        assert_eq!(findings, alarm.into_iter().collect::<Vec<_>>(), "{case}");
        if action == "refused" {
            // A worker that leased it here cannot release it as untouched.
            fixture
                .run("SELECT consign.release_outbox_lease(l.token, 'w') FROM consign.lease l")
                .await;
            fixture
                .run("UPDATE consign.lease SET expires_at = claimed_at")
                .await;
        }
        if ["refused", "tried_there"].contains(&action) && state == "PENDING" {
            assert!(fixture.claim_one("w", 60).await.in_doubt, "{case}");
        }
    }
}

/// A requeue here of what had failed there is not undone by another import.
#[tokio::test]
async fn what_was_requeued_here_stays_requeued() {
    let mut fixture = empty().await;
    tried(
        &mut fixture,
        1,
        &[CLAIMED, ("FAILED", Some("INVALID_ACCOUNT"), None)],
    )
    .await;
    assert_eq!(actions(&mut fixture).await, ["finished"]);
    fixture.run("SELECT consign.requeue(ARRAY(SELECT message_id FROM consign.payment), 'me', 'the account exists now')")
        .await;
    assert_eq!(actions(&mut fixture).await, ["already_here"]);
    assert_eq!(fixture.claim(10, "w", 60).await.len(), 1);
}

/// Numbers go on after the largest that was used there, for a payment or by the former sequence; one
/// that was assigned here meanwhile is not assigned twice.
#[tokio::test]
async fn numbers_go_on_after_the_largest_used_there() {
    let mut fixture = empty().await;
    pending(&mut fixture, 3).await;
    fixture.run(
        "CREATE TABLE former.participant_outbox_sequences (participant_id text PRIMARY KEY, next_sequence_id bigint NOT NULL);
         INSERT INTO former.participant_outbox_sequences VALUES ('p', 9), ('silent', 5)",
    )
    .await;
    assert_eq!(actions(&mut fixture).await, ["pending"]);
    let next = async |fixture: &mut Fixture, participant: &'static str| -> i64 {
        sqlx::query_scalar("SELECT sequence_id FROM consign.enqueue_payment_outbox(gen_random_uuid()::text, $1, 'k', 'R', '{}')")
            .bind(participant)
            .fetch_one(&mut fixture.connection)
            .await
            .unwrap()
    };
    assert_eq!(next(&mut fixture, "p").await, 9);
    assert_eq!(next(&mut fixture, "p").await, 10);
    assert_eq!(next(&mut fixture, "silent").await, 5);
    assert_eq!(fixture.findings().await, Vec::<String>::new());

    // The former ingress was not stopped: one number clashes, the others do not.
    for number in [4, 10, 14] {
        pending(&mut fixture, number).await;
    }
    fixture.run("UPDATE former.participant_outbox_sequences SET next_sequence_id = 15 WHERE participant_id = 'p'")
        .await;
    let taken = taken_over(&mut fixture).await;
    let words: Vec<&str> = taken.iter().map(|(action, _)| action.as_str()).collect();
    assert_eq!(words, ["already_here", "pending", "refused", "pending"]);
    let why = taken[2].1.as_deref().unwrap();
    assert!(
        why.starts_with("number 10 of participant p is taken here"),
        "{why}"
    );
    assert_eq!(next(&mut fixture, "p").await, 15);
    assert_eq!(fixture.findings().await, Vec::<String>::new());
}

/// Payments that compliance held in the former system stay held.
#[tokio::test]
async fn what_was_held_there_is_held_here() {
    let mut fixture = empty().await;
    fixture
        .run("ALTER TABLE former.payment_outbox_pending ADD kyc_hold boolean")
        .await;
    pending(&mut fixture, 1).await;
    pending(&mut fixture, 2).await;
    fixture
        .run("UPDATE former.payment_outbox_pending SET kyc_hold = true WHERE sequence_id = 1")
        .await;
    assert_eq!(actions(&mut fixture).await, ["pending", "pending"]);
    assert_eq!(fixture.claim_one("w", 60).await.sequence_id, 2);
    let held = "SELECT count(*) FROM consign.payment_outbox_pending WHERE hold_reason = 'kyc_hold'";
    assert_eq!(fixture.count(held).await, 1);
}
