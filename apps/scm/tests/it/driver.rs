//! What drives sources: batches, refusals, the end of the process, changes.

mod patches;
mod refused;
mod script;

use std::sync::{Mutex, atomic::AtomicU32};

use async_trait::async_trait;
use consign_scm::{
    Batch, LedgerError, NoHooks, Point, Progress, Records, ScmError, ScmLedger, Stream, SyncHooks,
};
use serde_json::json;

use self::script::{Script, commit};
use crate::stage::{Stage, StopAfter, Work};

/// Whatever batch it ends after, the next run goes on from there, and in the end all is
/// written once and in order.
#[tokio::test]
async fn it_goes_on_from_every_batch() {
    let mut stage = Stage::new().await;
    stage.options.batch_records_max = 3;
    let work = Work::new(stage.path("work"));
    work.commits(10);
    let repo = stage.add(work.url(), None).await;
    let source = consign_scm::open(&repo, &stage.options).unwrap();
    for (run, expected) in [(1, 3), (2, 6), (3, 9)] {
        let hooks = StopAfter {
            stop: &stage.stop,
            batches: Mutex::new(1),
        };
        stage.stop.send_replace(false);
        let synced = stage.synchronizer(&repo, &*source, &hooks).sync().await;
        assert_eq!(synced.unwrap_err().code(), "SCM_STOPPED", "run {run}");
        assert_eq!(stage.changes(&repo).await.len(), expected);
        let place = stage.watermark(&repo).await.place;
        assert_eq!(place["position"], json!(expected));
    }
    // Meanwhile the branch went on: first the old way to its end, then the new one.
    let mut list = work.list();
    list.push(work.commit("more", "x\n", "more"));
    stage.stop.send_replace(false);
    let synced = stage
        .synchronizer(&repo, &*source, &NoHooks)
        .sync()
        .await
        .unwrap();
    assert_eq!((synced.written, synced.known), (2, 0));
    let changes = stage.changes(&repo).await;
    let names: Vec<String> = changes
        .into_iter()
        .map(|change| change.rev_or_sha)
        .collect();
    assert_eq!(names, list);
    assert_eq!(stage.watermark(&repo).await.place.len(), 2);
}

/// The way on which it was stopped is gone, or is another: it begins again, and doubles nothing.
#[tokio::test]
async fn a_place_that_makes_no_sense_any_more_does_no_harm() {
    let mut stage = Stage::new().await;
    stage.options.batch_records_max = 3;
    let work = Work::new(stage.path("work"));
    let commits = work.commits(7);
    let gone = "a".repeat(40);
    let places = [
        json!({"base": null, "target": gone, "position": 3, "last": commits[2]}),
        json!({"base": gone, "target": commits[6], "position": 3, "last": commits[2]}),
        json!({"base": null, "target": commits[6], "position": 3, "last": gone}),
        json!({"base": null, "target": commits[6], "position": 99, "last": commits[2]}),
        json!({"base": null, "target": commits[6], "position": -1, "last": commits[2]}),
        json!({"last_commit_sha": "--all"}),
        json!({"last_commit_sha": 5, "position": "x"}),
    ];
    for (n, place) in places.into_iter().enumerate() {
        // Another name for the same repository.
        let url = format!("{}{}", work.url(), "/".repeat(n + 1));
        let repo = stage.add(&url, None).await;
        let batch = Batch {
            repo_id: repo.repo_id,
            stream: Stream::Git,
            from: None,
            to: json!({"version": 2, "watermark": place, "stats": {}}),
            records: Records::none(Stream::Git),
        };
        stage.store.record(&batch).await.unwrap();
        assert_eq!(stage.sync(&repo).await.unwrap().written, 7, "{place}");
        let end = stage.watermark(&repo).await.place;
        assert_eq!(end["last_commit_sha"], json!(commits[6]), "{place}");
    }
}

/// Two at once: one writes, the other fails.
#[tokio::test]
async fn the_second_writer_fails() {
    struct Second<'a>(&'a Stage, &'a consign_scm::Repo);
    #[async_trait]
    impl SyncHooks for Second<'_> {
        async fn reached(&self, point: Point) {
            if point == Point::AfterFetch {
                self.0.sync(self.1).await.unwrap();
            }
        }
    }
    struct ConcurrentSync<'a>(&'a Stage, &'a consign_scm::Repo, AtomicU32);
    #[async_trait]
    impl SyncHooks for ConcurrentSync<'_> {
        async fn reached(&self, point: Point) {
            let count = self.2.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            if point == Point::AfterBatch && count == 1 {
                self.0.sync(self.1).await.unwrap();
            }
        }
    }
    let mut stage = Stage::new().await;
    stage.options.batch_records_max = 2;
    let work = Work::new(stage.path("work"));
    work.commits(5);
    let repo = stage.add(work.url(), None).await;
    let source = consign_scm::open(&repo, &stage.options).unwrap();
    let between = ConcurrentSync(&stage, &repo, AtomicU32::new(0));
    let error = stage
        .synchronizer(&repo, &*source, &between)
        .sync()
        .await
        .unwrap_err();
    let is_moved = matches!(error, ScmError::Ledger(LedgerError::Moved { .. }));
    assert!(is_moved, "{error}");
    assert_eq!(stage.changes(&repo).await.len(), 5, "by the other one");
    // Before anything was read, there is nothing to collide with.
    work.commits(2);
    let second = Second(&stage, &repo);
    let synced = stage
        .synchronizer(&repo, &*source, &second)
        .sync()
        .await
        .unwrap();
    assert_eq!(synced.written, 0);
    assert_eq!(stage.changes(&repo).await.len(), 7);
}

#[tokio::test]
async fn hooks_report_progress() {
    #[derive(Default)]
    struct SpeedHooks(Mutex<Vec<(u64, Option<u64>)>>);
    impl SyncHooks for SpeedHooks {
        fn progressed(&self, progress: Progress) {
            self.0.lock().unwrap().push((progress.done, progress.total));
        }
    }
    let mut stage = Stage::new().await;
    stage.options.batch_records_max = 4;
    let work = Work::new(stage.path("work"));
    work.commits(10);
    let repo = stage.add(work.url(), None).await;
    let source = consign_scm::open(&repo, &stage.options).unwrap();
    let watching = SpeedHooks::default();
    stage
        .synchronizer(&repo, &*source, &watching)
        .sync()
        .await
        .unwrap();
    let seen = watching.0.into_inner().unwrap();
    assert_eq!(seen, [(4, Some(10)), (8, Some(10)), (10, Some(10))]);
}

/// A source that fails in the middle: what it found before is written.
#[tokio::test]
async fn what_was_found_before_a_failure_is_written() {
    let stage = Stage::new().await;
    let repo = stage.add("/scripted", None).await;
    let mut script = Script::new(vec![vec![commit(1), commit(2)], vec![commit(3)]]);
    script.fails_after_reading = true;
    let error = stage
        .synchronizer(&repo, &script, &NoHooks)
        .sync()
        .await
        .unwrap_err();
    assert_eq!(error.code(), "SCM_PROTOCOL");
    assert_eq!(stage.changes(&repo).await.len(), 3);
    assert_eq!(stage.watermark(&repo).await.place["batch"], json!(2));
    script.fails_after_reading = false;
    let synced = stage
        .synchronizer(&repo, &script, &NoHooks)
        .sync()
        .await
        .unwrap();
    assert_eq!(
        (synced.written, synced.known),
        (0, 0),
        "it goes on after the second batch"
    );
}
