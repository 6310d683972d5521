//! The newer JavaScript server and the Python one.

use consign_memory::{Backend, BackendError};
use consign_testkit::OpenMemory as Server;
use serde_json::json;

use super::{BUDGET, client, fake, memory, search};

#[tokio::test]
async fn the_newer_server_gets_no_user_and_merges_are_undone() {
    let (url, rows) = fake::js_head(Server::KEY).await;
    let backend = client(&url);
    let first = memory("private:alice", "service alpha calls service beta");
    let stored = backend.store(&first, BUDGET).await.unwrap();
    let second = memory("private:bob", "Service beta calls service alpha!");
    let apart = backend.store(&second, BUDGET).await.unwrap();
    assert_ne!(stored, apart);
    assert_eq!(backend.find(&second, BUDGET).await.unwrap(), Some(apart));
    let row = rows.lock().unwrap()[&stored.memory_id].clone();
    assert_eq!(
        row["content"], first.payload_md,
        "the first one is as it was"
    );
    let hits = backend
        .search(&search("alpha", &["private:bob"]), BUDGET)
        .await
        .unwrap();
    assert_eq!(hits.len(), 1);
    assert_eq!(hits[0].text, second.payload_md);
    assert_eq!(backend.check(BUDGET).await.unwrap(), Vec::<String>::new());
}

/// Hundreds of them are more than is read at once, should they be long.
#[tokio::test]
async fn a_memory_is_found_among_long_ones() {
    let (url, rows) = fake::js_head(Server::KEY).await;
    let backend = client(&url);
    let new = memory("team:p", "found all the same");
    let stored = backend.store(&new, BUDGET).await.unwrap();
    for name in 0..36 {
        let long = json!({"id": format!("a-{name:02}"), "content": "x".repeat(1_000_000)});
        rows.lock().unwrap().insert(format!("a-{name:02}"), long);
    }
    // Megabytes take their time where nothing is optimised.
    let found = backend.find(&new, BUDGET * 10).await.unwrap();
    assert_eq!(found, Some(stored));
}

#[tokio::test]
async fn results_of_the_python_server_are_not_verified_except_merges() {
    let (url, _) = fake::python().await;
    let backend = client(&url);
    let first = memory("team:p", "service alpha calls service beta");
    let stored = backend.store(&first, BUDGET).await.unwrap();
    assert_eq!(
        backend.store(&first, BUDGET).await.unwrap(),
        stored,
        "the same again"
    );
    assert_eq!(backend.find(&first, BUDGET).await.unwrap(), Some(stored));
    let merged = memory("team:p", "Service beta calls service alpha!");
    let refused = backend.store(&merged, BUDGET).await.unwrap_err();
    assert!(
        matches!(&refused, BackendError::Protocol(why) if why.contains("merged")),
        "{refused}"
    );
    assert!(
        backend
            .search(&search("alpha", &["team:q"]), BUDGET)
            .await
            .unwrap()
            .is_empty()
    );
    let warnings = backend.check(BUDGET).await.unwrap();
    assert!(
        warnings[0].contains("cannot read single memories"),
        "{warnings:?}"
    );
}
