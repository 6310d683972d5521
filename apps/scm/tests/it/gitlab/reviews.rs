//! Reviews: notes and approvals of stored merge requests.

use std::sync::Mutex;

use consign_scm::Stream;
use serde_json::{Value, json};
use sqlx::{ConnectOptions, Row, sqlite::SqliteConnectOptions};

use super::{
    Scene,
    fake::{Fault, Note, World, world_at as at},
};
use crate::stage::StopAfter;

/// Stored reviews: merge request, id at the source, event.
async fn known(scene: &Scene) -> Vec<(String, String, String, Value)> {
    let file = SqliteConnectOptions::new().filename(scene.stage.path("queue.db"));
    let mut connection = file.connect().await.unwrap();
    let read = "SELECT mr_id, source_event_id, event_type, payload_json FROM scm_review_events \
                ORDER BY mr_id, id";
    let rows = sqlx::query(read).fetch_all(&mut connection).await.unwrap();
    let review = |row: &sqlx::sqlite::SqliteRow| {
        let payload: String = row.get(3);
        let payload = serde_json::from_str(&payload).unwrap();
        (row.get(0), row.get(1), row.get(2), payload)
    };
    rows.iter().map(review).collect()
}

fn note(id: i64, body: &str, system: bool) -> Note {
    Note {
        id,
        body: body.to_owned(),
        system,
        author: id % 10,
    }
}

#[tokio::test]
async fn notes_and_approvals_become_events() {
    let scene = Scene::new().await;
    {
        let mut world = scene.gitlab.world();
        world.touch(1, "opened", at(1000));
        let notes = vec![
            note(11, "looks good", false),
            note(12, "approved this merge request", true),
            note(14, "unapproved this merge request", true),
            note(15, "added 1 commit", true),
        ];
        world.notes.insert(1, notes);
        // User 2 has a note; user 3 is only in the list of approvals.
        world.approvals = vec![(1, 2), (1, 3)];
    }
    assert_eq!(scene.sync().await.unwrap().written, 1 + 5);
    let mr = format!("{}:1", scene.repo.repo_id);
    let expected = [
        (
            "note:11",
            "comment",
            json!({"author": "u1", "body": "looks good"}),
        ),
        (
            "note:12",
            "approve",
            json!({"author": "u2", "body": "approved this merge request"}),
        ),
        (
            "note:14",
            "unapprove",
            json!({"author": "u4", "body": "unapproved this merge request"}),
        ),
        (
            "note:15",
            "push",
            json!({"author": "u5", "body": "added 1 commit"}),
        ),
        ("approval:3", "approve", json!({"author": "u3"})),
    ];
    let expected =
        expected.map(|(name, what, payload)| (mr.clone(), name.into(), what.into(), payload));
    assert_eq!(known(&scene).await, expected);
    let place = scene.place(Stream::GitlabReviews).await;
    assert_eq!(place["last_event_ts"], json!(at(15).to_string()));
    assert_eq!(
        (&place["last_mr_iid"], scene.sync().await.unwrap().written),
        (&json!(1), 0)
    );
    {
        let mut world = scene.gitlab.world();
        world.touch(1, "opened", at(2000));
        world
            .notes
            .get_mut(&1)
            .unwrap()
            .push(note(16, "more", false));
    }
    assert_eq!(scene.sync().await.unwrap().written, 1);
    assert_eq!(known(&scene).await.len(), 6);
}

/// Reviews of a merge request that was opened meanwhile come with it, the next time.
#[tokio::test]
async fn reviews_follow_their_merge_requests() {
    let scene = Scene::new().await;
    scene.gitlab.world().touch(1, "opened", at(1000));
    scene
        .gitlab
        .world()
        .notes
        .insert(1, vec![note(1, "a", false)]);
    // Between the list of merge requests and the reviews.
    scene.gitlab.world().after("/merge_requests?", 1, |world| {
        world.touch(2, "opened", at(5000));
        world.notes.insert(2, vec![note(2, "b", false)]);
    });
    scene.sync().await.unwrap();
    assert_eq!(known(&scene).await.len(), 1);
    scene.sync().await.unwrap();
    assert_eq!(known(&scene).await.len(), 2);
}

