//! Reads files with overlapping bounds as one.

use consign_kernel::MessageId;

use crate::{
    Archive, Manifest, Record, Result,
    lines::{Line, Lines},
};

/// The lines of several files, in ascending order of ids. Of an id that several files hold, only the
/// line of the newest file.
pub(crate) struct Merge {
    /// The newest first.
    sources: Vec<Source>,
}

struct Source {
    lines: Lines,
    next: Option<Line>,
}

impl Source {
    fn advance(&mut self) -> Result<Option<Line>> {
        let following = self.lines.next().transpose()?;
        Ok(std::mem::replace(&mut self.next, following))
    }
}

impl Merge {
    pub(crate) fn open(archive: &Archive, manifests: &[Manifest]) -> Result<Self> {
        let mut sources = Vec::new();
        for manifest in newest_first(manifests) {
            let lines = Lines::open(archive.path(&manifest.file), manifest)?;
            let mut source = Source { lines, next: None };
            source.advance()?;
            sources.push(source);
        }
        Ok(Self { sources })
    }

    /// The id of the next record.
    pub(crate) fn next_id(&self) -> Option<MessageId> {
        let next = self
            .sources
            .iter()
            .filter_map(|source| source.next.as_ref());
        next.map(|line| line.id).min()
    }

    /// The next record.
    pub(crate) fn next(&mut self) -> Result<Option<Record>> {
        let Some(id) = self.next_id() else {
            return Ok(None);
        };
        let mut record = None;
        for source in &mut self.sources {
            let Some(line) = source.next.as_ref().filter(|line| line.id == id) else {
                continue;
            };
            if record.is_none() {
                record = Some(source.lines.record(line)?);
            }
            source.advance()?;
        }
        Ok(record)
    }
}

/// In descending order of the times at which the messages were read.
pub(crate) fn newest_first(manifests: &[Manifest]) -> Vec<&Manifest> {
    let mut manifests: Vec<&Manifest> = manifests.iter().collect();
    manifests.sort_by_key(|manifest| std::cmp::Reverse((manifest.made_at, manifest.generation)));
    manifests
}

/// Groups of manifests whose bounds overlap, in ascending order of ids. `manifests` is sorted by
/// first ids.
pub(crate) fn overlapping(manifests: Vec<Manifest>) -> Vec<Vec<Manifest>> {
    let mut groups: Vec<Vec<Manifest>> = Vec::new();
    let mut last = None;
    for manifest in manifests {
        let overlaps = last.is_some_and(|last| manifest.first <= last);
        last = last.max(Some(manifest.last));
        match groups.last_mut() {
            Some(group) if overlaps => group.push(manifest),
            _ => groups.push(vec![manifest]),
        }
    }
    groups
}
