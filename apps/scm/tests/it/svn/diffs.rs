//! The changes themselves.

use consign_scm::{NoHooks, Repo, ScmLedger};

use super::{Node, TestRepository, add, change, file, folder, history, made::revision};
use crate::stage::Stage;

async fn materialized(stage: &Stage, repo: &Repo, diff_bytes_max: u64) -> (u64, u64, u64) {
    let source = consign_scm::open(repo, &stage.options).unwrap();
    let mut synchronizer = stage.synchronizer(repo, &*source, &NoHooks);
    synchronizer.options.diff_bytes_max = diff_bytes_max;
    let done = synchronizer.materialize(None, None).await.unwrap();
    (done.fetched, done.degraded, done.failed)
}

async fn text(stage: &Stage, repo: &Repo, revision: &str) -> String {
    let patch = stage
        .store
        .patch(repo.repo_id, revision)
        .await
        .unwrap()
        .unwrap();
    let uri = patch.uri.unwrap_or_else(|| panic!("{:?}", patch.meta_json));
    let bytes = stage.artifacts.get(&uri, 1 << 20).await.unwrap();
    assert_eq!(consign_artifacts::sha256_of(&bytes), patch.sha256);
    String::from_utf8(bytes).unwrap()
}

#[tokio::test]
async fn changes_are_fetched() {
    let stage = Stage::new().await;
    let property = Node::Property("trunk/n".into(), "note", "x");
    let made = TestRepository::with(
        stage.path("r"),
        &[
            revision("begin", vec![folder("trunk"), file("trunk/n", "1\n")]),
            revision("change", vec![change("trunk/n", "1\n2\n")]),
            revision("property", vec![property]),
            revision("folder", vec![folder("trunk/empty")]),
        ],
    );
    let repo = add(&stage, &made.url()).await;
    stage.sync(&repo).await.unwrap();
    assert_eq!(materialized(&stage, &repo, 1 << 20).await, (4, 0, 0));
    let expected = "Index: trunk/n\n\
        ===================================================================\n\
        --- trunk/n\t(revision 1)\n+++ trunk/n\t(revision 2)\n@@ -1 +1,2 @@\n 1\n+2\n";
    assert_eq!(text(&stage, &repo, "2").await, expected);
    let property = text(&stage, &repo, "3").await;
    assert!(
        property.contains("Property changes on: trunk/n"),
        "{property}"
    );
    assert_eq!(
        text(&stage, &repo, "4").await,
        "",
        "an empty folder has no lines"
    );
    assert_eq!(materialized(&stage, &repo, 1 << 20).await, (0, 0, 0));
    let patch = stage.store.patch(repo.repo_id, "2").await.unwrap().unwrap();
    let key = format!("scm/p/{}/svn/r2/{}.diff", repo.repo_id, patch.sha256);
    assert_eq!(patch.uri.as_deref(), Some(key.as_str()));
}

#[tokio::test]
async fn a_change_that_is_too_large_is_kept_as_numbers() {
    let stage = Stage::new().await;
    let lines: String = (0..50_000).map(|n| format!("{n}\n")).collect();
    let nodes = vec![file("big", &lines), file("small", "1\n2\n")];
    let made = TestRepository::with(stage.path("r"), &[revision("big", nodes)]);
    let repo = add(&stage, &made.url()).await;
    stage.sync(&repo).await.unwrap();
    assert_eq!(materialized(&stage, &repo, 10_000).await, (1, 1, 0));
    assert_eq!(
        text(&stage, &repo, "1").await,
        "50000\t0\tbig\n2\t0\tsmall\n"
    );
    let patch = stage.store.patch(repo.repo_id, "1").await.unwrap().unwrap();
    assert_eq!(patch.format, "diffstat");
    let reason = patch.meta_json["degrade_reason"].as_str().unwrap();
    assert!(reason.starts_with("too_large:3"), "{reason}");
}

#[tokio::test]
async fn a_folder_is_followed_to_where_it_was() {
    let stage = Stage::new().await;
    let made = TestRepository::with(
        stage.path("r"),
        &[
            revision(
                "begin",
                vec![folder("a"), file("a/f", "1\n"), file("out", "1\n")],
            ),
            revision("both", vec![change("a/f", "1\n2\n"), change("out", "2\n")]),
            revision("move", vec![Node::Copy("a", 2, "z"), Node::Delete("a")]),
            revision("later", vec![change("z/f", "1\n2\n3\n")]),
        ],
    );
    let repo = add(&stage, &format!("{}/z", made.url())).await;
    assert_eq!(stage.sync(&repo).await.unwrap().written, 4);
    assert_eq!(materialized(&stage, &repo, 1 << 20).await, (4, 0, 0));
    let both = text(&stage, &repo, "2").await;
    assert!(both.contains("+2") && !both.contains("out"), "{both}");
    // It is gone now: what it changed before can be had where it was.
    made.load(&[revision("gone", vec![Node::Delete("z")])]);
    let source = consign_scm::open(&repo, &stage.options).unwrap();
    let mut writer = consign_scm::PatchWriter::new(&stage.artifacts, 1 << 20);
    source.diff("4", &mut writer).await.unwrap();
    assert!(writer.seen_bytes() > 0);
}

#[tokio::test]
async fn what_is_no_revision_is_refused() {
    let stage = Stage::new().await;
    let made = TestRepository::with(stage.path("r"), &history(1));
    let repo = add(&stage, &made.url()).await;
    let source = consign_scm::open(&repo, &stage.options).unwrap();
    for (revision, code) in [
        ("0", "SCM_INVALID"),
        ("-1", "SCM_INVALID"),
        ("1:HEAD", "SCM_INVALID"),
        ("--diff-cmd=x", "SCM_INVALID"),
        ("7", "SCM_NOT_FOUND"),
    ] {
        let mut writer = consign_scm::PatchWriter::new(&stage.artifacts, 1 << 20);
        let refused = source.diff(revision, &mut writer).await.unwrap_err();
        assert_eq!(refused.code(), code, "{revision}: {refused}");
    }
}
