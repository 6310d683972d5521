//! What the policy makes of cards.

use consign_memory::{UnknownActorPolicy, consume::ConsumeOptions};
use consign_scm::{Patch, PatchFormat, Provider};
use serde_json::{Value, json};

use super::bench::{Bench, counts, reason};

/// Facts are not among the kinds that a policy admits by itself: they are kept, privately.
#[tokio::test]
async fn a_policy_that_does_not_admit_facts_keeps_them_privately() {
    let bench = Bench::with(Provider::Git, |_| {}).await;
    bench.fixture.set_policy(json!({})).await;
    bench.record(&["first"]).await;
    let done = bench.consume().await;
    assert_eq!((counts(&done), reason(&done)), ([0, 1, 0, 0], None));
    assert_eq!(
        bench.fixture.server.kept()[0].memory.target_space,
        "private:unknown"
    );
    assert_eq!(
        bench.fixture.told().await,
        ["redirect policy:kind_not_allowed:FACT success"]
    );
    assert!(bench.cursor().await.is_some());

    let admitted = json!({"allowed_kinds": ["FACT", "DECISION"]});
    bench.fixture.set_policy(admitted).await;
    bench.record(&["second"]).await;
    assert_eq!(counts(&bench.consume().await), [1, 0, 0, 0]);
}

/// A large change gets a short card, so that it may go to the team.
#[tokio::test]
async fn one_of_many_is_short_enough_for_the_team() {
    let bench = Bench::new(Provider::Svn).await;
    let long = "Reformat all there is, from the first file to the last. ".repeat(20);
    bench.record_as(&[&long], Some("large_changeset:432")).await;
    assert_eq!(counts(&bench.consume().await), [1, 0, 0, 0]);
    let kept = bench.fixture.server.kept();
    let memory = &kept[0].memory;
    assert_eq!(memory.target_space, "team:p");
    assert!(
        memory.payload_md.chars().count() <= 200,
        "{}",
        memory.payload_md
    );
    assert_eq!(
        memory.meta_json["scm"]["bulk_reason"],
        "large_changeset:432"
    );
    assert_eq!(memory.evidence[0]["svn_rev"], "1");
}

/// Strict projects require evidence with hashes: cards have it, with and without the change.
#[tokio::test]
async fn cards_have_the_evidence_that_strict_projects_want() {
    let bench = Bench::new(Provider::Git).await;
    let policy = json!({"allowed_kinds": [], "evidence_mode": "strict"});
    bench.fixture.set_policy(policy).await;
    bench.record(&["first", "second"]).await;
    let sha = format!("{:040x}", 2);
    let content = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
    let patch = Patch {
        repo_id: bench.repo.repo_id,
        rev_or_sha: sha.clone(),
        uri: Some(format!("scm/p/1/git/{sha}/{content}.diff")),
        sha256: content.to_owned(),
        size_bytes: Some(4),
        format: PatchFormat::Diff,
        degrade_reason: None,
        error: None,
    };
    bench.fixture.scm.put_patch(&patch).await.unwrap();
    assert_eq!(counts(&bench.consume().await), [2, 0, 0, 0]);
    let audits = bench.fixture.audits().await;
    let about = |index: usize| &audits[index].evidence_refs_json;
    assert_eq!(about(0).get("patches"), None);
    let source_id = format!("{}:{sha}", bench.repo.repo_id);
    assert_eq!(about(1)["patches"][0]["source_id"], json!(source_id));
    assert_eq!(about(1)["external"][0]["git_commit"], json!(sha));
    let kept = bench.fixture.server.kept();
    assert!(
        kept.iter()
            .all(|kept| !kept.memory.payload_md.contains("memory://"))
    );
}

/// An unknown actor is handled by the settings. A rejection stops the repository.
#[tokio::test]
async fn an_unknown_actor_stops_it_where_the_policy_rejects() {
    let bench = Bench::with(Provider::Git, |options| {
        options.unknown_actor_policy = UnknownActorPolicy::Reject;
    })
    .await;
    bench.fixture.set_policy(json!({"allowed_kinds": []})).await;
    bench.record(&["first", "second"]).await;
    let options = ConsumeOptions {
        actor_user_id: Some("robot".to_owned()),
        ..ConsumeOptions::default()
    };
    let done = bench.consume_as(&options).await;
    assert_eq!(
        (counts(&done), reason(&done)),
        ([0; 4], Some("ACTOR_UNKNOWN"))
    );
    let stopped = done.stopped.unwrap();
    assert_eq!(stopped.code, "SCM_CONSUME_STOPPED");
    let first = format!("git:{}:{:040x}", bench.repo.repo_id, 1);
    assert_eq!(stopped.source_id, Some(first));
    assert_eq!(bench.cursor().await, None::<Value>);

    bench.fixture.make_user("robot").await;
    let done = bench.consume_as(&options).await;
    assert_eq!((counts(&done), reason(&done)), ([2, 0, 0, 0], None));
    assert_eq!(
        bench.fixture.audits().await[1].actor_user_id.as_deref(),
        Some("robot")
    );
}
