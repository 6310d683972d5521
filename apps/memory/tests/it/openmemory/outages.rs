//! A server that is away, hangs, dies or forgets who we are.

use std::time::{Duration, Instant};

use consign_memory::{Backend, BackendError, OpenMemory};
use consign_testkit::OpenMemory as Server;

use super::{BUDGET, client, memory, options, search};

const SHORT: Duration = Duration::from_millis(400);

#[tokio::test]
async fn a_server_that_is_away_never_looks_like_an_empty_one() {
    let mut server = Server::start().await;
    let backend = client(&server.url());
    let new = memory("team:p", "Acknowledged just before it died.");
    let stored = backend.store(&new, BUDGET).await.unwrap();
    server.kill9();
    // A connection from before may break after the request has left: only then nobody knows.
    assert!(backend.find(&new, BUDGET).await.is_err());
    let away = backend
        .store(&memory("team:p", "Nobody is there."), BUDGET)
        .await
        .unwrap_err();
    assert!(matches!(away, BackendError::Unreachable(_)), "{away:?}");
    assert_eq!(away.word(), "connection_error");
    let away = backend
        .search(&search("anything", &["team:p"]), BUDGET)
        .await
        .unwrap_err();
    assert!(matches!(away, BackendError::Unreachable(_)), "{away:?}");
    assert!(backend.find(&new, BUDGET).await.is_err());
    server.restart().await;
    assert_eq!(backend.find(&new, BUDGET).await.unwrap(), Some(stored));
}

#[tokio::test]
async fn a_server_that_hangs_costs_its_callers_their_budget_and_no_more() {
    let server = Server::start().await;
    let backend = std::sync::Arc::new(client(&server.url()));
    backend.check(BUDGET).await.unwrap();
    server.freeze();
    let began = Instant::now();
    let callers: Vec<_> = (0..5)
        .map(|n| {
            let backend = std::sync::Arc::clone(&backend);
            let new = memory("team:p", &format!("caller {n} waits"));
            tokio::spawn(async move { backend.store(&new, SHORT).await })
        })
        .collect();
    let mut unknown = 0;
    for caller in callers {
        match caller.await.unwrap().unwrap_err() {
            BackendError::Unknown(_) => unknown += 1,
            BackendError::Unreachable(_) => {}
            other => panic!("{other:?}"),
        }
    }
    // Waiting for the write lock counts: five callers together take no longer than one.
    assert!(began.elapsed() < SHORT * 5, "{:?}", began.elapsed());
    assert!(unknown <= 1, "only whoever has the write lock sends");
    server.thaw();
}

/// What was sent and not answered is stored once, because it is asked for before it is sent again.
#[tokio::test]
async fn a_store_without_an_answer_is_found_by_a_lookup() {
    let server = Server::start().await;
    let backend = client(&server.url());
    backend.check(BUDGET).await.unwrap();
    let new = memory("team:p", "Sent into a pause of the machine.");
    server.freeze();
    let lost = backend.store(&new, SHORT).await.unwrap_err();
    assert!(matches!(lost, BackendError::Unknown(_)), "{lost:?}");
    server.thaw();
    // It reads what was sent to it when it wakes up, sooner or later.
    let found = consign_testkit::eventually_some("it is found", BUDGET, || async {
        backend.find(&new, BUDGET).await.unwrap()
    });
    let found = found.await;
    assert_eq!(backend.store(&new, BUDGET).await.unwrap(), found);
}

#[tokio::test]
async fn a_wrong_key_is_about_us() {
    let server = Server::start().await;
    let mut options = options(&server.url());
    options.openmemory_api_key = serde_json::from_str("\"wrong\"").unwrap();
    let backend = OpenMemory::new(&options).unwrap();
    let refused = backend
        .store(&memory("team:p", "x"), BUDGET)
        .await
        .unwrap_err();
    assert!(refused.is_about_us(), "{refused:?}");
    assert!(
        !format!("{refused} {backend:?}").contains("wrong"),
        "{refused}"
    );
}
