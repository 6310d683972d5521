//! An erasure beside the deferral of the same text: whichever commits last, no error text is left.

use std::time::Duration;

use consign_conformance::stage::by;
use consign_kernel::{ErasureAnswer, ErasureTarget, MessageId};
use consign_memory::{AuditStatus, payload_sha};
use consign_testkit::eventually;
use serde_json::json;
use sqlx::{Connection, PgConnection};

use crate::{
    cases::fixture::{MemoryFixture, audit, memory},
    harness::postgres_fixture,
};

const SOON: Duration = Duration::from_secs(30);

/// A deferral found the row pending; it is sent and erased before the deferral commits.
#[tokio::test(flavor = "multi_thread")]
async fn an_erasure_waits_for_a_deferral_to_the_same_row() {
    let harness = postgres_fixture().await;
    let fixture = MemoryFixture::new(&harness).await;
    let id = fixture.put_text("text").await;
    fixture.begin(1, "text").await;
    let mut deferral = PgConnection::connect(&harness.url()).await.unwrap();
    let defer = "BEGIN; SELECT logbook.defer_memory('team:p', 'text', '{}', 'corr-c000000000000001', 'redirected', 'redirect',
        'openmemory_write_failed:connection_error', '{\"extra\": {\"last_error\": \"Jane Doe\"}}')";
    sqlx::raw_sql(defer).execute(&mut deferral).await.unwrap();
    fixture.claim("w1", 1).await;
    assert!(fixture.ack(id, "w1", Some("mem-1")).await);
    // Its request's audit is pending for everyone else: what needs the row is not what is tested here.
    let store = harness.postgres();
    sqlx::raw_sql("SELECT consign.set_hook('memory', 'needed', NULL)")
        .execute(store.pool())
        .await
        .unwrap();
    let erasing = {
        let store = fixture.stage.store.clone();
        tokio::spawn(async move {
            let erased = store.erase(&ErasureTarget::Ids(vec![id]), &by()).await;
            erased.unwrap()[0].answer
        })
    };
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    eventually("the erasure waits, or is over", SOON, async || {
        let waiting: i64 = sqlx::query_scalar(waits)
            .fetch_one(store.pool())
            .await
            .unwrap();
        waiting > 0 || erasing.is_finished()
    })
    .await;
    sqlx::raw_sql("COMMIT")
        .execute(&mut deferral)
        .await
        .unwrap();
    assert_eq!(erasing.await.unwrap(), ErasureAnswer::Erased);
    let hook = "SELECT consign.set_hook('memory', 'needed', 'logbook.needed_memories')";
    sqlx::raw_sql(hook).execute(store.pool()).await.unwrap();
    let audits = fixture.audits_of(id).await;
    assert_eq!(audits.len(), 2, "{audits:#?}");
    assert!(!format!("{audits:?}").contains("Jane"), "{audits:#?}");
}

/// An erasure under way makes the deferral wait; then the text gets a row of its own.
#[tokio::test(flavor = "multi_thread")]
async fn a_deferral_waits_for_an_erasure_of_the_same_row() {
    let harness = postgres_fixture().await;
    let fixture = MemoryFixture::new(&harness).await;
    let id = fixture.put_text("text").await;
    fixture.claim("w1", 1).await;
    assert!(fixture.bury(id, "w1", "Jane Doe").await);
    let mut erasing = PgConnection::connect(&harness.url()).await.unwrap();
    let erase = format!("BEGIN; SELECT consign.erase(ARRAY[{id}::bigint], 'ada', 'request 12')");
    sqlx::raw_sql(sqlx::AssertSqlSafe(erase))
        .execute(&mut erasing)
        .await
        .unwrap();
    let book = fixture.book.clone();
    let enqueuing =
        tokio::spawn(async move { book.enqueue_memory(&memory("text")).await.unwrap() });
    let store = harness.postgres();
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    eventually("the enqueue waits", SOON, async || {
        let waiting: i64 = sqlx::query_scalar(waits)
            .fetch_one(store.pool())
            .await
            .unwrap();
        waiting > 0
    })
    .await;
    sqlx::raw_sql("COMMIT").execute(&mut erasing).await.unwrap();
    let enqueued = enqueuing.await.unwrap();
    assert_eq!(enqueued.twin, None);
    assert_ne!(enqueued.outbox_id, MessageId(id.0));
    assert_eq!(fixture.row(id).await.payload_md, "[erased]");
}

/// Of audits about what was erased, and of no others; by the owner too.
#[tokio::test(flavor = "multi_thread")]
async fn plain_sql_removes_error_texts_of_erased_memories_only() {
    let harness = postgres_fixture().await;
    let fixture = MemoryFixture::new(&harness).await;
    let [erased, other] = ["erased", "other"].map(|text| (text, payload_sha(text)));
    let mut ids = Vec::new();
    for (text, _) in [&erased, &other] {
        let id = fixture.put_text(text).await;
        fixture.claim("w1", 1).await;
        assert!(fixture.ack(id, "w1", Some("mem-1")).await);
        ids.push(id);
    }
    assert_eq!(fixture.erase(ids[0]).await, ErasureAnswer::Erased);
    // Written since: about each row, each text without a row, and about another row of the erased text.
    let mut audits = Vec::new();
    for (sha, outbox_id) in [
        (&erased.1, json!(ids[0])),
        (&erased.1, json!(null)),
        (&other.1, json!(ids[1])),
        (&other.1, json!(null)),
        (&erased.1, json!(ids[1])),
    ] {
        let texts = json!({"last_error": "no", "error_message": "no", "error_code": "x"});
        let mut written = audit(7, "", AuditStatus::Failed);
        written.payload_sha = Some(sha.clone());
        written.evidence_refs_json =
            json!({"outbox_id": outbox_id, "extra": texts, "gateway_event": {"extra": texts}});
        audits.push(fixture.write(&written).await);
    }
    let mut sql = PgConnection::connect(&harness.url()).await.unwrap();
    const CLEARED: &str =
        "evidence_refs_json = evidence_refs_json #- '{extra,last_error}' #- '{extra,error_message}'
        #- '{gateway_event,extra,last_error}' #- '{gateway_event,extra,error_message}'";
    for (nth, audit) in audits.iter().enumerate() {
        let mut update = async |change: &str| {
            let update = format!(
                "BEGIN; UPDATE governance.write_audit SET {change} WHERE audit_id = {audit}; ROLLBACK"
            );
            let done = sqlx::raw_sql(sqlx::AssertSqlSafe(update))
                .execute(&mut sql)
                .await;
            if done.is_err() {
                sqlx::raw_sql("ROLLBACK").execute(&mut sql).await.unwrap();
            }
            let code = |error: sqlx::Error| {
                error
                    .as_database_error()
                    .unwrap()
                    .code()
                    .unwrap()
                    .into_owned()
            };
            done.map(drop).map_err(code)
        };
        let expected = if nth < 2 {
            Ok(())
        } else {
            Err("CN009".to_owned())
        };
        assert_eq!(update(CLEARED).await, expected, "{nth}");
        for change in [
            "evidence_refs_json = evidence_refs_json #- '{extra,error_code}'",
            &format!("{CLEARED}, updated_at = now()"),
            &format!("{CLEARED}, reason = 'x'"),
            &format!("{CLEARED}, status = 'success'"),
        ] {
            assert_eq!(
                update(change).await,
                Err("CN009".to_owned()),
                "{nth}: {change}"
            );
        }
    }
}
