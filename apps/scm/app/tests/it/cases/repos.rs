//! Repositories, their notes and status.

use std::{collections::BTreeSet, sync::Arc};

use consign_memory::{Event, EventFilter, Item, ItemFilter, Logbook};
use consign_scm::{End, NewRepo, Provider, Repo, RepoStatus, Step, Stop, Stream};
use jiff::SignedDuration;
use serde_json::json;
use tokio::task::JoinSet;

use super::fixture::{ScmFixture, at, commit, commits, mark, new_repo, refused, revision, sha};
use super::{Harness, all};

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

/// The type and the URL.
pub(crate) async fn a_repository_is_added_once(harness: &dyn Harness) {
    let ledger = harness.ledger();
    assert_eq!(ledger.repos().await.expect("repos answers"), []);
    let url = "https://example.com/r";
    let add = async |repo: &NewRepo| ledger.add_repo(repo).await.expect("add_repo answers");
    let first = add(&new_repo(Provider::Git, url)).await;
    let expected = Repo {
        repo_id: first.repo_id,
        provider: Provider::Git,
        url: url.to_owned(),
        project_key: None,
        default_branch: None,
        created_at: harness.now().await,
    };
    assert_eq!(first, expected);
    harness.advance(SignedDuration::from_secs(1)).await;
    assert_eq!(add(&new_repo(Provider::Git, url)).await, expected, "again");

    // Set fields are updated, others stay.
    let mut stated = new_repo(Provider::Git, url);
    stated.project_key = text("p");
    let mut expected = Repo {
        project_key: text("p"),
        ..expected
    };
    assert_eq!(add(&stated).await, expected);
    stated.project_key = None;
    stated.default_branch = text("main");
    expected.default_branch = text("main");
    assert_eq!(add(&stated).await, expected);
    let as_project = add(&new_repo(Provider::Gitlab, url)).await;
    assert_eq!(as_project, expected, "GitLab's are Git's");

    let svn = add(&new_repo(Provider::Svn, url)).await;
    assert_eq!(svn.provider, Provider::Svn);
    let gitlab = add(&new_repo(Provider::Gitlab, "https://example.com/g")).await;
    let listed = ledger.repos().await.expect("repos answers");
    assert_eq!(listed, [expected, svn, gitlab.clone()], "oldest first");
    let found = ledger.repo(gitlab.repo_id).await.expect("repo answers");
    assert_eq!(found, Some(gitlab.clone()));
    let nobody = ledger.repo(gitlab.repo_id + 1).await;
    assert_eq!(nobody.expect("repo answers"), None);
}

pub(crate) async fn a_repository_added_ten_times_at_once_is_one(harness: &dyn Harness) {
    let mut tasks = JoinSet::new();
    let mine = harness.ledger();
    let other = harness.another().await;
    for n in 0..10 {
        let ledger = Arc::clone(if n % 2 == 0 { &mine } else { &other });
        tasks.spawn(async move {
            let repo = ledger.add_repo(&new_repo(Provider::Git, "/srv/r")).await;
            repo.expect("add_repo answers").repo_id
        });
    }
    let ids: BTreeSet<i64> = all(tasks).await.into_iter().collect();
    assert_eq!(ids.len(), 1, "{ids:?}");
}

pub(crate) async fn what_is_no_repository_is_refused(harness: &dyn Harness) {
    let ledger = harness.ledger();
    let credentials = ["https://u:p@h/r", "https://token@h/r", "ssh://u:p@h/r"];
    for url in ["", "a\0b", &"x".repeat(2_001)]
        .into_iter()
        .chain(credentials)
    {
        let added = ledger.add_repo(&new_repo(Provider::Git, url)).await;
        refused(added, "SCM_RECORD_REFUSED");
    }
    assert_eq!(ledger.repos().await.expect("repos answers"), []);
}

/// A repository without any step.
fn untouched(repo: Repo) -> RepoStatus {
    RepoStatus {
        repo,
        changes: 0,
        last_position: None,
        last_change_at: None,
        unconsumed: 0,
        consumed_position: 0,
        patches_failed: 0,
        patches_here: 0,
        watermarks: serde_json::Map::new(),
        watermarks_moved_at: None,
        synced_at: None,
        sync_stopped: None,
        consumed_at: None,
        consume_stopped: None,
    }
}

