//! `openmemory-backend` 1.2.0, as it is.

use std::sync::Arc;

use consign_memory::{Backend, BackendError};
use consign_testkit::OpenMemory as Server;
use serde_json::{Value, json};

use super::{BUDGET, client, memory, search};

/// Calls the server directly.
async fn call(server: &Server, method: &str, path: &str, body: Option<Value>) -> Value {
    let client = consign_outbound::client(None).unwrap().build().unwrap();
    let url = format!("{}{path}", server.url());
    let mut request = client
        .request(method.parse().unwrap(), url)
        .header("x-api-key", Server::KEY);
    if let Some(body) = body {
        let text = body.to_string();
        request = request
            .header("content-type", "application/json")
            .body(text);
    }
    let text = request.send().await.unwrap().text().await.unwrap();
    serde_json::from_str(&text).unwrap_or(Value::String(text))
}

async fn stored_rows(server: &Server) -> Vec<Value> {
    let all = call(server, "GET", "/memory/all?l=1000", None).await;
    all["items"].as_array().unwrap().clone()
}

#[tokio::test]
async fn what_is_stored_has_every_field_and_is_found_again() {
    let server = Server::start().await;
    let backend = client(&server.url());
    let mut new = memory(
        "private:alice",
        "The release of project borealis is on Tuesday.",
    );
    new.kind = Some("PROCEDURE".into());
    new.actor_user_id = Some("alice".into());
    new.meta_json = json!({"module": "release", "space": "forged", "item_id": 7})
        .as_object()
        .unwrap()
        .clone();
    let stored = backend.store(&new, BUDGET).await.unwrap();
    let row = call(
        &server,
        "GET",
        &format!("/memory/{}", stored.memory_id),
        None,
    )
    .await;
    // A private space belongs to a user; our own words cannot be overwritten.
    assert_eq!(row["user_id"], "alice");
    assert_eq!(row["metadata"]["space"], "private:alice");
    assert_eq!(row["metadata"]["payload_sha"], new.payload_sha());
    assert_eq!(row["metadata"]["kind"], "PROCEDURE");
    assert_eq!(row["metadata"]["item_id"], serde_json::Value::Null);
    assert_eq!(row["metadata"]["meta_json"]["module"], "release");
    let read = backend
        .read(&stored.memory_id, BUDGET)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(read.space, "private:alice");
    assert_eq!(read.kind.as_deref(), Some("PROCEDURE"));
    assert_eq!(read.actor.as_deref(), Some("alice"));
    assert_eq!(read.meta, new.meta_json);
    assert!(read.created_at.is_some(), "{read:?}");
    assert_eq!(backend.read("no-such-name", BUDGET).await.unwrap(), None);
    let found = backend.find(&new, BUDGET).await.unwrap();
    assert_eq!(found, Some(stored.clone()));
    let absent = memory("private:alice", "Something else altogether.");
    assert_eq!(backend.find(&absent, BUDGET).await.unwrap(), None);
    // A team's has none.
    let team = memory(
        "team:p",
        "A team knows where the coffee machine of borealis stands.",
    );
    let stored = backend.store(&team, BUDGET).await.unwrap();
    let row = call(
        &server,
        "GET",
        &format!("/memory/{}", stored.memory_id),
        None,
    )
    .await;
    assert_eq!(row["user_id"], Value::Null);
    let hits = backend
        .search(&search("coffee machine borealis", &["team:p"]), BUDGET)
        .await;
    let hits = hits.unwrap();
    assert_eq!(hits.len(), 1, "{hits:?}");
    assert_eq!(
        (hits[0].id.as_str(), hits[0].space.as_str()),
        (stored.memory_id.as_str(), "team:p")
    );
}

/// Two writers at a time get in each other's way.
#[tokio::test]
async fn writes_go_one_at_a_time_across_clients() {
    let server = Server::start().await;
    let clients: Vec<_> = (0..2).map(|_| Arc::new(client(&server.url()))).collect();
    let writers: Vec<_> = (0..16)
        .map(|n| {
            let backend = Arc::clone(&clients[n % 2]);
            let text = format!(
                "Writer {n} has the number {} and nothing else to say",
                n * 7919
            );
            tokio::spawn(async move { backend.store(&memory("team:p", &text), BUDGET).await })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap().unwrap();
    }
    assert_eq!(stored_rows(&server).await.len(), 16);
}

/// The server answers `deduplicated` for texts that are not the same.
#[tokio::test]
async fn a_text_that_the_server_merges_gets_a_row_of_its_own() {
    let server = Server::start().await;
    let backend = client(&server.url());
    let texts = [
        ("team:p", "service alpha calls service beta"),
        ("team:p", "Service beta calls service alpha!"),
        ("team:q", "service alpha calls service beta"),
        ("private:bob", "service alpha calls service beta"),
        ("team:p", "部署在每周二进行"),
        ("team:p", "密钥每月轮换一次"),
    ];
    let mut names = std::collections::BTreeSet::new();
    for (space, text) in texts {
        let new = memory(space, text);
        let stored = backend.store(&new, BUDGET).await.unwrap();
        let row = call(
            &server,
            "GET",
            &format!("/memory/{}", stored.memory_id),
            None,
        )
        .await;
        assert_eq!(row["content"], text);
        assert_eq!(row["metadata"]["space"], space);
        assert_eq!(row["metadata"]["payload_sha"], new.payload_sha());
        assert!(
            names.insert(stored.memory_id),
            "{space} {text}: somebody else's row"
        );
    }
    // The same memory again is the same row, also where it was stored the long way.
    for (space, text) in texts {
        let found = backend.find(&memory(space, text), BUDGET).await.unwrap();
        assert!(names.contains(&found.expect("it is there").memory_id));
    }
    for (space, text) in texts {
        let again = backend.store(&memory(space, text), BUDGET).await.unwrap();
        assert!(names.contains(&again.memory_id), "{space} {text}");
    }
    assert_eq!(
        stored_rows(&server).await.len(),
        texts.len(),
        "no placeholder is left"
    );
}

/// Searches are answered from a cache, deleted memories included.
#[tokio::test]
async fn searches_find_what_is_new_and_not_what_is_gone() {
    let server = Server::start().await;
    let backend = client(&server.url());
    let query = search("borealis pipeline owner", &["team:p"]);
    let first = memory(
        "team:p",
        "The owner of the borealis pipeline is the platform team.",
    );
    let stored = backend.store(&first, BUDGET).await.unwrap();
    assert_eq!(backend.search(&query, BUDGET).await.unwrap().len(), 1);
    let second = memory(
        "team:p",
        "A second owner of the borealis pipeline has joined.",
    );
    backend.store(&second, BUDGET).await.unwrap();
    assert_eq!(backend.search(&query, BUDGET).await.unwrap().len(), 2);
    let path = format!("/memory/{}", stored.memory_id);
    call(&server, "DELETE", &path, Some(json!({}))).await;
    let left = backend.search(&query, BUDGET).await.unwrap();
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].text, second.payload_md);
}

