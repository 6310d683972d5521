//! Searches among many memories of other spaces that fit better.

use consign_memory::Backend;
use consign_testkit::OpenMemory as Server;
use serde_json::json;

use super::{BUDGET, client, fake, memory, search};

/// More than are asked for at first.
const OTHERS: usize = 200;

/// A text of others that fits the question better than ours: it has nothing else in it, but for a
/// word by which the server tells it from the rest.
fn other(n: usize) -> String {
    format!(
        "borealis release x{:08x}",
        n.wrapping_mul(0x9E37_79B9) as u32
    )
}

fn ours(n: usize) -> String {
    let words = [
        "valve pressure kept below",
        "harbour crane painted",
        "lantern oil",
    ];
    format!("the borealis {} in winter, note {n}", words[n])
}

#[tokio::test]
async fn memories_of_other_spaces_do_not_hide_those_of_a_team() {
    let server = Server::start().await;
    let backend = client(&server.url());
    for n in 0..OTHERS {
        let there = ["team:q", "private:bob"][n % 2];
        backend
            .store(&memory(there, &other(n)), BUDGET)
            .await
            .unwrap();
    }
    for n in 0..3 {
        let here = ["team:p", "private:alice", "team:p"][n];
        backend
            .store(&memory(here, &ours(n)), BUDGET)
            .await
            .unwrap();
    }
    for (spaces, count) in [
        (vec!["team:p"], 2),
        (vec!["private:alice"], 1),
        (vec!["team:p", "private:alice"], 3),
        (vec!["team:nobody", "private:nobody"], 0),
    ] {
        let question = search("borealis release", &spaces);
        let hits = backend.search(&question, BUDGET).await.unwrap();
        assert_eq!(hits.len(), count, "{spaces:?}: {hits:?}");
        assert!(hits.iter().all(|hit| spaces.contains(&hit.space.as_str())));
    }
}

/// The newer server takes no more than 200 at a time, and knows no users.
#[tokio::test]
async fn nor_do_they_on_the_newer_server() {
    let (url, rows) = fake::js_head(Server::KEY).await;
    let backend = client(&url);
    for n in 0..150 {
        let name = format!("other-{n:03}");
        let row = json!({
            "id": name, "content": other(n), "metadata": {"space": "private:bob"},
        });
        rows.lock().unwrap().insert(name, row);
    }
    let new = memory("private:alice", &ours(0));
    let stored = backend.store(&new, BUDGET).await.unwrap();
    let question = search("borealis release", &["private:alice"]);
    let hits = backend.search(&question, BUDGET).await.unwrap();
    assert_eq!(hits.len(), 1, "{hits:?}");
    assert_eq!(hits[0].id, stored.memory_id);
}