pub(crate) async fn status_counts_add_up(harness: &dyn Harness) {
    let git = ScmFixture::new(harness).await;
    let svn = ScmFixture::of(harness, Provider::Svn, Stream::Svn).await;
    let empty = untouched(git.repo.clone());
    assert_eq!(git.status().await, empty, "nothing yet");

    git.record("3", commits(1..=3)).await;
    svn.record(
        "r7",
        consign_scm::Records::Revisions(vec![revision(5), revision(7)]),
    )
    .await;
    harness.advance(SignedDuration::from_secs(60)).await;
    git.record("5", commits(3..=5)).await;
    git.put(&git.failed(&sha(1), "boom")).await;
    git.put(&git.failed(&sha(2), "boom")).await;
    git.put(&git.failed(&sha(2), "boom")).await;
    git.put(&git.fetched(&sha(2), 2)).await;
    git.put(&git.fetched(&sha(3), 3)).await;
    git.put(&git.fetched(&sha(3), 33)).await;
    git.put(&git.failed(&sha(3), "boom")).await;

    let positions: Vec<i64> = git.changes(0).await.iter().map(|c| c.position).collect();
    let expected = RepoStatus {
        changes: 5,
        last_position: Some(positions[4]),
        last_change_at: commit(5).ts,
        unconsumed: 5,
        patches_failed: 1,
        patches_here: 2,
        watermarks: [(Stream::Git.key(git.id()), mark("5"))]
            .into_iter()
            .collect(),
        watermarks_moved_at: Some(harness.now().await),
        ..empty
    };
    assert_eq!(git.status().await, expected);

    // The gateway's cursor; of another shape it is at the beginning.
    let book = harness.logbook();
    for (value, position, unconsumed) in [
        (json!({"last_processed_id": positions[1]}), positions[1], 3),
        (
            json!({"last_processed_id": positions[4] + 9}),
            positions[4] + 9,
            0,
        ),
        (json!({"last_processed_rev": 7}), 0, 5),
        (json!({"last_processed_id": "x"}), 0, 5),
        (json!(7), 0, 5),
    ] {
        let key = format!("scm_consume:{}", git.id());
        let set = book.set_kv("gateway.consume", &key, &value).await;
        set.expect("set_kv answers");
        let status = git.status().await;
        let found = (status.consumed_position, status.unconsumed);
        assert_eq!(found, (position, unconsumed), "{value}");
    }
    let key = format!("scm_consume:{}", svn.id());
    let value = json!({"last_processed_rev": 5});
    let set = book.set_kv("gateway.consume", &key, &value).await;
    set.expect("set_kv answers");
    let status = svn.status().await;
    assert_eq!((status.changes, status.last_position), (2, Some(7)));
    assert_eq!((status.consumed_position, status.unconsumed), (5, 1));
    assert_eq!(status.last_change_at, Some(at(1_700_000_007)));
}

pub(crate) async fn the_end_of_a_step_is_stored(harness: &dyn Harness) {
    let git = ScmFixture::new(harness).await;
    let other = ScmFixture::of(harness, Provider::Svn, Stream::Svn).await;
    let untouched = other.status().await;
    let ends = async |step, end: &End| {
        let ended = git.ledger.ended(git.id(), step, end).await;
        ended.expect("ended answers");
        harness.now().await
    };
    let stop = |code: &str, at| {
        Some(Stop {
            code: code.to_owned(),
            message: "boom \u{e4}".to_owned(),
            at,
        })
    };
    let complete_at = ends(Step::Sync, &End::Complete).await;
    let status = git.status().await;
    assert_eq!(status.synced_at, Some(complete_at));
    assert_eq!((status.consumed_at, status.consume_stopped), (None, None));

    // One that stopped halfway moved a watermark, and looks no fresher for it.
    harness.advance(SignedDuration::from_secs(60)).await;
    git.record("3", commits(1..=3)).await;
    let at = ends(Step::Sync, &End::stopped("SCM_UNREACHABLE", "boom \u{e4}")).await;
    let status = git.status().await;
    assert_eq!(status.watermarks_moved_at, Some(at));
    assert_eq!(status.synced_at, Some(complete_at));
    assert_eq!(status.sync_stopped, stop("SCM_UNREACHABLE", at));
    assert_eq!((status.consumed_at, status.consume_stopped), (None, None));

    harness.advance(SignedDuration::from_secs(60)).await;
    let at = ends(Step::Consume, &End::stopped("X", "boom \u{e4}")).await;
    let status = git.status().await;
    assert_eq!(status.consume_stopped, stop("X", at));
    assert!(status.sync_stopped.is_some(), "each step by itself");
    ends(Step::Consume, &End::Partial).await;
    let status = git.status().await;
    assert_eq!((status.consumed_at, status.consume_stopped), (None, None));
    let at = ends(Step::Sync, &End::Complete).await;
    let status = git.status().await;
    assert_eq!((status.synced_at, status.sync_stopped), (Some(at), None));

    assert_eq!(other.status().await, untouched);
    let nowhere = git.ledger.ended(99, Step::Sync, &End::Complete).await;
    refused(nowhere, "SCM_UNKNOWN_REPO");
}

