//! Git repositories as they are, made by the program itself.

mod hostile;
mod http;
mod names;
mod rewritten;
mod server;
mod silent;

use consign_artifacts::sha256_of;
use jiff::Timestamp;
use serde_json::json;

use crate::stage::{Stage, Work, git};

#[tokio::test]
async fn a_history_is_read_once_and_then_what_is_new() {
    let stage = Stage::new().await;
    let work = Work::new(stage.path("work"));
    work.commits(5);
    let repo = stage.add(work.url(), None).await;
    let synced = stage.sync(&repo).await.unwrap();
    assert_eq!((synced.written, synced.known, synced.skipped), (5, 0, 0));
    let changes = stage.changes(&repo).await;
    let names: Vec<&String> = changes.iter().map(|change| &change.rev_or_sha).collect();
    assert_eq!(names, work.list().iter().collect::<Vec<_>>());
    let first = stage.watermark(&repo).await;
    assert_eq!(first.place["last_commit_sha"], json!(work.head()));
    assert_eq!(
        first.place.len(),
        2,
        "nothing is under way: {:?}",
        first.place
    );
    assert_eq!(first.last_sync_count, 5);

    // Nothing is new: it took place all the same.
    assert_eq!(stage.sync(&repo).await.unwrap().written, 0);
    let second = stage.watermark(&repo).await;
    assert_eq!(second.place, first.place);
    assert_eq!(second.last_sync_count, 0);
    assert_ne!(second.last_sync_at, first.last_sync_at);

    let new = work.commit("other", "x\n", "one more");
    assert_eq!(stage.sync(&repo).await.unwrap().written, 1);
    let changes = stage.changes(&repo).await;
    assert_eq!(changes.last().unwrap().rev_or_sha, new);
    assert_eq!(changes.len(), 6);
}

#[tokio::test]
async fn a_commit_is_written_down_as_it_is() {
    let stage = Stage::new().await;
    let work = Work::new(stage.path("work"));
    work.commit("src/a.rs", "1\n2\n3\n", "One\n\nand why\n");
    work.git(&["checkout", "-q", "-b", "side"]);
    work.git(&["mv", "src/a.rs", "src/b.rs"]);
    let renamed = work.commit("with\nline", "x\n", "Renamed");
    work.git(&["checkout", "-q", "main"]);
    let large = work.commit("large", &"line\n".repeat(1001), "Large");
    work.git(&["merge", "-q", "-m", "Merged", "side"]);
    let merged = work.head();
    work.git(&["commit", "-q", "--allow-empty", "-m", "Nothing"]);
    let repo = stage.add(work.url(), Some("main")).await;
    assert_eq!(stage.sync(&repo).await.unwrap().written, 5);
    let changes = stage.changes(&repo).await;
    let find = |name: &str| {
        changes
            .iter()
            .find(|change| change.rev_or_sha == name)
            .unwrap()
    };

    let one = &changes[0];
    assert_eq!(one.author_raw, "Ann Author <ann@x>");
    assert_eq!(one.message, "One\n\nand why\n");
    assert!(!one.is_merge && one.bulk_reason.is_none());
    let seconds = work.git(&["log", "-1", "--format=%ct", &one.rev_or_sha]);
    assert_eq!(
        one.ts,
        Timestamp::from_second(seconds.parse().unwrap()).ok()
    );
    assert_eq!(one.meta_json["paths"], json!(["src/a.rs"]));
    assert_eq!(
        (&one.meta_json["additions"], &one.meta_json["deletions"]),
        (&json!(3), &json!(0))
    );
    // The same as `git cat-file commit X | sha256sum`.
    let object = git(&work.0, &["cat-file", "commit", &one.rev_or_sha], b"") + "\n";
    assert_eq!(
        one.meta_json["record_sha256"],
        json!(sha256_of(object.as_bytes()))
    );

    let renamed = &find(&renamed).meta_json;
    assert_eq!(renamed["paths"], json!(["src/b.rs", "with\nline"]));
    assert_eq!(
        (&renamed["additions"], &renamed["deletions"]),
        (&json!(1), &json!(0))
    );
    assert_eq!(find(&large).bulk_reason.as_deref(), Some("large_diff:1001"));
    let merged = find(&merged);
    assert!(merged.is_merge);
    assert_eq!(merged.meta_json["parents"].as_array().unwrap().len(), 2);
    assert_eq!(
        merged.meta_json["paths_total"],
        json!(2),
        "what it brought to its branch"
    );
    let nothing = &changes[4].meta_json;
    assert_eq!(
        (&nothing["paths"], &nothing["paths_total"]),
        (&json!([]), &json!(0))
    );
    assert!(!serde_json::to_string(&changes).unwrap().contains("lossy"));
}

