//! Who stores, and what that is worth.

use consign_memory::{Caller, MemoryService, UnknownActorPolicy, tools};
use serde_json::{Value, json};

use crate::support::Fixture;

fn bound(actor: &str) -> Caller {
    Caller {
        actor: Some(actor.to_owned()),
        is_authenticated: true,
        ..Caller::default()
    }
}

fn store(text: &str, space: &str, actor: Option<&str>) -> Value {
    json!({"payload_md": text, "target_space": space, "actor_user_id": actor})
}

/// One audit per request, none of which creates a user.
#[tokio::test]
async fn strangers_are_dealt_with_as_configured() {
    let table = [
        (
            UnknownActorPolicy::Reject,
            ("reject", Value::Null),
            "reject actor_unknown:reject failed",
            false,
        ),
        (
            UnknownActorPolicy::Degrade,
            ("redirect", json!("private:unknown")),
            "redirect actor_unknown:degrade success",
            false,
        ),
        (
            UnknownActorPolicy::AutoCreate,
            ("allow", json!("team:p")),
            "allow policy:policy_passed success",
            true,
        ),
    ];
    for (policy, (action, space), told, is_made) in table {
        let fixture = Fixture::with(|options| options.unknown_actor_policy = policy).await;
        fixture.open_team().await;
        for text in ["one", "two"] {
            let answer = fixture
                .call("memory_store", store(text, "team:p", Some("eve")))
                .await;
            assert_eq!(answer["action"], action, "{policy:?} {answer}");
            assert_eq!(answer["space_written"], space);
            let reason = told.split(' ').nth(1);
            assert_eq!(answer["reason"].as_str(), reason, "{answer}");
            let again = fixture
                .call("memory_store", store(text, "team:p", Some("eve")))
                .await;
            assert_eq!(again["action"], action, "{again}");
            assert_eq!(again["reason"].as_str(), reason, "{again}");
        }
        let mut audits = fixture.told().await;
        audits.retain(|audit| audit != "allow dedup_hit success");
        audits.dedup();
        assert_eq!(audits, [told], "the second time as the first");
        assert_eq!(fixture.store.user_exists("eve").await.unwrap(), is_made);
        let audit = &fixture.audits().await[0];
        assert_eq!(audit.actor_user_id.as_deref(), Some("eve"));
    }
}

/// A private space is closed to everybody else whose token says who they are.
#[tokio::test]
async fn rejects_writes_to_private_spaces_of_other_users() {
    let fixture = Fixture::new().await;
    let alice = bound("alice");
    let own = fixture
        .call_as(&alice, "memory_store", store("x", "private:alice", None))
        .await;
    assert_eq!(own["action"], "allow", "{own}");
    assert_eq!(
        fixture.audits().await[0].actor_user_id.as_deref(),
        Some("alice")
    );
    let other = fixture
        .call_as(&alice, "memory_store", store("x", "private:bob", None))
        .await;
    assert_eq!(other["action"], "reject", "{other}");
    let told = fixture.told().await;
    assert_eq!(told[1], "reject policy:private_space_of_another failed");
    // Nor is it searched.
    let query = json!({"query": "x", "spaces": ["private:bob"]});
    let answer = fixture.call_as(&alice, "memory_query", query).await;
    assert_eq!(answer["error_code"], "SPACE_FORBIDDEN", "{answer}");
    assert_eq!(fixture.server.writes(), 1);
}

/// An actor is who their token says.
#[tokio::test]
async fn rejects_writes_as_another_user() {
    let fixture = Fixture::new().await;
    fixture.make_user("bob").await;
    let answer = fixture
        .call_as(
            &bound("alice"),
            "memory_store",
            store("x", "team:p", Some("bob")),
        )
        .await;
    assert_eq!(answer["action"], "reject", "{answer}");
    assert_eq!(answer["error_code"], "ACTOR_MISMATCH");
    let audit = &fixture.audits().await[0];
    assert_eq!(audit.reason.as_deref(), Some("actor_mismatch"));
    assert_eq!(audit.actor_user_id.as_deref(), Some("alice"));
    assert_eq!(audit.evidence_refs_json["extra"]["claimed_actor"], "bob");
}

/// Where tokens say who somebody is, a name on the list is no credential.
#[tokio::test]
async fn a_name_on_the_list_is_no_credential() {
    let fixture = Fixture::new().await;
    let policy = json!({"allowlist_users": ["alice"], "require_evidence": false});
    fixture.set_policy(policy).await;
    fixture.make_user("alice").await;
    let shared_token = Caller {
        is_authenticated: true,
        ..Caller::default()
    };
    let cases = [
        (shared_token, Some("alice"), "redirect"),
        (bound("alice"), None, "allow"),
        (bound("bob"), None, "redirect"),
        (Caller::anonymous(), Some("alice"), "allow"),
    ];
    for (number, (caller, actor, action)) in cases.into_iter().enumerate() {
        let arguments = store(&format!("text {number}"), "team:p", actor);
        let answer = fixture.call_as(&caller, "memory_store", arguments).await;
        assert_eq!(answer["action"], action, "case {number}: {answer}");
    }
}

/// Another prefix for private spaces opens none of those that were private before.
#[tokio::test]
async fn spaces_of_another_prefix_stay_closed() {
    let fixture = Fixture::new().await;
    let kept = store("a secret", "private:alice", None);
    let kept = fixture.call_as(&bound("alice"), "memory_store", kept).await;
    assert_eq!(kept["action"], "allow", "{kept}");
    let mut options = fixture.options.clone();
    options.private_space_prefix = "user/".to_owned();
    let renamed = MemoryService::new(fixture.store.clone(), fixture.server.clone(), options);
    for (tool, arguments, code) in [
        (
            "memory_query",
            json!({"query": "secret", "spaces": ["private:alice"]}),
            "SPACE_FORBIDDEN",
        ),
        (
            "memory_list",
            json!({"spaces": ["private:alice"]}),
            "SPACE_FORBIDDEN",
        ),
        ("memory_get", json!({"id": kept["memory_id"]}), "NOT_FOUND"),
        (
            "memory_delete",
            json!({"id": kept["memory_id"]}),
            "NOT_FOUND",
        ),
    ] {
        let answer = tools::call(&renamed, tool, arguments, &bound("bob")).await;
        assert_eq!(answer.error_code(), Some(code), "{}", answer.body);
    }
    let shared = json!({"query": "secret", "spaces": ["team:p", "org:x", "user/bob"]});
    let answer = tools::call(&renamed, "memory_query", shared, &bound("bob")).await;
    assert!(answer.ok, "{}", answer.body);
}