/// The events of a repository's item, oldest first, with the item.
async fn noted(book: &Arc<dyn Logbook>) -> (Item, Vec<Event>) {
    let filter = ItemFilter {
        item_type: text("scm_repo"),
        ..ItemFilter::default()
    };
    let mut items = book.items(&filter, 10).await.expect("items answers");
    assert_eq!(items.len(), 1, "one item of a repository: {items:#?}");
    let item = items.remove(0);
    let filter = EventFilter {
        item_id: Some(item.item_id),
        ..EventFilter::default()
    };
    let mut events = book.events(&filter, 100).await.expect("events answers");
    events.sort_by_key(|event| event.event_id);
    (item, events)
}

/// Failures are recorded in logbook.events.
pub(crate) async fn a_note_is_an_event_of_the_repository(harness: &dyn Harness) {
    let fixture = ScmFixture::new(harness).await;
    let book = harness.logbook();
    let mut in_project = new_repo(Provider::Git, &fixture.repo.url);
    in_project.project_key = text("p");
    let repo = fixture.ledger.add_repo(&in_project).await;
    repo.expect("add_repo answers");
    let payload = json!({"old": sha(1), "new": sha(2)});
    let note = async |event_type: &str, payload| {
        fixture
            .ledger
            .note(fixture.id(), event_type, &payload)
            .await
    };
    let first = note("scm_history_rewritten", payload.clone()).await;
    first.expect("note answers");
    note("scm_record_skipped", json!({}))
        .await
        .expect("note answers");
    let (item, events) = noted(&book).await;
    assert_eq!(item.title, fixture.repo.url);
    assert_eq!(json!(item.scope_json), json!({"repo_id": fixture.id()}));
    assert_eq!(
        (item.project_key, item.status.as_str()),
        (text("p"), "open")
    );
    let types: Vec<&str> = events.iter().map(|event| &*event.event_type).collect();
    assert_eq!(types, ["scm_history_rewritten", "scm_record_skipped"]);
    assert_eq!(json!(events[0].payload_json), payload);
    assert_eq!(events[0].source, "scm");
    assert_eq!(events[0].created_at, harness.now().await);

    refused(note("x", json!("text")).await, "SCM_RECORD_REFUSED");
    refused(note("", json!({})).await, "SCM_RECORD_REFUSED");
    let nowhere = fixture.ledger.note(fixture.id() + 1, "x", &json!({})).await;
    refused(nowhere, "SCM_UNKNOWN_REPO");
    assert_eq!(noted(&book).await.1.len(), 2, "refused as a whole");
}

pub(crate) async fn notes_by_ten_at_once_share_an_item(harness: &dyn Harness) {
    let fixture = ScmFixture::new(harness).await;
    let other = harness.another().await;
    let mut tasks = JoinSet::new();
    for n in 0..10 {
        let ledger = Arc::clone(if n % 2 == 0 { &fixture.ledger } else { &other });
        let id = fixture.id();
        tasks.spawn(async move {
            let noted = ledger
                .note(id, "scm_record_skipped", &json!({"n": n}))
                .await;
            noted.expect("note answers");
        });
    }
    all(tasks).await;
    let book = harness.logbook();
    assert_eq!(noted(&book).await.1.len(), 10);
}
