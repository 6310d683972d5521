//! A server that limits, forgets who we are, breaks off, or is none.

use std::time::Duration;

use consign_scm::Stream;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use super::{
    Scene,
    fake::{Fault, TOKEN},
};

const COMMITS: &str = "/repository/commits?";

fn status(status: u16) -> Fault {
    Fault::Status(status, Vec::new())
}

#[tokio::test]
async fn too_many_requests_wait_for_retry_after() {
    let scene = Scene::new().await;
    let pushed = scene.gitlab.world().push("main", 3);
    let limited = |headers| (COMMITS, Fault::Status(429, headers));
    let reset = (jiff::Timestamp::now().as_second() + 100).to_string();
    scene.gitlab.world().faults.extend([
        limited(vec![("Retry-After", "7".to_owned())]),
        limited(vec![("RateLimit-Reset", reset)]),
    ]);
    assert_eq!(scene.sync().await.unwrap().written, 3);
    assert_eq!(scene.names().await, pushed);
    let [first, second] = scene.waits().try_into().unwrap();
    assert_eq!(first, Duration::from_secs(7));
    assert!((60..=100).contains(&second.as_secs()), "{second:?}");
}

#[tokio::test]
async fn a_retry_after_of_an_hour_ends_the_run() {
    let scene = Scene::new().await;
    scene.gitlab.world().push("main", 3);
    let hour = vec![("Retry-After", "3600".to_owned())];
    scene
        .gitlab
        .world()
        .faults
        .push_back((COMMITS, Fault::Status(429, hour)));
    let ended = scene.sync().await.unwrap_err();
    assert_eq!(ended.code(), "SCM_UNREACHABLE", "{ended}");
    assert!(ended.to_string().contains("3600 seconds"), "{ended}");
    assert_eq!(scene.waits(), [], "it ends at once");
    // Nor does it wait for ever in small steps.
    let second = || {
        (
            COMMITS,
            Fault::Status(429, vec![("Retry-After", "1".to_owned())]),
        )
    };
    scene
        .gitlab
        .world()
        .faults
        .extend((0..50).map(|_| second()));
    let ended = scene.sync().await.unwrap_err();
    assert_eq!((ended.code(), scene.waits().len()), ("SCM_UNREACHABLE", 10));
}

#[tokio::test]
async fn what_the_network_spoils_is_tried_three_times() {
    let faults = [
        status(500),
        status(502),
        status(503),
        Fault::Dropped,
        Fault::Silent,
        Fault::Stalled,
    ];
    for fault in faults {
        let mut scene = Scene::new().await;
        scene.stage.options.silence_max = Duration::from_millis(250);
        scene.gitlab.world().push("main", 3);
        let twice = [(COMMITS, fault.clone()), (COMMITS, fault.clone())];
        scene.gitlab.world().faults.extend(twice);
        assert_eq!(scene.sync().await.unwrap().written, 3, "{fault:?}");
        assert_eq!(scene.waits().len(), 2, "{fault:?}");
        scene.gitlab.world().push("main", 1);
        let thrice = (0..3).map(|_| (COMMITS, fault.clone()));
        scene.gitlab.world().faults.extend(thrice);
        let lost = scene.sync().await.unwrap_err();
        assert_eq!(lost.code(), "SCM_UNREACHABLE", "{fault:?}: {lost}");
        assert!(lost.to_string().contains("3 tries"), "{lost}");
    }
}

/// The token expires in the middle: what was written stays, and it goes on with a new one.
#[tokio::test]
async fn an_expired_token_ends_it_at_once() {
    let mut scene = Scene::new().await;
    scene.stage.options.batch_records_max = 5;
    let pushed = scene.gitlab.world().push("main", 23);
    scene.gitlab.world().expires_after = Some(12);
    let expired = scene.sync().await.unwrap_err();
    assert_eq!(expired.code(), "SCM_AUTH_FAILED", "{expired}");
    assert!(!expired.to_string().contains(TOKEN), "{expired}");
    assert_eq!(scene.waits(), [], "it is not repeated");
    assert_eq!(scene.gitlab.requests().len(), 13);
    let names = scene.names().await;
    assert!(
        (1..23).contains(&names.len()),
        "in the middle: {}",
        names.len()
    );
    assert_eq!(names, pushed[..names.len()]);
    assert!(scene.place(Stream::Gitlab).await.contains_key("target"));
    scene.gitlab.world().expires_after = None;
    scene.gitlab.world().token = "glpat-new".into();
    scene.stage.token("glpat-new");
    let synced = scene.sync().await.unwrap();
    assert_eq!((synced.written, synced.known), (23 - names.len() as u64, 0));
    assert_eq!(scene.names().await, pushed);
}