/// A note that is deleted while the pages are turned moves the others up.
#[tokio::test]
async fn no_note_is_missed_when_another_is_deleted() {
    let scene = Scene::new().await;
    {
        let mut world = scene.gitlab.world();
        world.touch(1, "opened", at(1000));
        let notes = (1..=250).map(|id| note(id, "text", false)).collect();
        world.notes.insert(1, notes);
        let delete = |world: &mut World| drop(world.notes.get_mut(&1).unwrap().remove(10));
        world.after("/notes?", 1, delete);
    }
    scene.sync().await.unwrap();
    let names: Vec<String> = known(&scene)
        .await
        .into_iter()
        .map(|(_, name, ..)| name)
        .collect();
    let expected: Vec<String> = (1..=250).map(|id| format!("note:{id}")).collect();
    assert_eq!(names, expected, "the deleted one had been seen");
}

/// Notes that are not found are no notes only if their merge request was deleted.
#[tokio::test]
async fn a_project_that_is_hidden_in_between_loses_no_note() {
    let scene = Scene::new().await;
    {
        let mut world = scene.gitlab.world();
        for iid in 1..=3 {
            world.touch(iid, "opened", at(iid * 1000));
            world.notes.insert(iid, vec![note(iid, "text", false)]);
        }
        world.after("/1/approvals", 1, |world| world.is_hidden = true);
    }
    let hidden = scene.sync().await.unwrap_err();
    assert_eq!(hidden.code(), "SCM_NOT_FOUND", "{hidden}");
    scene.gitlab.world().is_hidden = false;
    // Nor does a single wrong answer.
    let wrong = Fault::Status(404, Vec::new());
    scene.gitlab.world().faults.push_back(("/2/notes?", wrong));
    let refused = scene.sync().await.unwrap_err();
    assert_eq!(refused.code(), "SCM_NOT_FOUND", "{refused}");
    scene.sync().await.unwrap();
    assert_eq!(known(&scene).await.len(), 3);
}

#[tokio::test]
async fn a_deleted_merge_request_does_not_block_reviews() {
    let scene = Scene::new().await;
    {
        let mut world = scene.gitlab.world();
        for iid in 1..=3 {
            world.touch(iid, "opened", at(iid * 1000));
            world.notes.insert(iid, vec![note(iid, "text", false)]);
        }
        world.after("/1/approvals", 1, |world| world.delete(2));
    }
    scene.sync().await.unwrap();
    let names = known(&scene).await.into_iter().map(|(_, name, ..)| name);
    assert_eq!(names.collect::<Vec<_>>(), ["note:1", "note:3"]);
    assert_eq!(scene.place(Stream::GitlabReviews).await["last_mr_iid"], 3);
}

#[tokio::test]
async fn a_stopped_synchronisation_goes_on_where_it_was() {
    let mut scene = Scene::new().await;
    scene.stage.options.batch_records_max = 4;
    {
        let mut world = scene.gitlab.world();
        for iid in 1..=6 {
            world.touch(iid, "opened", at(iid * 100_000));
            let notes = (0..iid * 2)
                .map(|n| note(iid * 100 + n, "text", false))
                .collect();
            world.notes.insert(iid, notes);
        }
    }
    let mut runs = 0;
    loop {
        let hooks = StopAfter {
            stop: &scene.stage.stop,
            batches: Mutex::new(1),
        };
        let ended = scene.sync_with(&hooks).await;
        scene.stage.stop.send_replace(false);
        runs += 1;
        assert!(runs < 60);
        if ended.is_ok() {
            break;
        }
        assert_eq!(ended.unwrap_err().code(), "SCM_STOPPED");
    }
    assert_eq!(known(&scene).await.len(), 2 + 4 + 6 + 8 + 10 + 12);
    assert!(runs > 5, "{runs}");
}
