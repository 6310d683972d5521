//! A server that requires a password, disconnects, or is silent.

use std::{sync::atomic::Ordering, time::Duration};

use consign_scm::{Credential, Secret};

use super::{
    add, history,
    made::{PASSWORD, SvnServer, TestRepository, USER},
    numbers,
};
use crate::stage::Stage;

pub(super) fn credential(user: &str, secret: &str) -> Option<Credential> {
    Some(Credential {
        user: Some(user.to_owned()),
        secret: Secret::new(secret),
    })
}

#[tokio::test]
async fn a_password_opens_and_anything_else_ends_it_at_once() {
    let mut stage = Stage::new().await;
    let made = TestRepository::with(stage.path("r"), &history(3));
    let served = SvnServer::new(&made);
    let repo = add(&stage, &served.url()).await;
    for credential in [
        None,
        credential(USER, "wr0ng"),
        credential("nobody", PASSWORD),
    ] {
        stage.options.credential = credential;
        served.connections.store(0, Ordering::SeqCst);
        let refused = stage.sync(&repo).await.unwrap_err();
        assert_eq!(refused.code(), "SCM_AUTH_FAILED", "{refused}");
        let message = format!("{refused} {refused:?}");
        assert!(
            !message.contains("wr0ng") && !message.contains(PASSWORD),
            "{message}"
        );
        assert_eq!(
            served.connections.load(Ordering::SeqCst),
            1,
            "it is not repeated"
        );
    }
    assert_eq!(stage.waits.load(Ordering::SeqCst), 0);
    assert!(stage.changes(&repo).await.is_empty());
    stage.options.credential = credential(USER, PASSWORD);
    assert_eq!(stage.sync(&repo).await.unwrap().written, 3);
}

#[tokio::test]
async fn a_lost_connection_is_made_again_three_times_in_all() {
    let mut stage = Stage::new().await;
    let made = TestRepository::with(stage.path("r"), &history(3));
    let served = SvnServer::new(&made);
    let repo = add(&stage, &served.url()).await;
    stage.options.credential = credential(USER, PASSWORD);
    served.drops.store(3, Ordering::SeqCst);
    let lost = stage.sync(&repo).await.unwrap_err();
    assert_eq!(lost.code(), "SCM_UNREACHABLE", "{lost}");
    assert!(lost.to_string().contains("3 tries"), "{lost}");
    assert_eq!(stage.waits.swap(0, Ordering::SeqCst), 2);
    served.drops.store(2, Ordering::SeqCst);
    assert_eq!(stage.sync(&repo).await.unwrap().written, 3);
    assert_eq!(stage.waits.load(Ordering::SeqCst), 2);
    assert_eq!(numbers(&stage.changes(&repo).await), [1, 2, 3]);
}

#[tokio::test]
async fn a_silent_server_times_out() {
    let mut stage = Stage::new().await;
    let made = TestRepository::with(stage.path("r"), &history(2));
    let served = SvnServer::new(&made);
    let repo = add(&stage, &served.url()).await;
    stage.options.silence_max = Duration::from_millis(300);
    served.is_silent.store(true, Ordering::SeqCst);
    let silent = stage.sync(&repo).await.unwrap_err();
    assert_eq!(silent.code(), "SCM_UNREACHABLE", "{silent}");
    assert_eq!(served.connections.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn no_listener() {
    let stage = Stage::new().await;
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let repo = add(&stage, &format!("svn://{address}/r")).await;
    let nobody = stage.sync(&repo).await.unwrap_err();
    assert_eq!(nobody.code(), "SCM_UNREACHABLE", "{nobody}");
    assert_eq!(stage.waits.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn an_unlisted_host_is_not_contacted() {
    let mut stage = Stage::new().await;
    let made = TestRepository::with(stage.path("r"), &history(1));
    let served = SvnServer::new(&made);
    stage.options.credential = credential(USER, PASSWORD);
    stage.options.reach = consign_scm::Reach {
        allowed: consign_outbound::Exceptions::default(),
        local_roots: Some(Vec::new()),
    };
    for url in [served.url(), made.url()] {
        let repo = add(&stage, &url).await;
        let refused = stage.sync(&repo).await.unwrap_err();
        assert_eq!(refused.code(), "SCM_NOT_ALLOWED", "{refused}");
    }
    assert_eq!(served.connections.load(Ordering::SeqCst), 0);
}
