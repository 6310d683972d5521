//! Compares a data file with its manifest.

use std::{collections::BTreeMap, path::PathBuf};

use consign_kernel::QueueName;

use crate::{Archive, Counts, Error, Manifest, Result, lines::Lines, tally::Tally};

/// What a verified data file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verification {
    /// The rows of all queues.
    pub counts: Counts,
    /// The rows of each queue.
    pub queues: BTreeMap<QueueName, Counts>,
    /// How many of the messages are erased.
    pub erased: u64,
}

impl Archive {
    /// Reads a data file again and compares it with its manifest: both SHA-256, the counts, the order
    /// and bounds of the ids, and every record.
    pub fn verify(&self, manifest: &Manifest) -> Result<Verification> {
        verify(self.path(&manifest.file), manifest)
    }
}

/// Compares the file at `path` with `manifest`, which need not be committed yet.
pub(crate) fn verify(path: PathBuf, manifest: &Manifest) -> Result<Verification> {
    let mut lines = Lines::open(path, manifest)?;
    let mut tally = Tally::default();
    let mut erased = 0;
    while let Some(line) = lines.next() {
        let record = lines.record(&line?)?;
        let is_valid = record.validate();
        is_valid.map_err(|error| Error::damaged(lines.path(), error.to_string()))?;
        tally.add(&record);
        erased += u64::from(record.erased.is_some());
    }
    let Tally { counts, queues } = tally;
    if counts != manifest.counts || queues != manifest.queues {
        let why = format!(
            "it holds {counts:?} ({queues:?}), its manifest records {:?} ({:?})",
            manifest.counts, manifest.queues
        );
        return Err(Error::damaged(lines.path(), why));
    }
    Ok(Verification {
        counts,
        queues,
        erased,
    })
}
