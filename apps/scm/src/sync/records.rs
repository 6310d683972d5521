//! Operations on records of any kind.

use crate::{Records, Stream};

impl Records {
    /// An empty list for a stream.
    pub fn none(stream: Stream) -> Self {
        match stream {
            Stream::Git | Stream::Gitlab => Self::Commits(Vec::new()),
            Stream::Svn => Self::Revisions(Vec::new()),
            Stream::GitlabMr => Self::MergeRequests(Vec::new()),
            Stream::GitlabReviews => Self::Reviews(Vec::new()),
        }
    }

    /// Number of records.
    pub fn len(&self) -> usize {
        match self {
            Self::Commits(records) => records.len(),
            Self::Revisions(records) => records.len(),
            Self::MergeRequests(records) => records.len(),
            Self::Reviews(records) => records.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Splits the records.
    pub(super) fn split(mut self, at: usize) -> (Self, Self) {
        let others = match &mut self {
            Self::Commits(records) => Self::Commits(records.split_off(at)),
            Self::Revisions(records) => Self::Revisions(records.split_off(at)),
            Self::MergeRequests(records) => Self::MergeRequests(records.split_off(at)),
            Self::Reviews(records) => Self::Reviews(records.split_off(at)),
        };
        (self, others)
    }

    /// Name of the first record.
    pub(super) fn first_name(&self) -> String {
        let name = match self {
            Self::Commits(records) => records.first().map(|record| record.commit_sha.clone()),
            Self::Revisions(records) => {
                records.first().map(|record| format!("r{}", record.rev_num))
            }
            Self::MergeRequests(records) => {
                records.first().map(|record| format!("!{}", record.iid))
            }
            Self::Reviews(records) => records
                .first()
                .map(|record| format!("!{} {}", record.iid, record.source_event_id)),
        };
        name.unwrap_or_default()
    }

    /// The commits or revisions, by the names of their changes.
    pub(super) fn changes(&self) -> Vec<String> {
        match self {
            Self::Commits(records) => records
                .iter()
                .map(|record| record.commit_sha.clone())
                .collect(),
            Self::Revisions(records) => records
                .iter()
                .map(|record| record.rev_num.to_string())
                .collect(),
            Self::MergeRequests(_) | Self::Reviews(_) => Vec::new(),
        }
    }
}
