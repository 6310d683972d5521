//! JSON types of the GitLab API, as far as they are used.

use consign_artifacts::sha256_of;
use serde::Deserialize;
use serde_json::{Value, json};

use super::time;
use crate::{NewCommit, derive};

/// A project.
#[derive(Debug, Deserialize)]
pub(super) struct Project {
    /// `None` while nothing was pushed.
    pub(super) default_branch: Option<String>,
    #[serde(default)]
    pub(super) empty_repo: bool,
    #[serde(default)]
    merge_requests_enabled: Option<bool>,
    #[serde(default)]
    merge_requests_access_level: Option<String>,
}

impl Project {
    /// Whether merge requests are enabled.
    pub(super) fn has_merge_requests(&self) -> bool {
        let level = self.merge_requests_access_level.as_deref();
        self.merge_requests_enabled != Some(false) && level != Some("disabled")
    }
}

/// A branch.
#[derive(Debug, Deserialize)]
pub(super) struct Branch {
    pub(super) commit: Commit,
}

/// A commit.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Commit {
    pub(super) id: String,
    #[serde(default)]
    parent_ids: Vec<String>,
    #[serde(default)]
    message: Option<String>,
    #[serde(default)]
    author_name: Option<String>,
    #[serde(default)]
    author_email: Option<String>,
    #[serde(default)]
    authored_date: Option<String>,
    #[serde(default)]
    committer_name: Option<String>,
    #[serde(default)]
    committer_email: Option<String>,
    #[serde(default)]
    committed_date: Option<String>,
    #[serde(default)]
    pub(super) stats: Option<Stats>,
}

/// Lines that a commit changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Stats {
    pub(super) additions: u64,
    pub(super) deletions: u64,
}

impl Commit {
    /// Whether its name is a valid commit name.
    pub(super) fn is_named(&self) -> bool {
        let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        matches!(self.id.len(), 40 | 64) && self.id.bytes().all(is_hex)
    }

    /// Commit time, otherwise author time, as in watermarks.
    pub(super) fn ts_text(&self) -> Option<String> {
        let ts = self
            .committed_date
            .as_deref()
            .or(self.authored_date.as_deref());
        ts.map(time::normalized)
    }

    /// The record to store.
    pub(super) fn into_record(self) -> NewCommit {
        let mut is_lossy = false;
        let mut plain = |text: &Option<String>| {
            let (text, lossy) = derive::text(text.as_deref().unwrap_or_default().as_bytes());
            is_lossy |= lossy;
            text
        };
        let (name, email) = (plain(&self.author_name), plain(&self.author_email));
        let message = plain(&self.message);
        let time = |text: &Option<String>| text.as_deref().and_then(time::parse);
        let ts = time(&self.committed_date).or_else(|| time(&self.authored_date));
        let mut meta = json!({
            "parents": self.parent_ids,
            "record_sha256": self.record_sha256(),
        });
        if let Some(stats) = self.stats {
            meta["additions"] = json!(stats.additions);
            meta["deletions"] = json!(stats.deletions);
        }
        if is_lossy {
            meta["lossy"] = Value::Bool(true);
        }
        let lines = |stats: Stats| derive::bulk_reason_of_lines(stats.additions, stats.deletions);
        NewCommit {
            author_raw: format!("{name} <{email}>"),
            ts,
            message,
            is_merge: self.parent_ids.len() > 1,
            bulk_reason: self.stats.and_then(lines),
            meta_json: meta,
            commit_sha: self.id,
        }
    }

    /// Over the commit's own fields in alphabetical order, not over its page URL.
    fn record_sha256(&self) -> String {
        let time = |text: &Option<String>| text.as_deref().map(time::normalized);
        let record = json!({
            "author_email": self.author_email, "author_name": self.author_name,
            "authored_date": time(&self.authored_date),
            "committed_date": time(&self.committed_date),
            "committer_email": self.committer_email, "committer_name": self.committer_name,
            "id": self.id, "message": self.message, "parent_ids": self.parent_ids,
        });
        sha256_of(record.to_string().as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commit(fields: Value) -> Commit {
        let mut whole = json!({
            "id": "a".repeat(40), "parent_ids": ["b", "c"], "title": "One", "message": "One\n\ntwo",
            "author_name": "A U", "author_email": "a@u", "authored_date": "2024-01-15T20:00:00+08:00",
            "committer_name": "C", "committer_email": "c@c",
            "committed_date": "2024-01-15T13:00:00.000+00:00", "web_url": "https://h/g/p/-/commit/a",
            "stats": {"additions": 600, "deletions": 401, "total": 1001},
        });
        for (name, value) in fields.as_object().unwrap() {
            whole[name] = value.clone();
        }
        serde_json::from_value(whole).unwrap()
    }

    #[test]
    fn a_commit_is_read() {
        let record = commit(json!({})).into_record();
        assert_eq!(record.author_raw, "A U <a@u>");
        assert_eq!(
            record.ts.unwrap().to_string(),
            "2024-01-15T13:00:00Z",
            "in UTC"
        );
        assert_eq!(record.message, "One\n\ntwo");
        assert!(record.is_merge);
        assert_eq!(record.bulk_reason.as_deref(), Some("large_diff:1001"));
        assert_eq!(record.meta_json["parents"], json!(["b", "c"]));
        assert_eq!(record.meta_json["additions"], 600);
        let moved = commit(json!({"web_url": "https://h/other/-/commit/a", "stats": null}));
        assert_eq!(moved.record_sha256(), record.meta_json["record_sha256"]);
        let other = commit(json!({"message": "One"}));
        assert_ne!(other.record_sha256(), record.meta_json["record_sha256"]);
    }

    #[test]
    fn what_a_commit_lacks_is_empty() {
        let odd = json!({
            "committed_date": null, "message": "a\0b", "author_email": null, "parent_ids": ["b"],
            "stats": {"additions": 1000, "deletions": 0},
        });
        let record = commit(odd).into_record();
        assert_eq!(record.author_raw, "A U <>");
        assert_eq!(
            record.ts.unwrap().to_string(),
            "2024-01-15T12:00:00Z",
            "when it was written"
        );
        assert_eq!(
            (record.message.as_str(), &record.meta_json["lossy"]),
            ("a\u{fffd}b", &json!(true))
        );
        assert!(!record.is_merge && record.bulk_reason.is_none());
        let never = commit(json!({"committed_date": "garbage", "authored_date": null}));
        assert_eq!(never.into_record().ts, None);
        let bare: Commit = serde_json::from_value(json!({"id": "x"})).unwrap();
        assert!(!bare.is_named() && commit(json!({})).is_named());
        assert!(!commit(json!({"id": "A".repeat(40)})).is_named());
    }
}
