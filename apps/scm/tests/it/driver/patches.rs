//! The changes themselves: fetched while synchronising or later, whole or as numbers.

use std::sync::atomic::Ordering;

use consign_artifacts::sha256_of;
use consign_scm::{Diffs, MaterializeReport, NoHooks, ScmError, ScmLedger, SyncReport};
use serde_json::json;

use super::script::{Script, commit};
use crate::stage::{Stage, Work, git};

fn name(number: u64) -> String {
    format!("{number:040x}")
}

fn missing() -> ScmError {
    ScmError::NotFound {
        source_name: "script".to_owned(),
        detail: "scripted".to_owned(),
    }
}

fn unreachable() -> ScmError {
    ScmError::Network {
        source_name: "script".to_owned(),
        tries: 1,
        detail: "scripted".to_owned(),
    }
}

fn auth() -> ScmError {
    ScmError::Auth {
        source_name: "script".to_owned(),
        detail: "scripted".to_owned(),
    }
}

#[tokio::test]
async fn a_change_equals_gits_output() {
    let stage = Stage::new().await;
    let work = Work::new(stage.path("work"));
    work.commit("a b/\u{fc}", "1\n", "One");
    let second = work.commit("a b/\u{fc}", "1\n2\n", "Two");
    let repo = stage.add(work.url(), None).await;
    stage.sync(&repo).await.unwrap();
    let source = consign_scm::open(&repo, &stage.options).unwrap();
    let run = stage.synchronizer(&repo, &*source, &NoHooks);
    assert_eq!(run.materialize(None, None).await.unwrap().fetched, 2);
    assert_eq!(
        run.materialize(None, None).await.unwrap().fetched,
        0,
        "once"
    );
    let patch = stage
        .store
        .patch(repo.repo_id, &second)
        .await
        .unwrap()
        .unwrap();
    let expected = git(
        &work.0,
        &["show", "--format=", "--full-index", &second],
        b"",
    ) + "\n";
    let key = format!("scm/p/{}/git/{second}/{}.diff", repo.repo_id, patch.sha256);
    assert_eq!(patch.uri.as_deref(), Some(key.as_str()));
    assert_eq!(patch.sha256, sha256_of(expected.as_bytes()));
    assert_eq!(patch.size_bytes, Some(expected.len() as i64));
    assert_eq!(
        stage.artifacts.get(&key, 10_000).await.unwrap(),
        expected.as_bytes()
    );
    assert_eq!(patch.meta_json["materialize_status"], json!("done"));
}

#[tokio::test]
async fn changes_are_fetched_while_synchronising_if_set() {
    let stage = Stage::new().await;
    let repo = stage.add("/scripted", None).await;
    let mut script = Script::new(vec![vec![commit(1), commit(2)], vec![commit(3)]]);
    script.failing.insert(name(2), missing);
    let mut run = stage.synchronizer(&repo, &script, &NoHooks);
    run.options.diffs = Diffs::Now;
    let synced = run.sync().await.unwrap();
    let patches = (synced.patches.fetched, synced.patches.failed);
    assert_eq!((synced.written, patches), (3, (2, 1)), "it goes on");
    let failed = stage
        .store
        .patch(repo.repo_id, &name(2))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(failed.uri, None);
    let error = failed.meta_json["materialize_error"].as_str().unwrap();
    assert!(error.starts_with("SCM_NOT_FOUND"), "{error}");
    // Later it is fetched, in the row of the failure.
    let healed = Script::new(Vec::new());
    let run = stage.synchronizer(&repo, &healed, &NoHooks);
    assert_eq!(run.materialize(None, None).await.unwrap().fetched, 1);
    assert_eq!(
        *healed.requests.lock().unwrap(),
        [name(2)],
        "only what was missing"
    );
    let patch = stage
        .store
        .patch(repo.repo_id, &name(2))
        .await
        .unwrap()
        .unwrap();
    assert_eq!((patch.blob_id, patch.uri.is_some()), (failed.blob_id, true));
}

