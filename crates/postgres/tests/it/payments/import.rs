//! Taking over the tables of the design that deleted on claim.

use sqlx::Row;

use super::{Desk, refusal};

/// The former tables, with one payment for every way in which one can stand there.
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

async fn import(desk: &mut Desk, is_dry_run: bool) -> Vec<(i32, String)> {
    let rows = sqlx::query(
        "SELECT right(outbox_id::text, 1)::int, action FROM consign.import_payment_outbox('former', $1) ORDER BY 1",
    )
    .bind(is_dry_run)
    .fetch_all(&mut desk.connection)
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

/// P-21, CP-39.
#[tokio::test]
async fn what_was_in_flight_is_requeued_once_and_what_is_finished_stays() {
    let mut desk = Desk::open().await;
    desk.run(FORMER).await;
    assert_eq!(import(&mut desk, true).await, expected());
    assert_eq!(
        desk.count("SELECT count(*) FROM consign.payment").await,
        0,
        "a dry run writes nothing"
    );
    assert_eq!(import(&mut desk, false).await, expected());
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
        assert_eq!(desk.states(id.unwrap()).await, states, "payment {number}");
    }
    let again = import(&mut desk, false).await;
    assert!(
        again[..6]
            .iter()
            .all(|(_, action)| action == "already_here"),
        "{again:?}"
    );
    assert_eq!(desk.findings().await, Vec::<String>::new());
}

/// What may have reached the rail is handed out in doubt; keys and numbers go on where they were.
#[tokio::test]
async fn an_import_goes_on_where_the_former_design_stopped() {
    let mut desk = Desk::open().await;
    desk.run(FORMER).await;
    import(&mut desk, false).await;
    let mut claimed = desk.claim(10, "w", 60).await;
    claimed.sort_by_key(|payment| payment.sequence_id);
    let seen: Vec<(i64, bool)> = claimed
        .iter()
        .map(|payment| (payment.sequence_id, payment.in_doubt))
        .collect();
    assert_eq!(seen, [(1, true), (2, false), (5, false), (6, false)]);
    for payment in &claimed {
        desk.complete(payment, "w", "DISPATCHED").await.unwrap();
    }
    let state = async |desk: &mut Desk, key: &'static str| -> (i64, String) {
        let row = sqlx::query("SELECT sequence_id, state FROM consign.enqueue_payment_outbox($1, 'p', 'k', 'PAYMENT', '{\"amount_minor\": 5}')")
            .bind(key)
            .fetch_one(&mut desk.connection)
            .await
            .unwrap();
        (row.get(0), row.get(1))
    };
    assert_eq!(state(&mut desk, "i3").await, (3, "DISPATCHED".to_owned()));
    assert_eq!(state(&mut desk, "i4").await, (4, "FAILED".to_owned()));
    assert_eq!(state(&mut desk, "new").await, (7, "PENDING".to_owned()));
    assert_eq!(desk.findings().await, Vec::<String>::new());
}

#[tokio::test]
async fn an_import_needs_the_tables_and_the_owner() {
    let mut desk = Desk::open().await;
    for sql in [
        "SELECT consign.import_payment_outbox('nowhere')",
        "SELECT consign.import_payment_outbox(NULL)",
        "SELECT consign.import_payment_outbox('consign')",
    ] {
        assert_eq!(refusal(&mut desk.connection, sql).await, "CN006", "{sql}");
    }
    desk.run("SET ROLE symphony_control").await;
    let sql = "SELECT consign.import_payment_outbox('former')";
    assert_eq!(refusal(&mut desk.connection, sql).await, "42501");
}