#[tokio::test]
async fn rejections_are_distinguished() {
    let table = [
        (status(401), "SCM_AUTH_FAILED"),
        (status(403), "SCM_AUTH_FAILED"),
        (status(404), "SCM_NOT_FOUND"),
        (status(400), "SCM_PROTOCOL"),
        (status(302), "SCM_PROTOCOL"),
        (Fault::Html, "SCM_PROTOCOL"),
        (Fault::Truncated, "SCM_PROTOCOL"),
    ];
    for (fault, code) in table {
        let scene = Scene::new().await;
        scene.gitlab.world().push("main", 3);
        scene
            .gitlab
            .world()
            .faults
            .push_back((COMMITS, fault.clone()));
        let refused = scene.sync().await.unwrap_err();
        assert_eq!(refused.code(), code, "{fault:?}: {refused}");
        let message = refused.to_string();
        assert!(
            message.contains("/repository/commits?ref_name="),
            "{message}"
        );
        assert!(!message.contains(TOKEN), "{message}");
        if code == "SCM_PROTOCOL" && !matches!(fault, Fault::Status(..)) {
            assert!(message.contains("line 1 column "), "{message}");
        }
        assert_eq!(scene.waits(), [], "{fault:?}");
        assert_eq!(scene.sync().await.unwrap().written, 3, "{fault:?}");
    }
}

#[tokio::test]
async fn a_token_that_is_wrong_or_missing_is_refused() {
    let mut scene = Scene::new().await;
    scene.gitlab.world().push("main", 3);
    scene.stage.token("glpat-wr0ng");
    let refused = scene.sync().await.unwrap_err();
    assert_eq!(refused.code(), "SCM_AUTH_FAILED", "{refused}");
    assert!(!refused.to_string().contains("wr0ng"), "{refused}");
    scene.stage.options.credential = None;
    assert_eq!(scene.sync().await.unwrap_err().code(), "SCM_AUTH_FAILED");
    assert_eq!(scene.gitlab.requests().len(), 2);
    scene.stage.token("no\ntoken");
    assert_eq!(scene.sync().await.unwrap_err().code(), "SCM_INVALID");
}

#[tokio::test]
async fn the_token_stays_with_its_host() {
    let scene = Scene::new().await;
    scene.gitlab.world().push("main", 3);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let elsewhere = format!(
        "http://{}/api/v4/projects/g%2Fp",
        listener.local_addr().unwrap()
    );
    let moved = |to: String| Fault::Status(301, vec![("Location", to)]);
    scene
        .gitlab
        .world()
        .faults
        .push_back(("/projects/g%2Fp", moved(elsewhere)));
    let heard = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = vec![0; 4096];
        let read = stream.read(&mut request).await.unwrap();
        stream.write_all(b"HTTP/1.1 404 X\r\n\r\n").await.unwrap();
        String::from_utf8_lossy(&request[..read]).into_owned()
    });
    let refused = scene.sync().await.unwrap_err();
    assert_eq!(refused.code(), "SCM_PROTOCOL", "{refused}");
    assert!(
        refused
            .to_string()
            .contains("to which the token is not sent"),
        "{refused}"
    );
    assert!(!heard.is_finished(), "no request arrived there");
    heard.abort();
    // A project that was renamed is followed on its own host.
    let renamed = scene.gitlab.url().replace("/g/p", "/api/v4/projects/g%2Fp");
    scene
        .gitlab
        .world()
        .faults
        .push_back(("/projects/g%2Fp", moved(renamed)));
    assert_eq!(scene.sync().await.unwrap().written, 3);
    // But not in circles.
    let circle = moved("/api/v4/projects/g%2Fp".into());
    let circles = (0..9).map(|_| ("/projects/g%2Fp", circle.clone()));
    scene.gitlab.world().faults.extend(circles);
    assert_eq!(scene.sync().await.unwrap_err().code(), "SCM_PROTOCOL");
}

#[tokio::test]
async fn an_excluded_address_is_not_contacted() {
    let mut scene = Scene::new().await;
    scene.stage.options.reach.allowed = consign_outbound::Exceptions::default();
    let refused = scene.sync().await.unwrap_err();
    assert_eq!(refused.code(), "SCM_NOT_ALLOWED", "{refused}");
    scene.repo.url = scene.repo.url.replace("127.0.0.1", "localhost");
    let refused = scene.sync().await.unwrap_err();
    assert_eq!(refused.code(), "SCM_UNREACHABLE", "{refused}");
    assert!(
        refused.to_string().contains("add it to `allow`"),
        "{refused}"
    );
}
