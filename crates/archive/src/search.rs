//! Finds archived messages.

use std::collections::VecDeque;

use consign_kernel::{MessageId, QueueName, StateKind};

use crate::{
    Archive, Error, Manifest, Record, Result,
    lines::Lines,
    merge::{Merge, newest_first, overlapping},
};

/// Which messages to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only this queue.
    pub queue: Option<QueueName>,
    /// Only this key.
    pub key: Option<String>,
    /// Only messages whose header `correlation_id` is this text; an erased message has none.
    pub correlation_id: Option<String>,
    /// Only messages in this state.
    pub state: Option<StateKind>,
    /// Only messages with smaller ids.
    pub before: Option<MessageId>,
}

impl Filter {
    /// Whether a file can hold such messages.
    fn may_be_in(&self, manifest: &Manifest) -> bool {
        let queue = self.queue.as_ref();
        queue.is_none_or(|queue| manifest.queues.contains_key(queue))
            && self.before.is_none_or(|before| manifest.first < before)
    }

    /// Whether it is wanted, wherever its id is.
    fn matches(&self, record: &Record) -> bool {
        let message = &record.message;
        self.queue
            .as_ref()
            .is_none_or(|queue| message.queue == *queue)
            && self.state.is_none_or(|state| record.state == state)
            && is_wanted(self.key.as_deref(), message.key.as_deref())
            && is_wanted(self.correlation_id.as_deref(), message.correlation_id())
    }
}

fn is_wanted(wanted: Option<&str>, own: Option<&str>) -> bool {
    wanted.is_none() || wanted == own
}

impl Archive {
    /// The message with this id; if several files hold it, as in the newest one.
    pub fn find(&self, id: MessageId) -> Result<Option<Record>> {
        self.with_manifests(|manifests| {
            for manifest in newest_first(manifests) {
                if !manifest.range().contains(id) {
                    continue;
                }
                let mut lines = Lines::open(self.path(&manifest.file), manifest)?;
                while let Some(line) = lines.next().transpose()? {
                    if line.id == id {
                        return lines.record(&line).map(Some);
                    }
                    if line.id > id {
                        break;
                    }
                }
            }
            Ok(None)
        })
    }

    /// The message with this key in this queue; if there are several, the one with the largest id.
    pub fn find_key(&self, queue: &QueueName, key: &str) -> Result<Option<Record>> {
        let filter = Filter {
            queue: Some(queue.clone()),
            key: Some(key.to_owned()),
            ..Filter::default()
        };
        Ok(self.list(&filter, 1)?.pop())
    }

    /// At most `limit` messages, in descending order of ids. Of a message that several files hold,
    /// the record in the newest one counts.
    ///
    /// Reads files from the newest ids on until it has `limit` messages, and holds no more of them.
    pub fn list(&self, filter: &Filter, limit: usize) -> Result<Vec<Record>> {
        self.with_manifests(|manifests| {
            let manifests = manifests
                .iter()
                .filter(|manifest| filter.may_be_in(manifest));
            let groups = overlapping(manifests.cloned().collect());
            let mut found = Vec::new();
            for group in groups.iter().rev() {
                let wanted = limit - found.len();
                if wanted == 0 {
                    break;
                }
                found.extend(self.list_group(group, filter, wanted)?.into_iter().rev());
            }
            Ok(found)
        })
    }

    /// The last `limit` matches of files that overlap, in ascending order.
    fn list_group(
        &self,
        group: &[Manifest],
        filter: &Filter,
        limit: usize,
    ) -> Result<VecDeque<Record>> {
        let mut matches = VecDeque::new();
        let mut merge = Merge::open(self, group)?;
        let is_over = |id| filter.before.is_some_and(|before| id >= before);
        while merge.next_id().is_some_and(|id| !is_over(id)) {
            let Some(record) = merge.next()?.filter(|record| filter.matches(record)) else {
                continue;
            };
            if matches.len() == limit {
                matches.pop_front();
            }
            matches.push_back(record);
        }
        Ok(matches)
    }

    /// Runs a read with the current manifests.
    ///
    /// A writer may delete a data file after its manifest was read here. Then the manifest has
    /// changed, and the read begins again.
    fn with_manifests<T>(&self, read: impl Fn(&[Manifest]) -> Result<T>) -> Result<T> {
        let mut manifests = self.manifests()?;
        loop {
            let result = read(&manifests);
            if !matches!(result, Err(Error::DataMissing { .. })) {
                return result;
            }
            let current = self.manifests()?;
            if current == manifests {
                return result;
            }
            manifests = current;
        }
    }
}