#[tokio::test]
async fn an_empty_repository_has_no_records_and_no_watermark() {
    let stage = Stage::new().await;
    let work = Work::new(stage.path("work"));
    for url in [work.url().to_owned(), format!("file://{}", work.url())] {
        for branch in [None, Some("main")] {
            let repo = stage.add(&url, branch).await;
            let synced = stage.sync(&repo).await.unwrap();
            assert_eq!(
                synced,
                consign_scm::SyncReport::default(),
                "{url} {branch:?}"
            );
            assert_eq!(stage.stored(&repo).await, None);
        }
    }
    let repo = stage
        .add(&format!("file://{}", work.url()), Some("main"))
        .await;
    work.commits(2);
    assert_eq!(
        stage.sync(&repo).await.unwrap().written,
        2,
        "it is no longer empty"
    );
}

#[tokio::test]
async fn invalid_utf_8_is_replaced_and_marked() {
    let stage = Stage::new().await;
    let work = Work::new(stage.path("work"));
    let stream = b"blob\nmark :1\ndata 2\nx\ncommit refs/heads/main\n\
        author J\xfcrg <j@x> 1700000000 +0000\ncommitter J\xfcrg <j@x> 1700000000 +0000\n\
        data 5\nGr\xfcn!\nM 100644 :1 \"Gr\\374n\"\n";
    git(&work.0, &["fast-import", "--quiet"], stream);
    let repo = stage.add(work.url(), None).await;
    assert_eq!(stage.sync(&repo).await.unwrap().written, 1);
    let changes = stage.changes(&repo).await;
    assert_eq!(changes[0].author_raw, "J\u{fffd}rg <j@x>");
    assert_eq!(changes[0].message, "Gr\u{fffd}n!");
    assert_eq!(changes[0].meta_json["paths"], json!(["Gr\u{fffd}n"]));
    assert_eq!(changes[0].meta_json["lossy"], json!(true));
}

#[tokio::test]
async fn a_missing_resource_is_reported() {
    let stage = Stage::new().await;
    let work = Work::new(stage.path("work"));
    work.commits(1);
    std::fs::create_dir(work.0.join("folder")).unwrap();
    work.git(&["symbolic-ref", "HEAD", "refs/heads/unborn"]);
    let file = format!("file://{}", work.url());
    let inside = format!("{}/folder", work.url());
    let nowhere = stage.path("nowhere");
    let table = [
        (work.url(), Some("other"), "refs/heads/other"),
        (work.url(), None, "HEAD"),
        (&file, Some("other"), "couldn't find remote ref"),
        // The repository around it is another one.
        (&inside, None, "not a git repository"),
        (nowhere.to_str().unwrap(), None, "not a git repository"),
    ];
    for (url, branch, expected) in table {
        let mut repo = stage.add(url, None).await;
        repo.default_branch = branch.map(ToOwned::to_owned);
        let error = stage.sync(&repo).await.unwrap_err();
        assert_eq!(error.code(), "SCM_NOT_FOUND", "{url} {branch:?}: {error}");
        assert!(
            error.to_string().contains(expected),
            "{url} {branch:?}: {error}"
        );
        assert_eq!(stage.stored(&repo).await, None);
    }
}

#[tokio::test]
async fn a_damaged_repository_ends_the_synchronisation_where_it_is_damaged() {
    let mut stage = Stage::new().await;
    stage.options.batch_records_max = 2;
    let work = Work::new(stage.path("work"));
    let commits = work.commits(6);
    let tree = work.git(&["rev-parse", &format!("{}^{{tree}}", commits[4])]);
    std::fs::remove_file(
        work.0
            .join(format!(".git/objects/{}/{}", &tree[..2], &tree[2..])),
    )
    .unwrap();
    let repo = stage.add(work.url(), None).await;
    let error = stage.sync(&repo).await.unwrap_err();
    assert_eq!(error.code(), "SCM_PROTOCOL", "{error}");
    assert_eq!(
        stage.changes(&repo).await.len(),
        4,
        "what is whole is written"
    );
    let place = stage.watermark(&repo).await.place;
    assert_eq!(
        (&place["position"], &place["last"]),
        (&json!(4), &json!(commits[3]))
    );
}

/// A merge that changes only submodules, and a very deep tree.
#[tokio::test]
async fn submodules_are_changes_like_others_and_are_not_fetched() {
    let stage = Stage::new().await;
    let inner = Work::new(stage.path("inner"));
    inner.commits(1);
    let work = Work::new(stage.path("work"));
    work.commits(1);
    work.git(&[
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "add",
        "-q",
        inner.url(),
        "sub",
    ]);
    work.git(&["commit", "-q", "-m", "With a submodule"]);
    let repo = stage.add(&format!("file://{}", work.url()), None).await;
    assert_eq!(stage.sync(&repo).await.unwrap().written, 2);
    let changes = stage.changes(&repo).await;
    assert_eq!(changes[1].meta_json["paths"], json!([".gitmodules", "sub"]));
    let mirror = stage.path(&format!("mirrors/{}.git", repo.repo_id));
    assert!(!mirror.join("modules").exists());
}
