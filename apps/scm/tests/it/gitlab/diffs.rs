//! The changes themselves.

use consign_scm::{NoHooks, PatchState, ScmLedger};
use serde_json::{Value, json};

use super::Scene;

fn file(path: &str, diff: &str) -> Value {
    json!({
        "old_path": path, "new_path": path, "a_mode": "100644", "b_mode": "100644",
        "new_file": false, "renamed_file": false, "deleted_file": false, "diff": diff,
    })
}

async fn materialized(scene: &Scene) -> (u64, u64, u64) {
    let source = consign_scm::open(&scene.repo, &scene.stage.options).unwrap();
    let synchronizer = scene.stage.synchronizer(&scene.repo, &*source, &NoHooks);
    let done = synchronizer.materialize(None, None).await.unwrap();
    (done.fetched, done.degraded, done.failed)
}

async fn patch(scene: &Scene, sha: &str) -> (PatchState, String) {
    let patch = scene
        .stage
        .store
        .patch(scene.repo.repo_id, sha)
        .await
        .unwrap()
        .unwrap();
    let bytes = scene
        .stage
        .artifacts
        .get(patch.uri.as_deref().unwrap(), 1 << 20)
        .await;
    (patch, String::from_utf8(bytes.unwrap()).unwrap())
}

#[tokio::test]
async fn changes_are_fetched_page_by_page() {
    let scene = Scene::new().await;
    let sha = {
        let mut world = scene.gitlab.world();
        let sha = world.commit(&[], super::fake::world_at(0), (45, 0));
        world.branches.insert("main".into(), sha.clone());
        let files = (0..45).map(|n| file(&format!("f{n:02}"), "@@ -0,0 +1 @@\n+x\n"));
        world.diffs.insert(sha.clone(), files.collect());
        sha
    };
    scene.sync().await.unwrap();
    assert_eq!(materialized(&scene).await, (1, 0, 0));
    let (patch, text) = patch(&scene, &sha).await;
    assert_eq!(text.matches("diff --git a/f").count(), 45);
    assert!(
        text.ends_with("diff --git a/f44 b/f44\n--- a/f44\n+++ b/f44\n@@ -0,0 +1 @@\n+x\n"),
        "{text}"
    );
    assert_eq!(
        (
            patch.format.as_str(),
            patch
                .meta_json
                .get("degrade_reason")
                .is_some_and(Value::is_string)
        ),
        ("diff", false)
    );
    let key = format!(
        "scm/p/{}/gitlab/{sha}/{}.diff",
        scene.repo.repo_id, patch.sha256
    );
    assert_eq!(patch.uri.as_deref(), Some(key.as_str()));
}

/// GitLab omits large files, not always marked.
#[tokio::test]
async fn what_the_server_withholds_is_noticed() {
    let scene = Scene::new().await;
    let (stated, unsaid) = {
        let mut world = scene.gitlab.world();
        let stated = world.commit(&[], super::fake::world_at(0), (5000, 0));
        let unsaid = world.commit(&[&stated], super::fake::world_at(1), (5001, 0));
        world.branches.insert("main".into(), unsaid.clone());
        let mut large = file("large", "");
        large["too_large"] = json!(true);
        world.diffs.insert(stated.clone(), vec![large]);
        world.diffs.insert(
            unsaid.clone(),
            vec![file("a", "@@ -0,0 +1 @@\n+x\n"), file("large", "")],
        );
        (stated, unsaid)
    };
    scene.sync().await.unwrap();
    assert_eq!(materialized(&scene).await, (2, 2, 0));
    for (sha, reason) in [
        (stated, "withheld_by_source:1"),
        (unsaid, "withheld_by_source:0"),
    ] {
        let (patch, _) = patch(&scene, &sha).await;
        assert_eq!(patch.meta_json["degrade_reason"], reason);
    }
}

#[tokio::test]
async fn a_change_that_is_not_there_can_be_fetched_later() {
    let scene = Scene::new().await;
    let [sha] = scene.gitlab.world().push("main", 1).try_into().unwrap();
    scene.sync().await.unwrap();
    scene.gitlab.world().gone.insert(sha.clone());
    assert_eq!(materialized(&scene).await, (0, 0, 1));
    let failed = scene
        .stage
        .store
        .patch(scene.repo.repo_id, &sha)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(failed.uri, None);
    let error = failed.meta_json["materialize_error"].as_str().unwrap();
    assert!(error.starts_with("SCM_NOT_FOUND"), "{error}");
    scene.gitlab.world().gone.clear();
    let diff = "@@ -1,2 +1,4 @@\n a\n-b\n+c\n+d\n+e\n";
    scene
        .gitlab
        .world()
        .diffs
        .insert(sha.clone(), vec![file("a", diff)]);
    assert_eq!(materialized(&scene).await, (1, 0, 0));
    assert!(patch(&scene, &sha).await.1.ends_with(diff));
}
