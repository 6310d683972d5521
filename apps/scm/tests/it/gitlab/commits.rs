//! Commits: in order, whatever is pushed meanwhile, from wherever it was stopped.

use std::sync::Mutex;

use consign_scm::{Stream, SyncReport};
use serde_json::json;

use super::{Scene, fake::world_at as at};
use crate::stage::StopAfter;

#[tokio::test]
async fn commits_are_written_oldest_first() {
    let scene = Scene::new().await;
    assert_eq!(scene.sync().await.unwrap(), SyncReport::default());
    assert!(
        scene.place(Stream::Gitlab).await.is_empty(),
        "nothing was pushed"
    );
    let mut pushed = scene.gitlab.world().push("main", 250);
    assert_eq!(scene.sync().await.unwrap().written, 250);
    assert_eq!(scene.names().await, pushed);
    let place = scene.place(Stream::Gitlab).await;
    let expected =
        json!({"last_commit_sha": pushed[249], "last_commit_ts": at(249_000).to_string()});
    assert_eq!(json!(place), expected);
    let change = scene.stage.changes(&scene.repo).await.remove(1);
    assert_eq!(
        change.source_id,
        format!("git:{}:{}", scene.repo.repo_id, pushed[1])
    );
    assert_eq!(
        (change.author_raw.as_str(), change.message.as_str()),
        ("Ann <ann@x>", "commit 2\n\nmore")
    );
    assert_eq!(change.ts, Some(at(1000)));
    assert_eq!(change.meta_json["parents"], json!([pushed[0]]));
    assert_eq!(
        (&change.meta_json["additions"], change.bulk_reason),
        (&json!(3), None)
    );
    scene.gitlab.requests();
    let synced = scene.sync().await.unwrap();
    assert_eq!((synced.written, synced.known), (0, 0));
    assert!(
        scene.gitlab.requests().len() < 8,
        "nothing new costs little"
    );
    pushed.extend(scene.gitlab.world().push("main", 3));
    assert_eq!(scene.sync().await.unwrap().written, 3);
    assert_eq!(scene.names().await, pushed);
}

/// A branch that was worked on in silence is merged, with dates long before the last commit.
#[tokio::test]
async fn commits_pushed_late_are_found() {
    let scene = Scene::new().await;
    let pushed = scene.gitlab.world().push("main", 5);
    scene.sync().await.unwrap();
    let (late, merge) = {
        let mut world = scene.gitlab.world();
        let late = world.commit(&[&pushed[0]], at(-1_000_000), (900, 101));
        let merge = world.commit(&[&pushed[4], &late], at(9000), (1, 1));
        world.branches.insert("main".into(), merge.clone());
        (late, merge)
    };
    assert_eq!(scene.sync().await.unwrap().written, 2);
    assert_eq!(scene.names().await[5..], [late, merge]);
    let changes = scene.stage.changes(&scene.repo).await;
    assert_eq!(changes[5].bulk_reason.as_deref(), Some("large_diff:1001"));
    assert!(changes[6].is_merge && !changes[5].is_merge);
    assert!(
        scene.stage.events().await.is_empty(),
        "nothing was rewritten"
    );
}

/// Pages of a list that grows at its beginning would shift.
#[tokio::test]
async fn what_is_pushed_while_pages_are_turned_does_not_shift_them() {
    let mut scene = Scene::new().await;
    scene.stage.options.batch_records_max = 10;
    let mut pushed = scene.gitlab.world().push("main", 95);
    for nth in [2, 5, 9] {
        let push = move |world: &mut super::fake::World| drop(world.push("main", 7));
        scene
            .gitlab
            .world()
            .after("/repository/commits?", nth, push);
    }
    assert_eq!(scene.sync().await.unwrap().written, 95);
    assert_eq!(scene.names().await, pushed);
    assert_eq!(scene.sync().await.unwrap().written, 21);
    pushed = (1..=116).map(|number| format!("{number:040x}")).collect();
    assert_eq!(scene.names().await, pushed);
}

