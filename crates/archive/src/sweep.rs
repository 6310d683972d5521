//! Removes what killed writers left.

use std::collections::BTreeSet;

use crate::{Archive, Error, Manifest, Result, WriteLock, disk, name::Name};

impl Archive {
    /// Removes temporary files and data files that are not current, and returns their names.
    ///
    /// Readers never use such files. A data file of a range without any manifest is kept and is an
    /// error: its manifest was lost. So is a manifest without its data file.
    pub fn sweep(&self) -> Result<Vec<String>> {
        let lock = self.lock()?;
        self.sweep_locked(&lock)
    }

    pub(crate) fn sweep_locked(&self, _lock: &WriteLock) -> Result<Vec<String>> {
        let names = self.names()?;
        let (mut current, mut ranges) = (BTreeSet::new(), BTreeSet::new());
        for manifest in self.manifests()? {
            let (range, generation) = (manifest.range(), manifest.generation);
            let data = Name::Data { range, generation };
            if !names.contains(&data) {
                return Err(Error::DataMissing {
                    path: self.path(data),
                    manifest: manifest.name().to_string(),
                });
            }
            current.insert(data);
            ranges.insert(range);
        }
        let uncommitted = self.uncommitted(&names);

        let (mut stale, mut drafts, mut unknown) = (Vec::new(), Vec::new(), None);
        for name in names {
            match name {
                Name::Manifest { .. } => {}
                Name::DataDraft { .. } | Name::ManifestDraft { .. } => drafts.push(name),
                Name::Data { .. } if current.contains(&name) => {}
                Name::Data { range, .. } => {
                    if ranges.contains(&range) || uncommitted.contains(&name) {
                        stale.push(name);
                    } else {
                        unknown = Some((name, range));
                    }
                }
            }
        }
        // A manifest's draft marks its data file as not committed, so drafts go last.
        let mut removed = self.remove_all(&stale)?;
        removed.extend(self.remove_all(&drafts)?);
        match unknown {
            None => Ok(removed),
            Some((name, range)) => Err(Error::ManifestMissing {
                path: self.path(name),
                manifest: Name::Manifest { range }.to_string(),
            }),
        }
    }

    /// The data files that the drafts of manifests name. A draft is complete before its data file gets
    /// its name, so a draft that cannot be read has no data file.
    fn uncommitted(&self, names: &[Name]) -> BTreeSet<Name> {
        let drafts = names.iter().filter_map(|name| match name {
            Name::ManifestDraft { range } => Manifest::load(&self.path(name), *range).ok(),
            _ => None,
        });
        let data = drafts.map(|draft| Name::Data {
            range: draft.range(),
            generation: draft.generation,
        });
        data.collect()
    }

    fn remove_all(&self, names: &[Name]) -> Result<Vec<String>> {
        let mut removed = Vec::new();
        for name in names {
            disk::remove(&self.path(name))?;
            removed.push(name.to_string());
        }
        if !removed.is_empty() {
            disk::sync_folder(self.folder())?;
        }
        Ok(removed)
    }
}
