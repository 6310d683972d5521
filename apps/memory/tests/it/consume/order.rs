//! Cursors, rewinding, and who else is about.

use std::sync::atomic::{AtomicU64, Ordering};

use consign_memory::{
    OutboxStatus,
    consume::{self, ConsumeOptions, Watch},
    tools,
};
use consign_scm::{Provider, Stream};
use serde_json::json;

use super::bench::{Bench, counts, reason};
use crate::support::{SOON, ServerMode};

#[tokio::test]
async fn a_card_that_cannot_be_stored_is_deferred_and_the_cursor_moves() {
    let bench = Bench::new(Provider::Svn).await;
    bench.record(&["first", "second", "third"]).await;
    let watermark = bench
        .fixture
        .scm
        .watermark(bench.repo.repo_id, Stream::Svn)
        .await
        .unwrap();
    bench.fixture.server.behave(ServerMode::FailFor("second"));
    let done = bench.consume().await;
    assert_eq!((counts(&done), reason(&done)), ([2, 0, 1, 0], None));
    assert_eq!(done.position, 3);
    assert_eq!(bench.cursor().await, Some(json!({"last_processed_rev": 3})));
    let after = bench
        .fixture
        .scm
        .watermark(bench.repo.repo_id, Stream::Svn)
        .await
        .unwrap();
    assert_eq!(after, watermark);
    let rows = bench.fixture.rows().await;
    assert_eq!(rows.len(), 1);
    assert!(
        rows[0].payload_md.contains("[Summary]\nsecond\n"),
        "{}",
        rows[0].payload_md
    );
    assert_eq!(rows[0].status, OutboxStatus::Pending);
    assert_eq!(bench.fixture.server.kept().len(), 2);
    let again = bench.consume().await;
    assert_eq!((counts(&again), again.position), ([0, 0, 0, 0], 3));
}

/// The cursor of a Git repository counts commits by their serial numbers.
#[tokio::test]
async fn a_rewound_cursor_makes_the_same_cards_which_are_stored_once() {
    let bench = Bench::new(Provider::Git).await;
    bench.record(&["first", "second", "third"]).await;
    bench.fixture.hurry().await;
    bench.fixture.server.behave(ServerMode::FailFor("second"));
    bench.consume().await;
    let positions = bench.positions().await;
    let last = *positions.last().unwrap();
    assert_eq!(
        bench.cursor().await,
        Some(json!({"last_processed_id": last}))
    );
    bench.fixture.server.behave(ServerMode::Well);
    bench
        .fixture
        .work_until("the outbox is empty", async || {
            let rows = bench.fixture.rows().await;
            rows.iter().all(|row| row.status == OutboxStatus::Sent)
        })
        .await;
    let mut shas: Vec<_> = bench.fixture.audits().await;
    shas.retain(|audit| audit.evidence_refs_json.get("consume").is_some());
    let shas: Vec<_> = shas.into_iter().map(|audit| audit.payload_sha).collect();
    let writes = bench.fixture.server.writes();

    bench.rewind(0).await;
    let done = bench.consume().await;
    assert_eq!((counts(&done), reason(&done)), ([0, 0, 0, 3], None));
    assert_eq!(
        bench.cursor().await,
        Some(json!({"last_processed_id": last}))
    );
    assert_eq!(
        bench.fixture.server.writes(),
        writes,
        "nothing is stored twice"
    );
    let mut again: Vec<_> = bench.fixture.audits().await;
    again.retain(|audit| audit.evidence_refs_json.get("consume").is_some());
    let again: Vec<_> = again
        .into_iter()
        .skip(3)
        .map(|audit| audit.payload_sha)
        .collect();
    assert_eq!(again, shas, "the same texts");

    // Part of the way, and what came later.
    bench.rewind(positions[1]).await;
    bench.record(&["fourth"]).await;
    assert_eq!(counts(&bench.consume().await), [1, 0, 0, 1]);
}

/// A rewound cursor while the memory server is down: what waits is not enqueued twice.
#[tokio::test]
async fn what_waits_already_waits_once() {
    let bench = Bench::new(Provider::Git).await;
    bench.record(&["first", "second"]).await;
    bench.fixture.server.behave(ServerMode::Down);
    assert_eq!(counts(&bench.consume().await), [0, 0, 2, 0]);
    bench.rewind(0).await;
    assert_eq!(counts(&bench.consume().await), [0, 0, 0, 2]);
    assert_eq!(bench.fixture.rows().await.len(), 2);
    assert_eq!(
        bench.cursor().await.unwrap()["last_processed_id"],
        bench.positions().await[1]
    );
}

