//! Merge requests: none is missed, whatever changes while pages are turned.

use std::sync::Mutex;

use consign_scm::Stream;
use jiff::Timestamp;
use serde_json::json;
use sqlx::{ConnectOptions, Row, sqlite::SqliteConnectOptions};

use super::{
    Scene,
    fake::{World, world_at as at},
};
use crate::stage::StopAfter;

/// Stored merge requests: number and status, by number.
async fn known(scene: &Scene) -> Vec<(i64, String)> {
    let file = SqliteConnectOptions::new().filename(scene.stage.path("queue.db"));
    let mut connection = file.connect().await.unwrap();
    let read = "SELECT CAST(substr(mr_id, instr(mr_id, ':') + 1) AS INTEGER) AS iid, status \
                FROM scm_mrs ORDER BY iid";
    let rows = sqlx::query(read).fetch_all(&mut connection).await.unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

fn all(count: i64, status: &str) -> Vec<(i64, String)> {
    (1..=count).map(|iid| (iid, status.to_owned())).collect()
}

fn open(world: &mut World, count: i64, when: impl Fn(i64) -> Timestamp) {
    for iid in 1..=count {
        world.touch(iid, "opened", when(iid));
    }
}

#[tokio::test]
async fn merge_requests_are_kept_up_to_date() {
    let scene = Scene::new().await;
    open(&mut scene.gitlab.world(), 250, |iid| at(iid * 1000));
    assert_eq!(scene.sync().await.unwrap().written, 250);
    assert_eq!(known(&scene).await, all(250, "opened"));
    let place = scene.place(Stream::GitlabMr).await;
    assert_eq!(place["last_mr_iid"], json!(250));
    assert_eq!(place["last_mr_updated_at"], json!(at(250_000).to_string()));
    let again = scene.sync().await.unwrap();
    assert_eq!(
        (again.written, again.known),
        (0, 0),
        "nothing is read twice"
    );
    scene.gitlab.world().touch(7, "merged", at(300_000));
    scene.gitlab.world().touch(8, "locked", at(300_001));
    scene.sync().await.unwrap();
    let known = known(&scene).await;
    assert_eq!(known[6], (7, "merged".to_owned()));
    assert_eq!(known[7], (8, "opened".to_owned()), "it is being merged");
    let place = scene.place(Stream::GitlabMr).await;
    assert_eq!(place["last_mr_iid"], json!(8));
}

/// One that changes moves to the end, and all behind it move up.
#[tokio::test]
async fn what_changes_while_pages_are_turned_is_not_missed() {
    let mut scene = Scene::new().await;
    scene.stage.options.batch_records_max = 10;
    open(&mut scene.gitlab.world(), 55, |iid| at(iid * 1000));
    for (nth, iid) in [(1, 3), (2, 5), (3, 15), (4, 1)] {
        let change = move |world: &mut World| world.touch(iid, "closed", at(100_000 + iid));
        scene.gitlab.world().after("/merge_requests?", nth, change);
    }
    scene.sync().await.unwrap();
    let mut expected = all(55, "opened");
    for iid in [1, 3, 5, 15] {
        expected[iid - 1].1 = "closed".to_owned();
    }
    assert_eq!(known(&scene).await, expected);
}

/// An import gives many the same time, and their order is undefined.
#[tokio::test]
async fn more_than_a_page_of_one_instant_is_read() {
    let mut scene = Scene::new().await;
    scene.stage.options.batch_records_max = 10;
    open(&mut scene.gitlab.world(), 64, |iid| match iid {
        1..=4 | 60.. => at(iid * 1000),
        _ => at(30_000),
    });
    // Among them one changes: the others move up.
    let change = |world: &mut World| world.touch(40, "closed", at(200_000));
    scene.gitlab.world().after("/merge_requests?", 4, change);
    scene.sync().await.unwrap();
    let mut expected = all(64, "opened");
    expected[39].1 = "closed".to_owned();
    assert_eq!(known(&scene).await, expected);
}

/// The database has microseconds, the API milliseconds.
#[tokio::test]
async fn truncated_times_are_harmless() {
    let mut scene = Scene::new().await;
    scene.stage.options.batch_records_max = 3;
    let tick = jiff::SignedDuration::from_micros(1);
    let when = |iid: i64| at(iid / 7) + tick * i32::try_from(iid).unwrap();
    open(&mut scene.gitlab.world(), 40, when);
    scene.sync().await.unwrap();
    assert_eq!(known(&scene).await, all(40, "opened"));
}

/// A change becomes visible after one that is younger.
#[tokio::test]
async fn a_change_that_shows_late_is_not_missed() {
    let scene = Scene::new().await;
    open(&mut scene.gitlab.world(), 3, |iid| at(iid * 1000));
    scene.sync().await.unwrap();
    scene.gitlab.world().touch(4, "opened", at(2500));
    assert_eq!(scene.sync().await.unwrap().written, 1);
    assert_eq!(known(&scene).await, all(4, "opened"));
    let place = scene.place(Stream::GitlabMr).await;
    assert_eq!(place["last_mr_iid"], json!(3), "it never goes back");
    assert_eq!(scene.sync().await.unwrap().written, 0);
}

#[tokio::test]
async fn a_stopped_synchronisation_goes_on_where_it_was() {
    let mut scene = Scene::new().await;
    scene.stage.options.batch_records_max = 10;
    open(&mut scene.gitlab.world(), 35, |iid| at(iid * 100_000));
    let mut runs = 0;
    loop {
        let hooks = StopAfter {
            stop: &scene.stage.stop,
            batches: Mutex::new(1),
        };
        let ended = scene.sync_with(&hooks).await;
        scene.stage.stop.send_replace(false);
        let known = known(&scene).await;
        assert_eq!(known, all(known.len() as i64, "opened"));
        runs += 1;
        if known.len() == 35 {
            break;
        }
        assert_eq!(ended.unwrap_err().code(), "SCM_STOPPED");
        assert!(runs < 10);
    }
}

#[tokio::test]
async fn a_project_without_merge_requests_has_none() {
    let scene = Scene::new().await;
    let pushed = scene.gitlab.world().push("main", 2);
    scene.gitlab.world().has_merge_requests = false;
    assert_eq!(scene.sync().await.unwrap().written, 2);
    assert_eq!(scene.names().await, pushed);
    assert!(scene.place(Stream::GitlabMr).await.is_empty());
}
