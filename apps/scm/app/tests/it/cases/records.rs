//! Records and their watermark.

use consign_scm::{
    Batch, BatchResult, Change, LedgerError, NewCommit, NewRevision, Provider, Records, Stream,
};
use serde_json::{Value, json};

use super::Harness;
use super::fixture::{ScmFixture, commit, commits, mark, names, refused, revision, sha};

pub(crate) async fn records_are_written_with_their_watermark(harness: &dyn Harness) {
    let fixture = ScmFixture::new(harness).await;
    assert_eq!(fixture.watermark().await, None, "never synchronised");
    let merge = NewCommit {
        is_merge: true,
        bulk_reason: Some("large_changeset:1001".to_owned()),
        author_raw: "Жанна <z@example.com>".to_owned(),
        message: String::new(),
        ts: None,
        ..commit(2)
    };
    let records = Records::Commits(vec![commit(1), merge.clone()]);
    let recorded = fixture.record("2", records).await;
    let expected = BatchResult {
        written: 2,
        known: 0,
    };
    assert_eq!(recorded, expected);
    assert_eq!(fixture.watermark().await, Some(mark("2")));
    let changes = fixture.changes(0).await;
    let as_read = |new: NewCommit, position: i64| Change {
        position,
        repo_id: fixture.id(),
        source_id: format!("git:{}:{}", fixture.id(), new.commit_sha),
        rev_or_sha: new.commit_sha,
        author_raw: new.author_raw,
        ts: new.ts,
        message: new.message,
        is_merge: new.is_merge,
        bulk_reason: new.bulk_reason,
        meta_json: new.meta_json,
    };
    let expected = [
        as_read(commit(1), changes[0].position),
        as_read(merge, changes[1].position),
    ];
    assert_eq!(changes, expected);

    let svn = ScmFixture::of(harness, Provider::Svn, Stream::Svn).await;
    let bulky = NewRevision {
        bulk_reason: Some("large_changeset:101".to_owned()),
        author_raw: String::new(),
        ..revision(9)
    };
    svn.record("r9", Records::Revisions(vec![revision(4), bulky.clone()]))
        .await;
    let changes = svn.changes(0).await;
    assert_eq!(names(&changes), ["4", "9"]);
    let expected = Change {
        position: 9,
        repo_id: svn.id(),
        source_id: format!("svn:{}:9", svn.id()),
        rev_or_sha: "9".to_owned(),
        author_raw: String::new(),
        ts: bulky.ts,
        message: bulky.message,
        is_merge: false,
        bulk_reason: bulky.bulk_reason,
        meta_json: bulky.meta_json,
    };
    assert_eq!(changes[1], expected);
    let facts = harness.facts().await;
    let source_ids: Vec<&str> = facts
        .iter()
        .filter_map(|f| f["source_id"].as_str())
        .collect();
    let (git_id, svn_id) = (fixture.id(), svn.id());
    let expected = [
        format!("git:{git_id}:{}", sha(1)),
        format!("git:{git_id}:{}", sha(2)),
        format!("svn:{svn_id}:4"),
        format!("svn:{svn_id}:9"),
    ];
    assert_eq!(source_ids, expected, "v_facts");
    let is_bulk: Vec<&Value> = facts.iter().map(|fact| &fact["is_bulk"]).collect();
    assert_eq!(json!(is_bulk), json!([false, true, false, true]));
}

/// The watermark is compared and set: two synchronisations of one repository do not go on side by side.
pub(crate) async fn a_watermark_that_moved_refuses_the_batch(harness: &dyn Harness) {
    let fixture = ScmFixture::new(harness).await;
    let first = fixture.batch("1", commits([1])).await;
    fixture.ledger.record(&first).await.expect("record answers");
    let moved = |answer: Result<BatchResult, LedgerError>| match answer {
        Err(LedgerError::Moved { repo_id, key }) => {
            assert_eq!(
                (repo_id, key),
                (fixture.id(), Stream::Git.key(fixture.id()))
            );
        }
        other => panic!("expected Moved, got {other:?}"),
    };
    for from in [None, Some(mark("0")), Some(json!(null)), Some(json!({}))] {
        let late = Batch {
            from,
            ..fixture.batch("2", commits([2])).await
        };
        moved(fixture.ledger.record(&late).await);
        assert_eq!(fixture.watermark().await, Some(mark("1")));
        assert_eq!(
            names(&fixture.changes(0).await),
            [sha(1)],
            "nothing written"
        );
    }
    // The same value in another order of its fields is the same place.
    let next = Batch {
        from: Some(json!({"stats": {}, "watermark": {"last_commit_sha": "1"}, "version": 2})),
        ..fixture.batch("2", commits([2])).await
    };
    fixture.ledger.record(&next).await.expect("record answers");
    // A stream of its own has a watermark of its own.
    let other = fixture.ledger.watermark(fixture.id(), Stream::Gitlab).await;
    assert_eq!(other.expect("watermark answers"), None);
}

