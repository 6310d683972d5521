//! The changes themselves.

use consign_scm::{Patch, PatchFormat, PatchState, PendingPatch, Provider, Records, Stream};
use serde_json::json;

use super::Harness;
use super::fixture::{NOTHING, ScmFixture, commits, hash, refused, revision, sha};

async fn missing(fixture: &ScmFixture<'_>, after: i64, limit: u32) -> Vec<PendingPatch> {
    let missing = fixture
        .ledger
        .unmaterialized(fixture.id(), after, limit)
        .await;
    missing.expect("unmaterialized answers")
}

async fn failed(fixture: &ScmFixture<'_>, after: (u32, i64), limit: u32) -> Vec<PendingPatch> {
    let failed = fixture
        .ledger
        .failed_patches(fixture.id(), after, limit)
        .await;
    failed.expect("failed_patches answers")
}

fn names(pending: &[PendingPatch]) -> Vec<String> {
    pending
        .iter()
        .map(|patch| patch.rev_or_sha.clone())
        .collect()
}

async fn state(fixture: &ScmFixture<'_>, rev_or_sha: &str) -> PatchState {
    let state = fixture.ledger.patch(fixture.id(), rev_or_sha).await;
    state.expect("patch answers").expect("the patch exists")
}

pub(crate) async fn what_has_no_change_is_listed(harness: &dyn Harness) {
    let fixture = ScmFixture::new(harness).await;
    fixture.record("1", commits([5, 4, 3, 2, 1])).await;
    let shas = |numbers: &[u64]| numbers.iter().copied().map(sha).collect::<Vec<_>>();
    let listed = missing(&fixture, 0, 100).await;
    assert_eq!(names(&listed), shas(&[5, 4, 3, 2, 1]), "as in history");
    let expected = PendingPatch {
        position: fixture.changes(0).await[0].position,
        rev_or_sha: sha(5),
        attempts: 0,
        error: None,
    };
    assert_eq!(listed[0], expected);
    fixture.put(&fixture.fetched(&sha(4), 4)).await;
    fixture.put(&fixture.failed(&sha(3), "boom")).await;
    fixture.put(&fixture.failed(&sha(3), "bang")).await;
    let listed = missing(&fixture, 0, 100).await;
    assert_eq!(
        names(&listed),
        shas(&[5, 2, 1]),
        "failures are not listed as untried"
    );
    let rest = missing(&fixture, listed[0].position, 1).await;
    assert_eq!(names(&rest), shas(&[2]));
    assert_eq!(missing(&fixture, listed[2].position, 100).await, []);
    let nowhere = fixture.ledger.unmaterialized(fixture.id() + 1, 0, 10).await;
    assert_eq!(nowhere.expect("unmaterialized answers"), []);

    let svn = ScmFixture::of(harness, Provider::Svn, Stream::Svn).await;
    let revisions = Records::Revisions(vec![revision(9), revision(10), revision(11)]);
    svn.record("r11", revisions).await;
    svn.put(&svn.fetched("10", 10)).await;
    let listed = missing(&svn, 0, 100).await;
    assert_eq!(names(&listed), ["9", "11"]);
    assert_eq!((listed[0].position, listed[1].position), (9, 11));
}

/// What failed least often comes first, so that a limit does not stick at what always fails.
pub(crate) async fn what_failed_is_listed_by_its_attempts(harness: &dyn Harness) {
    let fixture = ScmFixture::new(harness).await;
    let other = ScmFixture::of(harness, Provider::Svn, Stream::Svn).await;
    fixture.record("1", commits(1..=5)).await;
    let revisions = Records::Revisions((8..=11).map(revision).collect());
    other.record("r11", revisions).await;
    assert_eq!(failed(&fixture, (0, 0), 10).await, []);
    for (number, attempts) in [(1, 2), (2, 1), (3, 11), (4, 1), (5, 1)] {
        for attempt in 1..=attempts {
            fixture
                .put(&fixture.failed(&sha(number), &format!("e{attempt}")))
                .await;
        }
    }
    fixture.put(&fixture.fetched(&sha(5), 5)).await;
    for number in ["11", "9"] {
        other.put(&other.failed(number, "boom")).await;
    }
    let listed = failed(&fixture, (0, 0), 10).await;
    assert_eq!(names(&listed), [2, 4, 1, 3].map(sha));
    let message = listed.iter().map(|it| (it.attempts, it.error.as_deref()));
    let expected = [(1, "e1"), (1, "e1"), (2, "e2"), (11, "e11")];
    assert!(message.eq(expected.map(|(attempts, error)| (attempts, Some(error)))));
    let changes = fixture.changes(0).await;
    assert_eq!(listed[0].position, changes[1].position);
    let after = (1, listed[0].position);
    assert_eq!(names(&failed(&fixture, after, 2).await), [4, 1].map(sha));
    assert_eq!(failed(&fixture, (11, i64::MAX), 10).await, []);
    assert_eq!(names(&failed(&other, (0, 0), 10).await), ["9", "11"]);
    assert_eq!(names(&failed(&other, (1, 9), 10).await), ["11"]);
    assert_eq!(names(&missing(&other, 0, 10).await), ["8", "10"]);
    assert_eq!(missing(&fixture, 0, 10).await, []);
}

