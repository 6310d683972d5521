//! Writes repositories and their records.

use consign_artifacts::uri::{mask_credentials, masked_json};
use consign_memory::{NewEvent, NewItem, store::LogbookWork};
use consign_scm::{
    Batch, BatchResult, End, LedgerError, NewCommit, NewMergeRequest, NewRepo, NewReview,
    NewRevision, Records, Repo, Step,
};
use consign_sqlite::extension::{Failure, Result, is_refusal, rows};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Answer, check, read, work::ScmWork};
use crate::store::sql;

impl ScmWork<'_, '_> {
    pub(super) async fn add_repo(&mut self, repo: &NewRepo) -> Result<Repo> {
        check::repo(repo)?;
        sqlx::query(sql!("repo_add"))
            .bind(repo.provider.repo_type())
            .bind(repo.provider.as_str())
            .bind(&repo.url)
            .bind(rows::micros(self.now))
            .execute(&mut *self.connection)
            .await?;
        let row = sqlx::query(sql!("repo_take_over"))
            .bind(repo.provider.repo_type())
            .bind(&repo.url)
            .bind(&repo.project_key)
            .bind(&repo.default_branch)
            .fetch_one(&mut *self.connection)
            .await?;
        read::repo(&row)
    }

    pub(super) async fn record_batch(&mut self, batch: &Batch) -> Answer<BatchResult> {
        let Some(repo) = self.scm_repo(batch.repo_id).await? else {
            return Ok(Err(LedgerError::UnknownRepo(batch.repo_id)));
        };
        check::batch(batch, repo.provider.repo_type())?;
        let key = batch.stream.key(batch.repo_id);
        if read::watermark(self.connection, &key).await? != batch.from {
            return Ok(Err(LedgerError::Moved {
                repo_id: batch.repo_id,
                key,
            }));
        }
        if let Records::Reviews(reviews) = &batch.records
            && let Some(unknown) = self.unknown_request(batch.repo_id, reviews).await?
        {
            let why = format!("merge request {unknown} does not exist");
            return Ok(Err(LedgerError::Refused(why)));
        }
        // The database may reject a record for other reasons, such as a trigger: then nothing of
        // the batch is written, and the synchronisation finds the record by splitting.
        self.execute("SAVEPOINT batch").await?;
        let recorded = match self.write_batch(batch, &key).await {
            Err(Failure::Database(error)) if is_refusal(&error) => {
                self.execute("ROLLBACK TO batch").await?;
                let why = error.as_database_error().map(|error| error.message());
                Err(LedgerError::Refused(why.unwrap_or_default().to_owned()))
            }
            recorded => Ok(recorded?),
        };
        self.execute("RELEASE batch").await?;
        Ok(recorded)
    }

    async fn execute(&mut self, statement: &'static str) -> Result<()> {
        sqlx::raw_sql(statement)
            .execute(&mut *self.connection)
            .await?;
        Ok(())
    }

    async fn write_batch(&mut self, batch: &Batch, key: &str) -> Result<BatchResult> {
        let recorded = match &batch.records {
            Records::Commits(commits) => self.add_commits(batch.repo_id, commits).await?,
            Records::Revisions(revisions) => self.add_revisions(batch.repo_id, revisions).await?,
            Records::MergeRequests(requests) => self.put_requests(batch.repo_id, requests).await?,
            Records::Reviews(reviews) => self.add_reviews(batch.repo_id, reviews).await?,
        };
        sqlx::query(sql!("watermark_set"))
            .bind(consign_scm::NAMESPACE)
            .bind(key)
            .bind(masked_json(&batch.to))
            .bind(rows::micros(self.now))
            .execute(&mut *self.connection)
            .await?;
        Ok(recorded)
    }

    async fn add_commits(&mut self, repo_id: i64, commits: &[NewCommit]) -> Result<BatchResult> {
        let fields = |commit: &NewCommit| {
            json!([
                commit.commit_sha,
                commit.author_raw,
                commit.ts.map(rows::micros),
                commit.message,
                commit.is_merge,
                commit.bulk_reason,
                rows::json(&commit.meta_json)
            ])
        };
        let statement = sql!("commits_add");
        let records = commits.iter().map(fields).collect();
        let recorded = self.add_records(statement, repo_id, records).await?;
        self.count_for(repo_id, recorded.written, 0, 0).await?;
        Ok(recorded)
    }

    async fn add_revisions(
        &mut self,
        repo_id: i64,
        revisions: &[NewRevision],
    ) -> Result<BatchResult> {
        let fields = |revision: &NewRevision| {
            json!([
                revision.rev_num,
                revision.author_raw,
                revision.ts.map(rows::micros),
                revision.message,
                revision.bulk_reason,
                rows::json(&revision.meta_json)
            ])
        };
        let statement = sql!("revisions_add");
        let records = revisions.iter().map(fields).collect();
        let recorded = self.add_records(statement, repo_id, records).await?;
        self.count_for(repo_id, recorded.written, 0, 0).await?;
        Ok(recorded)
    }

    async fn put_requests(
        &mut self,
        repo_id: i64,
        requests: &[NewMergeRequest],
    ) -> Result<BatchResult> {
        let micros = |at: Option<Timestamp>| at.map(rows::micros);
        let fields = |request: &NewMergeRequest| {
            json!([
                request.iid,
                request.status,
                request.url,
                rows::json(&request.meta_json),
                micros(request.created_at),
                micros(request.updated_at)
            ])
        };
        let iids: Vec<i64> = requests.iter().map(|request| request.iid).collect();
        let before = self.known_requests(repo_id, &iids).await?;
        let records = requests.iter().map(fields).collect();
        self.add_records(sql!("mrs_put"), repo_id, records).await?;
        let written = self.known_requests(repo_id, &iids).await? - before;
        Ok(BatchResult {
            written,
            known: requests.len() as u64 - written,
        })
    }

