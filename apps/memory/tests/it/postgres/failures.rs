//! Parts of the logbook that are not available.

use consign_kernel::{Certainty, Error};
use consign_memory::{Action, AuditEnd, AuditStatus, Logbook, NewAudit, NewMemory};
use serde_json::json;

use super::Fixture;
use crate::harness::connect;

fn audit(status: AuditStatus) -> NewAudit {
    NewAudit {
        actor_user_id: None,
        target_space: "team:p".to_owned(),
        action: Action::Allow,
        reason: Some("policy:policy_passed".to_owned()),
        payload_sha: None,
        evidence_refs_json: json!({}),
        correlation_id: Some("corr-0000000000000001".to_owned()),
        status,
    }
}

fn memory() -> NewMemory {
    NewMemory {
        target_space: "team:p".to_owned(),
        payload_md: "text".to_owned(),
        ..NewMemory::default()
    }
}

/// An error and its causes in one line.
fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// Nothing goes on without its audit.
#[tokio::test]
async fn without_the_table_of_audits_nothing_is_audited() {
    let mut fixture = Fixture::open().await;
    let store = connect(&fixture.database).await;
    fixture
        .run("ALTER TABLE governance.write_audit RENAME TO away")
        .await;
    let refused = store.insert_audit(&audit(AuditStatus::Pending)).await;
    assert!(refused.is_err(), "{refused:?}");
    fixture
        .run("ALTER TABLE governance.away RENAME TO write_audit")
        .await;
    store
        .insert_audit(&audit(AuditStatus::Pending))
        .await
        .unwrap();
}

/// An outbox that refuses leaves the audit to its request.
#[tokio::test]
async fn without_the_outbox_nothing_is_put_off() {
    let mut fixture = Fixture::open().await;
    let store = connect(&fixture.database).await;
    store
        .insert_audit(&audit(AuditStatus::Pending))
        .await
        .unwrap();
    let end = AuditEnd {
        status: AuditStatus::Redirected,
        action: Some(Action::Redirect),
        reason: Some("openmemory_write_failed:connection_error".to_owned()),
        patch: json!({}),
    };
    fixture
        .run("ALTER TABLE consign.ready RENAME TO away")
        .await;
    let refused = store.defer(&memory(), "corr-0000000000000001", &end).await;
    assert!(refused.is_err(), "{refused:?}");
    fixture
        .run("ALTER TABLE consign.away RENAME TO ready")
        .await;
    let found = store.audits(&Default::default(), 10).await.unwrap();
    assert_eq!((found.len(), found[0].status), (1, AuditStatus::Pending));
    assert_eq!(store.outbox_rows(None, 10).await.unwrap(), []);
    let failed = AuditEnd {
        status: AuditStatus::Failed,
        ..end
    };
    let ended = store.finalize_audit("corr-0000000000000001", &failed).await;
    assert!(ended.unwrap(), "its request can still end it");
}

/// A statement timeout differs from a failed database.
#[tokio::test]
async fn a_statement_timeout_is_named_in_the_error() {
    let mut fixture = Fixture::open().await;
    let url = format!(
        "{}{}options=-c%20statement_timeout%3D300",
        fixture.database.url(),
        if fixture.database.url().contains('?') {
            "&"
        } else {
            "?"
        }
    );
    let options = crate::harness::options(&url);
    let store = consign_postgres::PostgresStore::connect(&options)
        .await
        .unwrap();
    fixture
        .run("BEGIN; LOCK TABLE consign.message_key IN ACCESS EXCLUSIVE MODE")
        .await;
    let error = store.check_dedup("team:p", "x", None).await.unwrap_err();
    assert!(error.is_retryable(), "{error:?}");
    assert_eq!(error.certainty(), Certainty::Definite);
    let text = chain(&error);
    assert!(text.contains("timed out (SQLSTATE 57014)"), "{text}");
    fixture.run("ROLLBACK").await;
    assert_eq!(store.check_dedup("team:p", "x", None).await.unwrap(), None);

    fixture
        .run("ALTER TABLE consign.message_key RENAME TO away")
        .await;
    let error = store.check_dedup("team:p", "x", None).await.unwrap_err();
    assert!(!chain(&error).contains("timed out"), "{error:?}");
}
