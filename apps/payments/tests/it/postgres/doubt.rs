//! Doubts over SQL: what leaves one, and the errors. The rules themselves are those of
//! conformance; here SQL and Rust are held together.

use consign_kernel::{AttemptOutcome, MessageId, Outcome};
use consign_payments::{AttemptState, Completion, OutboxId, RailResult};
use serde_json::{Value, json};
use sqlx::types::Json;
use uuid::Uuid;

use super::Fixture;

const DOUBTS: [Option<bool>; 3] = [None, Some(true), Some(false)];
const ID: OutboxId = OutboxId(Uuid::from_u128(7));

fn stated(state: AttemptState, reference: Option<&str>, in_doubt: Option<bool>) -> Completion {
    Completion {
        result: RailResult {
            rail_reference: reference.map(str::to_owned),
            ..RailResult::default()
        },
        in_doubt,
        ..Completion::failed(ID, state, "X")
    }
}

/// `consign.leaves_doubt` and `Completion::report`.
#[tokio::test]
async fn sql_and_rust_agree_on_what_leaves_a_doubt() {
    let mut fixture = Fixture::open().await;
    let codes = [
        None,
        Some(""),
        Some(" \t"),
        Some("RAIL_DOWN"),
        Some("DISPATCH_TIMEOUT"),
        Some(" DISPATCH_ERROR "),
        Some("dispatch_error"),
    ];
    for in_doubt in DOUBTS {
        for error_code in codes {
            for rail_code in [None, Some(" "), Some("R-17")] {
                for was_in_doubt in [false, true] {
                    let mut completion = stated(AttemptState::Retryable, None, in_doubt);
                    completion.error_code = error_code.map(str::to_owned);
                    completion.result.rail_code = rail_code.map(str::to_owned);
                    let report = completion.report(MessageId(1), was_in_doubt).unwrap();
                    let sql: bool =
                        sqlx::query_scalar("SELECT consign.leaves_doubt($1, $2, $3, $4)")
                            .bind(in_doubt)
                            .bind(error_code)
                            .bind(rail_code)
                            .bind(was_in_doubt)
                            .fetch_one(&mut fixture.connection)
                            .await
                            .unwrap();
                    let rust = report.outcome == Outcome::Uncertain;
                    let case = (in_doubt, error_code, rail_code, was_in_doubt);
                    assert_eq!(sql, rust, "{case:?}");
                }
            }
        }
    }
}

/// `consign.is_recorded_as` and `Completion::is_recorded_as`.
#[tokio::test]
async fn sql_and_rust_agree_on_what_repeats() {
    use AttemptOutcome::{Dead, Delivered, Retry, Uncertain};
    let mut fixture = Fixture::open().await;
    let results: [Option<Value>; 3] = [
        None,
        Some(json!({"rail_reference": "r-1", "latency_ms": 3})),
        Some(json!({"rail_code": "R-17"})),
    ];
    let sql = "SELECT consign.is_recorded_as(
                   ROW(1, $1::uuid, 1, $2::text::consign.outbox_attempt_state, $3::text, NULL, NULL, NULL, NULL, NULL,
                       $4::boolean)::consign.completion, $5::text::consign.outcome, $6, $7)";
    let mut agreed = [0, 0];
    for outcome in [Delivered, Dead, Retry, Uncertain] {
        for code in [None, Some("RAIL_DOWN"), Some("MISSING_RAIL_REFERENCE")] {
            for result in &results {
                for state in AttemptState::ALL {
                    for reference in [None, Some(" "), Some("r-1"), Some("r-2")] {
                        for in_doubt in DOUBTS {
                            let rust = stated(state, reference, in_doubt).is_recorded_as(
                                outcome,
                                code,
                                result.as_ref(),
                            );
                            let sql: bool = sqlx::query_scalar(sql)
                                .bind(ID.0)
                                .bind(state.as_str())
                                .bind(reference)
                                .bind(in_doubt)
                                .bind(outcome.as_str())
                                .bind(code)
                                .bind(result.as_ref().map(Json))
                                .fetch_one(&mut fixture.connection)
                                .await
                                .unwrap();
                            let case = (outcome, code, result, state, reference, in_doubt);
                            assert_eq!(sql, rust, "{case:?}");
                            agreed[usize::from(rust)] += 1;
                        }
                    }
                }
            }
        }
    }
    assert!(agreed[0] > 100 && agreed[1] > 50, "{agreed:?}");
}