#[tokio::test]
async fn a_source_out_of_reach_is_tried_three_times_and_not_for_every_change() {
    let stage = Stage::new().await;
    let repo = stage.add("/scripted", None).await;
    let mut script = Script::new(vec![vec![commit(1), commit(2), commit(3)], vec![commit(4)]]);
    script.failing.insert(name(2), unreachable);
    let mut run = stage.synchronizer(&repo, &script, &NoHooks);
    run.options.diffs = Diffs::Now;
    let synced = run.sync().await.unwrap();
    let patches = (synced.patches.fetched, synced.patches.failed);
    assert_eq!(
        (synced.written, patches),
        (4, (1, 1)),
        "all records, one change"
    );
    let requests = std::mem::take(&mut *script.requests.lock().unwrap());
    assert_eq!(requests, [name(1), name(2), name(2), name(2)]);
    assert_eq!(stage.waits.load(Ordering::SeqCst), 2);
    let error = run.materialize(None, None).await.unwrap_err();
    assert!(
        matches!(error, ScmError::Network { tries: 3, .. }),
        "{error}"
    );
    let patch = stage
        .store
        .patch(repo.repo_id, &name(2))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(patch.meta_json["attempts"], json!(2));
    script.failing.clear();
    let run = stage.synchronizer(&repo, &script, &NoHooks);
    // Those behind it were never tried, so they came first and are here.
    assert_eq!(run.materialize(None, None).await.unwrap().fetched, 1);
    assert_eq!(
        run.materialize(None, None).await.unwrap(),
        MaterializeReport::default()
    );
}

#[tokio::test]
async fn refused_credentials_end_fetching_at_once() {
    let stage = Stage::new().await;
    let repo = stage.add("/scripted", None).await;
    let mut script = Script::new(vec![vec![commit(1), commit(2)]]);
    script.failing.insert(name(1), auth);
    let mut run = stage.synchronizer(&repo, &script, &NoHooks);
    run.options.diffs = Diffs::Now;
    assert_eq!(run.sync().await.unwrap_err().code(), "SCM_AUTH_FAILED");
    assert_eq!(*script.requests.lock().unwrap(), [name(1)]);
    assert_eq!(
        run.materialize(None, None).await.unwrap_err().code(),
        "SCM_AUTH_FAILED"
    );
    run.options.diffs = Diffs::Later;
    assert_eq!(
        run.sync().await.unwrap(),
        SyncReport::default(),
        "the records are all there"
    );
}

/// A permanent failure does not block the others.
#[tokio::test]
async fn what_has_failed_too_often_is_left_alone() {
    let stage = Stage::new().await;
    let repo = stage.add("/scripted", None).await;
    let mut script = Script::new(vec![(1..=5).map(commit).collect()]);
    script.failing.insert(name(1), missing);
    let run = stage.synchronizer(&repo, &script, &NoHooks);
    run.sync().await.unwrap();
    // What was never tried comes first.
    let expected = [(0, 1), (1, 0), (1, 0), (1, 0), (1, 0), (0, 1), (0, 0)];
    for expected in expected {
        let done = run.materialize(Some(1), Some(2)).await.unwrap();
        assert_eq!((done.fetched, done.failed), expected);
    }
    assert_eq!(
        run.materialize(None, None).await.unwrap().failed,
        1,
        "unless it is requested"
    );
}

/// A limit without a maximum of attempts: permanent failures are tried in turns, the rest is
/// fetched.
/// However much is new, a share of the limit is for what failed.
#[tokio::test]
async fn a_limit_does_not_stick_at_what_always_fails() {
    let stage = Stage::new().await;
    let repo = stage.add("/scripted", None).await;
    let mut script = Script::new(vec![(1..=6).map(commit).collect()]);
    for number in [1, 2, 4] {
        script.failing.insert(name(number), missing);
    }
    let run = stage.synchronizer(&repo, &script, &NoHooks);
    run.sync().await.unwrap();
    for expected in [[1, 2], [3, 1], [4, 2], [5, 4], [6, 1], [2, 4]] {
        run.materialize(Some(2), None).await.unwrap();
        let requests = std::mem::take(&mut *script.requests.lock().unwrap());
        assert_eq!(requests, expected.map(name));
    }
    // Without a limit, each once, including those that moved behind others by failing.
    run.materialize(None, None).await.unwrap();
    let requests = std::mem::take(&mut *script.requests.lock().unwrap());
    assert_eq!(requests, [1, 2, 4].map(name));
}

