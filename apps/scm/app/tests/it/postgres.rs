//! The ledger in PostgreSQL: its rules, the role of a synchronisation, damage.

use std::{collections::BTreeSet, sync::Arc};

use consign_kernel::NewMessage;
use consign_kernel::prelude::*;
use consign_memory::{Action, AuditFilter, AuditStatus, Logbook as _, NewAudit, NewMemory};
use consign_postgres::PostgresStore;
use consign_scm::{
    Batch, LedgerError, NewCommit, NewRepo, Patch, PatchFormat, Provider, Records, ScmLedger as _,
    Stream,
};
use consign_scm_app::ScmStore;
use serde_json::json;
use sqlx::{AssertSqlSafe, Connection, PgConnection};

use crate::harness::{connect, database, execute, postgres_options};

mod rules {
    use crate::{cases::suite, harness::postgres_fixture};

    suite!(postgres_fixture);
}

const ROLES: [&str; 6] = [
    "consign_scm",
    "consign_gateway",
    "consign_producer",
    "consign_worker",
    "consign_operator",
    "consign_auditor",
];

const SCM: &[&str] = &["consign_scm"];
const MAKERS: &[&str] = &["consign_scm", "consign_operator"];
const READERS: &[&str] = &[
    "consign_scm",
    "consign_gateway",
    "consign_operator",
    "consign_auditor",
];
/// Of what is not about repositories: not the synchronisation.
const GATEWAY: &[&str] = &["consign_gateway"];
const WATCHERS: &[&str] = &["consign_operator", "consign_auditor"];
const NOBODY: &[&str] = &[];

/// What is tried by every role, and for whom it works.
#[rustfmt::skip]
const TRIES: &[(&str, &[&str])] = &[
    ("SELECT scm.add_repo('git', '/srv/other')", MAKERS),
    ("SELECT scm.record_commits(1, 'git_cursor:1', NULL, '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}')", SCM),
    ("SELECT scm.put_patch(1, 'abc', NULL, repeat('0', 64))", SCM),
    ("SELECT scm.note(1, 'x')", SCM),
    ("SELECT scm.sync_ended(1, true)", SCM),
    ("SELECT scm.consume_ended(1, true)", GATEWAY),
    ("SELECT scm.step_ended(1, 'sync', true, NULL, NULL)", NOBODY),
    ("SELECT scm.watermark('git_cursor:1'), scm.status()", READERS),
    ("SELECT * FROM scm.steps, scm.repos, scm.git_commits, scm.svn_revisions, scm.patch_blobs, scm.mrs, scm.review_events", READERS),
    ("SELECT * FROM scm.v_facts", READERS),
    ("INSERT INTO scm.repos (repo_type, provider, url) VALUES ('git', 'git', 'x')", NOBODY),
    ("DELETE FROM scm.git_commits", NOBODY),
    ("SELECT scm.close_batch(1, 'git_cursor:1', '{}')", NOBODY),
    ("CREATE TABLE scm.mine ()", NOBODY),
    // The outbox, settings and audits, and every value but the watermarks are none of its business.
    ("SELECT consign.enqueue('default', '1')", &["consign_producer"]),
    ("SELECT logbook.enqueue_memory('text', 'team:p')", GATEWAY),
    ("SELECT logbook.set_kv('gateway.consume', 'scm_consume:1', '{}')", GATEWAY),
    ("SELECT logbook.set_kv('scm.sync', 'git_cursor:1', '{}')", NOBODY),
    ("SELECT logbook.get_kv('gateway.consume', 'scm_consume:1')", &["consign_gateway", "consign_operator", "consign_auditor"]),
    ("SELECT * FROM logbook.kv", WATCHERS),
    ("SELECT * FROM consign.message", WATCHERS),
    ("SELECT * FROM governance.write_audit", WATCHERS),
    ("SELECT governance.insert_write_audit('a', 'team:p', 'allow')", GATEWAY),
    ("SELECT governance.get_or_create_settings('p')", &["consign_gateway", "consign_operator", "consign_auditor"]),
];

/// The grants as they act, not as they are written.
#[tokio::test]
async fn every_role_acts_on_repositories_as_granted() {
    let database = database().await;
    execute(
        database.url(),
        "SELECT scm.add_repo('git', '/srv/r');
         INSERT INTO scm.git_commits (repo_id, commit_sha, author_raw, message) VALUES (1, 'abc', '', '')",
    )
    .await;
    let mut connection = PgConnection::connect(database.url()).await.unwrap();
    for (sql, allowed) in TRIES {
        for role in ROLES {
            let attempt = format!("BEGIN; SET LOCAL ROLE {role}; {sql}");
            let result = sqlx::raw_sql(AssertSqlSafe(attempt))
                .execute(&mut connection)
                .await;
            let done = sqlx::raw_sql("ROLLBACK").execute(&mut connection).await;
            done.unwrap();
            let code = result.as_ref().err().map(|error| {
                let database = error.as_database_error();
                database.unwrap().code().unwrap().into_owned()
            });
            let expected = (!allowed.contains(&role)).then(|| "42501".to_owned());
            assert_eq!(code, expected, "{role}: {sql}: {result:?}");
        }
    }
}

/// Manual calls of the functions cannot fill the table.
#[tokio::test]
async fn the_end_of_a_step_has_a_short_message() {
    let database = database().await;
    execute(
        database.url(),
        "SELECT scm.add_repo('git', '/srv/r');
         SELECT scm.sync_ended(1, false, repeat('C', 5000), repeat('\u{e4}', 5000));
         SELECT scm.consume_ended(1, false, 'C', repeat('m', 5000))",
    )
    .await;
    let store = connect(&database).await;
    let kept: Vec<(String, i32, i32)> =
        sqlx::query_as("SELECT step, length(code), length(message) FROM scm.steps ORDER BY step")
            .fetch_all(store.pool())
            .await
            .unwrap();
    let expected = [("consume", 1, 1000), ("sync", 100, 1000)];
    assert_eq!(
        kept,
        expected.map(|(step, code, message)| (step.to_owned(), code, message))
    );
}

