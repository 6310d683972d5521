//! Records of repositories.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Kind of source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Provider {
    /// A Git repository, here or elsewhere.
    Git,
    /// A Subversion repository.
    Svn,
    /// A project of a GitLab server, over its API.
    Gitlab,
}

impl Provider {
    /// The stored value.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Git => "git",
            Self::Svn => "svn",
            Self::Gitlab => "gitlab",
        }
    }

    /// `repos.repo_type` and `patch_blobs.source_type`: GitLab's repositories are Git repositories.
    pub fn repo_type(self) -> &'static str {
        match self {
            Self::Svn => "svn",
            Self::Git | Self::Gitlab => "git",
        }
    }
}

/// A repository to add.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRepo {
    /// Kind of source.
    pub provider: Provider,
    /// A path, a URL, or the URL of a GitLab project. Never with credentials.
    pub url: String,
    /// The project its memories belong to.
    pub project_key: Option<String>,
    /// The branch to read; `None`: the repository's default.
    pub default_branch: Option<String>,
}

/// A stored repository.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Repo {
    /// Its id.
    pub repo_id: i64,
    /// Kind of source.
    pub provider: Provider,
    /// Path or URL.
    pub url: String,
    /// The project its memories belong to.
    pub project_key: Option<String>,
    /// The branch to read.
    pub default_branch: Option<String>,
    /// When it was added.
    pub created_at: Timestamp,
}

/// A commit to store. The ledger makes `source_id` of the repository and `commit_sha`.
#[derive(Clone, Debug, PartialEq)]
pub struct NewCommit {
    /// Its full name, in lower-case hex.
    pub commit_sha: String,
    /// `Name <email>`.
    pub author_raw: String,
    /// Commit time; otherwise the author time.
    pub ts: Option<Timestamp>,
    /// Its message; invalid UTF-8 is replaced and marked in `meta_json`.
    pub message: String,
    /// Whether it has more than one parent.
    pub is_merge: bool,
    /// Why it is a bulk change, if it is.
    pub bulk_reason: Option<String>,
    /// Parents, line counts, the first paths, the hash of the record.
    pub meta_json: Value,
}

/// A Subversion revision to store.
#[derive(Clone, Debug, PartialEq)]
pub struct NewRevision {
    /// Its number.
    pub rev_num: i64,
    /// Author; empty if unknown.
    pub author_raw: String,
    /// Time.
    pub ts: Option<Timestamp>,
    /// Its message.
    pub message: String,
    /// Why it is a bulk change, if it is.
    pub bulk_reason: Option<String>,
    /// The first paths, their number, the hash of the record.
    pub meta_json: Value,
}

/// A merge request. Stored again when it changes.
#[derive(Clone, Debug, PartialEq)]
pub struct NewMergeRequest {
    /// Its number within the project.
    pub iid: i64,
    /// `opened`, `merged` or `closed`.
    pub status: String,
    /// URL of its page.
    pub url: Option<String>,
    /// Title, author, branches, times.
    pub meta_json: Value,
    /// Time of creation.
    pub created_at: Option<Timestamp>,
    /// Time of the last change.
    pub updated_at: Option<Timestamp>,
}

/// An event of a merge request.
#[derive(Clone, Debug, PartialEq)]
pub struct NewReview {
    /// The merge request.
    pub iid: i64,
    /// Its id at the source; stored once.
    pub source_event_id: String,
    /// `comment`, `approve`, `unapprove` and so on.
    pub event_type: String,
    /// Further fields.
    pub payload_json: Value,
    /// Time.
    pub ts: Option<Timestamp>,
}

/// Format of a stored change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PatchFormat {
    /// The whole change.
    Diff,
    /// Line counts per file: the change was too large.
    Diffstat,
    /// Only its size.
    Ministat,
}

impl PatchFormat {
    /// The stored value, also the file name extension.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Diff => "diff",
            Self::Diffstat => "diffstat",
            Self::Ministat => "ministat",
        }
    }
}

/// The change of a commit or revision, fetched or failed.
#[derive(Clone, Debug, PartialEq)]
pub struct Patch {
    /// The repository.
    pub repo_id: i64,
    /// `100` or a commit: what follows `<repo_id>:` in `source_id`.
    pub rev_or_sha: String,
    /// Its artifact; `None`: it could not be fetched, see `error`.
    pub uri: Option<String>,
    /// Hash of the artifact; of no bytes without one.
    pub sha256: String,
    /// Size of the artifact.
    pub size_bytes: Option<i64>,
    /// Format of the artifact.
    pub format: PatchFormat,
    /// Why the change is partial, if it is.
    pub degrade_reason: Option<String>,
    /// Why it could not be fetched.
    pub error: Option<String>,
}

/// A stored commit or revision, for consumers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// Position in the repository's history, used by cursors: the serial number of a commit (never
    /// followed by a smaller one in the same repository), or the number of a revision.
    pub position: i64,
    /// The repository.
    pub repo_id: i64,
    /// `git:<repo_id>:<sha>` or `svn:<repo_id>:<number>`.
    pub source_id: String,
    /// The commit or revision.
    pub rev_or_sha: String,
    /// Author.
    pub author_raw: String,
    /// Time.
    pub ts: Option<Timestamp>,
    /// Its message.
    pub message: String,
    /// Whether it has more than one parent.
    pub is_merge: bool,
    /// Why it is a bulk change, if it is.
    pub bulk_reason: Option<String>,
    /// Further fields.
    pub meta_json: Value,
}