/// While it is not here its hash is that of nothing; the row is the same one afterwards.
pub(crate) async fn a_failure_becomes_the_change(harness: &dyn Harness) {
    let fixture = ScmFixture::new(harness).await;
    fixture.record("1", commits([1])).await;
    let source_id = format!("{}:{}", fixture.id(), sha(1));
    let nothing = fixture.ledger.patch(fixture.id(), &sha(1)).await;
    assert_eq!(nothing.expect("patch answers"), None);
    let id = fixture.put(&fixture.failed(&sha(1), "boom")).await;
    let expected = PatchState {
        blob_id: id,
        source_id: source_id.clone(),
        source_type: "git".to_owned(),
        uri: None,
        evidence_uri: None,
        sha256: NOTHING.to_owned(),
        size_bytes: None,
        format: "diff".to_owned(),
        meta_json: json!({
            "materialize_status": "failed", "materialize_error": "boom", "attempts": 1,
        }),
    };
    assert_eq!(state(&fixture, &sha(1)).await, expected);
    let empty_uri = Patch {
        uri: Some(String::new()),
        ..fixture.failed(&sha(1), "bang")
    };
    assert_eq!(fixture.put(&empty_uri).await, id, "the same row");
    let expected = PatchState {
        meta_json: json!({
            "materialize_status": "failed", "materialize_error": "bang", "attempts": 2,
        }),
        ..expected
    };
    assert_eq!(state(&fixture, &sha(1)).await, expected);

    let stat = Patch {
        format: PatchFormat::Diffstat,
        degrade_reason: Some("too_large:99".to_owned()),
        ..fixture.fetched(&sha(1), 7)
    };
    assert_eq!(fixture.put(&stat).await, id, "the row of the failure");
    let here = state(&fixture, &sha(1)).await;
    let evidence_uri = format!("memory://patch_blobs/git/{source_id}/{}", hash(7));
    let mut meta = here.meta_json.clone();
    let at = meta["materialized_at"].take();
    let at: jiff::Timestamp = at.as_str().expect("a time").parse().expect("a time");
    assert_eq!(at, harness.now().await);
    let expected_meta = json!({
        "materialize_status": "done", "materialized_at": null, "evidence_uri": evidence_uri,
        "attempts": 2, "degraded": true, "degrade_reason": "too_large:99",
    });
    assert_eq!(meta, expected_meta);
    let expected = PatchState {
        uri: stat.uri,
        evidence_uri: Some(evidence_uri),
        sha256: hash(7),
        size_bytes: Some(12),
        format: "diffstat".to_owned(),
        meta_json: here.meta_json.clone(),
        ..expected
    };
    assert_eq!(here, expected);
    assert_eq!(missing(&fixture, 0, 10).await, []);
}

/// Audits name a change by its hash: what was here under one stays, whatever comes later.
pub(crate) async fn a_change_that_is_here_stays(harness: &dyn Harness) {
    let fixture = ScmFixture::new(harness).await;
    fixture.record("1", commits([1, 2])).await;
    let id = fixture.put(&fixture.fetched(&sha(1), 1)).await;
    let here = state(&fixture, &sha(1)).await;
    assert_eq!(fixture.put(&fixture.failed(&sha(1), "boom")).await, id);
    let elsewhere = Patch {
        uri: Some("elsewhere".to_owned()),
        ..fixture.fetched(&sha(1), 1)
    };
    assert_eq!(fixture.put(&elsewhere).await, id);
    assert_eq!(state(&fixture, &sha(1)).await, here);
    assert_eq!(names(&missing(&fixture, 0, 10).await), [sha(2)]);

    // Another account of the same change is a row beside it, and the one that is answered.
    let other = fixture.put(&fixture.fetched(&sha(1), 11)).await;
    assert_ne!(other, id);
    assert_eq!(state(&fixture, &sha(1)).await.blob_id, other);
    let first = fixture.ledger.patch_by_sha(&hash(1)).await;
    assert_eq!(first.expect("patch_by_sha answers"), Some(here));
}

