//! What is known of repositories.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Where a repository is read from.
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
    /// As it is written.
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

/// A repository to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRepo {
    /// Where it is read from.
    pub provider: Provider,
    /// A path, a URL, or the URL of a GitLab project. Never with credentials in it.
    pub url: String,
    /// The project its memories belong to.
    pub project_key: Option<String>,
    /// The branch that is read; absent: the one the repository calls its own.
    pub default_branch: Option<String>,
}

/// A repository that is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Repo {
    /// Its number.
    pub repo_id: i64,
    /// Where it is read from.
    pub provider: Provider,
    /// Where it is.
    pub url: String,
    /// The project its memories belong to.
    pub project_key: Option<String>,
    /// The branch that is read.
    pub default_branch: Option<String>,
    /// Since when it is known.
    pub created_at: Timestamp,
}

/// A commit to write down. `source_id` is made of the repository and `commit_sha` by the ledger.
#[derive(Clone, Debug, PartialEq)]
pub struct NewCommit {
    /// Its full name, in lower-case hex.
    pub commit_sha: String,
    /// `Name <email>`.
    pub author_raw: String,
    /// When it was committed; else when it was written.
    pub ts: Option<Timestamp>,
    /// Its message; what is no UTF-8 in it is replaced, and `meta_json` says so.
    pub message: String,
    /// Whether it has more than one parent.
    pub is_merge: bool,
    /// Why it counts as one of many, if it does.
    pub bulk_reason: Option<String>,
    /// Parents, numbers of lines, paths (some of them), the hash of the record.
    pub meta_json: Value,
}

/// A Subversion revision to write down.
#[derive(Clone, Debug, PartialEq)]
pub struct NewRevision {
    /// Its number.
    pub rev_num: i64,
    /// Who; empty if nobody says.
    pub author_raw: String,
    /// When.
    pub ts: Option<Timestamp>,
    /// Its message.
    pub message: String,
    /// Why it counts as one of many, if it does.
    pub bulk_reason: Option<String>,
    /// Paths (some of them), their number, the hash of the record.
    pub meta_json: Value,
}

/// A merge request as it stands. Written again when it has changed.
#[derive(Clone, Debug, PartialEq)]
pub struct NewMergeRequest {
    /// Its number within the project.
    pub iid: i64,
    /// `opened`, `merged` or `closed`.
    pub status: String,
    /// Its page.
    pub url: Option<String>,
    /// Title, author, branches, times.
    pub meta_json: Value,
    /// When it was made.
    pub created_at: Option<Timestamp>,
    /// When it changed last.
    pub updated_at: Option<Timestamp>,
}

/// Something said or done about a merge request.
#[derive(Clone, Debug, PartialEq)]
pub struct NewReview {
    /// The merge request.
    pub iid: i64,
    /// Its name at the source; the same one is written once.
    pub source_event_id: String,
    /// `comment`, `approve`, `unapprove` and so on.
    pub event_type: String,
    /// Everything else.
    pub payload_json: Value,
    /// When.
    pub ts: Option<Timestamp>,
}

/// What a patch looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PatchFormat {
    /// The whole change.
    Diff,
    /// What changed where, in numbers: the change itself was too large.
    Diffstat,
    /// Only how much.
    Ministat,
}

impl PatchFormat {
    /// As it is written, also as the ending of a file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Diff => "diff",
            Self::Diffstat => "diffstat",
            Self::Ministat => "ministat",
        }
    }
}

/// The change of a commit or revision, fetched or not.
#[derive(Clone, Debug, PartialEq)]
pub struct Patch {
    /// The repository.
    pub repo_id: i64,
    /// `100` or a commit: what follows `<repo_id>:` in `source_id`.
    pub rev_or_sha: String,
    /// Where it is among the artifacts; absent: it could not be fetched, and `error` says why.
    pub uri: Option<String>,
    /// Of what is kept there; of nothing at all while nothing is.
    pub sha256: String,
    /// How large that is.
    pub size_bytes: Option<i64>,
    /// How it is written.
    pub format: PatchFormat,
    /// Why it is not the whole change, if it is not.
    pub degrade_reason: Option<String>,
    /// Why it could not be fetched.
    pub error: Option<String>,
}

/// A commit or revision as it is known, for whoever makes something of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// The position in the repository's history that cursors count by: the serial number of a commit
    /// (a smaller one is never written later in the same repository), the number of a revision.
    pub position: i64,
    /// The repository.
    pub repo_id: i64,
    /// `git:<repo_id>:<sha>` or `svn:<repo_id>:<number>`.
    pub source_id: String,
    /// The commit or revision.
    pub rev_or_sha: String,
    /// Who.
    pub author_raw: String,
    /// When.
    pub ts: Option<Timestamp>,
    /// Its message.
    pub message: String,
    /// Whether it has more than one parent.
    pub is_merge: bool,
    /// Why it counts as one of many, if it does.
    pub bulk_reason: Option<String>,
    /// Everything else.
    pub meta_json: Value,
}
