//! Memories of `openmemory-backend` 1.2.0 as the gateway reads them: one shape, filters that hold, pages.

use std::sync::Arc;

use consign_memory::{
    Backend, Caller, Listing, MemoryFilter, MemoryItem, MemoryService, NewMemory, Search, tools,
};
use consign_testkit::OpenMemory as Server;
use serde_json::{Value, json};

use super::{BUDGET, client, fake, memory, options, search};
use crate::support::Fixture;

fn texts(items: &[MemoryItem]) -> Vec<&str> {
    let mut texts: Vec<&str> = items.iter().map(|item| &*item.text).collect();
    texts.sort_unstable();
    texts
}

fn by(kind: Option<&str>, actor: Option<&str>, meta: Value, text: &str) -> NewMemory {
    NewMemory {
        kind: kind.map(str::to_owned),
        actor_user_id: actor.map(str::to_owned),
        meta_json: meta.as_object().cloned().unwrap(),
        ..memory("team:p", text)
    }
}

/// The server knows none of our filters; what it finds is narrowed all the same.
async fn filters_hold(backend: &dyn Backend) {
    let memories = [
        by(
            Some("DECISION"),
            Some("alice"),
            json!({"pr": 7}),
            "borealis sails on the first tide",
        ),
        by(
            Some("PITFALL"),
            Some("bob"),
            json!({}),
            "borealis leaks below the second deck",
        ),
        // Nobody said what kind it is or whose: the values beside it do not either.
        by(
            None,
            None,
            json!({"kind": "DECISION", "actor_user_id": "alice"}),
            "borealis carries a third mast",
        ),
    ];
    for memory in &memories {
        backend.store(memory, BUDGET).await.unwrap();
    }
    let text = |text: &str| Some(text.to_owned());
    let all = MemoryFilter::default;
    let [first, second, third] = memories.each_ref().map(|memory| &*memory.payload_md);
    for (filter, expected) in [
        (all(), vec![third, second, first]),
        (
            MemoryFilter {
                kind: text("DECISION"),
                ..all()
            },
            vec![first],
        ),
        (
            MemoryFilter {
                actor: text("alice"),
                ..all()
            },
            vec![first],
        ),
        (
            MemoryFilter {
                actor: text("bob"),
                kind: text("DECISION"),
                ..all()
            },
            vec![],
        ),
        (
            MemoryFilter {
                meta: json!({"pr": 7}).as_object().cloned().unwrap(),
                ..all()
            },
            vec![first],
        ),
    ] {
        let wanted = Search {
            filter: filter.clone(),
            ..search("borealis", &["team:p"])
        };
        let found = backend.search(&wanted, BUDGET).await.unwrap();
        let mut expected = expected;
        expected.sort_unstable();
        assert_eq!(texts(&found), expected, "{filter:?}");
    }
    let found = backend
        .search(&search("third mast", &["team:p"]), BUDGET)
        .await
        .unwrap();
    let forged = found.iter().find(|item| item.text == third).unwrap();
    assert_eq!((&forged.kind, &forged.actor), (&None, &None));
    assert_eq!(forged.meta["kind"], "DECISION");
}

#[tokio::test]
async fn filters_mean_the_same_on_the_real_server() {
    let server = Server::start().await;
    filters_hold(&client(&server.url())).await;
}

#[tokio::test]
async fn filters_mean_the_same_on_the_other_servers() {
    let (url, _) = fake::js_head(Server::KEY).await;
    filters_hold(&client(&url)).await;
    let (url, _) = fake::python().await;
    filters_hold(&client(&url)).await;
}

