//! A repository behind a web server: retried, refused, slow.

use std::{
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::atomic::Ordering,
    time::Duration,
};

use axum::http::StatusCode;
use base64::{Engine, prelude::BASE64_STANDARD};
use consign_scm::{NoHooks, ScmError};

use super::server::{Server, ServerMode};
use crate::stage::{SOON, Stage, Work, git};

/// A repository and its bare copy, as web servers without Git's help serve it.
async fn served(stage: &Stage) -> (Work, Server) {
    let work = Work::new(stage.path("work"));
    work.commits(3);
    let root = stage.path("www");
    std::fs::create_dir(&root).unwrap();
    git(
        &root,
        &["clone", "-q", "--bare", work.url(), "repo.git"],
        b"",
    );
    git(&root.join("repo.git"), &["update-server-info"], b"");
    let server = Server::start(root).await;
    (work, server)
}

fn waits(stage: &Stage) -> u32 {
    stage.waits.load(Ordering::SeqCst)
}

/// What other users of the machine may read or write.
fn open_to_others(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let status = std::fs::symlink_metadata(&path).unwrap();
        // What lies in a closed folder cannot be reached.
        let is_open = status.permissions().mode() & 0o077 != 0;
        if is_open && status.is_dir() {
            found.extend(open_to_others(&path));
        }
        if is_open {
            found.push(path);
        }
    }
    found
}

#[tokio::test]
async fn a_repository_is_mirrored_and_kept_up_to_date() {
    let stage = Stage::new().await;
    let (work, server) = served(&stage).await;
    let repo = stage.add(&server.url(), None).await;
    assert_eq!(stage.sync(&repo).await.unwrap().written, 3);
    assert_eq!(stage.sync(&repo).await.unwrap().written, 0);
    work.commits(1);
    let bare = stage.path("www/repo.git");
    git(&bare, &["fetch", "-q", work.url(), "main:main"], b"");
    git(&bare, &["update-server-info"], b"");
    assert_eq!(stage.sync(&repo).await.unwrap().written, 1);
    assert_eq!(waits(&stage), 0);
    assert_eq!(
        open_to_others(&stage.path("mirrors")),
        Vec::<PathBuf>::new()
    );
    // A mirror is a copy: removing it loses nothing.
    std::fs::remove_dir_all(stage.path("mirrors")).unwrap();
    let source = consign_scm::open(&repo, &stage.options).unwrap();
    let run = stage.synchronizer(&repo, &*source, &NoHooks);
    assert_eq!(run.materialize(None, None).await.unwrap().fetched, 4);
    assert_eq!(stage.sync(&repo).await.unwrap().written, 0);
}

/// Network failures are tried three times.
#[tokio::test]
async fn a_failing_server_is_tried_three_times() {
    let stage = Stage::new().await;
    let (_work, server) = served(&stage).await;
    let repo = stage.add(&server.url(), None).await;
    for status in [
        StatusCode::INTERNAL_SERVER_ERROR,
        StatusCode::SERVICE_UNAVAILABLE,
        StatusCode::TOO_MANY_REQUESTS,
    ] {
        server.set(ServerMode::Failing(status, u32::MAX));
        server.requests.lock().unwrap().clear();
        stage.waits.store(0, Ordering::SeqCst);
        let error = stage.sync(&repo).await.unwrap_err();
        assert!(
            matches!(error, ScmError::Network { tries: 3, .. }),
            "{status}: {error}"
        );
        assert_eq!(
            (waits(&stage), server.requests.lock().unwrap().len()),
            (2, 3),
            "{status}"
        );
        assert_eq!(stage.stored(&repo).await, None);
    }
    server.set(ServerMode::Failing(StatusCode::BAD_GATEWAY, 2));
    assert_eq!(
        stage.sync(&repo).await.unwrap().written,
        3,
        "the third try counts"
    );
}

#[tokio::test]
async fn an_unreachable_or_silent_server_is_tried_three_times() {
    let mut stage = Stage::new().await;
    let (_work, server) = served(&stage).await;
    let repo = stage.add("http://127.0.0.1:1/repo.git", None).await;
    let error = stage.sync(&repo).await.unwrap_err();
    assert!(
        matches!(error, ScmError::Network { tries: 3, .. }),
        "{error}"
    );
    let repo = stage.add(&server.url(), None).await;
    server.set(ServerMode::Hanging);
    stage.options.silence_max = Duration::from_secs(1);
    let error = stage.sync(&repo).await.unwrap_err();
    assert!(
        matches!(error, ScmError::Network { tries: 3, .. }),
        "{error}"
    );
}

