//! Subversion, with real repositories, the real `svn` and a real `svnserve`.

mod diffs;
mod gaps;
mod made;
mod served;
mod web;

use std::sync::Mutex;

use consign_scm::{
    Change, NewRepo, Provider, Repo, ScmError, ScmLedger, Stream, SyncHooks, SyncReport, Watermark,
};
use serde_json::{Value, json};

use self::made::{Node, Revision, TestRepository, change, file, folder, revision};
use crate::stage::{Stage, StopAfter};

async fn add(stage: &Stage, url: &str) -> Repo {
    let repo = NewRepo {
        provider: Provider::Svn,
        url: url.to_owned(),
        project_key: Some("p".into()),
        default_branch: None,
    };
    stage.store.add_repo(&repo).await.unwrap()
}

async fn place(stage: &Stage, repo: &Repo) -> Option<i64> {
    let stored = stage
        .store
        .watermark(repo.repo_id, Stream::Svn)
        .await
        .unwrap();
    let watermark = Watermark::read(stored.as_ref());
    watermark.place.get("last_rev").and_then(Value::as_i64)
}

fn numbers(changes: &[Change]) -> Vec<i64> {
    changes.iter().map(|change| change.position).collect()
}

async fn sync_with(
    stage: &Stage,
    repo: &Repo,
    hooks: &dyn SyncHooks,
) -> Result<SyncReport, ScmError> {
    let source = consign_scm::open(repo, &stage.options).unwrap();
    stage.synchronizer(repo, &*source, hooks).sync().await
}

/// So many revisions, after one that makes the files.
fn history(count: usize) -> Vec<Revision> {
    let begin = revision("begin", vec![folder("trunk"), file("trunk/n", "0\n")]);
    let step = |n: usize| {
        revision(
            &format!("step {n}"),
            vec![change("trunk/n", &format!("{n}\n"))],
        )
    };
    std::iter::once(begin).chain((1..count).map(step)).collect()
}

#[tokio::test]
async fn revisions_are_written_as_they_are() {
    let stage = Stage::new().await;
    let many = (0..101)
        .map(|n| file(&format!("trunk/f{n}"), "x\n"))
        .collect();
    let property = Node::Property("trunk/a é.txt".into(), "svn:keywords", "Id");
    let nobody = Revision {
        author: None,
        date: None,
        message: None,
        nodes: vec![change("trunk/a é.txt", "2\n")],
    };
    let odd = Revision {
        message: Some(b"bad \xff\xfe and \x01 & <b>".to_vec()),
        ..revision("", vec![change("trunk/a é.txt", "3\n")])
    };
    let made = TestRepository::with(
        stage.path("r"),
        &[
            revision(
                "begin\n\nmore",
                vec![folder("trunk"), file("trunk/a é.txt", "1\n")],
            ),
            revision("property", vec![property]),
            nobody,
            odd,
            revision("many", many),
        ],
    );
    let repo = add(&stage, &made.url()).await;
    let synced = stage.sync(&repo).await.unwrap();
    assert_eq!((synced.written, synced.known), (5, 0));
    let changes = stage.changes(&repo).await;
    assert_eq!(numbers(&changes), [1, 2, 3, 4, 5], "revision 0 is none");
    let [begin, property, nobody, odd, many] = changes.try_into().unwrap();
    assert_eq!(begin.source_id, format!("svn:{}:1", repo.repo_id));
    assert_eq!(
        (begin.author_raw.as_str(), begin.message.as_str()),
        ("ann", "begin\n\nmore")
    );
    assert_eq!(begin.ts.unwrap().to_string(), "2026-01-02T03:04:05.000006Z");
    assert_eq!(
        begin.meta_json["paths"],
        json!(["/trunk", "/trunk/a é.txt"])
    );
    assert_eq!(property.meta_json["properties_only"], true);
    assert_eq!(
        (
            nobody.author_raw.as_str(),
            nobody.message.as_str(),
            nobody.ts
        ),
        ("", "", None)
    );
    assert_eq!(odd.message, "bad \u{fffd}\u{fffd} and ?\\001 & <b>");
    assert_eq!(
        (&odd.meta_json["lossy"], begin.meta_json.get("lossy")),
        (&json!(true), None)
    );
    assert_eq!(
        many.bulk_reason.as_deref(),
        Some("large_changeset:101"),
        "more than 100 changed paths"
    );
    assert_eq!(place(&stage, &repo).await, Some(5));
    assert_eq!(stage.waits.load(std::sync::atomic::Ordering::SeqCst), 0);
}

