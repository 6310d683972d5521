//! Records, whatever they are.

use crate::{Records, Stream};

impl Records {
    /// None of what a stream has.
    pub fn none(stream: Stream) -> Self {
        match stream {
            Stream::Git | Stream::Gitlab => Self::Commits(Vec::new()),
            Stream::Svn => Self::Revisions(Vec::new()),
            Stream::GitlabMr => Self::MergeRequests(Vec::new()),
            Stream::GitlabReviews => Self::Reviews(Vec::new()),
        }
    }

    /// How many there are.
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

    /// The first ones and the others.
    pub(super) fn split(mut self, at: usize) -> (Self, Self) {
        let others = match &mut self {
            Self::Commits(records) => Self::Commits(records.split_off(at)),
            Self::Revisions(records) => Self::Revisions(records.split_off(at)),
            Self::MergeRequests(records) => Self::MergeRequests(records.split_off(at)),
            Self::Reviews(records) => Self::Reviews(records.split_off(at)),
        };
        (self, others)
    }

    /// What the first one is called.
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

    /// The commits or revisions, by the names their changes have.
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