/// A different repeat gets an error with its payments.
#[tokio::test]
async fn a_refusal_names_what_was_recorded_otherwise() {
    let mut fixture = Fixture::frozen().await;
    fixture.enqueue("p", 2).await;
    let claimed = fixture.claim(2, "w", 60).await;
    fixture
        .complete(&claimed[0], "w", "RETRYABLE")
        .await
        .unwrap();
    for (states, code) in [
        ("{DISPATCHED,DISPATCHED}", "P7002"),
        ("{FAILED,DISPATCHED}", "P7002"),
        ("{DISPATCHING,DISPATCHED}", "P7003"),
        ("{ZOMBIE_REQUEUE,DISPATCHED}", "P7003"),
    ] {
        let refused = sqlx::query(
            "SELECT consign.complete_outbox_attempts($1, 'w', ARRAY[$2, $3], $4::text::consign.outbox_attempt_state[], '{r-1,r-2}')",
        )
        .bind(claimed[0].lease_token)
        .bind(claimed[0].outbox_id)
        .bind(claimed[1].outbox_id)
        .bind(states)
        .execute(&mut fixture.connection)
        .await
        .unwrap_err();
        let error = refused.as_database_error().unwrap();
        assert_eq!(error.code().unwrap(), code, "{states}");
        if code == "P7002" {
            let error: &sqlx::postgres::PgDatabaseError = error.downcast_ref();
            let detail: Value = serde_json::from_str(error.detail().unwrap()).unwrap();
            let expected =
                json!({"reason": "recorded_otherwise", "outbox_ids": [claimed[0].outbox_id]});
            assert_eq!(detail, expected, "{states}");
        }
    }
    assert_eq!(
        fixture.count("SELECT count(*) FROM consign.attempt").await,
        1
    );
    assert_eq!(fixture.findings().await, Vec::<String>::new());
}

/// The seed's own three arguments presume that the rail is called.
#[tokio::test]
async fn a_plain_claim_leaves_a_doubt_and_one_that_begins_later_does_not() {
    let mut fixture = Fixture::frozen().await;
    let claims = [
        ("SELECT FROM consign.claim_outbox_batch(1, 'a', 5)", true),
        (
            "SELECT FROM consign.claim_outbox_batch(1, 'a', 5, true)",
            true,
        ),
        (
            "SELECT FROM consign.claim_outbox_batch(1, 'a', 5, NULL)",
            true,
        ),
        (
            "SELECT FROM consign.claim_outbox_batch(1, 'a', 5, p_begin => false)",
            false,
        ),
    ];
    for (n, (sql, in_doubt)) in claims.into_iter().enumerate() {
        fixture.enqueue(&format!("p{n}"), 1).await;
        fixture.run(sql).await;
        fixture.pass(5.0).await;
        let heir = fixture.claim_one("b", 5).await;
        assert_eq!(heir.in_doubt, in_doubt, "{sql}");
        let shown: bool = sqlx::query_scalar(
            "SELECT in_doubt FROM consign.payment_outbox_attempts WHERE outbox_id = $1",
        )
        .bind(heir.outbox_id)
        .fetch_one(&mut fixture.connection)
        .await
        .unwrap();
        assert_eq!(shown, in_doubt, "{sql}");
        fixture.complete(&heir, "b", "DISPATCHED").await.unwrap();
    }
    assert_eq!(fixture.findings().await, Vec::<String>::new());
}