#[tokio::test]
async fn what_is_new_is_read_and_the_rest_stays() {
    let stage = Stage::new().await;
    let made = TestRepository::new(stage.path("r"));
    let repo = add(&stage, &made.url()).await;
    assert_eq!(stage.sync(&repo).await.unwrap(), SyncReport::default());
    assert_eq!(
        place(&stage, &repo).await,
        None,
        "an empty repository has no watermark"
    );
    made.load(&history(3));
    assert_eq!(stage.sync(&repo).await.unwrap().written, 3);
    assert_eq!(stage.sync(&repo).await.unwrap(), SyncReport::default());
    let first = stage.changes(&repo).await;
    made.load(&[revision("late", vec![change("trunk/n", "late\n")])]);
    let synced = stage.sync(&repo).await.unwrap();
    assert_eq!((synced.written, synced.known), (1, 0));
    let all = stage.changes(&repo).await;
    assert_eq!((&all[..3], numbers(&all)), (&first[..], vec![1, 2, 3, 4]));
}

/// The process may end after every batch.
#[tokio::test]
async fn a_stopped_synchronisation_goes_on_where_it_was() {
    let mut stage = Stage::new().await;
    stage.options.batch_records_max = 3;
    let made = TestRepository::with(stage.path("r"), &history(11));
    let repo = add(&stage, &made.url()).await;
    for batches in 1..=4_i64 {
        let hooks = StopAfter {
            stop: &stage.stop,
            batches: Mutex::new(1),
        };
        let stopped = sync_with(&stage, &repo, &hooks).await.unwrap_err();
        assert_eq!(stopped.code(), "SCM_STOPPED");
        stage.stop.send_replace(false);
        let here = place(&stage, &repo).await.unwrap();
        assert_eq!(
            numbers(&stage.changes(&repo).await),
            (1..=here).collect::<Vec<_>>()
        );
        assert_eq!(here, 11.min(3 * batches));
    }
    assert_eq!(stage.sync(&repo).await.unwrap(), SyncReport::default());
    assert_eq!(
        numbers(&stage.changes(&repo).await),
        (1..=11).collect::<Vec<_>>()
    );
}

#[tokio::test]
async fn a_folder_has_the_revisions_that_touch_it() {
    let mut stage = Stage::new().await;
    stage.options.batch_records_max = 2;
    let other = |n: usize| revision("other", vec![change("other", &format!("{n}\n"))]);
    let mut revisions = vec![
        revision("begin", vec![file("other", "\n")]),
        other(1),
        revision("old", vec![folder("old"), file("old/f", "1\n")]),
        revision("both", vec![change("old/f", "2\n"), change("other", "x\n")]),
    ];
    revisions.extend((0..20).map(other));
    revisions.push(revision(
        "moved",
        vec![Node::Copy("old", 24, "new folder"), Node::Delete("old")],
    ));
    revisions.push(revision("inside", vec![change("new folder/f", "3\n")]));
    revisions.extend((20..29).map(other));
    let made = TestRepository::with(stage.path("r"), &revisions);
    let repo = add(&stage, &format!("{}/new%20folder", made.url())).await;
    assert_eq!(stage.sync(&repo).await.unwrap().written, 4);
    let changes = stage.changes(&repo).await;
    assert_eq!(numbers(&changes), [3, 4, 25, 26], "its older name included");
    assert_eq!(changes[3].meta_json["paths"], json!(["/new folder/f"]));
    assert_eq!(
        place(&stage, &repo).await,
        Some(35),
        "what does not touch it is read as well"
    );
    made.load(&[
        other(40),
        revision(
            "in",
            vec![change("new folder/f", "4\n"), change("other", "y\n")],
        ),
    ]);
    assert_eq!(stage.sync(&repo).await.unwrap().written, 1);
    assert_eq!(stage.changes(&repo).await[4].meta_json["paths_total"], 1);
    let missing = add(&stage, &format!("{}/nowhere", made.url())).await;
    let refused = stage.sync(&missing).await.unwrap_err();
    assert_eq!(refused.code(), "SCM_NOT_FOUND", "{refused}");
}

#[tokio::test]
async fn another_repository_is_not_taken_for_the_one_that_was_read() {
    let stage = Stage::new().await;
    let made = TestRepository::with(stage.path("r"), &history(5));
    let repo = add(&stage, &made.url()).await;
    stage.sync(&repo).await.unwrap();
    std::fs::rename(&made.path, stage.path("away")).unwrap();
    let refused = stage.sync(&repo).await.unwrap_err();
    assert_eq!(refused.code(), "SCM_NOT_FOUND", "{refused}");
    TestRepository::with(stage.path("r"), &history(9));
    let refused = stage.sync(&repo).await.unwrap_err();
    assert_eq!(refused.code(), "SCM_NOT_FOUND", "{refused}");
    assert!(
        refused.to_string().contains("the repository was replaced"),
        "{refused}"
    );
    assert_eq!(numbers(&stage.changes(&repo).await), [1, 2, 3, 4, 5]);
    assert_eq!(place(&stage, &repo).await, Some(5), "the watermark stays");
}
