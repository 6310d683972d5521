//! Erases the payloads of archived messages.

use std::collections::BTreeSet;

use consign_kernel::{MessageId, Payload};
use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::{
    Archive, Erasure, Error, Manifest, Record, Result, WriteLock, draft::Draft, lines::Lines,
};

/// Who erases messages, when and why; recorded in each of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErasedBy {
    /// When.
    pub at: Timestamp,
    /// Who.
    pub actor: String,
    /// Why.
    pub reason: String,
}

impl Archive {
    /// Removes payload, headers, results and details of messages from every file that holds them.
    ///
    /// Their other fields and the digest of the payload stay. The old files are deleted when this
    /// returns. Returns the ids that the archive holds, also those erased earlier, which stay as they
    /// are: a call that failed or whose process was killed is repeated until it succeeds.
    pub fn erase(&self, ids: &BTreeSet<MessageId>, by: &ErasedBy) -> Result<Vec<MessageId>> {
        let lock = self.lock()?;
        // The old file of an erasure that was killed after its commit holds the payload.
        self.sweep_locked(&lock)?;
        let mut found = BTreeSet::new();
        for manifest in self.manifests()? {
            let held = self.held(&manifest, ids)?;
            if held.iter().any(|(_, is_erased)| !is_erased) {
                self.rewrite(&lock, &manifest, ids, by)?;
            }
            found.extend(held.into_iter().map(|(id, _)| id));
        }
        Ok(found.into_iter().collect())
    }

    /// Which of the messages a file holds, and whether each is erased.
    fn held(
        &self,
        manifest: &Manifest,
        ids: &BTreeSet<MessageId>,
    ) -> Result<Vec<(MessageId, bool)>> {
        let mut held = Vec::new();
        if ids.range(manifest.first..=manifest.last).next().is_none() {
            return Ok(held);
        }
        let mut lines = Lines::open(self.path(&manifest.file), manifest)?;
        while let Some(line) = lines.next().transpose()? {
            if ids.contains(&line.id) {
                let is_erased = lines.record(&line)?.erased.is_some();
                held.push((line.id, is_erased));
            }
        }
        Ok(held)
    }

    /// Writes the next generation of a file, without what is erased.
    fn rewrite(
        &self,
        lock: &WriteLock,
        manifest: &Manifest,
        ids: &BTreeSet<MessageId>,
        by: &ErasedBy,
    ) -> Result<()> {
        let mut draft = Draft::begin(lock, manifest.range(), Some(manifest))?;
        let mut lines = Lines::open(self.path(&manifest.file), manifest)?;
        while let Some(line) = lines.next().transpose()? {
            let record = lines.record(&line)?;
            if !ids.contains(&line.id) || record.erased.is_some() {
                draft.append(&line.text, &record)?;
                continue;
            }
            let record = erased(record, by);
            let text = serde_json::to_string(&record)
                .map_err(|error| Error::damaged(lines.path(), error.to_string()))?;
            draft.append(&text, &record)?;
        }
        draft.commit(manifest.facts(), Some(manifest))?;
        Ok(())
    }
}

/// The record without what may be personal data.
fn erased(mut record: Record, by: &ErasedBy) -> Record {
    record.message.payload = Payload::from(Value::Null);
    record.message.headers = Map::new();
    for attempt in &mut record.attempts {
        (attempt.detail, attempt.result) = (None, None);
    }
    for late in &mut record.late {
        (late.detail, late.result) = (None, None);
    }
    if let Some(dead) = &mut record.dead {
        dead.detail = None;
    }
    record.erased = Some(Erasure {
        at: by.at,
        actor: by.actor.clone(),
        reason: by.reason.clone(),
        digest: record.digest.clone(),
    });
    record
}