/// Long texts are summarised unless the server is told not to.
#[tokio::test]
async fn a_server_that_shortens_is_noticed_and_nothing_counts_as_stored() {
    let server = Server::start_with(&[]).await;
    let backend = client(&server.url());
    let warnings = backend.check(BUDGET).await.unwrap();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(
        warnings[0].contains("OM_USE_SUMMARY_ONLY=false"),
        "{warnings:?}"
    );
    let long = (0..60)
        .map(|n| format!("Step {n} deploys part {}. ", n * 31))
        .collect::<String>();
    let refused = backend
        .store(&memory("team:p", &long), BUDGET)
        .await
        .unwrap_err();
    assert!(
        matches!(&refused, BackendError::Protocol(why) if why.contains("summary")),
        "{refused}"
    );
    backend
        .store(&memory("team:p", "Short ones are kept."), BUDGET)
        .await
        .unwrap();
    assert_eq!(
        stored_rows(&server).await.len(),
        1,
        "the summary and the sample are gone"
    );

    let whole = Server::start().await;
    let backend = client(&whole.url());
    assert_eq!(backend.check(BUDGET).await.unwrap(), Vec::<String>::new());
    assert!(stored_rows(&whole).await.is_empty(), "the sample is gone");
    let stored = backend
        .store(&memory("team:p", &long), BUDGET)
        .await
        .unwrap();
    let row = call(
        &whole,
        "GET",
        &format!("/memory/{}", stored.memory_id),
        None,
    )
    .await;
    assert_eq!(row["content"], long);
}

/// What was seen of a server may not be true any more.
#[tokio::test]
async fn a_server_that_comes_back_shortening_is_noticed() {
    let mut server = Server::start().await;
    let backend = client(&server.url());
    let whole = memory("team:p", &"whole ".repeat(50));
    backend.store(&whole, BUDGET).await.unwrap();
    server.stop().await;
    server
        .restart_with(&[("OM_USE_SUMMARY_ONLY", "true")])
        .await;
    // The second is short in characters and long as the server counts.
    for text in ["shortened ".repeat(30), "\u{1F980}".repeat(150)] {
        let long = memory("team:p", &text);
        let refused = backend.store(&long, BUDGET).await.unwrap_err();
        assert!(matches!(refused, BackendError::Protocol(_)), "{refused}");
    }
    assert_eq!(
        stored_rows(&server).await.len(),
        1,
        "what is cut does not stay"
    );
}

/// No space filter in its API.
#[tokio::test]
async fn searches_the_requested_spaces_only() {
    let server = Server::start().await;
    let backend = client(&server.url());
    for space in ["team:p", "team:q", "private:alice", "private:bob"] {
        let text = format!("The borealis secret of {space} is a word");
        backend.store(&memory(space, &text), BUDGET).await.unwrap();
    }
    for asked in [
        vec!["team:p"],
        vec!["private:alice"],
        vec!["team:q", "private:bob"],
        vec![],
    ] {
        let hits = backend
            .search(&search("borealis secret word", &asked), BUDGET)
            .await
            .unwrap();
        let mut spaces: Vec<_> = hits.iter().map(|hit| hit.space.as_str()).collect();
        spaces.sort_unstable();
        assert_eq!(spaces, {
            let mut asked = asked.clone();
            asked.sort_unstable();
            asked
        });
    }
}

/// A body that is no JSON kills the server; ours never are.
#[tokio::test]
async fn no_text_kills_the_server() {
    let server = Server::start().await;
    let backend = client(&server.url());
    for text in [
        "\"",
        "{\"a\":",
        "null",
        "\\u0000 \u{1f980} \u{202e}",
        "' or 1=1; --",
        "\n\r\t",
    ] {
        let new = memory("team:p", &format!("odd text {text} ends"));
        backend.store(&new, BUDGET).await.unwrap();
        backend
            .search(&search(text, &["team:p"]), BUDGET)
            .await
            .unwrap();
    }
    backend.check(BUDGET).await.unwrap();
}
