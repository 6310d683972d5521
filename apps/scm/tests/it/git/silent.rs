//! Silent peers time out.

use std::{fs, process::Command, time::Duration};

use consign_scm::{NoHooks, ScmError, ScmLedger};
use tokio::{net::TcpListener, time::timeout};

use crate::stage::{SOON, Stage, Work};

/// A server that accepts connections and never answers. Without ssh it fails at once.
#[tokio::test]
async fn a_silent_ssh_server_times_out() {
    let mut stage = Stage::new().await;
    stage.options.silence_max = Duration::from_secs(1);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let url = format!("ssh://git@127.0.0.1:{port}/r.git");
    let repo = stage.add(&url, None).await;
    let synced = timeout(SOON, stage.sync(&repo)).await.expect("it ends");
    let error = synced.unwrap_err();
    if Command::new("ssh").arg("-V").output().is_err() {
        assert_eq!(error.code(), "SCM_PROTOCOL", "{error}");
        return;
    }
    assert!(
        matches!(&error, ScmError::Network { tries: 3, detail, .. } if detail.contains("timed out")),
        "{error}"
    );
    assert!(!error.to_string().contains("access rights"), "{error}");
}

/// The remote program never answers: it reads from a pipe without a writer.
#[tokio::test]
async fn a_program_that_is_silent_for_too_long_is_ended() {
    let mut stage = Stage::new().await;
    let work = Work::new(stage.path("work"));
    work.commits(1);
    let repo = stage.add(&format!("file://{}", work.url()), None).await;
    assert_eq!(stage.sync(&repo).await.unwrap().written, 1);
    work.commit("other", "x\n", "one more");
    let refs = work.0.join(".git/packed-refs");
    let made = Command::new("mkfifo").arg(&refs).status().unwrap();
    assert!(made.success());
    stage.options.silence_max = Duration::from_millis(50);
    let synced = timeout(SOON, stage.sync(&repo)).await.expect("it ends");
    let error = synced.unwrap_err();
    assert!(
        matches!(&error, ScmError::Network { tries: 3, detail, .. } if detail.contains("silent")),
        "{error}"
    );
    fs::remove_file(&refs).unwrap();
    stage.options.silence_max = SOON;
    assert_eq!(stage.sync(&repo).await.unwrap().written, 1);
}

/// A pipe where a file should be: the program on this machine never gets to an end.
fn pipe_instead_of(file: &std::path::Path) -> impl FnOnce() + use<> {
    let kept = file.with_extension("kept");
    fs::rename(file, &kept).unwrap();
    let made = Command::new("mkfifo").arg(file).status().unwrap();
    assert!(made.success());
    let file = file.to_owned();
    move || fs::rename(kept, file).unwrap()
}

#[tokio::test]
async fn a_local_repository_without_progress_times_out() {
    let mut stage = Stage::new().await;
    let work = Work::new(stage.path("work"));
    let commit = work.commit("story", "once\n", "One");
    let blob = work.git(&["rev-parse", "HEAD:story"]);
    let blob = format!(".git/objects/{}/{}", &blob[..2], &blob[2..]);
    let repo = stage.add(work.url(), None).await;
    // The name of the branch, then the text that is compared while commits are read.
    for file in [".git/refs/heads/main", &blob] {
        stage.options.silence_max = Duration::from_millis(50);
        let mended = pipe_instead_of(&work.0.join(file));
        let synced = timeout(SOON, stage.sync(&repo)).await.expect("it ends");
        let error = synced.unwrap_err();
        assert_eq!(error.code(), "SCM_TIMEOUT", "{file}: {error}");
        assert!(error.to_string().contains("made no progress"), "{error}");
        mended();
    }
    assert!(stage.changes(&repo).await.is_empty());
    stage.options.silence_max = SOON;
    assert_eq!(stage.sync(&repo).await.unwrap().written, 1);

    let mended = pipe_instead_of(&work.0.join(&blob));
    stage.options.silence_max = Duration::from_millis(50);
    let source = consign_scm::open(&repo, &stage.options).unwrap();
    let run = stage.synchronizer(&repo, &*source, &NoHooks);
    let fetched = timeout(SOON, run.materialize(None, None)).await;
    let error = fetched.expect("it ends").unwrap_err();
    assert_eq!(error.code(), "SCM_TIMEOUT", "{error}");
    let patch = stage.store.patch(repo.repo_id, &commit).await.unwrap();
    let why = patch.unwrap().meta_json["materialize_error"].to_string();
    assert!(why.contains("SCM_TIMEOUT"), "{why}");
    mended();
    stage.options.silence_max = SOON;
    let source = consign_scm::open(&repo, &stage.options).unwrap();
    let run = stage.synchronizer(&repo, &*source, &NoHooks);
    assert_eq!(run.materialize(None, None).await.unwrap().fetched, 1);
}

#[tokio::test]
async fn waiting_for_a_locked_mirror_times_out() {
    let mut stage = Stage::new().await;
    let work = Work::new(stage.path("work"));
    work.commits(1);
    let repo = stage.add(&format!("file://{}", work.url()), None).await;
    fs::create_dir_all(&stage.options.mirrors_root).unwrap();
    let lock = format!("{}.lock", repo.repo_id);
    let held = fs::File::create(stage.options.mirrors_root.join(lock)).unwrap();
    held.lock().unwrap();
    stage.options.silence_max = Duration::from_millis(10);
    let synced = timeout(SOON, stage.sync(&repo)).await.expect("it ends");
    let error = synced.unwrap_err();
    assert!(error.to_string().contains("another process"), "{error}");
    drop(held);
    stage.options.silence_max = SOON;
    assert_eq!(stage.sync(&repo).await.unwrap().written, 1);
}
