//! A data file that is being written, and its commit.

use std::{
    fmt,
    io::Write,
    path::{Path, PathBuf},
};

use consign_failpoint::kill_at;
use zstd::stream::write::Encoder;

use crate::{
    Archive, Error, FORMAT, IdRange, Manifest, ManifestFacts, Record, Result, WriteLock,
    disk::{self, OutputFile},
    hash::{Hash, HashedFile},
    name::Name,
    tally::Tally,
    verify::verify,
};

/// A data file under its temporary name. Dropped without a commit, it is removed.
pub(crate) struct Draft {
    archive: Archive,
    range: IdRange,
    generation: u64,
    encoder: Encoder<'static, HashedFile<OutputFile>>,
    lines: Hash,
    tally: Tally,
    leftovers: Leftovers,
}

impl Draft {
    /// Begins the data file that follows `earlier`, the current manifest of the range.
    pub(crate) fn begin(
        lock: &WriteLock,
        range: IdRange,
        earlier: Option<&Manifest>,
    ) -> Result<Self> {
        let archive = lock.archive.clone();
        let generation = earlier.map_or(1, |earlier| earlier.generation + 1);
        let path = archive.path(Name::DataDraft { range, generation });
        let file = OutputFile::create(&path)?;
        let leftovers = Leftovers {
            data: Some(path.clone()),
            manifest: None,
        };
        let encoder = Encoder::new(HashedFile::new(file), zstd::DEFAULT_COMPRESSION_LEVEL);
        let encoder = encoder.and_then(|mut encoder| {
            encoder.include_checksum(true)?;
            Ok(encoder)
        });
        Ok(Self {
            encoder: encoder.map_err(Error::io("compress", &path))?,
            lines: Hash::new(),
            tally: Tally::default(),
            archive,
            range,
            generation,
            leftovers,
        })
    }

    /// Adds a line, which is the JSON of `record`.
    pub(crate) fn append(&mut self, line: &str, record: &Record) -> Result<()> {
        debug_assert!(!line.contains('\n'), "a record is one line");
        for part in [line.as_bytes(), b"\n"] {
            if let Err(error) = self.encoder.write_all(part) {
                return Err(Error::io("write", &self.encoder.get_ref().file.path)(error));
            }
            self.lines.update(part);
        }
        self.tally.add(record);
        Ok(())
    }

    /// Makes the file and its manifest current, then deletes the data file of `earlier`.
    ///
    /// The rename of the manifest is the commit. Its temporary file exists before the data file gets
    /// its name, so that the data file of a killed writer is known as such: one without either
    /// manifest has lost its own and must not be deleted.
    pub(crate) fn commit(
        self,
        facts: ManifestFacts,
        earlier: Option<&Manifest>,
    ) -> Result<Manifest> {
        let Self {
            archive,
            range,
            generation,
            encoder,
            lines,
            tally,
            mut leftovers,
        } = self;
        let draft = archive.path(Name::DataDraft { range, generation });
        let finished = encoder.finish().map_err(Error::io("write", &draft))?;
        finished.file.sync()?;
        kill_at("archive_written");
        let manifest = Manifest {
            format: FORMAT,
            first: range.first,
            last: range.last,
            generation,
            file: Name::Data { range, generation }.to_string(),
            store: facts.store,
            schema_version: facts.schema_version,
            made_at: facts.made_at,
            counts: tally.counts,
            queues: tally.queues,
            bytes: finished.hash.bytes(),
            bytes_uncompressed: lines.bytes(),
            sha256: finished.hash.sha256(),
            sha256_uncompressed: lines.sha256(),
        };
        verify(draft.clone(), &manifest)?;

        let manifest_draft = archive.path(Name::ManifestDraft { range });
        leftovers.manifest = Some(manifest_draft.clone());
        write_manifest(&manifest_draft, &manifest)?;
        disk::sync_folder(archive.folder())?;

        let data = archive.path(&manifest.file);
        disk::rename(&draft, &data)?;
        leftovers.data = Some(data);
        disk::sync_folder(archive.folder())?;

        kill_at("archive_renamed");

        // From here on the data file may be current, whatever the rename reports.
        leftovers.keep();
        disk::rename(&manifest_draft, &archive.path(manifest.name()))?;
        disk::sync_folder(archive.folder())?;

        kill_at("archive_committed");
        if let Some(earlier) = earlier {
            disk::remove(&archive.path(&earlier.file))?;
            disk::sync_folder(archive.folder())?;
        }
        Ok(manifest)
    }
}

fn write_manifest(path: &Path, manifest: &Manifest) -> Result<()> {
    let mut text = serde_json::to_string_pretty(manifest)
        .map_err(|error| Error::io("write", path)(error.into()))?;
    text.push('\n');
    let mut file = OutputFile::create(path)?;
    let written = file.write_all(text.as_bytes());
    written.map_err(Error::io("write", path))?;
    file.sync()
}

impl fmt::Debug for Draft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Draft")
            .field("range", &self.range)
            .field("generation", &self.generation)
            .field("counts", &self.tally.counts)
            .finish_non_exhaustive()
    }
}

/// Files that are removed when the write fails.
#[derive(Debug)]
struct Leftovers {
    data: Option<PathBuf>,
    manifest: Option<PathBuf>,
}

impl Leftovers {
    fn keep(&mut self) {
        (self.data, self.manifest) = (None, None);
    }
}

impl Drop for Leftovers {
    fn drop(&mut self) {
        // The manifest's draft marks the data file as not committed, so it goes last. What cannot
        // be removed now is removed by the next writer; the first error is the one to report.
        let is_removed = self
            .data
            .as_deref()
            .is_none_or(|data| disk::remove(data).is_ok());
        if let Some(manifest) = self.manifest.as_deref().filter(|_| is_removed) {
            drop(disk::remove(manifest));
        }
    }
}
