//! Manifests: which data file of a range is current, and what it holds.

use std::{collections::BTreeMap, fs, path::Path};

use consign_kernel::{MessageId, QueueName};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{Counts, Error, IdRange, Result, name::Name};

/// The format that this version writes, and the newest that it reads.
pub const FORMAT: u32 = 1;

/// Where and when the messages were read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestFacts {
    /// The kind of store: `postgres` or `sqlite`.
    pub store: String,
    /// The version of the engine's schema in that store.
    pub schema_version: i64,
    /// When the messages were read from that store.
    pub made_at: Timestamp,
}

/// The manifest of one data file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Manifest {
    /// [`FORMAT`] of the version that wrote it.
    pub format: u32,
    /// The smallest id that the file may hold.
    pub first: MessageId,
    /// The largest id that the file may hold.
    pub last: MessageId,
    /// Grows by one when the range is written again.
    pub generation: u64,
    /// The name of the data file, in the same folder.
    pub file: String,
    /// The kind of store: `postgres` or `sqlite`.
    pub store: String,
    /// The version of the engine's schema in that store.
    pub schema_version: i64,
    /// When the messages were read from that store; an erasure keeps it.
    pub made_at: Timestamp,
    /// The rows of all queues.
    pub counts: Counts,
    /// The rows of each queue.
    pub queues: BTreeMap<QueueName, Counts>,
    /// The size of the data file.
    pub bytes: u64,
    /// The size of its lines.
    pub bytes_uncompressed: u64,
    /// The SHA-256 of the data file, in lower-case hex.
    pub sha256: String,
    /// The SHA-256 of its lines, in lower-case hex.
    pub sha256_uncompressed: String,
}

impl Manifest {
    /// The bounds of its ids.
    pub fn range(&self) -> IdRange {
        IdRange {
            first: self.first,
            last: self.last,
        }
    }

    /// Its own file name.
    pub(crate) fn name(&self) -> Name {
        let range = self.range();
        Name::Manifest { range }
    }

    /// The facts it was made with.
    pub(crate) fn facts(&self) -> ManifestFacts {
        ManifestFacts {
            store: self.store.clone(),
            schema_version: self.schema_version,
            made_at: self.made_at,
        }
    }

    /// Reads the manifest of a range from its file.
    pub(crate) fn load(path: &Path, range: IdRange) -> Result<Self> {
        let text = fs::read_to_string(path).map_err(Error::io("read", path))?;
        let damaged = |error: serde_json::Error| Error::damaged(path, error.to_string());
        let Head { format } = serde_json::from_str(&text).map_err(damaged)?;
        if format > FORMAT {
            let (path, known) = (path.to_owned(), FORMAT);
            return Err(Error::NewerFormat {
                path,
                format,
                known,
            });
        }
        let manifest: Self = serde_json::from_str(&text).map_err(damaged)?;
        let generation = manifest.generation;
        let file = Name::Data { range, generation }.to_string();
        // The name decides which file is read, so a foreign one must not lead out of the folder.
        if manifest.range() != range || manifest.file != file || format != FORMAT {
            let why = format!(
                "it names format {format}, ids {} to {} and data file {:?}; expected format \
                 {FORMAT}, ids {} to {} and {file:?}",
                manifest.first, manifest.last, manifest.file, range.first, range.last
            );
            return Err(Error::damaged(path, why));
        }
        Ok(manifest)
    }
}

/// What every format has.
#[derive(Deserialize)]
struct Head {
    format: u32,
}
