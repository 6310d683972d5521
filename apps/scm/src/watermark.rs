//! Watermarks: the progress of a synchronisation, a value in `logbook.kv` that moves with its
//! records.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Namespace of watermarks. Nothing else is written outside of `scm.*`.
pub const NAMESPACE: &str = "scm.sync";

/// Streams of records. Each has its own watermark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    /// Commits of a Git repository.
    Git,
    /// Revisions of a Subversion repository.
    Svn,
    /// Commits of a GitLab project.
    Gitlab,
    /// Merge requests of a GitLab project.
    GitlabMr,
    /// Reviews of a GitLab project.
    GitlabReviews,
}

impl Stream {
    /// The watermark's key for a repository.
    pub fn key(self, repo_id: i64) -> String {
        let name = match self {
            Self::Git => "git_cursor",
            Self::Svn => "svn_cursor",
            Self::Gitlab => "gitlab_cursor",
            Self::GitlabMr => "gitlab_mr_cursor",
            Self::GitlabReviews => "gitlab_reviews_cursor",
        };
        format!("{name}:{repo_id}")
    }
}

/// A watermark, version 2; the flat form of version 1 is read as well.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Watermark {
    /// The position: `last_rev`, or `last_commit_sha` and `last_commit_ts`, and so on.
    pub place: Map<String, Value>,
    /// When it moved last, as RFC 3339 text.
    pub last_sync_at: Option<String>,
    /// Records of the synchronisation that moved it, so far.
    pub last_sync_count: u64,
}

impl Watermark {
    /// Parses a stored value; a missing or invalid one is the beginning.
    pub fn read(value: Option<&Value>) -> Self {
        let Some(Value::Object(fields)) = value else {
            return Self::default();
        };
        let empty = Map::new();
        let object = |name: &str| fields.get(name).and_then(Value::as_object);
        let (place, stats) = if fields.contains_key("version") {
            (
                object("watermark").unwrap_or(&empty).clone(),
                object("stats").unwrap_or(&empty),
            )
        } else {
            let is_place = |(name, _): &(&String, &Value)| {
                !matches!(name.as_str(), "last_sync_at" | "last_sync_count")
            };
            let pair = |(name, value): (&String, &Value)| (name.clone(), upgraded(name, value));
            (fields.iter().filter(is_place).map(pair).collect(), fields)
        };
        let text = |value: &Value| value.as_str().map(ToOwned::to_owned);
        Self {
            place,
            last_sync_at: stats.get("last_sync_at").and_then(text),
            last_sync_count: stats
                .get("last_sync_count")
                .and_then(Value::as_u64)
                .unwrap_or_default(),
        }
    }

    /// The stored value.
    pub fn to_value(&self) -> Value {
        json!({
            "version": 2,
            "watermark": self.place,
            "stats": {
                "last_sync_at": self.last_sync_at,
                "last_sync_count": self.last_sync_count,
            },
        })
    }
}

/// Version 1 sometimes stored revision numbers as text.
fn upgraded(name: &str, value: &Value) -> Value {
    let number = value.as_str().and_then(|text| text.parse::<i64>().ok());
    match number.filter(|_| name == "last_rev") {
        Some(number) => json!(number),
        None => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Version 1 is upgraded when it is read; what is none is the beginning.
    #[test]
    fn both_versions_are_read() {
        let flat = json!({"last_rev": "100", "last_sync_at": "t", "last_sync_count": 3});
        let read = Watermark::read(Some(&flat));
        assert_eq!(json!(read.place), json!({"last_rev": 100}));
        assert_eq!(read.last_sync_at.as_deref(), Some("t"));
        assert_eq!(read.last_sync_count, 3);
        assert_eq!(Watermark::read(Some(&read.to_value())), read);
        let seed = Watermark::read(Some(&json!({"last_rev": 1000})));
        assert_eq!(json!(seed.place), json!({"last_rev": 1000}));
        for nothing in [None, Some(json!(null)), Some(json!(7)), Some(json!({}))] {
            assert_eq!(Watermark::read(nothing.as_ref()), Watermark::default());
        }
    }
}