/// A revision that changes properties only may have nothing to show; that is not the same as unknown.
pub(crate) async fn an_empty_change_is_a_change(harness: &dyn Harness) {
    let svn = ScmFixture::of(harness, Provider::Svn, Stream::Svn).await;
    svn.record("r1", Records::Revisions(vec![revision(1)]))
        .await;
    let id = svn.put(&svn.failed("1", "boom")).await;
    assert_eq!(names(&failed(&svn, (0, 0), 10).await), ["1"]);
    let empty = Patch {
        sha256: NOTHING.to_owned(),
        size_bytes: Some(0),
        ..svn.fetched("1", 0)
    };
    assert_eq!(svn.put(&empty).await, id);
    assert_eq!(failed(&svn, (0, 0), 10).await, []);
    assert_eq!(missing(&svn, 0, 10).await, []);
    let here = state(&svn, "1").await;
    let evidence_uri = format!("memory://patch_blobs/svn/{}:1/{NOTHING}", svn.id());
    assert_eq!(here.evidence_uri, Some(evidence_uri));
    assert_eq!(
        (here.source_type.as_str(), here.size_bytes),
        ("svn", Some(0))
    );
}

pub(crate) async fn a_change_is_found_by_its_hash(harness: &dyn Harness) {
    let fixture = ScmFixture::new(harness).await;
    fixture.record("1", commits(1..=2)).await;
    fixture.put(&fixture.failed(&sha(1), "boom")).await;
    let find = async |sha256: &str| {
        let found = fixture.ledger.patch_by_sha(sha256).await;
        found.expect("patch_by_sha answers")
    };
    assert_eq!(find(NOTHING).await, None, "not here");
    fixture.put(&fixture.fetched(&sha(2), 0xabc)).await;
    let expected = state(&fixture, &sha(2)).await;
    assert_eq!(find(&hash(0xabc)).await, Some(expected.clone()));
    assert_eq!(find(&hash(0xabc).to_uppercase()).await, Some(expected));
    assert_eq!(find(&hash(9)).await, None);
    assert_eq!(find("").await, None);
    let numbered = async |blob_id| {
        let found = fixture.ledger.patch_by_id(blob_id).await;
        found.expect("patch_by_id answers")
    };
    for sha in [sha(1), sha(2)] {
        let expected = state(&fixture, &sha).await;
        assert_eq!(numbered(expected.blob_id).await, Some(expected));
    }
    assert_eq!(numbered(99).await, None);
    let nowhere = fixture.ledger.patch(fixture.id() + 1, &sha(2)).await;
    assert_eq!(nowhere.expect("patch answers"), None);
}

pub(crate) async fn what_is_no_change_is_refused(harness: &dyn Harness) {
    let fixture = ScmFixture::new(harness).await;
    fixture.record("1", commits([1])).await;
    let good = fixture.fetched(&sha(1), 1);
    for wrong in [
        Patch {
            sha256: "abc".to_owned(),
            ..good.clone()
        },
        Patch {
            sha256: hash(0xabc).to_uppercase(),
            ..good.clone()
        },
        Patch {
            rev_or_sha: "../x".to_owned(),
            ..good.clone()
        },
        Patch {
            rev_or_sha: String::new(),
            ..good.clone()
        },
        fixture.failed(&sha(1), "a\0b"),
        fixture.fetched(&sha(2), 1),
    ] {
        refused(fixture.ledger.put_patch(&wrong).await, "SCM_RECORD_REFUSED");
    }
    let nowhere = Patch {
        repo_id: fixture.id() + 1,
        ..good
    };
    refused(fixture.ledger.put_patch(&nowhere).await, "SCM_UNKNOWN_REPO");
    let status = fixture.status().await;
    assert_eq!((status.patches_here, status.patches_failed), (0, 0));
}
