//! The full-text indexes follow the tables, for every writer.

use consign_memory::{Logbook, NewAttachment, NewEvent, NewItem, NewMemory, Search};
use serde_json::{Map, json};
use sqlx::SqliteConnection;

use super::{bench, execute};
use crate::harness::SqliteFixture;

/// Number of index rows for a word, independent of the table.
async fn indexed(sql: &mut SqliteConnection, index: &str, word: &str) -> i64 {
    let count = format!("SELECT count(*) FROM {index} WHERE {index} MATCH ?1");
    sqlx::query_scalar(sqlx::AssertSqlSafe(count))
        .bind(word)
        .fetch_one(sql)
        .await
        .unwrap()
}

/// What plain SQL adds, changes and removes is found, found anew and found no longer.
pub(super) async fn the_index_follows_plain_sql(bench: &SqliteFixture) {
    let mut sql = bench.connect().await;
    let tables = [
        (
            "candidate_words",
            "INSERT INTO knowledge_candidates (run_id, space, kind, title, content_md, created_at) \
             VALUES (1, 'team:p', 'FACT', 'heading', 'first', 0)",
            "UPDATE knowledge_candidates SET content_md = 'second'",
            "DELETE FROM knowledge_candidates",
        ),
        (
            "event_words",
            "INSERT INTO items (item_id, item_type, title, created_at, updated_at) \
             VALUES (1, 'task', 'title', 0, 0); \
             INSERT INTO events (item_id, event_type, payload_json, space, created_at) \
             VALUES (1, 'heading', '{\"space\": \"nowhere\", \"a\": {\"b\": \"first\"}}', 'team:p', 0)",
            "UPDATE events SET payload_json = '{\"space\": \"nowhere\", \"note\": \"second\"}'",
            "DELETE FROM events",
        ),
        (
            "kept_words",
            "INSERT INTO memory_kept (memory_id, target_space, payload_sha, payload_md, created_at) \
             VALUES ('mem_1', 'team:p', 'sha', 'heading first', 0)",
            "UPDATE memory_kept SET payload_md = 'heading second'",
            "DELETE FROM memory_kept",
        ),
    ];
    for (index, insert, update, delete) in tables {
        execute(&mut sql, insert).await.unwrap();
        assert_eq!(indexed(&mut sql, index, "first").await, 1, "{index}");
        assert_eq!(indexed(&mut sql, index, "HEADING").await, 1, "{index}");
        assert_eq!(indexed(&mut sql, index, "nowhere").await, 0, "{index}");
        execute(&mut sql, update).await.unwrap();
        assert_eq!(indexed(&mut sql, index, "first").await, 0, "{index}");
        assert_eq!(indexed(&mut sql, index, "second").await, 1, "{index}");
        assert_eq!(indexed(&mut sql, index, "nowhere").await, 0, "{index}");
        execute(&mut sql, delete).await.unwrap();
        assert_eq!(indexed(&mut sql, index, "second").await, 0, "{index}");
    }
}

/// What the store splits stays so when plain SQL changes something else.
pub(super) async fn words_survive_a_change(bench: &SqliteFixture) {
    let memory = NewMemory {
        target_space: "team:p".into(),
        payload_md: "租约过期".into(),
        ..NewMemory::default()
    };
    bench.store.keep(&memory).await.unwrap();
    let mut sql = bench.connect().await;
    for change in [
        "SELECT 1",
        "UPDATE memory_kept SET kind = 'FACT', words = words",
    ] {
        execute(&mut sql, change).await.unwrap();
        let search = Search {
            query: "过期".to_owned(),
            spaces: vec!["team:p".to_owned()],
            top_k: 10,
            ..Search::default()
        };
        let found = bench.store.search_kept(&search).await;
        assert_eq!(found.unwrap().len(), 1, "{change}");
    }
}

/// What the store split leaves the index, word by word, with its text.
pub(super) async fn split_words_are_removed(bench: &SqliteFixture) {
    let memory = NewMemory {
        target_space: "team:p".into(),
        payload_md: "租约过期".into(),
        ..NewMemory::default()
    };
    let mut sql = bench.connect().await;
    let removals = [
        "UPDATE memory_kept SET payload_md = 'x', words = NULL, payload_sha = 'x'",
        "DELETE FROM memory_kept",
    ];
    for removal in removals {
        bench.store.keep(&memory).await.unwrap();
        assert_eq!(
            indexed(&mut sql, "kept_words", "\"过 期\"").await,
            1,
            "{removal}"
        );
        execute(&mut sql, removal).await.unwrap();
        assert_eq!(indexed(&mut sql, "kept_words", "期").await, 0, "{removal}");
    }
}

/// An item takes along what belongs to it.
pub(super) async fn an_item_takes_its_own_along(bench: &SqliteFixture) {
    let store = &bench.store;
    let mut ids = Vec::new();
    for title in ["one", "other"] {
        let item = NewItem {
            item_type: "task".into(),
            title: title.into(),
            project_key: Some("p".into()),
            scope_json: Map::new(),
            status: "open".into(),
            owner_user_id: None,
        };
        let item_id = store.create_item(&item).await.unwrap();
        let event = NewEvent {
            item_id,
            event_type: "note".into(),
            status_from: None,
            status_to: None,
            payload_json: json!({"note": "text"}).as_object().cloned().unwrap(),
            actor_user_id: None,
            source: "tool".into(),
        };
        store.add_event(&event).await.unwrap().unwrap();
        let attachment = NewAttachment {
            item_id,
            kind: "log".into(),
            uri: "x".into(),
            sha256: "a".repeat(64),
            size_bytes: None,
            meta_json: Map::new(),
        };
        store.attach(&attachment).await.unwrap().unwrap();
        ids.push(item_id);
    }
    let mut sql = bench.connect().await;
    let delete = format!("DELETE FROM items WHERE item_id = {}", ids[0]);
    execute(&mut sql, &delete).await.unwrap();
    let events = store.events(&Default::default(), 10).await.unwrap();
    let attachments = store.attachments(&Default::default(), 10).await.unwrap();
    assert_eq!(
        events.iter().map(|e| e.item_id).collect::<Vec<_>>(),
        ids[1..]
    );
    assert_eq!(
        attachments.iter().map(|a| a.item_id).collect::<Vec<_>>(),
        ids[1..]
    );
    assert_eq!(indexed(&mut sql, "event_words", "text").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_plain_sql_writes_is_found() {
    the_index_follows_plain_sql(&bench().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_split_stays_split() {
    words_survive_a_change(&bench().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_split_is_removed_split() {
    split_words_are_removed(&bench().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_item_leaves_nothing_behind() {
    an_item_takes_its_own_along(&bench().await).await;
}
