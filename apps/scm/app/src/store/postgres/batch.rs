//! The statement that writes a batch of records.

use consign_postgres::extension::Statement;
use consign_scm::{Batch, NewCommit, NewMergeRequest, NewReview, NewRevision, Records};
use jiff::Timestamp;
use jiff_sqlx::ToSqlx as _;
use sqlx::types::Json;

pub(super) fn statement<'q>(batch: &'q Batch, key: &'q str) -> Statement<'q> {
    let head = |sql| {
        sqlx::query(sql)
            .bind(batch.repo_id)
            .bind(key)
            .bind(batch.from.as_ref().map(Json))
            .bind(Json(&batch.to))
    };
    match &batch.records {
        Records::Commits(commits) => bind_commits(head(COMMITS), commits),
        Records::Revisions(revisions) => bind_revisions(head(REVISIONS), revisions),
        Records::MergeRequests(requests) => bind_requests(head(REQUESTS), requests),
        Records::Reviews(reviews) => bind_reviews(head(REVIEWS), reviews),
    }
}

const COMMITS: &str =
    "SELECT * FROM scm.record_commits($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";
const REVISIONS: &str =
    "SELECT * FROM scm.record_revisions($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
const REQUESTS: &str =
    "SELECT * FROM scm.record_merge_requests($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
const REVIEWS: &str = "SELECT * FROM scm.record_reviews($1, $2, $3, $4, $5, $6, $7, $8, $9)";

fn bind_commits<'q>(statement: Statement<'q>, commits: &'q [NewCommit]) -> Statement<'q> {
    statement
        .bind(column(commits, |commit| commit.commit_sha.as_str()))
        .bind(column(commits, |commit| commit.author_raw.as_str()))
        .bind(column(commits, |commit| time(commit.ts)))
        .bind(column(commits, |commit| commit.message.as_str()))
        .bind(column(commits, |commit| commit.is_merge))
        .bind(column(commits, |commit| commit.bulk_reason.as_deref()))
        .bind(column(commits, |commit| Json(&commit.meta_json)))
}

fn bind_revisions<'q>(statement: Statement<'q>, revisions: &'q [NewRevision]) -> Statement<'q> {
    statement
        .bind(column(revisions, |revision| revision.rev_num))
        .bind(column(revisions, |revision| revision.author_raw.as_str()))
        .bind(column(revisions, |revision| time(revision.ts)))
        .bind(column(revisions, |revision| revision.message.as_str()))
        .bind(column(revisions, |revision| {
            revision.bulk_reason.as_deref()
        }))
        .bind(column(revisions, |revision| Json(&revision.meta_json)))
}

fn bind_requests<'q>(statement: Statement<'q>, requests: &'q [NewMergeRequest]) -> Statement<'q> {
    statement
        .bind(column(requests, |request| request.iid))
        .bind(column(requests, |request| request.status.as_str()))
        .bind(column(requests, |request| request.url.as_deref()))
        .bind(column(requests, |request| Json(&request.meta_json)))
        .bind(column(requests, |request| time(request.created_at)))
        .bind(column(requests, |request| time(request.updated_at)))
}

fn bind_reviews<'q>(statement: Statement<'q>, reviews: &'q [NewReview]) -> Statement<'q> {
    statement
        .bind(column(reviews, |review| review.iid))
        .bind(column(reviews, |review| review.source_event_id.as_str()))
        .bind(column(reviews, |review| review.event_type.as_str()))
        .bind(column(reviews, |review| Json(&review.payload_json)))
        .bind(column(reviews, |review| time(review.ts)))
}

/// One field of all records.
fn column<'q, R, T>(records: &'q [R], field: impl Fn(&'q R) -> T) -> Vec<T> {
    records.iter().map(field).collect()
}

fn time(at: Option<Timestamp>) -> Option<jiff_sqlx::Timestamp> {
    at.map(|at| at.to_sqlx())
}