/// The process may end after every batch, and more may be pushed before it starts again.
#[tokio::test]
async fn a_stopped_synchronisation_goes_on_where_it_was() {
    for total in [19, 20, 21, 47] {
        let mut scene = Scene::new().await;
        scene.stage.options.batch_records_max = 4;
        let mut pushed = scene.gitlab.world().push("main", total);
        let mut runs = 0;
        loop {
            let hooks = StopAfter {
                stop: &scene.stage.stop,
                batches: Mutex::new(1),
            };
            let ended = scene.sync_with(&hooks).await;
            scene.stage.stop.send_replace(false);
            let names = scene.names().await;
            assert_eq!(
                names,
                pushed[..names.len()],
                "in order, none missing, none twice"
            );
            if ended.is_ok() {
                break;
            }
            runs += 1;
            if runs == 2 {
                pushed.extend(scene.gitlab.world().push("main", 5));
            }
        }
        assert_eq!(scene.names().await, pushed);
        assert!(runs >= total / 4, "{runs}");
        assert_eq!(
            scene.place(Stream::Gitlab).await.len(),
            2,
            "no list is open"
        );
    }
}

/// The list that was being read is gone: it begins again, and writes nothing twice.
#[tokio::test]
async fn a_list_that_is_gone_is_begun_again() {
    let mut scene = Scene::new().await;
    scene.stage.options.batch_records_max = 4;
    let pushed = scene.gitlab.world().push("main", 20);
    let hooks = StopAfter {
        stop: &scene.stage.stop,
        batches: Mutex::new(2),
    };
    scene.sync_with(&hooks).await.unwrap_err();
    scene.stage.stop.send_replace(false);
    assert_eq!(scene.names().await, pushed[..8]);
    scene
        .gitlab
        .world()
        .branches
        .insert("main".into(), pushed[17].clone());
    scene.gitlab.world().gone.insert(pushed[19].clone());
    let synced = scene.sync().await.unwrap();
    assert_eq!((synced.written, synced.known), (10, 8));
    assert_eq!(scene.names().await, pushed[..18]);
}

#[tokio::test]
async fn rewritten_history_is_noted_and_the_old_one_stays() {
    let scene = Scene::new().await;
    let pushed = scene.gitlab.world().push("main", 5);
    scene.sync().await.unwrap();
    let other = {
        let mut world = scene.gitlab.world();
        let other = world.commit(&[&pushed[2]], at(99_000), (1, 0));
        world.branches.insert("main".into(), other.clone());
        other
    };
    assert_eq!(scene.sync().await.unwrap().written, 1);
    let rewritten = |old: &str, new: &str| {
        (
            "scm_history_rewritten".to_owned(),
            json!({"old": old, "new": new}),
        )
    };
    assert_eq!(scene.stage.events().await, [rewritten(&pushed[4], &other)]);
    // Reset to a stored commit.
    scene
        .gitlab
        .world()
        .branches
        .insert("main".into(), pushed[1].clone());
    assert_eq!(scene.sync().await.unwrap().written, 0);
    assert_eq!(scene.stage.events().await[1], rewritten(&other, &pushed[1]));
    assert_eq!(
        scene.place(Stream::Gitlab).await["last_commit_sha"],
        json!(pushed[1])
    );
    // What was read last is gone, and nothing is left of its history.
    let fresh = {
        let mut world = scene.gitlab.world();
        world.gone.insert(pushed[1].clone());
        let fresh = world.commit(&[], at(100_000), (1, 0));
        world.branches.insert("main".into(), fresh.clone());
        fresh
    };
    assert_eq!(scene.sync().await.unwrap().written, 1);
    assert_eq!(scene.stage.events().await.len(), 3);
    let names = scene.names().await;
    assert_eq!(names[..5], pushed);
    assert_eq!(names[5..], [other, fresh]);
}

#[tokio::test]
async fn a_branch_may_have_any_name() {
    let scene = Scene::of_branch(Some("feature/é ?#%")).await;
    scene.gitlab.world().push("main", 3);
    let missing = scene.sync().await.unwrap_err();
    assert_eq!(missing.code(), "SCM_NOT_FOUND", "{missing}");
    let pushed = scene.gitlab.world().push("feature/é ?#%", 2);
    assert_eq!(scene.sync().await.unwrap().written, 2);
    assert_eq!(scene.names().await, pushed);
}