#[tokio::test]
async fn the_real_server_lists_page_by_page_newest_first() {
    let server = Server::start().await;
    let backend = client(&server.url());
    for n in 0..7 {
        let space = if n == 3 { "private:bob" } else { "team:p" };
        let text = format!("memory number {n} of seven has the code {}", n * 7919);
        backend.store(&memory(space, &text), BUDGET).await.unwrap();
    }
    let mut listing = Listing {
        spaces: vec!["team:p".to_owned()],
        limit: 4,
        ..Listing::default()
    };
    let first = backend.list(&listing, BUDGET).await.unwrap();
    assert_eq!(first.items.len(), 4);
    assert!(first.items[0].text.contains("number 6"), "{first:?}");
    listing.cursor = first.next;
    let second = backend.list(&listing, BUDGET).await.unwrap();
    assert_eq!(second.items.len(), 2, "{second:?}");
    assert_eq!(second.next, None);
    let numbers: Vec<char> = first
        .items
        .iter()
        .chain(&second.items)
        .map(|item| item.text.chars().nth(14).unwrap())
        .collect();
    assert_eq!(numbers, ['6', '5', '4', '2', '1', '0']);
    let since = first.items[1].created_at;
    let recent = Listing {
        filter: MemoryFilter {
            since,
            ..MemoryFilter::default()
        },
        cursor: None,
        ..listing.clone()
    };
    let recent = backend.list(&recent, BUDGET).await.unwrap();
    assert!((2..6).contains(&recent.items.len()), "{recent:?}");
    listing.cursor = Some("nonsense".to_owned());
    assert!(backend.list(&listing, BUDGET).await.is_err());
}

/// The tools over the real server: what an agent stores without naming a space, it finds so, and can read.
#[tokio::test]
async fn an_agents_first_two_calls_find_what_it_stored() {
    let server = Server::start().await;
    let fixture = Fixture::new().await;
    let options = consign_memory::MemoryOptions {
        gateway_budget_ms: 10_000,
        ..options(&server.url())
    };
    let service = MemoryService::new(
        fixture.store.clone(),
        Arc::new(client(&server.url())),
        options,
    );
    let call = |tool: &'static str, arguments: Value| {
        let service = service.clone();
        async move {
            let nobody = Caller::anonymous();
            tools::call(&service, tool, arguments, &nobody).await.body
        }
    };
    let store = json!({
        "payload_md": "the borealis release needs two keys",
        "meta_json": {"actor_user_id": "ceo", "kind": "DECISION"},
    });
    let stored = call("memory_store", store).await;
    assert_eq!(stored["action"], "redirect", "{stored}");
    let found = call("memory_query", json!({"query": "borealis release keys"})).await;
    assert_eq!(found["results"][0]["id"], stored["memory_id"], "{found}");
    assert_eq!(found["results"][0]["kind"], Value::Null);
    assert_eq!(found["results"][0]["actor"], Value::Null);
    let read = call("memory_get", json!({"id": stored["memory_id"]})).await;
    assert_eq!(
        read["memory"]["text"], "the borealis release needs two keys",
        "{read}"
    );
    let listed = call("memory_list", json!({})).await;
    assert_eq!(listed["results"][0]["id"], stored["memory_id"], "{listed}");
    let update =
        json!({"id": stored["memory_id"], "payload_md": "the borealis release needs three keys"});
    let updated = call("memory_update", update).await;
    assert_eq!(updated["action"], "allow", "{updated}");
    let listed = call("memory_list", json!({})).await;
    assert_eq!(listed["total"], 1, "the old version is gone: {listed}");
    assert_eq!(
        listed["results"][0]["supersedes"], stored["memory_id"],
        "{listed}"
    );
    let id = json!({"id": updated["memory_id"]});
    let deleted = call("memory_delete", id.clone()).await;
    assert_eq!(deleted["ok"], true, "{deleted}");
    assert_eq!(call("memory_get", id).await["error_code"], "NOT_FOUND");
    // A deleted text may be stored again, and is.
    let again = json!({"payload_md": "the borealis release needs three keys"});
    let again = call("memory_store", again).await;
    assert_eq!(again["ok"], true, "{again}");
    assert_ne!(again["memory_id"], updated["memory_id"], "{again}");
    let found = call("memory_query", json!({"query": "borealis release keys"})).await;
    assert_eq!(found["results"][0]["id"], again["memory_id"], "{found}");
    assert_eq!(found["total"], 1, "{found}");
}