#[tokio::test]
async fn what_is_too_large_is_kept_as_numbers() {
    let stage = Stage::new().await;
    let repo = stage.add("/scripted", None).await;
    let mut script = Script::new(vec![vec![commit(1)], vec![commit(2)]]);
    script.diff = "x".repeat(101);
    let mut run = stage.synchronizer(&repo, &script, &NoHooks);
    run.options.diff_bytes_max = 100;
    run.sync().await.unwrap();
    let done = run.materialize(Some(1), None).await.unwrap();
    assert_eq!((done.fetched, done.degraded), (1, 1));
    let patch = stage
        .store
        .patch(repo.repo_id, &name(1))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (patch.format.as_str(), patch.size_bytes),
        ("diffstat", Some(7))
    );
    assert_eq!(patch.meta_json["degraded"], json!(true));
    assert_eq!(patch.meta_json["degrade_reason"], json!("too_large:101"));
    script.diffstat = "y".repeat(101);
    let mut run = stage.synchronizer(&repo, &script, &NoHooks);
    run.options.diff_bytes_max = 100;
    assert_eq!(run.materialize(None, None).await.unwrap().degraded, 1);
    let patch = stage
        .store
        .patch(repo.repo_id, &name(2))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(patch.format, "ministat");
    let drafts = std::fs::read_dir(stage.path("artifacts/.drafts")).unwrap();
    assert_eq!(drafts.count(), 0, "nothing is left of what was too large");
}

#[tokio::test]
async fn a_diff_of_200_megabytes_becomes_a_diffstat() {
    let stage = Stage::new().await;
    let work = Work::new(stage.path("work"));
    let lines = [&[b'x'; 99][..], b"\n"].concat().repeat(2_000_000);
    let header = format!("blob\nmark :1\ndata {}\n", lines.len());
    let mut stream = [header.as_bytes(), &lines].concat();
    drop(lines);
    let commit = "commit refs/heads/main\ncommitter C <c@x> 1700000000 +0000\ndata 1\nx\nM 100644 :1 large\n";
    stream.extend_from_slice(commit.as_bytes());
    git(
        &work.0,
        &["-c", "core.bigFileThreshold=1g", "fast-import", "--quiet"],
        &stream,
    );
    drop(stream);
    let repo = stage.add(work.url(), None).await;
    stage.sync(&repo).await.unwrap();
    let changes = stage.changes(&repo).await;
    assert_eq!(
        changes[0].bulk_reason.as_deref(),
        Some("large_diff:2000000")
    );
    let source = consign_scm::open(&repo, &stage.options).unwrap();
    let run = stage.synchronizer(&repo, &*source, &NoHooks);
    assert_eq!(run.materialize(None, None).await.unwrap().degraded, 1);
    let patch = stage
        .store
        .patch(repo.repo_id, &changes[0].rev_or_sha)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(patch.format, "diffstat");
    let reason = patch.meta_json["degrade_reason"].as_str().unwrap();
    let bytes: u64 = reason.strip_prefix("too_large:").unwrap().parse().unwrap();
    assert!((202_000_000..203_000_000).contains(&bytes), "{reason}");
    let stat = stage
        .artifacts
        .get(&patch.uri.unwrap(), 10_000)
        .await
        .unwrap();
    let stat = String::from_utf8(stat).unwrap();
    assert!(
        stat.contains("1 file changed, 2000000 insertions(+)"),
        "{stat}"
    );
}
