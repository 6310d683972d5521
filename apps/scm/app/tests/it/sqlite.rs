//! The ledger in SQLite: its rules, damage, and the plans of frequent queries.

use consign_conformance::fixture::sqlite::SqliteFixture;
use consign_kernel::prelude::*;
use consign_scm::{LedgerError, NewRepo, Provider, ScmLedger as _};

use crate::harness::{scm, sqlite_fixture};

mod rules {
    use crate::{cases::suite, harness::sqlite_fixture};

    suite!(sqlite_fixture);
}

async fn bench() -> SqliteFixture {
    let bench = sqlite_fixture().await;
    let repo = NewRepo {
        provider: Provider::Git,
        url: "/srv/r".to_owned(),
        project_key: None,
        default_branch: None,
    };
    scm(&bench.store).add_repo(&repo).await.unwrap();
    bench
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_damage_to_repositories_is_named() {
    for (damage, code) in [
        (
            "INSERT INTO scm_git_commits (repo_id, commit_sha, author_raw, message) VALUES (1, 'abc', '', '')",
            "scm_counts_wrong",
        ),
        (
            "INSERT INTO scm_patch_blobs (source_type, source_id, uri, sha256, created_at, updated_at) \
             VALUES ('git', '1:abc', 'x', printf('%064d', 0), 0, 0)",
            "scm_counts_wrong",
        ),
        (
            "UPDATE scm_repos SET patches_failed = 1",
            "scm_counts_wrong",
        ),
        (
            "INSERT INTO kv VALUES ('gateway.consume', 'scm_consume:1', '{\"last_processed_id\": 1}', 0)",
            "scm_cursor_ahead",
        ),
        ("DROP TRIGGER consume_ended", "trigger_missing"),
    ] {
        let bench = bench().await;
        assert_eq!(bench.store.doctor().await.unwrap(), []);
        let mut sql = bench.connect().await;
        sqlx::raw_sql(damage).execute(&mut sql).await.unwrap();
        let findings = bench.store.doctor().await.unwrap();
        let codes: Vec<&str> = findings.iter().map(|finding| &*finding.code).collect();
        assert_eq!(codes, [code], "{damage}: {findings:#?}");
    }
}

/// A database that cannot be used is not a record that cannot be stored.
#[tokio::test(flavor = "multi_thread")]
async fn an_unavailable_database_is_reported() {
    let bench = bench().await;
    bench.store.close().await.unwrap();
    let answer = scm(&bench.store).repos().await;
    assert!(
        matches!(answer, Err(LedgerError::Unavailable(_))),
        "{answer:?}"
    );
}

/// A repository may have a million commits: no frequent query scans all of them.
#[tokio::test(flavor = "multi_thread")]
async fn frequent_queries_use_an_index() {
    let bench = bench().await;
    let mut sql = bench.connect().await;
    for statement in [
        include_str!("../../src/store/sqlite/sql/changes.sql"),
        include_str!("../../src/store/sqlite/sql/unmaterialized.sql"),
        include_str!("../../src/store/sqlite/sql/failed_patches.sql"),
        include_str!("../../src/store/sqlite/sql/status.sql"),
        include_str!("../../src/store/sqlite/sql/patches_of.sql"),
        include_str!("../../src/store/sqlite/sql/patch_by_sha.sql"),
        include_str!("../../src/store/sqlite/sql/item.sql"),
        include_str!("../../src/store/sqlite/sql/known.sql"),
    ] {
        let explain = sqlx::AssertSqlSafe(format!("EXPLAIN QUERY PLAN {statement}"));
        let plan: Vec<(i64, i64, i64, String)> =
            sqlx::query_as(explain).fetch_all(&mut sql).await.unwrap();
        for (_, _, _, step) in plan {
            // Repositories and the two names of their cursors are few.
            let few = ["SCAN r", "SCAN f", "SCAN CONSTANT ROW", "SCAN scm_v_facts"];
            let is_walk = step.starts_with("SCAN") && !few.contains(&step.as_str());
            assert!(!is_walk, "{step}: {statement}");
        }
    }
}
