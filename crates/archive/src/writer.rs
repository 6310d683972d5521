//! Writes the records of one range.

use std::iter::Peekable;

use consign_kernel::MessageId;

use crate::{
    Archive, Error, IdRange, Manifest, ManifestFacts, Record, Result, WriteLock, draft::Draft,
    lines::Lines,
};

/// Writes one data file and its manifest. Holds the archive's lock.
///
/// Records of the range that were archived earlier and are not appended again stay in the new file;
/// one that is appended again replaces the earlier one. Nothing is visible before
/// [`finish`](Self::finish); a writer that is dropped before it leaves no file.
#[derive(Debug)]
pub struct Writer {
    range: IdRange,
    draft: Draft,
    earlier: Option<CurrentFile>,
    previous: Option<MessageId>,
    is_failed: bool,
    /// Released after the draft is removed.
    _lock: WriteLock,
}

/// The current file of the range.
#[derive(Debug)]
struct CurrentFile {
    manifest: Manifest,
    records: Peekable<EarlierRecords>,
}

/// Every line with its record. The line is copied as it is, with fields that this version does not
/// have.
#[derive(Debug)]
struct EarlierRecords(Lines);

impl Iterator for EarlierRecords {
    type Item = Result<(String, Record)>;

    fn next(&mut self) -> Option<Self::Item> {
        let line = self.0.next()?;
        Some(line.and_then(|line| {
            let record = self.0.record(&line)?;
            Ok((line.text, record))
        }))
    }
}

impl Archive {
    /// Begins the data file of a range. Locks the archive and removes what killed writers left.
    pub fn begin(&self, range: IdRange) -> Result<Writer> {
        let range = range.validate()?;
        let lock = self.lock()?;
        self.sweep_locked(&lock)?;
        let manifest = self.manifest(range)?;
        let draft = Draft::begin(&lock, range, manifest.as_ref())?;
        let earlier = match manifest {
            Some(manifest) => {
                let lines = Lines::open(self.path(&manifest.file), &manifest)?;
                let records = EarlierRecords(lines).peekable();
                Some(CurrentFile { manifest, records })
            }
            None => None,
        };
        Ok(Writer {
            range,
            draft,
            earlier,
            previous: None,
            is_failed: false,
            _lock: lock,
        })
    }
}

impl Writer {
    /// Adds a record, whose id is in the range and above that of the record before it.
    pub fn append(&mut self, record: &Record) -> Result<()> {
        let (id, range) = (record.message.id, self.range);
        if !range.contains(id) {
            return Err(Error::OutOfRange { id, range });
        }
        if let Some(previous) = self.previous.filter(|previous| *previous >= id) {
            return Err(Error::OutOfOrder { id, previous });
        }
        record.validate()?;
        let line = serde_json::to_string(record).map_err(|error| Error::InvalidRecord {
            id,
            why: error.to_string(),
        })?;
        self.previous = Some(id);
        let written = self
            .copy_earlier(Some(id))
            .and_then(|()| self.draft.append(&line, record));
        self.is_failed |= written.is_err();
        written
    }

    /// Syncs the file, compares it with its manifest and commits both.
    ///
    /// An error after the commit (a folder that cannot be synced, an earlier file that cannot be
    /// deleted) leaves the new file current; repeating the range is safe in every case.
    pub fn finish(mut self, facts: ManifestFacts) -> Result<Manifest> {
        if self.is_failed {
            let range = self.range;
            return Err(Error::WriterFailed { range });
        }
        self.copy_earlier(None)?;
        let earlier = self.earlier.map(|earlier| earlier.manifest);
        self.draft.commit(facts, earlier.as_ref())
    }

    /// Copies the earlier records below `until`, and skips the one that has this id.
    fn copy_earlier(&mut self, until: Option<MessageId>) -> Result<()> {
        let Some(earlier) = &mut self.earlier else {
            return Ok(());
        };
        let is_due = |next: &Result<(String, Record)>| match (next, until) {
            (Ok((_, record)), Some(until)) => record.message.id <= until,
            _ => true,
        };
        while let Some(next) = earlier.records.next_if(is_due) {
            let (line, record) = next?;
            if Some(record.message.id) != until {
                self.draft.append(&line, &record)?;
            }
        }
        Ok(())
    }
}
