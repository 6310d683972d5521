//! Repositories whose commits are named by SHA-256.

use consign_scm::{NoHooks, Repo};

use crate::stage::{Stage, Work, git};

fn sha256(stage: &Stage, name: &str) -> Work {
    let work = Work(stage.path(name));
    std::fs::create_dir_all(&work.0).unwrap();
    let init = ["init", "-q", "--object-format=sha256", "-b", "main", "."];
    work.git(&init);
    work
}

#[tokio::test]
async fn long_names_are_read_here_and_through_a_mirror() {
    let stage = Stage::new().await;
    let work = sha256(&stage, "work");
    let mut made = work.commits(3);
    assert_eq!(made[0].len(), 64);
    let near = work.url().to_owned();
    let far = format!("file://{near}");
    for url in [near, far] {
        let repo = stage.add(&url, None).await;
        assert_eq!(stage.sync(&repo).await.unwrap().written, made.len() as u64);
        made.push(work.commit("other", &url, "one more"));
        assert_eq!(stage.sync(&repo).await.unwrap().written, 1, "{url}");
        let changes = stage.changes(&repo).await.into_iter();
        let names: Vec<String> = changes.map(|change| change.rev_or_sha).collect();
        assert_eq!(names, made, "{url}");
        let source = consign_scm::open(&repo, &stage.options).unwrap();
        let run = stage.synchronizer(&repo, &*source, &NoHooks);
        let fetched = run.materialize(None, None).await.unwrap().fetched;
        assert_eq!(fetched, made.len() as u64);
    }
    assert_eq!(stage.events().await, [], "nothing was rewritten");
}

/// A repository that was converted has other commits: they are read, the old ones stay.
#[tokio::test]
async fn a_repository_may_change_how_it_names_commits() {
    let stage = Stage::new().await;
    let work = Work::new(stage.path("work"));
    work.commits(2);
    let repo = stage.add(&format!("file://{}", work.url()), None).await;
    assert_eq!(stage.sync(&repo).await.unwrap().written, 2);
    let history = git(&work.0, &["fast-export", "--all"], b"");
    std::fs::remove_dir_all(&work.0).unwrap();
    let work = sha256(&stage, "work");
    git(&work.0, &["fast-import", "--quiet"], history.as_bytes());
    assert_eq!(stage.sync(&repo).await.unwrap().written, 2);
    assert_eq!(stage.sync(&repo).await.unwrap().written, 0);
    assert_eq!(stage.changes(&repo).await.len(), 4);
    let events = stage.events().await;
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(events[0].0, "scm_history_rewritten");
    // The changes of the old ones can still be fetched.
    assert_eq!(fetched(&stage, &repo).await, 4);

    // And back, which is stored already; then an interruption between two renames.
    let root = &stage.options.mirrors_root;
    let mirror = |kind: &str| root.join(format!("{}{kind}.git", repo.repo_id));
    assert!(mirror(".sha1").is_dir());
    std::fs::remove_dir_all(&work.0).unwrap();
    let work = Work::new(stage.path("work"));
    git(&work.0, &["fast-import", "--quiet"], history.as_bytes());
    assert_eq!(stage.sync(&repo).await.unwrap().written, 0);
    assert!(mirror(".sha256").is_dir() && !mirror(".sha1").exists());
    std::fs::rename(mirror(""), mirror(".sha1")).unwrap();
    work.commits(1);
    assert_eq!(stage.sync(&repo).await.unwrap().written, 1);
    assert!(mirror(".sha256").is_dir() && !mirror(".sha1").exists());
    assert_eq!(fetched(&stage, &repo).await, 1);
}

async fn fetched(stage: &Stage, repo: &Repo) -> u64 {
    let source = consign_scm::open(repo, &stage.options).unwrap();
    let run = stage.synchronizer(repo, &*source, &NoHooks);
    run.materialize(None, None).await.unwrap().fetched
}

/// Whatever a server writes, what was fetched from it stays.
#[tokio::test]
async fn a_server_that_lies_about_names_takes_nothing_away() {
    let stage = Stage::new().await;
    let work = Work::new(stage.path("work"));
    let commits = work.commits(3);
    let repo = stage.add(&format!("file://{}", work.url()), None).await;
    stage.sync(&repo).await.unwrap();
    work.git(&["reset", "-q", "--hard", &commits[0]]);
    work.commit("new", "x\n", "Instead");
    assert_eq!(stage.sync(&repo).await.unwrap().written, 1);
    // The program at the other end complains in words of its own choice.
    let lie = "x\nfatal: mismatched algorithms: client sha1; server sha256\n";
    work.git(&["config", "uploadpack.keepAlive", lie]);
    let error = stage.sync(&repo).await.unwrap_err();
    assert_eq!(error.code(), "SCM_PROTOCOL", "{error}");
    let mirror = format!("{}.git", repo.repo_id);
    let mirror = stage.options.mirrors_root.join(mirror);
    let abandoned = format!("refs/consign/abandoned/{}", commits[2]);
    let held = git(&mirror, &["rev-parse", &abandoned], b"");
    assert_eq!(held, commits[2]);
    work.git(&["config", "--unset", "uploadpack.keepAlive"]);
    assert_eq!(stage.sync(&repo).await.unwrap().written, 0);
    assert_eq!(fetched(&stage, &repo).await, 4);
}
