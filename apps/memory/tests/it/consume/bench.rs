//! A gateway with a repository.

use consign_memory::{
    MemoryOptions, MemoryService,
    consume::{self, ConsumeOptions, ConsumeReport, Watch},
};
use consign_scm::{Batch, NewCommit, NewRepo, NewRevision, Provider, Records, Repo, Stream};
use serde_json::{Value, json};

use crate::support::Fixture;

pub(super) struct Bench {
    pub(super) fixture: Fixture,
    pub(super) service: MemoryService,
    pub(super) repo: Repo,
}

impl Bench {
    /// A repository whose memories may go to the team.
    pub(super) async fn new(provider: Provider) -> Self {
        let bench = Self::with(provider, |_| {}).await;
        bench.fixture.set_policy(json!({"allowed_kinds": []})).await;
        bench
    }

    pub(super) async fn with(provider: Provider, change: impl FnOnce(&mut MemoryOptions)) -> Self {
        let fixture = Fixture::with(change).await;
        let service = fixture.service.clone().with_scm(fixture.scm.clone());
        let repo = NewRepo {
            provider,
            url: "https://h.example/g/shop".to_owned(),
            project_key: None,
            default_branch: None,
        };
        let repo = fixture.scm.add_repo(&repo).await.unwrap();
        Self {
            fixture,
            service,
            repo,
        }
    }

    /// Writes commits or revisions down, one for each message.
    pub(super) async fn record(&self, messages: &[&str]) {
        self.record_as(messages, None).await;
    }

    pub(super) async fn record_as(&self, messages: &[&str], bulk_reason: Option<&str>) {
        let (repo_id, ledger) = (self.repo.repo_id, &self.fixture.scm);
        let stream = match self.repo.provider {
            Provider::Svn => Stream::Svn,
            Provider::Git => Stream::Git,
            Provider::Gitlab => Stream::Gitlab,
        };
        let from = ledger.watermark(repo_id, stream).await.unwrap();
        let done = from
            .as_ref()
            .and_then(|from| from["done"].as_i64())
            .unwrap_or(0);
        let numbered = (done + 1..).zip(messages);
        let meta = json!({"paths": ["src/a.rs", "src/b.rs"], "paths_total": 2});
        let bulk_reason = bulk_reason.map(str::to_owned);
        let records = match self.repo.provider {
            Provider::Svn => {
                let revision = |(number, message): (i64, &&str)| NewRevision {
                    rev_num: number,
                    author_raw: "ann".to_owned(),
                    ts: None,
                    message: (*message).to_owned(),
                    bulk_reason: bulk_reason.clone(),
                    meta_json: meta.clone(),
                };
                Records::Revisions(numbered.map(revision).collect())
            }
            Provider::Git | Provider::Gitlab => {
                let commit = |(number, message): (i64, &&str)| NewCommit {
                    commit_sha: format!("{number:040x}"),
                    author_raw: "Ann <ann@h.example>".to_owned(),
                    ts: None,
                    message: (*message).to_owned(),
                    is_merge: false,
                    bulk_reason: bulk_reason.clone(),
                    meta_json: meta.clone(),
                };
                Records::Commits(numbered.map(commit).collect())
            }
        };
        let batch = Batch {
            repo_id,
            stream,
            from,
            to: json!({"done": done + messages.len() as i64}),
            records,
        };
        ledger.record(&batch).await.unwrap();
    }

    pub(super) async fn consume(&self) -> ConsumeReport {
        self.consume_as(&ConsumeOptions::default()).await
    }

    pub(super) async fn consume_as(&self, options: &ConsumeOptions) -> ConsumeReport {
        consume::run(&self.service, &self.repo, options, Watch::none()).await
    }

    pub(super) async fn rewind(&self, to: i64) {
        consume::rewind(&self.service, &self.repo, to)
            .await
            .unwrap();
    }

    /// The cursor as it is stored.
    pub(super) async fn cursor(&self) -> Option<Value> {
        let key = format!("scm_consume:{}", self.repo.repo_id);
        self.fixture
            .store
            .get_kv("gateway.consume", &key)
            .await
            .unwrap()
    }

    /// The positions of all changes.
    pub(super) async fn positions(&self) -> Vec<i64> {
        let changes = self.fixture.scm.changes(self.repo.repo_id, 0, 1_000).await;
        changes
            .unwrap()
            .iter()
            .map(|change| change.position)
            .collect()
    }
}

/// Stored, redirected, deferred, deduplicated.
pub(super) fn counts(done: &ConsumeReport) -> [u64; 4] {
    [
        done.stored,
        done.redirected,
        done.deferred,
        done.deduplicated,
    ]
}

/// Why it stopped.
pub(super) fn reason(done: &ConsumeReport) -> Option<&'static str> {
    done.stopped.as_ref().map(|stopped| stopped.reason)
}