/// Refused credentials end it at once, and are never shown.
#[tokio::test]
async fn refused_credentials_end_it_at_once() {
    let mut stage = Stage::new().await;
    let (_work, server) = served(&stage).await;
    let repo = stage.add(&server.url(), None).await;
    let right = format!("Basic {}", BASE64_STANDARD.encode("oauth2:tulip"));
    *server.header.lock().unwrap() = Some(right.clone());
    for secret in [None, Some("wrong-tulip")] {
        if let Some(secret) = secret {
            stage.token(secret);
        }
        server.requests.lock().unwrap().clear();
        let error = stage.sync(&repo).await.unwrap_err();
        assert_eq!(error.code(), "SCM_AUTH_FAILED", "{error}");
        let shown = format!("{error} {error:?} {:?}", stage.options);
        let encoded = BASE64_STANDARD.encode("oauth2:wrong-tulip");
        assert!(
            !shown.contains("tulip") && !shown.contains(&encoded),
            "{shown}"
        );
        assert_eq!(waits(&stage), 0);
        assert_eq!(server.requests.lock().unwrap().len(), 1, "requests once");
    }
    stage.token("tulip");
    assert_eq!(stage.sync(&repo).await.unwrap().written, 3);
    assert_eq!(
        server.requests.lock().unwrap().last().unwrap().as_ref(),
        Some(&right)
    );
    let config =
        std::fs::read_to_string(stage.path(&format!("mirrors/{}.git/config", repo.repo_id)));
    assert!(
        !config.unwrap().contains("Authorization"),
        "the mirror does not keep it"
    );
    server.set(ServerMode::Failing(StatusCode::FORBIDDEN, u32::MAX));
    assert_eq!(
        stage.sync(&repo).await.unwrap_err().code(),
        "SCM_AUTH_FAILED"
    );
}

#[tokio::test]
async fn credentials_are_not_sent_to_another_server() {
    let mut stage = Stage::new().await;
    let (_work, server) = served(&stage).await;
    let other = Server::start(stage.path("www")).await;
    server.set(ServerMode::Sending(format!("http://{}", other.address)));
    stage.token("tulip");
    let repo = stage.add(&server.url(), None).await;
    let error = stage.sync(&repo).await.unwrap_err();
    assert_eq!(error.code(), "SCM_NOT_FOUND", "{error}");
    assert_eq!(*other.requests.lock().unwrap(), [], "no request");
    stage.options.credential = None;
    assert_eq!(
        stage.sync(&repo).await.unwrap().written,
        3,
        "without any, it may go there"
    );
}

/// The process ends: so does the program, with all it started.
#[tokio::test]
async fn a_fetch_ends_when_the_process_does() {
    let stage = Stage::new().await;
    let (_work, server) = served(&stage).await;
    server.set(ServerMode::Hanging);
    let repo = stage.add(&server.url(), None).await;
    let syncing = stage.sync(&repo);
    let stopping = async {
        let is_asked = || async { !server.requests.lock().unwrap().is_empty() };
        consign_testkit::eventually("the server gets a request", SOON, is_asked).await;
        stage.stop.send_replace(true);
    };
    let (synced, ()) = tokio::join!(syncing, stopping);
    assert_eq!(synced.unwrap_err().code(), "SCM_STOPPED");
    let port = server.address.port().to_string();
    let is_gone = || async { !has_request(&port) };
    consign_testkit::eventually("no process is left", SOON, is_gone).await;
}

/// Whether a process of Git has the server's port among its arguments.
fn has_request(port: &str) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let arguments =
        processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    let mut arguments = arguments.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    arguments.any(|line| line.contains("git") && line.contains(&format!(":{port}/")))
}

/// A foreign user may have added it: excluded addresses are not contacted.
#[tokio::test]
async fn an_excluded_address_is_not_contacted() {
    let mut stage = Stage::new().await;
    let (work, server) = served(&stage).await;
    let by_name = format!("http://localhost:{}/repo.git", server.address.port());
    let file = format!("file://{}", work.url());
    for url in [server.url(), by_name, file, work.url().to_owned()] {
        let repo = stage.add(&url, None).await;
        stage.options.reach = guarded(&[]);
        server.requests.lock().unwrap().clear();
        let refused = stage.sync(&repo).await.unwrap_err();
        assert_eq!(refused.code(), "SCM_NOT_ALLOWED", "{url}: {refused}");
        assert_eq!(server.requests.lock().unwrap().len(), 0, "{url}");
        stage.options.reach = consign_scm::Reach {
            local_roots: Some(vec![stage.path("work")]),
            ..guarded(&["127.0.0.0/8", "::1"])
        };
        assert_eq!(stage.sync(&repo).await.unwrap().written, 3, "{url}");
    }
}

/// The address that was checked is the one that is connected to, and no other host is gone to.
#[tokio::test]
async fn a_redirect_is_not_followed_to_where_nothing_was_checked() {
    let mut stage = Stage::new().await;
    let (_work, server) = served(&stage).await;
    let other = Server::start(stage.path("www")).await;
    let by_name = format!("http://localhost:{}/repo.git", server.address.port());
    let repo = stage.add(&by_name, None).await;
    stage.options.reach = guarded(&["127.0.0.0/8", "::1"]);
    server.set(ServerMode::Sending(other.url()));
    let refused = stage.sync(&repo).await.unwrap_err();
    assert_eq!(refused.code(), "SCM_NOT_FOUND", "{refused}");
    assert_eq!(other.requests.lock().unwrap().len(), 0);
}

fn guarded(allow: &[&str]) -> consign_scm::Reach {
    let allow: Vec<String> = allow.iter().map(|&entry| entry.to_owned()).collect();
    consign_scm::Reach {
        allowed: consign_outbound::Exceptions::parse(&allow).unwrap(),
        local_roots: Some(Vec::new()),
    }
}