    async fn add_reviews(&mut self, repo_id: i64, reviews: &[NewReview]) -> Result<BatchResult> {
        let fields = |review: &NewReview| {
            json!([
                review.iid,
                review.source_event_id,
                review.event_type,
                rows::json(&review.payload_json),
                review.ts.map(rows::micros)
            ])
        };
        let records = reviews.iter().map(fields).collect();
        self.add_records(sql!("reviews_add"), repo_id, records)
            .await
    }

    /// Inserts records with one statement that ignores existing ones.
    async fn add_records(
        &mut self,
        statement: &'static str,
        repo_id: i64,
        records: Vec<Value>,
    ) -> Result<BatchResult> {
        let count = records.len() as u64;
        let done = sqlx::query(statement)
            .bind(rows::json(&records))
            .bind(repo_id)
            .execute(&mut *self.connection)
            .await?;
        let written = done.rows_affected();
        Ok(BatchResult {
            written,
            known: count.saturating_sub(written),
        })
    }

    async fn known_requests(&mut self, repo_id: i64, iids: &[i64]) -> Result<u64> {
        let count: i64 = sqlx::query_scalar(sql!("mrs_known"))
            .bind(rows::json(&iids))
            .bind(repo_id)
            .fetch_one(&mut *self.connection)
            .await?;
        Ok(count.unsigned_abs())
    }

    /// A merge request that a review refers to but that is not stored.
    async fn unknown_request(
        &mut self,
        repo_id: i64,
        reviews: &[NewReview],
    ) -> Result<Option<i64>> {
        let mut iids: Vec<i64> = reviews.iter().map(|review| review.iid).collect();
        iids.sort_unstable();
        iids.dedup();
        if self.known_requests(repo_id, &iids).await? == iids.len() as u64 {
            return Ok(None);
        }
        for iid in iids {
            if self.known_requests(repo_id, &[iid]).await? == 0 {
                return Ok(Some(iid));
            }
        }
        Ok(None)
    }

    /// Updates the counts of a repository.
    pub(super) async fn count_for(
        &mut self,
        repo_id: i64,
        changes: u64,
        patches_here: i64,
        patches_failed: i64,
    ) -> Result<()> {
        sqlx::query(sql!("repo_count"))
            .bind(repo_id)
            .bind(i64::try_from(changes).unwrap_or(i64::MAX))
            .bind(patches_here)
            .bind(patches_failed)
            .execute(&mut *self.connection)
            .await?;
        Ok(())
    }

    pub(super) async fn scm_repo(&mut self, repo_id: i64) -> Result<Option<Repo>> {
        let found = read::repos(self.connection, Some(repo_id)).await?;
        Ok(found.into_iter().next())
    }

    pub(super) async fn step_ended(&mut self, repo_id: i64, step: Step, end: &End) -> Answer<()> {
        if self.scm_repo(repo_id).await?.is_none() {
            return Ok(Err(LedgerError::UnknownRepo(repo_id)));
        }
        let (code, message) = end.trouble().unzip();
        check::texts(&[code.unwrap_or_default(), message.unwrap_or_default()])?;
        sqlx::query(sql!("step_ended"))
            .bind(repo_id)
            .bind(step.as_str())
            .bind(*end == End::Complete)
            .bind(code)
            .bind(message.map(mask_credentials))
            .bind(rows::micros(self.now))
            .execute(&mut *self.connection)
            .await?;
        Ok(Ok(()))
    }

    pub(super) async fn note(
        &mut self,
        repo_id: i64,
        event_type: &str,
        payload: &Value,
    ) -> Answer<()> {
        let Some(repo) = self.scm_repo(repo_id).await? else {
            return Ok(Err(LedgerError::UnknownRepo(repo_id)));
        };
        check::document("payload", payload)?;
        let Value::Object(payload_json) = payload.clone() else {
            return Ok(Err(LedgerError::Refused(
                "payload must be an object".to_owned(),
            )));
        };
        if event_type.is_empty() {
            let why = "event_type: must not be empty".to_owned();
            return Ok(Err(LedgerError::Refused(why)));
        }
        let known: Option<i64> = sqlx::query_scalar(sql!("item"))
            .bind(repo_id)
            .fetch_optional(&mut *self.connection)
            .await?;
        let item_id = match known {
            Some(item_id) => item_id,
            None => LogbookWork(self).create_item(&item_of(repo)).await?,
        };
        let event = NewEvent {
            item_id,
            event_type: event_type.to_owned(),
            status_from: None,
            status_to: None,
            payload_json,
            actor_user_id: None,
            source: "scm".to_owned(),
        };
        LogbookWork(self).add_event(&event).await?;
        Ok(Ok(()))
    }
}

fn item_of(repo: Repo) -> NewItem {
    let scope = [("repo_id".to_owned(), json!(repo.repo_id))];
    NewItem {
        item_type: "scm_repo".to_owned(),
        title: repo.url,
        project_key: repo.project_key,
        scope_json: scope.into_iter().collect(),
        status: "open".to_owned(),
        owner_user_id: None,
    }
}
