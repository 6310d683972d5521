//! Histories that were rewritten.

use serde_json::json;

use crate::stage::{Stage, Work};

/// Issue 7: a force-pushed branch has a defined result. Both through a mirror and directly.
#[tokio::test]
async fn abandoned_commits_stay_and_the_new_ones_are_written() {
    let stage = Stage::new().await;
    let work = Work::new(stage.path("work"));
    let commits = work.commits(3);
    let mut noted = 0;
    for url in [work.url().to_owned(), format!("file://{}", work.url())] {
        work.git(&["reset", "-q", "--hard", &commits[2]]);
        let repo = stage.add(&url, None).await;
        assert_eq!(stage.sync(&repo).await.unwrap().written, 3);
        work.git(&["reset", "-q", "--hard", &commits[0]]);
        let new = work.commit("new", "x\n", "Instead");
        let synced = stage.sync(&repo).await.unwrap();
        assert_eq!((synced.written, synced.known), (1, 0));
        let changes = stage.changes(&repo).await;
        let names: Vec<String> = changes
            .into_iter()
            .map(|change| change.rev_or_sha)
            .collect();
        assert_eq!(names, [&commits[..], std::slice::from_ref(&new)].concat());
        assert_eq!(
            stage.watermark(&repo).await.place["last_commit_sha"],
            json!(new)
        );
        let (event, payload) = stage.events().await.remove(noted);
        assert_eq!(event, "scm_history_rewritten");
        assert_eq!(
            payload,
            json!({"old": commits[2], "new": new, "old_is_gone": false})
        );
        noted += 1;
        // The changes of what was abandoned can still be fetched.
        let source = consign_scm::open(&repo, &stage.options).unwrap();
        let run = stage.synchronizer(&repo, &*source, &consign_scm::NoHooks);
        assert_eq!(run.materialize(None, None).await.unwrap().fetched, 4);
    }
    assert_eq!(stage.events().await.len(), noted, "once each");
}

#[tokio::test]
async fn a_base_that_is_gone_means_the_whole_history_again() {
    let stage = Stage::new().await;
    let work = Work::new(stage.path("work"));
    let commits = work.commits(3);
    let repo = stage.add(work.url(), None).await;
    stage.sync(&repo).await.unwrap();
    work.git(&["reset", "-q", "--hard", &commits[1]]);
    let new = work.commit("new", "x\n", "Instead");
    work.git(&["reflog", "expire", "--expire=now", "--all"]);
    work.git(&["gc", "-q", "--prune=now"]);
    let synced = stage.sync(&repo).await.unwrap();
    assert_eq!((synced.written, synced.known), (1, 2));
    assert_eq!(stage.changes(&repo).await.len(), 4);
    let payload = json!({"old": commits[2], "new": new, "old_is_gone": true});
    assert_eq!(
        stage.events().await,
        [("scm_history_rewritten".to_owned(), payload)]
    );
}

#[tokio::test]
async fn a_branch_that_was_set_back_has_nothing_new() {
    let stage = Stage::new().await;
    let work = Work::new(stage.path("work"));
    let commits = work.commits(3);
    let repo = stage.add(work.url(), None).await;
    stage.sync(&repo).await.unwrap();
    work.git(&["reset", "-q", "--hard", &commits[1]]);
    let synced = stage.sync(&repo).await.unwrap();
    assert_eq!((synced.written, synced.known), (0, 0));
    let place = stage.watermark(&repo).await.place;
    assert_eq!(place["last_commit_sha"], json!(commits[1]));
    work.git(&["reset", "-q", "--hard", &commits[2]]);
    let synced = stage.sync(&repo).await.unwrap();
    assert_eq!(
        (synced.written, synced.known),
        (0, 1),
        "and when it comes back, it is known"
    );
    assert_eq!(stage.events().await.len(), 1);
}