/// A store whose every connection has the role of a synchronisation.
async fn synchroniser(url: &str) -> PostgresStore {
    let sign = if url.contains('?') { '&' } else { '?' };
    let url = format!("{url}{sign}options=-c%20role%3Dconsign_scm");
    let store = PostgresStore::connect(&postgres_options(&url)).await;
    store.unwrap()
}

/// A synchronisation writes what it found and its watermarks, and nothing else.
#[tokio::test]
async fn a_synchronisation_reaches_repositories_and_nothing_else() {
    let database = database().await;
    let store = Arc::new(synchroniser(database.url()).await);
    let ledger = ScmStore::new(Arc::clone(&store));
    let repo = NewRepo {
        provider: Provider::Git,
        url: "/srv/r".to_owned(),
        project_key: None,
        default_branch: None,
    };
    let repo_id = ledger.add_repo(&repo).await.unwrap().repo_id;
    let commit = NewCommit {
        commit_sha: "abc1234".to_owned(),
        author_raw: "a".to_owned(),
        ts: None,
        message: "m".to_owned(),
        is_merge: false,
        bulk_reason: None,
        meta_json: json!({}),
    };
    let batch = Batch {
        repo_id,
        stream: Stream::Git,
        from: None,
        to: json!({}),
        records: Records::Commits(vec![commit]),
    };
    assert_eq!(ledger.record(&batch).await.unwrap().written, 1);
    let patch = Patch {
        repo_id,
        rev_or_sha: "abc1234".to_owned(),
        uri: None,
        sha256: "0".repeat(64),
        size_bytes: None,
        format: PatchFormat::Diff,
        degrade_reason: None,
        error: Some("no".to_owned()),
    };
    ledger.put_patch(&patch).await.unwrap();
    ledger.note(repo_id, "x", &json!({})).await.unwrap();
    assert_eq!(ledger.unmaterialized(repo_id, 0, 10).await.unwrap(), []);
    let failed = ledger.failed_patches(repo_id, (0, 0), 10).await.unwrap();
    assert_eq!(failed[0].attempts, 1);
    assert_eq!(ledger.changes(repo_id, 0, 10).await.unwrap().len(), 1);
    assert_eq!(ledger.status().await.unwrap()[0].changes, 1);
    assert!(ledger.patch(repo_id, "abc1234").await.unwrap().is_some());

    let memory = NewMemory {
        target_space: "team:p".to_owned(),
        payload_md: "text".to_owned(),
        ..NewMemory::default()
    };
    let audit = NewAudit {
        actor_user_id: None,
        target_space: "team:p".to_owned(),
        action: Action::Allow,
        reason: None,
        payload_sha: None,
        evidence_refs_json: json!({}),
        correlation_id: None,
        status: AuditStatus::Success,
    };
    let message = NewMessage::new("default".parse().unwrap(), json!(1));
    let codes: BTreeSet<&str> = [
        store.enqueue_memory(&memory).await.map(drop),
        store.enqueue(&[message]).await.map(drop),
        store.insert_audit(&audit).await.map(drop),
        store.audits(&AuditFilter::default(), 1).await.map(drop),
        store.settings("p").await.map(drop),
        store.set_kv("gateway.consume", "x", &json!({})).await,
        store.get_kv("scm.sync", "git_cursor:1").await.map(drop),
        store.outbox_rows(None, 1).await.map(drop),
    ]
    .into_iter()
    .map(|tried| tried.map_or_else(|error| error.code(), |()| "done"))
    .collect();
    assert_eq!(codes, BTreeSet::from(["forbidden"]));
}

/// A database that cannot be used is not a record that cannot be stored.
#[tokio::test]
async fn an_unavailable_database_is_reported() {
    let database = database().await;
    let store = Arc::new(connect(&database).await);
    store.close().await;
    let answer = ScmStore::new(store).repos().await;
    assert!(
        matches!(answer, Err(LedgerError::Unavailable(_))),
        "{answer:?}"
    );
}

#[tokio::test]
async fn every_kind_of_damage_to_repositories_is_named() {
    for (damage, code) in [
        (
            "INSERT INTO scm.git_commits (repo_id, commit_sha, author_raw, message) VALUES (1, 'abc', '', '')",
            "scm_counts_wrong",
        ),
        (
            "INSERT INTO scm.patch_blobs (source_type, source_id, uri, sha256) VALUES ('git', '1:abc', 'x', repeat('0', 64))",
            "scm_counts_wrong",
        ),
        (
            "UPDATE scm.repos SET patches_failed = 1",
            "scm_counts_wrong",
        ),
        (
            "SELECT logbook.set_kv('gateway.consume', 'scm_consume:1', '{\"last_processed_id\": 1}')",
            "scm_cursor_ahead",
        ),
        (
            "ALTER TABLE governance.write_audit DISABLE TRIGGER move_consume_cursor",
            "memory_guard_off",
        ),
    ] {
        let database = database().await;
        execute(database.url(), "SELECT scm.add_repo('git', '/srv/r')").await;
        let store = connect(&database).await;
        assert_eq!(store.doctor().await.unwrap(), []);
        execute(database.url(), damage).await;
        let findings = store.doctor().await.unwrap();
        let codes: Vec<&str> = findings.iter().map(|finding| &*finding.code).collect();
        assert_eq!(codes, [code], "{damage}: {findings:#?}");
    }
}
