//! Histories that were rewritten, and mirrors that were damaged.

use std::fs;

use serde_json::json;

use crate::stage::{Stage, Work, git};

/// A force-pushed branch, both through a mirror and directly.
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
        "restored commits are stored already"
    );
    assert_eq!(stage.events().await.len(), 1);
}

/// Stopped after it has fetched, before it has named what was abandoned: the next one does.
#[tokio::test]
async fn abandoned_commits_stay_wherever_it_was_stopped() {
    let stage = Stage::new().await;
    let work = Work::new(stage.path("work"));
    let commits = work.commits(3);
    let repo = stage.add(&format!("file://{}", work.url()), None).await;
    stage.sync(&repo).await.unwrap();
    work.git(&["reset", "-q", "--hard", &commits[0]]);
    let new = work.commit("new", "x\n", "Instead");
    let mirror = stage.path(&format!("mirrors/{}.git", repo.repo_id));
    let abandoned = format!("refs/consign/abandoned/{}", commits[2]);
    let in_the_way = mirror.join(format!("{abandoned}.lock/x"));
    fs::create_dir_all(&in_the_way).unwrap();
    let error = stage.sync(&repo).await.unwrap_err();
    assert_eq!(error.code(), "SCM_PROTOCOL", "{error}");
    let tip = git(&mirror, &["rev-parse", "refs/consign/tip"], b"");
    assert_eq!(tip, new, "it has fetched");
    fs::remove_dir_all(in_the_way.parent().unwrap()).unwrap();
    stage.sync(&repo).await.unwrap();
    assert_eq!(git(&mirror, &["rev-parse", &abandoned], b""), commits[2]);
}

/// Half removed, emptied, or cut short when it was made: it is made anew, and what there was is kept.
#[tokio::test]
async fn a_damaged_mirror_is_made_anew() {
    let stage = Stage::new().await;
    let work = Work::new(stage.path("work"));
    work.commits(2);
    let repo = stage.add(&format!("file://{}", work.url()), None).await;
    let mirror = stage.path(&format!("mirrors/{}.git", repo.repo_id));
    let kept = stage.path(&format!("mirrors/{}.damaged.git", repo.repo_id));
    assert_eq!(stage.sync(&repo).await.unwrap().written, 2);
    for gone in ["objects", "refs", "HEAD", "objects/*"] {
        match gone {
            "HEAD" => fs::remove_file(mirror.join("HEAD")).unwrap(),
            "objects/*" => {
                fs::remove_dir_all(mirror.join("objects")).unwrap();
                fs::create_dir(mirror.join("objects")).unwrap();
            }
            folder => fs::remove_dir_all(mirror.join(folder)).unwrap(),
        }
        work.commit("more", gone, "more");
        assert_eq!(stage.sync(&repo).await.unwrap().written, 1, "{gone}");
        assert!(kept.is_dir(), "{gone}");
        // A second time needs an operator.
        fs::remove_file(mirror.join("HEAD")).unwrap();
        let error = stage.sync(&repo).await.unwrap_err();
        assert!(error.to_string().contains("damaged"), "{gone}: {error}");
        fs::remove_dir_all(&kept).unwrap();
        stage.sync(&repo).await.unwrap();
        fs::remove_dir_all(&kept).unwrap();
    }
}