/// More than a page, in the order of history; a limit and a request to stop are kept.
#[tokio::test]
async fn changes_are_consumed_in_order_until_there_are_no_more() {
    let bench = Bench::new(Provider::Git).await;
    let messages: Vec<String> = (0..230).map(|number| format!("commit {number}.")).collect();
    let messages: Vec<&str> = messages.iter().map(String::as_str).collect();
    bench.record(&messages).await;
    let limited = ConsumeOptions {
        cards_max: Some(7),
        ..ConsumeOptions::default()
    };
    let positions = bench.positions().await;
    let done = bench.consume_as(&limited).await;
    assert_eq!((done.cards(), done.position), (7, positions[6]));

    let seen = AtomicU64::new(0);
    let watch = Watch {
        is_stopping: &|| seen.load(Ordering::SeqCst) == 3,
        progress: &|done| seen.store(done.cards(), Ordering::SeqCst),
    };
    let done = consume::run(
        &bench.service,
        &bench.repo,
        &ConsumeOptions::default(),
        watch,
    )
    .await;
    assert_eq!((done.cards(), done.position), (3, positions[9]));
    assert!(done.stopped.is_none());

    let done = bench.consume().await;
    assert_eq!((done.stored, done.position), (220, positions[229]));
    let audits = bench.fixture.audits().await;
    let told = audits
        .iter()
        .map(|audit| audit.evidence_refs_json["consume"]["to"].clone());
    let told: Vec<_> = told.collect();
    assert_eq!(
        told,
        positions.iter().map(|at| json!(at)).collect::<Vec<_>>()
    );
    assert_eq!(
        bench.fixture.server.finds(),
        0,
        "no process died, so nothing is looked up"
    );
}

/// Two repositories have two cursors.
#[tokio::test]
async fn each_repository_has_its_own_cursor() {
    let bench = Bench::new(Provider::Svn).await;
    bench.record(&["first"]).await;
    let other = consign_scm::NewRepo {
        provider: Provider::Git,
        url: "/srv/other.git".to_owned(),
        project_key: Some("other".to_owned()),
        default_branch: None,
    };
    let other = bench.fixture.scm.add_repo(&other).await.unwrap();
    let options = ConsumeOptions::default();
    let done = consume::run(&bench.service, &other, &options, Watch::none()).await;
    assert_eq!((counts(&done), done.position), ([0, 0, 0, 0], 0));
    assert_eq!(counts(&bench.consume().await), [1, 0, 0, 0]);
    assert_eq!(consume::position(&bench.service, &other).await.unwrap(), 0);
}

/// A rewind during a card: the cursor stays where it was set, and everything is
/// played again.
#[tokio::test]
async fn a_cursor_that_is_rewound_meanwhile_is_not_moved_past_what_it_was_rewound_to() {
    let bench = Bench::new(Provider::Git).await;
    bench.record(&["first", "second"]).await;
    bench.consume().await;
    bench.record(&["third", "fourth"]).await;
    bench.fixture.server.behave(ServerMode::Wait);
    let consuming = bench.consume();
    let rewinding = async {
        let is_sent = || async { bench.fixture.server.stores() == 3 };
        consign_testkit::eventually("the third is under way", SOON, is_sent).await;
        bench.rewind(0).await;
        bench.fixture.server.release();
    };
    let (done, ()) = tokio::join!(consuming, rewinding);
    assert_eq!((counts(&done), reason(&done)), ([2, 0, 0, 4], None));
    assert_eq!(done.position, bench.positions().await[3]);
    assert_eq!(bench.fixture.server.writes(), 4);
}

/// Two gateways consume the same repository: none of its cards is stored twice, none is left out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_at_once_store_nothing_twice() {
    let bench = Bench::new(Provider::Git).await;
    let messages: Vec<String> = (0..40).map(|number| format!("commit {number}.")).collect();
    let messages: Vec<&str> = messages.iter().map(String::as_str).collect();
    bench.record(&messages).await;
    let (one, two) = tokio::join!(bench.consume(), bench.consume());
    let rest = bench.consume().await;
    let last = *bench.positions().await.last().unwrap();
    assert_eq!(rest.position, last, "{one:?} {two:?} {rest:?}");
    assert_eq!(bench.fixture.server.kept().len(), 40);
    assert_eq!(bench.fixture.server.writes(), 40);
}

/// Only consumption moves cursors: a tool can not.
#[tokio::test]
async fn no_tool_moves_a_cursor() {
    let bench = Bench::new(Provider::Git).await;
    bench.record(&["first"]).await;
    let step = json!({"repo_id": 1, "field": "last_processed_id", "from": 0, "to": 1});
    let refused = bench
        .fixture
        .call("memory_store", json!({"payload_md": "x", "consume": step}))
        .await;
    assert_eq!(refused["error_code"], "INVALID_PARAMETER", "{refused}");
    let stored = bench
        .fixture
        .call(
            "memory_store",
            json!({
                "payload_md": "x", "meta_json": {"consume": step},
                "evidence": [{"uri": "git://x", "sha256": "", "consume": step}],
            }),
        )
        .await;
    assert_eq!(stored["ok"], true, "{stored}");
    assert_eq!(bench.cursor().await, None);
    assert!(
        tools::list()
            .iter()
            .all(|tool| !tool.name.contains("consume"))
    );
    for namespace in ["gateway.consume", "scm.sync"] {
        let key = format!("scm_consume:{}", bench.repo.repo_id);
        let arguments = json!({"namespace": namespace, "key": key, "value_json": step});
        let refused = bench.fixture.call("logbook_set_kv", arguments).await;
        assert_eq!(refused["error_code"], "INVALID_PARAMETER", "{refused}");
    }
    assert_eq!(bench.cursor().await, None);
}

crate::support::also_on_postgres! {
    a_card_that_cannot_be_stored_is_deferred_and_the_cursor_moves
    a_rewound_cursor_makes_the_same_cards_which_are_stored_once
    two_at_once_store_nothing_twice
}