/// A commit never changes: the first record is kept, from any source.
pub(crate) async fn stored_records_do_not_change(harness: &dyn Harness) {
    let fixture = ScmFixture::new(harness).await;
    fixture.record("2", commits(1..=2)).await;
    let before = fixture.changes(0).await;
    let rewritten = NewCommit {
        message: "Other words".to_owned(),
        ..commit(1)
    };
    let again = Records::Commits(vec![rewritten, commit(3), commit(2), commit(3)]);
    let recorded = fixture.record("3", again).await;
    let expected = BatchResult {
        written: 1,
        known: 3,
    };
    assert_eq!(recorded, expected);
    let after = fixture.changes(0).await;
    assert_eq!(after[..2], before);
    assert_eq!(names(&after[2..]), [sha(3)]);

    let svn = ScmFixture::of(harness, Provider::Svn, Stream::Svn).await;
    svn.record("r1", Records::Revisions(vec![revision(1)]))
        .await;
    let again = Records::Revisions(vec![revision(1), revision(2)]);
    let recorded = svn.record("r2", again).await;
    let expected = BatchResult {
        written: 1,
        known: 1,
    };
    assert_eq!(recorded, expected);
}

/// An end of history that is reached without anything new is worth knowing too.
pub(crate) async fn a_batch_without_records_moves_the_watermark(harness: &dyn Harness) {
    let fixture = ScmFixture::new(harness).await;
    for (to, records) in [
        ("1", commits([])),
        ("2", Records::MergeRequests(Vec::new())),
        ("3", Records::Reviews(Vec::new())),
    ] {
        let recorded = fixture.record(to, records).await;
        assert_eq!(recorded, BatchResult::default());
        assert_eq!(fixture.watermark().await, Some(mark(to)));
    }
    assert_eq!(fixture.changes(0).await, []);
}

/// Strict is the default: nothing of the batch is written, the watermark stays.
pub(crate) async fn a_refused_record_refuses_its_batch(harness: &dyn Harness) {
    let fixture = ScmFixture::new(harness).await;
    let with = |change: &dyn Fn(&mut NewCommit)| {
        let mut commit = commit(2);
        change(&mut commit);
        commit
    };
    for wrong in [
        with(&|commit| commit.commit_sha = String::new()),
        with(&|commit| commit.commit_sha = "ABC".to_owned()),
        with(&|commit| commit.commit_sha = "a b".to_owned()),
        with(&|commit| commit.commit_sha = "a".repeat(65)),
        with(&|commit| commit.message = "a\0b".to_owned()),
        with(&|commit| commit.author_raw = "\0".to_owned()),
        with(&|commit| commit.meta_json = json!({"a": ["\0"]})),
        with(&|commit| commit.meta_json = json!([])),
    ] {
        let records = Records::Commits(vec![commit(1), wrong.clone(), commit(3)]);
        let batch = fixture.batch("3", records).await;
        let code = "SCM_RECORD_REFUSED";
        refused(fixture.ledger.record(&batch).await, code);
        assert_eq!(fixture.changes(0).await, [], "{wrong:?}");
        assert_eq!(fixture.watermark().await, None, "{wrong:?}");
    }
    let svn = ScmFixture::of(harness, Provider::Svn, Stream::Svn).await;
    let before_all = svn.batch("r1", Records::Revisions(vec![revision(1), revision(-1)]));
    let answer = svn.ledger.record(&before_all.await).await;
    refused(answer, "SCM_RECORD_REFUSED");
    assert_eq!(
        (svn.changes(0).await, svn.watermark().await),
        (vec![], None)
    );
    assert_eq!(
        fixture.record("1", commits([1])).await.written,
        1,
        "goes on"
    );
}

pub(crate) async fn records_of_no_repository_are_refused(harness: &dyn Harness) {
    let fixture = ScmFixture::new(harness).await;
    let nowhere = fixture.id() + 1;
    let batch = Batch {
        repo_id: nowhere,
        ..fixture.batch("1", commits([1])).await
    };
    match fixture.ledger.record(&batch).await {
        Err(LedgerError::UnknownRepo(id)) => assert_eq!(id, nowhere),
        other => panic!("expected UnknownRepo, got {other:?}"),
    }
    let watermark = fixture.ledger.watermark(nowhere, Stream::Git).await;
    assert_eq!(watermark.expect("watermark answers"), None);
    let changes = fixture.ledger.changes(nowhere, 0, 10).await;
    assert_eq!(changes.expect("changes answers"), []);
    // Nor does a repository have a history of another kind.
    let revisions = Records::Revisions(vec![revision(1)]);
    let answer = fixture
        .ledger
        .record(&fixture.batch("1", revisions).await)
        .await;
    refused(answer, "SCM_RECORD_REFUSED");
    let svn = ScmFixture::of(harness, Provider::Svn, Stream::Svn).await;
    let answer = svn.ledger.record(&svn.batch("1", commits([1])).await).await;
    refused(answer, "SCM_RECORD_REFUSED");
}

/// A fork has its parent's commits, and both repositories store them.
pub(crate) async fn repositories_do_not_mix(harness: &dyn Harness) {
    let fixture = ScmFixture::new(harness).await;
    let fork = fixture.beside("https://example.com/fork").await;
    fixture.record("2", commits(1..=2)).await;
    let recorded = fork.record("3", commits(1..=3)).await;
    assert_eq!((recorded.written, recorded.known), (3, 0));
    assert_eq!(names(&fixture.changes(0).await), [sha(1), sha(2)]);
    assert_eq!(names(&fork.changes(0).await), [sha(1), sha(2), sha(3)]);
    assert_eq!(fixture.watermark().await, Some(mark("2")));
    assert_eq!(fork.watermark().await, Some(mark("3")));
}
