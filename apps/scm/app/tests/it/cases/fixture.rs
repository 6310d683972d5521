//! A repository and its ledger: what every case needs.

use std::sync::Arc;

use consign_scm::{
    Batch, BatchResult, Change, LedgerError, NewCommit, NewRepo, NewRevision, Patch, PatchFormat,
    Provider, Records, Repo, RepoStatus, ScmLedger, Stream,
};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::Harness;

/// The hash of nothing.
pub(crate) const NOTHING: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// A fresh store with one repository.
pub(crate) struct ScmFixture<'a> {
    pub(crate) harness: &'a dyn Harness,
    pub(crate) ledger: Arc<dyn ScmLedger>,
    pub(crate) repo: Repo,
    pub(crate) stream: Stream,
}

pub(crate) fn new_repo(provider: Provider, url: &str) -> NewRepo {
    NewRepo {
        provider,
        url: url.to_owned(),
        project_key: None,
        default_branch: None,
    }
}

/// The name of the `n`-th commit.
pub(crate) fn sha(n: u64) -> String {
    format!("{n:040x}")
}

/// The hash of the `n`-th change.
pub(crate) fn hash(n: u64) -> String {
    format!("{n:064x}")
}

pub(crate) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("a time of our days")
}

/// The `n`-th commit.
pub(crate) fn commit(n: u64) -> NewCommit {
    NewCommit {
        commit_sha: sha(n),
        author_raw: "Ada <ada@example.com>".to_owned(),
        ts: Some(at(1_700_000_000 + n as i64)),
        message: format!("Change {n}\n\nwith a body"),
        is_merge: false,
        bulk_reason: None,
        meta_json: json!({"parents": [sha(n - 1)]}),
    }
}

/// The `n`-th revision.
pub(crate) fn revision(n: i64) -> NewRevision {
    NewRevision {
        rev_num: n,
        author_raw: "ada".to_owned(),
        ts: Some(at(1_700_000_000 + n)),
        message: format!("Change {n}"),
        bulk_reason: None,
        meta_json: json!({"paths": ["/trunk"]}),
    }
}

/// Commits by their numbers.
pub(crate) fn commits(numbers: impl IntoIterator<Item = u64>) -> Records {
    Records::Commits(numbers.into_iter().map(commit).collect())
}

/// A watermark with a position.
pub(crate) fn mark(place: &str) -> Value {
    json!({"version": 2, "watermark": {"last_commit_sha": place}, "stats": {}})
}

/// The names of changes, in their order.
pub(crate) fn names(changes: &[Change]) -> Vec<String> {
    let name = |change: &Change| change.rev_or_sha.clone();
    changes.iter().map(name).collect()
}

/// The error as text; panics on success.
#[track_caller]
pub(crate) fn refused<T: std::fmt::Debug>(result: Result<T, LedgerError>, code: &str) {
    match result {
        Err(error) => assert_eq!(error.code(), code, "refused, but as: {error}"),
        Ok(answer) => panic!("expected the refusal {code}, got {answer:?}"),
    }
}

impl<'a> ScmFixture<'a> {
    /// A Git repository.
    pub(crate) async fn new(harness: &'a dyn Harness) -> Self {
        Self::of(harness, Provider::Git, Stream::Git).await
    }

    pub(crate) async fn of(harness: &'a dyn Harness, provider: Provider, stream: Stream) -> Self {
        let ledger = harness.ledger();
        let repo = new_repo(provider, "https://example.com/r");
        let repo = ledger.add_repo(&repo).await;
        Self {
            harness,
            repo: repo.expect("add_repo answers"),
            ledger,
            stream,
        }
    }

    /// Another repository beside the first.
    pub(crate) async fn beside(&self, url: &str) -> Self {
        let repo = new_repo(self.repo.provider, url);
        let repo = self.ledger.add_repo(&repo).await;
        Self {
            harness: self.harness,
            repo: repo.expect("add_repo answers"),
            ledger: Arc::clone(&self.ledger),
            stream: self.stream,
        }
    }

    pub(crate) fn id(&self) -> i64 {
        self.repo.repo_id
    }

    /// A batch from where the watermark is to a place.
    pub(crate) async fn batch(&self, to: &str, records: Records) -> Batch {
        Batch {
            repo_id: self.id(),
            stream: self.stream,
            from: self.watermark().await,
            to: mark(to),
            records,
        }
    }

    pub(crate) async fn record(&self, to: &str, records: Records) -> BatchResult {
        let batch = self.batch(to, records).await;
        let recorded = self.ledger.record(&batch).await;
        recorded.expect("record answers")
    }

    pub(crate) async fn watermark(&self) -> Option<Value> {
        let watermark = self.ledger.watermark(self.id(), self.stream).await;
        watermark.expect("watermark answers")
    }

    /// The history after a position.
    pub(crate) async fn changes(&self, after: i64) -> Vec<Change> {
        let changes = self.ledger.changes(self.id(), after, 1_000).await;
        changes.expect("changes answers")
    }

    pub(crate) async fn status(&self) -> RepoStatus {
        let all = self.ledger.status().await.expect("status answers");
        let found = all
            .into_iter()
            .find(|status| status.repo.repo_id == self.id());
        found.expect("every repository has a status")
    }

    /// The change of a commit that was fetched, with the `n`-th hash.
    pub(crate) fn fetched(&self, rev_or_sha: &str, n: u64) -> Patch {
        Patch {
            repo_id: self.id(),
            rev_or_sha: rev_or_sha.to_owned(),
            uri: Some(format!("scm/p/1/git/{rev_or_sha}/{n}.diff")),
            sha256: hash(n),
            size_bytes: Some(12),
            format: PatchFormat::Diff,
            degrade_reason: None,
            error: None,
        }
    }

    /// The change of a commit that could not be fetched.
    pub(crate) fn failed(&self, rev_or_sha: &str, error: &str) -> Patch {
        Patch {
            uri: None,
            sha256: NOTHING.to_owned(),
            size_bytes: None,
            error: Some(error.to_owned()),
            ..self.fetched(rev_or_sha, 0)
        }
    }

    pub(crate) async fn put(&self, patch: &Patch) -> i64 {
        let put = self.ledger.put_patch(patch).await;
        put.expect("put_patch answers")
    }
}
