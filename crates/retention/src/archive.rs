//! Archiving the messages of a departure.

use std::collections::{BTreeMap, BTreeSet};

use consign_archive::{
    Archive, Death, ErasedBy, IdRange, Manifest, ManifestFacts, Writer, payload_digest,
};
use consign_kernel::{Departure, Erasure, MessageId, Record};
use jiff::Timestamp;
use tokio::task::spawn_blocking;

use crate::error::{Error, Result};

/// A data file that is being written. Files are blocking, so every step runs on a thread for that.
pub(crate) struct Draft {
    archive: Archive,
    writer: Writer,
}

impl Draft {
    pub(crate) async fn begin(archive: Archive, departure: &Departure) -> Result<Self> {
        let range = IdRange {
            first: departure.first,
            last: departure.last,
        };
        spawn_blocking(move || {
            let writer = archive.begin(range)?;
            Ok(Self { archive, writer })
        })
        .await?
    }

    pub(crate) async fn append(mut self, records: Vec<Record>) -> Result<Self> {
        spawn_blocking(move || {
            for record in records {
                self.writer.append(&archived(record))?;
            }
            Ok(self)
        })
        .await?
    }

    pub(crate) async fn finish(self, store: &'static str, made_at: Timestamp) -> Result<Archived> {
        spawn_blocking(move || {
            let facts = ManifestFacts {
                store: store.to_owned(),
                schema_version: 1,
                made_at,
            };
            let manifest = self.writer.finish(facts)?;
            self.archive.verify(&manifest)?;
            let records = self.archive.read(&manifest)?;
            Ok(Archived { manifest, records })
        })
        .await?
    }
}

/// A data file that was written, read from its beginning.
pub(crate) struct Archived {
    pub(crate) manifest: Manifest,
    records: consign_archive::Records,
}

impl Archived {
    /// Compares the next records of the file with those of the store. The file may hold others in
    /// between: messages that left earlier.
    pub(crate) async fn compare(mut self, records: Vec<Record>) -> Result<Self> {
        spawn_blocking(move || {
            for record in records {
                let expected = archived(record);
                let id = expected.message.id;
                let found = loop {
                    let Some(next) = self.records.next().transpose()? else {
                        return Err(Error::Differs { id });
                    };
                    if next.message.id >= id {
                        break next;
                    }
                };
                if found != expected {
                    return Err(Error::Differs { id });
                }
            }
            Ok(self)
        })
        .await?
    }
}

/// Erases messages in the archive, in the name of those who erased them in the store.
pub(crate) async fn clear(archive: Archive, due: Vec<(MessageId, Erasure)>) -> Result<()> {
    let mut by_record: BTreeMap<(Timestamp, String, String), BTreeSet<MessageId>> = BTreeMap::new();
    for (id, erasure) in due {
        let record = (erasure.at, erasure.actor, erasure.reason);
        by_record.entry(record).or_default().insert(id);
    }
    spawn_blocking(move || {
        for ((at, actor, reason), ids) in by_record {
            archive.erase(&ids, &ErasedBy { at, actor, reason })?;
        }
        Ok(())
    })
    .await?
}

fn archived(record: Record) -> consign_archive::Record {
    consign_archive::Record {
        digest: match &record.erased {
            Some(erasure) => erasure.digest.clone(),
            None => payload_digest(&record.message.payload),
        },
        state: record.state,
        attempts: record.attempts.into_iter().map(Into::into).collect(),
        late: record.late.into_iter().map(Into::into).collect(),
        audit: record.audit,
        dead: record.dead.map(|letter| Death {
            at: letter.at,
            code: letter.code,
            detail: letter.detail,
        }),
        erased: record.erased,
        message: record.message,
    }
}
