//! Validation before anything is written.

use consign_artifacts::uri::mask_credentials;
use consign_kernel::{Error, Result, quoted};
use consign_scm::{
    Batch, NewCommit, NewMergeRequest, NewRepo, NewReview, NewRevision, Patch, Records,
};
use serde_json::Value;

const URL_BYTES_MAX: usize = 2_000;
const EVENT_ID_BYTES_MAX: usize = 256;

pub(super) fn repo(repo: &NewRepo) -> Result<()> {
    if repo.url.is_empty() || repo.url.len() > URL_BYTES_MAX {
        let why = format!("has {} bytes; must be 1 to {URL_BYTES_MAX}", repo.url.len());
        return Err(Error::invalid("url", why));
    }
    if mask_credentials(&repo.url) != repo.url {
        let why = "contains credentials; set them in scm.tokens";
        return Err(Error::invalid("url", why));
    }
    texts(&[&repo.url])?;
    optional_texts(&[&repo.project_key, &repo.default_branch])
}

/// Rejects records that violate the tables' constraints, or of another kind than the repository.
pub(super) fn batch(batch: &Batch, repo_type: &str) -> Result<()> {
    let expected = match &batch.records {
        Records::Revisions(_) => "svn",
        _ => "git",
    };
    if repo_type != expected {
        let why = format!("{} is of type {repo_type}", batch.repo_id);
        return Err(Error::invalid("repository", why));
    }
    match &batch.records {
        Records::Commits(commits) => commits.iter().try_for_each(commit),
        Records::Revisions(revisions) => revisions.iter().try_for_each(revision),
        Records::MergeRequests(requests) => requests.iter().try_for_each(request),
        Records::Reviews(reviews) => reviews.iter().try_for_each(review),
    }
}

fn commit(commit: &NewCommit) -> Result<()> {
    if !is_hex(&commit.commit_sha) || commit.commit_sha.len() > 64 {
        let why = "must be up to 64 hex digits in lower case";
        return Err(Error::out_of_bounds(
            "commit_sha",
            quoted(&commit.commit_sha),
            why,
        ));
    }
    texts(&[&commit.author_raw, &commit.message])?;
    optional_texts(&[&commit.bulk_reason])?;
    document("meta_json", &commit.meta_json)
}

fn revision(revision: &NewRevision) -> Result<()> {
    number("rev_num", revision.rev_num)?;
    texts(&[&revision.author_raw, &revision.message])?;
    optional_texts(&[&revision.bulk_reason])?;
    document("meta_json", &revision.meta_json)
}

fn request(request: &NewMergeRequest) -> Result<()> {
    number("iid", request.iid)?;
    if request.status.is_empty() {
        return Err(Error::invalid("status", "is empty"));
    }
    texts(&[&request.status])?;
    optional_texts(&[&request.url])?;
    document("meta_json", &request.meta_json)
}

fn review(review: &NewReview) -> Result<()> {
    number("iid", review.iid)?;
    let name = &review.source_event_id;
    if name.is_empty() || name.len() > EVENT_ID_BYTES_MAX {
        let why = format!(
            "has {} bytes; must be 1 to {EVENT_ID_BYTES_MAX}",
            name.len()
        );
        return Err(Error::invalid("source_event_id", why));
    }
    if review.event_type.is_empty() {
        return Err(Error::invalid("event_type", "is empty"));
    }
    texts(&[name, &review.event_type])?;
    document("payload_json", &review.payload_json)
}

pub(super) fn patch(patch: &Patch) -> Result<()> {
    if !is_hex(&patch.rev_or_sha) {
        let why = "must be a number or hex digits in lower case";
        return Err(Error::out_of_bounds(
            "rev_or_sha",
            quoted(&patch.rev_or_sha),
            why,
        ));
    }
    if patch.sha256.len() != 64 || !is_hex(&patch.sha256) {
        return Err(Error::out_of_bounds(
            "sha256",
            quoted(&patch.sha256),
            "must be 64 hex digits in lower case",
        ));
    }
    optional_texts(&[&patch.uri, &patch.degrade_reason, &patch.error])
}

/// Rejects values that are not objects, or that PostgreSQL cannot store.
pub(super) fn document(what: &'static str, document: &Value) -> Result<()> {
    if !document.is_object() {
        return Err(Error::invalid(what, "must be an object"));
    }
    if has_nul(document) {
        return Err(Error::invalid(what, "must not contain U+0000"));
    }
    Ok(())
}

fn number(what: &'static str, number: i64) -> Result<()> {
    if number < 0 {
        return Err(Error::out_of_bounds(what, number, "must not be negative"));
    }
    Ok(())
}

pub(super) fn texts(texts: &[&str]) -> Result<()> {
    if texts.iter().any(|text| text.contains('\0')) {
        return Err(Error::invalid("text", "must not contain U+0000"));
    }
    Ok(())
}

fn optional_texts(given: &[&Option<String>]) -> Result<()> {
    let given: Vec<&str> = given.iter().filter_map(|text| text.as_deref()).collect();
    texts(&given)
}

fn has_nul(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(items) => items.iter().any(has_nul),
        Value::Object(fields) => fields
            .iter()
            .any(|(name, value)| name.contains('\0') || has_nul(value)),
        _ => false,
    }
}

fn is_hex(text: &str) -> bool {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    !text.is_empty() && text.bytes().all(is_digit)
}
