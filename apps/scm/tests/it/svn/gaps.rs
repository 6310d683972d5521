//! A folder that was not always there, and texts that do not fit into a batch.

use std::sync::Mutex;

use consign_scm::{Point, SyncHooks};

use super::{
    add, change, folder, history,
    made::{Node, PASSWORD, Revision, SvnServer, TestRepository, USER},
    numbers, place, revision,
    served::credential,
    sync_with,
};
use crate::stage::Stage;

/// Made in 1, deleted in 5, restored as it was in 4 in 8.
fn restored() -> Vec<Revision> {
    let mut revisions = history(4);
    revisions.push(revision("delete", vec![Node::Delete("trunk")]));
    revisions.push(revision("other", vec![folder("other")]));
    revisions.push(revision("other", vec![folder("other/one")]));
    revisions.push(revision("restore", vec![Node::Copy("trunk", 4, "trunk")]));
    revisions.push(revision("after", vec![change("trunk/n", "after\n")]));
    revisions
}

/// `svn` refuses a whole range whose youngest revision lies in the gap.
#[tokio::test]
async fn a_folder_that_was_deleted_and_restored_loses_no_revision() {
    let mut stage = Stage::new().await;
    let made = TestRepository::with(stage.path("r"), &restored());
    let url = format!("{}/trunk", made.url());
    for batch in 1..=10 {
        stage.options.batch_records_max = batch;
        // The same folder under another URL, to be read anew.
        let repo = add(
            &stage,
            &url.replace("file://", &format!("file://{}", "/.".repeat(batch))),
        )
        .await;
        assert_eq!(stage.sync(&repo).await.unwrap().written, 6, "{batch}");
        assert_eq!(
            numbers(&stage.changes(&repo).await),
            [1, 2, 3, 4, 8, 9],
            "in batches of {batch}"
        );
        assert_eq!(place(&stage, &repo).await, Some(9), "in batches of {batch}");
    }
}

/// What is not found in the middle, as behind a proxy that lost its way, is not what never was.
#[tokio::test]
async fn a_folder_that_is_lost_in_the_middle_is_an_error() {
    let mut stage = Stage::new().await;
    stage.options.batch_records_max = 2;
    stage.options.credential = credential(USER, PASSWORD);
    let served = SvnServer::new(&TestRepository::with(stage.path("r"), &history(9)));
    let others = (0..9).map(|n| revision("other", vec![folder(&format!("f{n}"))]));
    let other = TestRepository::with(stage.path("other"), &others.collect::<Vec<_>>());
    other.lock();
    // One for what there is, one for each batch.
    *served.next.lock().unwrap() = Some((3, other.path.clone()));
    let repo = add(&stage, &format!("{}/trunk", served.url())).await;
    let lost = stage.sync(&repo).await.unwrap_err();
    assert_eq!(lost.code(), "SCM_NOT_FOUND", "{lost}");
    assert!(lost.to_string().contains("E160013"), "{lost}");
    assert_eq!(place(&stage, &repo).await, Some(4));
    *served.next.lock().unwrap() = None;
    assert_eq!(stage.sync(&repo).await.unwrap().written, 5);
    let all: Vec<i64> = (1..=9).collect();
    assert_eq!(numbers(&stage.changes(&repo).await), all);
}

/// How many batches there were.
#[derive(Default)]
struct Batches(Mutex<u32>);

#[async_trait::async_trait]
impl SyncHooks for Batches {
    async fn reached(&self, point: Point) {
        if point == Point::AfterBatch {
            *self.0.lock().unwrap() += 1;
        }
    }
}

#[tokio::test]
async fn long_messages_make_small_batches() {
    let stage = Stage::new().await;
    let mut revisions = history(10);
    for revision in &mut revisions {
        revision.message = Some(vec![b'm'; 1 << 20]);
    }
    revisions[6].message = Some(vec![b'm'; (1 << 20) + 7]);
    let made = TestRepository::with(stage.path("r"), &revisions);
    let repo = add(&stage, &made.url()).await;
    let batches = Batches::default();
    let synced = sync_with(&stage, &repo, &batches).await.unwrap();
    assert_eq!((synced.written, synced.known), (10, 0));
    assert_eq!(*batches.0.lock().unwrap(), 3, "of four, four and two");
    let changes = stage.changes(&repo).await;
    assert_eq!(numbers(&changes), (1..=10).collect::<Vec<_>>());
    assert_eq!(place(&stage, &repo).await, Some(10));
    for change in changes {
        assert_eq!(change.message.len(), 1 << 20);
        let is_cut = change.meta_json.get("truncated").is_some();
        assert_eq!(is_cut, change.position == 7, "{}", change.position);
    }
}

/// PostgreSQL keeps no time before 4713 BC.
#[tokio::test]
async fn a_date_that_no_ledger_keeps_is_none() {
    let stage = Stage::new().await;
    let mut revisions = history(2);
    revisions[0].date = Some("-005000-01-01T00:00:00.000000Z");
    let made = TestRepository::with(stage.path("r"), &revisions);
    let repo = add(&stage, &made.url()).await;
    stage.sync(&repo).await.unwrap();
    let changes = stage.changes(&repo).await;
    assert_eq!((changes[0].ts, changes[1].ts.is_some()), (None, true));
}
