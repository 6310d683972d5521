//! What a change is known by: `git:2:abc`.

use std::fmt;

use super::text::decimal;

/// What a row is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceId {
    /// `svn:<repo_id>:<rev_num>`
    Svn {
        /// Of which repository.
        repo_id: i64,
        /// Which revision.
        rev_num: i64,
    },
    /// `git:<repo_id>:<commit_sha>`
    Git {
        /// Of which repository.
        repo_id: i64,
        /// Which commit.
        commit_sha: String,
    },
    /// `mr:<repo_id>:<iid>`
    Mr {
        /// Of which repository.
        repo_id: i64,
        /// Which merge request.
        iid: i64,
    },
    /// `review:<repo_id>:<mr_iid>:<event_id>`
    Review {
        /// Of which repository.
        repo_id: i64,
        /// Of which merge request.
        mr_iid: i64,
        /// Which event.
        event_id: String,
    },
}

impl SourceId {
    /// `svn`, `git`, `mr` or `review`.
    pub fn source_type(&self) -> &'static str {
        match self {
            Self::Svn { .. } => "svn",
            Self::Git { .. } => "git",
            Self::Mr { .. } => "mr",
            Self::Review { .. } => "review",
        }
    }

    /// The same without its type, as evidence URIs have it.
    pub fn without_type(&self) -> String {
        match self {
            Self::Svn { repo_id, rev_num } => format!("{repo_id}:{rev_num}"),
            Self::Git {
                repo_id,
                commit_sha,
            } => format!("{repo_id}:{commit_sha}"),
            Self::Mr { repo_id, iid } => format!("{repo_id}:{iid}"),
            Self::Review {
                repo_id,
                mr_iid,
                event_id,
            } => format!("{repo_id}:{mr_iid}:{event_id}"),
        }
    }
}

impl fmt::Display for SourceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.source_type(), self.without_type())
    }
}

/// Reads what a change is known by.
pub fn parse_source_id(text: &str) -> Option<SourceId> {
    let (source_type, rest) = text.split_once(':')?;
    let (repo_id, rest) = rest.split_once(':')?;
    let repo_id = decimal(repo_id)?;
    Some(match source_type {
        "svn" => SourceId::Svn {
            repo_id,
            rev_num: decimal(rest)?,
        },
        "git" => SourceId::Git {
            repo_id,
            commit_sha: word(rest).filter(|sha| !sha.contains(':'))?,
        },
        "mr" => SourceId::Mr {
            repo_id,
            iid: decimal(rest)?,
        },
        "review" => {
            let (mr_iid, event_id) = rest.split_once(':')?;
            SourceId::Review {
                repo_id,
                mr_iid: decimal(mr_iid)?,
                event_id: word(event_id)?,
            }
        }
        _ => return None,
    })
}

fn word(text: &str) -> Option<String> {
    let is_word = !text.is_empty() && !text.chars().any(|c| c.is_whitespace() || c.is_control());
    is_word.then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_read_and_written() {
        let table = [
            ("svn:1:100", "svn", "1:100"),
            ("git:2:abc", "git", "2:abc"),
            ("mr:2:42", "mr", "2:42"),
            ("review:1:2:x", "review", "1:2:x"),
            ("review:1:2:note:7", "review", "1:2:note:7"),
        ];
        for (text, source_type, without_type) in table {
            let source = parse_source_id(text).unwrap();
            assert_eq!(source.source_type(), source_type);
            assert_eq!(source.without_type(), without_type);
            assert_eq!(source.to_string(), text);
        }
        let git = SourceId::Git {
            repo_id: 2,
            commit_sha: "abc".to_owned(),
        };
        assert_eq!(parse_source_id("git:2:abc"), Some(git));
    }

    #[test]
    fn what_is_no_source_is_refused() {
        let malformed = [
            "",
            "git",
            "git:2",
            "git:2:",
            "hg:1:2",
            "svn:1:r100",
            "svn:-1:100",
            "svn:01:100",
            "svn:1:0100",
            "git:x:abc",
            "git:2:a b",
            "git:2:a:b",
            "mr:2:42:1",
            "review:1:2",
            "review:1:2:",
            "GIT:2:abc",
        ];
        for text in malformed {
            assert_eq!(parse_source_id(text), None, "{text:?}");
        }
    }
}
